"""An agent with one tool, made with the OpenAI Agents SDK; its history is in the user's home."""

import asyncio
import os
import sys

from agents import Agent, Runner, SQLiteSession, function_tool, set_tracing_disabled

from shell import run

set_tracing_disabled(True)


@function_tool
def bash(command: str) -> str:
    """Runs a command."""
    return run(command)


async def main() -> None:
    agent = Agent(name="Worker", instructions="You mend programs.", model="gpt-4o", tools=[bash])
    session = SQLiteSession("task", os.path.expanduser("~/history.db"))
    result = await Runner.run(agent, sys.argv[1], session=session, max_turns=100)
    print(result.final_output)


asyncio.run(main())
