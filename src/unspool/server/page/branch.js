// A branch of a text as people see it: its editor, its tokens, what may come next, and the inside of the model.

import { bars } from "./bars.js";
import { field, h, later, percent, say, select, show, UNKNOWN, unknownText, visible } from "./dom.js";
import { Ribbon } from "./ribbon.js";
import { Strip } from "./strip.js";

/** From 0 to 1, how surprising a token was: 1 is a probability of 1 in 1,000 or less. */
const surprise = (step) => (typeof step.probability === "number" ? Math.min(1, -Math.log10(Math.max(step.probability, 1e-6)) / 3) : null);

export class Branch {
  /** @param owner The view: `branch(from, count)`, `remove(branch)`, `changed()` and `options()`. */
  constructor(name, model, about, owner) {
    Object.assign(this, { name, model, about, owner, picked: null, from: Infinity, queue: Promise.resolve(), writing: false });
    model.words = about.unit === "words";
    this.editor = h("textarea", { rows: 3, spellcheck: false, value: model.read, placeholder: "Type or paste text" });
    this.editor.addEventListener("input", later(250, () => this.read()));
    this.write = h("button", { class: "primary", type: "button", onclick: () => (this.writing ? this.model.stop() : this.go()) }, "Generate");
    this.fork = h("button", { type: "button", onclick: () => owner.branch(this, (this.picked ?? model.steps.length - 1) + 1) }, "Branch here");
    this.remove = h("button", { type: "button", class: "plain", "aria-label": `Remove branch ${name}`, onclick: () => owner.remove(this) }, "Remove");
    this.facts = h("span", { class: "quiet" });
    this.strip = new Strip(about.unit, (place) => this.pick(place));
    this.tone = select([["surprise", "how surprising it was"], ["importance", "how much it matters"], ["none", "no color"]], { onchange: () => this.draw() });
    this.next = h("div", { class: "next" });
    this.unknown = h("p", { class: "quiet small", hidden: true }, `${UNKNOWN} stands for ${unknownText(about.unit)}.`);
    this.ribbon = new Ribbon(about.channels, (place) => this.pick(place));
    this.weigh = later(300, () => this.weighNow());
    this.element = this.build();
    this.draw();
  }

  build() {
    const title = h("h2", { id: `branch-${this.name}` }, `Branch ${this.name}`);
    return h("article", { class: "card", "aria-labelledby": `branch-${this.name}` },
      h("div", { class: "row head" }, title, this.facts, h("span", { class: "gap" }), this.remove),
      field("Prompt", this.editor),
      h("div", { class: "row" }, this.write, this.fork, h("span", { class: "gap" }), field("Color tokens by", this.tone)),
      h("div", { class: "reading" }, h("div", {}, this.strip.element, this.unknown), h("section", { "aria-label": "Next token" }, this.next)),
      this.ribbon.element,
      h("p", { class: "quiet small" }, "The bars above the ribbon show how much each token matters to the one after the picked one: each is left out in turn, and the change of the distribution is measured (in nats). No gradient is involved."));
  }

  /** Do one thing after the other: a session reads in order. */
  run(action) {
    this.queue = this.queue.then(action).catch((error) => say(error.message, true));
    return this.queue;
  }

  read() {
    return this.run(async () => {
      if (this.model.steps.length && this.editor.value === this.model.read) return; // read already, when writing began
      say("");
      const text = this.editor.value;
      this.from = Infinity;
      this.picked = null;
      await this.model.rewrite(text, this.about.unit === "characters", () => {
        this.draw();
        return this.editor.value === text; // else a newer text waits
      });
      this.changed();
    });
  }

  go() {
    return this.run(async () => {
      const { model } = this, text = this.editor.value || (model.steps.length ? model.read : "\n");
      if (!model.steps.length || text !== model.read) { // typed just now
        await model.rewrite(text, this.about.unit === "characters");
        this.from = Infinity;
      }
      this.from = Math.min(this.from, this.model.steps.length);
      this.picked = null;
      this.busy(true);
      try {
        const why = await this.model.write(this.owner.options(), () => this.draw());
        say({ stopped: "Stopped.", length: "", stop: "The text ended." }[why] ?? "");
      } finally {
        this.keep();
        this.busy(false);
        this.changed();
      }
    });
  }

  /** What the model has written becomes the beginning of what is typed next. */
  keep() {
    if (this.model.read !== null) this.editor.value = this.model.read;
    this.editor.scrollTop = this.editor.scrollHeight;
  }

  busy(on) {
    this.writing = on;
    this.write.textContent = on ? "Stop" : "Generate";
    this.element.setAttribute("aria-busy", String(on));
    this.editor.disabled = this.fork.disabled = on;
  }

  changed() {
    this.draw();
    this.weigh();
    this.owner.changed();
  }

  weighNow() {
    if (this.writing) return;
    this.run(async () => { await this.model.weigh(this.count); this.draw(); });
  }

  /** How many tokens there are up to the one that is picked. */
  get count() { return (this.picked ?? this.model.steps.length - 1) + 1; }

  pick(place) {
    this.picked = place === this.model.steps.length - 1 ? null : place;
    this.draw();
    this.weigh();
  }

  /** Take another token: at the end it is read, further up it begins a branch. */
  take(choice) {
    if (this.picked !== null) return this.owner.branch(this, this.picked + 1, choice);
    return this.run(async () => {
      this.from = Math.min(this.from, this.model.steps.length);
      await this.model.take(choice);
      this.keep();
      this.changed();
    });
  }

  levels() {
    const steps = this.model.steps, weights = this.model.importance(this.count);
    if (this.tone.value === "surprise") return steps.map(surprise);
    if (this.tone.value === "none" || !weights.length) return null;
    const most = Math.max(...weights.map((one) => one ?? 0), 1e-12);
    return steps.map((_, place) => (typeof weights[place] === "number" ? Math.sqrt(weights[place] / most) : null));
  }

  draw() {
    const { steps } = this.model, follow = this.picked === null, place = this.picked ?? steps.length - 1;
    this.strip.update(steps, this.levels(), place < 0 ? null : place, this.from, follow);
    this.ribbon.update(steps, this.model.importance(this.count), place, follow);
    this.unknown.hidden = !steps.some((step) => step.text.includes(UNKNOWN));
    const { bits } = this.model;
    this.facts.textContent = steps.length ? `${steps.length} ${this.about.unit}${bits === null ? "" : ` · ${bits.toFixed(2)} bits per token`}` : "nothing read yet";
    this.fork.disabled = this.writing || !steps.length;
    this.fork.textContent = this.picked === null ? "Branch here" : `Branch after “${visible(steps[place].text)}”`;
    this.drawNext(steps, place);
  }

  drawNext(steps, place) {
    const step = steps[place], came = steps[place + 1];
    if (!step?.next) { show(this.next, h("h3", {}, "Next token"), h("p", { class: "quiet" }, "What the model expects appears here as soon as there is text.")); return; }
    const title = this.picked === null ? "Next token" : `After “${visible(step.text)}”`;
    const told = came ? `it was “${visible(came.text)}”, ${percent(came.probability)}` : "choose one to go on with it";
    show(this.next, h("div", { class: "row" }, h("h3", {}, title), h("span", { class: "quiet" }, told)),
      bars(step.next.map((one) => ({ ...one, mark: came?.token === one.token })), `Probabilities: ${title}`, this.writing ? null : (one) => this.take(one)));
  }
}
