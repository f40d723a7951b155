// What is worth knowing, in plain words, each with what to do about it.

import { get } from "../api.js";
import { h, fill, state } from "../dom.js";
import { short, line, plural, givenName } from "../format.js";

export async function show(root) {
  const found = await get("findings", { limit: 50 });
  const lead = found.sessions ? `In the newest ${plural(found.sessions, "session")}${found.more ? "; older ones were not looked at" : ""}.` : "";
  fill(root, h("div", { class: "head" }, h("div", null, h("h1", null, "Findings"), h("p", null, lead))));
  if (found.items.length === 0) {
    root.append(
      state({
        title: found.sessions ? "Nothing stands out" : "No sessions yet",
        lines: [found.sessions ? "No tool without a use, no result without a reader, no broken cache, no window too small." : "Findings appear when an agent has spoken through the proxy."],
        actions: [h("a", { class: "button", href: "#/" }, "All sessions")],
      }),
    );
  }
  root.append(...found.items.map(card));
  return { title: "Findings" };
}

function card(finding) {
  return h(
    "article",
    { class: `card finding ${finding.weight === "warning" ? "warn" : "info"}` },
    h("h2", null, finding.title),
    h("p", null, finding.detail),
    finding.examples.length > 0 && h("div", { class: "chips" }, finding.examples.slice(0, 12).map((example) => h("span", { class: "chip mono" }, line(example, 60))), finding.examples.length > 12 && h("span", { class: "chip" }, `${finding.examples.length - 12} more`)),
    h("p", { class: "do" }, h("b", null, "What to do: "), finding.advice),
    h("div", { class: "chips" }, finding.tokens !== null && h("span", { class: "chip warn" }, `${short(finding.tokens)} tokens`), finding.session && h("a", { class: "chip", href: `#/session/${encodeURIComponent(finding.session)}` }, line(givenName(finding.name) || "Open the session", 60))),
  );
}
