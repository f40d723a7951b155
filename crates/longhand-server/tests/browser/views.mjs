// Each view shows what is in the archive, has an address, and follows what changes.

import { readdirSync, statSync } from "node:fs";
import { assert, open, test, until } from "./kit.mjs";

const PAGE_BYTES_MAX = 300 * 1024;

const TASK = "Since the clocks changed";

test("a link logs in once, and its token leaves the address", async (world) => {
  const context = await world.browser.newContext();
  const page = await open(context, world.demoLink);
  await page.locator("text=This link was used before").waitFor();
  assert.ok(!page.url().includes("token"), page.url());
  assert.ok(await page.locator("text=longhand console").isVisible());
  await context.close();
});

test("sessions: what they are about, their window, what was saved", async (world) => {
  const page = await world.page("#/");
  const row = page.locator(".row", { hasText: TASK }).first();
  await row.waitFor();
  assert.match(await row.innerText(), /demo-agent[\s\S]*gpt-5-mini[\s\S]*tokens/);
  assert.match(await page.locator(".head p").first().innerText(), /tokens not sent so far/);
  await page.locator(".live.on").waitFor();
});

test("sessions: forks and sub-agents open below their conversation", async (world) => {
  await world.send([{ role: "user", content: "A tree: plant it." }]);
  await world.send([
    { role: "user", content: "A tree: plant it." },
    { role: "assistant", content: "The demo is over." },
    { role: "user", content: "Now water it." },
  ]);
  await world.send([
    { role: "user", content: "A tree: plant it." },
    { role: "assistant", content: "The demo is over." },
    { role: "user", content: "No, prune it first." },
  ]);
  const page = await world.page("#/");
  const row = page.locator(".row", { hasText: "A tree: plant it." }).first();
  await row.locator(".caret").click();
  const fork = page.locator(".row.child", { hasText: "water it" });
  await fork.waitFor();
  await fork.locator("a").click();
  await page.locator(".message.here", { hasText: "water it" }).waitFor();
});

test("overview: every part of the map has a name, and leads to what it is", async (world) => {
  const page = await world.page(world.at());
  const segments = page.locator(".map a");
  assert.ok((await segments.count()) > 5);
  for (const name of await segments.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")))) assert.match(name, /: [\d.]+[kM]? tokens?$/);
  const fold = page.locator(".map a.k-fold");
  await fold.hover();
  await until(async () => (await page.locator(".map-tip").innerText()).includes("The fold"), "the name of the fold");
  await page.locator(".map a.k-user").last().click();
  await page.locator(".message.here").waitFor();
  assert.match(page.url(), /\/talk\?entry=\d+$/);
});

test("overview: the parts and what is free make up the budget", async (world) => {
  const map = await world.api(`sessions/${world.session.id}/map`);
  const parts = map.parts.reduce((sum, part) => sum + part.tokens, 0);
  assert.equal(parts, map.tokens);
  assert.equal(map.tokens + map.free, map.budget);
  const page = await world.page(world.at());
  assert.ok((await page.locator(".panel-head p").first().innerText()).includes(map.tokens.toLocaleString("en")));
});

test("overview: the chart has every request, and a click opens one", async (world) => {
  const page = await world.page(world.at());
  const over = page.locator(".u-over");
  await over.waitFor();
  await over.hover();
  await until(async () => /Request \d+/.test(await page.locator(".chart-tip").innerText()), "what the chart tells of a request");
  await over.click();
  await page.locator(".two-bars").waitFor();
  assert.match(page.url(), /\/requests\/\d+$/);
});

test("conversation: a folded message opens in place to its original", async (world) => {
  const page = await world.page(world.at("/talk?at=0"));
  const card = page.locator(".fold-card");
  await card.locator("summary").first().click();
  assert.match(await card.locator(".text").innerText(), /HARBOUR-2231|clocks/);
  const folded = page.locator(".message.folded", { has: page.locator(".tag.fold") }).nth(1);
  const words = (await folded.locator("summary .mono").last().innerText()).slice(0, 20);
  await folded.locator(".fold-row > summary").click();
  await until(async () => (await folded.locator(".edit-body").innerText()).length > words.length, "the original");
});

test("conversation: a stub opens in place to its original", async (world) => {
  const { origin, context, id } = await world.elided();
  const rows = await (await context.request.get(`${origin}/longhand/api/v1/sessions/${id}/window?changed=true&limit=1000`)).json();
  const stub = rows.items.find((row) => row.state === "shortened");
  assert.ok(stub, "the window has a stub");
  const page = await open(context, `${origin}/longhand/console/#/session/${id}/talk?entry=${stub.entry}`);
  const edit = page.locator(".message.here details.edit").first();
  await edit.locator("summary").first().click();
  const original = await edit.locator(".edit-body").innerText();
  assert.ok(stub.original.includes(original.trim().split("\n")[0].trim()), original);
  await page.close();
});

test("sent against got: line by line, with batch, reason and what it saved", async (world) => {
  const { origin, context, id } = await world.elided();
  const page = await open(context, `${origin}/longhand/console/#/session/${id}/requests`);
  const row = page.locator(".compare-item.shortened").first();
  await row.locator("summary").first().click();
  assert.match(await row.locator(".why").innerText(), /Batch \d+ · \w+/);
  const [got, sent] = await row.locator(".sides .text").allInnerTexts();
  assert.ok(got.length > sent.length, "what was received is longer than what was sent");
  assert.match(await row.locator("summary").first().innerText(), /saved/);
  await page.locator("text=All lines").click();
  await page.locator(".compare-item.kept").first().waitFor();
  await page.close();
});

test("sent against got: what a fold stands for is one line", async (world) => {
  const page = await world.page(world.at("/requests"));
  const left = page.locator(".compare-item.left_out").first();
  await left.locator("summary").first().click();
  assert.match(await left.locator(".why").innerText(), /Batch \d+/);
  assert.match(await left.innerText(), /Messages \d+ to \d+/);
  await until(async () => /timetable|read_file/.test(await left.locator(".compare-body").innerText()), "what the fold stands for");
});

test("sent against got: the first request was sent as it came", async (world) => {
  const page = await world.page(world.at("/requests/1"));
  await page.locator("text=Everything was sent as it came").waitFor();
});

test("savings: one denominator, and the sums are those of the rows", async (world) => {
  const page = await world.page("#/savings");
  const report = await world.api("usage?by=day");
  const sum = (name) => report.rows.reduce((total, row) => total + row[name], 0);
  for (const name of ["sent", "saved", "cached", "requests"]) assert.equal(sum(name), report.total[name], name);
  const tiles = await page.locator(".tiles").innerText();
  assert.match(tiles, new RegExp(`${Math.round((100 * report.total.saved) / (report.total.saved + report.total.sent))}% of`));
  for (const by of ["Model", "Agent", "Session"]) {
    await page.locator(".segmented button", { hasText: by }).click();
    await page.locator("th", { hasText: by }).waitFor();
  }
  assert.ok(await page.locator("tbody a", { hasText: TASK }).count());
});

test("findings: in plain words, with what to do", async (world) => {
  const found = await world.api("findings?limit=50");
  const page = await world.page("#/findings");
  const unused = found.items.find((item) => item.kind === "unused_tools");
  assert.ok(unused?.examples.some((name) => name.includes("tides")), "the demo has tools that nobody calls");
  const card = page.locator(".finding", { hasText: unused.title }).first();
  assert.match(await card.innerText(), /What to do:/);
});

test("export: one file that loads nothing, redacted on request", async (world) => {
  const page = await world.page(`#/export?session=${world.session.id}`);
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("text=Download the file").click()]);
  const { readFile } = await import("node:fs/promises");
  const html = await readFile(await download.path(), "utf8");
  assert.match(html, /HARBOUR-2231/);
  assert.ok(!/<script|src="http|href="http/.test(html));
});

test("search: finds a message and leads to it", async (world) => {
  const page = await world.page("#/");
  await page.locator("#query").fill("berth closes Sundays");
  await page.keyboard.press("Enter");
  const hit = page.locator(".hit").first();
  await hit.waitFor();
  assert.ok((await hit.locator("mark").count()) > 0);
  await hit.click();
  await page.locator(".message.here").waitFor();
});

test("every place has an address of its own", async (world) => {
  const entry = 20;
  for (const [hash, selector] of [
    ["#/", ".row"],
    ["#/?q=berth", ".hit"],
    [world.at(), ".map a"],
    [world.at(`/talk?entry=${entry}`), `.message.here`],
    [world.at("/requests/7"), ".two-bars"],
    [world.at("/edits"), ".batch"],
    ["#/savings?by=model", "tbody tr"],
    ["#/findings", ".finding"],
    [`#/export?session=${world.session.id}`, "select"],
  ]) {
    const page = await world.page(hash);
    await page.locator(selector).first().waitFor();
    assert.deepEqual(page.problems, [], hash);
    await page.close();
  }
});

test("what is not there is told, with a way on", async (world) => {
  const missing = await world.page("#/session/ffffffffffff");
  await missing.locator("text=There is no such session").waitFor();
  assert.ok(await missing.locator(".state a[href='#/']").isVisible());
  const nowhere = await world.page("#/nowhere");
  await nowhere.locator("text=There is no such page").waitFor();
});

test("a session appears and grows while one looks at it", async (world) => {
  const page = await world.page("#/");
  await page.locator(".live.on").waitFor();
  await world.send([{ role: "user", content: "A new session, just now." }]);
  const row = page.locator(".row", { hasText: "A new session, just now." });
  await row.waitFor();
  await row.locator("a").click();
  await page.locator(".tabs a", { hasText: "Conversation" }).click();
  await page.locator(".message").nth(1).waitFor();
  await world.send([
    { role: "user", content: "A new session, just now." },
    { role: "assistant", content: "The demo is over." },
    { role: "user", content: "And it goes on." },
  ]);
  await page.locator(".message", { hasText: "And it goes on." }).waitFor();
});

test("the page has at most 300 KB", async () => {
  const bytes = (path) => (statSync(path).isDirectory() ? readdirSync(path).reduce((sum, name) => sum + bytes(`${path}/${name}`), 0) : statSync(path).size);
  const size = bytes(process.env.LONGHAND_PAGE);
  assert.ok(size <= PAGE_BYTES_MAX, `${size} bytes`);
  return `${(size / 1024).toFixed(0)} KB`;
});
