// SPDX-License-Identifier: MIT
// A job's log: first its end, then new output as it is written. A long log is never loaded completely.
import { $, bytes, element, jobNumber, setText } from "./format.js";
import { ask, Refused } from "./stream.js";

const TAIL = 64 * 1024;
const MAX_LINES = 20000; // lines kept on the page

let log = null; // the log that is shown; null: none

// Fewer zero bytes in a row were written by the job; more are a hole that max_log_size has left.
const HOLE = 512;

const zerosAsWords = (count) => count < HOLE ? "\0".repeat(count) : `\n[gpuq: ${bytes(count)} missing: removed by max_log_size, or never written by the job]\n`;

// The classes for the text after a sequence such as "\x1b[1;31m".
function styleAfter(style, codes) {
  const next = { ...style };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 0) Object.assign(next, { color: "", bold: "", dim: "" });
    else if (code === 1) next.bold = "bold";
    else if (code === 2) next.dim = "faint";
    else if (code === 22) next.bold = next.dim = "";
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) next.color = `ansi${code % 10}`;
    else if (code === 39) next.color = "";
    else if (code === 38 || code === 48) i += codes[i + 1] === 5 ? 2 : 4;
  }
  return next;
}

const classOf = (style) => [style.color, style.bold, style.dim].filter(Boolean).join(" ");

// Shows output as a terminal would: keeps colors, drops cursor movements; a carriage return overwrites the line.
class Lines {
  constructor() {
    this.zeros = 0; // number of zero bytes at the end of the input so far
    this.cells = []; // the incomplete line: [character, classes]
    this.column = 0;
    this.rest = ""; // an incomplete escape sequence
    this.style = { color: "", bold: "", dim: "" };
  }

  // Returns the lines that are complete now, as pieces [text, classes]; each ends with its newline.
  take(text) {
    const done = [];
    let end = text.length;
    while (end > 0 && text.charCodeAt(end - 1) === 0) // a regular expression can take quadratic time
      end--;
    const plain = text.slice(0, end), zeros = text.length - end;
    if (!plain) { this.zeros += zeros; return done; }
    const first = plain.search(/[^\0]/);
    text = zerosAsWords(this.zeros + first) + plain.slice(first).replace(/\0+/g, (run) => zerosAsWords(run.length));
    this.zeros = zeros;
    text = this.rest + text;
    this.rest = "";
    const cut = text.search(/\x1b(\[[0-9;?]*|\][^\x07\x1b]*)?$/);
    if (cut >= 0) { this.rest = text.slice(cut); text = text.slice(0, cut); }
    for (const part of text.split(/(\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])|[\n\r])/)) this.put(part, done);
    return done;
  }

  put(part, done) {
    if (part === "\n") { done.push(...this.pieces(), ["\n", ""]); this.cells = []; this.column = 0; }
    else if (part === "\r") this.column = 0;
    else if (part.startsWith("\x1b")) {
      const codes = part.match(/^\x1b\[([0-9;]*)m$/);
      if (codes) this.style = styleAfter(this.style, codes[1].split(";").map(Number));
    } else if (part) {
      const classes = classOf(this.style);
      for (const character of part) this.cells[this.column++] = [character, classes];
    }
  }

  // Returns the incomplete line.
  pieces() {
    const made = [];
    for (let i = 0; i < this.cells.length; i++) {
      const [character, classes] = this.cells[i] ?? [" ", ""];
      if (made.length && made.at(-1)[1] === classes) made.at(-1)[0] += character;
      else made.push([character, classes]);
    }
    return made;
  }
}

// One element for many lines. Plain text becomes a text node; adjacent pieces of the same class share a node.
function showPieces(pieces) {
  const box = element("span");
  let text = "", classes = "";
  const flush = () => { if (text) box.append(classes ? element("span", { class: classes }, text) : text); text = ""; };
  for (const [words, style] of pieces) {
    if (style !== classes && words !== "\n") { flush(); classes = style; }
    text += words;
  }
  flush();
  return box;
}

const wholePieces = (data) => {
  const lines = new Lines(), done = lines.take(new TextDecoder().decode(data));
  return [...done, ...lines.pieces(), [zerosAsWords(lines.zeros), ""]];
};

const countLines = (pieces) => pieces.reduce((sum, [words]) => sum + (words === "\n"), 0);

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

// Complete lines are elements that never change; the last element is the incomplete line.
function append(shown, data) {
  const done = shown.lines.take(shown.decoder.decode(data, { stream: true }));
  const pre = $("log");
  if (done.length) {
    pre.insertBefore(showPieces(done), shown.open);
    shown.chunks.push(countLines(done));
    shown.numLines += shown.chunks.at(-1);
  }
  shown.open.replaceChildren(showPieces([...shown.lines.pieces(), [zerosAsWords(shown.lines.zeros), ""]]));
  while (shown.numLines > MAX_LINES && shown.chunks.length > 1) {
    shown.numLines -= shown.chunks.shift();
    shown.start += new Blob([pre.firstChild.textContent]).size;
    pre.firstChild.remove();
    shown.trimmed = true;
  }
  scrollToEnd();
}

function words(shown) {
  setText($("log-words"), shown.size ? `${bytes(shown.size)}` : shown.size === 0 ? "no output yet" : "");
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
    if (log === shown) setText($("log-words"), error instanceof Refused ? error.message : "cannot read the log");
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
  const high = box.scrollHeight, pieces = wholePieces(piece.data);
  $("log").prepend(showPieces(pieces));
  shown.chunks.unshift(countLines(pieces));
  shown.numLines += shown.chunks[0];
  words(shown);
  box.scrollTop += box.scrollHeight - high;
}

export function openLog(id, attempt) {
  closeLog();
  log = { id, attempt, told: 0, start: null, end: null, size: null, lines: new Lines(), decoder: new TextDecoder(), open: element("span"),
    chunks: [], numLines: 0 };
  $("log").replaceChildren(log.open);
  $("log-follow").checked = true;
  setText($("log-words"), "no output yet");
  $("log-older").hidden = true;
}

export function closeLog() {
  log = null;
  $("log").replaceChildren();
}

// The stream has reported the current length of the log. If it is shorter than before, it is another log.
export function logGrew(told) {
  if (!log || told.id !== log.id) return;
  if (told.size < log.told || (log.shownAttempt && told.attempt !== log.shownAttempt)) openLog(log.id, log.attempt);
  log.shownAttempt = told.attempt;
  log.told = told.size;
  if (told.size === 0) { log.size = 0; words(log); }
  readMore(log);
}

// The whole log of one attempt, unchanged, up to its current size. The server sends a limited piece per request. Each piece
// becomes a Blob, which the browser can store on disk.
async function fetchWhole(shown) {
  const pieces = [];
  let from = 0, size = Infinity;
  try {
    while (from < size) {
      const piece = await fetchRange(shown, `bytes=${from}-`);
      if (size === Infinity) size = piece.size;
      if (!piece.data.length) break;
      pieces.push(new Blob([piece.data]));
      from += piece.data.length;
    }
  } catch (error) {
    if (error.status !== 416) throw error; // 416: the log is empty, or has become shorter
  }
  return new Blob(pieces);
}

async function download() {
  const shown = log;
  if (!shown) return;
  $("log-download").disabled = true;
  try {
    const whole = await fetchWhole({ id: shown.id, attempt: shown.attempt || shown.shownAttempt });
    const link = element("a", { href: URL.createObjectURL(whole), download: `job-${jobNumber(shown.id)}.log` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  } catch (error) {
    setText($("log-words"), error instanceof Refused ? error.message : "cannot read the log");
  } finally {
    $("log-download").disabled = false;
  }
}

export function startLog() {
  $("log-download").addEventListener("click", download);
  $("log-older").addEventListener("click", showOlder);
  $("log-follow").addEventListener("change", scrollToEnd);
  $("log-wrap").addEventListener("change", () => $("log-box").classList.toggle("wrap", $("log-wrap").checked));
  $("log-box").classList.add("wrap");
  // Scrolling up stops following the log; scrolling to the end starts it again.
  $("log-box").addEventListener("scroll", () => { if (log) $("log-follow").checked = atEnd($("log-box")); }, { passive: true });
}
