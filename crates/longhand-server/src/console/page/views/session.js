// One session: its parts are tabs, each with an address of its own.

import { get, of } from "../api.js";
import { h, fill, copyButton } from "../dom.js";
import { whole, ago, moment, folder, line, plural, givenName } from "../format.js";
import { overview } from "./overview.js";
import { talk } from "./talk.js";
import { requests } from "./requests.js";
import { edits } from "./edits.js";

const TABS = { overview: ["Overview", overview], talk: ["Conversation", talk], requests: ["Sent against got", requests], edits: ["Edits", edits] };
const NAMES = Object.keys(TABS);
const FULL_ID = /^[0-9a-f]{32}$/;

/** What stands in the heading until the session has answered. */
const UNKNOWN = { isUnknown: true, task: "…", name: "", continues: [], unread: 0, edits: { edits: 0 }, rounds: 0, entries: 0, requests: 0 };

const tabOf = (route) => (TABS[route.parts[1]] ? route.parts[1] : "overview");

export async function show(root, route, context) {
  let asking = null;
  const ask = () => (asking ??= get(of(route.parts[0] ?? "@last")));
  // The figures of a very long session take a while; its messages can be read before.
  const canWait = FULL_ID.test(route.parts[0] ?? "") && tabOf(route) !== "overview";
  const session = canWait ? { ...UNKNOWN, id: route.parts[0] } : await ask();
  const view = { session, context, reload: () => reload(), go: (tab, rest) => context.navigate(address(session.id, tab, rest)) };
  const place = h("div", { class: "tab" });
  const tabs = h("nav", { class: "tabs", "aria-label": "Parts of the session" });
  const head = h("div");
  fill(root, head, tabs, place);
  let tab = null;
  let opened = route;
  let timer = 0;

  function frame() {
    fill(head, heading(view.session, context.me));
    fill(tabs, NAMES.map((name) => tabLink(view.session, name, opened)));
  }

  async function open(to) {
    opened = to;
    tab?.close?.();
    frame();
    const name = tabOf(to);
    if (name === "overview" && view.session.isUnknown) take(await ask());
    const next = h("div");
    tab = { name, ...(await TABS[name][1](next, to, view)) };
    fill(place, next);
    context.refreshTitle(line(view.session.task || view.session.name, 60));
    tab.ready?.();
  }

  async function reload() {
    // Figures that take too long leave those that are shown.
    view.session = await get(of(session.id)).catch(() => view.session);
    frame();
    if (tab?.reload) await tab.reload();
    else await open(opened);
  }

  function take(found) {
    view.session = found;
    frame();
    context.refreshTitle(line(found.task || found.name, 60));
  }

  await open(route);
  if (canWait) {
    // They are asked for when the tab is there. Whatever is wrong with the session, the tab tells it, too.
    ask().then(take, (error) => take({ ...view.session, task: `Session ${session.id.slice(0, 16)}`, trouble: error.message }));
  }
  return {
    title: line(view.session.task || view.session.name || "Session", 60),
    ready: () => tab.ready?.(),
    update: async (to) => {
      if (to.parts[0] !== opened.parts[0]) return false;
      const name = tabOf(to);
      if (name === tab.name && tab.update && (await tab.update(to))) {
        opened = to;
        frame();
        return true;
      }
      await open(to);
      return true;
    },
    heard: (event) => {
      if (event.session !== session.id && event.kind !== "missed") return;
      clearTimeout(timer);
      timer = setTimeout(() => reload().catch(() => null), 400);
    },
    themed: () => tab.themed?.(),
    key: (event) => {
      const at = Number(event.key) - 1;
      if (NAMES[at]) {
        view.go(NAMES[at]);
        return true;
      }
      return tab.key?.(event) ?? false;
    },
    close: () => {
      clearTimeout(timer);
      tab?.close?.();
    },
  };
}

/** The address of a tab. */
export function address(id, tab, rest = "") {
  const end = tab === "overview" ? "" : `/${tab}`;
  return `#/session/${encodeURIComponent(id)}${end}${rest}`;
}

function tabLink(session, name, opened) {
  const isHere = name === tabOf(opened);
  const counts = { talk: session.entries, requests: session.requests, edits: session.edits.edits };
  return h(
    "a",
    { href: address(session.id, name), "aria-current": isHere ? "page" : null },
    TABS[name][0],
    counts[name] ? h("small", null, whole(counts[name])) : null,
  );
}

function heading(session, me) {
  const chips = session.isUnknown ? [session.trouble] : [
    session.agent,
    session.model,
    session.project && h("span", { title: session.project }, folder(session.project)),
    session.dialect && `${session.dialect} format`,
    `${plural(session.rounds, "round")}, ${plural(session.entries, "message")}`,
    h("span", { title: `${moment(session.begun)} to ${moment(session.last)}` }, `last active ${ago(session.last)}`),
  ];
  const isNamed = session.task && givenName(session.name) && !session.task.startsWith(session.name);
  return h(
    "div",
    { class: "head" },
    h(
      "div",
      null,
      h("h1", null, line(session.task || session.name, 240)),
      isNamed && h("p", { class: "mono" }, line(session.name, 120)),
      h(
        "div",
        { class: "chips" },
        chips.filter(Boolean).map((chip) => h("span", { class: "chip" }, chip)),
        session.unread > 0 && h("span", { class: "chip warn" }, `${plural(session.unread, "answer")} could not be read`),
        me?.read_only && h("span", { class: "chip" }, "read-only"),
      ),
      session.continues.length > 0 &&
        h("p", null, "Continues ", session.continues.map((earlier, at) => [at > 0 && ", ", h("a", { href: address(earlier.id, "overview") }, line(earlier.name, 40))])),
    ),
    h(
      "div",
      { class: "actions" },
      session.resume && copyButton(session.resume.command, "Copy the resume command", `${session.resume.what} ${session.resume.command}`),
      h("a", { class: "button small", href: `#/export?session=${encodeURIComponent(session.id)}` }, "Export"),
    ),
  );
}
