/**
 * Which pixels to fetch: the level of a pyramid that fits the zoom, read with a step where even the
 * coarsest is too fine, and cut into tiles along chunk borders.
 *
 * Places are in pixels of the largest level: pixel i covers [i, i + 1).
 */

const SMALL = 256; // tiles of chunks that are shorter than this join several
const LARGE = 1024; // and longer chunks are cut

/** Return the length of the tiles along one axis, a multiple or a part of the chunk length. */
export function tileLength(chunk, size) {
  if (!(chunk > 0)) return Math.min(size, 512) || 1;
  if (chunk > LARGE) {
    const least = Math.ceil(chunk / LARGE);
    for (let parts = least; parts <= 4 * least; parts += 1) if (chunk % parts === 0) return chunk / parts;
    return Math.ceil(chunk / least);
  }
  return Math.min(chunk * Math.max(1, Math.round(SMALL / chunk)), Math.max(1, size));
}

/** Return the pixels of the largest level that one pixel of a level covers, and where it begins. */
function place(levels, level, axis) {
  const [first, own] = [levels[0], levels[level]];
  const factor = level === 0 ? 1 : (own.scale?.[axis] ?? 1) / (first.scale?.[axis] ?? 1) || 1;
  const shift = ((own.translation?.[axis] ?? 0) - (first.translation?.[axis] ?? 0)) / (first.scale?.[axis] ?? 1);
  // Many writers compute means of blocks and state no translation: blocks then share their corners.
  const origin = level === 0 || shift === 0 ? 0 : shift + 0.5 - factor / 2;
  return { factor, origin };
}

/** List the resolutions of a plane, finest first; `axes` are the axes of its rows and columns. */
export function resolutions(levels, axes) {
  const found = levels.map((level, i) => resolution(levels, i, axes, [1, 1]));
  const last = levels.length - 1;
  // Steps of a power of two until the plane fits into a small picture.
  const lengths = axes.map((axis) => levels[last].shape[axis]);
  for (let step = 2; lengths.some((n) => n / step >= SMALL / 2); step *= 2) {
    const steps = lengths.map((n) => Math.max(1, Math.min(step, 2 ** Math.floor(Math.log2(Math.max(1, n / 64))))));
    found.push(resolution(levels, last, axes, steps));
  }
  return found.map((one, index) => ({ ...one, index }));
}

function resolution(levels, level, axes, steps) {
  const own = levels[level];
  const parts = axes.map((axis, k) => {
    const { factor, origin } = place(levels, level, axis);
    const chunk = own.chunks?.[axis];
    return {
      origin,
      factor: factor * steps[k],
      length: own.shape[axis],
      step: steps[k],
      tile: tileLength(Number(chunk), own.shape[axis]),
      chunk: Number(chunk) || own.shape[axis],
    };
  });
  return { level, path: own.path, rows: parts[0], columns: parts[1] };
}

/** Choose the coarsest resolution whose pixels are at most about one pixel of the screen. */
export function chooseResolution(list, rowPixels, columnPixels) {
  let best = list[0];
  for (const one of list) {
    const size = Math.max(one.rows.factor * rowPixels, one.columns.factor * columnPixels);
    if (size <= 1.25) best = one;
  }
  return best;
}

/** List the tiles of a resolution that meet a box [top, left, bottom, right], the centre first. */
export function tilesWithin(one, [top, left, bottom, right]) {
  const rows = tileRange(one.rows, top, bottom);
  const columns = tileRange(one.columns, left, right);
  const found = [];
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    for (let j = columns[0]; j <= columns[1]; j += 1) found.push(tileAt(one, i, j));
  }
  const [y, x] = [(top + bottom) / 2, (left + right) / 2];
  const far = (t) => Math.hypot((t.box[0] + t.box[2]) / 2 - y, (t.box[1] + t.box[3]) / 2 - x);
  return found.sort((a, b) => far(a) - far(b));
}

function tileRange(part, from, to) {
  const span = part.tile * part.factor; // pixels of the largest level
  const count = Math.ceil(part.length / (part.tile * part.step));
  const first = Math.max(0, Math.floor((from - part.origin) / span));
  return [first, Math.min(count - 1, Math.ceil((to - part.origin) / span) - 1)];
}

function tileAt(one, i, j) {
  const cut = (part, n) => {
    const start = n * part.tile * part.step;
    const stop = Math.min(part.length, (n + 1) * part.tile * part.step);
    return { start, stop, count: Math.ceil((stop - start) / part.step) };
  };
  const [rows, columns] = [cut(one.rows, i), cut(one.columns, j)];
  const edge = (part, at) => part.origin + (at * part.factor) / part.step;
  return {
    resolution: one,
    name: `${one.index}/${i}/${j}`,
    rows,
    columns,
    // The last sample of a step may stand for fewer pixels than the others: its box ends with the data.
    box: [
      edge(one.rows, rows.start),
      edge(one.columns, columns.start),
      edge(one.rows, rows.start + rows.count * one.rows.step),
      edge(one.columns, columns.start + columns.count * one.columns.step),
    ],
  };
}

/** Return the index of a level that holds an index of the largest level. */
export function levelIndex(levels, level, axis, index) {
  const { factor, origin } = place(levels, level, axis);
  const found = Math.floor((index + 0.5 - origin) / factor);
  return Math.min(levels[level].shape[axis] - 1, Math.max(0, found));
}
