// SPDX-License-Identifier: MIT
// The cards of the GPUs, each with the history of its memory and utilization.
import { $, bytes, clock, count, duration, element, jobNumber, now, pathEnd, setCommand, setText, showState } from "./format.js";

const HISTORY = 600; // number of samples to keep
const SPAN = 300e3, SHORTEST = 60e3; // the period shown: five minutes, or less at the start
const GAP = 15e3;
const WIDE = 300;
const SVG = "http://www.w3.org/2000/svg";

const cards = new Map(); // "id/slot" → parts
const histories = new Map(); // id → [[time, memory, utilization]…]

export function newestSample() {
  let newest = 0;
  for (const samples of histories.values()) if (samples.length) newest = Math.max(newest, samples.at(-1)[0]);
  return newest;
}

function svg(tag, properties) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  return made;
}

function makeMeter(list, words, kind) {
  const fill = element("i"), value = element("dd", { class: "value" });
  list.append(element("dt", {}, words), element("dd", { class: `meter ${kind}`, "aria-hidden": "true" }, fill), value);
  return { fill, value };
}

function makeCard(gpu) {
  const p = { title: element("h3", {}, gpu.slot ? `GPU ${gpu.id}:${gpu.slot}` : `GPU ${gpu.id}`), name: element("span", { class: "gpu-name" }),
    state: element("span"), task: element("p", { class: "gpu-task" }), meters: element("dl", { class: "meters" }), foot: element("p", { class: "gpu-foot" }) };
  p.memory = makeMeter(p.meters, "Memory", "memory");
  p.foreign = element("p", { class: "gpu-foreign" });
  p.reserved = element("i", { class: "reserved" });
  p.memory.fill.after(p.reserved);
  p.busy = makeMeter(p.meters, "Utilization", "busy");
  p.spark = svg("svg", { class: "spark", viewBox: `0 0 ${WIDE} 100`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const kind of ["area", "memory", "busy"]) p.spark.append(p[`${kind}Path`] = svg("path", { class: kind }));
  p.card = element("li", { class: "panel gpu" }, element("div", { class: "gpu-head" }, p.title, p.name, p.state), p.task, p.meters, p.foreign, p.spark, p.foot);
  return p;
}

function fillMeter(meter, share, words) {
  meter.fill.style.width = share === null ? "0" : `${Math.max(0, Math.min(1, share)) * 100}%`;
  setText(meter.value, words);
}

// A line through the known samples; the right edge is now. A long gap between samples stays a gap.
function path(samples, span, pick) {
  let line = "", pen = false, before = 0, from = null, areas = "", last = null;
  const edge = now(), close = () => { if (from !== null) areas += `L${last} 100L${from} 100Z`; from = null; };
  for (const sample of samples) {
    const share = pick(sample), x = (WIDE * (1 - (edge - sample[0]) / span)).toFixed(1);
    if (share === null || sample[0] - before > GAP) { pen = false; close(); }
    before = sample[0];
    if (share === null) continue;
    const piece = `${pen ? "L" : "M"}${x} ${(98 - 96 * Math.min(1, share)).toFixed(1)}`;
    line += piece;
    areas += piece;
    from ??= x;
    last = x;
    pen = true;
  }
  close();
  return { line, area: areas };
}

function drawHistory(p, gpu) {
  const samples = (histories.get(gpu.id) ?? []).filter(([at]) => at > now() - SPAN);
  const span = Math.max(SHORTEST, samples.length ? now() - samples[0][0] : 0);
  const memory = path(samples, span, ([, used]) => (used === null || !gpu.memory_total ? null : used / gpu.memory_total));
  p.memoryPath.setAttribute("d", memory.line);
  p.areaPath.setAttribute("d", memory.area);
  p.busyPath.setAttribute("d", path(samples, span, ([, , busy]) => (busy === null ? null : busy / 100)).line);
}

function footWords(gpu) {
  const words = [];
  if (gpu.memory_reserved > gpu.memory_used) words.push(`${bytes(gpu.memory_reserved)} reserved`);
  if (gpu.temperature !== null) words.push(`${gpu.temperature} °C`);
  if (gpu.power_mw !== null) words.push(`${Math.round(gpu.power_mw / 1000)} W`);
  words.push(`${count(gpu.completed)} done`);
  if (gpu.failed) words.push(`${count(gpu.failed)} failed`);
  if (gpu.timeouts) words.push(`${count(gpu.timeouts)} timed out`);
  return words;
}

// Launches and maps are not jobs of the queue, but they use GPUs as jobs do.
function runWords(gpu) {
  return runs.flatMap((run) => run.gpus.filter((used) => used.id === gpu.id).map((used) => (used.task ? `gpuq ${run.kind}: ${used.task}` : `gpuq ${run.kind}`))).join(", ");
}

function taskWords(gpu) {
  if (gpu.error) return gpu.error;
  if (!gpu.task && runWords(gpu)) return runWords(gpu);
  if (!gpu.task) return gpu.last === null ? "No job is running" : `No job is running; the last one took ${duration(gpu.last)}`;
  const words = gpu.task_name ?? gpu.task, queue = gpu.task_queue ? ` of ${pathEnd(gpu.task_queue)}:` : "";
  const label = gpu.task_id === null ? words : `#${jobNumber(gpu.task_id)}${queue} ${words}`;
  // The parts that must not be cut off come first.
  return gpu.tasks > 1 ? `${gpu.tasks} jobs: ${label}` : label;
}

// Markers of the running job, as in the table of jobs.
function showCardState(p, gpu) {
  if (gpu.mark) showState(p.state, gpu.mark === "ending" ? "cancelled" : "held", gpu.mark);
  else showState(p.state, gpu.status, gpu.status === "processing" ? `running ${clock(now() - gpu.since)}` : gpu.status);
}

function fillCard(p, gpu) {
  setText(p.name, (gpu.name ?? "").replace(/^NVIDIA /, ""));
  p.name.title = gpu.name ?? "";
  showCardState(p, gpu);
  setCommand(p.task, taskWords(gpu));
  p.task.classList.toggle("none", !gpu.task && !runWords(gpu));
  p.task.title = gpu.task ?? runWords(gpu);
  const known = gpu.memory_used !== null && gpu.memory_total;
  fillMeter(p.memory, known ? gpu.memory_used / gpu.memory_total : null, known ? `${bytes(gpu.memory_used)} of ${bytes(gpu.memory_total)}` : "unknown");
  fillMeter(p.busy, gpu.utilization === null ? null : gpu.utilization / 100, gpu.utilization === null ? "unknown" : `${gpu.utilization}%`);
  const beyond = known && gpu.memory_reserved > gpu.memory_used ? gpu.memory_reserved - gpu.memory_used : 0;
  p.reserved.style.width = `${Math.min(1, beyond / (gpu.memory_total || 1)) * 100}%`;
  p.foreign.hidden = !gpu.memory_foreign;
  setText(p.foreign, gpu.memory_foreign ? `${bytes(gpu.memory_foreign)} used by processes outside this queue` : "");
  drawHistory(p, gpu);
  p.foot.replaceChildren(...footWords(gpu).map((words) => element("span", {}, words)));
}

let shown = [], runs = [];

export function showGpus(gpus, withRuns) {
  runs = withRuns;
  const list = $("gpus"), keys = new Set();
  for (const gpu of gpus) {
    const key = `${gpu.id}/${gpu.slot}`;
    keys.add(key);
    if (!gpu.slot || !histories.has(gpu.id)) {
      const samples = histories.get(gpu.id) ?? [];
      samples.push(...gpu.history);
      histories.set(gpu.id, samples.slice(-HISTORY));
    }
    if (!cards.has(key)) cards.set(key, makeCard(gpu));
    fillCard(cards.get(key), gpu);
  }
  for (const key of cards.keys()) if (!keys.has(key)) cards.delete(key);
  const wanted = gpus.map((gpu) => cards.get(`${gpu.id}/${gpu.slot}`).card);
  if (wanted.length !== list.children.length || wanted.some((card, i) => list.children[i] !== card)) list.replaceChildren(...wanted);
  if (!gpus.length) list.replaceChildren(element("li", { class: "dim" }, "No GPU found. To simulate some: --gpus sim:4"));
  shown = gpus;
}

// Updates the durations of running jobs once a second.
export function tickGpus() {
  for (const gpu of shown) {
    const p = cards.get(`${gpu.id}/${gpu.slot}`);
    if (p && gpu.status === "processing") showCardState(p, gpu);
  }
}
