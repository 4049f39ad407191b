// The view of a training: its curves, and the pages that its run has.

import { get, post } from "./api.js";
import { Chart, legend, short } from "./chart.js";
import { h, say, show } from "./dom.js";

const NAMES = { xray: ["X-ray", "What the model remembers, where its gradients go, and what to do about it."], timeline: ["Training timeline", "The X-ray at several moments of the training."] };
const path = (about) => `/v1/models/${encodeURIComponent(about.id)}`;

/** Curves that belong into one chart: losses together, every other by itself. */
function groups(curves) {
  const losses = curves.filter((curve) => /loss$/.test(curve.name));
  const others = curves.filter((curve) => !losses.includes(curve)).map((curve) => [curve.name[0].toUpperCase() + curve.name.slice(1), [curve]]);
  return [...(losses.length ? [["Loss", losses]] : []), ...others];
}

export class TrainingView {
  constructor(about) {
    this.about = about;
    this.charts = h("div", { class: "charts" });
    this.element = h("div", {}, this.pages(), this.charts);
  }

  pages() {
    const { pages } = this.about;
    return h("div", { class: "card" }, h("h2", {}, "Look inside"), pages.length
      ? pages.map((page) => h("div", { class: "page-link" }, h("button", { class: "primary", type: "button", onclick: () => this.open(page) }, `Open the ${NAMES[page][0]}`), h("p", { class: "quiet" }, NAMES[page][1], " It opens in a new tab.")))
      : h("p", { class: "quiet" }, "The run has no X-ray yet. ", h("code", {}, `unspool xray ${this.about.id}`), " writes one into its folder."));
  }

  async open(page) {
    try {
      const { url } = await post(`${path(this.about)}/pages/${page}`);
      window.open(url, "_blank", "noopener");
    } catch (error) {
      say(error.message, true);
    }
  }

  async start() {
    const { curves, best_step: best, baselines } = await get(`${path(this.about)}/curves`);
    if (!curves.length) { show(this.charts, h("p", { class: "quiet" }, "The run has no log of its training.")); return; }
    const drawn = groups(curves).map(([name, own]) => this.chart(name, own, best, name === "Loss" ? baselines : {}));
    show(this.charts, drawn.map(([element]) => element));
    drawn.forEach(([, draw]) => draw());
  }

  chart(name, curves, best, baselines) {
    const chart = new Chart(`${name} by step of the training`, name === "Loss" ? 280 : 180);
    const latest = curves.map((curve) => `${curves.length > 1 ? `${curve.name} ` : ""}${short(curve.values.at(-1))}`).join(" · ");
    const ys = curves.flatMap((curve) => curve.values), low = Math.min(...ys), high = Math.max(...ys);
    // a baseline far above the curves would press them flat
    const levels = Object.entries(baselines).map(([one, y]) => ({ name: one, y })).filter(({ y }) => y <= high + 0.6 * (high - low) && y >= low - 0.6 * (high - low));
    const marks = best === null ? [] : [{ x: best, name: "best" }];
    const lines = curves.map((curve) => ({ name: curve.name, points: curve.steps.map((step, place) => [step, curve.values[place]]) }));
    const element = h("section", { class: name === "Loss" ? "card wide" : "card", "aria-label": name },
      h("div", { class: "row" }, h("h2", {}, name), h("span", { class: "quiet" }, `last: ${latest}`)), chart.element,
      curves.length > 1 ? legend(curves.map((curve) => curve.name)) : null);
    return [element, () => chart.draw({ lines, levels, marks, x: "step", whole: true })];
  }
}
