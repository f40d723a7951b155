// Tries what the clients have beside plain requests and prints what came of it as JSON.

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [url, deadUrl] = process.argv.slice(2);
const chat = [{ role: "user", content: "Hello?" }];
const model = "scripted";

const clients = (base) => [
  new OpenAI({ baseURL: `${base}/v1`, apiKey: "sk-none", maxRetries: 0 }),
  new Anthropic({ baseURL: base, apiKey: "sk-none", maxRetries: 0 }),
];

async function failures(base) {
  const [gpt, claude] = clients(base);
  const requests = [
    () => gpt.chat.completions.create({ model, messages: chat }),
    () => gpt.responses.create({ model, input: chat }),
    () => claude.messages.create({ model, max_tokens: 100, messages: chat }),
  ];
  const found = [];
  for (const request of requests) {
    try {
      await request();
      found.push(null);
    } catch (error) {
      if (!(error instanceof OpenAI.APIError || error instanceof Anthropic.APIError)) throw error;
      found.push([error.constructor.name, error.status, error.message]);
    }
  }
  return found;
}

const [gpt, claude] = clients(url);
const models = [];
for (const client of [gpt, claude]) {
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  models.push(ids);
}
const counted = await claude.messages.countTokens({ model, messages: chat });
const streams = [
  await gpt.chat.completions.stream({ model, messages: chat }).finalContent(),
  (await gpt.responses.stream({ model, input: chat }).finalResponse()).output_text,
  await claude.messages.stream({ model, max_tokens: 100, messages: chat }).finalText(),
];
const refused = await failures(url);
const unreachable = await failures(deadUrl);
console.log(JSON.stringify({ models, tokens: counted.input_tokens, streams, refused, unreachable }));
