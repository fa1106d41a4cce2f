// SPDX-License-Identifier: MIT
// The page: passes data from the server to the parts; handles keys and the token.
import { $, STATES, about, count, element, jobNumber, plural, setClock, setText, setUtc } from "./format.js";
import { newestSample, showGpus, tickGpus } from "./gpus.js";
import { act, actOnAll, closeJob, describe, openAttempt, openedJob, openJob, openJobId, startJob, tickJob } from "./job.js";
import { chosenJobs, clearChoice, currentJob, focusRow, toggleChoice, jobsQuery, knownJob, markOpen, moveRow, refreshRows, showCounts, showRows, startJobs, tickRows, turnPage } from "./jobs.js";
import { logGrew, startLog } from "./log.js";
import { showRuns } from "./runs.js";
import { getToken, setToken, Stream } from "./stream.js";
import { drawTimeline, setTimelineGpus, showTimeline, shownMinutes, startTimeline } from "./timeline.js";

/* ---- Messages ---- */

let toastTimer = 0;
function say(words) {
  const toast = $("toast");
  // An open dialog covers the page, so the message is shown inside the dialog.
  (document.querySelector("dialog[open]") ?? document.body).append(toast);
  setText(toast, words);
  toast.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => toast.classList.remove("shown"), 5000);
}

function showLink(state) {
  $("link").dataset.state = state;
  setText($("link-words"), { live: "live", lost: "not connected", waiting: "connecting…" }[state]);
}

/* ---- The state ---- */

let lastSpoken = 0;
function speakCounts(words) {
  // For screen readers: leave time to speak the last announcement.
  if (Date.now() - lastSpoken < 10000) return;
  lastSpoken = Date.now();
  setText($("counts-words"), words);
}

function showProgress(counts, jobs) {
  const bar = $("progress"), order = ["completed", "failed", "cancelled", "running"];
  if (!bar.children.length) bar.append(...order.map((state) => element("span", { "data-state": state })));
  order.forEach((state, i) => {
    bar.children[i].style.width = jobs ? `${(counts[state] / jobs) * 100}%` : "0";
    bar.children[i].hidden = !counts[state];
  });
  const over = counts.completed + counts.failed + counts.cancelled;
  bar.setAttribute("aria-label", jobs ? `${Math.floor((over / jobs) * 100)}% of all jobs have ended` : "no jobs");
}

function paceWords(state) {
  const waiting = state.counts.pending + state.counts.running, words = [];
  const runner = state.runner || state.runner_hidden;
  if (runner && state.rate > 0 && waiting) words.push(state.rate >= 1 ? `${state.rate.toFixed(1)} jobs per second` : `${(state.rate * 60).toFixed(state.rate < 0.17 ? 1 : 0)} jobs per minute`);
  if (runner && state.eta && waiting) words.push(`${about(state.eta)} to go`);
  if (state.paused) words.push("the queue is paused; continue with gpuq resume");
  if (state.runner_hidden) words.push("only the owner of the queue can see whether a runner is active");
  else if (!runner) words.push(state.counts.pending ? "no runner is active; start one with gpuq run" : "no runner");
  return words.join(" · ");
}

function headline({ counts, jobs }) {
  if (!jobs) return "No jobs yet";
  const words = STATES.filter((state) => state !== "completed" && counts[state]).map((state) => `${count(counts[state])} ${state}`);
  words.push(`${count(counts.completed)} of ${plural(jobs, "job")} completed`);
  return words.join(", ");
}

const queuesWords = (state) => `${plural(state.queues, "queue")}${state.unreadable_queues ? `, ${state.unreadable_queues} unreadable` : ""}`;

function showState(state) {
  setClock(state.now);
  const words = headline(state);
  setText($("headline"), words);
  document.title = state.counts.running ? `(${state.counts.running}) gpuq` : "gpuq";
  const journal = state.queues === null ? state.journal ?? "" : queuesWords(state);
  setText($("journal"), journal);
  $("journal").title = journal;
  $("jobs").classList.toggle("all-queues", state.queues !== null);
  setText($("pace"), paceWords(state));
  showProgress(state.counts, state.jobs);
  speakCounts(STATES.filter((name) => state.counts[name]).map((name) => `${state.counts[name]} ${name}`).join(", "));
  const notice = $("notice");
  notice.hidden = !state.bad_lines;
  if (state.bad_lines) setText(notice, `${plural(state.bad_lines, "line")} of the journal could not be read${state.first_bad_line ? `; the first is line ${state.first_bad_line}` : ""}.`);
  showCounts(state.counts);
  showGpus(state.gpus, state.runs);
  showRuns(state.runs);
  setTimelineGpus([...new Set(state.gpus.map((gpu) => gpu.id))]);
}

/* ---- The stream ---- */

function query() {
  const asked = new URLSearchParams();
  jobsQuery(asked);
  asked.set("minutes", shownMinutes());
  asked.set("since", newestSample());
  if (openJobId() !== null) { asked.set("job", openJobId()); asked.set("attempt", openAttempt()); }
  return asked;
}

const handlers = { state: showState, rows: (told) => { showRows(told); markOpen(openJobId()); }, timeline: showTimeline, log: logGrew,
  job: (told) => (told.there ? describe() : (say(`Job ${jobNumber(told.id)} was removed from the journal.`), closeJob())) };

const stream = new Stream({
  query,
  onEvent: (name, data) => { showPage(true); handlers[name]?.(data); },
  onLink: showLink,
  onRefused: () => showPage(false),
});

/* ---- The token ---- */

const fragment = () => new URLSearchParams(location.hash.slice(1));

function setFragment(changes) {
  const words = fragment();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) words.delete(key);
    else words.set(key, value);
  }
  history.replaceState(null, "", words.size ? `#${words}` : location.pathname);
}

// Remove the token from the address immediately: addresses are copied, shown on projectors and kept in histories. The tab
// stores the token for reloads; it is invalid once the server has ended.
function keepToken(given) {
  setToken(given);
  try { sessionStorage.setItem("token", given); } catch { /* storage is forbidden: a reload asks for the token */ }
}

function keptToken() {
  try { return sessionStorage.getItem("token") ?? ""; } catch { return ""; }
}

function showPage(open) {
  if (open && !$("main").hidden) return;
  $("main").hidden = !open;
  $("gate").hidden = open;
  if (open) return;
  closeJob();
  showLink("lost");
  setText($("gate-wrong"), getToken() ? "Wrong token." : "");
  $("gate-token").focus();
}

$("gate-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken($("gate-token").value.trim());
  $("main").hidden = true;
  $("gate").hidden = true;
  stream.restart();
});

/* ---- Keys ---- */

const KEYS = [[["/"], "Search"], [["j", "k"], "Next and previous job"], [["Enter"], "Open the job"], [["Esc"], "Close"], [["c"], "Cancel (asks first)"], [["r"], "Retry"],
  [["h"], "Hold, or release a held job"], [["u"], "Make urgent"], [["l"], "Open its log"], [["w"], "Open its details"], [["Space"], "Select; c, r, h and u then act on all selected jobs"], [["[", "]"], "Previous and next page"], [["?"], "Show these keys"]];
const ACT_KEYS = { c: "cancel", r: "retry", h: "hold", u: "urgent" };

function actByKey(key, target) {
  const chosen = openedJob() ? [] : chosenJobs();
  const action = key === "h" && (chosen[0] ?? target).state === "held" ? "release" : ACT_KEYS[key];
  return chosen.length ? actOnAll(action, chosen).then((done) => done && clearChoice()) : act(action, target);
}

function showHelp() {
  if (!$("help-keys").children.length)
    $("help-keys").append(...KEYS.flatMap(([keys, words]) => [element("dt", {}, ...keys.flatMap((key, i) => [i ? " " : "", element("kbd", {}, key)])), element("dd", {}, words)]));
  $("help").showModal();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("main").hidden || $("ask").open || $("help").open) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape" && event.target === $("search")) event.target.blur();
    return;
  }
  const target = openedJob() ?? currentJob();
  if (ACT_KEYS[event.key] && target) actByKey(event.key, target);
  else if (event.key === "?") showHelp();
  else if ($("job").open) return;
  else if ((event.key === "l" || event.key === "w") && target) openJob(target.id, event.key === "l" ? "log" : "details");
  else if (event.key === " " && target && event.target.closest("#rows")) toggleChoice(target.id);
  else if (event.key === "Escape" && chosenJobs().length) clearChoice();
  else if (event.key === "/") $("search").focus();
  else if (event.key === "j" || (event.key === "ArrowDown" && event.target.closest("#rows"))) moveRow(1);
  else if (event.key === "k" || (event.key === "ArrowUp" && event.target.closest("#rows"))) moveRow(-1);
  else if (event.key === "[") turnPage(-1);
  else if (event.key === "]") turnPage(1);
  else return;
  event.preventDefault();
}

/* ---- Start ---- */

document.addEventListener("keydown", onKey);
$("help-open").addEventListener("click", showHelp);
// Buttons instead of links: the fragment of the address contains the open job.
for (const button of document.querySelectorAll("[data-goto]"))
  button.addEventListener("click", () => { const target = $(button.dataset.goto); target.focus(); target.scrollIntoView({ block: "start" }); });
startTimeline({ onOpen: openJob, onWindow: () => stream.restart() });
startJobs({ onQuery: (delay) => stream.restart(delay), onOpen: openJob, onAct: (action) => actOnAll(action, chosenJobs()).then((done) => done && clearChoice()) });
$("utc").addEventListener("click", () => {
  const on = $("utc").getAttribute("aria-pressed") !== "true";
  $("utc").setAttribute("aria-pressed", String(on));
  setUtc(on);
  refreshRows();
  drawTimeline();
  describe();
});
startLog();
startJob({ say, onChange: (closed) => {
  setFragment({ job: openJobId() });
  markOpen(openJobId());
  if (closed) { focusRow(closed); if (!knownJob(closed)) $("search").blur(); }
  stream.restart();
} });

function tick() {
  if (document.hidden) return;
  tickGpus();
  tickRows();
  tickJob();
}
setInterval(tick, 1000);
setInterval(drawTimeline, 5000);

// A hidden tab closes its stream: browsers allow six connections to a server, and some people have many tabs.
let hiding = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => { stream.stop(); showLink("waiting"); }, 20000);
  else if ($("link").dataset.state !== "live") stream.restart();
});

function begin() {
  const words = fragment();
  if (words.has("token")) {
    keepToken(words.get("token"));
    setFragment({ token: null });
  } else {
    setToken(keptToken());
  }
  stream.restart();
  if (words.get("job")) openJob(Number(words.get("job")));
}
addEventListener("hashchange", () => { if (fragment().has("token")) begin(); });
begin();
