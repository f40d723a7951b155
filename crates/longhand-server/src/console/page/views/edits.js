// What was left out, batch by batch: receipts, what they paid, what was fetched back; and the pins.

import { get, of } from "../api.js";
import { h, fill, state } from "../dom.js";
import { whole, short, share, ago, moment, line, plural } from "../format.js";
import { pin, undo } from "../parts.js";
import { WHY } from "./requests.js";
import { address } from "./session.js";

export async function edits(root, route, view) {
  async function load() {
    const id = view.session.id;
    const [log, payoff, pins, regret] = await Promise.all([
      get(of(id, "/log"), { limit: 200 }),
      get(of(id, "/payoff"), { limit: 200 }),
      get(of(id, "/pins")),
      get(of(id, "/regret")),
    ]);
    const paid = new Map(payoff.items.map((item) => [item.batch, item]));
    fill(
      root,
      h("div", { class: "columns edits" }, h("div", null, batches(view, log, paid)), h("div", null, pinList(view, pins), regrets(view, regret), unread(log))),
    );
  }
  await load();
  return { reload: load };
}

function batches(view, log, paid) {
  const list = log.items.map((batch) => batchCard(view, batch, paid.get(batch.number), log.undoable));
  const body = list.length
    ? list
    : state({ title: "Nothing was left out", lines: ["This session fits its budget. When it no longer does, each batch of edits appears here with its receipt."], kind: "inline" });
  return h("section", { class: "card" }, h("div", { class: "panel-head padded" }, h("h2", null, "Batches"), h("p", null, "each can be undone, the newest first")), body);
}

function batchCard(view, batch, paid, undoable) {
  const receipt = batch.receipt;
  const kinds = [batch.stubs && plural(batch.stubs, "stub"), batch.clips && plural(batch.clips, "clip"), batch.folded && `${plural(batch.folded, "message")} folded`].filter(Boolean);
  const canUndo = batch.number === undoable && !view.context.me?.read_only;
  const fold = receipt.fold;
  const writer = fold && (fold.story?.model ?? fold.model ?? fold.summariser);
  const dropped = fold?.anchors.dropped_names ?? [];
  const lines = [
    paid && payoffLine(paid),
    fold && [`The fold was written by ${writer}; it keeps ${plural(fold.anchors.kept, "name or statement", "names and statements")}`, fold.anchors.restored > 0 && `, ${whole(fold.anchors.restored)} of them put back`, fold.anchors.dropped > 0 && `, and has no room for ${whole(fold.anchors.dropped)}`, "."],
    dropped.length > 0 && `No room for: ${line(dropped.join(", "), 200)}`,
    receipt.shortfall > 0 && h("span", { class: "bad" }, `The window was still ${short(receipt.shortfall)} tokens over its budget.`),
    receipt.refused.length > 0 && `Refused summaries: ${line(receipt.refused.join("; "), 200)}`,
    batch.regrets.length > 0 && `${plural(batch.regrets.length, "time")} something of it was fetched back.`,
  ].filter(Boolean);
  const places = receipt.edits ?? [];
  return h(
    "article",
    { class: `batch${batch.undone ? " undone" : ""}` },
    h("div", { class: "batch-number" }, batch.number, h("small", null, "batch")),
    h(
      "div",
      null,
      h("h3", null, kinds.join(", ") || "Text brought back"),
      h("p", null, h("span", { title: moment(batch.at) }, ago(batch.at)), `, since ${WHY[receipt.why] ?? "the window was full"}`, receipt.policy && `, by the policy ${receipt.policy}`, receipt.tokens_before !== null && receipt.tokens_after !== null && `: ${short(receipt.tokens_before)} to ${short(receipt.tokens_after)} tokens`),
      lines.length > 0 && h("ul", null, lines.map((text) => h("li", null, text))),
      places.length > 0 &&
        h(
          "details",
          { class: "list-more" },
          h("summary", null, `${plural(places.length, "edit")}, and why`),
          h("ul", null, places.slice(0, 300).map((edit) => h("li", null, `${edit.edit} at `, h("a", { href: address(view.session.id, "talk", `?entry=${parseInt(edit.at, 10)}`) }, edit.at), `: ${edit.why}`)), places.length > 300 && h("li", null, `and ${whole(places.length - 300)} more; \`longhand log --json\` has all`)),
        ),
    ),
    h(
      "div",
      null,
      batch.undone ? h("span", { class: "chip" }, "undone") : canUndo && h("button", { type: "button", class: "button small", onclick: () => undo(view, batch, batch.edits) }, `Undo batch ${batch.number}`),
    ),
  );
}

function payoffLine(paid) {
  if (paid.request === null) return "No request was sent with it yet.";
  const cost = `It made the provider read ${short(paid.resent)} tokens anew, and ${plural(paid.requests, "request")} did not send ${short(paid.saved)}`;
  if (paid.paid_off_at !== null) return [`${cost}. `, h("span", { class: "good" }, `It paid off at request ${whole(paid.paid_off_at)}.`)];
  return [`${cost}. `, h("span", { class: "warn" }, `It has not paid off yet: ${share(paid.gain, paid.cost)} so far.`)];
}

function pinList(view, pins) {
  const canWrite = !view.context.me?.read_only;
  const one = (item) =>
    h(
      "li",
      null,
      h("span", { class: "quiet nowrap" }, `${item.role} #${item.entry}`),
      h("a", { href: address(view.session.id, "talk", `?entry=${item.entry}`), title: item.text }, item.text),
      canWrite && h("button", { type: "button", class: "button small plain", "aria-label": `Unpin message ${item.entry}`, onclick: () => pin(view, item.entry, false) }, "Unpin"),
    );
  const body = pins.items.length ? h("ul", { class: "pins" }, pins.items.map(one)) : h("p", { class: "padded note" }, "None. Pin a message in the conversation, and it stays in every window.");
  return h("section", { class: "card spaced" }, h("div", { class: "panel-head padded" }, h("h2", null, "Pins")), body);
}

function regrets(view, regret) {
  const { edits: made, regretted, times, tokens } = regret.sums;
  const one = (item) =>
    h(
      "li",
      null,
      h("span", { class: "quiet nowrap" }, `batch ${item.batch}`),
      h("span", { class: "grow" }, `${item.edit ?? "edit"} of `, item.place ? h("a", { href: address(view.session.id, "talk", `?entry=${parseInt(item.place, 10)}`) }, `message ${item.place}`) : h("code", null, item.handle), `: ${item.times.map((time) => time.how).join(", ")}`),
      h("span", { class: "number" }, `${short(item.times.reduce((sum, time) => sum + time.tokens, 0))} tokens`),
    );
  const body = regret.items.length
    ? [h("p", { class: "padded note" }, `${whole(regretted)} of ${plural(made, "edit")} (${share(regretted, made)}) hid something that was needed again; ${plural(times, "fetch", "fetches")} took ${short(tokens)} tokens.`), h("ul", { class: "pins" }, regret.items.map(one))]
    : h("p", { class: "padded note" }, made ? `Nothing of ${plural(made, "edit")} was needed again.` : "No edits so far.");
  return h("section", { class: "card spaced" }, h("div", { class: "panel-head padded" }, h("h2", null, "Fetched back")), body);
}

function unread(log) {
  if (log.unread.length === 0) return null;
  const one = (answer) => h("li", null, h("span", { class: "grow" }, answer.why), h("code", null, answer.unread));
  return h("section", { class: "card spaced" }, h("div", { class: "panel-head padded" }, h("h2", null, "Answers that could not be read")), h("ul", { class: "pins" }, log.unread.map(one)), h("p", { class: "padded note" }, "`longhand expand HANDLE` opens what was kept of one."));
}
