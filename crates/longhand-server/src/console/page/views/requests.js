// Sent against got: a request line by line. What was kept, shortened or left out, by which batch, why, and what it saved.

import { get, of } from "../api.js";
import { h, fill, setStyle, state } from "../dom.js";
import { whole, short, tokens, share, money, ago, moment, line, plural } from "../format.js";
import { longText, openHandle, restore } from "../parts.js";
import { address } from "./session.js";

const PAGE = 250;
/** So many messages of those that a fold stands for are shown at once. */
const MESSAGES_SHOWN = 40;

export async function requests(root, route, view) {
  const shown = new Sent(view, route);
  await shown.load();
  fill(root, shown.element);
  return { reload: () => shown.load(), key: (event) => shown.key(event), close: () => shown.close() };
}

class Sent {
  constructor(view, route) {
    this.view = view;
    this.id = view.session.id;
    this.number = route.parts[2] === undefined ? null : Number(route.parts[2]);
    this.changed = route.query.all === undefined;
    this.element = h("div");
  }

  close() {
    this.observer?.disconnect();
  }

  async load() {
    const [page, log] = await Promise.all([get(of(this.id, "/requests"), { limit: 200 }), get(of(this.id, "/log"), { limit: 1 })]);
    this.lines = page.items;
    this.total = page.total;
    this.undoable = log.undoable;
    const newest = this.lines.find((request) => !request.aside) ?? this.lines[0];
    this.shown = this.number ?? newest?.number ?? null;
    const window = await this.ask(0);
    const request = this.lines.find((one) => one.number === this.shown) ?? null;
    this.rows = h("div", { class: "card compare", role: "list", "aria-label": "The request line by line" });
    this.observer?.disconnect();
    fill(this.element, this.pager(), this.summary(window, request), this.switch(window), this.rows, this.table());
    this.add(window);
    if (window.items.length === 0) fill(this.rows, this.nothing(window));
  }

  ask(from) {
    return get(of(this.id, "/window"), { request: this.shown, from, limit: PAGE, changed: this.changed });
  }

  add(window) {
    this.rows.append(...window.items.map((row) => this.row(row)));
    if (window.next === null) return;
    const more = h("button", { type: "button", class: "button plain" }, "Show more");
    this.rows.append(more);
    const next = async () => {
      this.observer.disconnect();
      more.disabled = true;
      const page = await this.ask(window.next);
      more.remove();
      this.add(page);
    };
    more.addEventListener("click", next);
    this.observer = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && next(), { rootMargin: "600px" });
    this.observer.observe(more);
  }

  nothing(window) {
    if (this.changed && window.tokens > 0) {
      const all = h("a", { class: "button", href: address(this.id, "requests", `${this.shown ? `/${this.shown}` : ""}?all=1`) }, "Show all of it");
      return state({ title: "Everything was sent as it came", lines: ["This request fits its budget, so nothing was shortened or left out."], actions: [all], kind: "inline" });
    }
    return state({ title: "There is nothing to compare", lines: ["The messages of this request are not in the archive."], kind: "inline" });
  }

  pager() {
    if (this.shown === null) {
      return h("p", { class: "banner" }, "No request of this session passed the proxy. This is the window as it would be sent now.");
    }
    const go = (number) => this.view.go("requests", `/${number}${this.changed ? "" : "?all=1"}`);
    const field = h("input", { class: "field", type: "number", min: 1, max: this.total, value: this.shown, "aria-label": "Request number" });
    field.addEventListener("change", () => field.value && go(Math.min(this.total, Math.max(1, Number(field.value)))));
    const button = (text, to, label) => h("button", { type: "button", class: "button", disabled: to < 1 || to > this.total, "aria-label": label, onclick: () => go(to) }, text);
    return h(
      "div",
      { class: "filters" },
      button("‹", this.shown - 1, "Request before"),
      h("span", null, "Request"),
      field,
      h("span", { class: "quiet" }, `of ${whole(this.total)}`),
      button("›", this.shown + 1, "Next request"),
    );
  }

  summary(window, request) {
    const most = Math.max(window.tokens_before, window.tokens, 1);
    const bar = (kind, count) => {
      const fillBar = h("i", { class: kind });
      setStyle(fillBar, { width: `${(100 * count) / most}%` });
      return h("span", { class: "bar-inline" }, fillBar);
    };
    const saved = Math.max(0, window.tokens_before - window.tokens);
    const facts = request && [
      h("span", { title: moment(request.at) }, ago(request.at)),
      request.model,
      request.budget ? `budget ${short(request.budget)}` : "no budget",
      request.cached === null ? "cached: not reported" : `${share(request.cached, request.sent)} cached`,
      request.output ? `${short(request.output)} tokens answered` : null,
      request.cost !== null && money(request.cost),
      request.aside && "a side call",
      request.cut && h("span", { class: "warn" }, "the answer broke off"),
      request.bypassed && h("span", { class: "bad" }, "passed on unchanged, since our side failed"),
    ];
    const batch = (one) =>
      h("li", null, h("b", null, `Batch ${one.number}`), `, ${ago(one.at)}: ${WHY[one.why] ?? one.why}`, one.tokens_before && one.tokens_after && `, ${short(one.tokens_before)} to ${short(one.tokens_after)} tokens`, one.undone && h("span", { class: "chip" }, "undone"));
    return h(
      "section",
      { class: "card panel" },
      h(
        "div",
        { class: "two-bars" },
        h("span", null, "Received"), bar("l-ever", window.tokens_before), h("b", { class: "number" }, tokens(window.tokens_before)),
        h("span", null, "Sent"), bar("l-sent", window.tokens), h("b", { class: "number" }, tokens(window.tokens)),
      ),
      h(
        "div",
        { class: "chips" },
        h("span", { class: "chip" }, `${plural(window.kept, "line")} kept`),
        window.shortened > 0 && h("span", { class: "chip warn" }, `${whole(window.shortened)} shortened`),
        window.left_out > 0 && h("span", { class: "chip accent" }, `${plural(window.left_out, "message")} left out`),
        saved > 0 && h("span", { class: "chip good" }, `${short(saved)} tokens saved, ${share(saved, window.tokens_before)}`),
        (facts || []).filter(Boolean).map((fact) => h("span", { class: "chip" }, fact)),
      ),
      window.batches.length > 0 && h("details", { class: "list-more" }, h("summary", null, `Made with ${plural(window.batches.length, "batch", "batches")}`), h("ul", null, window.batches.map(batch))),
    );
  }

  switch(window) {
    const to = (all) => this.view.go("requests", `${this.shown ? `/${this.shown}` : ""}${all ? "?all=1" : ""}`);
    const button = (text, isOn, all) => h("button", { type: "button", "aria-pressed": String(isOn), onclick: () => to(all) }, text);
    return h(
      "div",
      { class: "filters" },
      h("div", { class: "segmented", role: "group", "aria-label": "Which lines" }, button("What changed", this.changed, false), button("All lines", !this.changed, true)),
      h("span", { class: "note" }, `${plural(window.total, "line")}. Open one to compare what was received with what was sent.`),
    );
  }

  row(row) {
    const isChanged = row.state !== "kept";
    const folded = row.kind === "folded" && `messages ${whole(row.entry)} to ${whole(row.last ?? row.entry)}, which the fold stands for`;
    const text = line(row.text || row.original || folded || "", 300);
    const right = row.saved > 0 ? h("span", { class: "number good" }, `${short(row.saved)} saved`) : h("span", { class: "number quiet" }, short(row.tokens));
    const body = h("div", { class: "compare-body" });
    const details = h(
      "details",
      { class: `compare-item ${row.state}`, role: "listitem" },
      h(
        "summary",
        null,
        h("span", null, h("span", { class: `tag ${row.state}` }, STATES[row.state])),
        h("span", { class: "quiet" }, who(row)),
        h("span", { class: "compare-line" }, row.name && h("b", { class: "mono" }, row.name, " "), text),
        right,
      ),
      body,
    );
    details.addEventListener("toggle", () => {
      if (details.open && !body.hasChildNodes()) fill(body, this.detail(row, isChanged));
    });
    return details;
  }

  detail(row, isChanged) {
    const canWrite = !this.view.context.me?.read_only;
    const isCode = ["result", "call", "tools", "fold", "folded"].includes(row.kind);
    const several = row.last !== null && row.last !== row.entry;
    const facts = [
      row.batch !== null && `Batch ${row.batch}`,
      row.why,
      row.state === "added" ? `${short(row.tokens)} tokens sent` : isChanged && `${short(row.tokens_before)} tokens received, ${short(row.tokens)} sent`,
      row.pinned && "pinned",
    ];
    const openWhole = row.handle ? () => openHandle(this.id, row.handle) : null;
    if (row.kind === "folded") {
      const handle = `${this.id}:${row.entry}-${row.last ?? row.entry}`;
      const place = h("div", null, h("p", { class: "quiet" }, "Loading …"));
      openHandle(this.id, handle, MESSAGES_SHOWN)
        .then((text) => fill(place, longText(text, { code: true })))
        .catch((error) => fill(place, h("p", { class: "bad" }, error.message)));
      return [this.why(row, facts, several, canWrite), place];
    }
    const side = (title, text, whole) => h("div", null, h("h3", null, title), text ? longText(text, { code: isCode, whole }) : h("p", { class: "quiet" }, "nothing"));
    const original = row.original ?? (isChanged && row.state !== "added" ? "" : null);
    return [
      this.why(row, facts, several, canWrite && isChanged),
      original === null
        ? side(row.state === "added" ? "Added by Longhand" : "Received and sent", row.text, row.more ? openWhole : null)
        : h(
            "div",
            { class: "sides" },
            side("Received", original, row.more || (!original && openWhole) ? openWhole : null),
            side("Sent", row.text, null),
          ),
    ];
  }

  why(row, facts, several, canRestore) {
    return h(
      "div",
      { class: "why" },
      h("span", null, facts.filter(Boolean).join(" · ")),
      canRestore && row.entry !== null && h("button", { type: "button", class: "button small", onclick: () => restore(this.view, row, this.undoable) }, "Restore…"),
      row.entry !== null && h("a", { href: address(this.id, "talk", `?entry=${row.entry}`) }, several ? `Messages ${row.entry} to ${row.last}` : `Message ${row.entry}`),
    );
  }

  table() {
    if (this.lines.length === 0) return null;
    const one = (request) =>
      h(
        "tr",
        null,
        h("td", { class: "number" }, h("a", { href: address(this.id, "requests", `/${request.number}`), "aria-current": request.number === this.shown ? "true" : null }, whole(request.number))),
        h("td", { class: "nowrap", title: moment(request.at) }, ago(request.at)),
        h("td", { class: "wide-only" }, request.model),
        h("td", { class: "number" }, short(request.window)),
        h("td", { class: "number" }, request.before > request.window ? short(request.before - request.window) : "–"),
        h("td", { class: "number wide-only" }, request.cached === null ? "not reported" : share(request.cached, request.sent)),
        h("td", { class: "number" }, money(request.cost)),
        h("td", null, note(request)),
      );
    const names = ["Request", "When", "Model", "Sent", "Saved", "Cached", "Cost", ""];
    const wide = new Set(["Model", "Cached"]);
    const numbers = new Set(["Request", "Sent", "Saved", "Cached", "Cost"]);
    const cell = (name) => h("th", { scope: "col", class: `${numbers.has(name) ? "number" : ""}${wide.has(name) ? " wide-only" : ""}` }, name || h("span", { class: "hidden" }, "Notes"));
    return h(
      "section",
      null,
      h("h2", { class: "section" }, this.total > this.lines.length ? `The newest ${whole(this.lines.length)} requests` : "All requests"),
      h("div", { class: "card scroll-x", tabindex: "0", role: "region", "aria-label": "Requests" }, h("table", null, h("thead", null, h("tr", null, names.map(cell))), h("tbody", null, this.lines.map(one)))),
    );
  }

  key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || this.shown === null || this.shown + by < 1 || this.shown + by > this.total) return false;
    this.view.go("requests", `/${this.shown + by}${this.changed ? "" : "?all=1"}`);
    return true;
  }
}

const STATES = { kept: "kept", shortened: "shortened", left_out: "left out", added: "added" };

export const WHY = {
  budget: "the window was full",
  reference: "new results refer to what was left out",
  recall: "the model asked for what was left out",
  unknown: "made by a later version",
};

function who(row) {
  if (row.kind === "fold" || row.kind === "insert") return "summary";
  if (row.kind === "folded") return `${whole((row.last ?? row.entry) - row.entry + 1)} msgs`;
  if (row.kind === "tools") return "tools";
  return row.kind === "result" ? "result" : row.kind === "call" ? "call" : (row.role ?? row.kind);
}

function note(request) {
  const texts = { batch: ["new batch", "accent"], client: ["client broke the cache", "warn"], expired: ["cache expired", "warn"] };
  const [text, kind] = texts[request.cache_break] ?? [];
  return [
    text && h("span", { class: `chip ${kind}` }, text),
    request.bypassed && h("span", { class: "chip bad" }, "fail-open"),
    request.cut && h("span", { class: "chip warn" }, "broke off"),
    request.aside && h("span", { class: "chip" }, "side call"),
  ];
}
