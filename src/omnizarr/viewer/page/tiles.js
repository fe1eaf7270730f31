/**
 * Tiles of values: fetched when they are visible, cancelled when they are not any more, decoded
 * once and kept while there is room.
 */

import { BUSY, getValues, ServerError } from "./api.js";

const AT_ONCE = 6; // requests; browsers open no more connections to one server
const TRIES = 4; // of a request to a server that is busy or away
const AGAIN = 5000; // milliseconds until a tile is asked for once more
const SPLITS = 24; // further requests to find the damaged chunks of one tile

/** Values by key; those that were used longest ago leave when there are too many bytes. */
export class TileCache {
  constructor(limit = 256 * 2 ** 20) {
    this.limit = limit;
    this.bytes = 0;
    this.tiles = new Map(); // in order of use
  }

  get(key) {
    const tile = this.tiles.get(key);
    if (tile) {
      this.tiles.delete(key);
      this.tiles.set(key, tile);
    }
    return tile;
  }

  set(key, tile) {
    this.drop(key);
    // A painted copy of the values needs four bytes a pixel.
    tile.bytes = (tile.values?.byteLength ?? 0) + 4 * (tile.values?.length ?? 0) + 200;
    this.tiles.set(key, tile);
    this.bytes += tile.bytes;
    for (const old of this.tiles.keys()) {
      if (this.bytes <= this.limit || old === key) break;
      this.drop(old);
    }
  }

  drop(key) {
    const tile = this.tiles.get(key);
    if (!tile) return;
    this.bytes -= tile.bytes;
    this.tiles.delete(key);
  }
}

/** Fetches the tiles that are wanted, nearest first, and tells when one has come. */
export class TileLoader {
  constructor(cache, onLoad) {
    this.cache = cache;
    this.onLoad = onLoad;
    this.queue = [];
    this.running = new Map(); // key → AbortController
  }

  /** Replace what is wanted: `{key, tile, select, transposed}`; requests of other tiles end. */
  want(wanted) {
    const keys = new Set(wanted.map((one) => one.key));
    for (const [key, controller] of this.running) {
      if (keys.has(key)) continue;
      controller.abort();
      this.running.delete(key);
    }
    this.queue = wanted.filter((one) => !this.running.has(one.key) && !this.has(one.key));
    this.start();
  }

  /** True if a tile is there; one that failed since the server was away is asked for again later. */
  has(key) {
    const tile = this.cache.get(key);
    return tile !== undefined && !(tile.again < Date.now());
  }

  get busy() {
    return this.queue.length + this.running.size > 0;
  }

  close() {
    this.want([]);
  }

  start() {
    while (this.running.size < AT_ONCE && this.queue.length) {
      const one = this.queue.shift();
      const controller = new AbortController();
      this.running.set(one.key, controller);
      this.load(one, controller);
    }
  }

  /** Fetch a tile; wait a little and try again while the server is busy or away. */
  async fetchWithRetries(one, signal) {
    for (let tries = 1; ; tries += 1) {
      try {
        return await fetchTile(one, signal);
      } catch (error) {
        if (signal.aborted || tries === TRIES || !BUSY.includes(error.status)) throw error;
        await pause(200 * 2 ** tries, signal);
      }
    }
  }

  async load(one, controller) {
    let tile;
    try {
      tile = await this.fetchWithRetries(one, controller.signal);
    } catch (error) {
      if (controller.signal.aborted) return;
      const again = BUSY.includes(error.status) ? Date.now() + AGAIN : undefined;
      if (again) setTimeout(this.onLoad, AGAIN + 100); // the picture then asks for it again
      tile = { values: null, again, problems: [{ rows: null, columns: null, text: error.message }] };
    }
    if (controller.signal.aborted) return;
    this.running.delete(one.key);
    this.cache.set(one.key, { ...tile, ...one.tile, slice: one.slice });
    this.start();
    this.onLoad();
  }
}

/** Wait for some milliseconds, or until the signal ends it. */
function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}

/** Fetch the values of a tile; around damaged chunks, fetch what can be read and note the rest. */
async function fetchTile(one, signal) {
  const { rows, columns } = one.tile;
  const whole = { rows: [rows.start, rows.stop], columns: [columns.start, columns.stop] };
  try {
    return { ...(await fetchPart(one, whole, signal)), problems: [] };
  } catch (error) {
    if (!(error instanceof ServerError) || error.status !== 422) throw error;
    const tile = { values: null, missing: false, problems: [] };
    const left = { requests: SPLITS };
    await fetchAround(one, whole, error, tile, left, signal);
    return tile;
  }
}

/** Cut a part that holds a damaged chunk in two, again and again, until only that chunk is left. */
async function fetchAround(one, part, error, tile, left, signal) {
  const pieces = left.requests >= 2 ? halve(one.tile.resolution, part) : null;
  if (!pieces) {
    tile.problems.push({ ...part, text: error.message });
    return;
  }
  for (const piece of pieces) {
    left.requests -= 1;
    try {
      insert(one.tile, tile, piece, (await fetchPart(one, piece, signal)).values);
    } catch (problem) {
      if (!(problem instanceof ServerError) || problem.status !== 422) throw problem;
      await fetchAround(one, piece, problem, tile, left, signal);
    }
  }
}

/** Return the halves of a part, cut between chunks along its longer axis; null for one chunk. */
function halve({ rows, columns }, part) {
  const cut = ([start, stop], { chunk, step }) => {
    const unit = chunk % step === 0 ? chunk : chunk * step;
    const first = Math.floor(start / unit);
    const count = Math.ceil(stop / unit) - first;
    return { count, middle: count > 1 ? (first + (count >> 1)) * unit : null };
  };
  const [down, across] = [cut(part.rows, rows), cut(part.columns, columns)];
  if (down.middle === null && across.middle === null) return null;
  if (down.count >= across.count) {
    const [start, stop] = part.rows;
    return [{ ...part, rows: [start, down.middle] }, { ...part, rows: [down.middle, stop] }];
  }
  const [start, stop] = part.columns;
  return [{ ...part, columns: [start, across.middle] }, { ...part, columns: [across.middle, stop] }];
}

async function fetchPart(one, part, signal) {
  const { rows, columns } = one.tile.resolution;
  const items = [...one.select];
  items[one.axes[0]] = [...part.rows, rows.step];
  items[one.axes[1]] = [...part.columns, columns.step];
  const answer = await getValues(one.tile.resolution.path, items, { signal, decode: one.decode });
  if (one.axes[0] > one.axes[1]) answer.values = transpose(answer.values, answer.shape);
  return answer;
}

/** Return the values of a matrix, column by column. */
export function transpose(values, [rows, columns]) {
  const turned = new values.constructor(values.length);
  for (let i = 0; i < rows; i += 1) {
    for (let j = 0; j < columns; j += 1) turned[j * rows + i] = values[i * columns + j];
  }
  return turned;
}

function insert(place, tile, part, values) {
  const { rows, columns, resolution } = place;
  tile.values ??= new values.constructor(rows.count * columns.count);
  const top = Math.ceil((part.rows[0] - rows.start) / resolution.rows.step);
  const left = Math.ceil((part.columns[0] - columns.start) / resolution.columns.step);
  const across = Math.ceil((part.columns[1] - part.columns[0]) / resolution.columns.step);
  for (let i = 0; i * across < values.length; i += 1) {
    tile.values.set(values.subarray(i * across, (i + 1) * across), (top + i) * columns.count + left);
  }
}

/** Return the values of a tile inside of a box of the largest level, as a list of arrays. */
export function valuesWithin(tile, [top, left, bottom, right]) {
  if (!tile.values) return [];
  const { rows, columns } = tile.resolution;
  const cut = (part, range, from, to) => {
    const first = range.start / part.step;
    const at = (place, round) => Math.min(range.count, Math.max(0, round((place - part.origin) / part.factor) - first));
    return [at(from, Math.floor), at(to, Math.ceil)];
  };
  const [r0, r1] = cut(rows, tile.rows, top, bottom);
  const [c0, c1] = cut(columns, tile.columns, left, right);
  const width = tile.columns.count;
  if (r0 === 0 && c0 === 0 && r1 === tile.rows.count && c1 === width) return [tile.values];
  const found = [];
  for (let r = r0; r < r1 && c0 < c1; r += 1) found.push(tile.values.subarray(r * width + c0, r * width + c1));
  return found;
}

/** Return the value of a tile at a place of the largest level; null where it cannot be read. */
export function valueAt(tile, row, column) {
  const found = look(tile, row, column);
  return found && !found.problem ? found.value : null;
}

/** Return why a place of a tile cannot be read; null where it can. */
export function problemAt(tile, row, column) {
  return look(tile, row, column)?.problem ?? null;
}

function look(tile, row, column) {
  const { resolution } = tile;
  const at = (part, range, place) => {
    const index = Math.floor((place - part.origin) / part.factor) * part.step;
    return index >= range.start && index < range.stop ? index : null;
  };
  const [r, c] = [at(resolution.rows, tile.rows, row), at(resolution.columns, tile.columns, column)];
  if (r === null || c === null) return null;
  for (const { rows, columns, text } of tile.problems) {
    if (!rows || (r >= rows[0] && r < rows[1] && c >= columns[0] && c < columns[1])) return { problem: text };
  }
  const i = (r - tile.rows.start) / resolution.rows.step;
  const j = (c - tile.columns.start) / resolution.columns.step;
  return { value: tile.values[i * tile.columns.count + j] };
}
