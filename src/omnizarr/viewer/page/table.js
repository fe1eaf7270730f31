/** The viewer of strings, records and other values: a table in pages, with sliders of further axes. */

import { getValues } from "./api.js";
import { flatValues, loadAxes } from "./axes.js";
import { h, replace } from "./dom.js";
import { countText, numberText } from "./format.js";
import { readNumbers } from "./link.js";

const ROWS = 100;
const COLUMNS = 20;

export class TableView {
  constructor(host, panel, node, settings, onChange) {
    Object.assign(this, { host, panel, node, onChange });
    this.display = node.display;
    this.shape = this.display.levels[0].shape;
    this.rank = this.shape.length;
    this.fields = this.display.fields ?? null;
    // Rows and columns are the last two axes; the columns of records are their fields.
    this.rowAxis = this.rank === 1 || this.fields ? this.rank - 1 : this.rank - 2;
    this.columnAxis = this.rowAxis === this.rank - 1 ? null : this.rank - 1;
    const at = readNumbers(settings.get("at"), this.rank);
    this.at = this.shape.map((n, i) => Math.min(n - 1, Math.max(0, Math.floor(at?.[i] ?? 0))));
    this.closing = new AbortController();
    this.inputs = new Map(); // axis → input of its index
    this.turns = []; // buttons of the pager
  }

  async start() {
    this.axes = await loadAxes(this.display, this.closing.signal);
    if (this.closing.signal.aborted) return;
    this.body = h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": `Values of ${this.node.path}` });
    this.bar = h("div", { class: "row pager" });
    [this.rowText, this.columnText] = [h("span", { class: "muted" }), h("span", { class: "muted" })];
    this.pager();
    const sliders = this.shape.map((n, i) => (i === this.rowAxis || i === this.columnAxis || n < 2 ? null : this.chooser(i)));
    replace(this.host, this.bar, sliders.some(Boolean) ? h("div", { class: "sliders" }, sliders) : null, this.body);
    replace(this.panel);
    await this.load();
  }

  close() {
    this.closing.abort();
    this.request?.abort();
  }

  chooser(axis) {
    return h("label", { class: "slider" }, h("span", { class: "name" }, this.axes[axis].name),
      this.number(axis), h("span", { class: "muted" }, `/ ${this.shape[axis] - 1}`));
  }

  /** Make the input of an index; it is kept, so that what is typed while values come is not lost. */
  number(axis, label = null) {
    const input = h("input", {
      type: "number", min: "0", max: String(this.shape[axis] - 1), value: String(this.at[axis]), "aria-label": label,
      onchange: () => this.move(axis, input.value.trim() === "" ? NaN : Number(input.value)),
    });
    this.inputs.set(axis, input);
    return input;
  }

  move(axis, to) {
    const last = this.shape[axis] - 1;
    if (Number.isFinite(to)) this.at[axis] = Math.min(last, Math.max(0, Math.floor(to)));
    this.inputs.get(axis).value = String(this.at[axis]);
    this.showPager();
    this.load();
  }

  async load() {
    this.onChange(this.at.some(Boolean) ? { at: this.at.join(",") } : {});
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    const rows = this.part(this.rowAxis, ROWS);
    const columns = this.columnAxis === null ? null : this.part(this.columnAxis, COLUMNS);
    const items = this.at.map((n, i) => (i === this.rowAxis ? rows : i === this.columnAxis ? columns : n));
    this.host.dataset.state = "loading";
    try {
      const answer = await getValues(this.display.levels[0].path, items, { signal: request.signal, exact: true });
      if (this.request !== request) return;
      this.show(Array.isArray(answer) ? answer : [...flatValues(answer)], rows, columns);
    } catch (error) {
      if (error.name === "AbortError" || this.request !== request) return;
      replace(this.body, h("p", { class: "problem" }, error.message));
    }
    this.host.dataset.state = "ready";
  }

  part(axis, count) {
    return [this.at[axis], Math.min(this.shape[axis], this.at[axis] + count), 1];
  }

  show(values, rows, columns) {
    const names = this.fields ?? (columns ? range(columns).map(String) : [this.node.name || "value"]);
    const cells = (value) => (this.fields || columns) && Array.isArray(value) ? value : [value];
    replace(this.body, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, this.axes[this.rowAxis].name), names.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, range(rows).map((index, i) => {
        const place = this.axes[this.rowAxis].text(index);
        return h("tr", {}, h("th", { scope: "row" }, `${index}${place ? ` · ${place}` : ""}`), cells(values[i]).map(cell));
      }))));
  }

  /** Make the buttons once: whoever uses the keyboard keeps the focus. */
  pager() {
    const turn = (axis, by, label, title) => {
      const button = h("button", { type: "button", title, "aria-label": title, onclick: () => button.getAttribute("aria-disabled") === "true" || this.move(axis, this.at[axis] + by) }, label);
      this.turns.push({ button, axis, by });
      return button;
    };
    const wide = this.columnAxis !== null && this.shape[this.columnAxis] > COLUMNS;
    replace(this.bar,
      turn(this.rowAxis, -ROWS, "↑", "Previous rows"),
      turn(this.rowAxis, ROWS, "↓", "Next rows"),
      h("label", { class: "check" }, "row", this.number(this.rowAxis)),
      this.rowText,
      wide ? [turn(this.columnAxis, -COLUMNS, "←", "Previous columns"), turn(this.columnAxis, COLUMNS, "→", "Next columns"),
              h("label", { class: "check" }, "column", this.number(this.columnAxis)), this.columnText] : null);
    this.showPager();
  }

  showPager() {
    for (const { button, axis, by } of this.turns) {
      // Not `disabled`, which would take the focus away.
      button.setAttribute("aria-disabled", String(by < 0 ? this.at[axis] === 0 : this.at[axis] + by >= this.shape[axis]));
    }
    const text = (axis, count) => {
      const [start, stop] = this.part(axis, count);
      return `${countText(start)}–${countText(stop - 1)} of ${countText(this.shape[axis])}`;
    };
    this.rowText.textContent = text(this.rowAxis, ROWS);
    if (this.columnAxis !== null) this.columnText.textContent = text(this.columnAxis, COLUMNS);
  }
}

function range([start, stop]) {
  return Array.from({ length: stop - start }, (_, i) => start + i);
}

function cell(value) {
  const number = typeof value === "number";
  const text = number ? numberText(value, 9) : typeof value === "string" ? value : value === null ? "—" : JSON.stringify(value);
  return h("td", { class: number ? "number" : "" }, text.length > 500 ? `${text.slice(0, 500)}…` : text);
}

/** Show the one value of an array without axes. */
export class ScalarView {
  constructor(host, panel, node) {
    Object.assign(this, { host, panel, node });
    this.closing = new AbortController();
  }

  async start() {
    replace(this.panel);
    let text;
    try {
      const answer = await getValues(this.node.path, [], { signal: this.closing.signal, exact: true });
      text = Array.isArray(answer) || answer === null || typeof answer !== "object" ? JSON.stringify(answer) : JSON.stringify([...flatValues(answer)][0]);
    } catch (error) {
      if (error.name === "AbortError") return;
      text = error.message;
    }
    replace(this.host, h("div", { class: "notice" }, h("output", { class: "scalar" }, text)));
    this.host.dataset.state = "ready";
  }

  close() {
    this.closing.abort();
  }
}
