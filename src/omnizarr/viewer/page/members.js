/** The members of a group or folder: a table with a small picture of each, fetched when it is seen. */

import { getMembers, getNode, getValues } from "./api.js";
import { mapColors, paint } from "./colors.js";
import { autoRange, histogram } from "./contrast.js";
import { announce, h, replace } from "./dom.js";
import { bytesText, kindText, shapeText } from "./format.js";
import { formatLink } from "./link.js";

const SIDE = 48; // pixels of a picture
const MOST = 2 ** 24; // bytes of an array that is small enough to be read for one
const COLUMNS = ["", "name", "kind", "shape", "type", "chunks", "size"];

/** List the members of a group. */
export async function showMembers(host, node, signal) {
  const body = h("tbody");
  const about = h("p", { class: "muted about" });
  const more = h("button", { type: "button", hidden: true }, "More");
  const counts = new Map();
  let bytes = 0;
  const pictures = new PictureQueue(signal);
  const row = (member) => {
    const picture = h("td", { class: "picture" });
    pictures.add(picture, member);
    return h("tr", {},
      picture,
      h("td", {}, h("a", { href: formatLink(member.path) }, member.name)),
      member.kind === "error" ? h("td", { class: "problem", colspan: "5" }, member.error) : facts(member));
  };
  const facts = (member) => [
    h("td", {}, kindText(member)),
    h("td", {}, shapeText(member.shape)),
    h("td", {}, member.dtype ?? ""),
    h("td", {}, member.chunks ? `${shapeText(member.chunks)}${member.shards ? ` in shards of ${shapeText(member.shards)}` : ""}` : ""),
    h("td", { class: "number" }, bytesText(member.nbytes)),
  ];
  const load = async (offset) => {
    more.disabled = true; // else a second click would load the same members again
    let page;
    try {
      page = await getMembers(node.path, offset);
    } finally {
      more.disabled = false;
    }
    if (signal.aborted) return;
    body.append(...page.members.map(row));
    more.hidden = page.next === null || page.next === undefined;
    more.onclick = () => load(page.next).catch((error) => announce(error.message));
    if (!body.children.length) body.append(h("tr", {}, h("td", { class: "muted", colspan: String(COLUMNS.length) }, "no members")));
    for (const { kind, nbytes } of page.members) {
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      bytes += nbytes ?? 0;
    }
    const texts = [...counts].map(([kind, n]) => `${n} ${kind}${n === 1 ? "" : "s"}`);
    about.textContent = [...texts, bytes ? `${bytesText(bytes)} in arrays` : null, more.hidden ? null : "more below"].filter(Boolean).join(", ");
  };
  const reason = node.kind === "image" ? node.display?.reason : null;
  replace(host,
    reason ? h("p", { class: "notice problem" }, reason) : null,
    about,
    h("div", { class: "table-box members" },
      h("table", {}, h("thead", {}, h("tr", {}, COLUMNS.map((name) => h("th", { scope: "col" }, name)))), body), more));
  await load(0);
}

/** Fetches one picture after the other, and only those that are on the screen. */
class PictureQueue {
  constructor(signal) {
    this.signal = signal;
    this.members = new Map(); // by cell
    this.last = Promise.resolve();
    this.observer = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) this.fetch(target);
    });
    signal.addEventListener("abort", () => this.observer.disconnect());
  }

  add(cell, member) {
    if (member.kind !== "image" && !(member.shape?.length >= 2 && member.nbytes <= MOST && !member.error)) return;
    this.members.set(cell, member);
    this.observer.observe(cell);
  }

  fetch(cell) {
    this.observer.unobserve(cell);
    this.last = this.last.then(async () => {
      if (this.signal.aborted) return;
      const canvas = await picture(this.members.get(cell), this.signal);
      if (canvas) cell.append(canvas);
    }).catch(() => {}); // what cannot be read says so when it is opened
  }
}

/** Return a small picture of an array or image; null where there is no plane of numbers. */
async function picture(member, signal) {
  let [array, plane] = [member, null];
  if (member.kind === "image") {
    const { display } = await getNode(member.path, signal);
    if (display?.kind !== "plane") return null;
    array = display.levels.at(-1);
    plane = display.plane;
    if (array.shape.reduce((a, b) => a * b, 8) > MOST) return null;
  } else {
    const photo = array.dtype === "uint8" && array.shape.length > 2 && [3, 4].includes(array.shape.at(-1));
    plane = [array.shape.length - (photo ? 3 : 2), array.shape.length - (photo ? 2 : 1)];
  }
  const step = Math.max(1, ...plane.map((axis) => Math.ceil(array.shape[axis] / SIDE)));
  const items = array.shape.map((n, axis) => (plane.includes(axis) ? [0, n, step] : member.kind === "image" ? 0 : n >> 1));
  const { values, shape } = await getValues(array.path, items, { signal, decode: "cf" });
  const found = ArrayBuffer.isView(values) ? histogram([values]) : null;
  if (!found || shape.length !== 2 || plane[0] > plane[1]) return null;
  const [low, high] = autoRange(found);
  return paint(values, shape[0], shape[1], { colors: mapColors(member.kind === "image" ? "gray" : "viridis"), low, high });
}
