// Starts the page: lists the models, and shows the view of the one that is chosen.

import { get } from "./api.js";
import { h, say, show } from "./dom.js";
import { ForecastView } from "./forecast.js";
import { LabelView } from "./labels.js";
import { LanguageView } from "./language.js";
import { TagView } from "./tags.js";
import { TrainingView } from "./training.js";
import { TranslationView } from "./translation.js";

const chooser = document.getElementById("model"), content = document.getElementById("content");
const tabs = ["use", "training"].map((name) => document.getElementById(`tab-${name}`));
let about = null, view = null, turn = 0;

function viewOf(model) {
  if (model.generates) return LanguageView;
  if (model.reads === "series") return ForecastView;
  if (model.reads === "words") return TagView;
  return model.outputs.length ? LabelView : TranslationView;
}

const TASKS = { lm: "language model", classify: "classification", multilabel: "several labels", regress: "regression", tag: "tagging", joint: "tags and a label", seq2seq: "sequence to sequence" };
const several = (count, what) => `${count.toLocaleString("en")} ${what}`;

function head() {
  const layers = new Set(about.channels.map((one) => one.layer)).size, units = about.channels.find((one) => one.role === "state")?.units;
  const facts = [TASKS[about.task] ?? about.task, about.cell.toUpperCase(), layers && `${layers} × ${units} units`, several(about.parameters, "parameters"), about.outputs.length > 1 && several(about.outputs.length, "outputs"), about.unit];
  return h("div", { class: "title" }, h("h1", {}, about.id), h("p", { class: "facts" }, facts.filter(Boolean).map((fact) => h("span", {}, fact))));
}

async function open() {
  const own = (turn += 1), training = tabs[1].getAttribute("aria-selected") === "true";
  view?.close?.();
  view = null;
  say("");
  content.setAttribute("aria-busy", "true");
  try {
    about = await get(`/v1/models/${encodeURIComponent(chooser.value)}/about`);
    if (own !== turn) return;
    view = new (training ? TrainingView : viewOf(about))(about);
    show(content, head(), view.element);
    document.title = `${about.id} · unspool`;
    location.replace(`#${encodeURIComponent(about.id)}${training ? "/training" : ""}`);
    await view.start?.();
  } catch (error) {
    if (own === turn) say(error.message, true);
  } finally {
    if (own === turn) content.setAttribute("aria-busy", "false");
  }
}

function choose(tab) {
  for (const one of tabs) {
    one.setAttribute("aria-selected", String(one === tab));
    one.tabIndex = one === tab ? 0 : -1;
  }
  content.setAttribute("aria-labelledby", tab.id);
  return open();
}

async function start() {
  try {
    const models = (await get("/v1/models")).data;
    const [wanted, part] = location.hash.slice(1).split("/").map(decodeURIComponent);
    show(chooser, models.map((one) => h("option", { value: one.id }, `${one.id} (${one.task})`)));
    chooser.disabled = false;
    if (models.some((one) => one.id === wanted)) chooser.value = wanted;
    await choose(tabs[part === "training" ? 1 : 0]);
  } catch (error) {
    content.setAttribute("aria-busy", "false");
    show(content, h("p", { class: "quiet" }, "The server does not answer."));
    say(error.message, true);
  }
}

chooser.addEventListener("change", open);
for (const tab of tabs) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = tabs[tab === tabs[0] ? 1 : 0];
    other.focus();
    choose(other);
  });
}
addEventListener("pagehide", () => view?.close?.());
start();
