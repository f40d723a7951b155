"""LiteLLM: `trim_messages`."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from litellm.utils import trim_messages  # noqa: E402


class Trim:
    """The model's name has it count with o200k; a budget is given as `max_tokens`."""

    def __init__(self, budget, messages):
        self.budget = budget

    def load(self, at, message):
        return message

    def fit(self, messages):
        return trim_messages(messages, model="gpt-4o", max_tokens=self.budget)

    def dump(self, message, originals):
        return message
