/** The values along a line across a plane. */

import { drawChart, extent, pad } from "./chart.js";
import { legible } from "./colors.js";
import { h, replace, themeColor } from "./dom.js";
import { valueAt } from "./tiles.js";
import { numberText, unitText } from "./format.js";

const POINTS = 600;

export class ProfilePanel {
  constructor(onClose) {
    this.canvas = h("canvas", { class: "chart", role: "img", "aria-label": "Values along the line" });
    this.title = h("span", { class: "grow" });
    this.element = h("section", { class: "profile", hidden: true, "aria-label": "Line profile" },
      h("div", { class: "row" }, this.title, h("button", { type: "button", title: "Remove the line", "aria-label": "Remove the line", onclick: onClose }, "×")), this.canvas);
  }

  /** Draw the profile of each layer from the tiles that are there. */
  show(line, layers, [rows, columns]) {
    this.element.hidden = !line;
    if (!line) return;
    const [r0, c0, r1, c1] = line;
    const pixels = Math.hypot(r1 - r0, c1 - c0);
    const count = Math.max(2, Math.min(POINTS, Math.round(pixels) + 1));
    const sizes = [rows.pixelSize, columns.pixelSize];
    const physical = sizes.every(Boolean) && rows.unit !== null && rows.unit === columns.unit;
    const length = physical ? Math.hypot((r1 - r0) * sizes[0], (c1 - c0) * sizes[1]) : pixels;
    const unit = physical ? unitText(rows.unit) : "pixels";
    const series = layers.map((layer) => ({
      values: samples(layer.tiles, line, count),
      start: 0,
      step: length / (count - 1),
      color: layer.color ? legible(layer.color, themeColor("back")) : themeColor("accent"),
    }));
    const y = pad(extent(series.flatMap((one) => [...one.values])));
    replace(this.title, `Profile, ${numberText(Number(length.toPrecision(4)))} ${unit}`);
    drawChart(this.canvas, { series, x: [0, length || 1], y, xLabel: unit });
  }
}

/** Return values at equal distances along a line, each from the finest tile that covers it. */
function samples(tiles, [r0, c0, r1, c1], count) {
  const found = new Float64Array(count).fill(NaN);
  for (let i = 0; i < count; i += 1) {
    const part = i / (count - 1);
    const [row, column] = [r0 + (r1 - r0) * part, c0 + (c1 - c0) * part];
    for (let k = tiles.length - 1; k >= 0; k -= 1) {
      const value = valueAt(tiles[k], row, column);
      if (value === null) continue;
      found[i] = value;
      break;
    }
  }
  return found;
}
