// What the console can change: pins, and the undo of a batch. Each asks first.

import { assert, open, test, until } from "./kit.mjs";

test("a message is pinned and unpinned", async (world) => {
  const page = await world.page(world.at("/talk?entry=30"));
  const message = page.locator(".message.here");
  await message.waitFor();
  const pin = page.locator("[aria-label='Pin message 30']");
  await pin.click();
  await page.locator("dialog >> text=Cancel").click();
  assert.deepEqual((await world.api(`sessions/${world.session.id}/pins`)).items, [], "a refusal changes nothing");
  await pin.click();
  await page.locator("dialog >> text=Pin it").click();
  await until(async () => (await world.api(`sessions/${world.session.id}/pins`)).items.some((item) => item.entry === 30), "the pin");
  await page.goto(`${world.demoOrigin}/longhand/console/${world.at("/edits")}`);
  await page.locator("[aria-label='Unpin message 30']").click();
  await page.locator("dialog >> text=Unpin it").click();
  await until(async () => (await world.api(`sessions/${world.session.id}/pins`)).items.length === 0, "no pin");
});

test("what was shortened is restored by a pin, in one step and a confirmation", async (world) => {
  const { origin, context, id } = await world.elided();
  const pins = async () => (await (await context.request.get(`${origin}/longhand/api/v1/sessions/${id}/pins`)).json()).items;
  const page = await open(context, `${origin}/longhand/console/#/session/${id}/requests`);
  const row = page.locator(".compare-item.shortened").first();
  await row.locator("summary").first().click();
  await row.locator("text=Restore…").click();
  assert.deepEqual(await pins(), [], "nothing is written before the choice");
  await page.locator("dialog button", { hasText: "Pin this message" }).click();
  await until(async () => (await pins()).length === 1, "the pin");
  await page.close();
});

test("the newest batch is undone, and only after a confirmation", async (world) => {
  const before = await world.api(`sessions/${world.session.id}/log`);
  const page = await world.page(world.at("/edits"));
  await page.locator("button", { hasText: `Undo batch ${before.undoable}` }).click();
  await page.keyboard.press("Escape");
  assert.equal((await world.api(`sessions/${world.session.id}/log`)).undoable, before.undoable);
  await page.locator("button", { hasText: `Undo batch ${before.undoable}` }).click();
  await page.locator("dialog button.primary").click();
  await page.locator(".batch.undone").first().waitFor();
  const after = await world.api(`sessions/${world.session.id}/log`);
  assert.notEqual(after.undoable, before.undoable);
  assert.ok(after.items.find((batch) => batch.number === before.undoable).undone);
});
