// SPDX-License-Identifier: MIT
// Helpers for all parts of the page: elements, numbers and times in readable form.

export const STATES = ["running", "pending", "held", "unknown", "failed", "cancelled", "completed"];

// If several queues are shown, an id contains the number of its queue. Users see only the id in its own queue.
export const jobNumber = (id) => id % 2 ** 32;

export const $ = (id) => document.getElementById(id);

// An element with properties and children. Text is always text: nothing here ever parses HTML.
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Writes only changed text: an unchanged page costs nothing and keeps the user's selection.
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

// A command. Lines are broken between words, not after hyphens.
export function setCommand(target, text) {
  if (target.textContent === text) return;
  target.replaceChildren(...text.split(" ").flatMap((word, i) => [i ? " " : "", element("span", { class: "word" }, word)]));
}

export function setAttribute(target, name, value) {
  if (target.getAttribute(name) !== value) target.setAttribute(name, value);
}

export function showState(target, state, words) {
  setAttribute(target, "class", "state");
  setAttribute(target, "data-state", state);
  setText(target, words ?? state);
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.floor(ms)}ms`;
  const s = Math.floor(ms / 1000);
  const two = (n) => String(n).padStart(2, "0");
  if (s < 10 && ms % 1000) return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`;
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d ${two(Math.floor(s / 3600) % 24)}h`;
}

// The duration of something that is still running: whole seconds, because it changes all the time.
export const clock = (ms) => (ms < 1000 ? "0s" : duration(Math.floor(ms / 1000) * 1000));

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${i > 1 && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

// An estimate, rounded to its precision.
export function about(ms) {
  const s = ms / 1000, minutes = Math.round(s / 60), five = Math.round(s / 300) * 5;
  if (s < 10) return "a few seconds";
  if (s < 55) return `about ${Math.round(s / 10) * 10} s`;
  if (minutes <= 10) return `about ${minutes} min`;
  if (five < 60) return `about ${five} min`;
  if (s < 36000) return `about ${Math.round(s / 1800) / 2} h`;
  if (s < 171000) return `about ${Math.round(s / 3600)} h`;
  return `about ${Math.round(s / 86400)} days`;
}

export const count = (n) => n.toLocaleString("en-US");
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// "14:03:12" for today, "12 Nov 14:03" for other days.
export function time(ms) {
  if (!ms) return "";
  const date = new Date(ms);
  const clock = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", ...zone() });
  if (date.toLocaleDateString("en-GB", zone()) === new Date().toLocaleDateString("en-GB", zone())) return clock;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...zone() })} ${clock.slice(0, 5)}`;
}

// Local time in 24-hour format, or UTC if the user has chosen that.
let utc = false;
export const zone = () => (utc ? { timeZone: "UTC" } : {});
export const setUtc = (on) => { utc = on; };

export const fullTime = (ms) => (ms ? `${new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23", ...zone() })}${utc ? " UTC" : ""}` : "");

// The name and color of a job's state, as in gpuq top.
export function stateWord(job) {
  if (job.cancelling) return "ending";
  if (job.paused) return "paused";
  return job.idle_since ? "GPU idle" : job.state;
}

export function stateColor(job) {
  if (job.cancelling) return "cancelled";
  return job.paused || job.idle_since ? "held" : job.state;
}

// Shortens a path at its beginning: the end is more informative.
export function pathEnd(path) {
  const parts = path.split("/"), end = parts.slice(-2).join("/");
  return parts.length > 3 ? `…/${end.length > 22 ? parts.at(-1) : end}` : path;
}

// How an attempt ended, in a few words.
export function outcome(job) {
  if (job.idle_since) return `GPU idle for ${clock(now() - job.idle_since)}`;
  if (job.reason) return job.reason;
  if (job.signal) return `signal ${job.signal}`;
  if (job.exit_code) return `exit ${job.exit_code}`;
  return "";
}

// The server's clock. The clock of a phone may be minutes off.
let skew = 0;
export const setClock = (now) => { skew = now - Date.now(); };
export const now = () => Date.now() + skew;
