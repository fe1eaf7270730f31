/** The viewer of a plane: connects state, camera, tiles, drawing and settings. */

import { isSouthFirst, loadAxes, pixelAspect } from "./axes.js";
import { Camera } from "./camera.js";
import { autoRange, histogram } from "./contrast.js";
import { afterPause, announce, download, h, oncePerFrame, prepareCanvas, replace } from "./dom.js";
import { PlaneControls } from "./plane_controls.js";
import { PlaneInput } from "./plane_input.js";
import { PlaneState } from "./plane_state.js";
import { ProfilePanel } from "./profile.js";
import { Readout } from "./readout.js";
import { chooseResolution, levelIndex, resolutions, tilesWithin } from "./resolution.js";
import { drawScene } from "./scene.js";
import { SeriesPanel } from "./series.js";
import { TileCache, TileLoader, valuesWithin } from "./tiles.js";

const cache = new TileCache(); // shared by all planes, so that going back needs no request

export class PlaneView {
  /** Show a node in `host` and its settings in `panel`; `onChange` is called when the link changes. */
  constructor(host, panel, node, settings, onChange) {
    Object.assign(this, { host, panel, node, onChange });
    this.display = node.display;
    this.state = new PlaneState(node, settings);
    this.loader = new TileLoader(cache, () => this.loaded());
    this.redraw = oncePerFrame(() => this.draw());
    this.updateHistogram = afterPause(() => this.showHistogram(), 60);
    this.closing = new AbortController();
    this.isInteger = /^u?int(8|16|32)$/.test(this.display.transfer);
    this.cursor = null;
    this.drawing = false; // of a profile line
  }

  async start() {
    this.axes = await loadAxes(this.display, this.closing.signal);
    if (this.isClosed) return;
    this.controls = new PlaneControls(this.state, this.axes, {
      redraw: () => this.changed(),
      reload: () => this.changed(),
      reshape: () => this.reshape(true),
      setContrast: (low, high) => this.setContrast(low, high),
      auto: () => this.autoContrast(),
    });
    this.profile = new ProfilePanel(() => this.setLine(null));
    this.series = new SeriesPanel(this);
    this.readout = new Readout(this);
    this.canvas = h("canvas", {
      class: "plane", tabindex: "0", role: "application", "aria-roledescription": "image viewer",
      "aria-label": `Plane of ${this.node.path || "the root"}: arrow keys move, plus and minus zoom, shift and arrow keys read values`,
    });
    this.stage = h("div", { class: "stage" }, this.canvas, this.toolbar());
    replace(this.host, this.stage, this.controls.sliders, this.readout.element, this.profile.element, this.series.element);
    replace(this.panel, this.controls.settings);
    if (this.state.series) this.cursor = [this.state.series.row, this.state.series.column];
    this.reshape(false);
    this.input = new PlaneInput(this);
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.canvas);
    this.resized();
  }

  /** True when another node is shown: what comes late is then of no use. */
  get isClosed() {
    return this.closing.signal.aborted;
  }

  close() {
    this.closing.abort();
    this.loader.close();
    this.readout?.close();
    this.series?.close();
    this.observer?.disconnect();
  }

  toolbar() {
    const button = (label, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, label);
    this.lineButton = button("╱", "Line profile (p)", () => this.setDrawing(!this.drawing));
    this.gridButton = button("▦", "Chunk borders (g)", () => this.toggleGrid());
    this.seriesButton = button("∿", "Series along another axis (t)", () => this.toggleSeries());
    this.seriesButton.hidden = this.state.shape.length < 3;
    return h("div", { class: "toolbar", role: "toolbar", "aria-label": "View" },
      button("+", "Zoom in (+)", () => this.zoom(1.5)),
      button("−", "Zoom out (−)", () => this.zoom(1 / 1.5)),
      button("⤢", "Show everything (0)", () => this.fit()),
      this.gridButton,
      this.lineButton,
      this.seriesButton,
      button("⤓", "Save the picture (s)", () => this.save()),
    );
  }

  /** Prepare the plane of the two chosen axes. */
  reshape(forget) {
    const { state, axes } = this;
    const [rows, columns] = state.axes.map((i) => axes[i]);
    if (forget) {
      state.view = null;
      state.line = null;
      state.series = null;
      this.cursor = null;
    }
    this.resolutions = resolutions(this.display.levels, state.axes);
    this.camera = new Camera(state.shape[rows.index], state.shape[columns.index], pixelAspect(rows, columns), isSouthFirst(rows));
    this.stale = [];
    if (forget) this.resized();
    this.changed();
  }

  resized() {
    this.camera.resize(this.canvas.clientWidth, this.canvas.clientHeight);
    if (this.state.view) [this.camera.row, this.camera.column, this.camera.zoom] = this.state.view;
    else this.camera.fit();
    this.stage.dataset.state = "loading";
    this.redraw();
  }

  /** Note that the user moved the camera. */
  moved() {
    const { row, column, zoom } = this.camera;
    this.state.view = [row, column, zoom].map((n) => Number(n.toPrecision(8)));
    this.changed();
  }

  changed() {
    if (this.isClosed) return;
    this.stage.dataset.state = "loading"; // until the next picture knows what is there
    this.onChange(this.state.save());
    this.redraw();
    this.readout.refresh();
  }

  /** Act on a key that was pressed anywhere on the page. */
  key(event) {
    this.input?.key(event);
  }

  zoom(factor, x, y) {
    this.camera.zoomAt(factor, x, y);
    this.moved();
  }

  pan(dx, dy) {
    this.camera.pan(dx, dy);
    this.moved();
  }

  fit() {
    this.camera.fit();
    this.state.view = null;
    this.changed();
  }

  toggleGrid() {
    this.state.grid = !this.state.grid;
    this.changed();
  }

  setDrawing(on) {
    this.drawing = on;
    this.canvas.classList.toggle("drawing", on);
    this.redraw();
    if (on) announce("Draw a line across the picture, or press Enter at both of its ends");
  }

  setLine(line) {
    this.state.line = line?.map((n) => Number(n.toFixed(2))) ?? null;
    this.changed();
  }

  /** Show the values of a pixel along an axis; null removes them. */
  setSeries(series) {
    this.state.series = series && this.state.inside(series);
    this.cursor = series ? [this.state.series.row, this.state.series.column] : null;
    this.changed();
  }

  /** Begin with the pixel of the cross, or of the centre, along the first other axis. */
  toggleSeries() {
    const axis = this.state.sliders.find((i) => this.state.shape[i] > 1);
    if (this.state.series || axis === undefined) return this.setSeries(null);
    const [row, column] = this.cursor ?? [this.camera.row, this.camera.column];
    return this.setSeries({ row, column, axis });
  }

  setContrast(low, high) {
    Object.assign(this.state.band, { low, high });
    this.changed();
  }

  /** Return where the tiles of a layer come from: the same text for the same plane. */
  sliceKey(at) {
    const { axes } = this.state;
    return `${this.node.path}|${axes}|${at.map((n, i) => (axes.includes(i) ? "" : n))}`;
  }

  /** Ask for the tiles of all layers that are visible, and return the layers with what is there. */
  collect() {
    const { camera, state, display } = this;
    const ratio = window.devicePixelRatio || 1;
    this.resolution = chooseResolution(this.resolutions, camera.rowPixels * ratio, camera.zoom * ratio);
    const places = tilesWithin(this.resolution, camera.visible());
    const wanted = [];
    const layers = state.layers().map((layer, i) => {
      const slice = this.sliceKey(layer.at);
      const select = layer.at.map((n, axis) => levelIndex(display.levels, this.resolution.level, axis, n));
      const current = [];
      for (const tile of places) {
        const key = `${slice}|${tile.name}`;
        wanted.push({ key, tile, slice, select, axes: state.axes, decode: display.decode });
        const found = cache.get(key);
        if (found) current.push(found);
      }
      const complete = current.length === places.length;
      const tiles = complete ? current : [...this.others(slice), ...current];
      const stale = tiles.length === 0;
      if (!stale) this.stale[i] = tiles;
      return { ...layer, current, complete, stale, tiles: stale ? this.stale[i] ?? [] : tiles, range: this.range(layer, current) };
    });
    // The centre of every layer first, not all of the first layer.
    wanted.sort((a, b) => places.indexOf(a.tile) - places.indexOf(b.tile));
    return { layers, wanted };
  }

  /** Return tiles of other resolutions, coarse ones first, to show until the right ones are there. */
  others(slice) {
    return [...cache.tiles.values()]
      .filter((tile) => tile.slice === slice && tile.resolution.index !== this.resolution.index)
      .sort((a, b) => b.resolution.index - a.resolution.index);
  }

  /** Return the contrast of a layer; until one is chosen, that of the tiles which are there. */
  range({ band }, tiles) {
    if (band.low !== null) return band;
    const found = this.histogram(tiles);
    const [low, high] = found ? autoRange(found) : [0, 1];
    // Fractions of a histogram's bars mean nothing for integers.
    return this.isInteger
      ? { low: Math.floor(low), high: Math.ceil(high) }
      : { low: Number(low.toPrecision(6)), high: Number(high.toPrecision(6)) };
  }

  /** Return the histogram of the visible pixels of tiles. */
  histogram(tiles) {
    const box = this.camera.visible();
    return histogram(tiles.flatMap((tile) => valuesWithin(tile, box)));
  }

  draw() {
    if (this.isClosed) return;
    const { context, width, height } = prepareCanvas(this.canvas);
    if (width !== this.camera.width || height !== this.camera.height) this.camera.resize(width, height);
    const { layers, wanted } = this.collect();
    this.layers = layers;
    this.loader.want(wanted);
    this.fixContrast();
    this.showRange();
    this.readout.show(); // of the plane that is drawn now
    drawScene(context, {
      camera: this.camera,
      composite: this.state.isComposite,
      layers,
      resolution: this.resolution,
      grid: this.state.grid,
      line: this.state.line,
      cursor: this.cursor,
      columnAxis: this.axes[this.state.axes[1]],
    });
    this.lineButton.setAttribute("aria-pressed", String(this.drawing));
    this.gridButton.setAttribute("aria-pressed", String(this.state.grid));
    this.profile.show(this.state.line, layers.map((layer) => ({
      tiles: layer.tiles,
      color: this.state.isComposite ? `#${layer.band.color}` : null,
    })), this.state.axes.map((i) => this.axes[i]));
    if (this.state.series && !this.state.sliders.includes(this.state.series.axis)) this.state.series = null;
    this.seriesButton.setAttribute("aria-pressed", String(Boolean(this.state.series)));
    this.series.show();
    this.stage.dataset.state = this.loader.busy ? "loading" : "ready";
    this.updateHistogram();
  }

  /** When everything visible has come for the first time, keep the contrast that fits it. */
  fixContrast() {
    let fixed = false;
    for (const layer of this.layers) {
      if (!layer.complete || layer.band.low !== null || !layer.tiles.some((tile) => tile.values)) continue;
      Object.assign(layer.band, this.range(layer, layer.current));
      fixed = true;
    }
    if (fixed) this.onChange(this.state.save());
  }

  /** Show the contrast; one that still changes with the tiles that come can be changed already. */
  showRange() {
    const layer = this.layers.find((one) => one.band === this.state.band);
    const known = layer?.current.some((tile) => tile.values) ? layer.range : { low: null, high: null };
    const { low, high } = this.state.band.low === null ? known : this.state.band;
    this.controls.contrast.showRange(low, high);
  }

  autoContrast() {
    for (const layer of this.layers) Object.assign(layer.band, { low: null, high: null });
    this.changed();
  }

  showHistogram() {
    if (this.isClosed) return;
    const { band } = this.state;
    const layer = this.layers?.find((one) => one.band === band);
    const coarse = this.resolution.rows.factor * this.resolution.columns.factor;
    const about = this.state.isComposite ? `${band.label}, visible pixels` : "visible pixels";
    const level = coarse > 1 ? `${about} (1 of ${Math.round(coarse)})` : about;
    this.controls.contrast.showHistogram(this.histogram(layer?.current ?? []), level);
  }

  loaded() {
    if (this.isClosed) return;
    this.redraw();
    this.readout.refresh();
  }

  /** Save the picture as it is shown, with its scale bar. */
  save() {
    const name = `${this.node.path.replace(/[^\w.-]+/g, "_") || "zarr"}.png`;
    this.canvas.toBlob((blob) => download(blob, name), "image/png");
  }
}
