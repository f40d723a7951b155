// A session as one file that opens anywhere.

import { get, of, address } from "../api.js";
import { h, fill, state, command } from "../dom.js";
import { ago, line, plural } from "../format.js";

export async function show(root, route) {
  const page = await get("sessions", { limit: 200 });
  let id = route.query.session ?? page.items[0]?.id;
  fill(root, h("div", { class: "head" }, h("div", null, h("h1", null, "Export"), h("p", null, "A session as one HTML file: the conversation, what was left out and the receipts. It loads nothing from anywhere."))));
  if (!id) {
    root.append(state({ title: "There is nothing to export yet", lines: ["Sessions appear here once an agent has spoken."], actions: [h("a", { class: "button", href: "#/" }, "All sessions")] }));
    return { title: "Export" };
  }
  const items = [...page.items];
  if (!items.some((item) => item.id === id)) {
    const session = await get(of(id));
    id = session.id;
    items.unshift(session);
  }
  const option = (item) => h("option", { value: item.id, selected: item.id === id }, `${line(item.task || item.name, 70)} (${ago(item.last)})`);
  const choice = h("select", { class: "field", id: "export-session" }, items.map(option));
  const redact = h("input", { type: "checkbox", id: "redact", checked: true });
  const link = h("a", { class: "button primary", download: "" }, "Download the file");
  const note = h("p", { class: "note" });
  const terminal = h("div");
  const tell = () => {
    const item = items.find((one) => one.id === choice.value);
    link.setAttribute("href", address(of(choice.value, "/export"), { redact: redact.checked }));
    fill(note, redact.checked ? "Keys, passwords and tokens that are recognised as such are replaced. Read the file before you pass it on: no rule knows every secret." : "The file has everything that was said, secrets included.");
    fill(terminal, h("p", { class: "note" }, `${plural(item.entries, "message")}. To move a session to another archive, with all that belongs to it:`), command(`longhand export ${item.id.slice(0, 16)} -o session.longhand`));
  };
  choice.addEventListener("change", tell);
  redact.addEventListener("change", tell);
  root.append(
    h(
      "section",
      { class: "card panel export" },
      h("label", { for: "export-session" }, h("h2", null, "Session")),
      choice,
      h("div", { class: "form-row" }, h("label", { for: "redact" }, redact, "Without secrets"), link),
      note,
    ),
    h("section", { class: "card panel" }, h("h2", null, "In a terminal"), terminal),
  );
  tell();
  return { title: "Export" };
}
