"""An agent with one tool, made with LangChain; its history is in the user's home."""

import json
import os
import sys

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, messages_from_dict, messages_to_dict
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from shell import run

HISTORY = os.path.expanduser("~/history.json")


@tool
def bash(command: str) -> str:
    """Runs a command."""
    return run(command)


agent = create_agent(ChatOpenAI(model="gpt-4o"), [bash], system_prompt="You mend programs.")
messages = []
if os.path.exists(HISTORY):
    with open(HISTORY, encoding="utf-8") as file:
        messages = messages_from_dict(json.load(file))
messages.append(HumanMessage(sys.argv[1]))
state = {"messages": messages}
for state in agent.stream({"messages": messages}, {"recursion_limit": 500}, stream_mode="values"):
    # A call without its result must not be what the next run begins with.
    if not getattr(state["messages"][-1], "tool_calls", None):
        with open(HISTORY + ".new", "w", encoding="utf-8") as file:
            json.dump(messages_to_dict(state["messages"]), file)
        os.replace(HISTORY + ".new", HISTORY)
print(state["messages"][-1].text)
