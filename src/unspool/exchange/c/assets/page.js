"use strict";
// Runs the model of this page: a WebAssembly module whose functions start with the model's name.

const model = JSON.parse(document.getElementById("model").textContent);
const element = (id) => document.getElementById(id);
const encoder = new TextEncoder();
const SHOWN = 96, NARROW = 7; // the most steps that are drawn, and the least width of one in pixels
let wasm, redraw = () => {};

for (const part of document.querySelectorAll("[class^=of-]")) part.hidden = part.className !== `of-${model.kind}`;

const call = (name, ...rest) => wasm[`${model.name}_${name}`](...rest);
const has = (name) => `${model.name}_${name}` in wasm;
const floats = (place, count) => new Float32Array(wasm.memory.buffer, place, count);
const integers = (place, count) => new Int32Array(wasm.memory.buffer, place, count);

async function load() {
  const bytes = Uint8Array.from(atob(model.wasm), (letter) => letter.charCodeAt(0));
  wasm = (await WebAssembly.instantiate(bytes, {})).instance.exports;
}

// ── memory ──

/** Memory of the module. Its addresses have 32 bits, which JavaScript would silently cut a larger size to. */
function allocate(bytes) {
  const place = bytes < 2 ** 32 ? call("allocate", bytes) >>> 0 : 0;
  if (!place) throw new Error("the input is too long for the memory of this page. Give less of it.");
  return place;
}

/** The workspace of a run over so many steps. */
const workspace = (...sizes) => allocate(4 * (call("workspace", ...sizes) >>> 0) + 4);

/** A state at its start; all memory of earlier calls is free again. */
function start() {
  call("release");
  const state = allocate(call("state_size"));
  call("init", state);
  return state;
}

function put(bytes) {
  const place = allocate(bytes.length + 1);
  new Uint8Array(wasm.memory.buffer, place, bytes.length).set(bytes);
  return place;
}

function putFloats(values) {
  const place = allocate(4 * values.length + 4);
  floats(place, values.length).set(values);
  return place;
}

function putIntegers(values) {
  const place = allocate(4 * values.length + 4);
  integers(place, values.length).set(values);
  return place;
}

// ── texts and numbers ──

/** The tokens of a text with their places in its bytes: by the model's tokenizer, or the ids that the text has. */
function tokenize(text) {
  if (!model.tokenized) return text.split(/[\s,]+/).filter(Boolean).map((word) => ({ id: readId(word), text: word }));
  const bytes = encoder.encode(text), line = put(bytes), at = allocate(16), found = [], decoder = new TextDecoder();
  integers(at, 1)[0] = 0;
  while (call("next_token", line, bytes.length, at, at + 4, at + 8, at + 12)) {
    const [, id, first, size] = integers(at, 4);
    found.push({ id, place: line + first, size, text: decoder.decode(bytes.subarray(first, first + size)) });
  }
  return found;
}

function readId(word) {
  const id = /^\d+$/.test(word) ? Number(word) : NaN;
  if (!(id < model.tokens)) throw new Error(`“${word}” is not an id from 0 to ${model.tokens - 1}.`);
  return id;
}

function decode(id, decoder, size, part = "") {
  if (!model.tokenized) return `${id} `;
  const place = call(`${part}token_text`, id, size) >>> 0;
  const text = decoder.decode(new Uint8Array(wasm.memory.buffer, place, integers(size, 1)[0]), { stream: true });
  return (part ? model.target_spaced : model.spaced) ? `${text} ` : text;
}

/** The numbers of a text, in rows of `width`. */
function numbers(text, width) {
  const words = text.split(/[\s,;]+/).filter(Boolean), found = words.map(Number);
  const wrong = found.findIndex((value) => !Number.isFinite(Math.fround(value)));
  if (wrong >= 0) throw new Error(`“${words[wrong]}” is not a number.`);
  if (found.length % width) throw new Error(`the input has ${found.length} numbers, and a step has ${width}.`);
  return found;
}

function lines() {
  const found = element("input").value.split("\n").filter((line) => line.trim());
  if (!found.length) throw new Error("the input is empty. Give at least one line.");
  return found;
}

const short = (value) => Number(value.toPrecision(6)).toString();

// ── what each kind of model does ──

async function generate() {
  const state = start(), tokens = tokenize(element("input").value || (model.tokenized ? "\n" : "0"));
  const logits = allocate(4 * model.constants.TOKENS), seed = allocate(4), size = allocate(4);
  integers(seed, 1)[0] = (Math.imul(Number(element("seed").value), 2654435761) + 1) | 0 || 1;
  const history = [], read = [], decoder = new TextDecoder(), shown = element("output");
  const look = (text) => {
    history.push(floats(call("units", state), model.constants.UNITS).slice());
    read.push(text);
  };
  const show = () => drawUnits(history, read, "the last tokens");
  for (const token of tokens) { call("feed", state, token.id); look(token.text); }
  call("logits", state, logits);
  shown.textContent = element("input").value;
  const temperature = Number(element("temperature").value), wanted = Number(element("count").value);
  for (let i = 0; i < wanted; i++) {
    if (model.listed) floats(logits, 1)[0] = -Infinity; // the unknown token is never written
    call("probabilities", logits, temperature);
    const token = call("sample", logits, seed), text = decode(token, decoder, size);
    shown.textContent += text;
    call("step", state, token, logits);
    look(text);
    if (i % 32 === 31) { show(); await new Promise(requestAnimationFrame); }
  }
  show();
}

/** Run a text, or a sequence of numbers, from a new state; the prediction, the units at each step, and what was read. */
function run(line) {
  const state = start(), { OUTPUTS: outputs, INPUTS: width, UNITS: units } = model.constants, y = allocate(4 * outputs);
  const values = width ? numbers(line, width) : [], tokens = width ? [] : tokenize(line), history = [];
  const steps = width ? values.length / width : tokens.length;
  const hashes = model.spelled ? tokens.map(spell) : [], ids = tokens.map((token) => token.id);
  const given = width ? putFloats(values) : putIntegers(ids);
  if (has("step")) {
    for (let t = 0; t < steps; t++) {
      const spelled = model.spelled ? [putIntegers(hashes[t]), hashes[t].length] : [];
      call("step", state, width ? given + 4 * t * width : ids[t], ...spelled);
      history.push(floats(call("units", state), units).slice());
    }
    call("output", state, y);
  } else {
    const counts = hashes.map((each) => each.length), all = hashes.flatMap((each) => [...each]);
    const spelled = model.spelled ? [putIntegers(all), putIntegers(counts)] : [];
    call("run", state, given, ...spelled, steps, y, workspace(steps));
    const every = floats(call("outputs", state) >>> 0, steps * units);
    for (let t = 0; t < steps; t++) history.push(every.slice(t * units, (t + 1) * units));
  }
  return { y: Array.from(floats(y, outputs)), history, read: tokens.map((token) => token.text) };
}

/** The hashes of the n-grams of a word. */
function spell(word) {
  const room = allocate(4 * 3080), count = call("hash_ngrams", word.place, word.size, room, 3080);
  return integers(room, count).slice();
}

function predict() {
  const given = lines(), found = given.map(run), last = found[found.length - 1];
  element("output").textContent = found.map((each) => describe(each.y)).join("\n");
  drawUnits(last.history, last.read, given.length > 1 ? `line ${given.length}` : "the input");
}

function describe(y) {
  if (model.output === "none") return y.map((value, j) => `${model.labels[j]} ${short(value)}`).join("  ");
  const order = y.map((_, j) => j).sort((a, b) => y[b] - y[a]).slice(0, 5);
  return order.map((j) => `${model.labels[j]} ${(100 * y[j]).toFixed(1)} %`).join("  ");
}

function forecast() {
  const { INPUTS: width, TARGETS: targets, QUANTILES: levels } = model.constants;
  const state = start(), raw = numbers(element("input").value, width), given = raw.length / width;
  if (given < model.least) throw new Error(`the past needs at least ${model.least} steps, and has ${given}.`);
  const steps = model.lookback || given; // as many as it was trained on
  const past = raw.slice((given - steps) * width).map((value, i) => (value - model.mean[i % width]) / model.deviation[i % width]);
  const horizon = Number(element("horizon").value), size = horizon * targets * levels;
  const y = allocate(4 * size), room = workspace(steps, horizon);
  call("run", state, putFloats(past), steps, 0, horizon, putFloats(model.unit), y, room);
  const scaled = Array.from(floats(y, size), (value, i) => {
    const j = Math.floor(i / levels) % targets;
    return value * model.deviation[j] + model.mean[j];
  });
  const rows = Array.from({ length: horizon }, (_, t) => scaled.slice(t * targets * levels, (t + 1) * targets * levels));
  const head = model.labels.flatMap((label) => model.quantiles.map((level) => `${targets > 1 ? `${label} ` : ""}${short(100 * level)} %`));
  element("output").className = "table";
  element("output").textContent = table([["step", ...head], ...rows.map((row, t) => [`${t + 1}`, ...row.map(short)])]);
  drawForecast(raw.filter((_, i) => i % width === 0), rows.map((row) => row.slice(0, levels)));
}

/** Rows of texts as lines, in columns of their widest. */
function table(rows) {
  const widths = rows[0].map((_, j) => Math.max(...rows.map((row) => row[j].length)));
  return rows.map((row) => row.map((text, j) => text.padStart(widths[j])).join("  ")).join("\n");
}

function translate() {
  element("output").textContent = lines().map((line) => {
    const state = start(), ids = tokenize(line).map((token) => token.id), longest = model.constants.LONGEST;
    const given = putIntegers(ids), target = allocate(4 * longest), size = allocate(4), decoder = new TextDecoder();
    const count = call("run", state, given, ids.length, target, longest, workspace(ids.length));
    return [...integers(target, count).slice()].map((id) => decode(id, decoder, size, "target_")).join("");
  }).join("\n");
}

function tag() {
  element("output").textContent = lines().map((line) => {
    const state = start(), words = tokenize(line), steps = words.length;
    const given = putIntegers(words.map((word) => word.id)), tags = allocate(4 * steps + 4);
    const label = model.constants.LABELS ? [allocate(4 * model.constants.LABELS)] : [];
    let spelled = [], longest = [];
    if (model.letters) {
      const every = words.map((word) => {
        const room = allocate(4 * word.size + 4);
        return integers(room, call("letter_encode", word.place, word.size, room, word.size)).slice();
      });
      spelled = [putIntegers(every.flatMap((each) => [...each])), putIntegers(every.map((each) => each.length))];
      longest = [Math.max(0, ...every.map((each) => each.length))];
    }
    call("run", state, given, ...spelled, steps, tags, ...label, workspace(steps, ...longest));
    return words.map((word, t) => `${word.text}/${model.labels[integers(tags, steps)[t]]}`).join(" ");
  }).join("\n");
}

// ── pictures ──

/** The empty canvas, its size, and how many of its pixels are one of the page's; the caption says what is drawn. */
function canvas(caption) {
  element("drawn").hidden = false;
  element("caption").textContent = caption;
  const place = element("canvas"), scale = window.devicePixelRatio || 1;
  place.width = Math.max(1, place.clientWidth * scale);
  place.height = Math.max(1, place.clientHeight * scale);
  const drawing = place.getContext("2d");
  drawing.clearRect(0, 0, place.width, place.height);
  drawing.font = `${11 * scale}px ui-monospace, monospace`;
  return [drawing, place.width, place.height, scale];
}

const ink = () => getComputedStyle(document.body).color;

/** A column per step, with what was read below it where that fits; slow units above, so that memory shows as stripes. */
function drawUnits(history, read, where) {
  element("drawn").hidden = !history.length;
  if (!history.length) return;
  redraw = () => drawUnits(history, read, where);
  const rows = "a row per unit of the top layer, the slowest at the top. Blue is below zero, red above.";
  const [drawing, width, height, scale] = canvas(`The units while reading ${where}: a column per step, ${rows}`);
  const most = Math.min(SHOWN, Math.max(1, Math.floor(width / scale / NARROW)));
  const steps = history.slice(-most), texts = read.slice(-most), column = width / steps.length;
  const fits = (text) => text.trim() !== "" && drawing.measureText(text.trim()).width <= column + scale;
  const line = texts.some(fits) ? 16 * scale : 0, units = [...steps[0].keys()];
  const largest = Math.max(1e-6, ...steps.map((row) => row.reduce((top, value) => Math.max(top, Math.abs(value)), 0)));
  const speed = units.map((unit) => steps.reduce((sum, row, t) => sum + (t ? Math.abs(row[unit] - steps[t - 1][unit]) : 0), 0));
  const left = (t) => Math.floor(t * column), top = (j) => Math.floor(j * (height - line) / units.length);
  units.sort((one, other) => speed[one] - speed[other]);
  steps.forEach((row, t) => units.forEach((unit, j) => {
    drawing.globalAlpha = Math.min(1, Math.abs(row[unit]) / largest);
    drawing.fillStyle = row[unit] < 0 ? "#2b7bd6" : "#d6452b";
    drawing.fillRect(left(t), top(j), left(t + 1) - left(t), top(j + 1) - top(j));
  }));
  drawing.globalAlpha = 1;
  drawing.fillStyle = ink();
  drawing.textAlign = "center";
  texts.forEach((text, t) => { if (fits(text)) drawing.fillText(text.trim(), (t + 0.5) * column, height - 4 * scale); });
  element("canvas").dataset.steps = steps.length;
}

function drawForecast(past, future) {
  redraw = () => drawForecast(past, future);
  const [low, high] = [model.quantiles[0], model.quantiles[model.quantiles.length - 1]].map((level) => `${short(100 * level)} %`);
  const band = low === high ? "" : ` The band reaches from the ${low} to the ${high} quantile.`;
  const about = `${model.labels[0]}: the past, and in blue the median of the forecast.${band}`;
  const [drawing, width, height, scale] = canvas(about), shown = past.slice(-4 * future.length - 20);
  const all = [...shown, ...future.flat()], least = Math.min(...all), most = Math.max(...all, least + 1e-9);
  const margin = 8 * scale + Math.max(...[least, most].map((value) => drawing.measureText(value.toPrecision(4)).width));
  const x = (t) => margin + (t + 0.5) * (width - margin) / (shown.length + future.length);
  const y = (value) => height * (0.93 - 0.86 * (value - least) / (most - least));
  const line = (points, color) => {
    drawing.beginPath();
    points.forEach(([t, value]) => drawing.lineTo(x(t), y(value)));
    drawing.strokeStyle = color;
    drawing.lineWidth = 2 * scale;
    drawing.stroke();
  };
  const now = [shown.length - 1, future[0].map(() => shown[shown.length - 1])]; // the forecast goes on from here
  const ahead = [now, ...future.map((row, t) => [shown.length + t, row])];
  drawing.beginPath();
  ahead.forEach(([t, row]) => drawing.lineTo(x(t), y(row[0])));
  ahead.slice().reverse().forEach(([t, row]) => drawing.lineTo(x(t), y(row[row.length - 1])));
  drawing.fillStyle = "rgba(43, 123, 214, 0.35)";
  drawing.fill();
  line(shown.map((value, t) => [t, value]), ink());
  line(ahead.map(([t, row]) => [t, row[model.middle]]), "#2b7bd6");
  drawing.fillStyle = ink();
  for (const value of [least, most]) drawing.fillText(value.toPrecision(4), 4 * scale, y(value) + 4 * scale);
  element("canvas").dataset.steps = shown.length + future.length;
}

const ACTIONS = { language: generate, pooled: predict, forecast, translate, tag };

window.addEventListener("resize", () => redraw());
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
element("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  element("go").disabled = true;
  element("output").className = "";
  try {
    if (!wasm) await load();
    await ACTIONS[model.kind]();
    document.body.dataset.done = String(Number(document.body.dataset.done || 0) + 1);
  } catch (error) {
    redraw = () => {};
    element("drawn").hidden = true;
    element("output").className = "problem";
    element("output").textContent = `This did not work: ${error.message}`;
  }
  element("go").disabled = false;
});
