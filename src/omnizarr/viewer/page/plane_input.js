/** Mouse, touch and keys on a plane. */

const PAN = 60; // pixels of an arrow key

export class PlaneInput {
  constructor(view) {
    this.view = view;
    this.canvas = view.canvas;
    this.pointers = new Map(); // id → [x, y]
    this.lineStart = null;
    const on = (name, act, options) => this.canvas.addEventListener(name, act.bind(this), options);
    on("pointerdown", this.down);
    on("pointermove", this.move);
    on("pointerup", this.up);
    on("pointercancel", this.up);
    on("pointerleave", () => this.pointers.size || view.readout.point(null));
    on("wheel", this.wheel, { passive: false });
    on("dblclick", (event) => view.zoom(2, ...this.place(event)));
    on("keydown", this.key);
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    const at = this.place(event);
    this.pointers.set(event.pointerId, at);
    this.pressed = at;
    if (this.view.drawing) this.lineStart = this.view.camera.toData(...at);
  }

  move(event) {
    const at = this.place(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.view.readout.point(this.pixel(at));
      return;
    }
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
    this.pointers.set(event.pointerId, at);
    if (this.lineStart) {
      this.view.setLine([...this.lineStart, ...this.view.camera.toData(...at)]);
    } else if (others.length) {
      this.pinch(before, at, others[0][1]);
    } else {
      this.view.pan(at[0] - before[0], at[1] - before[1]);
    }
  }

  pinch(before, at, other) {
    const distance = (a, b) => Math.max(1, Math.hypot(a[0] - b[0], a[1] - b[1]));
    this.view.zoom(distance(at, other) / distance(before, other), (at[0] + other[0]) / 2, (at[1] + other[1]) / 2);
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    if (this.lineStart) {
      this.lineStart = null;
      this.view.setDrawing(false);
    }
    else if (this.view.state.series) this.pick(this.place(event));
    if (event.pointerType !== "mouse") this.view.readout.point(this.pixel(this.place(event)));
  }

  /** Show the series of a pixel that was clicked, not dragged. */
  pick(at) {
    const pixel = this.pixel(at);
    if (!pixel || Math.hypot(at[0] - this.pressed[0], at[1] - this.pressed[1]) > 4) return;
    this.view.setSeries({ ...this.view.state.series, row: pixel[0], column: pixel[1] });
  }

  /** Return the pixel of a place on the screen; null outside of the data. */
  pixel(at) {
    const { camera } = this.view;
    const [row, column] = camera.toData(...at).map(Math.floor);
    return row >= 0 && column >= 0 && row < camera.rows && column < camera.columns ? [row, column] : null;
  }

  wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const delta = Math.max(-200, Math.min(200, event.deltaY * lines));
    this.view.zoom(Math.exp(-delta / (event.ctrlKey ? 100 : 300)), ...this.place(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { view } = this;
    const arrow = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const acts = {
      "+": () => view.zoom(1.5),
      "=": () => view.zoom(1.5),
      "-": () => view.zoom(1 / 1.5),
      _: () => view.zoom(1 / 1.5),
      0: () => view.fit(),
      "[": () => view.controls.step(-1),
      "]": () => view.controls.step(1),
      a: () => view.autoContrast(),
      g: () => view.toggleGrid(),
      p: () => view.setDrawing(!view.drawing),
      t: () => view.toggleSeries(),
      s: () => view.save(),
      Enter: () => this.mark(),
      Escape: () => this.cancel(),
    };
    if (arrow && event.shiftKey) this.moveCursor(-arrow[0], -arrow[1]);
    else if (arrow) view.pan(arrow[0] * PAN, arrow[1] * PAN);
    else if (acts[event.key]) acts[event.key]();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Move the cross by one pixel, from the centre of the view if there is none yet. */
  moveCursor(across, down) {
    const { view } = this;
    const { camera } = view;
    const centre = this.pixel([camera.width / 2, camera.height / 2]) ?? [0, 0];
    const [row, column] = view.cursor ?? [centre[0] - down * camera.sign, centre[1] - across];
    view.cursor = [
      Math.min(camera.rows - 1, Math.max(0, row + down * camera.sign)),
      Math.min(camera.columns - 1, Math.max(0, column + across)),
    ];
    if (view.state.series) view.setSeries({ ...view.state.series, row: view.cursor[0], column: view.cursor[1] });
    view.readout.point(view.cursor, true);
    view.redraw();
  }

  /** Put an end of the profile line at the cross. */
  mark() {
    const { view } = this;
    if (!view.drawing || !view.cursor) return;
    const here = view.cursor.map((n) => n + 0.5);
    if (!this.keyStart) {
      this.keyStart = here;
      return;
    }
    view.setLine([...this.keyStart, ...here]);
    this.keyStart = null;
    view.setDrawing(false);
  }

  cancel() {
    const { view } = this;
    this.keyStart = null;
    this.lineStart = null;
    view.cursor = null;
    if (view.drawing) view.setDrawing(false);
    else if (view.state.line) view.setLine(null);
    else if (view.state.series) view.setSeries(null);
    view.redraw();
  }
}
