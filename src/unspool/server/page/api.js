// Requests to the server: JSON in and out, events while they come, and the token where the server wants one.

import { askToken } from "./token.js";

const KEY = "unspool-token";

export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? `The server answered ${status}.`);
    this.status = status;
    this.code = error?.code ?? "";
  }
}

function headers(body) {
  const token = sessionStorage.getItem(KEY);
  return { ...(body === undefined ? {} : { "content-type": "application/json" }), ...(token ? { authorization: `Bearer ${token}` } : {}) };
}

async function send(method, path, body, signal) {
  for (;;) {
    const used = sessionStorage.getItem(KEY);
    const answer = await fetch(path, { method, headers: headers(body), body: body === undefined ? undefined : JSON.stringify(body), signal });
    if (answer.ok) return answer;
    const told = await answer.json().catch(() => ({}));
    if (answer.status !== 401) throw new Refused(answer.status, told.error);
    // another request may have been given the token meanwhile
    if (sessionStorage.getItem(KEY) === used) sessionStorage.setItem(KEY, await askToken(Boolean(used)));
  }
}

export async function call(method, path, body, signal) {
  const answer = await send(method, path, body, signal);
  return answer.status === 204 ? null : answer.json();
}

export const get = (path) => call("GET", path);
export const post = (path, body, signal) => call("POST", path, body ?? undefined, signal);

/** Forget a session, also while the page goes away. */
export function forget(session) {
  fetch(`/v1/sessions/${session}`, { method: "DELETE", headers: headers(), keepalive: true }).catch(() => {});
}

/** The events of an answer, each as soon as it is here. */
export async function* events(path, body, signal) {
  const answer = await send("POST", path, { ...body, stream: true }, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new Refused(500, event.error);
      yield event;
    }
  }
}
