// SPDX-License-Identifier: MIT
// Running launches and maps: their progress, and the results of each GPU.
import { $, about, count, element, setText, showState } from "./format.js";

const cards = new Map(); // pid → parts

function makeCard(run) {
  const p = { title: element("h3", {}, `gpuq ${run.kind}`), name: element("span", { class: "gpu-name", title: run.name }, run.name), state: element("span"),
    worker: element("p", { class: "gpu-task" }), fill: element("i"), figures: element("p", { class: "gpu-foot" }), heads: element("tr"), rows: element("tbody") };
  p.meter = element("div", { class: "meter busy", role: "img" }, p.fill);
  p.table = element("table", { class: "run-gpus" }, element("thead", {}, p.heads), p.rows);
  p.card = element("li", { class: "panel gpu run" }, element("div", { class: "gpu-head" }, p.title, p.name, p.state), p.worker, p.meter, p.figures, p.table);
  return p;
}

const pace = (rate, word) => (rate >= 1 ? `${rate.toFixed(rate < 100 ? 1 : 0)} ${word}s/s` : `${(rate * 60).toFixed(1)} ${word}s/min`);
const ratio = (rtf) => `RTF ${Number(rtf.toPrecision(3))}`;

function figures(run) {
  const word = run.kind === "map" ? "item" : "file", over = run.done + run.failed, words = [];
  words.push(run.total === null ? `${count(over)} ${word}s` : `${count(over)} of ${count(run.total)} ${word}s`);
  if (run.failed) words.push(`${count(run.failed)} failed`);
  if (run.skipped) words.push(`${count(run.skipped)} done before`);
  if (run.rate > 0) words.push(pace(run.rate, word));
  if (run.rtf !== null) words.push(ratio(run.rtf));
  if (run.eta !== null) words.push(`${about(run.eta)} to go`);
  return words;
}

function stateOf(run) {
  if (run.ending) return ["initializing", "ending"];
  if (run.running) return ["processing", `${count(run.running)} running`];
  return ["idle", run.watching ? "waiting for new files" : "starting"];
}

// A column without known values is left out.
function fillTable(p, run) {
  const columns = [["GPU", (gpu) => String(gpu.id)], [run.kind === "map" ? "Items" : "Files", (gpu) => count(gpu.done)]];
  if (run.gpus.some((gpu) => gpu.failed)) columns.push(["Failed", (gpu) => count(gpu.failed)]);
  if (run.gpus.some((gpu) => gpu.rtf !== null)) columns.push(["RTF", (gpu) => (gpu.rtf === null ? "–" : String(Number(gpu.rtf.toPrecision(3))))]);
  if (run.gpus.some((gpu) => gpu.task)) columns.push(["Now", (gpu) => gpu.task ?? ""]);
  p.heads.replaceChildren(...columns.map(([name]) => element("th", { scope: "col" }, name)));
  p.rows.replaceChildren(...run.gpus.map((gpu) => element("tr", {}, ...columns.map(([, value]) => element("td", {}, value(gpu))))));
}

function fillCard(p, run) {
  const share = run.fraction === null ? 0 : Math.min(1, run.fraction);
  setText(p.worker, run.worker ?? "");
  p.worker.title = run.worker ?? "";
  showState(p.state, ...stateOf(run));
  p.meter.hidden = run.fraction === null;
  p.fill.style.width = `${share * 100}%`;
  p.meter.setAttribute("aria-label", `${Math.floor(share * 100)}% done`);
  p.figures.replaceChildren(...figures(run).map((words) => element("span", {}, words)));
  fillTable(p, run);
}

export function showRuns(runs) {
  const list = $("runs");
  for (const run of runs) {
    if (!cards.has(run.pid)) cards.set(run.pid, makeCard(run));
    fillCard(cards.get(run.pid), run);
  }
  for (const pid of cards.keys()) if (!runs.some((run) => run.pid === pid)) cards.delete(pid);
  const wanted = runs.map((run) => cards.get(run.pid).card);
  if (wanted.length !== list.children.length || wanted.some((card, i) => list.children[i] !== card)) list.replaceChildren(...wanted);
  $("runs-section").hidden = $("runs-goto").hidden = !runs.length;
}
