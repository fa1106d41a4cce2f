// SPDX-License-Identifier: MIT
// A job's log: its end first, then what is written; never the whole of it.
import { $, bytes, setText } from "./format.js";
import { ask, Refused } from "./stream.js";

const TAIL = 64 * 1024;
const MAX_LINES = 20000; // that stay on the page

let log = null; // what is shown; null: none

// Fewer zeros in a row are the job's; more are a hole, as max_log_size leaves it.
const HOLE = 512;

const zerosAsWords = (count) => count < HOLE ? "\0".repeat(count) : `\n[gpuq: ${bytes(count)} left out, by max_log_size or by the job]\n`;

// What a terminal would show of it: colours and cursor jumps out, a carriage return begins the line anew.
class Lines {
  constructor() {
    this.zeros = 0; // at the end of what came so far
    this.line = "";
    this.column = 0;
    this.rest = ""; // an escape sequence that is not complete
  }

  // Whole lines that are finished now, each with its newline.
  take(text) {
    let done = "";
    const plain = text.replace(/\0+$/, ""), zeros = text.length - plain.length;
    if (!plain) { this.zeros += zeros; return ""; }
    const first = plain.search(/[^\0]/);
    text = zerosAsWords(this.zeros + first) + plain.slice(first).replace(/\0+/g, (run) => zerosAsWords(run.length));
    this.zeros = zeros;
    text = this.rest + text;
    this.rest = "";
    const cut = text.search(/\x1b(\[[0-9;?]*|\][^\x07\x1b]*)?$/);
    if (cut >= 0) { this.rest = text.slice(cut); text = text.slice(0, cut); }
    text = text.replace(/\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])/g, "");
    for (const part of text.split(/([\n\r])/)) {
      if (part === "\n") { done += `${this.line}\n`; this.line = ""; this.column = 0; }
      else if (part === "\r") this.column = 0;
      else if (part) {
        this.line = this.line.slice(0, this.column) + part + this.line.slice(this.column + part.length);
        this.column += part.length;
      }
    }
    return done;
  }
}

const wholeText = (data) => {
  const lines = new Lines(), done = lines.take(new TextDecoder().decode(data));
  return done + lines.line + zerosAsWords(lines.zeros);
};

function parseRange(answer) {
  const [, from, size] = answer.headers.get("Content-Range").match(/bytes (?:(\d+)-\d+|\*)\/(\d+)/);
  return { from: from === undefined ? Number(size) : Number(from), size: Number(size) };
}

async function fetchRange(shown, range) {
  const attempt = shown.attempt ? `?attempt=${shown.attempt}` : "";
  const answer = await ask(`/api/jobs/${shown.id}/log${attempt}`, { headers: { Range: range } });
  const { from, size } = parseRange(answer);
  return { from, size, data: new Uint8Array(await answer.arrayBuffer()) };
}

/* ---- On the page ---- */

const atEnd = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 30;

function scrollToEnd() {
  const box = $("log-box");
  if ($("log-follow").checked) box.scrollTop = box.scrollHeight;
}

// The finished lines are text nodes that never change; the line that is being written is the last one.
function append(shown, data) {
  const done = shown.lines.take(shown.decoder.decode(data, { stream: true }));
  const pre = $("log");
  if (done) {
    pre.insertBefore(document.createTextNode(done), shown.open);
    shown.chunks.push(done.split("\n").length - 1);
    shown.numLines += shown.chunks.at(-1);
  }
  setText(shown.open, shown.lines.line + zerosAsWords(shown.lines.zeros));
  while (shown.numLines > MAX_LINES && shown.chunks.length > 1) {
    shown.numLines -= shown.chunks.shift();
    shown.start += new Blob([pre.firstChild.data]).size;
    pre.firstChild.remove();
    shown.trimmed = true;
  }
  scrollToEnd();
}

function words(shown) {
  setText($("log-words"), shown.size ? `${bytes(shown.size)}` : shown.size === 0 ? "nothing written yet" : "");
  $("log-older").hidden = !shown.start || shown.trimmed;
}

async function readMore(shown) {
  if (shown.busy) return;
  shown.busy = true;
  try {
    while (log === shown && shown.told > shown.end) {
      const piece = await fetchRange(shown, shown.end === null ? `bytes=-${TAIL}` : `bytes=${shown.end}-`);
      if (log !== shown) return;
      shown.start ??= piece.from;
      shown.end = piece.from + piece.data.length;
      shown.size = piece.size;
      append(shown, piece.data);
      words(shown);
      if (!piece.data.length) break;
    }
  } catch (error) {
    if (log === shown) setText($("log-words"), error instanceof Refused ? error.message : "the log cannot be read now");
  } finally {
    shown.busy = false;
  }
}

async function showOlder() {
  const shown = log, box = $("log-box"), from = Math.max(0, shown.start - TAIL * 4);
  const piece = await fetchRange(shown, `bytes=${from}-${shown.start - 1}`);
  if (log !== shown) return;
  $("log-follow").checked = false;
  shown.start = from;
  const high = box.scrollHeight, text = wholeText(piece.data);
  $("log").prepend(document.createTextNode(text));
  shown.chunks.unshift(text.split("\n").length - 1);
  shown.numLines += shown.chunks[0];
  words(shown);
  box.scrollTop += box.scrollHeight - high;
}

export function openLog(id, attempt) {
  closeLog();
  log = { id, attempt, told: 0, start: null, end: null, size: null, lines: new Lines(), decoder: new TextDecoder(), open: document.createTextNode(""),
    chunks: [], numLines: 0 };
  $("log").replaceChildren(log.open);
  $("log-follow").checked = true;
  setText($("log-words"), "nothing written yet");
  $("log-older").hidden = true;
}

export function closeLog() {
  log = null;
  $("log").replaceChildren();
}

// The stream told how long the log is by now. A shorter one is another one.
export function logGrew(told) {
  if (!log || told.id !== log.id) return;
  if (told.size < log.told || (log.shownAttempt && told.attempt !== log.shownAttempt)) openLog(log.id, log.attempt);
  log.shownAttempt = told.attempt;
  log.told = told.size;
  if (told.size === 0) { log.size = 0; words(log); }
  readMore(log);
}

export function startLog() {
  $("log-older").addEventListener("click", showOlder);
  $("log-follow").addEventListener("change", scrollToEnd);
  $("log-wrap").addEventListener("change", () => $("log-box").classList.toggle("wrap", $("log-wrap").checked));
  $("log-box").classList.add("wrap");
  // Who scrolls up wants to read; who scrolls to the end wants to follow.
  $("log-box").addEventListener("scroll", () => { if (log) $("log-follow").checked = atEnd($("log-box")); }, { passive: true });
}
