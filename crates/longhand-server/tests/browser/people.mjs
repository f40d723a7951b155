// Whoever uses the console: by keyboard, on a phone, in the dark, with a screen reader.

import { assert, complaints, isTooWide, test, until } from "./kit.mjs";

const places = (world) => ["#/", "#/?q=berth", world.at(), world.at("/talk"), world.at("/requests"), world.at("/edits"), "#/savings", "#/findings", "#/export", "#/nowhere"];

test("all of it works by keyboard alone", async (world) => {
  const page = await world.page("#/");
  await page.locator(".row").first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("berth");
  await page.keyboard.press("Enter");
  await page.locator(".hit").first().waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.locator(".row").first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  assert.equal(await page.evaluate(() => document.activeElement.closest(".row")?.dataset.index), "0");
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.notEqual(outline, "none", "the focus is visible");
  await page.keyboard.press("Enter");
  await page.locator(".map").waitFor();
  for (const [key, selector] of [["2", ".talk"], ["3", ".two-bars, .banner"], ["4", ".edits"], ["1", ".map"]]) {
    await page.keyboard.press(key);
    await page.locator(selector).first().waitFor();
  }
  await page.keyboard.press("2");
  await page.locator(".message").first().waitFor();
  await page.keyboard.press("k");
  assert.ok(await page.evaluate(() => document.activeElement.classList.contains("message")));
  await page.keyboard.press("?");
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.press("Escape");
  await until(async () => (await page.locator("dialog[open]").count()) === 0, "the list of keys is closed");
  await page.reload();
  await page.locator(".message").first().waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
});

test("a phone of 360 points has room for every view", async (world) => {
  const context = await world.same({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
  for (const place of places(world)) {
    const page = await world.page(place, context);
    await page.waitForTimeout(150);
    assert.ok(!(await isTooWide(page)), `${place} is too wide`);
    assert.deepEqual(page.problems, [], place);
    await page.close();
  }
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing serious in the ${colorScheme}`, async (world) => {
    const found = [];
    const context = await world.same({ colorScheme });
    for (const place of places(world)) {
      const page = await world.page(place, context);
      await page.waitForTimeout(100);
      found.push(...(await complaints(page)).map((text) => `${place}: ${text}`));
      await page.close();
    }
    assert.deepEqual(found, []);
  });
}

test("the dark is the system's, and the switch has the last word", async (world) => {
  const paper = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).map(Number));
  const context = await world.same({ colorScheme: "dark" });
  const page = await world.page("#/", context);
  assert.ok((await paper(page)).every((value) => value < 60));
  await page.locator("#theme").click();
  assert.ok((await paper(page)).every((value) => value > 200));
  await page.reload();
  await page.locator("h1").waitFor();
  assert.ok((await paper(page)).every((value) => value > 200), "the choice is kept");
});

test("a console that is gone is told, and the page goes on when it is back", async (world) => {
  const page = await world.page("#/");
  await page.locator(".live.on").waitFor();
  await page.route("**/api/v1/**", (route) => route.abort());
  await page.evaluate(() => location.assign("#/savings"));
  await page.locator("text=The console cannot be reached").waitFor();
  await page.unroute("**/api/v1/**");
  await page.locator("text=Try again").click();
  await page.locator("h1", { hasText: "Savings" }).waitFor();
});
