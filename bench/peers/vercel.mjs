// Vercel's `ai`: `pruneMessages`, as its documentation sets it. Tasks and output are those of peer.py.
//
// `node vercel.mjs PACKAGES TASK FILE BUDGET [TIMES]`: it has no budget, so that is only taken.

import { readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, task, file, , times] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const { pruneMessages } = require("ai");
const { messages } = JSON.parse(readFileSync(file, "utf8"));

// Names of tools by the ids of their calls: results have them in this library.
const names = new Map();

function load(message) {
  const text = message.content ?? "";
  if (message.role === "tool") {
    const result = {
      type: "tool-result",
      toolCallId: message.tool_call_id,
      toolName: names.get(message.tool_call_id) ?? "tool",
      output: { type: "text", value: text },
    };
    return { role: "tool", content: [result], original: message };
  }
  if (!message.tool_calls) return { role: message.role, content: text, original: message };
  const content = text ? [{ type: "text", text }] : [];
  for (const { id, function: call } of message.tool_calls) {
    names.set(id, call.name);
    content.push({ type: "tool-call", toolCallId: id, toolName: call.name, input: call.arguments });
  }
  return { role: "assistant", content, original: message };
}

function dump({ content, original }) {
  if (original.role !== "assistant" || typeof content === "string") return original;
  const kept = new Set(content.map((part) => part.toolCallId));
  const text = content.find((part) => part.type === "text")?.text ?? null;
  const calls = (original.tool_calls ?? []).filter((call) => kept.has(call.id));
  if (calls.length === (original.tool_calls ?? []).length) return original;
  return calls.length ? { ...original, content: text, tool_calls: calls } : { role: "assistant", content: text };
}

function prune(loaded) {
  return pruneMessages({
    messages: loaded,
    reasoning: "before-last-message",
    toolCalls: "before-last-2-messages",
    emptyMessages: "remove",
  });
}

function answer(fields) {
  const text = Buffer.from(`${JSON.stringify(fields)}\n`);
  for (let at = 0; at < text.length; ) {
    try {
      at += writeSync(1, text, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

if (task === "fit") {
  const [cpu_ms, wall_ms] = [[], []];
  let window;
  for (let time = 0; time < Number(times); time += 1) {
    const loaded = messages.map(load);
    const cpu = process.cpuUsage();
    const wall = performance.now();
    window = prune(loaded);
    wall_ms.push(performance.now() - wall);
    const { user, system } = process.cpuUsage(cpu);
    cpu_ms.push((user + system) / 1000);
  }
  answer({ cpu_ms, wall_ms, window: window.map(dump) });
} else {
  const loaded = [];
  for (const [at, message] of messages.entries()) {
    if (message.role === "assistant" && at > 0) answer({ messages: prune([...loaded]).map(dump) });
    loaded.push(load(message));
  }
}
