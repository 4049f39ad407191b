// The ribbon under a text: for each token a column with its importance and the values of the units.

import { color, h, select, visible } from "./dom.js";

const TEXT = 18, BARS = 26, MOST = 256, TALLEST = 256;
const FONT = "12px ui-monospace, Menlo, Consolas, monospace";

function rgb(text) {
  const found = text.match(/^#(..)(..)(..)$/);
  return found ? found.slice(1).map((part) => parseInt(part, 16)) : [128, 128, 128];
}

/** What a channel is called. */
export function channelName(channel, several) {
  const place = several ? `layer ${channel.layer}, ` : "";
  const way = channel.reverse ? ", read from the end" : "";
  return `${place}${channel.role} ${channel.name}${way}`;
}

export class Ribbon {
  /** @param channels Those of the model. @param onpick Is told which token was clicked. */
  constructor(channels, onpick) {
    this.channels = channels;
    this.steps = [];
    this.importance = [];
    this.at = null; // [token, unit] that is read
    const several = new Set(channels.map((one) => one.layer)).size > 1;
    this.select = select(channels.map((one, place) => [place, channelName(one, several)]), { "aria-label": "What the ribbon shows", onchange: () => this.draw() });
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.scroll = h("div", { class: "ribbon", tabindex: "0", role: "group", "aria-roledescription": "ribbon",
      "aria-label": "Activity of the units, a column per token. Arrow keys read single values." }, this.canvas);
    this.told = h("output", { class: "told", "aria-live": "polite" }, "");
    this.note = h("span", { class: "quiet" });
    this.element = h("section", { class: "part", "aria-label": "Inside the model" },
      h("div", { class: "row" }, h("h3", {}, "Inside"), this.select, this.note),
      this.scroll, this.told);
    this.element.hidden = channels.length === 0;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.tell(null));
    this.canvas.addEventListener("click", (event) => { this.point(event); if (this.at) onpick(this.at[0]); });
    this.scroll.addEventListener("keydown", (event) => this.press(event, onpick));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  get channel() { return this.channels[Number(this.select.value)]; }
  get first() { return Math.max(0, this.steps.length - MOST); }
  get rowHeight() { return Math.max(2, Math.min(8, Math.floor(TALLEST / this.channel.shown))); }

  /** Show these tokens; `importance` may be empty. */
  update(steps, importance, picked, follow) {
    const moved = picked !== this.picked;
    Object.assign(this, { steps, importance, picked });
    this.draw();
    if (follow) this.scroll.scrollLeft = this.scroll.scrollWidth;
    else if (moved) this.reveal(picked);
  }

  measure() {
    const pen = this.canvas.getContext("2d");
    pen.font = FONT;
    this.edges = [0];
    for (const step of this.steps.slice(this.first)) {
      const wide = Math.max(10, Math.min(90, Math.ceil(pen.measureText(visible(step.text)).width) + (step.text.length > 1 ? 8 : 2)));
      this.edges.push(this.edges.at(-1) + wide);
    }
  }

  draw() {
    if (!this.channels.length) return;
    this.measure();
    const channel = this.channel, tall = this.rowHeight * channel.shown;
    const top = TEXT + (this.importance.length ? BARS : 2), wide = Math.max(1, this.edges.at(-1)), high = top + tall, sharp = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: wide * sharp, height: high * sharp });
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${high}px`;
    this.top = top;
    const pen = this.canvas.getContext("2d");
    pen.scale(sharp, sharp);
    this.drawTexts(pen, high);
    this.drawBars(pen);
    this.drawUnits(pen, Number(this.select.value), channel);
    const units = channel.units > channel.shown ? `the first ${channel.shown} of ${channel.units} units` : `${channel.units} units`;
    this.note.textContent = `${units}; ${channel.role === "gate" ? "the stronger the color, the more open" : "blue is below zero, red above"}`;
  }

  drawTexts(pen, high) {
    pen.font = FONT;
    pen.textAlign = "center";
    this.steps.slice(this.first).forEach((step, place) => {
      const left = this.edges[place], wide = this.edges[place + 1] - left;
      if (place + this.first === this.picked) {
        pen.fillStyle = color("tint");
        pen.fillRect(left, 0, wide, high);
      }
      pen.fillStyle = color("ink");
      pen.fillText(visible(step.text), left + wide / 2, 13, wide);
    });
  }

  drawBars(pen) {
    if (!this.importance.length) return;
    const own = this.importance.slice(this.first), most = Math.max(...own.map((value) => Math.abs(value ?? 0)), 1e-12);
    own.forEach((value, place) => {
      if (value === null || place + 1 >= this.edges.length) return;
      const tall = value === 0 ? 0 : Math.max(1, (BARS - 6) * Math.abs(value) / most); // what matters a little can be seen
      pen.fillStyle = color(value < 0 ? "low" : "high");
      pen.fillRect(this.edges[place] + 1, TEXT + BARS - 4 - tall, this.edges[place + 1] - this.edges[place] - 2, tall);
    });
  }

  drawUnits(pen, number, channel) {
    const low = rgb(color("low")), middle = rgb(color("surface")), high = rgb(color("high"));
    const steps = this.steps.slice(this.first), tall = this.rowHeight;
    const most = channel.role === "gate" ? 1 : Math.max(1e-6, ...steps.flatMap((step) => step.values[number]?.map(Math.abs) ?? []));
    steps.forEach((step, place) => {
      const left = this.edges[place], wide = this.edges[place + 1] - left;
      (step.values[number] ?? []).forEach((value, unit) => {
        const part = Math.min(1, Math.abs(value) / most), end = value < 0 ? low : high;
        const mixed = middle.map((one, index) => Math.round(one + part * (end[index] - one)));
        pen.fillStyle = `rgb(${mixed.join(",")})`;
        pen.fillRect(left, this.top + unit * tall, wide - 1, tall);
      });
    });
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const place = this.edges.findIndex((edge) => edge > x) - 1;
    if (place < 0) return this.tell(null);
    const unit = Math.floor((y - this.top) / this.rowHeight);
    return this.tell([place + this.first, unit >= 0 && unit < this.channel.shown ? unit : null]);
  }

  press(event, onpick) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const last = this.steps.length - 1;
    if (event.key === "Enter" && this.at) onpick(this.at[0]);
    if (!moves[event.key] || last < 0) return;
    event.preventDefault();
    const [token, unit] = this.at ?? [last, -1], [across, down] = moves[event.key];
    const kept = (value, most) => Math.max(0, Math.min(most, value));
    this.tell([kept(token + across, last), kept((unit ?? -1) + down, this.channel.shown - 1)]);
    this.reveal(this.at[0]);
  }

  /** Scroll until a token can be seen. */
  reveal(token) {
    const left = this.edges?.[token - this.first] ?? 0, { scrollLeft, clientWidth } = this.scroll;
    if (left < scrollLeft || left > scrollLeft + clientWidth - 20) this.scroll.scrollLeft = left - clientWidth / 2;
  }

  tell(at) {
    this.at = at;
    const step = at && this.steps[at[0]];
    if (!step) { this.told.textContent = ""; return; }
    const parts = [`token ${at[0] + 1}, “${visible(step.text)}”`];
    const weight = this.importance[at[0]];
    if (weight !== null && weight !== undefined) parts.push(`importance ${weight.toPrecision(2)}`);
    if (at[1] !== null) {
      const unit = at[1], own = this.channel;
      const gates = this.channels.map((one, place) => [one, step.values[place]?.[unit]])
        .filter(([one, value]) => one.layer === own.layer && one.reverse === own.reverse && value !== undefined);
      parts.push(`unit ${unit + 1}: ${gates.map(([one, value]) => `${one.name} ${value.toFixed(2)}`).join(", ")}`);
    }
    this.told.textContent = parts.join(" · ");
  }
}
