/** Contrast: the histogram of what is visible, with two handles for the darkest and brightest value. */

import { afterPause, h, prepareCanvas, themeColor } from "./dom.js";
import { numberText } from "./format.js";

const BINS = 128;

/** Return `{low, high, counts}` of lists of values; null where there is no finite one. */
export function histogram(lists) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of lists) {
    for (let i = 0; i < values.length; i += 1) {
      const value = values[i];
      if (value < low && value > -Infinity) low = value;
      if (value > high && value < Infinity) high = value;
    }
  }
  if (low > high) return null;
  const counts = new Float64Array(BINS);
  const factor = high > low ? (BINS - 1e-6) / (high - low) : 0;
  for (const values of lists) {
    for (let i = 0; i < values.length; i += 1) {
      const place = (values[i] - low) * factor;
      if (place >= 0 && place < BINS) counts[place | 0] += 1;
    }
  }
  return { low, high, counts };
}

/** Return a range without the few darkest and brightest values of a histogram. */
export function autoRange({ low, high, counts }, part = 0.002) {
  if (!(high > low)) return [low, low + 1];
  const total = counts.reduce((a, b) => a + b, 0);
  const width = (high - low) / BINS;
  const from = (list) => {
    let sum = 0;
    const bin = list.findIndex((n) => (sum += n) > total * part);
    return Math.max(0, bin);
  };
  const [first, last] = [from(counts), from(counts.slice().reverse())];
  return [low + first * width, high - last * width];
}

export class ContrastPanel {
  /** `onChange(low, high)` is called while a handle moves, `onAuto()` by the button. */
  constructor({ onChange, onAuto }) {
    this.onChange = onChange;
    this.data = null;
    this.range = null;
    this.canvas = h("canvas", { class: "bars", role: "img", "aria-label": "Histogram of the visible values" });
    this.handles = ["Darkest value", "Brightest value"].map((label, i) =>
      h("div", {
        class: "handle", role: "slider", tabindex: "0", "aria-label": label,
        onkeydown: (event) => this.step(event, i),
      }),
    );
    this.box = h("div", { class: "histogram", onpointerdown: (event) => this.grab(event) }, this.canvas, this.handles);
    this.inputs = ["Low", "High"].map((label, i) =>
      h("input", {
        type: "number", step: "any", disabled: true, "aria-label": `${label} end of the contrast`,
        // Text that is no number counts as nothing typed.
        onchange: (event) => this.move(i, event.target.value.trim() === "" ? NaN : Number(event.target.value)),
      }),
    );
    this.legend = h("span", { class: "grow muted" });
    this.element = h("fieldset", { class: "contrast" },
      h("legend", {}, "Contrast"),
      this.box,
      h("div", { class: "row" }, this.inputs[0], h("button", { type: "button", title: "Fit the contrast to what is visible (a)", onclick: onAuto }, "Auto"), this.inputs[1]),
      this.legend,
    );
    this.redraw = afterPause(() => this.draw(), 30);
  }

  /** Show the range of a band; without one (null) there is nothing to move yet. */
  showRange(low, high) {
    this.range = low === null ? null : [low, high];
    for (const input of this.inputs) input.disabled = !this.range;
    this.redraw();
  }

  /** Show the histogram of a band's visible values. */
  showHistogram(data, label) {
    this.data = data;
    this.legend.textContent = label;
    this.redraw();
  }

  /** The ends of the panel: all values, and the handles. */
  get ends() {
    const [low, high] = this.range ?? [0, 1];
    const [a, b] = this.data ? [Math.min(this.data.low, low), Math.max(this.data.high, high)] : [low, high];
    return a < b ? [a, b] : [a - 0.5, a + 0.5];
  }

  draw() {
    const { context, width, height } = prepareCanvas(this.canvas);
    context.clearRect(0, 0, width, height);
    const [a, b] = this.ends;
    const place = (value) => ((value - a) / (b - a)) * width;
    if (this.data) {
      const { counts, low, high } = this.data;
      const most = Math.log1p(Math.max(...counts)) || 1;
      const bin = (high - low) / BINS;
      context.fillStyle = themeColor("muted");
      counts.forEach((n, i) => {
        const tall = (Math.log1p(n) / most) * (height - 2);
        const left = place(low + i * bin);
        context.fillRect(left, height - tall, Math.max(1, place(low + (i + 1) * bin) - left), tall);
      });
    }
    if (!this.range) return;
    this.handles.forEach((handle, i) => {
      const value = this.range[i];
      handle.style.left = `${(100 * (value - a)) / (b - a)}%`;
      handle.setAttribute("aria-valuenow", String(value));
      handle.setAttribute("aria-valuemin", String(a));
      handle.setAttribute("aria-valuemax", String(b));
      handle.setAttribute("aria-valuetext", numberText(value));
      if (document.activeElement !== this.inputs[i]) this.showNumber(i);
    });
  }

  showNumber(end) {
    this.inputs[end].value = String(Number(this.range[end].toPrecision(7)));
  }

  move(end, value) {
    if (!this.range || !Number.isFinite(value)) {
      if (this.range) this.showNumber(end);
      return;
    }
    const range = this.range.slice();
    range[end] = value;
    if (range[0] > range[1]) range[1 - end] = value;
    this.range = range;
    this.onChange(range[0], range[1]);
    this.draw();
  }

  step(event, end) {
    const direction = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!direction || !this.range) return;
    event.preventDefault();
    event.stopPropagation();
    const [a, b] = this.ends;
    this.move(end, this.range[end] + direction * ((b - a) / (event.shiftKey ? 20 : 200)));
  }

  /** Drag the nearer handle. */
  grab(event) {
    if (!this.range) return;
    const [a, b] = this.ends; // stay as they are during the drag
    const box = this.box.getBoundingClientRect();
    const value = (e) => a + Math.min(1, Math.max(0, (e.clientX - box.left) / box.width)) * (b - a);
    const start = value(event);
    const end = Math.abs(start - this.range[0]) <= Math.abs(start - this.range[1]) ? 0 : 1;
    this.handles[end].focus();
    event.preventDefault();
    this.box.setPointerCapture(event.pointerId);
    const drag = (e) => this.move(end, value(e));
    drag(event);
    this.box.addEventListener("pointermove", drag);
    this.box.addEventListener("lostpointercapture", () => this.box.removeEventListener("pointermove", drag), { once: true });
  }
}
