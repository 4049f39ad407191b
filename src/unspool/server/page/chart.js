// A line chart as SVG: lines, bands, marks, and what stands at the pointer.

import { h, s, show } from "./dom.js";

const LEFT = 52, RIGHT = 14, TOP = 10, BOTTOM = 38;

/** Round numbers that divide a range into about `count` parts; whole ones where that is wanted. */
export function ticks(low, high, count, whole = false) {
  const raw = (high - low) / (count + 1) || 1, power = 10 ** Math.floor(Math.log10(raw));
  const steps = [1, 2, 2.5, 4, 5, 10, 20].map((one) => one * power), wide = raw * (1 + 1e-9);
  const step = steps.find((one) => one > wide && (!whole || Number.isInteger(one))) ?? 1;
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) found.push(Number(tick.toPrecision(12)));
  return found;
}

export const short = (value) => (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) ? value.toExponential(1) : String(Number(value.toPrecision(4))));

export class Chart {
  /** @param label For screen readers. @param height In pixels. */
  constructor(label, height = 240) {
    this.height = height;
    this.svg = s("svg", { class: "chart", role: "img", "aria-label": label });
    this.told = h("output", { class: "told", "aria-live": "off" });
    this.element = h("div", { class: "plot" }, this.svg, this.told);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => { this.told.textContent = ""; });
    new ResizeObserver(() => { if (this.given && this.svg.clientWidth !== this.width) this.draw(this.given); }).observe(this.element);
  }

  /**
   * @param given lines: [{ name, points: [[x, y]], kind }], bands: [{ points: [[x, low, high]], level }],
   * marks: [{ x, name }], levels: [{ y, name }], x: name of the axis, range: [low, high] of y, whole: x in whole numbers
   */
  draw(given) {
    this.given = given;
    this.width = this.svg.clientWidth || 600;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("height", String(this.height));
    const bands = given.bands ?? [], levels = given.levels ?? [], marks = given.marks ?? [];
    const all = [...given.lines.flatMap((line) => line.points), ...bands.flatMap((band) => band.points.flatMap(([x, low, high]) => [[x, low], [x, high]]))];
    if (!all.length) { show(this.svg); return; }
    const xs = all.map((point) => point[0]), ys = [...all.map((point) => point[1]), ...levels.map((one) => one.y)];
    const spread = (Math.max(...ys) - Math.min(...ys)) || 1;
    const [low, high] = given.range ?? [Math.min(...ys) - spread * 0.05, Math.max(...ys) + spread * 0.05];
    const [first, last] = given.span ?? [Math.min(...xs), Math.max(...xs)];
    this.x = (value) => LEFT + ((value - first) / (last - first || 1)) * (this.width - LEFT - RIGHT);
    this.y = (value) => TOP + ((high - value) / (high - low || 1)) * (this.height - TOP - BOTTOM);
    this.value = (pixel) => first + ((pixel - LEFT) / (this.width - LEFT - RIGHT)) * (last - first || 1);
    show(this.svg, this.axes(low, high, first, last, given), bands.map((band) => this.band(band)),
      levels.map((one) => this.level(one)), given.lines.map((line, place) => this.line(line, place)), marks.map((mark) => this.mark(mark)));
  }

  axes(low, high, first, last, given) {
    const across = ticks(first, last, Math.max(3, Math.floor(this.width / 70)), given.whole);
    return s("g", { class: "axes" },
      ticks(low, high, 4).map((tick) => [
        s("line", { x1: LEFT, x2: this.width - RIGHT, y1: this.y(tick), y2: this.y(tick) }),
        s("text", { x: LEFT - 8, y: this.y(tick) + 4, "text-anchor": "end" }, given.spell ? given.spell(tick) : short(tick))]),
      across.map((tick) => s("text", { x: this.x(tick), y: this.height - 20, "text-anchor": "middle" }, short(tick))),
      s("text", { x: this.width - RIGHT, y: this.height - 4, "text-anchor": "end" }, given.x ?? ""));
  }

  line(line, place) {
    const path = line.points.map(([x, y], number) => `${number ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`).join("");
    const kind = line.kind ?? `series-${(place % 8) + 1}`;
    return s("g", { class: `line ${kind}` }, s("path", { d: path }),
      line.points.length === 1 || line.dots ? line.points.map(([x, y]) => s("circle", { cx: this.x(x), cy: this.y(y), r: 3 })) : []);
  }

  band(band) {
    const up = band.points.map(([x, , high]) => `${this.x(x).toFixed(1)} ${this.y(high).toFixed(1)}`);
    const down = band.points.map(([x, low]) => `${this.x(x).toFixed(1)} ${this.y(low).toFixed(1)}`).reverse();
    return s("path", { class: `band ${band.level ?? ""}`, d: `M${[...up, ...down].join("L")}Z` });
  }

  level(one) {
    return s("g", { class: "level" }, s("line", { x1: LEFT, x2: this.width - RIGHT, y1: this.y(one.y), y2: this.y(one.y) }),
      s("text", { x: this.width - RIGHT - 4, y: this.y(one.y) - 4, "text-anchor": "end" }, one.name));
  }

  mark(mark) {
    const x = this.x(mark.x);
    return s("g", { class: `mark ${mark.kind ?? ""}` }, s("line", { x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM }),
      mark.name ? s("text", { x: x > this.width - 80 ? x - 6 : x + 6, y: TOP + 11, "text-anchor": x > this.width - 80 ? "end" : "start" }, mark.name) : null,
      mark.kind === "handle" ? s("circle", { cx: x, cy: this.height - BOTTOM, r: 7 }) : null);
  }

  point(event) {
    if (!this.given || !this.value) return;
    const x = this.value(event.clientX - this.svg.getBoundingClientRect().left);
    const near = this.given.lines.map((line) => [line, line.points.reduce((best, one) => (!best || Math.abs(one[0] - x) < Math.abs(best[0] - x) ? one : best), null)])
      .filter(([line, found]) => found && line.name);
    if (!near.length) return;
    const spell = this.given.spell ?? short;
    const distance = Math.min(...near.map(([, found]) => Math.abs(found[0] - x)));
    const own = near.filter(([, found]) => Math.abs(found[0] - x) <= distance + 1e-9);
    this.told.textContent = [`${this.given.x ?? "x"} ${short(own[0][1][0])}`, ...own.map(([line, found]) => `${line.name} ${spell(found[1])}`)].join(" · ");
  }
}

/** The names of lines with their colors. */
export function legend(names, kinds) {
  return h("ul", { class: "legend" }, names.map((name, place) => h("li", { class: kinds?.[place] ?? `series-${(place % 8) + 1}` }, h("span", { class: "swatch", "aria-hidden": "true" }), name)));
}
