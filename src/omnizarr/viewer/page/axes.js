/** Axes with coordinates: the place of an index in units, dates or labels. */

import { getValues } from "./api.js";
import { dateText, numberText, timeText, unitText } from "./format.js";

const WHOLE = 100_000; // longer coordinates are read at their ends and at the places that are shown

/** Return values of any answer as a flat list. */
export function flatValues(answer) {
  if (ArrayBuffer.isView(answer?.values)) return answer.values;
  return Array.isArray(answer) ? answer.flat(Infinity) : [answer]; // JSON
}

export class Axis {
  constructor(description, index, scale = 1, translation = 0) {
    this.index = index;
    this.name = description.name || `axis ${index}`;
    this.kind = description.kind;
    this.unit = description.unit || null;
    this.size = description.size;
    this.path = description.coordinate ?? null;
    this.scale = scale;
    this.translation = translation;
    this.isTime = false;
    this.values = null; // of the coordinate
  }

  /** Fetch the coordinate of the axis, if it has one; an axis without it counts pixels. */
  async load(signal) {
    if (this.path === null || this.size < 1) return;
    const step = Math.max(1, Math.ceil(this.size / WHOLE));
    const items = [[0, this.size, step]];
    const decode = this.kind === "time" ? "time" : undefined;
    try {
      this.values = flatValues(await getValues(this.path, items, { signal, decode }));
      // Dates of calendars that the browser does not have are texts.
      this.isTime = decode !== undefined && typeof this.values[0] === "number";
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.path = null; // unreadable coordinates are reported by their own node
      return;
    }
    this.every = step;
  }

  /** Return the coordinate of an index, also between two of them; null where there is none. */
  coordinate(index) {
    if (this.values) {
      const place = Math.min(Math.max(0, index / this.every), this.values.length - 1);
      const low = this.values[Math.floor(place)];
      if (typeof low !== "number") return low;
      const high = this.values[Math.ceil(place)];
      return low + (high - low) * (place - Math.floor(place));
    }
    if (this.unit === null && this.scale === 1 && this.translation === 0) return null;
    return this.translation + this.scale * index;
  }

  /** Return the coordinate of an index as text; empty where it says no more than the index. */
  text(index) {
    const value = this.coordinate(index);
    if (value === null || value === undefined) return "";
    if (typeof value !== "number") return this.kind === "time" ? dateText(value) : String(value);
    if (this.isTime) return timeText(value, this.pixelSize ?? 1);
    const unit = unitText(this.unit);
    return `${numberText(Number(value.toPrecision(7)))}${unit.startsWith("°") || !unit ? "" : " "}${unit}`;
  }

  /** The distance of neighbours, if all are the same; else null. */
  get pixelSize() {
    if (!this.values) return this.coordinate(0) === null ? null : Math.abs(this.scale);
    const { values } = this;
    const last = values.length - 1;
    if (last < 1 || typeof values[0] !== "number") return null;
    const step = (values[last] - values[0]) / last;
    for (let i = 1; i <= last; i += 1) {
      if (!(Math.abs(values[i] - values[i - 1] - step) <= Math.abs(step) * 0.01)) return null;
    }
    return Math.abs(step) / this.every || null;
  }

  /** True if the coordinate grows with the index. */
  get grows() {
    if (this.values) return this.values[this.values.length - 1] > this.values[0];
    return this.scale > 0;
  }
}

/** Return the axes of a display with their coordinates. */
export async function loadAxes(display, signal) {
  const first = display.levels[0];
  const axes = display.axes.map(
    (one, i) => new Axis({ ...one, size: one.size ?? first.shape[i] }, i, first.scale?.[i] ?? 1, first.translation?.[i] ?? 0),
  );
  await Promise.all(axes.map((axis) => axis.load(signal)));
  return axes;
}

/** Return height over width of a pixel: physical for lengths of one unit, else mostly square. */
export function pixelAspect(rows, columns) {
  const [down, across] = [rows.pixelSize, columns.pixelSize];
  const same = simple(rows.unit) === simple(columns.unit) && rows.unit !== null;
  if (same && rows.kind === "space" && columns.kind === "space" && down && across) {
    return Math.min(50, Math.max(0.02, down / across));
  }
  // A few rows of very many columns would be a line: such planes are stretched.
  const shape = rows.size / columns.size;
  if (shape < 1 / 20) return 1 / (4 * shape);
  return shape > 20 ? 4 / shape : 1;
}

function simple(unit) {
  return unit === null ? null : unit.replace(/_?(north|east|N|E)$/, "");
}

/** True if the first row is the southernmost, so that north is up only when the plane is flipped. */
export function isSouthFirst(rows) {
  const north = /north/i.test(rows.unit ?? "") || /^(lat|latitude)$/i.test(rows.name);
  return rows.values !== null && north && rows.grows;
}
