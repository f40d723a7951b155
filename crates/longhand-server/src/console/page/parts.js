// How a message is shown, and what restores something that was left out.

import { get, post, of } from "./api.js";
import { h, fill, chosen, confirmed, toast } from "./dom.js";
import { short, whole, plural, moment, line } from "./format.js";

const LINES_SHOWN = 14;

/** A long text, of which the first lines are shown until one asks for all. */
export function longText(text, { code = false, whole: loadWhole = null } = {}) {
  const lines = text.split("\n");
  const isLong = lines.length > LINES_SHOWN + 4 || text.length > 2400;
  const body = h("div", { class: code ? "text code" : "text", tabindex: code ? "0" : null });
  if (!isLong && !loadWhole) {
    body.textContent = text;
    return body;
  }
  const head = isLong ? line2(lines.slice(0, LINES_SHOWN).join("\n"), 1800) : text;
  const label = isLong && !loadWhole ? `Show all ${plural(lines.length, "line")}` : "Show all of it";
  const button = h("button", { type: "button", class: "button small plain" }, label);
  body.textContent = isLong ? `${head}\n…` : head;
  const box = h("div", null, body, button);
  button.addEventListener("click", async () => {
    button.disabled = true;
    body.textContent = loadWhole ? await loadWhole() : text;
    button.remove();
  });
  return box;
}

function line2(text, chars) {
  return text.length > chars ? Array.from(text.slice(0, chars)).slice(0, -1).join("") : text;
}

/** Reads all of what a handle stands for. */
export async function openHandle(session, handle, limit) {
  const found = await get("expand", { handle, session, limit });
  return found.rest ? `${found.content}\n\n(more: longhand expand ${found.rest})` : found.content;
}

const LABELS = { stubbed: "stub", clipped: "clip" };

/** A part of a message. What the window shortens opens in place to its original. */
export function partOf(part, message, session) {
  const all = part.more ? () => openHandle(session, part.handle ?? message.handle) : null;
  const original = () => plainPart(part, all);
  if (part.state === "kept") return original();
  const kind = LABELS[part.state];
  const body = h("div", { class: "edit-body" });
  const details = h(
    "details",
    { class: `edit ${kind}` },
    h(
      "summary",
      null,
      h("span", { class: `tag ${kind}` }, kind),
      h("span", { class: "mono" }, line(part.shown ?? "", 320)),
      h("span", { class: "more" }, "Show the original"),
    ),
    body,
  );
  details.addEventListener("toggle", () => {
    details.querySelector(".more").textContent = details.open ? "Hide the original" : "Show the original";
    if (details.open && !body.hasChildNodes()) fill(body, original());
  });
  return details;
}

function plainPart(part, all) {
  if (part.kind === "call") {
    return h("details", { class: "call", open: part.text.length < 160 }, h("summary", null, "calls ", h("b", null, part.name ?? "a tool")), longText(part.text, { code: true, whole: all }));
  }
  if (part.kind === "result") return longText(part.text, { code: true, whole: all });
  if (part.kind === "thinking") return h("details", { class: "call" }, h("summary", null, "thinking"), longText(part.text, { whole: all }));
  if (part.kind === "image") return h("p", { class: "quiet" }, `[image, ${short(part.bytes)} bytes]`);
  return longText(part.text, { whole: all });
}

/** Keeps a message in every window, or no longer. */
export async function pin(view, entry, pinned) {
  const title = pinned ? `Pin message ${whole(entry)}?` : `Unpin message ${whole(entry)}?`;
  const body = pinned
    ? "It stays in every window of this session from the next request on, as it was said. Pins take up room that newer messages could have."
    : "From the next request on it may be left out like any other message.";
  if (!(await confirmed({ title, body, action: pinned ? "Pin it" : "Unpin it" }))) return;
  await write(() => post(of(view.session.id, "/pins"), { entry, pinned }), pinned ? "Pinned: the next request has it." : "Unpinned.", view);
}

/** Takes back the newest batch. */
export async function undo(view, batch, edits) {
  const body = [
    `Batch ${batch.number} was made ${moment(batch.at)}${edits ? ` and has ${plural(edits, "edit")}` : ""}.`,
    "What it left out is sent again with the next request, as far as it fits the budget. The provider's cache is read anew once. Nothing is lost: the log keeps the batch.",
  ];
  if (!(await confirmed({ title: `Undo batch ${batch.number}?`, body, action: `Undo batch ${batch.number}` }))) return;
  await write(() => post(of(view.session.id, "/undo"), { batch: batch.number }), `Batch ${batch.number} is undone.`, view);
}

/** Offers what brings something back into the window: a pin of its message, or the undo of its batch. */
export async function restore(view, row, undoable) {
  const count = row.last !== null && row.last !== undefined && row.last !== row.entry;
  const options = [];
  if (row.entry !== null) {
    options.push(
      count
        ? { label: "Pin single messages", detail: "Open one of these messages in the conversation and pin it: it then stays in every window.", value: "talk" }
        : { label: "Pin this message", detail: "It stays in every window of this session from the next request on.", value: "pin" },
    );
  }
  if (row.batch !== null) {
    options.push(
      row.batch === undoable
        ? { label: `Undo batch ${row.batch}`, detail: "All that this batch left out is sent again, as far as it fits. The provider's cache is read anew once.", value: "undo" }
        : { label: `Undo batch ${row.batch}`, detail: undoable ? `Batches are undone from the newest on: batch ${undoable} is the next one that can be.` : "It is undone already." },
    );
  }
  const answer = await chosen({ title: "Restore", lines: ["Nothing was lost. This brings it back into what the model sees:"], options });
  if (answer === "pin") await write(() => post(of(view.session.id, "/pins"), { entry: row.entry, pinned: true }), "Pinned: the next request has it.", view);
  if (answer === "undo") await write(() => post(of(view.session.id, "/undo"), { batch: row.batch }), `Batch ${row.batch} is undone.`, view);
  if (answer === "talk") view.go("talk", `?entry=${row.entry}`);
}

async function write(ask, done, view) {
  try {
    await ask();
    toast(done);
  } catch (error) {
    toast(error.status === 409 ? "Something newer was made meanwhile. Nothing was changed; this shows what stands now." : error.message, "bad");
  }
  await view.reload();
}
