// Ten thousand sessions, a hundred thousand rounds: what is in sight is drawn, and nothing waits.

import { assert, open, test, until } from "./kit.mjs";

const FIRST_VIEW_MS_MAX = 1000;
const INTERACTION_MS_MAX = 100;
/** On a busy machine, one of some tries is not held up by others. */
const TRIES = 5;

const best = (values) => Math.min(...values);

// Tells when a selector is first on the screen, by the page's own clock.
const watcher = (selector) => {
  new MutationObserver((_, observer) => {
    if (!document.querySelector(selector)) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => (window.seenAt = performance.now())));
  }).observe(document, { childList: true, subtree: true });
};

test("10,000 sessions: the first view, and scrolling to their end", async (world) => {
  const { program, link } = await world.large(process.env.LONGHAND_MANY);
  const context = await world.login(link);
  const origin = new URL(link).origin;
  const times = [];
  for (let at = 0; at < TRIES; at += 1) {
    const page = await context.newPage();
    await page.addInitScript(watcher, ".row");
    await page.goto(`${origin}/longhand/console/#/`);
    times.push(await until(() => page.evaluate(() => window.seenAt), "the first row"));
    await page.close();
  }
  assert.ok(best(times) <= FIRST_VIEW_MS_MAX, `the first view takes ${times.map(Math.round)} ms`);
  const page = await open(context, `${origin}/longhand/console/#/`);
  await page.locator(".row").first().waitFor();
  await page.locator(".live.on").waitFor();
  const start = Date.now();
  while (Date.now() - start < 40_000) {
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    if ((await page.locator(".head p").first().innerText()).startsWith("10,")) break;
    await page.waitForTimeout(60);
  }
  const text = await page.locator(".head p").first().innerText();
  assert.match(text, /^10,\d{3} sessions/, text);
  assert.ok((await page.locator(".row").count()) < 80, "the rows in sight alone are drawn");
  const scrolls = [];
  for (let at = 0; at < TRIES * 2; at += 1) scrolls.push(await page.evaluate(scrolled, 40_000 * (at + 1)));
  assert.ok(best(scrolls) <= INTERACTION_MS_MAX, `a jump takes ${scrolls.map(Math.round)} ms`);
  const keys = await interactions(page, ["j", "j", "j", "k", "k"]);
  assert.ok(best(keys) <= INTERACTION_MS_MAX, `a key takes ${keys.map(Math.round)} ms`);
  await program.stop();
  await page.locator(".live.waiting").waitFor();
  await context.close();
  return `first view ${Math.round(best(times))} ms, jump ${Math.round(best(scrolls))} ms, key ${Math.round(best(keys))} ms`;
});

// From a jump to the frame that shows rows there.
const scrolled = (top) =>
  new Promise((resolve) => {
    const start = performance.now();
    scrollTo(0, top);
    const look = () => {
      const rows = [...document.querySelectorAll(".row")];
      const isThere = rows.some((row) => {
        const box = row.getBoundingClientRect();
        return box.top < innerHeight / 2 && box.bottom > innerHeight / 2;
      });
      if (isThere) resolve(performance.now() - start);
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });

// From a key to the frame that shows what it did.
async function interactions(page, keys) {
  await page.evaluate(() => {
    window.taken = [];
    document.addEventListener("keydown", (event) => {
      requestAnimationFrame(() => setTimeout(() => window.taken.push(performance.now() - event.timeStamp)));
    }, { capture: true });
  });
  for (const key of keys) {
    await page.keyboard.press(key);
    await page.waitForTimeout(60);
  }
  return page.evaluate(() => window.taken);
}

test("100,000 rounds: opened at the end, jumped through, scrolled, and only what is in sight is there", async (world) => {
  const { program, link } = await world.large(process.env.LONGHAND_LONG);
  const context = await world.login(link);
  const origin = new URL(link).origin;
  const page = await context.newPage();
  const answer = await context.request.get(`${origin}/longhand/api/v1/sessions`);
  const { id, rounds } = (await answer.json()).items[0];
  assert.ok(rounds >= 100_000, `${rounds} rounds`);
  await page.addInitScript(watcher, ".message");
  await page.goto(`${origin}/longhand/console/#/session/${id}/talk`);
  const opened = await until(() => page.evaluate(() => window.seenAt), "the newest messages", 40_000);
  const total = Number((await page.locator(".talk-bar .quiet").innerText()).match(/of ([\d,]+)/)[1].replaceAll(",", ""));
  assert.ok(total >= 200_000, `${total} messages`);
  const jumps = [];
  for (const share of [0.5, 0.1, 0.9, 0.25, 0.75]) {
    const position = Math.floor(total * share);
    const took = await page.evaluate(async (position) => {
      const slider = document.querySelector(".talk-bar input");
      const start = performance.now();
      slider.value = position;
      slider.dispatchEvent(new Event("input"));
      while (!document.querySelector(`.message[data-position="${position}"]`)) await new Promise((resolve) => setTimeout(resolve, 5));
      return performance.now() - start;
    }, position);
    jumps.push(took);
  }
  for (let at = 0; at < 30; at += 1) {
    await page.mouse.wheel(0, 2500);
    await page.waitForTimeout(40);
  }
  const count = await page.locator(".message").count();
  assert.ok(count <= 420, `${count} messages are in the page`);
  const positions = await page.locator(".message").evaluateAll((all) => all.map((one) => Number(one.dataset.position)));
  assert.ok(positions.every((position, at) => at === 0 || position === positions[at - 1] + 1), "without a gap");
  const keys = await interactions(page, ["j", "j", "k", "j", "j"]);
  assert.ok(best(keys) <= INTERACTION_MS_MAX, `a key takes ${keys.map(Math.round)} ms`);
  await program.stop();
  await context.close();
  return `opened ${Math.round(opened)} ms, jump ${Math.round(best(jumps))} ms, key ${Math.round(best(keys))} ms`;
});
