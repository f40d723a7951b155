"""Runs a tool loop with a provider's own client and prints what it saw as JSON."""

import argparse
import json

import anthropic
import openai

SYSTEM = "You look things up with the tool before you answer."
PARAMETERS = {
    "type": "object",
    "properties": {"topic": {"type": "string"}},
    "required": ["topic"],
    "additionalProperties": False,
}


def look_up(call_id, arguments, lines):
    """Some text that no other call gets."""
    topic = json.loads(arguments or "{}").get("topic", "")
    line = '{}: "{}" in C:\\notes\\{:02}.txt is at höhe {}\n'
    return "".join(line.format(call_id, topic, at, at * 37) for at in range(lines))


class Chat:
    def __init__(self, options):
        self.client = openai.OpenAI(base_url=f"{options.url}/v1", api_key=options.key, max_retries=0)
        self.options = options
        self.history = []
        function = {"name": "look_up", "parameters": PARAMETERS, "strict": True}
        self.request = {
            "model": options.model,
            "max_tokens": options.max_tokens,
            "tools": [{"type": "function", "function": function}],
        }

    def say(self, text):
        self.history.append({"role": "user", "content": text})

    def call(self, call_id, arguments):
        function = {"name": "look_up", "arguments": arguments}
        calls = [{"id": call_id, "type": "function", "function": function}]
        self.history.append({"role": "assistant", "content": None, "tool_calls": calls})

    def hand_in(self, results):
        for call_id, text in results:
            self.history.append({"role": "tool", "tool_call_id": call_id, "content": text})

    def ask(self, choice):
        request = {**self.request, "tool_choice": {"any": "required"}.get(choice, choice)}
        request["messages"] = [{"role": "system", "content": SYSTEM}, *self.history]
        if self.options.stream:
            reply = self.collect(self.client.chat.completions.create(**request, stream=True))
        else:
            message = self.client.chat.completions.create(**request).choices[0].message
            reply = message.to_dict(exclude_none=True)
        self.history.append(reply)
        calls = [(call["id"], call["function"]["arguments"]) for call in reply.get("tool_calls", [])]
        return reply.get("content") or "", calls

    def collect(self, chunks):
        text, calls = "", {}
        for chunk in chunks:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for piece in choice.delta.tool_calls or []:
                    call = calls.setdefault(piece.index, {"id": piece.id, "type": "function"})
                    function = call.setdefault("function", {"name": "", "arguments": ""})
                    function["name"] += piece.function.name or ""
                    function["arguments"] += piece.function.arguments or ""
        reply = {"role": "assistant", "content": text or None}
        return {**reply, "tool_calls": list(calls.values())} if calls else reply


class Responses:
    def __init__(self, options):
        self.client = openai.OpenAI(base_url=f"{options.url}/v1", api_key=options.key, max_retries=0)
        self.options = options
        self.history = []
        self.sent = 0
        self.last_id = None
        tool = {"type": "function", "name": "look_up", "parameters": PARAMETERS, "strict": True}
        self.request = {
            "model": options.model,
            "max_output_tokens": options.max_tokens,
            "instructions": SYSTEM,
            "tools": [tool],
        }

    def say(self, text):
        self.history.append({"role": "user", "content": text})

    def call(self, call_id, arguments):
        call = {"type": "function_call", "call_id": call_id, "name": "look_up"}
        self.history.append({**call, "arguments": arguments})

    def hand_in(self, results):
        for call_id, text in results:
            self.history.append({"type": "function_call_output", "call_id": call_id, "output": text})

    def ask(self, choice):
        request = {**self.request, "tool_choice": {"any": "required"}.get(choice, choice)}
        request["input"] = self.history
        if self.options.held and self.last_id:
            request["input"] = self.history[self.sent :]
            request["previous_response_id"] = self.last_id
        if self.options.stream:
            for event in self.client.responses.create(**request, stream=True):
                response = getattr(event, "response", None) or response
        else:
            response = self.client.responses.create(**request)
        self.last_id = response.id
        self.history += [item.to_dict(exclude_none=True) for item in response.output]
        self.sent = len(self.history)
        calls = [item for item in response.output if item.type == "function_call"]
        return response.output_text, [(call.call_id, call.arguments) for call in calls]


class Messages:
    def __init__(self, options):
        self.client = anthropic.Anthropic(base_url=options.url, api_key=options.key, max_retries=0)
        self.options = options
        self.history = []
        self.request = {
            "model": options.model,
            "max_tokens": options.max_tokens,
            "system": SYSTEM,
            "tools": [{"name": "look_up", "input_schema": PARAMETERS}],
        }

    def say(self, text):
        self.history.append({"role": "user", "content": text})

    def call(self, call_id, arguments):
        call = {"type": "tool_use", "id": call_id, "name": "look_up", "input": json.loads(arguments)}
        self.history.append({"role": "assistant", "content": [call]})

    def hand_in(self, results):
        blocks = [
            {"type": "tool_result", "tool_use_id": call_id, "content": text}
            for call_id, text in results
        ]
        self.history.append({"role": "user", "content": blocks})

    def ask(self, choice):
        request = {**self.request, "tool_choice": {"type": choice}, "messages": self.history}
        if self.options.stream:
            with self.client.messages.stream(**request) as stream:
                message = stream.get_final_message()
        else:
            message = self.client.messages.create(**request)
        blocks = [block.to_dict(exclude_none=True) for block in message.content]
        self.history.append({"role": "assistant", "content": blocks})
        text = "".join(block.text for block in message.content if block.type == "text")
        calls = [block for block in message.content if block.type == "tool_use"]
        return text, [(call.id, json.dumps(call.input)) for call in calls]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url", help="up to the port")
    parser.add_argument("api", choices=["chat", "responses", "messages"])
    parser.add_argument("turns", type=int)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--held", action="store_true", help="the server holds the history")
    parser.add_argument("--own-calls", action="store_true", help="for a model that calls no tools")
    parser.add_argument("--lines", type=int, default=20, help="of each result")
    parser.add_argument("--model", default="scripted")
    parser.add_argument("--key", default="sk-none")
    parser.add_argument("--max-tokens", type=int, default=200)
    options = parser.parse_args()
    agent = {"chat": Chat, "responses": Responses, "messages": Messages}[options.api](options)
    answers, calls, called = [], [], []
    for turn in range(options.turns):
        if not calls:
            agent.say(f"Question {turn} of the {options.api} client: what do the notes say?")
            if options.own_calls:
                calls = [(f"own_{turn}", json.dumps({"topic": f"question {turn}"}))]
                agent.call(*calls[0])
        if calls:
            agent.hand_in([(call_id, look_up(call_id, own, options.lines)) for call_id, own in calls])
        text, calls = agent.ask("auto" if turn % 3 == 2 else "any")
        answers.append(text)
        called.append([call_id for call_id, _ in calls])
    print(json.dumps({"answers": answers, "calls": called, "history": agent.history}))


main()
