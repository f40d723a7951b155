"""Semantic Kernel: `ChatHistoryTruncationReducer`."""

import asyncio

import tokens
from semantic_kernel.contents import (
    AuthorRole, ChatHistoryTruncationReducer, ChatMessageContent, FunctionCallContent,
    FunctionResultContent, TextContent,
)


class Truncation:
    """It keeps so many messages, whatever their size: so many as the budget holds at the session's mean,
    which the peer could not know beforehand. What it dropped stays dropped."""

    def __init__(self, budget, messages):
        share = budget / tokens.messages(messages)
        self.history = ChatHistoryTruncationReducer(target_count=max(2, int(len(messages) * share)))
        self.taken = 0

    def load(self, at, message):
        return ChatMessageContent(
            role=AuthorRole(message["role"]), items=list(self.items(message)), metadata={"at": at}
        )

    def items(self, message):
        text = message.get("content") or ""
        if message["role"] == "tool":
            yield FunctionResultContent(id=message["tool_call_id"], result=text)
            return
        if text:
            yield TextContent(text=text)
        for call in message.get("tool_calls") or []:
            function = call["function"]
            yield FunctionCallContent(
                id=call["id"], name=function["name"], arguments=function["arguments"]
            )

    def fit(self, messages):
        self.history.messages.extend(messages[self.taken:])
        self.taken = len(messages)
        asyncio.run(self.history.reduce())
        return self.history.messages

    def dump(self, message, originals):
        return originals[message.metadata["at"]]
