// Prompt size over the requests of a session, drawn by uPlot, which is loaded when it is first needed.

import { h, fill, setStyle } from "./dom.js";
import { short, whole, ago, money } from "./format.js";

let loading = null;

function uplot() {
  loading ??= new Promise((resolve, reject) => {
    const style = h("link", { rel: "stylesheet" });
    style.href = "uplot/uPlot.min.css";
    const script = h("script", null);
    script.src = "uplot/uPlot.iife.min.js";
    script.onload = () => resolve(window.uPlot);
    script.onerror = () => reject(new Error("The chart could not be loaded."));
    document.head.append(style, script);
  });
  return loading;
}

// A chart cannot use CSS variables: it asks which colours they have now.
function colour(name) {
  const probe = h("i");
  setStyle(probe, { color: `var(${name})`, display: "none" });
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** Draws requests, oldest first; `open(request)` is called for the one that was clicked. */
export async function drawRequests(place, requests, open) {
  const UPlot = await uplot();
  const tip = h("div", { class: "chart-tip", hidden: true });
  const budget = Math.max(0, ...requests.map((request) => request.budget));
  const highest = Math.max(1, ...requests.map((request) => Math.max(request.before, request.window)));
  // A budget far above all requests would press them to the ground.
  const showsBudget = budget > 0 && budget < highest * 6;
  const numbers = requests.map((request) => request.number);
  const when = (pick) => requests.map(pick);
  const isBreak = (request) => request.cache_break === "client" || request.cache_break === "expired";
  const data = [
    numbers,
    when((request) => request.before || null),
    when((request) => request.window || null),
    when((request) => (showsBudget ? request.budget || null : null)),
    when((request) => (request.cache_break === "batch" ? request.window : null)),
    when((request) => (isBreak(request) ? request.window : null)),
  ];
  const ink = colour("--ink-3");
  const grid = { stroke: colour("--line"), width: 1 };
  const axis = { stroke: ink, grid, ticks: { show: false }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
  const points = (name) => ({ show: true, size: 9, fill: colour(name), stroke: colour("--card"), width: 1.5 });
  const sent = colour("--accent");
  const options = {
    width: Math.max(280, place.clientWidth),
    height: 240,
    legend: { show: false },
    cursor: { y: false, points: { size: 7 }, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high ?? 1) * 1.06] } },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? whole(tick) : "")), space: 60 },
      { ...axis, values: (_, ticks) => ticks.map(short), size: 52 },
    ],
    series: [
      {},
      { stroke: colour("--k-other"), width: 1.5, points: { show: false } },
      { stroke: sent, width: 2, fill: sent.replace("rgb(", "rgba(").replace(")", ", 0.12)"), points: { show: requests.length < 3 } },
      { stroke: ink, width: 1.5, dash: [6, 5], points: { show: false } },
      { stroke: "transparent", points: points("--k-fold") },
      { stroke: "transparent", points: points("--bad") },
    ],
    hooks: {
      setCursor: [
        (chart) => {
          const request = requests[chart.cursor.idx];
          tip.hidden = !request || chart.cursor.left < 0;
          if (tip.hidden) return;
          fill(tip, about(request));
          const isRight = chart.cursor.left > place.clientWidth * 0.55;
          const left = isRight ? chart.cursor.left + 52 - tip.offsetWidth - 14 : chart.cursor.left + 52 + 14;
          setStyle(tip, { left: `${Math.max(0, left)}px`, top: "8px" });
        },
      ],
    },
  };
  fill(place);
  const chart = new UPlot(options, data, place);
  place.append(tip);
  chart.over.addEventListener("click", () => {
    const request = requests[chart.cursor.idx];
    if (request && chart.select.width === 0) open(request);
  });
  const resized = new ResizeObserver(() => chart.setSize({ width: Math.max(280, place.clientWidth), height: 240 }));
  resized.observe(place);
  return () => {
    resized.disconnect();
    chart.destroy();
  };
}

const BREAKS = {
  batch: "a new batch: the provider reads the window anew",
  client: "cache break: the client changed what it had sent before",
  expired: "cache break: the provider's cache had expired",
};

function about(request) {
  const lines = [
    [h("b", null, `Request ${whole(request.number)}`), ` · ${ago(request.at)}`],
    `${short(request.window)} tokens sent${request.before > request.window ? ` of ${short(request.before)}` : ""}`,
    request.cached === null ? "cached: not reported" : `${short(request.cached)} of these cached`,
  ];
  if (request.cost !== null) lines.push(money(request.cost));
  if (request.cache_break) lines.push(BREAKS[request.cache_break]);
  if (request.bypassed) lines.push("passed on unchanged, since our side failed");
  return lines.map((text) => h("div", null, text));
}
