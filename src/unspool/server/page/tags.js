// The view of a tagger: the words of a sentence with their tags in color, and the label of the sentence.

import { post } from "./api.js";
import { legend } from "./chart.js";
import { field, h, later, percent, say, show } from "./dom.js";
import { Ribbon } from "./ribbon.js";

/** The words of a sentence; punctuation stands by itself, as in tagged text. */
export const wordsOf = (text) => text.match(/[\p{L}\p{N}]+(?:['’.-][\p{L}\p{N}]+)*|[^\s\p{L}\p{N}]/gu) ?? [];

const SCHEME = /^([BIESLUO])-(.+)$/;
const kindOf = (tag) => tag.match(SCHEME)?.[2] ?? tag;
const begins = (tag) => !/^[IEL]-/.test(tag);

export class TagView {
  constructor(about) {
    this.about = about;
    this.turn = 0;
    this.kinds = [...new Set(about.outputs.filter((tag) => tag !== "O").map(kindOf))];
    this.editor = h("textarea", { rows: 3, spellcheck: false, placeholder: "Type or paste a sentence" });
    this.editor.addEventListener("input", later(250, () => this.read()));
    this.label = h("p", { class: "verdict", "aria-live": "polite" });
    this.sentence = h("p", { class: "sentence", "aria-live": "polite" });
    this.ribbon = new Ribbon(about.channels, () => {});
    const shown = this.kinds.slice(0, 16);
    this.element = h("div", { class: "card" }, field("Sentence", this.editor), this.label, this.sentence,
      legend(shown, shown.map((kind) => this.colorOf(kind))),
      h("p", { class: "quiet small" }, "The line under a word is as long as its tag is probable. Tags are for whole sentences: a word may change those before it."),
      this.ribbon.element);
    this.draw({ words: [], tags: [], probabilities: [] });
  }

  colorOf(kind) { return `series-${(this.kinds.indexOf(kind) % 8) + 1}`; }

  async read() {
    const turn = (this.turn += 1), words = wordsOf(this.editor.value);
    if (!words.length) { this.draw({ words: [], tags: [], probabilities: [] }); this.ribbon.update([], [], null, false); return; }
    try {
      const { predictions } = await post("/v1/predict", { model: this.about.id, examples: [words] });
      const traced = await post("/v1/trace", { model: this.about.id, input: words });
      if (turn !== this.turn) return;
      say("");
      this.draw(predictions[0]);
      this.ribbon.update(traced.steps, [], null, false);
    } catch (error) {
      if (turn === this.turn) say(error.message, true);
    }
  }

  draw(row) {
    this.label.hidden = row.label === undefined;
    if (row.label !== undefined) show(this.label, h("strong", {}, String(row.label)), ` ${percent(row["p(label)"])} `, h("span", { class: "quiet" }, "label of the sentence"));
    if (!row.words.length) { show(this.sentence, h("span", { class: "quiet" }, "The words appear here with their tags.")); return; }
    show(this.sentence, row.words.map((word, place) => this.word(word, row.tags, row.probabilities, place)));
  }

  word(word, tags, probabilities, place) {
    const tag = tags[place], kind = kindOf(tag), plain = tag === "O";
    const joined = !plain && !begins(tag) && place > 0 && kindOf(tags[place - 1]) === kind;
    const spoken = `${word}: ${tag}, ${percent(probabilities[place])}`;
    const part = h("span", { class: `word ${plain ? "plain" : this.colorOf(kind)}${joined ? " joined" : ""}`, title: spoken },
      h("span", {}, word), h("span", { class: "tag" }, plain || joined ? (plain ? "" : "…") : kind), h("span", { class: "visually-hidden" }, ` (${tag}, ${percent(probabilities[place])}) `));
    part.style.setProperty("--part", `${100 * probabilities[place]}%`);
    return part;
  }
}
