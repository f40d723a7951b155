// The console in a real browser: `cargo xtask test-browser` runs this with the programs that it needs.

import { launch, open, Program, runAll } from "./kit.mjs";
import "./views.mjs";
import "./writes.mjs";
import "./people.mjs";
import "./hostile.mjs";
import "./large.mjs";

/** What all tests look at: a demo that was played, a large archive, and a browser that is logged in to both. */
class World {
  async start() {
    this.browser = await launch();
    this.demo = new Program(["demo", "--fast", "--no-open"]);
    [, this.demoLink] = await this.demo.printed(/^console (http\S+)/m);
    this.demoOrigin = new URL(this.demoLink).origin;
    await this.demo.printed(/The console stays open/);
    this.context = await this.login(this.demoLink);
    const page = await this.api("sessions");
    this.session = page.items.reduce((one, other) => (one.entries > other.entries ? one : other));
    return this;
  }

  /** Starts a console on a large archive. */
  async large(archive) {
    const program = new Program(["console", "--no-open", "--port", "0", "--archive", archive]);
    const [, link] = await program.printed(/^console (http\S+)/m);
    return { program, link };
  }

  async login(link, options = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
    const page = await open(context, link);
    await page.locator("h1, .state h2").first().waitFor();
    await page.close();
    return context;
  }

  /** Another window of the same login, such as a phone's. */
  async same(options) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
    await context.addCookies(await this.context.cookies());
    this.contexts.push(context);
    return context;
  }

  contexts = [];

  async api(path) {
    const answer = await this.context.request.get(`${this.demoOrigin}/longhand/api/v1/${path}`);
    if (!answer.ok()) throw new Error(`${path}: ${answer.status()} ${await answer.text()}`);
    return answer.json();
  }

  /** Opens a place of the console, and waits for its heading. */
  async page(hash, context = this.context) {
    const page = await open(context, `${this.demoOrigin}/longhand/console/${hash}`);
    await page.locator("main h1, main .state h2").first().waitFor();
    return page;
  }

  at(rest = "") {
    return `#/session/${this.session.id}${rest}`;
  }

  /** Sends a conversation through the proxy, as an agent does. */
  async send(messages) {
    const answer = await fetch(`${this.demoOrigin}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-5-mini", messages }),
    });
    if (!answer.ok) throw new Error(`the proxy answered ${answer.status}`);
  }

  async closePages() {
    for (const context of this.contexts.splice(0)) await context.close();
    for (const page of this.context.pages()) await page.close();
  }

  async stop() {
    await this.browser.close();
    for (const program of [...Program.running]) await program.stop();
  }
}

const world = new World();
let failures = 1;
try {
  await world.start();
  failures = await runAll(world, process.argv[2]);
} finally {
  await world.stop();
}
process.exit(failures === 0 ? 0 : 1);
