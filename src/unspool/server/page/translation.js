// The view of a model that writes a text for each text.

import { post } from "./api.js";
import { field, h, later, say, show } from "./dom.js";

const MOST = 32;

export class TranslationView {
  constructor(about) {
    this.about = about;
    this.turn = 0;
    this.editor = h("textarea", { rows: 4, spellcheck: false, placeholder: "Type or paste, one input per line" });
    this.editor.addEventListener("input", later(300, () => this.read()));
    this.list = h("ol", { class: "pairs", "aria-live": "polite", "aria-label": "Inputs and outputs" });
    this.element = h("div", { class: "card" }, field("Inputs, one per line", this.editor), this.list);
    this.draw([]);
  }

  async read() {
    const turn = (this.turn += 1), examples = this.editor.value.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, MOST);
    if (!examples.length) { this.draw([]); return; }
    try {
      const { predictions } = await post("/v1/predict", { model: this.about.id, examples });
      if (turn !== this.turn) return;
      say("");
      this.draw(predictions.map((row, place) => [examples[place], ...Object.values(row).slice(1)]));
    } catch (error) {
      if (turn === this.turn) say(error.message, true);
    }
  }

  draw(pairs) {
    if (!pairs.length) { show(this.list, h("li", { class: "quiet" }, "Outputs appear here.")); return; }
    show(this.list, pairs.map(([source, target, score]) => h("li", {},
      h("span", { class: "source" }, source), h("span", { class: "arrow", "aria-label": "becomes" }, "→"), h("span", { class: "target" }, String(target)),
      typeof score === "number" ? h("span", { class: "quiet" }, `log-probability ${score.toFixed(2)}`) : null)));
  }
}
