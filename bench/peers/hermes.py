"""lossless-hermes-py: `LcmContextEngine`."""

import asyncio
import os
import tempfile

import tokens

_folder = tempfile.mkdtemp(prefix="scoreboard-")
os.environ["LCM_DATABASE_PATH"] = os.path.join(_folder, "lcm.db")

from lossless_hermes import LcmContextEngine, close_database  # noqa: E402


async def _stand_in(messages, max_tokens, **_):
    """In the place of a model, which is asked nowhere here: the beginning of the conversation's turns."""
    text = messages[-1]["content"].split("Conversation turns:", 1)[-1]
    return {"choices": [{"message": {"content": text[: max_tokens * 2]}}]}


class Engine:
    """Used as its standalone example shows; what it returns goes on as the conversation."""

    count = 0

    def __init__(self, budget, messages):
        Engine.count += 1
        close_database()
        asyncio.set_event_loop(asyncio.new_event_loop())
        os.environ["LCM_DATABASE_PATH"] = os.path.join(_folder, f"{Engine.count}.db")
        self.engine = LcmContextEngine(
            model="none", provider="none", config_context_length=budget, plugin_config={}
        )
        self.engine.call_llm_fn = _stand_in
        self.engine.on_session_start("scoreboard")
        self.taken = 0
        self.window = []

    def load(self, at, message):
        return message

    def fit(self, messages):
        self.window = self.window + messages[self.taken:]
        self.taken = len(messages)
        size = tokens.messages(self.window)
        if self.engine.should_compress(prompt_tokens=size):
            self.window = self.engine.compress(self.window, current_tokens=size)
        return self.window

    def dump(self, message, originals):
        return message
