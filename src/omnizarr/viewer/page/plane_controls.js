/** Settings of a plane: its axes, colour map, channels, contrast, and sliders of the other axes. */

import { COMPOSITE } from "./plane_state.js";
import { MAPS, gradient, mapColors } from "./colors.js";
import { ContrastPanel } from "./contrast.js";
import { h, replace } from "./dom.js";

export class PlaneControls {
  /** `act` holds what the settings do: redraw, reload, setContrast, auto. */
  constructor(state, axes, act) {
    this.state = state;
    this.axes = axes;
    this.act = act;
    this.contrast = new ContrastPanel({ onChange: act.setContrast, onAuto: act.auto });
    this.ramp = h("div", { class: "ramp", "aria-hidden": "true" });
    this.settings = h("div", { class: "settings" });
    this.sliders = h("div", { class: "sliders" });
    this.build();
  }

  /** Make the settings anew, since the axes or the way of colouring changed. */
  build() {
    const { state } = this;
    const focused = this.settings.contains(document.activeElement) ? controlName(document.activeElement) : null;
    replace(this.settings,
      state.shape.length > 2 || state.axes[0] > state.axes[1] ? this.planeRow() : null,
      this.mapRow(),
      state.isComposite ? this.channelList() : null,
      state.map === "labels" ? null : this.contrast.element,
    );
    replace(this.sliders, state.sliders.filter((i) => state.shape[i] > 1).map((i) => this.slider(i)));
    this.showRamp();
    // Who uses the keyboard goes on where they were.
    if (focused) [...this.settings.querySelectorAll("select, input, button")].find((one) => controlName(one) === focused)?.focus();
  }

  planeRow() {
    const choose = (which, label) =>
      h("label", { class: "field" }, label,
        h("select", { "aria-label": `${label}: axis of the plane`, onchange: (event) => this.setAxis(which, Number(event.target.value)) },
          this.axes.map((axis, i) => h("option", { value: String(i), selected: this.state.axes[which] === i }, axis.name))));
    return h("div", { class: "row" }, choose(0, "Down"), choose(1, "Across"));
  }

  setAxis(which, axis) {
    const { axes } = this.state;
    if (axes[1 - which] === axis) axes[1 - which] = axes[which];
    axes[which] = axis;
    this.build();
    this.act.reshape();
  }

  mapRow() {
    const { state } = this;
    const names = state.channels.length && !state.axes.includes(state.channelAxis) ? [COMPOSITE, ...MAPS] : MAPS;
    const title = (name) => (name === COMPOSITE ? "channel colours" : name);
    return h("div", {},
      h("div", { class: "row" },
        h("label", { class: "field grow" }, "Colours",
          h("select", { "aria-label": "Colours", onchange: (event) => this.setMap(event.target.value) },
            names.map((name) => h("option", { value: name, selected: state.map === name }, title(name))))),
        state.isComposite ? null : h("label", { class: "check" },
          h("input", { type: "checkbox", checked: state.inverted, onchange: (event) => this.invert(event.target.checked) }), "inverted")),
      this.ramp,
    );
  }

  setMap(name) {
    this.state.map = name;
    this.build();
    this.act.reload();
  }

  invert(on) {
    this.state.inverted = on;
    this.showRamp();
    this.act.redraw();
  }

  showRamp() {
    this.ramp.hidden = this.state.isComposite || this.state.map === "labels";
    if (!this.ramp.hidden) {
      const map = this.state.map === COMPOSITE ? "gray" : this.state.map;
      this.ramp.style.backgroundImage = gradient(mapColors(map, this.state.inverted));
    }
  }

  channelList() {
    const { state } = this;
    const row = (channel, i) =>
      h("li", { class: i === state.active ? "active" : "" },
        h("input", {
          type: "checkbox", checked: channel.on, "aria-label": `Show ${channel.label}`,
          onchange: (event) => {
            channel.on = event.target.checked;
            this.act.reload();
          },
        }),
        h("input", {
          type: "color", value: `#${channel.color.toLowerCase()}`, "aria-label": `Colour of ${channel.label}`,
          oninput: (event) => {
            channel.color = event.target.value.slice(1).toUpperCase();
            this.act.redraw();
          },
        }),
        h("button", {
          type: "button", class: "plain grow", "aria-pressed": String(i === state.active),
          title: "Show the contrast of this channel",
          onclick: () => {
            state.active = i;
            this.build();
            this.act.redraw();
          },
        }, channel.label));
    return h("fieldset", {}, h("legend", {}, "Channels"), h("ul", { class: "channels" }, state.channels.map(row)));
  }

  slider(index) {
    const axis = this.axes[index];
    const last = this.state.shape[index] - 1;
    const value = h("output", { class: "coordinate" });
    const set = (text) => {
      const wanted = text === "" ? NaN : Number(text); // text that is no number changes nothing
      const at = Number.isFinite(wanted) ? Math.min(last, Math.max(0, Math.round(wanted))) : this.state.at[index];
      this.state.at = this.state.at.with(index, at);
      range.value = String(at);
      number.value = String(at);
      show();
      this.act.reload();
    };
    const range = h("input", {
      type: "range", min: "0", max: String(last), value: String(this.state.at[index]), "aria-label": axis.name,
      oninput: (event) => set(event.target.value), onfocus: () => { this.lastSlider = index; },
    });
    const number = h("input", {
      type: "number", min: "0", max: String(last), value: String(this.state.at[index]), "aria-label": `Index along ${axis.name}`,
      onchange: (event) => set(event.target.value),
    });
    const show = () => {
      value.textContent = axis.text(this.state.at[index]);
      range.setAttribute("aria-valuetext", value.textContent || String(this.state.at[index]));
    };
    show();
    const row = h("div", { class: "slider", "data-axis": index }, h("span", { class: "name" }, axis.name), range, number, h("span", { class: "muted" }, `/ ${last}`), value);
    row.set = set;
    return row;
  }

  /** Move the slider that was used last, or the last one, by some steps. */
  step(by) {
    const rows = [...this.sliders.children];
    const row = rows.find((one) => Number(one.dataset.axis) === this.lastSlider) ?? rows.at(-1);
    if (row) row.set(this.state.at[Number(row.dataset.axis)] + by);
  }
}

/** Return what tells a control from the others of the settings. */
function controlName(element) {
  return element.getAttribute("aria-label") ?? element.textContent;
}
