/** Pictures of chunk grids: the shape of an array with its chunks, and which of them are stored. */

import { prepareCanvas, svg, themeColor } from "./dom.js";
import { countText } from "./format.js";

const LINES = 48; // more borders than this along an axis are not told apart

/** Draw the last three axes of an array as a box, with borders of chunks and, thicker, of shards. */
export function chunkFigure(shape, chunks, shards) {
  if (!shape?.length || shape.some((n) => n === 0)) return null;
  const last = shape.slice(-3);
  const longest = Math.max(...last);
  // Very different lengths are compressed, as otherwise the short axes would vanish.
  const sizes = last.map((n) => Math.max(14, 150 * (n / longest) ** 0.6));
  while (sizes.length < 3) sizes.unshift(0);
  const [deep, tall, wide] = last.length === 1 ? [0, 26, sizes[2]] : sizes;
  const slant = deep * 0.45;
  const [width, height] = [wide + slant + 4, tall + slant + 4];
  const [left, top] = [2, 2 + slant];
  const counts = (list) => padded((list ?? []).slice(-3).map((n, i) => Math.max(1, Math.ceil(last[i] / (Number(n) || last[i])))));
  const figure = svg("svg", {
    class: "chunk-figure", viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `${countText(chunkCount(shape, chunks))} chunks`,
  });
  const faces = [
    { at: (u, v) => [left + u * wide, top + v * tall], across: 2, down: 1 },
    ...(deep ? [
      { at: (u, v) => [left + u * wide + v * slant, top - v * slant], across: 2, down: 0 },
      { at: (u, v) => [left + wide + u * slant, top + v * tall - u * slant], across: 0, down: 1 },
    ] : []),
  ];
  faces.forEach((face, i) => {
    const corners = [face.at(0, 0), face.at(1, 0), face.at(1, 1), face.at(0, 1)];
    figure.append(svg("polygon", { points: corners.join(" "), class: `face face-${i}` }));
    figure.append(borders(face, counts(chunks), "chunk"));
    if (shards) figure.append(borders(face, counts(shards), "shard"));
  });
  return figure;
}

function padded(list) {
  return [...Array(3 - list.length).fill(1), ...list];
}

function borders(face, counts, name) {
  const path = [];
  const line = (a, b) => path.push(`M${a.map(short)}L${b.map(short)}`);
  const across = Math.min(LINES, counts[face.across]);
  const down = Math.min(LINES, counts[face.down]);
  for (let i = 1; i < across; i += 1) line(face.at(i / across, 0), face.at(i / across, 1));
  for (let i = 1; i < down; i += 1) line(face.at(0, i / down), face.at(1, i / down));
  return svg("path", { d: path.join(""), class: name });
}

function short(number) {
  return number.toFixed(1);
}

function chunkCount(shape, chunks) {
  return shape.reduce((product, n, i) => product * Math.ceil(n / (Number(chunks?.[i]) || n)), 1);
}

/** Draw which chunks of the plane that is looked at are stored; return a sentence about all. */
export function drawPresence(canvas, { grid, aggregated, isPresent }, node, looked) {
  const rank = grid.length;
  const [rowAxis, columnAxis] = rank > 1 ? looked?.axes ?? [rank - 2, rank - 1] : [null, 0];
  const strides = grid.map((_, i) => grid.slice(i + 1).reduce((a, b) => a * b, 1));
  const sizes = grid.map((n, i) => Math.ceil(node.shape[i] / n)); // of a cell, in elements
  const base = grid.reduce((sum, n, i) => {
    if (i === rowAxis || i === columnAxis) return sum;
    return sum + strides[i] * Math.min(n - 1, Math.floor((looked?.at?.[i] ?? 0) / sizes[i]));
  }, 0);
  const rows = rowAxis === null ? 1 : grid[rowAxis];
  const columns = grid[columnAxis];
  const size = Math.max(1, Math.min(24, Math.floor(240 / columns), Math.floor(240 / rows)));
  canvas.style.width = `${Math.min(240, columns * size)}px`;
  canvas.style.height = `${Math.min(240, rows * size)}px`;
  const { context, width, height } = prepareCanvas(canvas);
  context.clearRect(0, 0, width, height);
  const [w, hgt] = [width / columns, height / rows];
  const gap = w > 4 && hgt > 4 ? 1 : 0;
  const [full, empty] = [themeColor("accent"), themeColor("line")];
  for (let r = 0; r < rows; r += 1) {
    for (let c = 0; c < columns; c += 1) {
      const index = base + (rowAxis === null ? 0 : r * strides[rowAxis]) + c * strides[columnAxis];
      context.fillStyle = isPresent(index) ? full : empty;
      context.fillRect(c * w, r * hgt, Math.max(1, w - gap), Math.max(1, hgt - gap));
    }
  }
  const total = grid.reduce((a, b) => a * b, 1);
  let present = 0;
  for (let i = 0; i < total; i += 1) if (isPresent(i)) present += 1;
  const unit = aggregated ? `blocks of ${aggregated.join(" × ")} chunks` : "chunks";
  const plane = rank > 2 ? "; the picture shows the plane that is looked at" : "";
  return `${countText(present)} of ${countText(total)} ${unit} are stored${plane}`;
}
