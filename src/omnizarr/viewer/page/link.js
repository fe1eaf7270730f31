/** Deep links: the fragment of the address holds the path of the node and the state of its view. */

/** Split a fragment into the path of a node and the settings of its view. */
export function parseLink(fragment) {
  const text = fragment.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const path = (cut < 0 ? text : text.slice(0, cut)).split("/").map(decode).join("/");
  return { path, settings: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Write the fragment of a node, with settings where there are some. */
export function formatLink(path, settings = {}) {
  const place = path.split("/").map(encodeURIComponent).join("/");
  // Commas, colons and semicolons are legal in a fragment and easier to read than their escapes.
  const query = new URLSearchParams(settings).toString().replaceAll("%2C", ",").replaceAll("%3A", ":").replaceAll("%3B", ";");
  return `#/${place}${query ? `?${query}` : ""}`;
}

/** Read numbers that commas separate; null where there are none, or one is not finite. */
export function readNumbers(text, count = null) {
  if (!text) return null;
  const numbers = text.split(",").map(Number);
  const right = count === null || numbers.length === count;
  return right && numbers.every(Number.isFinite) ? numbers : null;
}
