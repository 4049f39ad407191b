// Probabilities as bars, each with its name.

import { h, percent, visible } from "./dom.js";

/** Bars; where `onpick` is given, each is a button. Entries: { text, probability, mark, value }. */
export function bars(entries, label, onpick) {
  const list = h("ul", { class: "bars", "aria-label": label }, entries.map((one) => {
    const line = h("span", { class: "bar" });
    line.style.setProperty("--part", `${100 * one.probability}%`);
    const inside = [h("span", { class: "name" }, one.name ?? visible(one.text)), line, h("span", { class: "value" }, one.value ?? percent(one.probability))];
    const attributes = { class: one.mark ? "marked" : null };
    return h("li", attributes, onpick
      ? h("button", { type: "button", "aria-label": `${visible(one.text)}, ${percent(one.probability)}: go on with it`, onclick: () => onpick(one) }, inside)
      : h("div", {}, inside));
  }));
  const longest = Math.max(...entries.map((one) => (one.name ?? visible(one.text)).length), 2);
  list.style.setProperty("--names", `${Math.min(18, longest + 1)}ch`);
  return list;
}
