/** Where a plane is on the screen: its centre, its zoom, the shape of its pixels, its direction. */

export class Camera {
  /** `aspect` is the height of a pixel over its width; `flipped` puts row 0 at the bottom. */
  constructor(rows, columns, aspect = 1, flipped = false) {
    this.rows = rows;
    this.columns = columns;
    this.aspect = aspect;
    this.sign = flipped ? -1 : 1;
    this.row = rows / 2;
    this.column = columns / 2;
    this.zoom = 1; // CSS pixels of the screen per column
    this.width = 1;
    this.height = 1;
  }

  get rowPixels() {
    return this.zoom * this.aspect;
  }

  resize(width, height) {
    this.width = width;
    this.height = height;
  }

  /** Show everything. */
  fit() {
    this.row = this.rows / 2;
    this.column = this.columns / 2;
    this.zoom = this.fitting();
  }

  fitting() {
    const margin = 12;
    const across = Math.max(1, this.width - margin) / this.columns;
    const down = Math.max(1, this.height - margin) / (this.rows * this.aspect);
    return Math.min(across, down, 64);
  }

  toScreen(row, column) {
    return [
      this.width / 2 + (column - this.column) * this.zoom,
      this.height / 2 + (row - this.row) * this.rowPixels * this.sign,
    ];
  }

  toData(x, y) {
    return [
      this.row + ((y - this.height / 2) / this.rowPixels) * this.sign,
      this.column + (x - this.width / 2) / this.zoom,
    ];
  }

  /** Return the visible part as [top, left, bottom, right]. */
  visible() {
    const [a, left] = this.toData(0, 0);
    const [b, right] = this.toData(this.width, this.height);
    return [
      Math.max(0, Math.min(a, b)),
      Math.max(0, left),
      Math.min(this.rows, Math.max(a, b)),
      Math.min(this.columns, right),
    ];
  }

  /** Move by pixels of the screen; some part of the data always stays visible. */
  pan(dx, dy) {
    this.column -= dx / this.zoom;
    this.row -= (dy / this.rowPixels) * this.sign;
    this.limit();
  }

  /** Zoom by a factor; what is at a place of the screen stays there. */
  zoomAt(factor, x = this.width / 2, y = this.height / 2) {
    const [row, column] = this.toData(x, y);
    const least = Math.min(this.fitting() / 4, 1);
    this.zoom = Math.min(256, Math.max(least, this.zoom * factor));
    const [now, here] = this.toData(x, y);
    this.row += row - now;
    this.column += column - here;
    this.limit();
  }

  limit() {
    this.row = Math.min(this.rows, Math.max(0, this.row));
    this.column = Math.min(this.columns, Math.max(0, this.column));
  }
}
