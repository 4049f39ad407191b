// The view of a forecaster: a series, and a fan of quantiles from an origin that can be dragged.

import { post } from "./api.js";
import { Chart, short } from "./chart.js";
import { field, h, later, say, select, show } from "./dom.js";
import { rowsOf } from "./labels.js";

/** How wide a step is at least, in pixels. */
const STEP = 4;

/** A made-up series with a season, so that there is something to forecast; on the scale of the training data. */
function example({ outputs, scales, season, limits }) {
  const count = Math.min(120, limits.tokens);
  const period = season > 1 && season < 60 ? season : 12;
  const shape = (step, place) => (step - count / 2) / 120 + 1.2 * Math.sin((2 * Math.PI * step) / period + place) + 0.25 * Math.sin(step * 1.7);
  const value = (step, place) => (scales[place]?.mean ?? 10) + (scales[place]?.deviation ?? 3) * shape(step, place);
  return Array.from({ length: count }, (_, step) => outputs.map((_, place) => Number(value(step, place).toPrecision(5))).join(", ")).join("\n");
}

export class ForecastView {
  constructor(about) {
    this.about = about;
    this.turn = 0;
    this.series = [];
    this.fan = [];
    this.editor = h("textarea", { rows: 4, spellcheck: false, value: example(about) });
    this.editor.addEventListener("input", later(300, () => this.read()));
    this.target = select(about.outputs.map((name, place) => [place, name]), { onchange: () => this.draw() });
    this.origin = h("input", { type: "range", min: "1", max: "1", value: "1", "aria-label": "Origin: the last step that the model sees" });
    this.origin.addEventListener("input", () => { this.draw(); this.ask(); });
    this.where = h("output", { class: "number" });
    this.chart = new Chart("The series, and the forecast with its quantiles from the origin on", 320);
    this.table = h("div", {});
    this.ask = later(60, () => this.forecast());
    this.drag();
    const one = about.outputs.length > 1 ? field("Target", this.target) : null;
    this.element = h("div", { class: "card" }, field(`The series, one step per line (${about.outputs.join(", ")})`, this.editor,
      h("p", { class: "quiet small" }, "What stands here first is made up, on the scale of the training data. Paste your own.")), one,
      h("section", { class: "part", "aria-label": "Forecast" }, h("div", { class: "row" }, h("h3", {}, "Forecast"), h("span", { class: "quiet" }, `the next ${about.horizon} steps from the origin; drag it`)),
        this.chart.element, h("div", { class: "origin" }, this.origin, this.where)),
      h("details", { class: "part" }, h("summary", {}, "The forecast as numbers"), this.table));
  }

  start() { return this.read(); }

  /** The handle in the chart moves the same origin as the slider. */
  drag() {
    const { svg } = this.chart;
    const move = (event) => {
      if (!event.buttons || !this.chart.value) return;
      const at = Math.round(this.chart.value(event.clientX - svg.getBoundingClientRect().left));
      this.origin.value = String(at);
      this.draw();
      this.ask();
    };
    svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); move(event); });
    svg.addEventListener("pointermove", move);
  }

  async read() {
    const rows = rowsOf(this.editor.value);
    if (!rows.length) { this.series = this.fan = []; this.draw(); return; }
    if (rows.flat().some(Number.isNaN)) { say("Not every entry is a number.", true); return; }
    this.series = rows;
    this.origin.max = String(rows.length);
    this.origin.value = String(Math.max(1, rows.length - Math.min(this.about.horizon, Math.floor(rows.length / 4))));
    await this.forecast();
  }

  async forecast() {
    const turn = (this.turn += 1), at = Number(this.origin.value), past = this.series.slice(0, at);
    try {
      const examples = this.about.outputs.length > 1 ? { series: past } : past.map((row) => row[0]);
      const { predictions } = await post("/v1/predict", { model: this.about.id, examples });
      if (turn !== this.turn) return;
      say("");
      this.fan = predictions;
      this.from = at;
    } catch (error) {
      if (turn !== this.turn) return;
      this.fan = [];
      say(error.message, true);
    }
    this.draw();
  }

  draw() {
    const place = Number(this.target.value), name = this.about.outputs[place], at = Number(this.origin.value);
    const rows = this.fan.filter((row) => row.target === name || this.about.outputs.length === 1);
    const levels = Object.keys(rows[0] ?? {}).filter((key) => /^q[\d.]+$/.test(key)).sort((one, other) => one.slice(1) - other.slice(1));
    const shown = Math.floor((this.chart.svg.clientWidth || 600) / STEP);
    const first = Math.max(0, Math.min(this.series.length - shown, at - 10)), x = (step) => this.from + step + 1;
    const middle = levels[Math.floor(levels.length / 2)], pairs = Math.floor(levels.length / 2);
    const bands = Array.from({ length: pairs }, (_, pair) => ({ level: `level-${pair}`, points: rows.map((row, step) => [x(step), row[levels[pair]], row[levels[levels.length - 1 - pair]]]) }));
    const points = this.series.map((row, step) => [step + 1, row[place]]).slice(first);
    const lines = [{ name: "value", kind: "past", points: points.filter(([step]) => step <= at) }, { name: "value", kind: "truth", points: points.filter(([step]) => step >= at) }];
    if (rows.length) lines.push({ name: "median", kind: "series-1", points: rows.map((row, step) => [x(step), row[middle]]) });
    this.chart.draw({ lines: lines.filter((line) => line.points.length), bands: rows.length ? bands : [], marks: [{ x: at, name: "origin", kind: "handle" }], x: "step", whole: true,
      span: [first + 1, Math.max(this.series.length, at + this.about.horizon)] });
    this.where.textContent = `step ${at} of ${this.series.length}`;
    this.drawTable(rows, levels, x);
  }

  drawTable(rows, levels, x) {
    show(this.table, rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The forecast as numbers" }, h("table", {}, h("thead", {}, h("tr", {}, ["step", ...levels].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row, step) => h("tr", {}, h("th", { scope: "row" }, String(x(step))), levels.map((level) => h("td", {}, short(row[level])))))))) : null);
  }
}
