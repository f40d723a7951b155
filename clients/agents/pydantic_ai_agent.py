"""An agent with one tool, made with Pydantic AI; its history is in the user's home."""

import os
import sys

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelMessagesTypeAdapter

from shell import run

HISTORY = os.path.expanduser("~/history.json")

agent = Agent("openai:gpt-4o", instructions="You mend programs.")


@agent.tool_plain
def bash(command: str) -> str:
    """Runs a command."""
    return run(command)


messages = None
if os.path.exists(HISTORY):
    with open(HISTORY, "rb") as file:
        messages = ModelMessagesTypeAdapter.validate_json(file.read())
result = agent.run_sync(
    sys.argv[1], message_history=messages, usage_limits=UsageLimits(request_limit=200)
)
with open(HISTORY + ".new", "wb") as file:
    file.write(result.all_messages_json())
os.replace(HISTORY + ".new", HISTORY)
print(result.output)
