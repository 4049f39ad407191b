// The view of a model of whole sequences: the probabilities of labels, or numbers, as each token arrives.

import { post } from "./api.js";
import { bars } from "./bars.js";
import { Chart, legend, short } from "./chart.js";
import { field, h, later, percent, say, show } from "./dom.js";
import { Ribbon } from "./ribbon.js";
import { Strip } from "./strip.js";

const LINES = 6, BARS = 12;

/** Rows of numbers from lines of text. */
export const rowsOf = (text) => text.split("\n").filter((line) => line.trim()).map((line) => line.trim().split(/[\s,;]+/).map(Number));

export class LabelView {
  constructor(about) {
    this.about = about;
    this.numbers = about.reads === "numbers";
    this.probabilities = about.task !== "regress";
    this.picked = null;
    this.turn = 0;
    this.data = { steps: [], importance: [] };
    const asked = this.numbers ? `Steps, one per line: ${about.features.join(", ")}` : "Text";
    this.editor = h("textarea", { rows: 4, spellcheck: false, placeholder: this.numbers ? "0.1, 0.2" : "Type or paste text" });
    this.editor.addEventListener("input", later(250, () => this.read()));
    this.strip = new Strip(this.numbers ? "words" : about.unit, (place) => this.pick(place));
    this.ribbon = new Ribbon(about.channels, (place) => this.pick(place));
    this.answer = h("div", { class: "answer", "aria-live": "polite" });
    this.chart = new Chart(this.probabilities ? "Probabilities of the labels after each token" : "The predicted number after each token", 220);
    this.legend = h("div", {});
    this.how = h("p", { class: "quiet small" });
    this.element = h("div", { class: "card" }, field(asked, this.editor), this.answer,
      h("section", { class: "part", "aria-label": "As each token arrives" }, h("h3", {}, "As each token arrives"), this.strip.element, this.chart.element, this.legend),
      this.ribbon.element, this.how);
  }

  start() {
    if (!this.numbers) return;
    const row = (step) => this.about.features.map((_, place) => Math.sin(step / 2 + place).toFixed(2)).join(", ");
    this.editor.value = Array.from({ length: 12 }, (_, step) => row(step)).join("\n");
    return this.read();
  }

  async read() {
    const turn = (this.turn += 1), { value } = this.editor;
    const input = this.numbers ? rowsOf(value) : value;
    if (!value.trim()) { this.data = { steps: [], importance: [] }; this.draw(); return; }
    try {
      if (this.numbers && input.flat().some(Number.isNaN)) throw new Error("Not every entry is a number.");
      const body = { model: this.about.id, input };
      const traced = await post("/v1/trace", body), weighed = await post("/v1/importance", body);
      if (turn !== this.turn) return;
      say("");
      this.picked = null;
      this.data = { steps: traced.steps, ...weighed, steps: traced.steps };
      this.draw();
    } catch (error) {
      if (turn === this.turn) say(error.message, true);
    }
  }

  pick(place) {
    this.picked = place === this.data.steps.length - 1 ? null : place;
    this.draw();
  }

  draw() {
    const { steps, importance } = this.data, place = this.picked ?? steps.length - 1;
    const most = Math.max(...importance.map((one) => Math.abs(one ?? 0)), 1e-12);
    this.strip.update(steps, importance.map((one) => (one === null ? null : one / most)), place < 0 ? null : place, Infinity, false);
    this.ribbon.update(steps, importance, place, this.picked === null);
    this.drawAnswer(steps, place);
    this.drawLines(steps, place);
    const what = this.probabilities ? `the probability of “${this.about.outputs[this.data.output ?? 0]}”` : this.about.outputs[0];
    this.how.textContent = steps.length ? `Color and bars show what each token does to ${what}: it is left out, and the model reads the rest. Blue speaks against. No gradient is involved.` : "";
  }

  drawAnswer(steps, place) {
    const step = steps[place];
    if (!step) { show(this.answer, h("p", { class: "quiet" }, "The prediction appears here, after every token.")); return; }
    const when = this.picked === null ? "" : `after ${place + 1} of ${steps.length} ${this.about.unit}`;
    const entries = this.about.outputs.map((name, number) => ({ name, text: name, probability: step.output[number], mark: false }));
    if (!this.probabilities) {
      show(this.answer, entries.map((one) => h("p", { class: "verdict" }, h("strong", {}, short(one.probability)), ` ${one.name} `, h("span", { class: "quiet" }, when))));
      return;
    }
    entries.sort((one, other) => other.probability - one.probability);
    const chosen = this.about.task === "multilabel" ? entries.filter((one) => one.probability >= 0.5) : entries.slice(0, 1);
    chosen.forEach((one) => { one.mark = true; });
    show(this.answer, h("p", { class: "verdict" }, h("strong", {}, chosen.map((one) => one.name).join(", ") || "no label"), ` ${chosen.length === 1 ? percent(chosen[0].probability) : ""} `, h("span", { class: "quiet" }, when)),
      bars(entries.slice(0, BARS), "Probabilities of the labels"));
  }

  drawLines(steps, place) {
    const last = steps.at(-1)?.output ?? [];
    const shown = this.about.outputs.map((name, number) => ({ name, number })).sort((one, other) => last[other.number] - last[one.number]).slice(0, LINES);
    const lines = shown.map(({ name, number }) => ({ name, points: steps.map((step, at) => [at + 1, step.output[number]]), dots: steps.length < 40 }));
    const more = this.probabilities ? { range: [0, 1], spell: (value) => `${Math.round(100 * value)} %` } : {};
    this.chart.draw({ lines: steps.length ? lines : [], x: "token", whole: true, marks: this.picked === null ? [] : [{ x: place + 1 }], ...more });
    show(this.legend, steps.length ? legend(shown.map((one) => one.name)) : null);
  }
}
