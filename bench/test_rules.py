"""The rules themselves: for each, a window that keeps it and one that breaks it."""

import unittest

import rules
import tokens

SYSTEM = {"role": "system", "content": "Be brief."}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}
OLD = {"role": "user", "content": "Look at a."}
NEW = {"role": "user", "content": "And now?"}
REQUEST = [SYSTEM, OLD, ASKS, RESULT, {"role": "assistant", "content": "42."}, NEW]


class Rules(unittest.TestCase):
    def check(self, expected, window, budget=1_000):
        broken = {name for name, rule in rules.RULES.items() if not rule(REQUEST, window, budget)}
        self.assertEqual(broken, set(expected))

    def test_a_request_keeps_all_rules(self):
        self.check([], REQUEST)
        self.check([], [SYSTEM, NEW])

    def test_a_window_of_one_token_too_many_is_over(self):
        size = tokens.messages(REQUEST)
        self.check([], REQUEST, size)
        self.check(["within budget"], REQUEST, size - 1)

    def test_results_and_calls_belong_together(self):
        self.check(["calls paired"], [SYSTEM, OLD, RESULT, NEW])
        self.check(["calls paired"], [SYSTEM, OLD, ASKS, NEW])
        self.check(["calls paired"], [SYSTEM, OLD, RESULT, ASKS, NEW])
        self.check(["calls paired"], [SYSTEM, NEW, ASKS])

    def test_the_system_prompt_stays_first_and_as_it_was(self):
        self.check(["system kept"], [NEW])
        self.check(["system kept"], [NEW, SYSTEM])
        self.check(["system kept"], [{**SYSTEM, "content": "Be .. brief"}, NEW])

    def test_the_newest_user_message_stays(self):
        self.check(["last user kept"], [SYSTEM, OLD])
        self.check(["last user kept"], [SYSTEM, {"role": "assistant", "content": "And now?"}])

    def test_nothing_is_empty(self):
        self.check(["last user kept", "nothing empty"], [SYSTEM])
        self.check(["nothing empty"], [SYSTEM, {"role": "assistant", "content": " "}, NEW])
        self.check(["last user kept", "nothing empty", "system kept"], [])

    def test_a_message_counts_as_openai_says(self):
        self.assertEqual(tokens.messages([{"role": "user", "content": "hello world"}]), 3 + 4 + 2)


if __name__ == "__main__":
    unittest.main()
