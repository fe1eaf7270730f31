/** What is known about a node: facts, chunk grid, stored chunks, codecs, attributes. */

import { getChunks } from "./api.js";
import { chunkFigure, drawPresence } from "./chunks.js";
import { h, replace } from "./dom.js";
import { bytesText, countText, shapeText } from "./format.js";

/** Show the details of a node; `getAt()` returns the plane and place that are looked at. */
export function showDetails(element, node, getAt) {
  replace(element,
    node.error ? h("p", { class: "problem" }, node.error) : null,
    facts(node),
    node.chunks ? chunkSection(node) : null,
    node.kind === "array" && node.shape?.length ? presenceSection(node, getAt) : null,
    node.codecs?.length ? section("Codecs", h("ol", { class: "codecs" }, node.codecs.map((text) => h("li", {}, text)))) : null,
    attributeSection(node.attributes),
    node.info?.length ? section("All facts", list(node.info)) : null,
    addressSection(node),
  );
}

function section(title, ...content) {
  return h("details", {}, h("summary", {}, title), content);
}

function list(pairs) {
  return h("dl", {}, pairs.flatMap(([label, text]) => [h("dt", {}, label), h("dd", {}, String(text))]));
}

function facts(node) {
  const pairs = [["kind", node.kind === "image" ? "OME-Zarr image" : node.kind]];
  if (node.zarr_format) pairs.push(["format", `Zarr version ${node.zarr_format}`]);
  if (node.shape) pairs.push(["shape", named(node.shape, node.dimension_names)]);
  if (node.dtype) pairs.push(["type", node.dtype]);
  const { levels, axes } = node.display ?? {};
  if (node.kind === "image" && levels) {
    pairs.push(["shape", named(levels[0].shape, axes.map((axis) => axis.name))], ["type", node.display.dtype], ["levels", String(levels.length)]);
  }
  if (node.chunks) pairs.push(["chunks", shapeText(node.chunks)]);
  if (node.shards) pairs.push(["shards", shapeText(node.shards)]);
  if (node.nbytes !== undefined && node.nbytes !== null) pairs.push(["size", bytesText(node.nbytes)]);
  if (node.stored_bytes !== undefined && node.stored_bytes !== null) {
    const ratio = node.nbytes && node.stored_bytes ? `, ratio ${(node.nbytes / node.stored_bytes).toFixed(1)}` : "";
    pairs.push(["stored", `${bytesText(node.stored_bytes)}${ratio}`]);
  }
  if (node.fill_value !== undefined && node.fill_value !== null) pairs.push(["fill value", JSON.stringify(node.fill_value)]);
  return list(pairs);
}

function named(shape, names) {
  if (!names || !shape.length) return shapeText(shape);
  return shape.map((n, i) => `${names[i] ?? `axis ${i}`} ${countText(n)}`).join(" × ");
}

function chunkSection(node) {
  const figure = chunkFigure(node.shape, node.chunks, node.shards);
  if (!figure) return null;
  const part = section("Chunk grid", figure);
  part.open = true;
  return part;
}

/** Which chunks are stored is asked when somebody wants to know: it may need a listing. */
function presenceSection(node, getAt) {
  const text = h("p", { class: "muted" }, "…");
  const canvas = h("canvas", { class: "presence", role: "img", "aria-label": "Map of the stored chunks" });
  let found = null;
  const part = section("Stored chunks", text, canvas);
  // Also when another plane is looked at.
  part.look = async () => {
    if (!part.open) return;
    try {
      found ??= getChunks(node.path);
      const chunks = await found;
      text.textContent = drawPresence(canvas, chunks, node, getAt());
    } catch (error) {
      found = null; // asked for again the next time
      text.textContent = error.message;
    }
  };
  part.addEventListener("toggle", part.look);
  part.classList.add("presence-section");
  return part;
}

function attributeSection(attributes) {
  const names = Object.keys(attributes ?? {});
  if (!names.length) return null;
  const part = section(`Attributes (${names.length})`, h("div", { class: "json" }, names.map((name) => entry(name, attributes[name], 0))));
  part.open = names.length <= 12;
  return part;
}

/** Show a value of JSON: objects and lists folded, texts as text. */
function entry(name, value, depth) {
  const label = h("span", { class: "key" }, name);
  if (value === null || typeof value !== "object") return h("div", {}, label, " ", scalar(value));
  const simple = JSON.stringify(value);
  if (simple.length < 40) return h("div", {}, label, " ", h("span", { class: "literal" }, simple));
  const names = Object.keys(value);
  const about = Array.isArray(value) ? `[${names.length}]` : `{${names.length}}`;
  const part = h("details", {}, h("summary", {}, label, " ", h("span", { class: "muted" }, about)));
  // Filled when it is opened: attributes may be very large.
  part.addEventListener("toggle", () => {
    if (part.childElementCount > 1) return;
    part.append(...names.slice(0, 500).map((inner) => entry(inner, value[inner], depth + 1)));
    if (names.length > 500) part.append(h("div", { class: "muted" }, `… ${names.length - 500} more`));
  }, { once: true });
  return part;
}

function scalar(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const shown = text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
  return h("span", { class: typeof value === "string" ? "text" : "literal" }, shown);
}

/** Where programs find the node, whatever version of Zarr they know. */
function addressSection({ kind, path }) {
  if (kind === "folder" || kind === "error") return null;
  const address = (start) => new URL(`${start}/${path.split("/").map(encodeURIComponent).join("/")}`, document.baseURI).href.replace(/\/$/, "");
  const part = section("Addresses for programs", list([["as stored", address("store")], ["Zarr 2", address("v2")], ["Zarr 3", address("v3")]]));
  part.classList.add("addresses");
  return part;
}
