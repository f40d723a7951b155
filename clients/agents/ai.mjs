// An agent with one tool, made with the AI SDK; its history is in the user's home.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

import { openai } from "@ai-sdk/openai";
import * as ai from "ai";
import { z } from "zod";

const history = join(homedir(), "history.json");
const messages = existsSync(history) ? JSON.parse(readFileSync(history, "utf8")) : [];
messages.push({ role: "user", content: process.argv[2] });

const bash = ai.tool({
  description: "Runs a command.",
  inputSchema: z.object({ command: z.string() }),
  execute: async ({ command }) => {
    const done = spawnSync("bash", ["-c", command], { encoding: "utf8", maxBuffer: 1 << 26 });
    return done.stdout + done.stderr || "(nothing was printed)";
  },
});

// What is done is kept at once: whoever is killed goes on from there, and never finds half a file.
const keep = (said) => {
  writeFileSync(`${history}.new`, JSON.stringify([...messages, ...said]));
  renameSync(`${history}.new`, history);
};
const most = ai.stepCountIs ?? ai.isStepCount;
let said = [];
const result = await ai.generateText({
  model: openai("gpt-4o"),
  system: "You mend programs.",
  tools: { bash },
  stopWhen: most(200),
  onStepFinish: ({ response }) => {
    said = response.messages.length > said.length ? response.messages : [...said, ...response.messages];
    keep(said);
  },
  messages,
});
console.log(result.text);
