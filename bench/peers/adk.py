"""Google ADK: `ContextFilterPlugin`."""

import asyncio
import json

import tokens
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.genai import types


class Filter:
    """It keeps the newest invocations (a user message and all that follows), whatever their size: so many
    as the budget holds at the session's mean, which the peer could not know beforehand."""

    def __init__(self, budget, messages):
        share = budget / tokens.messages(messages)
        users = sum(message["role"] == "user" for message in messages)
        self.plugin = ContextFilterPlugin(num_invocations_to_keep=max(1, int(users * share)))
        self.names = {}
        self.places = {}

    def load(self, at, message):
        content = types.Content(role=self.role(message), parts=list(self.parts(message)))
        self.places[id(content)] = at
        return content

    def role(self, message):
        return {"assistant": "model", "system": "system"}.get(message["role"], "user")

    def parts(self, message):
        text = message.get("content") or ""
        if message["role"] == "tool":
            call = message["tool_call_id"]
            name = self.names.get(call, "tool")
            response = types.FunctionResponse(id=call, name=name, response={"result": text})
            yield types.Part(function_response=response)
            return
        if text:
            yield types.Part(text=text)
        for call in message.get("tool_calls") or []:
            function = call["function"]
            self.names[call["id"]] = function["name"]
            try:
                arguments = json.loads(function["arguments"])
            except ValueError:
                arguments = {"arguments": function["arguments"]}
            part = types.FunctionCall(id=call["id"], name=function["name"], args=arguments)
            yield types.Part(function_call=part)

    def fit(self, contents):
        # The system prompt is an instruction of the agent, and not among the contents.
        system = contents[:1] if contents[0].role == "system" else []
        request = LlmRequest(contents=[])
        request.contents = contents[len(system):]
        callback = self.plugin.before_model_callback(callback_context=None, llm_request=request)
        asyncio.run(callback)
        return system + request.contents

    def dump(self, content, originals):
        return originals[self.places[id(content)]]
