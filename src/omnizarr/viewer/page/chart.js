/** Line charts on a canvas: axes with ticks, lines, and envelopes where values are dense. */

import { prepareCanvas, themeColor } from "./dom.js";
import { numberText, ticks, timeText, timeTicks } from "./format.js";

const MARGIN = { left: 62, right: 12, top: 20, bottom: 40 }; // with room for the names of the axes

/** Return the part of a canvas that holds the lines. */
export function plotArea(width, height) {
  return {
    left: MARGIN.left,
    top: MARGIN.top,
    width: Math.max(10, width - MARGIN.left - MARGIN.right),
    height: Math.max(10, height - MARGIN.top - MARGIN.bottom),
  };
}

/** Return the least and greatest number of a list, NaN and infinities left out; `none` without any. */
export function extent(values, none = [0, 1]) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low && value > -Infinity) low = value;
    if (value > high && value < Infinity) high = value;
  }
  return low <= high ? [low, high] : none;
}

/** Widen a range a little, also one of a single value. */
export function pad([low, high], part = 0.05) {
  const room = (high - low) * part || Math.abs(low) * part || 0.5;
  return [low - room, high + room];
}

/**
 * Draw a chart. Series are `{values, start, step, color}`: the value i is at x = start + step × i,
 * or at `places[i]`. Values of one pixel column are drawn as their range.
 */
export function drawChart(canvas, { series, x, y, xTime = false, yTime = false, xLabel = "", yLabel = "", cursor = null }) {
  const { context, width, height } = prepareCanvas(canvas);
  const area = plotArea(width, height);
  const toX = (value) => area.left + ((value - x[0]) / (x[1] - x[0])) * area.width;
  const toY = (value) => area.top + area.height - ((value - y[0]) / (y[1] - y[0])) * area.height;
  context.clearRect(0, 0, width, height);
  drawAxes(context, { area, x, y, xTime, yTime, xLabel, yLabel, toX, toY });
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.width, area.height);
  context.clip();
  for (const one of series) drawSeries(context, one, area, toX, toY);
  if (cursor !== null) {
    context.strokeStyle = themeColor("muted");
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(toX(cursor), area.top);
    context.lineTo(toX(cursor), area.top + area.height);
    context.stroke();
  }
  context.restore();
  return { toX, toY, area };
}

function drawAxes(context, { area, x, y, xTime, yTime, xLabel, yLabel, toX, toY }) {
  context.font = "11px system-ui, sans-serif";
  context.lineWidth = 1;
  const line = themeColor("line");
  const text = themeColor("muted");
  const bottom = area.top + area.height;
  const place = (low, high, count, time) => (time ? timeTicks(low, high, count) : { found: ticks(low, high, count), step: 0 });
  const write = (value, step, time, range) => (time ? timeText(value, step) : numberText(Number(value.toPrecision(6)), digits(range)));

  const down = place(y[0], y[1], Math.max(2, area.height / 40), yTime);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of down.found) {
    const at = Math.round(toY(value)) + 0.5;
    context.strokeStyle = line;
    context.beginPath();
    context.moveTo(area.left, at);
    context.lineTo(area.left + area.width, at);
    context.stroke();
    context.fillStyle = text;
    context.fillText(write(value, down.step, yTime, y), area.left - 6, at, area.left - 8);
  }
  const across = place(x[0], x[1], Math.max(2, area.width / 110), xTime);
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const value of across.found) {
    const at = Math.round(toX(value)) + 0.5;
    context.strokeStyle = line;
    context.beginPath();
    context.moveTo(at, area.top);
    context.lineTo(at, bottom + 4);
    context.stroke();
    context.fillStyle = text;
    context.fillText(write(value, across.step, xTime, x), at, bottom + 6);
  }
  context.strokeStyle = themeColor("muted");
  context.strokeRect(area.left + 0.5, area.top + 0.5, area.width, area.height);
  context.fillStyle = text;
  context.textAlign = "right";
  context.textBaseline = "bottom";
  if (xLabel) context.fillText(xLabel, area.left + area.width, bottom + 34);
  context.textAlign = "left";
  if (yLabel) context.fillText(yLabel, area.left, area.top - 4);
}

/** Return as many digits as tell the ticks of a range apart. */
function digits([low, high]) {
  const size = Math.max(Math.abs(low), Math.abs(high));
  return Math.min(12, Math.max(4, Math.ceil(Math.log10(size / (high - low) || 1)) + 3));
}

function drawSeries(context, { values, start = 0, step = 1, places = null, color }, area, toX, toY) {
  const at = places ? (i) => toX(places[i]) : (i) => toX(start + step * i);
  const dense = values.length > 2 * area.width;
  context.strokeStyle = color;
  context.fillStyle = color;
  context.lineWidth = 1.4;
  context.lineJoin = "round";
  context.beginPath();
  if (dense) drawEnvelope(context, values, at, toY);
  else drawPath(context, values, at, toY);
  context.stroke();
  if (!dense && values.length * 6 < area.width) {
    for (let i = 0; i < values.length; i += 1) {
      if (!Number.isFinite(values[i])) continue;
      context.beginPath();
      context.arc(at(i), toY(values[i]), 2, 0, 7);
      context.fill();
    }
  }
}

function drawPath(context, values, at, toY) {
  let joined = false;
  for (let i = 0; i < values.length; i += 1) {
    const ok = Number.isFinite(values[i]);
    if (ok && joined) context.lineTo(at(i), toY(values[i]));
    else if (ok) {
      context.moveTo(at(i), toY(values[i]));
      // A value between two gaps would be invisible without this.
      context.lineTo(at(i) + 0.01, toY(values[i]));
    }
    joined = ok;
  }
}

/** Draw, for each column of pixels, a line from the least to the greatest value in it. */
function drawEnvelope(context, values, at, toY) {
  let column = null;
  let [low, high, last] = [Infinity, -Infinity, null];
  const flush = () => {
    if (column === null || low > high) return;
    if (last !== null) context.lineTo(column + 0.5, toY(last));
    else context.moveTo(column + 0.5, toY(low));
    context.moveTo(column + 0.5, toY(low));
    context.lineTo(column + 0.5, toY(high) - 0.5);
  };
  for (let i = 0; i < values.length; i += 1) {
    const here = Math.floor(at(i));
    if (here !== column) {
      flush();
      if (low > high) last = null;
      column = here;
      [low, high] = [Infinity, -Infinity];
    }
    const value = values[i];
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
    last = value;
  }
  flush();
}
