/**
 * Elements of the page. Names and attributes come from strangers' files, so that text only ever
 * becomes text nodes and attribute values: nothing here parses HTML.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Create an element with properties ("class", "onclick", attributes) and children (text or nodes). */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Create an SVG element. */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "open") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** Append text and nodes; null, undefined and false are left out. */
export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child);
  }
}

/** Replace everything inside an element. */
export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Tell people who listen instead of looking. */
export function announce(text) {
  document.getElementById("status").textContent = text;
}

/** Return a colour of the style sheet as canvases need it. */
export function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Size a canvas to its box in device pixels; return its context, in CSS pixels, and its size. */
export function prepareCanvas(canvas, ratio = window.devicePixelRatio || 1) {
  const width = Math.max(1, canvas.clientWidth);
  const height = Math.max(1, canvas.clientHeight);
  const size = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

/** Return a function that runs `task` once before the next picture, however often it is called. */
export function oncePerFrame(task) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      task();
    });
  };
}

/** Return a function that runs `task` when it has not been called for so many milliseconds. */
export function afterPause(task, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => task(...values), milliseconds);
  };
}

/** Offer a file to the user. */
export function download(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
