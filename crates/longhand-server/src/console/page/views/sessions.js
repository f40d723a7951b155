// All sessions, newest first, with their sub-agents and forks below them; and what a search finds.

import { get, of } from "../api.js";
import { h, fill, svg, state, command, copyButton, marked, toast } from "../dom.js";
import { short, whole, plural, ago, moment, folder, line, givenName } from "../format.js";
import { VirtualList } from "../virtual.js";

const FIRST_PAGE = 50;
const NEXT_PAGE = 500;

export async function show(root, route, context) {
  const list = new SessionList(route.query.q ?? "");
  const [hits] = await Promise.all([list.query ? search(list.query) : null, list.load(FIRST_PAGE)]);
  list.hits = hits?.entries.length;
  const heading = h("h1", null, list.query ? `Search: ${list.query}` : "Sessions");
  const lead = h("p", null);
  list.onCount = () => fill(lead, list.summary());
  list.onCount();
  fill(root, h("div", { class: "head" }, h("div", null, heading, lead)));
  if (context.me?.read_only) root.append(h("p", { class: "banner" }, "This console is read-only: pins and undo are switched off."));
  if (hits) root.append(hitList(hits, list.query));
  if (list.items.length > 0) {
    if (hits) root.append(h("h2", { class: "section" }, "Sessions with these words"));
    root.append(list.element());
  } else if (!list.query) {
    root.append(nothingYet(context.me));
  }
  return {
    title: list.query ? `Search: ${list.query}` : "Sessions",
    ready: () => list.reset(),
    heard: (event) => list.heard(event),
    key: (event) => list.key(event),
    close: () => list.close(),
  };
}

function nothingYet(me) {
  return state({
    title: "No sessions yet",
    lines: [
      me?.proxy ? "The proxy is running. Start an agent behind it, and its session appears here as it speaks:" : "Start an agent behind Longhand, and its session appears here:",
      command("longhand run -- claude"),
      "Sessions that your agents have kept can be archived, too:",
      command("longhand import"),
      "Or watch a session that is played to you:",
      command("longhand demo"),
    ],
  });
}

class SessionList {
  constructor(query) {
    this.query = query;
    this.items = [];
    this.kin = new Map();
    this.open = new Set();
    this.rows = [];
    this.next = undefined;
    this.wanted = new Set();
    this.fresh = new Set();
    this.words = query.toLowerCase().split(/\s+/).filter(Boolean);
    this.phone = matchMedia("(max-width: 760px)");
    this.list = new VirtualList({
      label: "Sessions",
      height: () => (this.phone.matches ? 92 : 64),
      draw: (index) => this.row(this.rows[index]),
      nearEnd: () => this.more(),
    });
  }

  element() {
    const names = ["", "Session", "Window now", "Saved", "Rounds", "Last active", ""];
    const titles = h("div", { class: "rows-head", "aria-hidden": "true" }, names.map((name) => h("span", null, name)));
    return h("div", { class: "card" }, titles, this.list.element);
  }

  close() {
    this.list.close();
    clearTimeout(this.timer);
    clearTimeout(this.kinTimer);
    this.isClosed = true;
  }

  async load(limit) {
    const page = await get("sessions", { q: this.query, limit, after: this.next });
    const known = new Set(this.items.map((item) => item.id));
    this.items.push(...page.items.filter((item) => !known.has(item.id)));
    this.flatten();
    this.next = page.next;
  }

  // Who has sub-agents and forks is asked for the rows in sight alone, after they are shown.
  wantKin(item) {
    if (this.kin.has(item.id) || this.wanted.has(item.id)) return;
    this.wanted.add(item.id);
    clearTimeout(this.kinTimer);
    this.kinTimer = setTimeout(() => this.loadKin(), 120);
  }

  async loadKin() {
    const inSight = new Set([...this.list.drawn.keys()].map((index) => this.rows[index]?.item.id));
    const some = [...this.wanted].filter((id) => inSight.has(id));
    this.wanted.clear();
    let hasAny = false;
    const ask = async (id) => {
      const kin = await get(of(id, "/kin")).catch(() => null);
      this.kin.set(id, kin);
      hasAny ||= kin && this.below({ id }).length > 0;
    };
    for (let at = 0; at < some.length && !this.isClosed; at += 4) {
      await Promise.all(some.slice(at, at + 4).map(ask));
    }
    if (!this.isClosed && hasAny) this.reset();
  }

  async more() {
    if (!this.next || this.isLoading) return;
    this.isLoading = true;
    try {
      await this.load(NEXT_PAGE);
      if (!this.isClosed) {
        this.list.reset(this.rows.length);
        this.onCount();
      }
    } finally {
      this.isLoading = false;
    }
  }

  summary() {
    const count = this.items.length;
    if (count === 0 && this.hits) return `${plural(this.hits, "message")}.`;
    if (count === 0) return this.query ? "No session has these words in its name, first words, agent, model or folder." : "";
    const hits = this.hits === undefined ? "" : `${plural(this.hits, "message")}, and `;
    const saved = this.query ? 0 : this.items.reduce((sum, item) => sum + item.saved, 0);
    const all = `${whole(count)}${this.next ? "+" : ""} ${count === 1 ? "session" : "sessions"}`;
    return saved ? `${all}; ${short(saved)} tokens not sent so far.` : `${hits}${all}.`;
  }

  reset() {
    this.flatten();
    this.list.reset(this.rows.length);
  }

  flatten() {
    this.rows = [];
    for (const item of this.items) this.place(item, 0, "");
  }

  place(item, level, kind) {
    const below = level === 0 ? this.below(item) : item.below ?? [];
    this.rows.push({ item, level, kind, below });
    if (!this.open.has(key(item, kind))) return;
    for (const child of below) this.place(child.item, level + 1, child.kind);
  }

  below(item) {
    const kin = this.kin.get(item.id);
    if (!kin) return [];
    const sessions = (list, kind) => (list ?? []).map((other) => ({ kind, item: { ...other, below: forks(other, other.id) } }));
    return [...sessions(kin.aside, "sub-agent"), ...forks(kin, item.id), ...sessions([...(kin.earlier ?? [])].reverse(), "earlier")];
  }

  row({ item, level, kind, below }) {
    if (level === 0) this.wantKin(item);
    const isOpen = this.open.has(key(item, kind));
    const caret =
      below.length > 0 &&
      h(
        "button",
        { type: "button", class: "caret", "aria-expanded": String(isOpen), "aria-label": `${isOpen ? "Hide" : "Show"} ${below.length} below`, title: `${below.length} below`, onclick: () => this.toggle(item, kind) },
        svg("svg", { viewBox: "0 0 12 12", width: "11", height: "11", "aria-hidden": "true" }, svg("path", { d: "M4 2l4 4-4 4", fill: "none", stroke: "currentColor", "stroke-width": "1.8", "stroke-linecap": "round" })),
      );
    const isFork = kind === "fork";
    const name = line(item.task || item.name || "(nothing was said)", 200);
    const href = isFork ? `#/session/${encodeURIComponent(item.session)}/talk?entry=${item.first}` : `#/session/${encodeURIComponent(item.id)}`;
    const details = isFork
      ? [`${plural(item.entries, "message")} on another path`]
      : [item.agent || item.dialect, item.model, folder(item.project), item.task.startsWith(item.name) ? "" : line(givenName(item.name), 60)];
    const ever = item.tokens_ever || item.tokens;
    return h(
      "div",
      { class: `row${level ? " child" : ""}${this.fresh.has(item.id) ? " new" : ""}` },
      h("span", null, caret),
      h(
        "div",
        { class: `row-main level-${Math.min(level, 3)}` },
        h("a", { class: "row-title", href, title: line(item.task, 400) }, kind && h("span", { class: "kind" }, kind), item.damaged && h("span", { class: "chip bad" }, "damaged"), " ", marked(name, this.words)),
        h("div", { class: "row-sub" }, details.filter(Boolean).map((text) => h("span", null, marked(text, this.words)))),
      ),
      item.tokens
        ? h(
            "div",
            { class: "gauge", title: `${whole(item.tokens)} tokens in the newest request; ${whole(ever)} without edits` },
            h("b", null, short(item.tokens)),
            ever > item.tokens ? ` of ${short(ever)} tokens` : " tokens",
            gauge(item.tokens, ever),
          )
        : h("div", { class: "gauge" }, isFork ? "" : item.bytes ? "not sent yet" : ""),
      h("div", { class: "gauge" }, item.saved ? [h("b", { class: "good" }, short(item.saved)), h("span", { class: "hidden" }, " tokens saved")] : isFork ? "" : "–"),
      h("div", { class: "gauge" }, isFork ? "" : [whole(item.rounds), h("span", { class: "hidden" }, " rounds")]),
      h("div", { class: "gauge", title: moment(item.last ?? item.at) }, ago(item.last ?? item.at)),
      h("div", null, item.resume && copyButton(item.resume.command, "Resume", `Copy: ${item.resume.command}`)),
    );
  }

  toggle(item, kind) {
    const name = key(item, kind);
    if (!this.open.delete(name)) this.open.add(name);
    const focused = this.list.focusedIndex();
    this.reset();
    if (focused !== null) this.list.drawn.get(focused)?.querySelector(".caret")?.focus();
  }

  key(event) {
    const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (by && (event.key.length === 1 || this.list.focusedIndex() !== null)) {
      this.list.move(by);
      return true;
    }
    const row = this.rows[this.list.focusedIndex() ?? -1];
    const isToggle = { ArrowRight: false, ArrowLeft: true }[event.key];
    if (row && isToggle !== undefined && row.below.length > 0 && this.open.has(key(row.item, row.kind)) === isToggle) {
      this.toggle(row.item, row.kind);
      return true;
    }
    return false;
  }

  // Whoever reads further down is not moved about.
  heard(event) {
    if (!["session", "request", "batch", "removed", "missed"].includes(event.kind)) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(event), 350);
  }

  async refresh(event) {
    if (scrollY > 400) return;
    const page = await get("sessions", { q: this.query, limit: FIRST_PAGE });
    if (this.isClosed) return;
    const isFirst = this.items.length === 0;
    const newest = new Set(page.items.map((item) => item.id));
    const before = new Map(this.items.map((item) => [item.id, item.last]));
    this.fresh = new Set(page.items.filter((item) => before.get(item.id) !== item.last).map((item) => item.id));
    const rest = this.items.slice(page.next ? 0 : this.items.length).filter((item) => !newest.has(item.id));
    this.items = [...page.items, ...rest];
    if (event.kind === "removed") this.items = this.items.filter((item) => item.id !== event.session);
    // What belongs to a conversation may have changed with it; closed rows ask anew.
    for (const id of this.fresh) if (!this.open.has(id)) this.kin.delete(id);
    if (isFirst && this.items.length > 0) dispatchEvent(new HashChangeEvent("hashchange"));
    else this.reset();
    this.onCount();
  }
}

const key = (item, kind) => (kind === "fork" ? `${item.session}/${item.first}` : item.id);

function forks(session, id) {
  return (session.forks ?? []).map((fork) => ({ kind: "fork", item: { ...fork, session: id, below: forks(fork, id) } }));
}

function gauge(part, total) {
  const bar = h("i");
  bar.style.setProperty("width", `${Math.max(2, Math.min(100, (100 * part) / (total || 1)))}%`);
  return h("span", { class: "bar-inline", "aria-hidden": "true" }, bar);
}

async function search(query) {
  try {
    return await get("search", { q: query, limit: 30 });
  } catch (error) {
    if (error.status === 401) throw error;
    toast(error.message, "bad");
    return { entries: [], is_partial: false };
  }
}

function hitList(found, query) {
  const words = query.replace(/["*]/g, " ").split(/\s+/);
  if (found.entries.length === 0) {
    return state({ title: "No message has these words", lines: ["Fewer words find more. Words in double quotes must stand side by side, and conf* finds configuration."], kind: "inline" });
  }
  const one = (hit) =>
    h(
      "a",
      { class: "hit", href: `#/session/${encodeURIComponent(hit.id)}/talk?entry=${hit.entry}` },
      h(
        "div",
        { class: "hit-head" },
        h("b", null, line(hit.task || hit.session, 90)),
        h("span", null, hit.role),
        h("span", null, `round ${whole(hit.round + 1)}`),
        h("span", { title: moment(hit.at) }, ago(hit.at)),
        hit.repeats > 1 && h("span", null, `said ${hit.repeats} times`),
        h("span", null, `${short(hit.tokens)} tokens`),
      ),
      h("p", null, marked(hit.snippet, words)),
    );
  return h(
    "section",
    { "aria-label": "Messages that were found" },
    found.is_partial && h("p", { class: "banner" }, "Not every message was looked at: the search index is being made, or too many messages match."),
    h("div", { class: "card hits" }, found.entries.map(one)),
  );
}

