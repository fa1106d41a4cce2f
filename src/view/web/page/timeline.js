// SPDX-License-Identifier: MIT
// Two charts of the same period: which jobs ran on which GPU, and how many jobs ended.
import { $, count, duration, element, jobNumber, now, plural, setText, zone } from "./format.js";

const WINDOWS = [[5, "5 min"], [15, "15 min"], [60, "1 h"], [360, "6 h"], [1440, "24 h"], [10080, "7 d"]];
const ENDS = ["completed", "failed", "cancelled"]; // in the order of the server
const LANE = 18, GAP = 10, LABEL = 54, AXIS = 22;

let minutes = 60;
let fitted = false; // the period was chosen by the user or fitted to the data
let searched = false;
let data = null; // as the server sent it
let gpuIds = [];
let hits = []; // areas that react to the pointer
let onOpen = () => {};
let onWindow = () => {};

export const shownMinutes = () => minutes;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Sizes a canvas to the physical pixels of the screen.
function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  pen.textBaseline = "middle";
  return { pen, width };
}

function stepFor(span) {
  const steps = [60e3, 120e3, 300e3, 600e3, 1800e3, 3600e3, 7200e3, 14400e3, 43200e3, 86400e3];
  return steps.find((step) => span / step <= 8) ?? steps.at(-1);
}

function drawAxis(pen, width, height, from, to, x) {
  const step = stepFor(to - from), offset = zone().timeZone ? 0 : new Date(to).getTimezoneOffset() * 60e3;
  pen.strokeStyle = color("--line");
  pen.fillStyle = color("--dim");
  pen.textAlign = "center";
  for (let at = Math.ceil((from - offset) / step) * step + offset; at < to; at += step) {
    const left = Math.round(x(at)) + 0.5, date = new Date(at);
    if (left < LABEL + 16 || left > width - 16) continue;
    pen.beginPath();
    pen.moveTo(left, 0);
    pen.lineTo(left, height - AXIS + 4);
    pen.stroke();
    pen.fillText(step >= 86400e3 ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...zone() })
      : date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...zone() }), left, height - AXIS / 2 + 2);
  }
}

// Rows: each GPU has one lane for each job that ran on it at the same time.
function layOut() {
  const lanes = new Map(gpuIds.map((id) => [id, 1]));
  for (const [gpu, lane] of data.bars) lanes.set(gpu, Math.max(lanes.get(gpu) ?? 1, lane + 1));
  let top = 2;
  const rows = new Map();
  for (const [gpu, n] of [...lanes].sort((a, b) => a[0] - b[0])) {
    rows.set(gpu, { top, height: n * LANE });
    top += n * LANE + GAP;
  }
  return { rows, height: Math.max(top, LANE) + AXIS };
}

function drawBars() {
  const { rows, height } = layOut();
  const { pen, width } = prepare($("timeline-canvas"), height);
  const to = now(), from = to - minutes * 60e3;
  const x = (ms) => LABEL + ((ms - from) / (to - from)) * (width - LABEL);
  pen.clearRect(0, 0, width, height);
  drawAxis(pen, width, height, from, to, x);
  for (const [gpu, row] of rows) {
    pen.fillStyle = color("--dim");
    pen.textAlign = "left";
    pen.fillText(`GPU ${gpu}`, 0, row.top + Math.min(row.height, LANE) / 2);
    pen.fillStyle = color("--line");
    pen.globalAlpha = 0.45;
    pen.fillRect(LABEL, row.top, width - LABEL, row.height - 2);
    pen.globalAlpha = 1;
  }
  hits = [];
  for (const [gpu, lane, start, end, id, n, failed, state] of data.bars) {
    const row = rows.get(gpu), left = Math.max(LABEL, x(start)), right = Math.min(width, x(end ?? to));
    if (!row || right < LABEL) continue;
    const wide = Math.max(1.5, right - left - (right - left > 4 ? 1 : 0)), top = row.top + lane * LANE;
    pen.fillStyle = color(n > 1 ? "--completed" : `--${state}`);
    pen.globalAlpha = state === "completed" || n > 1 ? 0.75 : 0.9;
    pen.beginPath();
    pen.roundRect(left, top, wide, LANE - 2, Math.min(3, wide / 2));
    pen.fill();
    if (n > 1 && failed) {
      // The share of failed jobs, but always high enough to be visible.
      const high = Math.max(3, (LANE - 2) * failed / n);
      pen.fillStyle = color("--failed");
      pen.fillRect(left, top + LANE - 2 - high, wide, high);
    }
    pen.globalAlpha = 1;
    if (n === 1 && wide > 34) {
      pen.fillStyle = color("--panel");
      pen.textAlign = "left";
      pen.fillText(String(jobNumber(id)), left + 6, top + LANE / 2 - 0.5);
    }
    hits.push({ left: left - 2, right: left + wide + 2, top, bottom: top + LANE, id, n, failed, state, start, end });
  }
}

function drawThroughput() {
  const { pen, width } = prepare($("throughput-canvas"), 64);
  const most = Math.max(1, ...data.bins.map((bin) => bin.reduce((sum, n) => sum + n)));
  // Each bar stays at its own time: it moves to the left with the timeline above, and its height does not change.
  const to = now(), from = to - minutes * 60e3, base = 60;
  const x = (ms) => LABEL + ((ms - from) / (to - from)) * (width - LABEL);
  pen.clearRect(0, 0, width, 64);
  pen.strokeStyle = color("--line");
  pen.beginPath();
  pen.moveTo(LABEL, base + 0.5);
  pen.lineTo(width, base + 0.5);
  pen.stroke();
  pen.fillStyle = color("--dim");
  pen.textAlign = "left";
  pen.fillText(count(most), 0, 8);
  data.bins.forEach((bin, i) => {
    const begin = data.bins_from + i * data.bin, left = Math.max(LABEL, x(begin)) + 0.5;
    const wide = Math.max(1, Math.min(width, x(begin + data.bin)) - left - 1.5);
    if (x(begin + data.bin) < LABEL) return;
    let top = base;
    pen.globalAlpha = 0.8;
    ENDS.forEach((state, k) => {
      const high = (bin[k] / most) * (base - 4);
      pen.fillStyle = color(`--${state}`);
      pen.fillRect(left, top -= high, wide, high);
    });
    pen.globalAlpha = 1;
  });
  const words = ENDS.map((state, k) => [data.bins.reduce((sum, bin) => sum + bin[k], 0), state]).filter(([n], k) => n || !k);
  const each = data.bin % 60e3 ? duration(data.bin) : data.bin === 60e3 ? "minute" : `${data.bin / 60e3} min`;
  setText($("throughput-title"), `Jobs that ended, per ${each}: ${words.map(([n, state]) => `${count(n)} ${state}`).join(", ")}`);
  setText($("throughput-words"), `At most ${plural(most, "job")} per ${each}.`);
}

export function drawTimeline() {
  if (!data || document.hidden || !$("timeline-canvas").clientWidth) return;
  drawBars();
  drawThroughput();
}

// The shortest period that contains all runs, unless the user has chosen one.
function fit() {
  const first = Math.min(...data.bars.map(([, , start]) => start));
  if (!data.bars.length) {
    // Nothing ran recently: look further back, once. Later runs are fitted when they arrive.
    if (searched) return;
    const wider = WINDOWS.find(([value]) => value > minutes);
    searched = !wider;
    chooseWindow(wider ? wider[0] : 60);
  } else {
    const span = now() - first, fits = WINDOWS.find(([value]) => value * 60e3 > span * 1.05);
    fitted = true;
    if (!fits || fits[0] >= minutes) return;
    chooseWindow(fits[0]);
  }
  onWindow();
}

export function showTimeline(told) {
  data = told;
  if (!fitted) fit();
  drawTimeline();
}

export function setTimelineGpus(ids) {
  if (ids.join() === gpuIds.join()) return;
  gpuIds = ids;
  drawTimeline();
}

function meet(event) {
  const box = $("timeline-canvas").getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  // The area that was drawn last is on top.
  return hits.findLast((hit) => x >= hit.left && x <= hit.right && y >= hit.top && y < hit.bottom);
}

function tipWords(hit) {
  const long = duration((hit.end ?? now()) - hit.start);
  if (hit.n > 1) return `${plural(hit.n, "job")} in ${long}${hit.failed ? `, ${count(hit.failed)} failed` : ""}`;
  return `Job ${jobNumber(hit.id)}: ${hit.state}, ${long}`;
}

function onPointer(event) {
  const hit = meet(event), tip = $("timeline-tip"), canvas = $("timeline-canvas");
  tip.hidden = !hit;
  canvas.style.cursor = hit && hit.n === 1 ? "pointer" : "default";
  if (!hit) return;
  setText(tip, tipWords(hit));
  const box = $("timeline").getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX - box.left + 10, box.width - tip.offsetWidth - 8))}px`;
  tip.style.top = `${event.clientY - box.top + 16}px`;
}

function chooseWindow(chosen) {
  minutes = chosen;
  for (const button of $("windows").children) {
    const on = Number(button.dataset.minutes) === minutes;
    button.setAttribute("aria-checked", String(on));
    button.tabIndex = on ? 0 : -1;
  }
}

function onWindowKey(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const buttons = [...$("windows").children];
  const next = buttons[(buttons.indexOf(event.target) + step + buttons.length) % buttons.length];
  next.click();
  next.focus();
}

export function startTimeline(handlers) {
  ({ onOpen, onWindow } = handlers);
  for (const [value, words] of WINDOWS) {
    const button = element("button", { type: "button", role: "radio", "data-minutes": value }, words);
    button.addEventListener("click", () => { fitted = true; chooseWindow(value); onWindow(); });
    $("windows").append(button);
  }
  $("windows").addEventListener("keydown", onWindowKey);
  chooseWindow(minutes);
  const canvas = $("timeline-canvas");
  canvas.addEventListener("pointermove", onPointer);
  canvas.addEventListener("pointerleave", () => { $("timeline-tip").hidden = true; });
  canvas.addEventListener("click", (event) => { const hit = meet(event); if (hit && hit.n === 1) onOpen(hit.id); });
  new ResizeObserver(drawTimeline).observe($("timeline"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawTimeline);
}
