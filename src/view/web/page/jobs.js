// SPDX-License-Identifier: MIT
// The table of jobs: one page of the server's result. The server searches, sorts and
// divides it into pages of at most a hundred rows.
import { $, STATES, clock, count, duration, element, fullTime, jobNumber, now, outcome, pathEnd, plural, setAttribute, setCommand, setText, showState, stateColor, stateWord, time } from "./format.js";

const LIMIT = 100;
const COLUMNS = [["choose", "", null], ["queue", "Queue", null], ["id", "Job", "id"], ["state", "State", "state"], ["command", "Command", "name"], ["gpu", "GPU", "gpu"],
  ["start", "Started", "start"], ["duration", "Took", "duration"], ["note", "Note", null]];

const view = { search: "", states: new Set(), order: "usual", reverse: false, offset: 0 };
const jobs = new Map(); // id → the job as sent by the server
const rows = new Map(); // id → parts
let ids = [];
let total = 0;
let current = null; // the id of the row that Tab moves the focus to
let onQuery = () => {}, onOpen = () => {}, onAct = () => {};
const chosen = new Map(); // id → the job as it was when it was selected

export function jobsQuery(query) {
  if (view.search) query.set("search", view.search);
  if (view.states.size) query.set("states", [...view.states].join(","));
  query.set("order", view.order);
  if (view.reverse) query.set("reverse", "1");
  query.set("offset", view.offset);
  query.set("limit", LIMIT);
}

export const knownJob = (id) => jobs.get(id);
export const currentJob = () => jobs.get(current);

/* ---- Rows ---- */

function makeRow(id) {
  const p = { button: element("button", { type: "button", "aria-haspopup": "dialog" }), state: element("span"), name: element("span", { class: "job-name" }),
    command: element("span") };
  const cells = { id: element("th", { scope: "row" }, p.button), state: element("td", {}, p.state), command: element("td", {}, element("div", { class: "command-text" }, p.name, p.command)) };
  p.box = element("input", { type: "checkbox", "aria-label": `Select job ${jobNumber(id)}` });
  p.box.addEventListener("click", (event) => { event.stopPropagation(); toggleChoice(id); });
  cells.choose = element("td", {}, p.box);
  cells.choose.addEventListener("click", (event) => event.stopPropagation());
  for (const [key] of COLUMNS) (cells[key] ??= element("td")).classList.add(`col-${key}`);
  p.cells = cells;
  p.row = element("tr", {}, ...COLUMNS.map(([key]) => cells[key]));
  p.row.addEventListener("click", () => { if (!String(getSelection())) onOpen(id); });
  p.button.addEventListener("focus", () => setCurrent(id));
  return p;
}

function tookWords(job) {
  return job.state === "running" && job.start ? clock(now() - job.start) : duration(job.duration);
}

function startWords(job) {
  if (job.start) return time(job.start);
  return job.state === "pending" || job.state === "held" ? `added ${time(job.submit)}` : "";
}

function noteWords(job) {
  const words = outcome(job);
  if (words) return words;
  if (job.state === "pending" && job.priority >= 1e9) return "urgent";
  if (job.state === "pending" && job.attempts) return `attempt ${job.attempts + 1} pending`;
  return job.attempts > 1 ? `attempt ${job.attempts}` : "";
}

function fillRow(p, job) {
  if (chosen.has(job.id)) chosen.set(job.id, job);
  p.box.checked = chosen.has(job.id);
  setText(p.cells.queue, pathEnd(job.queue ?? ""));
  p.cells.queue.title = job.queue ?? "";
  setText(p.button, String(jobNumber(job.id)));
  setAttribute(p.button, "aria-label", `Job ${jobNumber(job.id)}${job.queue ? ` of ${job.queue}` : ""}, ${stateWord(job)}: ${job.name ?? job.command.slice(0, 80)}`);
  showState(p.state, stateColor(job), stateWord(job));
  setText(p.name, job.name ?? "");
  p.name.hidden = !job.name;
  setCommand(p.command, job.command.replace(/\s+/g, " "));
  p.cells.command.title = job.command;
  setText(p.cells.gpu, job.gpus.length ? `${job.node ? `${job.node}: ` : ""}GPU ${job.gpus.join(", ")}` : "");
  setText(p.cells.start, startWords(job));
  p.cells.start.title = fullTime(job.start ?? job.submit);
  setText(p.cells.duration, tookWords(job));
  setText(p.cells.note, noteWords(job));
  p.cells.note.title = noteWords(job);
}

// Moves as few rows as possible, so that focus and hover stay where they are.
function placeRows() {
  const body = $("rows"), keep = new Set(ids);
  for (const [id, p] of rows) if (!keep.has(id)) { p.row.remove(); rows.delete(id); jobs.delete(id); }
  ids.forEach((id, i) => {
    if (!rows.has(id)) rows.set(id, makeRow(id));
    const { row } = rows.get(id);
    if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null);
  });
}

function emptyWords() {
  if (view.search || view.states.size) return "No job matches.";
  return "No jobs yet. Add one with: gpuq add -- COMMAND";
}

export function showRows(told) {
  const hadFocus = rows.get(current)?.button === document.activeElement, position = ids.indexOf(current);
  ids = told.ids;
  total = told.total;
  for (const job of told.rows) jobs.set(job.id, job);
  placeRows();
  for (const job of told.rows) fillRow(rows.get(job.id), job);
  if (!rows.has(current)) {
    setCurrent(ids[Math.max(0, Math.min(position, ids.length - 1))] ?? null);
    if (hadFocus) rows.get(current)?.button.focus();
  }
  for (const [id, p] of rows) p.button.tabIndex = id === current ? 0 : -1;
  $("empty").hidden = ids.length > 0;
  setText($("empty"), emptyWords());
  setText($("matching"), view.search || view.states.size ? `${plural(total, "job")} match${total === 1 ? "es" : ""}` : plural(total, "job"));
  $("pager").hidden = total <= LIMIT;
  $("page-back").disabled = view.offset === 0;
  $("page-on").disabled = view.offset + LIMIT >= total;
  setText($("page-words"), ids.length ? `${count(view.offset + 1)}–${count(view.offset + ids.length)} of ${count(total)}` : "");
}

export function refreshRows() {
  for (const [id, p] of rows) fillRow(p, jobs.get(id));
}

/* ---- Selected jobs ---- */

export const chosenJobs = () => [...chosen.values()];

function showChosen() {
  $("chosen").hidden = !chosen.size;
  setText($("chosen-words"), `${plural(chosen.size, "job")} selected`);
  for (const [id, p] of rows) p.box.checked = chosen.has(id);
}

export function toggleChoice(id) {
  if (chosen.has(id)) chosen.delete(id);
  else if (jobs.has(id)) chosen.set(id, jobs.get(id));
  showChosen();
}

export function clearChoice() {
  chosen.clear();
  showChosen();
}

// Selects all jobs of the page, or deselects them if all are selected.
function toggleAll() {
  const all = ids.every((id) => chosen.has(id));
  for (const id of ids) {
    if (all) chosen.delete(id);
    else if (jobs.has(id)) chosen.set(id, jobs.get(id));
  }
  showChosen();
}

export function tickRows() {
  for (const [id, p] of rows) {
    const job = jobs.get(id);
    if (job?.state === "running") setText(p.cells.duration, tookWords(job));
    if (job?.idle_since) setText(p.cells.note, noteWords(job));
  }
}

/* ---- Keyboard navigation ---- */

function setCurrent(id) {
  if (current === id) return;
  const before = rows.get(current);
  if (before) before.button.tabIndex = -1;
  current = id;
  const after = rows.get(id);
  if (after) after.button.tabIndex = 0;
}

export function moveRow(step) {
  if (!ids.length) return;
  const focused = rows.get(current)?.button === document.activeElement;
  const at = ids.indexOf(current), next = focused ? Math.max(0, Math.min(ids.length - 1, at + step)) : Math.max(0, at);
  setCurrent(ids[next]);
  rows.get(ids[next]).button.focus();
}

export function focusRow(id) {
  (rows.get(id) ?? rows.get(current))?.button.focus();
}

export function markOpen(id) {
  for (const [key, p] of rows) p.row.classList.toggle("open", key === id);
}

/* ---- Search, order and page ---- */

function change(delay = 0) {
  view.offset = 0;
  onQuery(delay);
}

export function turnPage(step) {
  const offset = view.offset + step * LIMIT;
  if (offset < 0 || offset >= total) return;
  view.offset = offset;
  onQuery(0);
  $("jobs").scrollIntoView({ block: "start" });
}

function showHeads() {
  for (const [key, , order] of COLUMNS) {
    const head = $("heads").querySelector(`.col-${key}`);
    if (order && view.order === order) head.setAttribute("aria-sort", view.reverse ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
    const mark = head.querySelector("span");
    if (mark) setText(mark, view.order === order ? (view.reverse ? " ↓" : " ↑") : "");
  }
}

// Ascending, then descending, then the default order again.
function sortBy(order) {
  if (view.order !== order) Object.assign(view, { order, reverse: false });
  else if (!view.reverse) view.reverse = true;
  else Object.assign(view, { order: "usual", reverse: false });
  showHeads();
  change();
}

function toggleState(state, button) {
  if (view.states.has(state)) view.states.delete(state);
  else view.states.add(state);
  button.setAttribute("aria-pressed", String(view.states.has(state)));
  change();
}

export function showCounts(counts) {
  for (const button of $("states").children) setText(button.querySelector("b"), count(counts[button.dataset.filter]));
}

function makeChips() {
  for (const state of STATES) {
    const button = element("button", { type: "button", "aria-pressed": "false", "data-filter": state },
      element("span", { class: "state", "data-state": state }, state), element("b", {}, "0"));
    button.addEventListener("click", () => toggleState(state, button));
    $("states").append(button);
  }
}

function makeHeads() {
  for (const [key, words, order] of COLUMNS) {
    if (key === "choose") {
      const box = element("input", { type: "checkbox", "aria-label": "Select all jobs of this page", id: "choose-all" });
      box.addEventListener("click", toggleAll);
      $("heads").append(element("th", { scope: "col", class: "col-choose" }, box));
      continue;
    }
    const button = order ? element("button", { type: "button" }, words, element("span", { "aria-hidden": "true" })) : words;
    if (order) button.addEventListener("click", () => sortBy(order));
    $("heads").append(element("th", { scope: "col", class: `col-${key}` }, button));
  }
}

export function startJobs(handlers) {
  ({ onQuery, onOpen, onAct } = handlers);
  $("chosen-none").addEventListener("click", clearChoice);
  for (const button of $("chosen").querySelectorAll("[data-act]")) button.addEventListener("click", () => onAct(button.dataset.act));
  makeHeads();
  makeChips();
  $("search").addEventListener("input", () => { view.search = $("search").value.trim(); change(150); });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { event.preventDefault(); moveRow(0); }
  });
  $("page-back").addEventListener("click", () => turnPage(-1));
  $("page-on").addEventListener("click", () => turnPage(1));
}
