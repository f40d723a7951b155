"""Uses an MCP server as an agent would, over one transport and with one handshake, and prints what it saw as JSON.

    mcp_calls.py stdio PROGRAM ARCHIVE MODE
    mcp_calls.py http URL TOKEN MODE
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

way, place, secret, mode = sys.argv[1:]


def text(result):
    return [result.content[0].text, bool(result.is_error)]


async def use(client):
    seen = {"tools": [tool.name for tool in (await client.list_tools()).tools]}
    seen["found"] = text(await client.call_tool("search", {"query": "port of the parser"}))
    handle = seen["found"][0].split(" ")[0]
    seen["read"] = text(await client.call_tool("read", {"handle": handle}))
    seen["sessions"] = text(await client.call_tool("sessions", {}))
    seen["wrong"] = text(await client.call_tool("read", {"handle": "h:000000000000"}))
    many = [client.call_tool("search", {"query": f"parser {number}"}) for number in range(12)]
    seen["many"] = [bool(result.is_error) for result in await asyncio.gather(*many)]
    resources = (await client.list_resources()).resources
    seen["resource"] = (await client.read_resource(resources[0].uri)).contents[0].text
    seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
    prompt = await client.get_prompt("resume", {"session": resources[0].name})
    seen["prompt"] = prompt.messages[0].content.text
    try:
        await client.get_prompt("none", {})
        seen["error"] = None
    except MCPError as error:
        seen["error"] = str(error)
    return seen


async def main():
    if way == "stdio":
        arguments = ["mcp", "--scope", "all", "--archive", secret]
        server = StdioServerParameters(command=place, args=arguments)
        async with Client(server, mode=mode, read_timeout_seconds=60) as client:
            return await use(client)
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}) as http:
        server = streamable_http_client(place, http_client=http)
        async with Client(server, mode=mode, read_timeout_seconds=60) as client:
            return await use(client)


print(json.dumps(asyncio.run(main())))
