// Numbers in the units that people use.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** `812`, `12.3k`, `4.1M`. */
export function short(count) {
  if (count === null || count === undefined) return "–";
  const size = Math.abs(count);
  if (size < 1000) return WHOLE.format(count);
  for (const [unit, letter] of [[1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit * 0.99995) {
      const value = count / unit;
      return `${Math.abs(value) < 99.95 ? trim(value.toFixed(1)) : WHOLE.format(value)}${letter}`;
    }
  }
  return WHOLE.format(count);
}

function trim(text) {
  return text.endsWith(".0") ? text.slice(0, -2) : text;
}

/** `12,345`. */
export const whole = (count) => (count === null || count === undefined ? "–" : WHOLE.format(count));

/** `12.3k tokens`. */
export const tokens = (count) => `${short(count)} token${count === 1 ? "" : "s"}`;

/** `1 stub`, `3 stubs`. */
export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

/** `$0.42`, `$12.30`, `less than 1¢`. */
export function money(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  if (dollars === 0) return "$0";
  const size = Math.abs(dollars);
  if (size < 0.0005) return dollars < 0 ? "−<$0.001" : "<$0.001";
  const digits = size < 0.01 ? 3 : size < 1000 ? 2 : 0;
  const text = size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${dollars < 0 ? "−" : ""}$${text}`;
}

/** `38%`. Small shares keep one digit, so that something is never 0%. */
export function share(part, total) {
  if (!total) return "–";
  const percent = (100 * part) / total;
  if (percent === 0) return "0%";
  if (percent < 0.1) return "<0.1%";
  return percent < 10 ? `${trim(percent.toFixed(1))}%` : `${Math.round(percent)}%`;
}

/** `just now`, `4 min ago`, `yesterday`, `3 Nov`. */
export function ago(time, now = Date.now()) {
  const at = Date.parse(time);
  if (!at) return "–";
  const minutes = Math.floor((now - at) / 60000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ago`;
  const days = Math.floor(hours / 24);
  if (days < 7) return days === 1 ? "yesterday" : `${days} days ago`;
  const date = new Date(at);
  const year = date.getFullYear() === new Date(now).getFullYear() ? undefined : "numeric";
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year });
}

/** `19 Nov 2026, 22:49:12`. */
export function moment(time) {
  const at = Date.parse(time);
  if (!at) return "at an unknown time";
  return new Date(at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}

/** The end of a folder's path, which tells it from others. */
export function folder(path) {
  if (!path) return "";
  const parts = path.split("/").filter(Boolean);
  return parts.length > 2 ? `…/${parts.slice(-2).join("/")}` : path;
}

/** The first characters of a text, on one line. */
export function line(text, chars = 160) {
  const joined = (text ?? "").slice(0, chars * 4).replace(/\s+/g, " ").trim();
  const all = Array.from(joined);
  return all.length > chars ? `${all.slice(0, chars - 1).join("")}…` : joined;
}

/** A session's name, unless it is one that a machine made. */
export const givenName = (name) => (/^[0-9a-f]{12,}$/.test(name ?? "") ? "" : (name ?? ""));
