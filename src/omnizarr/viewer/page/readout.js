/** The value under the pointer, with the coordinates of its pixel. */

import { getValues } from "./api.js";
import { flatValues } from "./axes.js";
import { afterPause, announce, h, replace } from "./dom.js";
import { numberText, unitText } from "./format.js";
import { problemAt, valueAt } from "./tiles.js";

const INEXACT = /int64|complex|float128|longdouble/; // types that are rounded in tiles

/** Return a number or text of an exact answer; a complex number is a pair. */
function exactText(answer) {
  if (Array.isArray(answer)) return `${numberText(answer[0], 7)} + ${numberText(answer[1], 7)}i`;
  return answer instanceof Object ? flatValues(answer)[0] : answer;
}

export class Readout {
  constructor(view) {
    this.view = view;
    this.pixel = null;
    this.element = h("div", { class: "readout", "aria-label": "Value under the pointer" });
    this.fetchSoon = afterPause(() => this.fetchExact(), 120);
    this.request = null;
    this.show();
  }

  close() {
    this.request?.abort();
    this.pixel = null;
  }

  /** Show a pixel; `spoken` also reads it out. */
  point(pixel, spoken = false) {
    if (this.pixel && pixel && this.pixel.every((n, i) => n === pixel[i])) return;
    this.pixel = pixel;
    this.spoken = spoken;
    this.said = null;
    this.refresh();
  }

  refresh() {
    this.request?.abort();
    this.exact = null;
    this.show();
  }

  /** Return the value of each layer, as far as tiles know it. */
  values() {
    const { view } = this;
    return (view.layers ?? []).map((layer) => {
      const tiles = layer.stale ? [] : layer.tiles;
      for (let k = tiles.length - 1; k >= 0; k -= 1) {
        const place = [this.pixel[0] + 0.5, this.pixel[1] + 0.5];
        const problem = problemAt(tiles[k], ...place);
        if (problem) return { value: problem, problem, exact: true };
        const value = valueAt(tiles[k], ...place);
        if (value !== null) return { value, exact: tiles[k].resolution.index === 0 && !INEXACT.test(view.display.dtype) };
      }
      return { value: null, exact: false };
    });
  }

  show() {
    const { view, pixel } = this;
    if (!pixel) {
      replace(this.element, h("span", { class: "muted" }, this.hint()));
      return;
    }
    const { state, axes } = view;
    const places = [];
    for (const i of [...state.axes, ...state.sliders]) {
      const index = i === state.axes[0] ? pixel[0] : i === state.axes[1] ? pixel[1] : state.at[i];
      const text = axes[i].text(index);
      places.push(h("span", { class: "place" }, h("b", {}, axes[i].name), ` ${index}`, text ? h("span", { class: "muted" }, ` ${text}`) : null));
    }
    const found = this.values();
    const unit = unitText(view.node.attributes?.units);
    const values = found.map((one, i) => {
      const value = this.exact?.[i] ?? one.value;
      const sure = this.exact !== null || one.exact;
      const label = state.isComposite ? `${view.layers[i].band.label} ` : "";
      const text = value === null || value === undefined ? "…" : `${sure ? "" : "≈ "}${numberText(value, 7)}`;
      return h("span", { class: one.problem ? "value problem" : "value", "data-exact": String(sure) }, label ? h("span", { class: "muted" }, label) : null, text, unit && !state.isComposite ? ` ${unit}` : null);
    });
    replace(this.element, values, places);
    if (this.exact === null && found.some((one) => !one.exact)) this.fetchSoon();
    else if (this.spoken && this.element.textContent !== this.said) {
      this.said = this.element.textContent;
      announce(this.said);
    }
  }

  hint() {
    const { level } = this.view.resolution ?? { level: 0 };
    return this.view.display.levels.length > 1 ? `level ${level} of 0–${this.view.display.levels.length - 1}` : "point at a pixel to read its value";
  }

  /** Ask for the stored value where the tiles that are shown are coarser, or rounded. */
  async fetchExact() {
    const { view, pixel } = this;
    if (!pixel) return;
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    const { axes } = view.state;
    const path = view.display.levels[0].path;
    try {
      const exact = await Promise.all(view.layers.map(async ({ at }) => {
        const items = at.map((n, i) => (i === axes[0] ? pixel[0] : i === axes[1] ? pixel[1] : n));
        try {
          return exactText(await getValues(path, items, { signal: request.signal, exact: true, decode: view.display.decode }));
        } catch (error) {
          if (error.name === "AbortError") throw error;
          return error.message;
        }
      }));
      if (request.signal.aborted || this.pixel !== pixel) return;
      this.exact = exact;
      this.show();
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    }
  }
}
