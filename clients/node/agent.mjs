// Runs a tool loop with a provider's own client and prints what it saw as JSON.

import { parseArgs } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const system = "You look things up with the tool before you answer.";
const parameters = {
  type: "object",
  properties: { topic: { type: "string" } },
  required: ["topic"],
  additionalProperties: false,
};

// Some text that no other call gets.
function lookUp(id, args, lines) {
  const { topic = "" } = JSON.parse(args || "{}");
  const line = (at) => `${id}: "${topic}" in C:\\notes\\${at}.txt is at höhe ${at * 37}\n`;
  return Array.from({ length: lines }, (_, at) => line(at)).join("");
}

class Chat {
  constructor(options) {
    const { url, key, model, maxTokens } = options;
    this.client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
    this.stream = options.stream;
    this.history = [];
    const tool = { type: "function", function: { name: "look_up", parameters, strict: true } };
    this.request = { model, max_tokens: maxTokens, tools: [tool] };
  }

  say(content) {
    this.history.push({ role: "user", content });
  }

  call(id, args) {
    const call = { id, type: "function", function: { name: "look_up", arguments: args } };
    this.history.push({ role: "assistant", content: null, tool_calls: [call] });
  }

  handIn(results) {
    for (const [tool_call_id, content] of results) {
      this.history.push({ role: "tool", tool_call_id, content });
    }
  }

  async ask(choice) {
    const tool_choice = choice === "any" ? "required" : choice;
    const messages = [{ role: "system", content: system }, ...this.history];
    const request = { ...this.request, tool_choice, messages, stream: this.stream };
    const answer = await this.client.chat.completions.create(request);
    const reply = this.stream ? await this.collect(answer) : answer.choices[0].message;
    this.history.push(reply);
    const calls = reply.tool_calls ?? [];
    return [reply.content ?? "", calls.map((call) => [call.id, call.function.arguments])];
  }

  async collect(chunks) {
    let text = "";
    const calls = [];
    for await (const { choices } of chunks) {
      for (const { delta } of choices) {
        text += delta.content ?? "";
        for (const { index, id, function: piece } of delta.tool_calls ?? []) {
          calls[index] ??= { id, type: "function", function: { name: "", arguments: "" } };
          calls[index].function.name += piece.name ?? "";
          calls[index].function.arguments += piece.arguments ?? "";
        }
      }
    }
    const reply = { role: "assistant", content: text || null };
    return calls.length ? { ...reply, tool_calls: calls } : reply;
  }
}

class Responses {
  constructor(options) {
    const { url, key, model, maxTokens } = options;
    this.client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
    this.options = options;
    this.history = [];
    this.sent = 0;
    const tool = { type: "function", name: "look_up", parameters, strict: true };
    this.request = { model, max_output_tokens: maxTokens, instructions: system, tools: [tool] };
  }

  say(content) {
    this.history.push({ role: "user", content });
  }

  call(call_id, args) {
    this.history.push({ type: "function_call", call_id, name: "look_up", arguments: args });
  }

  handIn(results) {
    for (const [call_id, output] of results) {
      this.history.push({ type: "function_call_output", call_id, output });
    }
  }

  async ask(choice) {
    const { stream, held } = this.options;
    const tool_choice = choice === "any" ? "required" : choice;
    const request = { ...this.request, tool_choice, input: this.history, stream };
    if (held && this.lastId) {
      request.input = this.history.slice(this.sent);
      request.previous_response_id = this.lastId;
    }
    let response = await this.client.responses.create(request);
    if (stream) {
      let last;
      for await (const event of response) last = event.response ?? last;
      response = last;
    }
    this.lastId = response.id;
    this.history.push(...response.output);
    this.sent = this.history.length;
    const calls = response.output.filter((item) => item.type === "function_call");
    const messages = response.output.filter((item) => item.type === "message");
    const text = messages.flatMap((item) => item.content.map((part) => part.text)).join("");
    return [text, calls.map((call) => [call.call_id, call.arguments])];
  }
}

class Messages {
  constructor(options) {
    const { url, key, model, maxTokens } = options;
    this.client = new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0 });
    this.stream = options.stream;
    this.history = [];
    const tool = { name: "look_up", input_schema: parameters };
    this.request = { model, max_tokens: maxTokens, system, tools: [tool] };
  }

  say(content) {
    this.history.push({ role: "user", content });
  }

  call(id, args) {
    const call = { type: "tool_use", id, name: "look_up", input: JSON.parse(args) };
    this.history.push({ role: "assistant", content: [call] });
  }

  handIn(results) {
    const block = ([tool_use_id, content]) => ({ type: "tool_result", tool_use_id, content });
    this.history.push({ role: "user", content: results.map(block) });
  }

  async ask(choice) {
    const request = { ...this.request, tool_choice: { type: choice }, messages: this.history };
    const message = this.stream
      ? await this.client.messages.stream(request).finalMessage()
      : await this.client.messages.create(request);
    const { role, content } = message;
    this.history.push({ role, content });
    const texts = content.filter((block) => block.type === "text");
    const calls = content.filter((block) => block.type === "tool_use");
    const text = texts.map((block) => block.text).join("");
    return [text, calls.map((call) => [call.id, JSON.stringify(call.input)])];
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    stream: { type: "boolean", default: false },
    held: { type: "boolean", default: false },
    "own-calls": { type: "boolean", default: false },
    lines: { type: "string", default: "20" },
    model: { type: "string", default: "scripted" },
    key: { type: "string", default: "sk-none" },
    "max-tokens": { type: "string", default: "200" },
  },
});
const [url, api, turns] = positionals;
const Agent = { chat: Chat, responses: Responses, messages: Messages }[api];
const agent = new Agent({ url, ...values, maxTokens: Number(values["max-tokens"]) });
const [answers, called] = [[], []];
let calls = [];
for (let turn = 0; turn < Number(turns); turn++) {
  if (!calls.length) {
    agent.say(`Question ${turn} of the ${api} client: what do the notes say?`);
    if (values["own-calls"]) {
      calls = [[`own_${turn}`, JSON.stringify({ topic: `question ${turn}` })]];
      agent.call(...calls[0]);
    }
  }
  const lines = Number(values.lines);
  if (calls.length) agent.handIn(calls.map(([id, args]) => [id, lookUp(id, args, lines)]));
  let text;
  [text, calls] = await agent.ask(turn % 3 === 2 ? "auto" : "any");
  answers.push(text);
  called.push(calls.map(([id]) => id));
}
console.log(JSON.stringify({ answers, calls: called, history: agent.history }));
