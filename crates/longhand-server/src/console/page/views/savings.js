// One ledger: what was sent, what of it was cached, what was not sent, and what it cost.

import { get } from "../api.js";
import { h, fill, svg, state, command, setStyle } from "../dom.js";
import { whole, short, share, money, line, plural } from "../format.js";

const BY = { day: "Day", model: "Model", agent: "Agent", session: "Session" };

export async function show(root, route, context) {
  const by = BY[route.query.by] ? route.query.by : "day";
  let timer = 0;

  async function load() {
    const [report, days] = await Promise.all([get("usage", { by, limit: 200 }), by === "day" ? null : get("usage", { by: "day", limit: 60 })]);
    const total = report.total;
    fill(root, h("div", { class: "head" }, h("div", null, h("h1", null, "Savings"), h("p", null, "What all requests would have sent is 100%. Part of it was sent, and the rest was not; what the provider had in its cache is part of what was sent."))));
    if (total.requests === 0) {
      root.append(state({ title: "No request so far", lines: ["Requests that pass the proxy are counted here. Run an agent behind it:", command("longhand run -- claude"), "What it would have saved on sessions you have, without any model:", command("longhand replay SESSION.jsonl --budget 50% --compare")] }));
      return;
    }
    root.append(tiles(total), overTime(days ?? report), table(report, by, context));
  }

  await load();
  return {
    title: "Savings",
    heard: (event) => {
      if (event.kind !== "request" && event.kind !== "missed") return;
      clearTimeout(timer);
      timer = setTimeout(() => load().catch(() => null), 1500);
    },
    close: () => clearTimeout(timer),
  };
}

function tiles(total) {
  const all = total.sent + total.saved;
  const tile = (name, value, note, kind = "") => h("div", { class: "tile" }, h("dt", null, name), h("dd", { class: kind }, value), h("dd", null, note));
  const saved = total.cost_without - total.cost;
  const priced = total.unpriced ? `; ${plural(total.unpriced, "request")} without a known price` : "";
  return h(
    "dl",
    { class: "tiles" },
    tile("Not sent", short(total.saved), `${share(total.saved, all)} of ${short(all)} tokens`, total.saved ? "good" : ""),
    tile("Sent", short(total.sent), `in ${plural(total.requests, "request")}; ${short(total.output)} tokens answered`),
    tile("Cached", total.cached_reported ? share(total.cached, total.sent) : "not reported", total.cached_reported ? `${short(total.cached)} of what was sent` : "the providers do not tell"),
    tile("Cost", money(total.cost), `an estimate${priced}`),
    tile(saved < 0 ? "Cost more" : "Money saved", money(Math.abs(saved)), `${money(total.cost_without)} without edits, if the cache had held`, saved > 0 ? "good" : ""),
    tile("Fail-opens", whole(total.fail_opens), total.fail_opens ? "requests passed on unchanged since our side failed" : "nothing failed on our side", total.fail_opens ? "warn" : ""),
  );
}

function overTime(report) {
  const rows = report.rows.slice(-60);
  if (rows.length < 2) return "";
  const height = 150;
  const most = Math.max(1, ...rows.map((row) => row.sent + row.saved));
  const step = 100 / rows.length;
  const bars = rows.map((row, at) => {
    const title = `${row.key}: ${short(row.sent - row.cached)} sent anew, ${short(row.cached)} cached, ${short(row.saved)} not sent, ${money(row.cost)}`;
    let y = height;
    const piece = (kind, count) => {
      const size = (count / most) * (height - 6);
      y -= size;
      return svg("rect", { x: at * step + step * 0.12, y, width: step * 0.76, height: Math.max(0, size), class: `fill-${kind}` });
    };
    return svg("g", null, svg("title", null, title), svg("rect", { x: at * step, y: 0, width: step, height, fill: "transparent" }), piece("sent", row.sent - row.cached), piece("cached", row.cached), piece("saved", row.saved));
  });
  const mark = (kind, text) => h("span", null, h("i", { class: kind }), text);
  return h(
    "section",
    { class: "card panel" },
    h("div", { class: "panel-head" }, h("h2", null, "Tokens by day"), h("div", { class: "chart-legend" }, mark("l-saved", "not sent"), mark("l-cached", "sent, cached"), mark("l-sent", "sent anew"))),
    svg("svg", { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", class: "days", role: "img", "aria-label": "Tokens by day; the table below has the figures" }, bars),
    h("div", { class: "map-scale" }, h("span", null, rows[0].key), h("span", null, `highest: ${short(most)} tokens`), h("span", null, rows.at(-1).key)),
  );
}

function table(report, by, context) {
  const button = (name) => h("button", { type: "button", "aria-pressed": String(name === by), onclick: () => context.navigate(`#/savings?by=${name}`) }, BY[name]);
  const rows = by === "day" ? [...report.rows].reverse() : report.rows;
  const name = (row) => {
    if (by !== "session" || !row.id) return row.key || "(unknown)";
    return h("a", { href: `#/session/${encodeURIComponent(row.id)}` }, line(row.task || row.name || row.key, 90));
  };
  const cells = (row, first) => {
    const all = row.sent + row.saved;
    const bar = h("i", { class: "l-saved" });
    setStyle(bar, { width: `${all ? (100 * row.saved) / all : 0}%` });
    return h(
      "tr",
      null,
      first,
      h("td", { class: "number wide-only" }, whole(row.requests)),
      h("td", { class: "number" }, short(row.sent)),
      h("td", { class: "number wide-only" }, row.cached_reported ? share(row.cached, row.sent) : h("span", { class: "quiet" }, "not reported")),
      h("td", { class: "number" }, short(row.saved), " ", h("span", { class: "quiet" }, share(row.saved, all)), h("span", { class: "bar-inline" }, bar)),
      h("td", { class: "number" }, money(row.cost)),
      h("td", { class: "number wide-only" }, money(row.cost_without)),
    );
  };
  const head = [[BY[by], ""], ["Requests", "number wide-only"], ["Sent", "number"], ["Cached", "number wide-only"], ["Not sent", "number"], ["Cost", "number"], ["Without edits", "number wide-only"]];
  return h(
    "section",
    null,
    h("div", { class: "filters" }, h("div", { class: "segmented", role: "group", "aria-label": "A row stands for" }, Object.keys(BY).map(button))),
    h(
      "div",
      { class: "card scroll-x", tabindex: "0", role: "region", "aria-label": "Usage" },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, head.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
        h("tbody", null, rows.map((row) => cells(row, h("td", null, name(row)))), cells(report.total, h("td", null, h("b", null, "All")))),
      ),
    ),
    report.more > 0 && h("p", { class: "note" }, `${plural(report.more, "more row")}; \`longhand usage --by ${by === "agent" ? "model" : by} --json\` has them.`),
  );
}
