// Uses an MCP server as an agent would, over one transport, and prints what it saw as JSON.
//
//     mcp_calls.mjs stdio PROGRAM ARCHIVE MODE
//     mcp_calls.mjs http URL TOKEN MODE

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [way, place, secret] = process.argv.slice(2);
const transport =
  way === "stdio"
    ? new StdioClientTransport({
        command: place,
        args: ["mcp", "--scope", "all", "--archive", secret],
        env: process.env,
      })
    : new StreamableHTTPClientTransport(new URL(place), {
        requestInit: { headers: { Authorization: `Bearer ${secret}` } },
      });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);

const call = async (name, args) => {
  const result = await client.callTool({ name, arguments: args });
  return [result.content[0].text, result.isError === true];
};
const seen = { tools: (await client.listTools()).tools.map((tool) => tool.name) };
seen.found = await call("search", { query: "port of the parser" });
seen.read = await call("read", { handle: seen.found[0].split(" ")[0] });
seen.sessions = await call("sessions", {});
seen.wrong = await call("read", { handle: "h:000000000000" });
const many = Array.from({ length: 12 }, (_, number) => call("search", { query: `parser ${number}` }));
seen.many = (await Promise.all(many)).map(([, isError]) => isError);
const { resources } = await client.listResources();
seen.resource = (await client.readResource({ uri: resources[0].uri })).contents[0].text;
seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
const session = resources[0].name;
const prompt = await client.getPrompt({ name: "resume", arguments: { session } });
seen.prompt = prompt.messages[0].content.text;
seen.error = await client.getPrompt({ name: "none" }).then(
  () => null,
  (error) => error.message,
);
await client.close();
console.log(JSON.stringify(seen));
