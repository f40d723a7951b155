// The console's questions to its server, and the errors that come back.

const BASE = "../api/v1/";

/** Why a question was not answered. `status` is 0 if the server cannot be reached. */
export class ApiError extends Error {
  constructor(status, body) {
    super(body?.message ?? "The server did not answer.");
    this.status = status;
    this.kind = body?.error ?? "";
    this.hint = body?.hint ?? "";
  }
}

/** Asks for something; `query` leaves out what is not set. */
export async function get(path, query = {}, signal) {
  return answer(await send(address(path, query), { signal }));
}

/** Writes something. The header is one that no page of another site can send. */
export async function post(path, body) {
  const headers = { "content-type": "application/json", "x-longhand-console": "1" };
  return answer(await send(BASE + path, { method: "POST", headers, body: JSON.stringify(body ?? {}) }));
}

/** Where a file is, for a link. */
export function address(path, query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) parameters.set(name, value);
  }
  const text = parameters.toString();
  return BASE + path + (text ? `?${text}` : "");
}

/** A path below a session. */
export const of = (session, rest = "") => `sessions/${encodeURIComponent(session)}${rest}`;

async function send(url, options) {
  try {
    return await fetch(url, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, null);
  }
}

async function answer(response) {
  if (response.status === 204) return null;
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new ApiError(response.status, body);
  return body;
}

/** Hears what changes. Goes on trying when the connection is lost, at longer and longer intervals. */
export class Live {
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.wait_ms = 1000;
    this.wasLost = false;
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => !document.hidden && this.retry());
  }

  start() {
    this.stop();
    const source = new EventSource(`${BASE}events`);
    this.source = source;
    source.onopen = () => {
      this.wait_ms = 1000;
      this.onState("on");
      // What happened meanwhile was not heard.
      if (this.wasLost) this.onEvent({ kind: "missed" });
      this.wasLost = false;
    };
    source.onmessage = (message) => this.onEvent(JSON.parse(message.data));
    source.onerror = () => {
      source.close();
      this.wasLost = true;
      this.onState("waiting");
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.start(), this.wait_ms);
      this.wait_ms = Math.min(this.wait_ms * 2, 20000);
    };
  }

  retry() {
    if (this.source && this.source.readyState === EventSource.CLOSED && this.wasLost) this.start();
  }

  stop() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}
