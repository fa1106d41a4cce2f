// SPDX-License-Identifier: MIT
// One job: its log, details, environment and actions.
import { $, bytes, clock, duration, element, fullTime, jobNumber, now, outcome, setText, showState, stateColor, stateWord, time } from "./format.js";
import { closeLog, openLog } from "./log.js";
import { askJson } from "./stream.js";

const ACTIONS = { cancel: "Cancel", retry: "Retry", hold: "Hold", release: "Release", urgent: "Make urgent" };
const DONE_TO_MANY = { cancel: "cancelled", retry: "queued again", hold: "held", release: "released", urgent: "moved to the front" };
const DONE = { cancel: "is being cancelled", retry: "was queued again", hold: "is held", release: "was released", urgent: "was moved to the front" };
const TABS = ["log", "details", "environment"];

let open = null; // the id
let attempt = 0; // the attempt whose log is shown; 0: the last one
let job = null; // as the server described it
let refresh = 0;
let say = () => {}, onChange = () => {};

export const openJobId = () => open;
export const openAttempt = () => attempt;

/* ---- Actions ---- */

const jobWords = ({ id, queue }) => (queue ? `${jobNumber(id)} of ${queue}` : String(jobNumber(id)));

function confirmCancel(id, command) {
  setText($("ask-title"), String(id).startsWith("s ") ? `Cancel job${id}?` : `Cancel job ${id}?`);
  setText($("ask-words"), command);
  const dialog = $("ask");
  dialog.returnValue = "no";
  dialog.showModal();
  $("ask-no").focus();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

export async function act(action, target) {
  if (action === "cancel" && !(await confirmCancel(jobWords(target), target.command))) return;
  try {
    await askJson(`/api/jobs/${target.id}/${action}`, { method: "POST" });
    say(`Job ${jobNumber(target.id)} ${DONE[action]}.`);
  } catch (error) {
    say(error.message);
  }
}

// One request per job, one after another; each answer tells whether the action succeeded. False if none did.
export async function actOnAll(action, targets) {
  if (!targets.length) return false;
  if (action === "cancel" && !(await confirmCancel(targets.length === 1 ? jobWords(targets[0]) : `s ${targets.map(jobWords).join(", ")}`,
    targets.map((job) => job.command).join("\n")))) return false;
  let done = 0, refused = "";
  for (const { id } of targets) {
    try { await askJson(`/api/jobs/${id}/${action}`, { method: "POST" }); done++; } catch (error) { refused ||= error.message; }
  }
  say(`${done} of ${targets.length} jobs ${DONE_TO_MANY[action]}${refused ? `; ${refused}` : ""}`);
  return true;
}

function showActions() {
  const may = job.may_act ? job.actions : [];
  const box = $("job-actions"), wanted = Object.keys(ACTIONS).filter((action) => may.includes(action));
  if ([...box.children].map((button) => button.dataset.action).join() === wanted.join()) return;
  const hadFocus = box.contains(document.activeElement);
  box.replaceChildren(...wanted.map((action) =>
    element("button", { type: "button", class: action === "cancel" ? "danger" : "", "data-action": action, onclick: () => act(action, job) }, ACTIONS[action])));
  if (hadFocus) (box.firstElementChild ?? $("job-title")).focus();
}

/* ---- Details ---- */

const fact = (name, value) => (value === null || value === undefined || value === "" ? [] : [element("dt", {}, name), element("dd", {}, value)]);

function attemptRow(a, i) {
  const state = element("span");
  showState(state, a.state);
  const took = a.duration ?? (a.state === "running" ? now() - a.start : null);
  return element("tr", {}, element("td", {}, String(i + 1)), element("td", {}, state), element("td", {}, a.gpus.length ? a.gpus.join(", ") : "–"),
    element("td", { title: fullTime(a.start) }, time(a.start)), element("td", {}, duration(took)), element("td", {}, a.peak_mb === null ? "" : bytes(a.peak_mb * 1048576)),
    element("td", {}, outcome(a)));
}

function attemptTable() {
  if (!job.attempts.length) return [];
  const heads = ["#", "State", "GPU", "Started", "Took", "Peak", "Ended by"].map((words) => element("th", { scope: "col" }, words));
  return [element("h3", {}, job.attempts.length === 1 ? "Attempt" : "Attempts"),
    element("table", { class: "attempts" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...job.attempts.map(attemptRow)))];
}

function showDetails() {
  const last = job.attempts.at(-1);
  const whyTitle = job.state === "pending" ? "Why it waits" : "Why it is held";
  const why = job.why ? [element("h3", {}, whyTitle), element("pre", { class: "why" }, job.why.replace(/^job \d+: .*\n/, "").trim())] : [];
  const facts = element("dl", { class: "facts" },
    ...fact("Command", element("pre", {}, job.command)), ...fact("Queue", job.queue), ...fact("Folder", element("code", {}, job.cwd ?? "")), ...fact("Added", fullTime(job.submit)),
    ...fact("Needs", [`${job.num_gpus} GPU${job.num_gpus === 1 ? "" : "s"}`, job.mem_mb === null ? null : `${bytes(job.mem_mb * 1048576)} of memory${job.num_gpus > 1 ? " each" : ""}`].filter(Boolean).join(", ")),
    ...fact("Priority", job.priority >= 1e9 ? "urgent" : job.priority ? String(job.priority) : null), ...fact("Time limit", job.timeout === null ? null : duration(job.timeout)),
    ...fact("Node", job.node), ...fact("Runs after", job.after.length ? `job ${job.after.join(", ")}` : null), ...fact("Process", last?.pid && job.state === "running" ? String(last.pid) : null),
    ...fact("GPU idle", job.idle_since ? `for ${clock(now() - job.idle_since)}` : null), ...fact("Ended by", job.reason), ...fact("Log", last?.log ? element("code", {}, last.log) : null));
  const pane = $("pane-details"), scroll = pane.scrollTop;
  pane.replaceChildren(...why, why.length ? element("h3", {}, "Details") : "", facts, ...attemptTable());
  pane.scrollTop = scroll;
}

/* ---- Environment ---- */

async function showEnvironment() {
  const pane = $("pane-environment"), id = open;
  if (!job?.may_act) { pane.replaceChildren(element("p", { class: "dim" }, "The environment is shown only with the token.")); return; }
  if (pane.dataset.job === String(id)) return;
  try {
    const entries = await askJson(`/api/jobs/${id}/environment`);
    if (open !== id) return;
    pane.dataset.job = id;
    const list = element("p", { class: "environment" });
    const draw = (words) => list.replaceChildren(...entries.sort().filter((entry) => entry.toLowerCase().includes(words)).flatMap((entry) => {
      const at = entry.indexOf("=");
      return [element("b", {}, entry.slice(0, at)), `${entry.slice(at)}\n`];
    }));
    const input = element("input", { type: "search", placeholder: "Search variables", "aria-label": "Search variables" });
    input.addEventListener("input", () => draw(input.value.toLowerCase()));
    draw("");
    pane.replaceChildren(input, list);
  } catch (error) {
    if (open === id) pane.replaceChildren(element("p", { class: "dim" }, error.message));
  }
}

/* ---- The drawer ---- */

function showTab(name, focus) {
  for (const tab of TABS) {
    const on = tab === name, button = $(`tab-${tab}`);
    button.setAttribute("aria-selected", String(on));
    button.tabIndex = on ? 0 : -1;
    $(`pane-${tab}`).hidden = !on;
    if (on && focus) button.focus();
  }
  if (name === "environment") showEnvironment();
}

function showHead() {
  const state = element("span");
  showState(state, stateColor(job), stateWord(job));
  const running = job.state === "running" ? job.attempts.at(-1) : null;
  const took = running ? clock(now() - running.start) : duration(job.attempts.at(-1)?.duration);
  $("job-title").replaceChildren(job.name ? `Job ${jobNumber(job.id)} · ${job.name}` : `Job ${jobNumber(job.id)}`, state,
    element("small", { class: "dim" }, job.state === "pending" || job.state === "held" ? "" : took));
  setText($("job-command"), job.command);
}

function showAttempts() {
  const n = job.attempts.length, select = $("log-attempt");
  $("log-attempt-label").hidden = n < 2;
  if (select.options.length === n) return;
  select.replaceChildren(...job.attempts.map((_, i) => element("option", { value: i + 1 === n ? 0 : i + 1 }, i + 1 === n ? `${n} (last)` : String(i + 1))));
  select.value = String(attempt === n ? 0 : attempt);
}

// Requested again whenever the stream reports a change of the job, and periodically while it waits, because the reason can change.
export async function describe() {
  const id = open;
  clearTimeout(refresh);
  if (id === null) return;
  try {
    const told = await askJson(`/api/jobs/${id}`);
    if (open !== id) return;
    const first = job === null;
    job = told;
    showHead();
    showActions();
    showDetails();
    showAttempts();
    if (first) showTab(wantedTab ?? (job.attempts.length ? "log" : "details"));
    if (job.state === "pending") refresh = setTimeout(describe, 3000);
  } catch (error) {
    if (open === id) { say(error.message); closeJob(); }
  }
}

let wantedTab = null;
export function openJob(id, tab = null) {
  wantedTab = tab;
  if (open === id) return;
  open = id;
  attempt = 0;
  job = null;
  $("log-attempt").replaceChildren();
  setText($("job-title"), `Job ${jobNumber(id)}`);
  setText($("job-command"), "");
  $("job-actions").replaceChildren();
  for (const tab of ["details", "environment"]) $(`pane-${tab}`).replaceChildren();
  delete $("pane-environment").dataset.job;
  if (!$("job").open) $("job").showModal();
  $("job-title").focus();
  openLog(id, 0);
  onChange();
  describe();
}

export function closeJob() {
  if ($("job").open) $("job").close();
}

export const openedJob = () => (open === null ? null : job);

export function tickJob() {
  if (job?.state === "running") showHead();
}

function onTabKey(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const at = TABS.findIndex((tab) => $(`tab-${tab}`) === event.target);
  showTab(TABS[(at + step + TABS.length) % TABS.length], true);
}

export function startJob(handlers) {
  ({ say, onChange } = handlers);
  for (const tab of TABS) {
    $(`tab-${tab}`).addEventListener("click", () => showTab(tab));
    $(`tab-${tab}`).addEventListener("keydown", onTabKey);
  }
  $("log-attempt").addEventListener("change", () => { attempt = Number($("log-attempt").value); openLog(open, attempt); onChange(); });
  $("job-close").addEventListener("click", closeJob);
  $("job").addEventListener("click", (event) => { if (event.target === $("job")) closeJob(); });
  $("job").addEventListener("close", () => {
    const closed = open;
    open = null;
    job = null;
    clearTimeout(refresh);
    closeLog();
    onChange(closed);
  });
}
