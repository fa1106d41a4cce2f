// SPDX-License-Identifier: MIT
// Requests to the server. Each one sends the token as a header, so the
// event stream is read with fetch(): EventSource cannot send headers.

let token = "";
export const setToken = (given) => { token = given; };
export const getToken = () => token;

const headers = () => (token ? { Authorization: `Bearer ${token}` } : {});

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

export async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { ...headers(), ...options.headers }, credentials: "omit", cache: "no-store" });
  if (!answer.ok) {
    let words = `the server answered ${answer.status}`;
    try { words = (await answer.json()).error; } catch { /* not an answer of our server: show only the status code */ }
    throw new Refused(answer.status, words);
  }
  return answer;
}

export const askJson = async (path, options) => (await ask(path, options)).json();

// Splits a stream into server-sent events. Returns the incomplete rest.
function takeEvents(text, onEvent) {
  let end;
  while ((end = text.indexOf("\n\n")) >= 0) {
    let name = "", data = "";
    for (const line of text.slice(0, end).split("\n")) {
      if (line.startsWith("event:")) name = line.slice(6);
      else if (line.startsWith("data:")) data = line.slice(5);
    }
    if (name) onEvent(name, JSON.parse(data));
    text = text.slice(end + 2);
  }
  return text;
}

const FIRST_WAIT = 500, LONGEST_WAIT = 10000;
// The server writes something every 15 seconds; if it is silent for longer, the connection is dead.
const SILENCE = 40000;

// One stream per tab. restart() opens it again with the current result of query().
export class Stream {
  constructor({ query, onEvent, onLink, onRefused }) {
    Object.assign(this, { query, onEvent, onLink, onRefused });
    this.wait = FIRST_WAIT;
    this.serial = 0;
  }

  restart(delay = 0) {
    this.stop();
    this.timer = setTimeout(() => this.#run(this.serial), delay);
  }

  stop() {
    this.serial++;
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.abort?.abort();
  }

  async #run(serial) {
    this.abort = new AbortController();
    try {
      const answer = await ask(`/api/stream?${this.query()}`, { signal: this.abort.signal });
      await this.#read(answer, serial);
    } catch (error) {
      if (serial !== this.serial) return;
      if (error instanceof Refused && error.status === 401) { this.onRefused(error); return; }
    }
    if (serial !== this.serial) return;
    this.onLink("lost");
    this.timer = setTimeout(() => this.#run(serial), this.wait);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
  }

  async #read(answer, serial) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      this.#expect();
      const { value, done } = await reader.read();
      if (done || serial !== this.serial) return;
      this.wait = FIRST_WAIT;
      this.onLink("live");
      text = takeEvents(text + value, (name, data) => { if (serial === this.serial) this.onEvent(name, data); });
    }
  }

  #expect() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.abort.abort(), SILENCE);
  }
}
