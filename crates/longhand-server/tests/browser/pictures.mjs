// The pictures of the documents: the demo in a real browser. `cargo xtask screenshots` runs this.

import { statSync } from "node:fs";
import { launch, open, Program } from "./kit.mjs";

const BYTES_MAX = 300 * 1024;
const folder = process.argv[2];

const browser = await launch();
const demo = new Program(["demo", "--fast", "--no-open"]);
try {
  const [, link] = await demo.printed(/^console (http\S+)/m);
  await demo.printed(/The console stays open/);
  const origin = new URL(link).origin;
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1 });
  const first = await open(context, link);
  await first.locator(".row").first().waitFor();
  const answer = await context.request.get(`${origin}/longhand/api/v1/sessions`);
  const { items } = await answer.json();
  const { id } = items.reduce((one, other) => (one.entries > other.entries ? one : other));
  const take = async (name, hash, { dark = false, height = 800, before = async () => {} } = {}) => {
    const page = await open(context, `${origin}/longhand/console/${hash}`);
    await page.setViewportSize({ width: 1280, height });
    await page.emulateMedia({ colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
    await page.locator("main h1").waitFor();
    await page.waitForTimeout(600);
    await before(page);
    const path = `${folder}/${name}.png`;
    await page.screenshot({ path });
    const { size } = statSync(path);
    console.log(`${name}.png ${(size / 1024).toFixed(0)} KB`);
    if (size > BYTES_MAX) throw new Error(`${name}.png has ${size} bytes, ${BYTES_MAX} are allowed`);
    await page.close();
  };
  await take("console-session", `#/session/${id}`, { height: 900, before: (page) => page.locator(".map a.k-fold").hover() });
  await take("console-sent", `#/session/${id}/requests`, { dark: true, height: 700, before: (page) => page.locator(".compare-item.left_out summary").first().click() });
  await take("console-savings", "#/savings", { height: 560 });
} finally {
  await browser.close();
  await demo.stop();
}
