/** Numbers, sizes, times and units as text. */

const LENGTHS = {
  angstrom: 1e-10, nanometer: 1e-9, micrometer: 1e-6, micron: 1e-6, millimeter: 1e-3,
  centimeter: 1e-2, meter: 1, kilometer: 1e3, m: 1, km: 1e3, mm: 1e-3, um: 1e-6, "µm": 1e-6, nm: 1e-9,
  metre: 1, kilometre: 1e3, meters: 1, metres: 1,
};
const SYMBOLS = [["km", 1e3], ["m", 1], ["mm", 1e-3], ["µm", 1e-6], ["nm", 1e-9]];
const SHORT = {
  micrometer: "µm", nanometer: "nm", millimeter: "mm", centimeter: "cm", meter: "m", metre: "m",
  kilometer: "km", angstrom: "Å", micron: "µm", second: "s", millisecond: "ms", minute: "min",
  hour: "h", degrees_north: "°N", degrees_east: "°E", degree_north: "°N", degree_east: "°E",
  degrees: "°", degree: "°",
};

/** Return the usual symbol of a unit, or its name. */
export function unitText(unit) {
  return unit ? SHORT[unit] ?? unit : "";
}

/** Write a number with at most `digits` significant digits. */
export function numberText(value, digits = 6) {
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value).replace("-", "−");
  const size = Math.abs(value);
  const text =
    size >= 1e-4 && size < 1e9
      ? String(Number(value.toPrecision(digits)))
      : value.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e").replace("e+", "e");
  return text.replace("-", "−");
}

/** Write a count with thin spaces between thousands. */
export function countText(value) {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, " ");
}

/** Write a number of bytes. */
export function bytesText(bytes) {
  if (bytes === null || bytes === undefined) return "";
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let i = -1;
  do {
    bytes /= 1024;
    i += 1;
  } while (bytes >= 1024 && i < units.length - 1);
  return `${bytes >= 100 ? bytes.toFixed(0) : bytes.toFixed(1)} ${units[i]}`;
}

/** Say what is drawn of every so many values. */
export function stepText(step, extremes) {
  return extremes ? `the least and the greatest of every ${countText(step)}` : `one of ${countText(step)}`;
}

/** Write the kind of a member, with the format of a hierarchy in a folder. */
export function kindText({ kind, zarr_format: version }) {
  const name = kind === "image" ? "OME-Zarr image" : kind;
  return version === undefined ? name : `${name}, Zarr ${version}`;
}

/** Write a shape. */
export function shapeText(shape) {
  if (!shape) return "";
  return shape.length ? shape.map((n) => (Array.isArray(n) ? `${n.length} lengths` : countText(n))).join(" × ") : "scalar";
}

/** Write milliseconds since 1970 as a date, as finely as `step` milliseconds need. */
export function timeText(milliseconds, step = 1) {
  if (!Number.isFinite(milliseconds)) return "not a time";
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime())) return `${numberText(milliseconds)} ms`;
  const text = date.toISOString();
  if (step >= 364 * 864e5) return text.replace(/-\d\d-\d\dT.*/, "");
  if (step >= 28 * 864e5) return text.replace(/-\d\dT.*/, "");
  if (step >= 864e5) return text.replace(/T.*/, "");
  if (step >= 6e4) return text.replace("T", " ").replace(/:\d\d\.\d+Z$/, "");
  if (step >= 1e3) return text.replace("T", " ").replace(/\.\d+Z$/, "");
  return text.replace("T", " ").replace(/\.?0*Z$/, "");
}

/** Write a date that is a text, such as 2001-02-30T00:00:00. */
export function dateText(text) {
  return String(text).replace("T", " ").replace(/ 00:00:00$/, "");
}

/** True if a calendar of CF is that of the browser. */
export function isKnownCalendar(name = "standard") {
  return ["standard", "gregorian", "proleptic_gregorian"].includes(String(name).toLowerCase());
}

/** Return the largest of 1, 2, 5 × 10ⁿ that is at most `limit`. */
export function roundDown(limit) {
  const power = 10 ** Math.floor(Math.log10(limit));
  const lead = limit / power;
  return (lead >= 5 ? 5 : lead >= 2 ? 2 : 1) * power;
}

/** Return positions of ticks between two numbers, about `count` of them. */
export function ticks(low, high, count) {
  if (!(high > low) || !Number.isFinite(high - low)) return [];
  const raw = (high - low) / Math.max(1, count);
  const step = [1, 2, 5, 10].map((m) => m * 10 ** Math.floor(Math.log10(raw))).find((s) => s >= raw);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && found.length < 100; i += 1) {
    found.push(i * step);
  }
  return found;
}

const DAY = 864e5;
const TIME_STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 15e3, 30e3, 6e4, 12e4, 3e5, 9e5, 18e5, 36e5,
  72e5, 216e5, 432e5, DAY, 2 * DAY, 7 * DAY, 14 * DAY,
];

/** Return ticks of a time axis in milliseconds since 1970, and the step between them. */
export function timeTicks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const step = TIME_STEPS.find((s) => s >= raw);
  const found = [];
  if (step) {
    for (let t = Math.ceil(low / step) * step; t <= high; t += step) found.push(t);
    return { found, step };
  }
  // Months and years have no fixed length.
  const months = [1, 3, 6].find((m) => m * 30 * DAY >= raw) ?? 12 * roundUp(raw / (365 * DAY));
  const first = new Date(low);
  let month = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / months) * months;
  for (; found.length < 100; month += months) {
    const date = new Date(0);
    date.setUTCFullYear(Math.floor(month / 12), ((month % 12) + 12) % 12, 1);
    if (date.getTime() > high) break;
    if (date.getTime() >= low) found.push(date.getTime());
  }
  return { found, step: months * 30.4 * DAY };
}

function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= value);
}

/** Choose a scale bar: its text and its length in pixels of an axis, at most `limit` long. */
export function scaleBar(pixelSize, unit, limit) {
  if (!(pixelSize > 0) || !Number.isFinite(pixelSize)) return null;
  const metres = LENGTHS[unit];
  if (metres === undefined) {
    const length = roundDown(limit * pixelSize);
    const symbol = unitText(unit).replace(/°[NE]$/, "°");
    return { pixels: length / pixelSize, text: `${numberText(length)}${symbol === "°" ? "" : " "}${symbol}` };
  }
  const length = roundDown(limit * pixelSize * metres * (1 + 1e-9));
  const [symbol, factor] = SYMBOLS.find(([, f]) => length >= f * (1 - 1e-9)) ?? SYMBOLS.at(-1);
  return { pixels: length / metres / pixelSize, text: `${numberText(Number((length / factor).toPrecision(6)))} ${symbol}` };
}
