/** The page: opens the node that the address names, and keeps the address up to date. */

import { getNode } from "./api.js";
import { showDetails } from "./details.js";
import { announce, h, replace } from "./dom.js";
import { formatLink, parseLink } from "./link.js";
import { showMembers } from "./members.js";
import { PlaneView } from "./plane.js";
import { PlotView } from "./plot.js";
import { ScalarView, TableView } from "./table.js";
import { Tree } from "./tree.js";
import { startTheme } from "./theme.js";

const VIEWS = { plane: PlaneView, plot: PlotView, table: TableView, scalar: ScalarView };
const KEYS = [
  ["arrow keys", "move; in the hierarchy: walk"],
  ["shift + arrow keys", "read values pixel by pixel"],
  ["+  −", "zoom"],
  ["0", "show everything"],
  ["[  ]", "step along the slider that was used last"],
  ["a", "fit the contrast to what is visible"],
  ["g", "borders of chunks"],
  ["p", "line profile: draw a line, or Enter at both ends"],
  ["t", "series of a pixel along another axis; click chooses the pixel"],
  ["s", "save the picture"],
  ["Esc", "remove cross and line"],
  ["?", "this list"],
];

const part = (id) => document.getElementById(id);
const tree = new Tree(part("tree"), (path) => navigate(formatLink(path)));
let view = null;
let opening = null; // AbortController of the node that is being opened
let writing = 0; // timer of the address
let unwritten = null; // link that is written when the timer ends

/** Go to a link of this page. */
function navigate(link) {
  writeNow();
  if (link !== location.hash) history.pushState(null, "", link);
  openAddress();
}

/** Show the node that the address names. */
async function openAddress() {
  clearTimeout(writing);
  unwritten = null; // settings of the node before, which the address does not name any more
  const { path, settings } = parseLink(location.hash);
  opening?.abort();
  opening = new AbortController();
  const { signal } = opening;
  view?.close();
  view = null;
  const host = part("view");
  host.dataset.state = "loading";
  host.dataset.path = path;
  for (const id of ["view", "controls"]) part(id).inert = true; // what is still there is of the node before
  showCrumbs(path);
  try {
    const node = await getNode(path, signal);
    if (signal.aborted) return;
    document.title = `${path || "/"} · omnizarr`;
    tree.reveal(path);
    await showNode(node, settings, signal);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    replace(part("controls"));
    replace(part("details"));
    showProblem(error.message);
  }
}

async function showNode(node, settings, signal) {
  const host = part("view");
  replace(host);
  replace(part("controls"));
  for (const id of ["view", "controls"]) part(id).inert = false;
  const View = VIEWS[node.display?.kind];
  showDetails(part("details"), node, () => (view?.state ? { axes: view.state.axes, at: view.state.at } : null));
  if (View) {
    const shown = new View(host, part("controls"), node, settings, (found) => {
      if (signal.aborted) return;
      writeLink(node.path, found);
      part("details").querySelector(".presence-section")?.look();
    });
    view = shown;
    await shown.start();
    if (signal.aborted) shown.close();
  } else if (["group", "image", "folder"].includes(node.kind)) {
    await showMembers(host, node, signal);
  } else {
    showProblem(node.display?.reason || node.error || "this node has no values");
  }
  if (!signal.aborted) host.dataset.state = "ready";
  announce(`${node.kind} ${node.path || "/"} is shown`);
}

function showProblem(text) {
  const host = part("view");
  host.inert = false;
  replace(host, h("div", { class: "notice problem", role: "alert" }, text));
  host.dataset.state = "ready";
}

/** Keep the address up to date; browsers allow only so many changes a second. */
function writeLink(path, settings) {
  clearTimeout(writing);
  unwritten = formatLink(path, settings);
  writing = setTimeout(writeNow, 120);
}

/** Write the address that waits, so that a copy or the history has the last change. */
function writeNow() {
  clearTimeout(writing);
  if (unwritten !== null && unwritten !== location.hash) history.replaceState(null, "", unwritten);
  unwritten = null;
}

function showCrumbs(path) {
  const names = path ? path.split("/") : [];
  replace(part("crumbs"),
    h("a", { href: "#/" }, "/"),
    names.map((name, i) => [
      i ? h("span", { class: "muted" }, "/") : null,
      h("a", { href: formatLink(names.slice(0, i + 1).join("/")), "aria-current": i === names.length - 1 ? "page" : null }, name),
    ]));
}

function showKeys() {
  if (document.querySelector("dialog")) return;
  const dialog = h("dialog", { "aria-label": "Keys" },
    h("h2", {}, "Keys"),
    h("dl", {}, KEYS.flatMap(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

async function copyLink() {
  writeNow();
  try {
    await navigator.clipboard.writeText(location.href);
    announce("The link is copied");
    part("copy-link").textContent = "Copied";
  } catch {
    part("copy-link").textContent = "Copy the address";
  }
  setTimeout(() => { part("copy-link").textContent = "Link"; }, 1500);
}

function toggleTree() {
  const shown = document.body.classList.toggle("no-tree");
  part("toggle-tree").setAttribute("aria-expanded", String(!shown));
}

function start() {
  startTheme(part("theme"), () => view?.redraw?.());
  part("help").addEventListener("click", showKeys);
  part("copy-link").addEventListener("click", copyLink);
  part("toggle-tree").addEventListener("click", toggleTree);
  if (matchMedia("(max-width: 720px)").matches) toggleTree();
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || /INPUT|SELECT|TEXTAREA|DIALOG/.test(event.target.tagName)) return;
    if (event.key === "?") showKeys();
    // Keys of the picture also work where the focus is elsewhere; Enter belongs to what has it.
    else if (event.key !== "Enter" && !document.querySelector("dialog")) view?.key?.(event);
  });
  // Links inside the page and the buttons of the browser.
  window.addEventListener("popstate", openAddress);
  tree.start();
  openAddress();
}

start();
