"""LlamaIndex: `ChatMemoryBuffer`."""

import tokens
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.memory import ChatMemoryBuffer


class _Counted(ChatMemoryBuffer):
    """Counts message by message, from memory: the count of all text anew for each message that is dropped
    would take hours for a replay. It differs by less than a token a message."""

    def _token_count_for_messages(self, messages):
        return sum(tokens.counted(message.content) for message in messages)


class Buffer:
    """Chat engines keep the system prompt beside the buffer, and tell it how many tokens that takes."""

    buffer = ChatMemoryBuffer

    def __init__(self, budget, messages):
        self.budget = budget

    def load(self, at, message):
        return ChatMessage(
            role=MessageRole(message["role"]),
            content=message.get("content") or "",
            additional_kwargs={"at": at},
        )

    def fit(self, messages):
        system = messages[:1] if messages[0].role == MessageRole.SYSTEM else []
        memory = self.buffer.from_defaults(
            chat_history=messages[len(system):], token_limit=self.budget, tokenizer_fn=tokens.encode
        )
        taken = sum(tokens.counted(message.content) for message in system)
        return system + memory.get(initial_token_count=taken)

    def dump(self, message, originals):
        return originals[message.additional_kwargs["at"]]


class CountedBuffer(Buffer):
    buffer = _Counted
