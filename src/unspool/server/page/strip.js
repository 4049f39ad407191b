// The text as tokens: each can be picked, and its color says how probable or how important it was.

import { h, percent, show, UNKNOWN, unknownText, visible } from "./dom.js";

export class Strip {
  /** @param unit What a token is, in the plural. @param onpick Is told the place of the token that was picked. */
  constructor(unit, onpick) {
    this.unit = unit;
    this.words = unit === "words";
    this.onpick = onpick;
    this.element = h("div", { class: this.words ? "strip words" : "strip", role: "listbox", tabindex: "0", "aria-label": "The text, token by token. Arrow keys pick a token." });
    this.element.addEventListener("keydown", (event) => this.press(event));
    this.element.addEventListener("click", (event) => {
      const place = event.target.dataset?.place;
      if (place !== undefined) onpick(Number(place));
    });
    this.steps = [];
  }

  /** @param levels From 0 to 1 for each token, negative where a token speaks against; null: no color. */
  update(steps, levels, picked, from, follow) {
    Object.assign(this, { steps, picked });
    const scrolled = this.element.scrollTop;
    show(this.element, steps.map((step, place) => this.token(step, place, levels?.[place] ?? null, place >= from)));
    this.element.scrollTop = follow ? this.element.scrollHeight : scrolled;
    if (picked !== null) this.element.setAttribute("aria-activedescendant", this.name(picked));
  }

  name(place) {
    this.element.id ||= `strip-${Math.random().toString(36).slice(2, 8)}`;
    return `${this.element.id}-${place}`;
  }

  token(step, place, level, fresh) {
    const strange = step.text.includes(UNKNOWN) ? ` (${unknownText(this.unit)})` : "";
    const known = strange + (typeof step.probability === "number" ? `, probability ${percent(step.probability)}` : "");
    const chip = h("span", {
      role: "option", id: this.name(place), "data-place": String(place), "aria-selected": String(place === this.picked),
      "aria-label": `${visible(step.text)}${known}`, title: `${visible(step.text)}${known}`, class: fresh ? "token fresh" : "token",
    }, step.text);
    if (level !== null) {
      chip.classList.add(level < 0 ? "against" : "toned");
      chip.style.setProperty("--level", `${Math.round(100 * Math.min(1, Math.abs(level)))}%`);
    }
    return chip;
  }

  press(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, Home: -1e9, End: 1e9 };
    if (!(event.key in moves) || !this.steps.length) return;
    event.preventDefault();
    const place = Math.max(0, Math.min(this.steps.length - 1, (this.picked ?? this.steps.length) + moves[event.key]));
    this.onpick(place);
    document.getElementById(this.name(place))?.scrollIntoView({ block: "nearest" });
  }
}
