// One branch of a text: a session on the server, the tokens that it has read, and what was told about each.

import { events, forget, post } from "./api.js";

const TOP = 8, PIECE = 100; // tokens that are told after each, and that are read in one request
const SHOWN_EVERY = 8; // tokens that may arrive before the page is drawn and hears the buttons

export class BranchModel {
  /** @param limit How many tokens one request may have. */
  constructor(model, limit, steps = [], read = "") {
    this.model = model;
    this.limit = limit;
    this.steps = steps; // { token, text, probability, next, values }
    this.read = read; // the text that its editor has
    this.session = null;
    this.weights = new Map(); // number of tokens → how much each of them matters to the one after them
    this.stopping = null;
  }

  /** Tokens that are read in one request. */
  get piece() { return Math.min(PIECE, this.limit); }

  get ids() { return this.steps.map((step) => step.token); }

  /** Bits per token, of those whose probability is known. */
  get bits() {
    const known = this.steps.map((step) => step.probability).filter((one) => typeof one === "number");
    return known.length ? known.reduce((sum, one) => sum - Math.log2(Math.max(one, 1e-12)), 0) / known.length : null;
  }

  async open() {
    this.session = (await post("/v1/sessions", { model: this.model })).id;
    const ids = this.ids;
    for (let first = 0; first < ids.length; first += this.piece) {
      await post(`/v1/sessions/${this.session}/feed`, { input: ids.slice(first, first + this.piece) });
    }
  }

  /** Use the session; one that has expired is opened again with what it had read. */
  async with(use) {
    if (!this.session) await this.open();
    try {
      return await use(`/v1/sessions/${this.session}`);
    } catch (error) {
      if (error.code !== "session_not_found") throw error;
      await this.open();
      return use(`/v1/sessions/${this.session}`);
    }
  }

  /** The ids of a text as a whole: in parts it could have other tokens. */
  async encode(text) {
    return (await post("/v1/tokens", { model: this.model, input: text })).tokens;
  }

  /** Read text, or ids, after what there is. `each` is called after every part, and stops the reading by `false`. */
  async feed(input, each = () => true) {
    const ids = typeof input === "string" ? await this.encode(input) : input;
    for (let first = 0; first < ids.length; first += this.piece) {
      const piece = { input: ids.slice(first, first + this.piece), trace: true, top: TOP };
      const told = await this.with((path) => post(`${path}/feed`, piece));
      this.steps.push(...told.trace);
      if (each() === false) {
        this.read = null; // only a part of the text
        return;
      }
    }
  }

  /** Go on with a token that was chosen. */
  async take(choice) {
    await this.feed([choice.token]);
    this.extend(this.words && this.read ? ` ${choice.text}` : choice.text);
  }

  /** Make this the text. Where the old one only became longer, the rest is read; words may change with what follows. */
  async rewrite(text, characters, each) {
    const longer = characters && this.read && text.startsWith(this.read) && this.steps.length === [...this.read].length;
    if (longer) {
      const rest = text.slice(this.read.length);
      this.read = text;
      if (rest) await this.feed(rest, each);
      return;
    }
    this.close();
    this.steps = [];
    this.weights = new Map();
    this.read = text;
    await this.feed(text, each);
  }

  /** Add to the text that the editor has what the model has read beyond it; nothing where that is no whole character. */
  extend(text) {
    if (this.read !== null && !text.includes("\ufffd")) this.read += text;
  }

  /** Generate; `each` is called after every few tokens. Resolves to why it ended. */
  async write(options, each) {
    this.stopping = new AbortController();
    try {
      const written = this.with(async (path) => {
        for await (const event of events(`${path}/generate`, { ...options, trace: true, top: TOP }, this.stopping.signal)) {
          if (event.text) this.extend(event.text);
          if (event.trace) {
            if (this.steps.push(event.trace) % SHOWN_EVERY === 0) {
              each();
              await new Promise((resolve) => setTimeout(resolve));
              this.stopping.signal.throwIfAborted();
            }
          }
          if (event.finish_reason) return event.finish_reason;
        }
        return "stop";
      });
      return await written;
    } catch (error) {
      if (error.name !== "AbortError") throw error;
      // the session may have read tokens that never came here: it is opened again with those that did
      this.close();
      return "stopped";
    } finally {
      this.stopping = null;
    }
  }

  stop() { this.stopping?.abort(); }

  /** Another branch that has the first tokens; at the end of the text the session itself is forked. */
  async branch(count) {
    const own = new BranchModel(this.model, this.limit, this.steps.slice(0, count), this.textOf(count));
    if (count === this.steps.length && this.session) {
      own.session = (await this.with((path) => post(`${path}/fork`))).id;
    }
    return own;
  }

  textOf(count) {
    if (count === this.steps.length && this.read) return this.read;
    const typed = [...(this.read ?? "")]; // where each token is a character, also those that the model does not know
    if (typed.length === this.steps.length) return typed.slice(0, count).join("");
    const texts = this.steps.slice(0, count).map((step) => step.text);
    return texts.join(this.words ? " " : "");
  }

  /** How much each of the first tokens matters to the one after them; empty until `weigh` was called. */
  importance(count) { return this.weights.get(count) ?? []; }

  /** Ask how much each of the first tokens matters to the one after them. */
  async weigh(count) {
    if (!count || this.weights.has(count)) return;
    const first = Math.max(0, count - Math.min(512, this.limit)), { weights } = this;
    const told = await post("/v1/importance", { model: this.model, input: this.ids.slice(first, count) });
    weights.set(count, [...Array(first).fill(null), ...told.importance]);
  }

  close() {
    if (this.session) forget(this.session);
    this.session = null;
  }
}
