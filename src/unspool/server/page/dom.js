// Elements from descriptions; text is always text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "value" && element instanceof HTMLTextAreaElement) element.value = value;
    else if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string" && !name.startsWith("aria")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element of HTML: h("button", { onclick: go }, "Go"). */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An element of SVG; numbers become attributes. */
export function s(tag, attributes, ...children) {
  const texts = Object.entries(attributes ?? {}).map(([name, value]) => [name, typeof value === "number" ? String(value) : value]);
  return fill(document.createElementNS(SVG, tag), Object.fromEntries(texts), children);
}

/** Replace all children. */
export function show(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** A label over its control. */
export function field(text, control, ...more) {
  control.id ||= `field-${(field.count = (field.count ?? 0) + 1)}`;
  return h("div", { class: "field" }, h("label", { for: control.id }, text), control, ...more);
}

/** A choice: pairs of value and text. */
export function select(pairs, attributes) {
  return h("select", attributes, pairs.map(([value, text]) => h("option", { value }, text)));
}

/** Call at most once per pause of so many milliseconds. */
export function later(milliseconds, call) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), milliseconds);
  };
}

/** The color of a variable of the style sheet, for canvases. */
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** A token as people can see it: white space gets a sign. */
export const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥") || "∅";

/** What stands for a text that there is none of. */
export const UNKNOWN = "\ufffd";

/** What `UNKNOWN` stands for, by what a token is. */
export const unknownText = (unit) => (unit === "characters" ? "a character that the model does not know: it was not in its training text"
  : unit === "words" ? "a word that the model does not know" : "a part of a character, which has several bytes");

export const percent = (value) => (value >= 0.0995 ? `${Math.round(100 * value)} %` : value < 1e-5 ? "< 0.001 %" : `${(100 * value).toPrecision(2)} %`);

/** Say something in the line at the foot, which screen readers read out. */
export function say(text, wrong = false) {
  const status = document.getElementById("status");
  status.hidden = !text;
  status.classList.toggle("wrong", wrong);
  status.textContent = text;
}
