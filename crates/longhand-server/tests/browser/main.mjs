// The console in a real browser: `cargo xtask test-browser` runs this with the programs that it needs.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { launch, open, Program, runAll } from "./kit.mjs";
import "./views.mjs";
import "./writes.mjs";
import "./people.mjs";
import "./hostile.mjs";

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

  /** A session whose old results are stubs: the example, sent through a proxy that elides. */
  async elided() {
    this.elidedWorld ??= this.makeElided();
    return this.elidedWorld;
  }

  async makeElided() {
    const message = { role: "assistant", content: "Done." };
    const answer = { id: "a", object: "chat.completion", created: 0, model: "gpt-5-mini", choices: [{ index: 0, message, finish_reason: "stop" }], usage: { prompt_tokens: 100, completion_tokens: 2, total_tokens: 102 } };
    const model = createServer((request, response) => {
      request.resume().on("end", () => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer)));
    });
    await new Promise((resolve) => model.listen(0, "127.0.0.1", resolve));
    const archive = `${process.env.LONGHAND_FOLDER}/elided.db`;
    const upstream = `http://127.0.0.1:${model.address().port}`;
    const proxy = new Program(["serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--budget", "12000", "--policy", "elide", "--archive", archive]);
    const [, origin] = await proxy.printed(/^listening (http\S+)/m);
    const example = JSON.parse(readFileSync(new URL("../../../../examples/long-session.json", import.meta.url), "utf8"));
    const ends = example.messages.flatMap((one, at) => (one.role === "user" ? [at + 1] : []));
    for (const end of ends) await this.send(example.messages.slice(0, end), { origin, tools: example.tools });
    await proxy.stop();
    model.close();
    const { link } = await this.large(archive);
    const context = await this.login(link);
    const place = new URL(link).origin;
    const listed = await (await context.request.get(`${place}/longhand/api/v1/sessions`)).json();
    return { origin: place, context, id: listed.items[0].id };
  }

  /** Starts a console on another archive. */
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
  async send(messages, { origin = this.demoOrigin, tools } = {}) {
    const answer = await fetch(`${origin}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt-5-mini", messages, tools }),
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

// Archives this large take minutes to make: `cargo xtask test-browser large`.
if (process.env.LONGHAND_MANY) await import("./large.mjs");

const world = new World();
let failures = 1;
try {
  await world.start();
  failures = await runAll(world, process.argv[2]);
} finally {
  await world.stop();
}
process.exit(failures === 0 ? 0 : 1);
