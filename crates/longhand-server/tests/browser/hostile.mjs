// Archived text is written by models, by tools and by whoever they read. None of it may run, and no other page may ask.

import { createServer } from "node:http";
import { assert, open, test } from "./kit.mjs";

const ATTACK = [
  "<script>window.pwned = 1</script>",
  "<img src=x onerror='window.pwned = 1'>",
  "<svg onload='window.pwned = 1'>",
  "\"><iframe srcdoc='<script>parent.pwned = 1</script>'></iframe>",
  "<a href='javascript:window.pwned = 1'>click</a>",
  "{{constructor.constructor('window.pwned=1')()}}",
  "\u202eback to front\u202c \u0000\u001b[31mred",
].join(" zebra ");

test("text full of HTML and script stays text, wherever it is shown", async (world) => {
  await world.send([
    { role: "system", content: ATTACK },
    { role: "user", content: ATTACK },
    { role: "assistant", content: ATTACK, tool_calls: [{ id: "c1", type: "function", function: { name: "run<img src=x onerror=window.pwned=1>", arguments: JSON.stringify({ command: ATTACK }) } }] },
    { role: "tool", tool_call_id: "c1", content: ATTACK },
    { role: "user", content: `${ATTACK} again` },
  ]);
  const page = await world.page("#/?q=zebra");
  await page.locator(".hit").first().waitFor();
  const { id } = (await world.api("sessions?q=zebra")).items[0];
  for (const place of ["#/", "#/?q=zebra", `#/session/${id}`, `#/session/${id}/talk`, `#/session/${id}/requests?all=1`, `#/session/${id}/edits`, "#/savings?by=session", "#/findings", `#/export?session=${id}`]) {
    const shown = await world.page(place);
    // What is opened may have more to open.
    for (let round = 0; round < 3; round += 1) {
      await shown.evaluate(() => document.querySelectorAll("main details").forEach((details) => (details.open = true)));
      await shown.waitForTimeout(60);
    }
    await shown.waitForTimeout(100);
    assert.equal(await shown.evaluate(() => window.pwned), undefined, place);
    assert.equal(await shown.locator("main script, main iframe, main img, main [onerror], main a[href^=javascript]").count(), 0, place);
    assert.deepEqual(shown.problems, [], place);
    await shown.close();
  }
  const talk = await world.page(`#/session/${id}/talk`);
  assert.ok(await talk.locator("text=<script>window.pwned = 1</script>").first().isVisible(), "it is shown as it was said");
  const exported = await world.context.request.get(`${world.demoOrigin}/longhand/api/v1/sessions/${id}/export`);
  const file = await open(world.context, "about:blank");
  await file.setContent(await exported.text());
  await file.waitForTimeout(150);
  assert.equal(await file.evaluate(() => window.pwned), undefined, "the exported file");
});

test("no page of another origin reads or writes", async (world) => {
  const server = createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>other</title>"));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const page = await open(world.context, `http://127.0.0.1:${server.address().port}/`);
    const api = `${world.demoOrigin}/longhand/api/v1/`;
    const outcomes = await page.evaluate(
      async ({ api, session }) => {
        const attempt = (path, options) => fetch(api + path, { credentials: "include", ...options }).then((answer) => `${answer.type} ${answer.status}`, () => "refused");
        const pin = JSON.stringify({ entry: 1, pinned: true });
        return [
          await attempt("sessions"),
          await attempt(`sessions/${session}/pins`, { method: "POST", headers: { "content-type": "application/json", "x-longhand-console": "1" }, body: pin }),
          await attempt(`sessions/${session}/pins`, { method: "POST", mode: "no-cors", headers: { "content-type": "text/plain" }, body: pin }),
        ];
      },
      { api, session: world.session.id },
    );
    assert.deepEqual(outcomes, ["refused", "refused", "refused"]);
    assert.deepEqual((await world.api(`sessions/${world.session.id}/pins`)).items, [], "nothing was pinned");
  } finally {
    server.close();
  }
  const cookie = (await world.context.cookies()).find((one) => one.name.startsWith("longhand-console"));
  assert.ok(cookie.httpOnly && cookie.sameSite === "Strict");
  const forged = (headers) => fetch(`${world.demoOrigin}/longhand/api/v1/sessions`, { headers: { cookie: `${cookie.name}=${cookie.value}`, ...headers } });
  assert.equal((await forged({})).status, 200);
  assert.equal((await forged({ origin: "http://127.0.0.1:1" })).status, 403, "an origin with another port");
  assert.equal((await forged({ origin: "null" })).status, 403);
  const stranger = await fetch(`${world.demoOrigin}/longhand/api/v1/sessions`);
  assert.equal(stranger.status, 401, "without the cookie");
});

test("the page runs under a strict policy", async (world) => {
  const answer = await world.context.request.get(`${world.demoOrigin}/longhand/console/`);
  const policy = answer.headers()["content-security-policy"];
  assert.match(policy, /default-src 'none'/);
  assert.ok(!/unsafe|\*|http/.test(policy), policy);
});
