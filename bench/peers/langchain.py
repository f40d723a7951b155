"""LangChain: `trim_messages`, and the context editing of its agents."""

import json

import tokens
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import AIMessage, ToolMessage, convert_to_messages, trim_messages


class _Peer:
    def __init__(self, budget, messages):
        self.budget = budget

    def load(self, at, message):
        (loaded,) = convert_to_messages([{**message, "content": message.get("content") or ""}])
        loaded.id = str(at)
        return loaded

    def dump(self, message, originals):
        original = originals[int(message.id)]
        if message.content == (original.get("content") or ""):
            return original
        return {**original, "content": message.content}


def count(messages):
    """The tokens of LangChain's messages, by the rule of all."""
    return tokens.REPLY + sum(map(_count, messages))


def _count(message):
    total = tokens.MESSAGE + tokens.counted(message.content)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            arguments = json.dumps(call["args"], ensure_ascii=False, separators=(",", ":"))
            total += sum(map(tokens.counted, (call["id"], call["name"], arguments)))
    if isinstance(message, ToolMessage):
        total += tokens.counted(message.tool_call_id)
    return total


class Trim(_Peer):
    """As the documentation sets it for the history of an agent."""

    def fit(self, messages):
        return trim_messages(
            messages,
            max_tokens=self.budget,
            token_counter=count,
            strategy="last",
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
            allow_partial=False,
        )


class ContextEditing(_Peer):
    """The middleware with its one strategy: beyond the trigger, all tool results but three are cleared."""

    def __init__(self, budget, messages):
        super().__init__(budget, messages)
        edit = ClearToolUsesEdit(trigger=budget)
        self.middleware = ContextEditingMiddleware(edits=[edit], token_counter=count)

    def fit(self, messages):
        request = ModelRequest(
            model=None, messages=messages, system_message=None, tool_choice=None, tools=[],
            response_format=None, state={"messages": messages}, runtime=None,
        )
        seen = []
        self.middleware.wrap_model_call(request, lambda request: seen.extend(request.messages))
        return seen
