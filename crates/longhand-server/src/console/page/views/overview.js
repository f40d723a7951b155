// What is in the window now, and how large the requests were.

import { get, of } from "../api.js";
import { h, fill, setStyle, state } from "../dom.js";
import { short, whole, share, tokens, line, plural } from "../format.js";
import { drawRequests } from "../chart.js";
import { address } from "./session.js";

const ROWS_MAX = 3000;
const ROWS_OF_PAGE = 1000;

const KINDS = {
  system: "System",
  tools: "Tools",
  mcp: "MCP servers",
  fold: "Fold",
  recalled: "Recalled",
  stub: "Stubs",
  clip: "Clipped",
  user: "User",
  assistant: "Assistant",
  result: "Tool results",
  other: "Other",
};

export async function overview(root, route, view) {
  const id = view.session.id;
  let stopChart = null;
  let all = [];
  const chartPlace = h("div", { class: "chart" });

  async function load() {
    const [map, window, requests] = await Promise.all([get(of(id, "/map")), windowRows(id), allRequests(id)]);
    all = requests;
    const sizes = sizesOf(map, window.rows);
    fill(root, tiles(view.session, map, requests), mapPanel(view, map, sizes), chartPanel(requests, chartPlace), biggest(view, sizes));
  }

  async function chart() {
    stopChart?.();
    stopChart = null;
    const own = all.filter((request) => !request.aside);
    if (own.length === 0 || !chartPlace.isConnected) return;
    stopChart = await drawRequests(chartPlace, own, (request) => view.go("requests", `/${request.number}`));
  }

  await load();
  return {
    ready: () => void chart().catch((error) => fill(chartPlace, h("p", { class: "quiet" }, error.message))),
    themed: () => void chart(),
    reload: async () => {
      await load();
      await chart();
    },
    close: () => stopChart?.(),
  };
}

async function windowRows(id) {
  const rows = [];
  let from = 0;
  let page;
  do {
    page = await get(of(id, "/window"), { from, limit: ROWS_OF_PAGE });
    rows.push(...page.items);
    from = page.next;
  } while (from !== null && rows.length < ROWS_MAX);
  return { rows: from === null ? rows : null, page };
}

async function allRequests(id) {
  const items = [];
  let after;
  do {
    const page = await get(of(id, "/requests"), { after, limit: 2000 });
    items.push(...page.items);
    after = page.next;
  } while (after && items.length < 10000);
  return items.reverse();
}

/** The parts of a window in its order, each with the kind that is its colour. */
function sizesOf(map, rows) {
  const fixed = (kind) => ["system", "tools", "mcp"].includes(kind);
  const parts = map.parts
    .filter((part) => fixed(part.kind))
    .map((part) => ({ kind: part.kind, name: part.name, tokens: part.tokens, text: plural(part.count, part.kind === "system" ? "text" : "tool") }));
  if (rows) {
    for (const row of rows) {
      if (fixed(row.kind) || row.kind === "folded" || row.tokens === 0) continue;
      parts.push({ kind: kindOf(row), name: nameOf(row), tokens: row.tokens, text: line(row.text, 140), entry: row.entry, saved: row.saved });
    }
    return parts;
  }
  const kinds = { stubbed: "stub", clipped: "clip", verbatim: "assistant" };
  const rest = map.parts.filter((part) => !fixed(part.kind));
  return [...parts, ...rest.map((part) => ({ kind: kinds[part.kind] ?? part.kind, name: part.name, tokens: part.tokens, text: `${whole(part.count)} of them`, entry: part.entry }))];
}

function kindOf(row) {
  if (row.kind === "fold") return "fold";
  if (row.kind === "insert") return "recalled";
  if (row.state === "shortened") return row.text.includes("[longhand stub") ? "stub" : "clip";
  if (row.kind === "result" || row.role === "tool") return "result";
  return { user: "user", assistant: "assistant", system: "system" }[row.role] ?? "other";
}

function nameOf(row) {
  if (row.kind === "fold") return "The fold";
  if (row.kind === "insert") return "Recalled text";
  const what = { call: "Call of", result: "Result of" }[row.kind];
  if (what) return `${what} ${row.name || "a tool"}`;
  return { user: "User", assistant: "Assistant", system: "System" }[row.role] ?? row.kind;
}

function tiles(session, map, requests) {
  const sum = (pick) => requests.reduce((total, request) => total + (pick(request) ?? 0), 0);
  const reported = requests.filter((request) => request.cached !== null);
  const sent = reported.reduce((total, request) => total + request.sent, 0);
  const cached = sum((request) => request.cached);
  const saved = sum((request) => Math.max(0, request.before - request.window));
  const before = sum((request) => request.before);
  const ever = session.newest ? session.newest.tokens_ever : map.tokens;
  const { edits, regretted } = session.edits;
  const tile = (name, value, note) => h("div", { class: "tile" }, h("dt", null, name), h("dd", null, value), h("dd", null, note));
  return h(
    "dl",
    { class: "tiles" },
    tile("Window now", short(map.tokens), map.budget ? `${share(map.tokens, map.budget)} of a budget of ${short(map.budget)}` : "no budget is set"),
    tile("Without edits", short(ever), ever > map.tokens ? `${share(ever - map.tokens, ever)} is left out` : "nothing is left out"),
    tile("Not sent", short(saved), before ? `${share(saved, before)} of all requests` : "no request so far"),
    tile("Cached", reported.length ? share(cached, sent) : "–", reported.length ? "of what was sent" : requests.length ? "the provider does not report it" : "no request so far"),
    tile("Fetched back", edits ? whole(regretted) : "–", edits ? `of ${plural(edits, "edit")}` : "no edits so far"),
  );
}

function mapPanel(view, map, sizes) {
  const tip = h("div", { class: "map-tip", "aria-hidden": "true" }, "Point at a part to see what it is. Click it to read it.");
  const total = Math.max(map.budget, map.tokens) || 1;
  const link = (part) => (part.entry === null || part.entry === undefined ? address(view.session.id, "requests") : address(view.session.id, "talk", `?entry=${part.entry}`));
  const joined = joinSmall(sizes, total);
  const segments = joined.map((part) => {
    const text = `${part.name}: ${tokens(part.tokens)}`;
    const segment = h("a", { href: link(part), class: `k-${part.kind}`, "data-kind": part.kind, "aria-label": text });
    setStyle(segment, { "flex-grow": part.tokens });
    const tell = () =>
      fill(tip, h("b", null, part.name), ` · ${tokens(part.tokens)} · ${share(part.tokens, total)}`, part.saved > 0 && ` · ${short(part.saved)} saved`, h("br"), h("span", null, part.text));
    segment.addEventListener("pointerenter", tell);
    segment.addEventListener("focus", tell);
    return segment;
  });
  const free = h("span", { class: "free", "aria-hidden": "true" });
  setStyle(free, { "flex-grow": map.free, "flex-basis": 0 });
  if (map.free > 0) free.addEventListener("pointerenter", () => fill(tip, h("b", null, "Free"), ` · ${tokens(map.free)} · ${share(map.free, total)}`));
  const strip = h("div", { class: segments.length > 110 ? "map dense" : "map", role: "group", "aria-label": "The context map, in the order of the window" }, segments, map.free > 0 && free);
  const over = map.over > 0 && h("p", { class: "banner" }, `The window is ${tokens(map.over)} over its budget. The next request leaves out what does not fit.`);
  return h(
    "section",
    { class: "card panel" },
    h("div", { class: "panel-head" }, h("h2", null, "What the model sees now"), h("p", null, map.budget ? `${whole(map.tokens)} of ${whole(map.budget)} tokens, ${short(map.free)} free` : `${whole(map.tokens)} tokens`)),
    over,
    strip,
    h("div", { class: "map-scale", "aria-hidden": "true" }, h("span", null, "oldest"), h("span", null, "newest")),
    tip,
    legend(sizes, map, total, strip),
  );
}

// What would be thinner than a pixel is shown with neighbours of its kind.
function joinSmall(sizes, total) {
  const least = total / (innerWidth < 760 ? 220 : 700);
  const joined = [];
  for (const part of sizes) {
    const last = joined.at(-1);
    if (last && last.kind === part.kind && (part.tokens < least || last.tokens < least)) {
      const count = (last.count ?? 1) + 1;
      joined[joined.length - 1] = { ...last, count, tokens: last.tokens + part.tokens, saved: (last.saved ?? 0) + (part.saved ?? 0), name: `${KINDS[part.kind]}, ${count} of them` };
    } else joined.push(part);
  }
  return joined;
}

function legend(sizes, map, total, strip) {
  const sums = new Map();
  for (const part of sizes) sums.set(part.kind, (sums.get(part.kind) ?? 0) + part.tokens);
  const light = (kind) => {
    for (const segment of strip.children) segment.classList.toggle("dim", kind !== null && segment.dataset.kind !== kind);
  };
  const row = (kind, name, count) => {
    const button = h("button", { type: "button", "aria-pressed": "false" }, h("span", { class: `swatch ${kind === "free" ? "free" : `k-${kind}`}` }), h("span", null, name), h("span", { class: "number" }, short(count)), h("span", { class: "number" }, share(count, total)));
    button.addEventListener("pointerenter", () => light(kind));
    button.addEventListener("pointerleave", () => light(null));
    button.addEventListener("focus", () => light(kind));
    button.addEventListener("blur", () => light(null));
    button.addEventListener("click", () => strip.querySelector(`[data-kind="${kind}"]`)?.focus());
    button.removeAttribute("aria-pressed");
    return button;
  };
  const order = Object.keys(KINDS).filter((kind) => sums.has(kind));
  return h("div", { class: "legend" }, order.map((kind) => row(kind, KINDS[kind], sums.get(kind))), map.budget > 0 && row("free", "Free", map.free));
}

function chartPanel(requests, place) {
  const legendOf = (mark, text) => h("span", null, h("i", { class: mark }), text);
  const own = requests.filter((request) => !request.aside);
  const body = own.length
    ? [place, h("p", { class: "note" }, "Click a request to see what was sent of it and what was left out. Drag to look closer; a double click shows all.")]
    : state({ title: "No request so far", lines: ["Requests that pass the proxy appear here. Sessions that were imported have none."], kind: "inline" });
  return h(
    "section",
    { class: "card panel" },
    h(
      "div",
      { class: "panel-head" },
      h("h2", null, "Size of each request"),
      own.length > 0 && h("div", { class: "chart-legend" }, legendOf("l-sent", "sent"), legendOf("l-ever", "without edits"), legendOf("dash", "budget"), legendOf("dot l-batch", "batch"), legendOf("dot l-break", "cache break")),
    ),
    body,
  );
}

function biggest(view, sizes) {
  const largest = sizes.filter((part) => part.tokens > 0).sort((one, other) => other.tokens - one.tokens).slice(0, 10);
  if (largest.length === 0) return null;
  const most = largest[0].tokens;
  const item = (part) => {
    const bar = h("i", { class: `k-${part.kind}` });
    setStyle(bar, { width: `${(100 * part.tokens) / most}%` });
    const text = part.text ? `${part.name}: ${part.text}` : part.name;
    const href = part.entry === null || part.entry === undefined ? address(view.session.id, "requests") : address(view.session.id, "talk", `?entry=${part.entry}`);
    return h("li", null, h("span", { class: `swatch k-${part.kind}` }), h("a", { href, title: part.text }, text), h("span", { class: "bar-inline" }, bar), h("span", { class: "number" }, short(part.tokens)));
  };
  return h("section", { class: "card panel" }, h("div", { class: "panel-head" }, h("h2", null, "What takes up most"), h("p", null, "tokens in the window")), h("ol", { class: "biggest" }, largest.map(item)));
}
