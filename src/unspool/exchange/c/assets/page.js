"use strict";
// Runs the model of this page: a WebAssembly module whose functions start with the model's name.

const model = JSON.parse(document.getElementById("model").textContent);
const element = (id) => document.getElementById(id);
const encoder = new TextEncoder();
const SHOWN = 96; // the steps that are drawn
let wasm;

for (const part of document.querySelectorAll("[class^=of-]")) part.hidden = part.className !== `of-${model.kind}`;

const call = (name, ...rest) => wasm[`${model.name}_${name}`](...rest);
const has = (name) => `${model.name}_${name}` in wasm;
const floats = (place, count) => new Float32Array(wasm.memory.buffer, place, count);
const integers = (place, count) => new Int32Array(wasm.memory.buffer, place, count);

async function load() {
  const bytes = Uint8Array.from(atob(model.wasm), (letter) => letter.charCodeAt(0));
  wasm = (await WebAssembly.instantiate(bytes, {})).instance.exports;
}

/** A state at its start; all memory of earlier calls is free again. */
function start() {
  call("release");
  const state = call("allocate", call("state_size"));
  call("init", state);
  return state;
}

function put(bytes) {
  const place = call("allocate", bytes.length + 1);
  new Uint8Array(wasm.memory.buffer, place, bytes.length).set(bytes);
  return place;
}

function putFloats(values) {
  const place = call("allocate", 4 * values.length + 4);
  floats(place, values.length).set(values);
  return place;
}

/** The ids of a text: by the model's tokenizer, or the numbers that the text has where there is none. */
function encode(text) {
  if (!model.tokenized) return Int32Array.from((text.match(/-?\d+/g) || []).map(Number));
  const bytes = encoder.encode(text), place = put(bytes), room = call("allocate", 4 * bytes.length + 4);
  const count = call("encode", place, bytes.length, room, bytes.length + 1);
  return integers(room, count).slice();
}

function decode(id, decoder, part = "") {
  if (!model.tokenized) return `${id} `;
  const size = call("allocate", 4), place = call(`${part}token_text`, id, size);
  const text = decoder.decode(new Uint8Array(wasm.memory.buffer, place, integers(size, 1)[0]), { stream: true });
  return (part ? model.target_spaced : model.spaced) ? `${text} ` : text;
}

const numbers = (text) => (text.match(/[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?/gi) || []).map(Number);
const short = (value) => Number(value.toPrecision(6)).toString();

// ── what each kind of model does ──

async function generate() {
  const state = start(), ids = encode(element("input").value || "\n"), count = model.constants.TOKENS;
  const logits = call("allocate", 4 * count), seed = call("allocate", 4);
  integers(seed, 1)[0] = (Math.imul(Number(element("seed").value), 2654435761) + 1) | 0 || 1;
  const history = [], decoder = new TextDecoder(), shown = element("output");
  const read = [], look = (text) => {
    history.push(floats(call("units", state), model.constants.UNITS).slice());
    read.push(text);
  };
  const free = call("allocate", 16); // what decoding takes is not much
  for (const id of ids) { call("feed", state, id); look(decode(id, new TextDecoder())); }
  call("logits", state, logits);
  shown.textContent = element("input").value;
  const temperature = Number(element("temperature").value), wanted = Number(element("count").value);
  for (let i = 0; i < wanted && free; i++) {
    if (model.listed) floats(logits, 1)[0] = -1e30; // the unknown token is never written
    call("probabilities", logits, temperature);
    const token = call("sample", logits, seed);
    const text = decode(token, decoder);
    shown.textContent += text;
    call("step", state, token, logits);
    look(text);
    if (i % 32 === 31) { drawUnits(history, read); await new Promise(requestAnimationFrame); }
  }
  drawUnits(history, read);
}

/** The ids of the words of a text, and the hashes of the n-grams of each. */
function spell(text) {
  const bytes = encoder.encode(text), line = put(bytes), at = call("allocate", 16), room = call("allocate", 4 * 3080);
  const ids = [], hashes = [];
  integers(at, 1)[0] = 0;
  while (call("next_token", line, bytes.length, at, at + 4, at + 8, at + 12)) {
    const [, id, first, size] = integers(at, 4), count = call("hash_ngrams", line + first, size, room, 3080);
    ids.push(id);
    hashes.push(integers(room, count).slice());
  }
  return [ids, hashes];
}

function putIntegers(values) {
  const place = call("allocate", 4 * values.length + 4);
  integers(place, values.length).set(values);
  return place;
}

function predictSpelled(state, line, y, look) {
  const [ids, hashes] = spell(line);
  if (has("step")) {
    ids.forEach((id, t) => { call("step", state, id, putIntegers(hashes[t]), hashes[t].length); look(); });
    call("output", state, y);
    return;
  }
  const every = putIntegers(hashes.flatMap((each) => [...each])), counts = putIntegers(hashes.map((each) => each.length));
  const workspace = call("allocate", 4 * call("workspace", ids.length) + 4);
  call("run", state, putIntegers(ids), every, counts, ids.length, y, workspace);
  look();
}

function predict() {
  const lines = element("input").value.split("\n").filter((line) => line.trim()), history = [];
  const outputs = model.constants.OUTPUTS, width = model.constants.INPUTS;
  const found = lines.map((line) => {
    const state = start(), y = call("allocate", 4 * outputs);
    const values = width ? numbers(line) : model.spelled ? [] : encode(line);
    const steps = width ? Math.floor(values.length / width) : values.length;
    history.length = 0;
    const look = () => history.push(floats(call("units", state), model.constants.UNITS).slice());
    if (model.spelled) {
      predictSpelled(state, line, y, look);
    } else if (has("step")) {
      const place = width ? putFloats(values) : 0;
      for (let t = 0; t < steps; t++) {
        if (width) call("step", state, place + 4 * t * width); else call("step", state, values[t]);
        look();
      }
      call("output", state, y);
    } else {
      const place = putFloats(width ? values : new Float32Array(values.length));
      if (!width) integers(place, steps).set(values);
      call("run", state, place, steps, y, call("allocate", 4 * call("workspace", steps) + 4));
      look();
    }
    return describe(Array.from(floats(y, outputs)));
  });
  element("output").textContent = found.join("\n");
  drawUnits(history);
}

function describe(y) {
  if (model.output === "none") return y.map((value, j) => `${model.labels[j]} ${short(value)}`).join("  ");
  const order = y.map((_, j) => j).sort((a, b) => y[b] - y[a]).slice(0, 5);
  return order.map((j) => `${model.labels[j]} ${(100 * y[j]).toFixed(1)} %`).join("  ");
}

function forecast() {
  const { INPUTS: width, TARGETS: targets, QUANTILES: levels } = model.constants;
  const state = start(), raw = numbers(element("input").value), given = Math.floor(raw.length / width);
  if (given < model.least) throw new Error(`the past needs ${model.least} steps at least`);
  const steps = model.lookback ? Math.min(given, model.lookback) : given; // as many as it was trained on
  const past = raw.slice((given - steps) * width, given * width).map((value, i) => (value - model.mean[i % width]) / model.deviation[i % width]);
  const horizon = Number(element("horizon").value), size = horizon * targets * levels;
  const y = call("allocate", 4 * size), workspace = call("allocate", 4 * call("workspace", steps, horizon) + 4);
  call("run", state, putFloats(past), steps, 0, horizon, putFloats(model.unit), y, workspace);
  const scaled = Array.from(floats(y, size), (value, i) => {
    const j = Math.floor(i / levels) % targets;
    return value * model.deviation[j] + model.mean[j];
  });
  const rows = Array.from({ length: horizon }, (_, t) => scaled.slice(t * targets * levels, (t + 1) * targets * levels));
  element("output").textContent = rows.map((row) => row.map(short).join("  ")).join("\n");
  drawForecast(raw.filter((_, i) => i % width === 0), rows.map((row) => row.slice(0, levels)));
}

function translate() {
  const lines = element("input").value.split("\n").filter((line) => line.trim());
  element("output").textContent = lines.map((line) => {
    const state = start(), ids = encode(line), longest = model.constants.LONGEST;
    const place = call("allocate", 4 * ids.length + 4), target = call("allocate", 4 * longest);
    integers(place, ids.length).set(ids);
    const workspace = call("allocate", 4 * call("workspace", ids.length) + 4);
    const count = call("run", state, place, ids.length, target, longest, workspace), decoder = new TextDecoder();
    return [...integers(target, count).slice()].map((id) => decode(id, decoder, "target_")).join("");
  }).join("\n");
}

function tag() {
  const lines = element("input").value.split("\n").filter((line) => line.trim());
  element("output").textContent = lines.map((line) => {
    const state = start(), words = model.tokenized ? line.split(/\s+/).filter(Boolean) : line.match(/\d+/g) || [];
    const ids = encode(words.join(" ")), steps = ids.length, place = call("allocate", 4 * steps + 4);
    integers(place, steps).set(ids);
    const tags = call("allocate", 4 * steps + 4), label = model.constants.LABELS ? [call("allocate", 4 * model.constants.LABELS)] : [];
    let spelled = [], longest = [];
    if (model.letters) {
      const every = words.map((word) => {
        const bytes = encoder.encode(word), text = put(bytes), room = call("allocate", 4 * bytes.length + 4);
        return integers(room, call("letter_encode", text, bytes.length, room, bytes.length)).slice();
      });
      const flat = every.flatMap((each) => [...each]), letters = call("allocate", 4 * flat.length + 4);
      const counts = call("allocate", 4 * steps + 4);
      integers(letters, flat.length).set(flat);
      integers(counts, steps).set(every.map((each) => each.length));
      spelled = [letters, counts];
      longest = [Math.max(0, ...every.map((each) => each.length))];
    }
    const workspace = call("allocate", 4 * call("workspace", steps, ...longest) + 4);
    call("run", state, place, ...spelled, steps, tags, ...label, workspace);
    return words.map((word, t) => `${word}/${model.labels[integers(tags, steps)[t]]}`).join(" ");
  }).join("\n");
}

// ── pictures ──

function canvas() {
  const place = element("canvas"), scale = window.devicePixelRatio || 1;
  place.width = Math.max(1, place.clientWidth * scale);
  place.height = Math.max(1, place.clientHeight * scale);
  const drawing = place.getContext("2d");
  drawing.clearRect(0, 0, place.width, place.height);
  return [drawing, place.width, place.height];
}

/** A column per step, a row per unit: blue is below zero, red above, and the background is zero. */
const isLetter = (text) => [...text].length === 1;

/** A column per step, below it what was read if that is one character; slow units above, so that memory shows as stripes. */
function drawUnits(history, read = []) {
  const [drawing, width, height] = canvas(), steps = history.slice(-SHOWN), texts = read.slice(-SHOWN);
  if (!steps.length) return;
  const scale = window.devicePixelRatio || 1, roomy = width / steps.length > 7 * scale;
  const line = roomy && texts.some(isLetter) ? 16 * scale : 0, units = [...steps[0].keys()];
  const largest = Math.max(1e-6, ...steps.map((row) => row.reduce((most, value) => Math.max(most, Math.abs(value)), 0)));
  const speed = units.map((unit) => steps.reduce((sum, row, t) => sum + (t ? Math.abs(row[unit] - steps[t - 1][unit]) : 0), 0));
  const left = (t) => Math.floor(t * width / steps.length), top = (j) => Math.floor(j * (height - line) / units.length);
  units.sort((one, other) => speed[one] - speed[other]);
  steps.forEach((row, t) => units.forEach((unit, j) => {
    drawing.globalAlpha = Math.min(1, Math.abs(row[unit]) / largest);
    drawing.fillStyle = row[unit] < 0 ? "#2b7bd6" : "#d6452b";
    drawing.fillRect(left(t), top(j), left(t + 1) - left(t), top(j + 1) - top(j));
  }));
  drawing.globalAlpha = 1;
  drawing.fillStyle = getComputedStyle(document.body).color;
  drawing.font = `${12 * scale}px ui-monospace, monospace`;
  drawing.textAlign = "center";
  texts.forEach((text, t) => {
    if (line && isLetter(text)) drawing.fillText(text, (left(t) + left(t + 1)) / 2, height - 4 * scale);
  });
  element("canvas").dataset.steps = steps.length;
}

function drawForecast(past, future) {
  const [drawing, width, height] = canvas(), shown = past.slice(-4 * future.length - 20);
  const all = [...shown, ...future.flat()], low = Math.min(...all), high = Math.max(...all, low + 1e-9);
  const x = (t) => (t + 0.5) * width / (shown.length + future.length);
  const y = (value) => height * (0.95 - 0.9 * (value - low) / (high - low));
  const line = (points, color) => {
    drawing.beginPath();
    points.forEach(([t, value]) => drawing.lineTo(x(t), y(value)));
    drawing.strokeStyle = color;
    drawing.lineWidth = 2;
    drawing.stroke();
  };
  const ahead = future.map((row, t) => [shown.length + t, row]);
  drawing.beginPath();
  ahead.forEach(([t, row]) => drawing.lineTo(x(t), y(row[0])));
  ahead.slice().reverse().forEach(([t, row]) => drawing.lineTo(x(t), y(row[row.length - 1])));
  drawing.fillStyle = "rgba(43, 123, 214, 0.3)";
  drawing.fill();
  line(shown.map((value, t) => [t, value]), getComputedStyle(document.body).color);
  line(ahead.map(([t, row]) => [t, row[model.middle]]), "#2b7bd6");
  element("canvas").dataset.steps = shown.length + future.length;
}

const ACTIONS = { language: generate, pooled: predict, forecast, translate, tag };
if (["translate", "tag"].includes(model.kind)) element("drawn").hidden = true;

element("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  element("go").disabled = true;
  try {
    if (!wasm) await load();
    await ACTIONS[model.kind]();
    document.body.dataset.done = String(Number(document.body.dataset.done || 0) + 1);
  } catch (error) {
    element("output").textContent = `This did not work: ${error.message}`;
  }
  element("go").disabled = false;
});
