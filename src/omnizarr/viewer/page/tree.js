/** The tree of the hierarchy: members are fetched when a group is opened, in pages. */

import { getMembers, getNode } from "./api.js";
import { h } from "./dom.js";
import { bytesText, kindText, shapeText } from "./format.js";
import { formatLink } from "./link.js";

const ICONS = { group: "▸", image: "▸", folder: "▸", array: "▦", error: "⚠" };

export class Tree {
  /** `onOpen(path)` is called when a node is chosen. */
  constructor(element, onOpen) {
    this.element = element;
    this.onOpen = onOpen;
    this.items = new Map(); // path → item
    element.addEventListener("keydown", (event) => this.key(event));
  }

  /** Begin with the root, open; what cannot be read is said by the view of that node. */
  start() {
    this.ready = this.showRoot().catch((error) => {
      this.element.replaceChildren(h("li", { role: "none", class: "problem" }, error.message));
    });
  }

  async showRoot() {
    const root = await getNode("");
    const item = this.makeItem({ ...root, name: root.name || "/", members: root.kind !== "array" }, 1);
    this.element.replaceChildren(item);
    item.querySelector("a").tabIndex = 0;
    if (root.kind !== "array") await this.expand(item);
  }

  makeItem(node, level) {
    const group = ["group", "image", "folder"].includes(node.kind);
    const version = level > 1 && node.zarr_format !== undefined ? kindText(node) : ""; // of a hierarchy in a folder
    const facts = node.kind === "error" ? node.error : node.shape ? `${shapeText(node.shape)} ${node.dtype ?? ""}` : version;
    const item = h("li", { role: "none", class: `kind-${node.kind}` });
    const link = h("a", {
      href: formatLink(node.path), role: "treeitem", tabindex: "-1", "aria-level": level,
      "aria-expanded": group && node.members !== false ? "false" : null,
      title: [node.name, facts, bytesText(node.nbytes)].filter(Boolean).join("\n"),
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        if (event.target.classList.contains("mark") && group) this.toggle(item);
        else this.choose(item);
      },
    },
      h("span", { class: "mark", "aria-hidden": "true" }, group && node.members === false ? "▹" : ICONS[node.kind] ?? "▦"),
      h("span", { class: "name" }, node.name),
      node.kind === "image" ? h("span", { class: "badge" }, "image") : null,
      h("span", { class: "facts" }, node.kind === "error" ? "not readable" : facts),
      node.nbytes === undefined || node.nbytes === null ? null : h("span", { class: "facts size" }, bytesText(node.nbytes)));
    Object.assign(item, { node, level, link });
    item.append(link);
    this.items.set(node.path, item);
    return item;
  }

  choose(item) {
    this.select(item.node.path);
    if (item.link.getAttribute("aria-expanded") === "false") this.expand(item);
    this.onOpen(item.node.path);
  }

  toggle(item) {
    return item.link.getAttribute("aria-expanded") === "true" ? this.collapse(item) : this.expand(item);
  }

  collapse(item) {
    item.link.setAttribute("aria-expanded", "false");
    if (item.list) item.list.hidden = true;
  }

  async expand(item) {
    if (item.link.getAttribute("aria-expanded") === null) return;
    item.link.setAttribute("aria-expanded", "true");
    if (item.failed) {
      item.list.remove();
      item.list = null;
      item.failed = false;
    }
    if (item.list) {
      item.list.hidden = false;
      await item.loading;
      return;
    }
    item.list = h("ul", { role: "group" });
    item.append(item.list);
    item.loading = this.loadPage(item, 0);
    await item.loading;
  }

  async loadPage(item, offset) {
    try {
      const page = await getMembers(item.node.path, offset);
      for (const node of page.members) item.list.append(this.makeItem(node, item.level + 1));
      if (page.next !== null && page.next !== undefined) item.list.append(this.moreItem(item, page));
      else if (!item.list.children.length) item.list.append(h("li", { role: "none", class: "muted" }, "empty"));
    } catch (error) {
      const problem = h("li", { role: "none", class: "problem" }, error.message);
      item.list.append(problem);
      if (offset) item.list.append(this.moreItem(item, { next: offset }));
      else item.failed = true; // the next time that it is opened, the server is asked again
    }
  }

  moreItem(item, page) {
    const more = h("li", { role: "none" }, h("a", {
      href: "#", role: "treeitem", tabindex: "-1", class: "more", "aria-level": item.level + 1,
      onclick: (event) => {
        event.preventDefault();
        const focused = more.contains(document.activeElement);
        const place = more.previousElementSibling;
        more.remove();
        this.loadPage(item, page.next).then(() => {
          if (focused) this.focus((place?.nextElementSibling ?? item).querySelector("a"));
        });
      },
    }, page.total ? `more of ${page.total} …` : "more …"));
    return more;
  }

  /** Mark a node as the one that is shown. */
  select(path) {
    this.element.querySelector('[aria-selected="true"]')?.removeAttribute("aria-selected");
    const item = this.items.get(path);
    if (!item) return;
    item.link.setAttribute("aria-selected", "true");
    this.rove(item.link);
    item.link.scrollIntoView({ block: "nearest" });
  }

  /** Open the groups above a node, so that it can be seen. */
  async reveal(path) {
    this.wanted = path;
    await this.ready;
    if (!this.items.has("")) return;
    let above = "";
    await this.expand(this.items.get(""));
    for (const part of path.split("/").slice(0, -1)) {
      above = above ? `${above}/${part}` : part;
      const item = this.items.get(above);
      if (!item) break;
      await this.expand(item);
    }
    if (this.wanted === path) this.select(path); // else another node was chosen meanwhile
  }

  rove(link) {
    for (const old of this.element.querySelectorAll('a[tabindex="0"]')) old.tabIndex = -1;
    link.tabIndex = 0;
  }

  focus(link) {
    if (!link) return;
    this.rove(link);
    link.focus();
  }

  key(event) {
    const links = [...this.element.querySelectorAll("a")].filter((link) => link.offsetParent !== null);
    const i = links.indexOf(document.activeElement);
    if (i < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const item = links[i].parentElement;
    const open = links[i].getAttribute("aria-expanded");
    if (event.key === "ArrowDown") this.focus(links[i + 1]);
    else if (event.key === "ArrowUp") this.focus(links[i - 1]);
    else if (event.key === "Home") this.focus(links[0]);
    else if (event.key === "End") this.focus(links.at(-1));
    else if (event.key === "ArrowRight" && open === "false") this.expand(item);
    else if (event.key === "ArrowRight" && open === "true") this.focus(item.list?.querySelector("a"));
    else if (event.key === "ArrowLeft" && open === "true") this.collapse(item);
    else if (event.key === "ArrowLeft") this.focus(item.parentElement.closest("li")?.querySelector("a"));
    else if (event.key === " ") links[i].click();
    else return;
    event.preventDefault();
  }
}
