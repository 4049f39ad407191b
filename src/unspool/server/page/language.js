// The view of a language model: branches of a text beside each other, and how text is sampled.

import { Branch } from "./branch.js";
import { BranchModel } from "./branch_model.js";
import { field, h, say, show } from "./dom.js";

export class LanguageView {
  constructor(about) {
    this.about = about;
    this.branches = [];
    this.named = 0;
    this.most = about.limits.traced;
    this.count = h("input", { type: "number", min: "1", max: String(this.most), value: String(Math.min(80, this.most)) });
    this.temperature = h("input", { type: "range", min: "0", max: "1.5", step: "0.05", value: "0.7" });
    this.shown = h("output", { class: "number" }, "0.70");
    this.temperature.addEventListener("input", () => { this.shown.textContent = Number(this.temperature.value).toFixed(2); });
    this.seed = h("input", { type: "number", min: "0", placeholder: "random" });
    this.grid = h("div", { class: "branches" });
    this.comparison = h("p", { class: "compare", role: "status" });
    this.element = h("div", {},
      h("div", { class: "settings" }, field("Max tokens", this.count), field("Seed", this.seed), field("Temperature", this.temperature, this.shown)),
      this.comparison, this.grid);
    this.add(new BranchModel(about.id, about.limits.tokens));
  }

  start() {
    const [branch] = this.branches;
    branch.editor.value = "The ";
    return branch.read();
  }

  options() {
    if (Number(this.count.value) > this.most) this.count.value = String(this.most); // the server writes no more at once
    const seed = this.seed.value === "" ? null : Number(this.seed.value);
    return { max_tokens: Math.max(1, Math.min(this.most, Math.floor(Number(this.count.value)) || 80)), temperature: Number(this.temperature.value), seed };
  }

  add(model) {
    const branch = new Branch(String.fromCharCode(65 + (this.named++ % 26)), model, this.about, this);
    this.branches.push(branch);
    this.changed();
    return branch;
  }

  /** A new branch with the first tokens of another; with `token`, it goes on with that one. */
  async branch(from, count, token) {
    await from.run(async () => {
      const branch = this.add(await from.model.branch(count));
      branch.from = count;
      if (token !== undefined) {
        await branch.model.take(token);
        branch.keep();
      }
      branch.changed();
      branch.element.scrollIntoView({ block: "nearest", behavior: "smooth" });
      (token === undefined ? branch.editor : branch.strip.element).focus({ preventScroll: true });
      say(`Branch ${branch.name} has the first ${count} tokens of branch ${from.name}.`);
    });
  }

  remove(branch) {
    branch.model.stop();
    branch.model.close();
    this.branches = this.branches.filter((one) => one !== branch);
    this.changed();
    this.branches[0].editor.focus();
  }

  changed() {
    show(this.grid, this.branches.map((one) => one.element));
    this.grid.classList.toggle("several", this.branches.length > 1);
    for (const one of this.branches) one.remove.hidden = this.branches.length === 1;
    this.compare();
  }

  /** Where two or more branches part, and which of them the model finds more likely. */
  compare() {
    const lists = this.branches.map((one) => one.model.ids).filter((ids) => ids.length);
    this.comparison.hidden = lists.length < 2;
    if (lists.length < 2) return;
    let common = 0;
    while (lists.every((ids) => common < ids.length && ids[common] === lists[0][common])) common += 1;
    const ranked = this.branches.filter((one) => one.model.bits !== null).sort((one, other) => one.model.bits - other.model.bits);
    this.comparison.textContent = `The branches share ${common} tokens. ` + (ranked.length > 1 ? `Per token, the model finds branch ${ranked[0].name} ${ranked.length > 2 ? "the most" : "more"} likely (${ranked.map((one) => `${one.name} ${one.model.bits.toFixed(2)}`).join(", ")} bits).` : "");
  }

  close() {
    for (const branch of this.branches) { branch.model.stop(); branch.model.close(); }
  }
}
