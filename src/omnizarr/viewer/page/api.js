/** Requests to the server. Every address is relative, so that the page works behind any prefix. */

const ARRAYS = {
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  uint32: Uint32Array,
  int32: Int32Array,
  float32: Float32Array,
  float64: Float64Array,
};

/** Statuses of a server that is away, or has too much to do. */
export const BUSY = [0, 429, 503];

/** An answer that is not a success, with what the server said about it. */
export class ServerError extends Error {
  constructor(status, body) {
    super(body.error || `the server answered ${status}`);
    this.status = status;
    this.chunk = body.chunk ?? null; // the place of a damaged chunk in the grid
    this.key = body.key ?? null; // and the key it is stored at
  }
}

async function request(name, query, signal) {
  let response;
  try {
    response = await fetch(`api/${name}?${new URLSearchParams(query)}`, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, { error: "the server cannot be reached" });
  }
  if (response.ok) return response;
  let body = {};
  try {
    body = await response.json();
  } catch {
    // An answer of a proxy, not of this server: its status says enough.
  }
  throw new ServerError(response.status, body);
}

/** Return the description of a node. */
export async function getNode(path, signal) {
  return (await request("node", { path }, signal)).json();
}

/** Return one page of the members of a group. */
export async function getMembers(path, offset = 0, limit = 200) {
  return (await request("members", { path, offset, limit })).json();
}

/** Return which chunks of an array are stored: the grid and a function of its flattened index. */
export async function getChunks(path, signal) {
  const { grid, present, aggregated = null } = await (await request("chunks", { path }, signal)).json();
  const bits = Uint8Array.from(atob(present), (letter) => letter.charCodeAt(0));
  // numpy.packbits: the first chunk is the highest bit of the first byte.
  return { grid, aggregated, isPresent: (i) => ((bits[i >> 3] >> (7 - (i & 7))) & 1) === 1 };
}

/** Write a selection: numbers and [start, stop, step] of each axis. */
export function selectText(items) {
  return items
    .map((item) => (Array.isArray(item) ? (item[2] > 1 ? item : item.slice(0, 2)).join(":") : item))
    .join(",");
}

/**
 * Return the least and the greatest of every `step` values of a selection, in turns, as `{values,
 * extremes}`; of more than the server reads for one answer, one value of so many.
 */
export async function getExtremes(path, items, options) {
  try {
    const { values } = await getValues(path, items, { ...options, extremes: true });
    const count = values.length / 2;
    return { values: Float64Array.from(values, (_, i) => values[(i >> 1) + (i & 1) * count]), extremes: true };
  } catch (error) {
    if (error.status !== 413) throw error;
    return { values: (await getValues(path, items, options)).values, extremes: false };
  }
}

/** Return the values of a selection as `{values, shape, missing}`, or JSON for text. */
export async function getValues(path, items, { signal, decode, exact, extremes } = {}) {
  const query = { path, select: selectText(items) };
  if (decode) query.decode = decode;
  if (exact) query.exact = "1";
  if (extremes) query.extremes = "1";
  const response = await request("values", query, signal);
  if ((response.headers.get("Content-Type") || "").includes("json")) return response.json();
  const Type = ARRAYS[response.headers.get("X-Dtype")];
  const shape = (response.headers.get("X-Shape") || "").split(",").filter(Boolean).map(Number);
  const bytes = await response.arrayBuffer();
  return { values: new Type(bytes), shape, missing: response.headers.get("X-Missing") === "1" };
}
