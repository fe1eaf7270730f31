/** The viewer of a 1-D array: a line over its index or coordinate, fetched in blocks as far as visible. */

import { BUSY, getExtremes, getValues } from "./api.js";
import { flatValues, loadAxes } from "./axes.js";
import { drawChart, extent, pad, plotArea } from "./chart.js";
import { afterPause, announce, download, h, oncePerFrame, replace, themeColor } from "./dom.js";
import { countText, isKnownCalendar, numberText, stepText, timeText, unitText } from "./format.js";
import { readNumbers } from "./link.js";

const BLOCK = 2 ** 18; // values of a request
const DENSE = 2 ** 21; // of more visible values than this, the least and the greatest of every so many
const SPARSE = 2 ** 13; // of which there are then at most so many
const PART = 2 ** 26; // bytes that the server reads for a request of these
const PART_CHUNKS = 2 ** 14; // and chunks
const MOST = 2 ** 33; // bytes that it reads for all; of even more, one of so many values is drawn
const MOST_CHUNKS = 2 ** 20; // and chunks
const KEPT = 2 ** 23; // values

export class PlotView {
  constructor(host, panel, node, settings, onChange) {
    Object.assign(this, { host, panel, node, onChange });
    this.display = node.display;
    this.length = this.display.levels[0].shape[0];
    const range = readNumbers(settings.get("range"), 2);
    this.range = range && range[0] < range[1] ? range : null; // of the index; null: everything
    this.itemSize = (node.nbytes ?? 8 * this.length) / this.length || 8;
    this.blocks = new Map(); // "start:stop:step" → values, in order of use
    this.running = new Map(); // the same → AbortController of its request
    this.closing = new AbortController();
    this.redraw = oncePerFrame(() => this.draw());
    this.fetchSoon = afterPause(() => this.fetchVisible(), 40);
    this.hover = null;
  }

  async start() {
    const { display, node } = this;
    const attributes = node.attributes ?? {};
    this.isTime = /^datetime64|^<?M8/.test(display.dtype) || (/ since /.test(attributes.units ?? "") && isKnownCalendar(attributes.calendar));
    this.decode = this.isTime ? "time" : display.decode;
    const axes = await loadAxes(display, this.closing.signal);
    if (this.closing.signal.aborted) return;
    this.axis = axes[0];
    // A coordinate along itself would be a diagonal.
    if (this.axis.path === node.path) this.axis.values = null;
    this.canvas = h("canvas", {
      class: "plot", tabindex: "0", role: "application", "aria-roledescription": "plot",
      "aria-label": `Plot of ${node.path}: arrow keys move, plus and minus zoom, shift and arrow keys read values`,
    });
    this.note = h("span", { class: "muted" });
    this.readout = h("div", { class: "readout" });
    const button = (label, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, label);
    this.stage = h("div", { class: "stage" }, this.canvas,
      h("div", { class: "toolbar", role: "toolbar", "aria-label": "View" },
        button("+", "Zoom in (+)", () => this.zoom(1.5)),
        button("−", "Zoom out (−)", () => this.zoom(1 / 1.5)),
        button("⤢", "Show everything (0)", () => this.setRange(null)),
        button("⤓", "Save the picture (s)", () => this.save())));
    replace(this.host, this.stage, this.readout);
    replace(this.panel, h("p", {}, this.note));
    this.listen();
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(this.canvas);
    this.setRange(this.range);
  }

  close() {
    this.closing.abort();
    for (const controller of this.running.values()) controller.abort();
    this.observer?.disconnect();
  }

  /** Show part of the index, or everything; at least two values and at most all of them. */
  setRange(range) {
    if (range) {
      const size = Math.min(this.length, Math.max(2, range[1] - range[0]));
      const start = Math.min(this.length - size, Math.max(0, range[0]));
      range = size >= this.length ? null : [start, start + size].map((n) => Number(n.toFixed(2)));
    }
    this.range = range;
    this.stage.dataset.state = "loading";
    this.onChange(range ? { range: range.join(",") } : {});
    this.redraw();
    this.fetchSoon();
  }

  get visible() {
    return this.range ?? [0, this.length];
  }

  zoom(factor, part = 0.5) {
    const [start, stop] = this.visible;
    const size = (stop - start) / factor;
    const centre = start + (stop - start) * part;
    this.setRange([centre - size * part, centre + size * (1 - part)]);
  }

  pan(part) {
    const [start, stop] = this.visible;
    const move = (stop - start) * part;
    this.setRange([start + move, stop + move]);
  }

  /** List the requests that the visible part needs. */
  wanted() {
    const [from, to] = [Math.max(0, Math.floor(this.visible[0])), Math.min(this.length, Math.ceil(this.visible[1]) + 1)];
    if (to - from > DENSE) {
      const step = 2 ** Math.ceil(Math.log2((to - from) / SPARSE));
      const chunk = Number(this.display.levels[0].chunks?.[0]) || 1;
      const sampled = (to - from) * this.itemSize > MOST || (to - from) / chunk > MOST_CHUNKS;
      // Requests of whole steps and at least one chunk, which would else be decoded for each.
      const part = Math.ceil((sampled ? to - from + step : Math.max(Math.min(PART / this.itemSize, chunk * PART_CHUNKS), chunk)) / step) * step;
      return pieces(Math.floor(from / (sampled ? step : part)) * (sampled ? step : part), to, part, this.length, step, !sampled);
    }
    return pieces(Math.floor(from / BLOCK) * BLOCK, to, BLOCK, this.length, 1, false);
  }

  /** Ask for what is visible; requests of what is not visible any more end. */
  fetchVisible() {
    if (this.closing.signal.aborted) return;
    const wanted = this.wanted();
    const keys = new Set(wanted.map((one) => one.key));
    for (const [key, controller] of this.running) {
      if (keys.has(key)) continue;
      controller.abort();
      this.running.delete(key);
    }
    for (const one of wanted) {
      const known = this.blocks.get(one.key);
      if (!this.running.has(one.key) && (!known || known.again)) this.fetchBlock(one);
    }
    this.redraw();
  }

  async fetchBlock({ key, start, stop, step, extremes }) {
    const controller = new AbortController();
    this.running.set(key, controller);
    const { path } = this.display.levels[0];
    const options = { signal: controller.signal, decode: this.decode };
    let block = { start, stop, step, every: step, extremes: false, problem: null };
    try {
      const answer = extremes ? await getExtremes(path, [[start, stop, step]], options) : await getValues(path, [[start, stop, step]], options);
      block.values = flatValues(answer);
      // The least and the greatest value of a step are drawn half a step apart.
      if (answer.extremes) block = { ...block, step: step / 2, extremes: true };
    } catch (error) {
      // A server that is busy or away is asked again when the plot moves.
      block = { ...block, values: [], problem: error.message, again: BUSY.includes(error.status) };
    }
    if (controller.signal.aborted) return;
    this.running.delete(key);
    this.blocks.set(key, block);
    this.forget();
    this.redraw();
  }

  /** Drop the blocks that came first when there are too many values. */
  forget() {
    let count = 0;
    for (const { values } of this.blocks.values()) count += values.length;
    const wanted = new Set(this.wanted().map(({ key }) => key));
    for (const [key, { values }] of this.blocks) {
      if (count <= KEPT) return;
      if (wanted.has(key)) continue;
      this.blocks.delete(key);
      count -= values.length;
    }
  }

  /** Return the blocks that are there for the visible part, each cut to it. */
  shown() {
    const [from, to] = this.visible;
    return this.wanted().map(({ key }) => this.blocks.get(key)).filter(Boolean).map((block) => {
      const pair = block.extremes ? 2 : 1; // which stay together
      const first = Math.max(0, Math.floor((from - block.start) / block.every) * pair);
      const last = Math.min(block.values.length, (Math.ceil((to - block.start) / block.every) + 1) * pair);
      return { ...block, start: block.start + first * block.step, values: block.values.slice(first, last) };
    });
  }

  draw() {
    if (this.closing.signal.aborted) return;
    const blocks = this.shown();
    const [from, to] = this.visible;
    const at = (index) => this.place(index);
    const x = [at(from), at(Math.max(from + 1, to - 1))];
    const y = pad(blocks.reduce(([low, high], block) => {
      const [a, b] = block.values.length ? extent(block.values) : [Infinity, -Infinity];
      return [Math.min(low, a), Math.max(high, b)];
    }, [Infinity, -Infinity]).map((n, i) => (Number.isFinite(n) ? n : i)));
    const color = themeColor("accent");
    const series = blocks.map((block) => ({
      values: block.values,
      color,
      ...(this.axis.values
        ? { places: Float64Array.from(block.values, (_, i) => at(block.start + i * block.step)) }
        : { start: at(block.start), step: at(block.start + block.step) - at(block.start) }),
    }));
    const attributes = this.node.attributes ?? {};
    const name = attributes.long_name || attributes.standard_name || this.node.name;
    const unit = this.isTime ? "" : unitText(attributes.units);
    this.chart = drawChart(this.canvas, {
      series, x, y,
      xTime: this.axis.isTime && this.axis.values !== null,
      yTime: this.isTime,
      xLabel: this.axis.values && !this.axis.isTime ? `${this.axis.name} ${unitText(this.axis.unit)}` : this.axis.name,
      yLabel: `${name ?? ""}${unit ? `, ${unit}` : ""}`,
      cursor: this.hover === null ? null : at(this.hover),
    });
    this.drawProblems(blocks, at);
    this.showNote(blocks);
    this.showHover(blocks);
    const complete = this.wanted().every(({ key }) => this.blocks.has(key));
    this.stage.dataset.state = complete ? "ready" : "loading";
  }

  /** Say how many values are visible, and what of them is drawn. */
  showNote(blocks) {
    const [from, to] = this.visible;
    const count = `${countText(Math.round(to - from))} of ${countText(this.length)} values`;
    const block = blocks.find((one) => one.every > 1 && !one.problem);
    if (!block) this.note.textContent = count;
    else if (block.extremes) this.note.textContent = `${count}; drawn: ${stepText(block.every, true)}, so that no peak is lost; zoom in to see all`;
    else this.note.textContent = `${count}; drawn: ${stepText(block.every, false)}, as there are too many to read: peaks may be missing; zoom in to see all`;
  }

  /** Return the x of an index: its coordinate where there is one, else the index. */
  place(index) {
    const value = this.axis.coordinate(index);
    return typeof value === "number" ? value : index;
  }

  drawProblems(blocks, at) {
    const context = this.canvas.getContext("2d");
    for (const block of blocks) {
      if (!block.problem) continue;
      const { area, toX } = this.chart;
      const left = Math.max(area.left, toX(at(block.start)));
      const right = Math.min(area.left + area.width, toX(at(block.stop - 1)));
      context.fillStyle = themeColor("damage-back");
      context.fillRect(left, area.top, Math.max(2, right - left), area.height);
      context.fillStyle = themeColor("damage");
      context.textAlign = "left";
      context.textBaseline = "top";
      context.fillText(block.problem, left + 6, area.top + 24, Math.max(80, right - left - 12));
      announce(block.problem);
    }
  }

  showHover(blocks) {
    if (this.hover === null) {
      replace(this.readout, h("span", { class: "muted" }, "point at the line to read its values"));
      return;
    }
    const block = blocks.findLast((one) => one.start <= this.hover);
    const unit = this.isTime ? "" : unitText(this.node.attributes?.units);
    const write = (value) => (value === undefined ? "…" : this.isTime ? timeText(value) : numberText(value, 7));
    const { low, high, first, last } = block?.extremes ? this.around(blocks) : single(block, this.hover);
    const text = `${low === high || Number.isNaN(low) ? write(low) : `${write(low)} … ${write(high)}`}${unit && low !== undefined ? ` ${unit}` : ""}`;
    const index = first;
    const indices = last > first ? `${first}–${last}` : first;
    const place = this.axis.values ? this.axis.text(index) : "";
    replace(this.readout,
      h("span", { class: "value" }, text),
      h("span", { class: "place" }, h("b", {}, this.axis.name), ` ${indices}`, place ? h("span", { class: "muted" }, ` ${place}`) : null));
    if (this.spoken) announce(this.readout.textContent);
  }

  /** Return the extremes of the pixels around the place that is pointed at, and their indices. */
  around(blocks) {
    const pixel = (this.visible[1] - this.visible[0]) / plotArea(this.canvas.clientWidth, this.canvas.clientHeight).width;
    const found = { low: NaN, high: NaN, first: this.length, last: 0 };
    for (const { start, every, values, extremes } of blocks) {
      if (!extremes) continue;
      for (let i = 0; 2 * i < values.length; i += 1) {
        const at = start + i * every;
        if (at + every <= this.hover - pixel || at > this.hover + pixel) continue;
        [found.first, found.last] = [Math.min(found.first, at), Math.max(found.last, Math.min(this.length, at + every) - 1)];
        const [low, high] = extent([found.low, values[2 * i]].concat(found.high, values[2 * i + 1]), [NaN, NaN]);
        [found.low, found.high] = [low, high];
      }
    }
    return found;
  }

  listen() {
    const { canvas } = this;
    const part = (event) => {
      const box = canvas.getBoundingClientRect();
      const area = plotArea(box.width, box.height);
      return (event.clientX - box.left - area.left) / area.width;
    };
    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held = { part: part(event), range: this.visible.slice() };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held) {
        const [start, stop] = held.range;
        const move = (held.part - part(event)) * (stop - start);
        this.setRange([start + move, stop + move]);
      } else this.setHover(Math.round(this.indexAt(part(event))));
    });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointercancel", () => { held = null; });
    canvas.addEventListener("pointerleave", () => this.setHover(null));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-Math.max(-200, Math.min(200, event.deltaY)) / 300), Math.min(1, Math.max(0, part(event))));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /** Return the index at a part of the width; coordinates need not be equally spaced. */
  indexAt(part) {
    let [low, high] = [this.visible[0], Math.max(this.visible[0] + 1, this.visible[1] - 1)];
    const [first, last] = [this.place(low), this.place(high)];
    const x = first + (last - first) * part;
    const rising = last >= first;
    for (let i = 0; i < 60 && high - low > 0.01; i += 1) {
      const middle = (low + high) / 2;
      if (this.place(middle) < x === rising) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  setHover(index, spoken = false) {
    this.spoken = spoken;
    this.hover = index === null ? null : Math.min(this.length - 1, Math.max(0, index));
    this.redraw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const step = this.wanted()[0].step;
    if (side && event.shiftKey) this.setHover((this.hover ?? Math.round((this.visible[0] + this.visible[1]) / 2)) + side * step, true);
    else if (side) this.pan(side * 0.1);
    else if (event.key === "+" || event.key === "=") this.zoom(1.5);
    else if (event.key === "-" || event.key === "_") this.zoom(1 / 1.5);
    else if (event.key === "0") this.setRange(null);
    else if (event.key === "s") this.save();
    else return;
    event.preventDefault();
  }

  save() {
    this.canvas.toBlob((blob) => download(blob, `${this.node.path.replace(/[^\w.-]+/g, "_") || "zarr"}.png`), "image/png");
  }
}

/** Cut the indices from `start` to `to` into requests of `part` values, the last one to the end of the data. */
function pieces(start, to, part, length, step, extremes) {
  const found = [];
  for (let first = start; first < to; first += part) {
    const stop = Math.min(length, first + part);
    found.push({ key: `${first}:${stop}:${step}:${extremes}`, start: first, stop, step, extremes });
  }
  return found;
}

/** Return the value next to an index in a block, and its index. */
function single(block, index) {
  if (!block) return { first: index, last: index };
  const i = Math.round((index - block.start) / block.every);
  const at = block.start + i * block.every;
  return { low: block.values[i], high: block.values[i], first: at, last: at };
}
