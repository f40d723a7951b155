// What the browser tests share: programs that run, a browser, and a way to name and time tests.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const modules = createRequire(`${process.env.LONGHAND_BROWSER_MODULES}/package.json`);
const { chromium } = modules("playwright-core");
const axe = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");

export { assert };

const PATIENCE_MS = 20_000;
const TEST_MS_MAX = 90_000;

/** A program of ours, with what it has printed. */
export class Program {
  static running = new Set();

  constructor(words, environment = {}) {
    this.text = "";
    this.child = spawn(process.env.LONGHAND_BINARY, words, { env: { ...process.env, ...environment }, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr]) stream.on("data", (bytes) => (this.text += bytes));
    Program.running.add(this);
    this.ended = new Promise((resolve) => this.child.on("exit", resolve));
  }

  /** Waits until it has printed something. */
  async printed(pattern) {
    return until(() => pattern.exec(this.text), `${pattern} in:\n${this.text}`);
  }

  async stop() {
    this.child.kill("SIGTERM");
    await this.ended;
    Program.running.delete(this);
  }
}

export async function until(check, what, patience_ms = PATIENCE_MS) {
  const end = Date.now() + patience_ms;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not seen in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** A browser that asks nobody but us. */
export async function launch() {
  const quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  const args = process.getuid?.() === 0 ? ["--no-sandbox", ...quiet] : quiet;
  return chromium.launch({ executablePath: process.env.LONGHAND_CHROMIUM, args });
}

/** A page that fails its test if a script of it fails, or if it breaks its own content-security policy. */
export async function open(context, address) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(`error in the page: ${error.message}`));
  page.on("console", (message) => {
    if (/Content.Security.Policy/i.test(message.text())) page.problems.push(message.text());
  });
  await page.goto(address);
  return page;
}

/** What axe finds, serious or worse, on the page as it is. */
export async function complaints(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations
    .filter((violation) => ["serious", "critical"].includes(violation.impact))
    .map((violation) => `${violation.id}: ${violation.help}: ${violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
}

/** Whether the page is wider than the window. */
export const isTooWide = (page) => page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);

const tests = [];

export function test(name, run) {
  tests.push({ name, run });
}

/** Runs all tests whose names contain a text, one after another. */
export async function runAll(world, filter = "") {
  let failures = 0;
  const wanted = tests.filter((one) => one.name.includes(filter));
  for (const { name, run } of wanted) {
    const start = Date.now();
    let timer;
    try {
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not done in ${TEST_MS_MAX / 1000} s`)), TEST_MS_MAX);
      });
      const note = await Promise.race([run(world), late]);
      console.log(`ok    ${name} (${Date.now() - start} ms)${note ? `: ${note}` : ""}`);
    } catch (error) {
      failures += 1;
      console.log(`FAIL  ${name}: ${error.stack}`);
    } finally {
      clearTimeout(timer);
      await world.closePages();
    }
  }
  console.log(failures === 0 ? `${wanted.length} tests, all pass` : `${failures} of ${wanted.length} tests failed`);
  return failures;
}
