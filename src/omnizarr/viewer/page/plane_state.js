/** The state of a plane: which one, how it is coloured, where it is looked at. All of it fits into a link. */

import { MAPS, mapColors, statedColors, tintColors } from "./colors.js";
import { readNumbers } from "./link.js";

export const COMPOSITE = "channels"; // every channel in its colour, added up
const COLORS = ["00A0FF", "00FF00", "FF4040", "FF00FF", "FFFF00", "00FFFF"];

export class PlaneState {
  constructor(node, settings) {
    const { display } = node;
    this.shape = display.levels[0].shape;
    this.channelAxis = display.channels?.axis ?? null;
    this.channels = readChannels(display, this.shape);
    this.single = { label: "values", low: null, high: null };
    this.axes = display.plane.slice();
    this.at = this.shape.map((n, i) => (middle(display.axes[i]) ? n >> 1 : 0));
    const label = labelOf(node);
    this.stated = statedColors(label);
    this.map = this.channels.length ? COMPOSITE : label ? "labels" : isField(node) ? "viridis" : "gray";
    this.inverted = false;
    this.grid = false;
    this.line = null; // of the profile: row, column, row, column
    this.series = null; // of a pixel along an axis: row, column, axis
    this.view = null; // row and column of the centre, zoom
    this.active = 0; // the channel whose contrast is shown
    this.restore(settings);
  }

  /** Take over the settings of a link, as far as they fit this array. */
  restore(settings) {
    const rank = this.shape.length;
    const axes = readNumbers(settings.get("plane"), 2);
    if (axes && axes[0] !== axes[1] && axes.every((a) => Number.isInteger(a) && a >= 0 && a < rank)) this.axes = axes;
    const at = readNumbers(settings.get("at"), rank);
    if (at) this.at = at.map((n, i) => Math.min(this.shape[i] - 1, Math.max(0, Math.floor(n))));
    const map = settings.get("map") ?? "";
    const name = map.replace(/^-/, "");
    if (MAPS.includes(name) || (name === COMPOSITE && this.channels.length)) {
      this.map = name;
      this.inverted = map.startsWith("-");
    }
    this.view = readNumbers(settings.get("view"), 3);
    this.line = readNumbers(settings.get("line"), 4);
    const [row, column, along] = readNumbers(settings.get("series"), 3) ?? [];
    if (this.sliders.includes(along)) this.series = this.inside({ row, column, axis: along });
    this.grid = settings.get("grid") === "1";
    [this.single.low, this.single.high] = readNumbers(settings.get("contrast"), 2) ?? [null, null];
    const texts = (settings.get("channels") ?? "").split(";");
    if (texts.length === this.channels.length) this.channels.forEach((one, i) => readChannel(one, texts[i]));
    const active = Number(settings.get("active") ?? 0);
    if (this.channels[active]) this.active = active;
  }

  /** Move a series into the plane. */
  inside({ row, column, axis }) {
    const [rows, columns] = this.axes.map((i) => this.shape[i]);
    const clamp = (n, size) => Math.min(size - 1, Math.max(0, Math.floor(n)));
    return { row: clamp(row, rows), column: clamp(column, columns), axis };
  }

  /** Return the settings of a link. */
  save() {
    const found = { plane: this.axes.join(","), at: this.at.join(","), map: `${this.inverted ? "-" : ""}${this.map}` };
    if (this.view) found.view = this.view.join(",");
    if (this.single.low !== null) found.contrast = `${this.single.low},${this.single.high}`;
    if (this.isComposite) {
      found.channels = this.channels
        .map((one) => `${one.on ? "" : "-"}${one.color}${one.low === null ? "" : `:${one.low}:${one.high}`}`)
        .join(";");
      if (this.active) found.active = String(this.active);
    }
    if (this.grid) found.grid = "1";
    if (this.line) found.line = this.line.join(",");
    if (this.series) found.series = `${this.series.row},${this.series.column},${this.series.axis}`;
    return found;
  }

  get isComposite() {
    return this.map === COMPOSITE && this.channelAxis !== null && !this.axes.includes(this.channelAxis);
  }

  /** The band whose contrast is shown. */
  get band() {
    return this.isComposite ? this.channels[this.active] : this.single;
  }

  /** Axes that have a slider. */
  get sliders() {
    const hidden = new Set(this.axes);
    if (this.isComposite) hidden.add(this.channelAxis);
    return this.shape.map((_, i) => i).filter((i) => !hidden.has(i));
  }

  /** List what is drawn: a band, the place of its plane, and its colours. */
  layers() {
    if (!this.isComposite) {
      const map = this.map === COMPOSITE ? "gray" : this.map;
      const style = { colors: mapColors(map, this.inverted), labels: map === "labels", given: this.stated };
      return [{ band: this.single, at: this.at, style, name: `${map}${this.inverted}` }];
    }
    return this.channels
      .map((band, i) => ({
        band,
        at: this.at.with(this.channelAxis, i),
        style: { colors: tintColors(band.color), labels: false },
        name: band.color,
      }))
      .filter((layer) => layer.band.on);
  }
}

/** Return what an OME-Zarr label image says of itself: its numbers are names of things. */
function labelOf({ attributes }) {
  return attributes?.["image-label"] ?? attributes?.ome?.["image-label"];
}

/** True for a quantity on a map or along coordinates, such as a temperature, not for a picture. */
function isField({ kind, attributes, display }) {
  if (kind === "image") return false;
  const named = attributes?.units ?? attributes?.standard_name;
  return named !== undefined || display.axes.some((axis) => axis.coordinate) || display.levels[0].scale.some((n) => n !== 1);
}

function middle(axis) {
  return axis?.kind === "space";
}

function readChannels(display, shape) {
  const given = display.channels;
  if (!given) return [];
  const length = Math.min(shape[given.axis], given.labels?.length ?? Infinity); // none for the opacity
  return Array.from({ length }, (_, i) => {
    const [low, high] = given.windows?.[i] ?? [null, null];
    const color = /^[0-9a-f]{6}$/i.test(given.colors?.[i] ?? "") ? given.colors[i].toUpperCase() : COLORS[i % COLORS.length];
    return { label: given.labels?.[i] || `channel ${i}`, color, on: i < 4, low, high };
  });
}

function readChannel(channel, text) {
  const match = /^(-?)([0-9a-f]{6})(?::([^:]+):([^:]+))?$/i.exec(text);
  if (!match) return;
  channel.on = match[1] === "";
  channel.color = match[2].toUpperCase();
  const [low, high] = [Number(match[3]), Number(match[4])];
  [channel.low, channel.high] = Number.isFinite(low) && Number.isFinite(high) ? [low, high] : [null, null];
}
