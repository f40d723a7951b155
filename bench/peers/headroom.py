"""headroom-ai: `compress`."""

import os

os.environ.setdefault("HEADROOM_TELEMETRY", "off")

from headroom import compress  # noqa: E402


class Compress:
    """Its language model for prose comes from another host than the packages, so it is off.

    In a loop, what was sent before is handed in again and said to be frozen, as the documentation asks.
    """

    def __init__(self, budget, messages):
        self.budget = budget
        self.taken = 0
        self.window = []

    def load(self, at, message):
        return message

    def fit(self, messages):
        frozen = len(self.window)
        self.window = self.window + messages[self.taken:]
        self.taken = len(messages)
        self.window = compress(
            self.window,
            model="gpt-4o",
            model_limit=self.budget,
            kompress_model="disabled",
            frozen_message_count=frozen,
        ).messages
        return self.window

    def dump(self, message, originals):
        return message
