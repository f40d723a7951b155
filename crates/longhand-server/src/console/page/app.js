// The frame around the views: routes, live events, theme, keys and login.

import { get, post, ApiError, Live } from "./api.js";
import { h, fill, say, state, skeleton, command, toast } from "./dom.js";

const VIEWS = {
  sessions: () => import("./views/sessions.js"),
  session: () => import("./views/session.js"),
  savings: () => import("./views/savings.js"),
  findings: () => import("./views/findings.js"),
  export: () => import("./views/export.js"),
};
const TITLES = { sessions: "Sessions", session: "Session", savings: "Savings", findings: "Findings", export: "Export" };

const main = document.getElementById("main");
const context = { me: null, navigate, refreshTitle };
let current = null;
let turn = 0;

const live = new Live(heard, shownState);

/** What an address means: `#/session/ID/talk?at=12`. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map(decodePart);
  const parameters = Object.fromEntries(new URLSearchParams(query));
  // The command prints links to `#/sessions/ID`.
  const isOne = parts[0] === "sessions" && parts.length > 1;
  const name = isOne ? "session" : parts[0] || "sessions";
  return { name, parts: parts.slice(1), query: parameters };
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function navigate(hash, { replace = false } = {}) {
  if (location.hash === hash) return show();
  if (!replace) {
    location.hash = hash;
    return undefined;
  }
  history.replaceState(null, "", hash);
  return show();
}

async function show() {
  const mine = ++turn;
  const to = route();
  const viewName = VIEWS[to.name] ? to.name : null;
  mark(viewName);
  if (!viewName) return notFound();
  // A view may take a new address without being built anew, such as another tab.
  if (current?.name === viewName && current.update && (await current.update(to))) return undefined;
  current?.close?.();
  current = null;
  const waiting = setTimeout(() => mine === turn && fill(main, skeleton()), 120);
  try {
    const view = await VIEWS[viewName]();
    const root = h("div", { class: `view view-${viewName}` });
    const shown = await view.show(root, to, context);
    if (mine !== turn) return shown?.close?.();
    current = { name: viewName, ...shown };
    fill(main, root);
    refreshTitle(shown?.title ?? TITLES[viewName]);
    shown?.ready?.();
  } catch (error) {
    if (mine === turn) failed(error);
  } finally {
    clearTimeout(waiting);
  }
  return undefined;
}

function refreshTitle(title) {
  document.title = title === "Sessions" ? "Longhand" : `${title} · Longhand`;
}

function mark(name) {
  for (const link of document.querySelectorAll(".nav a")) {
    const isHere = link.dataset.view === name || (name === "session" && link.dataset.view === "sessions");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function notFound() {
  current?.close?.();
  current = null;
  const home = h("a", { class: "button primary", href: "#/" }, "All sessions");
  fill(main, state({ title: "There is no such page", lines: ["The address may be from another version."], actions: [home] }));
}

function failed(error) {
  if (!(error instanceof ApiError)) console.error(error);
  if (error.status === 401) return login(error);
  const again = h("button", { type: "button", class: "button primary", onclick: () => show() }, "Try again");
  const home = h("a", { class: "button", href: "#/" }, "All sessions");
  const lines = [error.status === 0 ? "Is `longhand serve` or `longhand console` still running? This page goes on by itself when it is back." : error.message];
  if (error.hint) lines.push(error.hint);
  const titles = { 0: "The console cannot be reached", 404: "There is no such session", 503: "The archive is busy" };
  const title = titles[error.status] ?? "This did not work";
  return fill(main, state({ title, lines, actions: [again, home], kind: "bad" }));
}

/** The link that a terminal prints logs in by itself; a key of the proxy does, too. */
function login(error) {
  live.stop();
  shownState("off");
  const problem = h("p", { class: "bad", role: "alert" });
  if (error?.kind === "used_link") problem.textContent = "This link was used before. Each one opens the console once.";
  const field = h("input", { class: "field", id: "key", type: "password", autocomplete: "current-password", required: true });
  const enter = async (event) => {
    event.preventDefault();
    try {
      context.me = await post("login", { key: field.value });
      await begin();
    } catch (failure) {
      problem.textContent = failure.status === 401 ? "This key is not known here." : failure.message;
      field.focus();
    }
  };
  fill(
    main,
    h(
      "form",
      { class: "card login", onsubmit: enter },
      h("h1", null, "Open the console"),
      problem,
      h("p", { class: "quiet" }, "Run this in a terminal. It prints a link that lets this browser in:"),
      command("longhand console"),
      h("label", { for: "key" }, "Or a key of the proxy"),
      field,
      h("button", { class: "button primary" }, "Log in"),
    ),
  );
}

/** Exchanges the token of the printed link for a cookie, and takes it out of the address. */
async function takeToken() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const token = parameters.get("token");
  if (!token) return;
  const to = parameters.get("to") ?? "/";
  history.replaceState(null, "", `#${to.startsWith("/") ? to : "/"}`);
  try {
    await post("login", { token });
  } catch (error) {
    // Whoever is logged in already may use a link twice.
    if (error.status !== 401) throw error;
    await get("me").catch(() => {
      throw error;
    });
  }
}

async function begin() {
  context.me = await get("me");
  document.body.classList.toggle("read-only", context.me.read_only);
  live.start();
  await show();
}

const beat = document.getElementById("live");

function heard(event) {
  if (event.kind === "hello") return;
  beat.classList.remove("beat");
  requestAnimationFrame(() => beat.classList.add("beat"));
  current?.heard?.(event);
}

function shownState(what) {
  const texts = { on: "Live", waiting: "Reconnecting", off: "Not connected" };
  const hadState = beat.dataset.state;
  beat.dataset.state = what;
  beat.className = `live ${what}`;
  document.getElementById("live-text").textContent = texts[what];
  // After an outage, a page that shows its error goes on by itself.
  if (what === "on" && hadState === "waiting" && main.querySelector(".state.bad")) show();
}

function themeSwitch() {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme ?? (isDark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    try {
      localStorage.setItem("longhand-theme", next);
    } catch {
      // Without storage, the choice lasts as long as the page.
    }
    say(`${next} theme`);
    current?.themed?.();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => current?.themed?.());
}

function searching() {
  const field = document.getElementById("query");
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const query = field.value.trim();
    navigate(query ? `#/?q=${encodeURIComponent(query)}` : "#/");
  });
  addEventListener("hashchange", () => (field.value = route().query.q ?? ""));
  field.value = route().query.q ?? "";
}

const SHORTCUTS = [
  ["/", "search everything"],
  ["j  k", "next and previous row or message"],
  ["Enter", "open the row"],
  ["1 … 4", "the tabs of a session"],
  ["g s", "sessions"],
  ["g v", "savings"],
  ["g f", "findings"],
  ["?", "this list"],
];

function help() {
  const close = h("button", { type: "button", class: "button primary" }, "Close");
  const rows = SHORTCUTS.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)]);
  const dialog = h(
    "dialog",
    { class: "dialog", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keyboard shortcuts"),
    h("dl", null, rows),
    h("div", { class: "dialog-actions" }, close),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

let pendingG = 0;

function keys() {
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    if (event.key === "Escape" && event.target.id === "query") event.target.blur();
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "/") document.getElementById("query").focus();
    else if (event.key === "?") help();
    else if (event.key === "g") {
      pendingG = event.timeStamp;
      return;
    } else if (pendingG && event.timeStamp - pendingG < 1500 && { s: 1, v: 1, f: 1 }[event.key]) {
      navigate({ s: "#/", v: "#/savings", f: "#/findings" }[event.key]);
    } else if (!current?.key?.(event)) return;
    pendingG = 0;
    event.preventDefault();
  });
  document.getElementById("help").addEventListener("click", help);
  document.getElementById("skip").addEventListener("click", () => main.focus());
}

addEventListener("hashchange", () => {
  // Another link of the terminal, opened in the same tab.
  if (location.hash.startsWith("#token=")) return takeToken().then(begin, failed);
  const said = route();
  say(TITLES[said.name] ?? "");
  return show();
});
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") return;
  if (event.reason instanceof ApiError && event.reason.status === 401) login(event.reason);
  else toast(event.reason?.message ?? "Something failed", "bad");
});

themeSwitch();
searching();
keys();
takeToken().then(begin).catch((error) => {
  failed(error);
  // The server may come back.
  if (error.status === 0) setTimeout(() => location.reload(), 5000);
});
