// The conversation. A part of it is in the page at a time; more is loaded at both ends, and what is far away is dropped.

import { get, of } from "../api.js";
import { h, fill, state } from "../dom.js";
import { whole, short, ago, moment, line, plural } from "../format.js";
import { partOf, longText, pin } from "../parts.js";
import { address } from "./session.js";

const PAGE = 60;
const IN_PAGE_MAX = 300;
const NEAR_PX = 1400;

export async function talk(root, route, view) {
  const list = new Talk(view);
  await list.open(route.query);
  fill(root, list.bar, list.notice, list.element);
  return {
    ready: () => list.settle(),
    update: async (to) => {
      await list.open(to.query);
      list.settle();
      return true;
    },
    reload: () => list.reload(),
    key: (event) => list.key(event),
    close: () => list.close(),
  };
}

class Talk {
  constructor(view) {
    this.view = view;
    this.id = view.session.id;
    this.element = h("div", { class: "talk", role: "feed", "aria-label": "Conversation" });
    this.notice = h("div", { class: "talk-notice" });
    this.messages = [];
    this.total = 0;
    this.makeBar();
    this.onScroll = () => {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.scrolled());
    };
    addEventListener("scroll", this.onScroll, { passive: true });
  }

  close() {
    removeEventListener("scroll", this.onScroll);
    clearTimeout(this.timer);
    this.isClosed = true;
  }

  makeBar() {
    this.slider = h("input", { type: "range", min: 0, max: 0, "aria-label": "Place in the conversation" });
    this.where = h("span", { class: "quiet nowrap" });
    this.foldNote = h("span", { class: "note" });
    const first = h("button", { type: "button", class: "button small", onclick: () => this.jump(0) }, "First");
    const newest = h("button", { type: "button", class: "button small", onclick: () => this.jump(this.total - 1) }, "Newest");
    this.slider.addEventListener("input", () => {
      this.tellPlace(Number(this.slider.value));
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.jump(Number(this.slider.value)), 90);
    });
    this.bar = h("div", { class: "talk-bar" }, first, this.slider, newest, this.where, this.foldNote);
  }

  /** Opens at an entry, at a position, or at the end. */
  async open({ entry, at }) {
    if (entry !== undefined) {
      const page = await get(of(this.id, "/messages"), { around: entry, limit: PAGE });
      const isThere = page.items.some((message) => message.entry === Number(entry));
      this.target = Number(entry);
      // An entry of another path: all paths are shown, in the order in which they came.
      this.all = !isThere;
      return this.take(isThere ? page : await this.ask(Math.max(0, Number(entry) - PAGE / 2)));
    }
    this.target = null;
    this.all = false;
    if (at !== undefined) {
      this.targetPosition = Number(at);
      return this.take(await this.ask(Math.max(0, Number(at) - 5)));
    }
    const probe = await this.ask(0, 1);
    this.targetPosition = probe.total - 1;
    return this.take(await this.ask(Math.max(0, probe.total - PAGE)));
  }

  // While the figures of a very long session are reckoned, its messages may have to wait.
  async ask(from, limit = PAGE, tries = 4) {
    try {
      return await get(of(this.id, "/messages"), { from, limit, all: this.all });
    } catch (error) {
      if (error.status !== 503 || tries === 0 || this.isClosed) throw error;
      await new Promise((resolve) => setTimeout(resolve, 400));
      return this.ask(from, limit, tries - 1);
    }
  }

  take(page) {
    this.total = page.total;
    this.fold = page.fold;
    this.messages = page.items.map((message, at) => ({ ...message, position: message.position ?? page.from_at + at }));
    if (this.all) this.messages.forEach((message, at) => (message.position = page.from_at + at));
    this.slider.max = Math.max(0, this.total - 1);
    const banner = this.all && h("p", { class: "banner" }, "This message is on another path of the session. All paths are shown, in the order in which they came. ", h("a", { href: address(this.id, "talk") }, "Show the newest path"));
    fill(this.notice, banner);
    if (this.total === 0) fill(this.notice, state({ title: "Nothing was said yet", lines: ["The first message appears here."], kind: "inline" }));
    fill(this.element, this.messages.map((message) => this.draw(message)));
    const fold = this.fold;
    fill(this.foldNote, fold ? `${plural(fold.messages, "message")} folded, up to #${fold.last}` : "");
  }

  /** Scrolls to what the address names. */
  settle() {
    const target = this.messages.find((message) => (this.target !== null ? message.entry === this.target : message.position === this.targetPosition));
    const element = target && this.elementOf(target);
    if (element) {
      if (this.target !== null) {
        element.classList.add("here");
        const folded = element.querySelector("details.edit.fold-row");
        if (folded) folded.open = true;
      }
      const bar = document.querySelector(".bar").offsetHeight + this.bar.offsetHeight;
      const isEnd = this.target === null && this.targetPosition === this.total - 1;
      if (isEnd) scrollTo(0, document.documentElement.scrollHeight);
      else scrollBy(0, element.getBoundingClientRect().top - bar - 14);
      if (this.target !== null) element.focus({ preventScroll: true });
    }
    this.scrolled();
  }

  elementOf(message) {
    return this.element.querySelector(`[data-position="${message.position}"]`);
  }

  async jump(position) {
    this.target = null;
    this.targetPosition = Math.min(this.total - 1, Math.max(0, position));
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const from = Math.max(0, Math.min(this.targetPosition - 5, this.total - PAGE));
    const page = await this.ask(from);
    if (turn !== this.turn || this.isClosed) return;
    this.take(page);
    this.settle();
  }

  scrolled() {
    if (this.isClosed || this.messages.length === 0) return;
    const bar = this.bar.getBoundingClientRect().bottom;
    let seen = this.messages[0].position;
    for (const element of this.element.children) {
      if (element.dataset.position === undefined) continue;
      if (element.getBoundingClientRect().top > bar + 40) break;
      seen = Number(element.dataset.position);
    }
    if (document.activeElement !== this.slider) this.slider.value = seen;
    this.tellPlace(seen);
    const box = this.element.getBoundingClientRect();
    if (box.top > -NEAR_PX && this.messages[0].position > 0) this.extend(-1);
    if (box.bottom < innerHeight + NEAR_PX && this.messages.at(-1).position < this.total - 1) this.extend(1);
  }

  tellPlace(position) {
    const message = this.messages.find((one) => one.position === position);
    fill(this.where, `${whole(position + 1)} of ${whole(this.total)}`, message ? ` · round ${whole(message.round + 1)}` : "");
    this.slider.setAttribute("aria-valuetext", `message ${position + 1} of ${this.total}`);
  }

  async extend(direction) {
    if (this.isExtending) return;
    this.isExtending = true;
    const turn = (this.turn = this.turn ?? 0);
    try {
      const first = this.messages[0].position;
      const from = direction < 0 ? Math.max(0, first - PAGE) : this.messages.at(-1).position + 1;
      const limit = direction < 0 ? first - from : PAGE;
      const page = await this.ask(from, limit);
      if (turn !== this.turn || this.isClosed || page.items.length === 0) return;
      this.total = page.total;
      const added = page.items.map((message, at) => ({ ...message, position: from + at }));
      this.keepingPlace(() => {
        const elements = added.map((message) => this.draw(message));
        if (direction < 0) {
          this.element.querySelector("[data-position]").before(...elements);
          this.messages.unshift(...added);
        } else {
          this.element.append(...elements);
          this.messages.push(...added);
        }
        this.drop(direction);
      });
    } finally {
      this.isExtending = false;
    }
    this.onScroll();
  }

  // Drops what is far away at the other end.
  drop(direction) {
    while (this.messages.length > IN_PAGE_MAX) {
      const message = direction < 0 ? this.messages.pop() : this.messages.shift();
      this.elementOf(message)?.remove();
    }
  }

  // What one reads stays where it is, whatever is added or removed around it.
  keepingPlace(change) {
    const bar = this.bar.getBoundingClientRect().bottom;
    const anchor = [...this.element.children].find((element) => element.getBoundingClientRect().bottom > bar + 20);
    const before = anchor?.getBoundingClientRect().top;
    change();
    if (anchor?.isConnected) scrollBy(0, anchor.getBoundingClientRect().top - before);
  }

  async reload() {
    if (this.messages.length === 0) {
      await this.open({});
      return this.settle();
    }
    const isAtEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 140 && this.messages.at(-1).position === this.total - 1;
    const from = this.messages[0].position;
    const opened = new Set([...this.element.querySelectorAll("details[open]")].map((details) => details.dataset.key).filter(Boolean));
    const page = await this.ask(from, Math.min(500, this.messages.length + (isAtEnd ? PAGE : 0)));
    if (this.isClosed) return undefined;
    const places = [...this.element.children].find((element) => element.getBoundingClientRect().bottom > this.bar.getBoundingClientRect().bottom + 20);
    const position = places?.dataset.position;
    const top = places?.getBoundingClientRect().top;
    this.take(page);
    for (const details of this.element.querySelectorAll("details[data-key]")) if (opened.has(details.dataset.key)) details.open = true;
    if (isAtEnd) scrollTo(0, document.documentElement.scrollHeight);
    else if (position !== undefined) {
      const now = this.element.querySelector(`[data-position="${position}"]`);
      if (now) scrollBy(0, now.getBoundingClientRect().top - top);
    }
    return this.scrolled();
  }

  draw(message) {
    const isPinned = message.pinned;
    const canWrite = !this.view.context.me?.read_only;
    const calls = message.parts.find((part) => part.kind === "result" && part.name);
    const who = { user: "User", assistant: "Assistant", tool: "Tool", system: "System" }[message.role] ?? message.role;
    const head = h(
      "div",
      { class: "message-head" },
      h("b", null, who),
      calls && h("span", { class: "mono" }, calls.name),
      h("span", null, `${short(message.tokens)} tokens`),
      h("span", { title: moment(message.at) }, ago(message.at)),
      isPinned && h("span", { class: "chip accent" }, "pinned"),
      h("span", { class: "spacer" }),
      canWrite && h("button", { type: "button", class: "button small plain", "aria-label": `${isPinned ? "Unpin" : "Pin"} message ${message.entry}`, onclick: () => pin(this.view, message.entry, !isPinned) }, isPinned ? "Unpin" : "Pin"),
      h("a", { href: address(this.id, "talk", `?entry=${message.entry}`), "aria-label": `Link to message ${message.entry}`, title: "A link to this message" }, `#${message.entry}`),
    );
    const body = message.folded ? this.folded(message, who, head) : message.parts.map((part) => partOf(part, message, this.id));
    return h(
      "article",
      { class: `message edge-${message.role}${message.folded ? " folded" : ""}`, "data-position": message.position, tabindex: "-1", "aria-label": `${who}, message ${message.position + 1} of ${this.total}` },
      this.fold && message.entry === this.fold.first && this.foldCard(),
      !message.folded && head,
      body,
    );
  }

  // A message that the fold stands for: one line, which opens to the original.
  folded(message, who, head) {
    const first = message.parts.find((part) => part.text) ?? { text: "" };
    const name = first.kind === "call" || first.kind === "result" ? `${first.name ?? ""} ` : "";
    const body = h("div", { class: "edit-body" });
    const details = h(
      "details",
      { class: "edit fold fold-row", "data-key": `folded-${message.entry}` },
      h("summary", null, h("span", { class: "tag fold" }, "folded"), h("span", null, who), h("span", { class: "mono" }, line(name + first.text, 150)), h("span", null, `${short(message.tokens)} tokens`), h("span", { class: "more" }, "Show")),
      body,
    );
    details.addEventListener("toggle", () => {
      details.querySelector(".more").textContent = details.open ? "Hide" : "Show";
      if (details.open && !body.hasChildNodes()) fill(body, head, message.parts.map((part) => partOf({ ...part, state: "kept" }, message, this.id)));
    });
    return details;
  }

  // What stands in the window for all folded messages.
  foldCard() {
    const fold = this.fold;
    return h(
      "details",
      { class: "edit fold fold-card", "data-key": "fold" },
      h(
        "summary",
        null,
        h("span", { class: "tag fold" }, "fold"),
        h("span", null, `The model sees this summary in place of ${plural(fold.messages, "message")}, from #${fold.first} to #${fold.last} (batch ${fold.batch})`),
        h("span", { class: "more" }, "Show the summary"),
      ),
      h("div", { class: "edit-body" }, longText(fold.text, { code: true })),
    );
  }

  key(event) {
    const by = { j: 1, k: -1 }[event.key];
    if (!by) return false;
    const all = [...this.element.querySelectorAll(".message")];
    const at = all.indexOf(document.activeElement?.closest?.(".message"));
    const bar = this.bar.getBoundingClientRect().bottom;
    const from = at >= 0 ? at + by : all.findIndex((element) => element.getBoundingClientRect().bottom > bar + 20);
    const next = all[Math.min(all.length - 1, Math.max(0, from))];
    if (!next) return false;
    next.focus({ preventScroll: true });
    const box = next.getBoundingClientRect();
    if (box.top < bar + 10 || box.bottom > innerHeight) scrollBy(0, box.top - bar - 12);
    return true;
  }
}
