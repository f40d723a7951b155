// Elements are made here. Archived text is hostile: it becomes text nodes, and never markup.

/** Makes an element. Children are nodes or texts; `null` and `false` are left out. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  set(element, props);
  append(element, children);
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element of a drawing. */
export function svg(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props ?? {})) element.setAttribute(name, value);
  append(element, children);
  return element;
}

function set(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "style") setStyle(element, value);
    else if (name === "href") element.setAttribute("href", localAddress(value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Sets styles one by one, which a policy without inline styles allows. */
export function setStyle(element, styles) {
  for (const [name, value] of Object.entries(styles)) element.style.setProperty(name, value);
}

// No link leads out of the console, whatever a session's name looks like.
function localAddress(address) {
  return address.startsWith("#/") || address.startsWith("../api/v1/") ? address : "#/";
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces all children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Text in which these words are marked. */
export function marked(text, words) {
  const wanted = words.filter((word) => word.length > 1).map(escapePattern);
  if (wanted.length === 0) return [text];
  const pattern = new RegExp(`(${wanted.join("|")})`, "giu");
  return text.split(pattern).map((piece, at) => (at % 2 ? h("mark", null, piece) : piece));
}

function escapePattern(word) {
  return word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Tells what happened to those who do not see it. */
export function say(text) {
  const place = document.getElementById("said");
  place.textContent = "";
  requestAnimationFrame(() => (place.textContent = text));
}

/** Shows a message for some seconds. */
export function toast(text, kind = "good") {
  const message = h("div", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(message);
  say(text);
  setTimeout(() => message.remove(), kind === "bad" ? 9000 : 4000);
}

/** Asks before something is written. Resolves to whether it was confirmed. */
export function confirmed({ title, body, action }) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title" });
    const close = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const yes = h("button", { type: "button", class: "button primary", onclick: () => close(true) }, action);
    dialog.append(
      h("h2", { id: "dialog-title" }, title),
      ...[body].flat().map((line) => (line instanceof Node ? line : h("p", null, line))),
      h(
        "div",
        { class: "dialog-actions" },
        h("button", { type: "button", class: "button", onclick: () => close(false) }, "Cancel"),
        yes,
      ),
    );
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(false);
    });
    document.body.append(dialog);
    dialog.showModal();
    yes.focus();
  });
}

/** Asks which of several things to do. Resolves to the `value` of one, or `null`. */
export function chosen({ title, lines, options }) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": "dialog-title" });
    const close = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const option = ({ label, detail, value }) =>
      h(
        "div",
        { class: "option" },
        value !== undefined
          ? h("button", { type: "button", class: "button", onclick: () => close(value) }, label)
          : h("b", null, label),
        h("p", null, detail),
      );
    dialog.append(
      h("h2", { id: "dialog-title" }, title),
      ...lines.map((line) => h("p", null, line)),
      ...options.map(option),
      h(
        "div",
        { class: "dialog-actions" },
        h("button", { type: "button", class: "button", onclick: () => close(null) }, "Cancel"),
      ),
    );
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A button that copies a text. */
export function copyButton(text, label, title) {
  const button = h("button", { type: "button", class: "button small", title: title ?? text }, label);
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    const isCopied = await copy(text);
    if (isCopied) toast(`Copied: ${text}`);
    else toast(`Your browser did not allow copying. The command is: ${text}`, "bad");
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// Pages without HTTPS on another host than localhost have no clipboard.
function copyBySelection(text) {
  const field = h("textarea", { class: "hidden", readonly: true });
  field.value = text;
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  return isCopied;
}

/** What is shown where there is nothing yet, or where something failed. */
export function state({ title, lines = [], actions = [], kind = "" }) {
  return h(
    "div",
    { class: `state ${kind}`, role: kind === "bad" ? "alert" : null },
    h("h2", null, title),
    lines.map((line) => (line instanceof Node ? line : h("p", null, line))),
    actions.length > 0 && h("div", { class: "state-actions" }, actions),
  );
}

/** A command that one can type. */
export function command(text) {
  return h("div", { class: "command" }, h("code", null, text), copyButton(text, "Copy"));
}

/** Grey lines while something is loaded. */
export function skeleton(lines = 6) {
  const rows = Array.from({ length: lines }, () => h("div", { class: "skeleton-line" }));
  return h("div", { class: "skeleton", "aria-hidden": "true" }, rows);
}
