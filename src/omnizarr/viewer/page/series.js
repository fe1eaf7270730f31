/** The values of one pixel along another axis: a time series of a map, a spectrum, a depth profile. */

import { getExtremes, getValues } from "./api.js";
import { flatValues } from "./axes.js";
import { drawChart, extent, pad } from "./chart.js";
import { legible } from "./colors.js";
import { h, replace, themeColor } from "./dom.js";
import { stepText, unitText } from "./format.js";

const POINTS = 4000; // at most; longer axes are read with a step

export class SeriesPanel {
  /** `view` is the plane; the panel is shown while its state has a series. */
  constructor(view) {
    this.view = view;
    this.key = null; // of what was asked for last
    this.found = [];
    this.canvas = h("canvas", { class: "chart", role: "img", "aria-label": "Values along the axis" });
    this.title = h("span", { class: "grow" });
    this.choice = h("select", {
      "aria-label": "Axis of the series",
      onchange: (event) => view.setSeries({ ...view.state.series, axis: Number(event.target.value) }),
    });
    this.element = h("section", { class: "profile", hidden: true, "aria-label": "Series" },
      h("div", { class: "row" }, this.title, this.choice,
        h("button", { type: "button", title: "Remove the series", "aria-label": "Remove the series", onclick: () => view.setSeries(null) }, "×")),
      this.canvas);
  }

  /** Show the series of the state: fetch it if it is another one than before. */
  show() {
    const { state, axes } = this.view;
    const { series } = state;
    this.element.hidden = !series;
    if (!series) {
      this.key = null;
      this.request?.abort();
      return;
    }
    const layers = state.layers();
    const key = JSON.stringify([series, state.axes, layers.map(({ at }) => at.with(series.axis, 0))]);
    if (key !== this.key) {
      this.key = key;
      replace(this.choice, state.sliders.map((i) => h("option", { value: String(i), selected: i === series.axis }, axes[i].name)));
      this.element.dataset.state = "loading";
      this.fetch(series, layers);
    }
    this.draw();
  }

  async fetch({ row, column, axis }, layers) {
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    const { state, display } = this.view;
    const length = state.shape[axis];
    const step = Math.ceil(length / POINTS);
    try {
      const found = await Promise.all(layers.map(async ({ at, band }) => {
        const items = at.map((n, i) => (i === axis ? [0, length, step] : i === state.axes[0] ? row : i === state.axes[1] ? column : n));
        const options = { signal: request.signal, decode: display.decode };
        const color = state.isComposite ? `#${band.color}` : null;
        if (step === 1) return { values: flatValues(await getValues(display.levels[0].path, items, options)), color };
        return { ...(await getExtremes(display.levels[0].path, items, options)), color };
      }));
      if (this.request !== request) return;
      // The least and the greatest value of a step are half a step apart.
      this.found = found.map((one) => ({ ...one, step: one.extremes ? step / 2 : step }));
      this.every = step > 1 ? stepText(step, found[0]?.extremes) : "";
      this.problem = null;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.found = [];
      this.every = "";
      this.problem = error.message;
    }
    this.element.dataset.state = "ready";
    this.draw();
  }

  draw() {
    const { state, axes, node } = this.view;
    if (!state.series) return;
    const { row, column } = state.series;
    const axis = axes[state.series.axis];
    const [down, across] = state.axes.map((i) => axes[i]);
    replace(this.title, this.problem
      ? h("span", { class: "problem" }, this.problem)
      : `${down.name} ${down.text(row) || row}, ${across.name} ${across.text(column) || column} ${this.every ? `, ${this.every},` : ""} along`);
    const place = (i) => {
      const value = axis.coordinate(i);
      return typeof value === "number" ? value : i;
    };
    const series = this.found.map(({ values, step, color }) => ({
      values,
      places: Float64Array.from(values, (_, i) => place(i * step)),
      color: color ? legible(color, themeColor("back")) : themeColor("accent"),
    }));
    drawChart(this.canvas, {
      series,
      x: [place(0), axis.size > 1 ? place(axis.size - 1) : place(0) + 1],
      y: pad(extent(series.flatMap(({ values }) => [...values]))),
      xTime: axis.isTime,
      xLabel: axis.isTime ? "" : unitText(axis.unit) || axis.name,
      yLabel: unitText(node.attributes?.units),
      cursor: place(state.at[state.series.axis]),
    });
  }

  close() {
    this.request?.abort();
  }
}
