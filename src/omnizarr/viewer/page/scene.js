/** Draws a plane: tiles of the best resolution over coarser ones, problems, chunk borders, scale bar. */

import { paint } from "./colors.js";
import { themeColor } from "./dom.js";
import { scaleBar } from "./format.js";

/** Draw everything that is visible. `scene` holds camera, layers, tiles, axes and options. */
export function drawScene(context, scene) {
  const { camera } = scene;
  context.fillStyle = themeColor("stage");
  context.fillRect(0, 0, camera.width, camera.height);
  context.save();
  clipToData(context, camera);
  context.fillStyle = scene.composite ? "#000" : themeColor("empty");
  context.fillRect(0, 0, camera.width, camera.height);
  scene.layers.forEach((layer, i) => drawLayer(context, scene, layer, i));
  for (const layer of scene.layers) for (const tile of layer.tiles) drawProblems(context, camera, tile);
  context.restore();
  if (scene.grid) drawGrid(context, scene);
  if (scene.line) drawLine(context, camera, scene.line);
  if (scene.cursor) drawCursor(context, camera, scene.cursor);
  drawScaleBar(context, scene);
}

function clipToData(context, camera) {
  const [x0, y0] = camera.toScreen(0, 0);
  const [x1, y1] = camera.toScreen(camera.rows, camera.columns);
  context.beginPath();
  context.rect(Math.round(x0), Math.round(Math.min(y0, y1)), Math.round(x1) - Math.round(x0), Math.round(Math.abs(y1 - y0)));
  context.clip();
}

function drawLayer(context, scene, layer, index) {
  context.globalCompositeOperation = scene.composite && index > 0 ? "lighter" : "source-over";
  context.globalAlpha = layer.stale ? 0.35 : 1;
  for (const tile of layer.tiles) {
    if (!tile.values) continue;
    const { low, high } = layer.range;
    const key = `${layer.name} ${low} ${high}`;
    if (tile.painted !== key) {
      tile.canvas = paint(tile.values, tile.rows.count, tile.columns.count, { ...layer.style, low, high });
      tile.painted = key;
    }
    drawTile(context, scene.camera, tile, !layer.style.labels);
  }
  context.globalCompositeOperation = "source-over";
  context.globalAlpha = 1;
}

/** Return a box on the screen; edges are whole pixels, so that neighbours meet without a seam. */
function onScreen(camera, [top, left, bottom, right]) {
  const ratio = window.devicePixelRatio || 1;
  const snap = (value) => Math.round(value * ratio) / ratio;
  const [x0, y0] = camera.toScreen(top, left).map(snap);
  const [x1, y1] = camera.toScreen(bottom, right).map(snap);
  return { x: x0, y: Math.min(y0, y1), width: x1 - x0, height: Math.abs(y1 - y0), flipped: y1 < y0 };
}

function drawTile(context, camera, tile, smooth) {
  const { x, y, width, height, flipped } = onScreen(camera, tile.box);
  context.imageSmoothingEnabled = smooth && width < tile.columns.count;
  if (!flipped) {
    context.drawImage(tile.canvas, x, y, width, height);
    return;
  }
  context.save();
  context.translate(0, y + height);
  context.scale(1, -1);
  context.drawImage(tile.canvas, x, 0, width, height);
  context.restore();
}

/** Hatch what cannot be read and say why; dot what was never written. */
function drawProblems(context, camera, tile) {
  const { rows, columns } = tile.resolution;
  const edge = (part, index) => part.origin + (index * part.factor) / part.step;
  for (const problem of tile.problems) {
    const box = problem.rows
      ? [edge(rows, problem.rows[0]), edge(columns, problem.columns[0]), edge(rows, problem.rows[1]), edge(columns, problem.columns[1])]
      : tile.box;
    hatch(context, onScreen(camera, box), problem.text);
  }
  if (tile.missing) dots(context, onScreen(camera, tile.box));
}

function hatch(context, { x, y, width, height }, text) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.fillStyle = themeColor("damage-back");
  context.fillRect(x, y, width, height);
  context.strokeStyle = themeColor("damage");
  context.globalAlpha = 0.5;
  context.lineWidth = 1;
  context.beginPath();
  for (let d = -height; d < width; d += 8) {
    context.moveTo(x + d, y + height);
    context.lineTo(x + d + height, y);
  }
  context.stroke();
  context.globalAlpha = 1;
  context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  if (width > 70 && height > 24) writeLines(context, text, x + 6, y + 6, width - 12, height - 12);
  context.restore();
}

function writeLines(context, text, x, y, width, height) {
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  const lines = [""];
  for (const word of text.split(/(?<=[\s/])/)) {
    const longer = lines.at(-1) + word;
    if (context.measureText(longer).width > width && lines.at(-1)) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  const shown = lines.slice(0, Math.max(1, Math.floor(height / 14)));
  const widest = Math.max(...shown.map((line) => context.measureText(line).width));
  context.fillStyle = themeColor("damage-back");
  context.fillRect(x - 3, y - 3, Math.min(width, widest) + 6, shown.length * 14 + 4);
  context.fillStyle = themeColor("damage");
  shown.forEach((line, i) => context.fillText(line, x, y + i * 14, width));
}

function dots(context, { x, y, width, height }) {
  for (const [color, shift] of [["#fff6", 0], ["#0006", 1]]) {
    context.fillStyle = color;
    for (let i = x + 5; i < x + width; i += 10) {
      for (let j = y + 5; j < y + height; j += 10) context.fillRect(i + shift, j + shift, 1, 1);
    }
  }
}

/** Draw the borders of the chunks of the resolution that is shown, if they are not too close. */
function drawGrid(context, { camera, resolution }) {
  const { rows, columns } = resolution;
  const [top, left, bottom, right] = camera.visible();
  const [down, across] = [(rows.chunk * rows.factor) / rows.step, (columns.chunk * columns.factor) / columns.step];
  context.strokeStyle = themeColor("grid");
  context.lineWidth = 1;
  context.beginPath();
  if (down * camera.rowPixels > 4) {
    for (let r = Math.ceil(top / down) * down; r <= bottom; r += down) {
      const [x0, y] = camera.toScreen(r, left);
      const [x1] = camera.toScreen(r, right);
      context.moveTo(x0, Math.round(y) + 0.5);
      context.lineTo(x1, Math.round(y) + 0.5);
    }
  }
  if (across * camera.zoom > 4) {
    for (let c = Math.ceil(left / across) * across; c <= right; c += across) {
      const [x, y0] = camera.toScreen(top, c);
      const [, y1] = camera.toScreen(bottom, c);
      context.moveTo(Math.round(x) + 0.5, y0);
      context.lineTo(Math.round(x) + 0.5, y1);
    }
  }
  context.stroke();
}

function drawLine(context, camera, [r0, c0, r1, c1]) {
  const [from, to] = [camera.toScreen(r0, c0), camera.toScreen(r1, c1)];
  for (const [color, width] of [["#000a", 4], [themeColor("accent-strong"), 1.5]]) {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.stroke();
  }
  for (const [x, y] of [from, to]) {
    context.beginPath();
    context.arc(x, y, 4, 0, 7);
    context.fillStyle = themeColor("accent-strong");
    context.fill();
  }
}

function drawCursor(context, camera, [row, column]) {
  const [x0, y0] = camera.toScreen(row, column);
  const [x1, y1] = camera.toScreen(row + 1, column + 1);
  const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2];
  for (const [color, width] of [["#000b", 3], ["#fff", 1]]) {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x - 12, y);
    context.lineTo(x - 4, y);
    context.moveTo(x + 4, y);
    context.lineTo(x + 12, y);
    context.moveTo(x, y - 12);
    context.lineTo(x, y - 4);
    context.moveTo(x, y + 4);
    context.lineTo(x, y + 12);
    context.stroke();
  }
}

function drawScaleBar(context, { camera, columnAxis }) {
  const size = columnAxis.isTime ? null : columnAxis.pixelSize;
  if (!size || !columnAxis.unit) return;
  const bar = scaleBar(size, columnAxis.unit, Math.min(camera.width * 0.25, 220) / camera.zoom);
  if (!bar) return;
  const length = bar.pixels * camera.zoom;
  const [x, y] = [camera.width - 16 - length, camera.height - 16];
  context.font = "600 12px system-ui, sans-serif";
  const wide = Math.max(length, context.measureText(bar.text).width);
  context.fillStyle = "#0008";
  context.fillRect(camera.width - 16 - wide - 8, y - 24, wide + 16, 34);
  context.fillStyle = "#fff";
  context.fillRect(x, y, length, 3);
  context.textBaseline = "bottom";
  context.textAlign = "right";
  context.fillText(bar.text, camera.width - 16, y - 4);
  context.textAlign = "left";
}
