"""Tries what the clients have beside plain requests and prints what came of it as JSON."""

import json
import sys

import anthropic
import openai

url, dead_url = sys.argv[1:]
chat = [{"role": "user", "content": "Hello?"}]


def clients(base):
    yield openai.OpenAI(base_url=f"{base}/v1", api_key="sk-none", max_retries=0)
    yield anthropic.Anthropic(base_url=base, api_key="sk-none", max_retries=0)


def requests(gpt, claude):
    yield lambda: gpt.chat.completions.create(model="scripted", messages=chat)
    yield lambda: gpt.responses.create(model="scripted", input=chat)
    yield lambda: claude.messages.create(model="scripted", max_tokens=100, messages=chat)


def failures(base):
    for request in requests(*clients(base)):
        try:
            request()
            yield None
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            yield [type(error).__name__, error.status_code, error.message]


gpt, claude = clients(url)
seen = {"models": [[model.id for model in client.models.list()] for client in (gpt, claude)]}
seen["tokens"] = claude.messages.count_tokens(model="scripted", messages=chat).input_tokens
seen["streams"] = streams = []
with gpt.chat.completions.stream(model="scripted", messages=chat) as stream:
    streams.append(stream.get_final_completion().choices[0].message.content)
with gpt.responses.stream(model="scripted", input=chat) as stream:
    streams.append(stream.get_final_response().output_text)
with claude.messages.stream(model="scripted", max_tokens=100, messages=chat) as stream:
    streams.append("".join(stream.text_stream))
seen["refused"] = list(failures(url))
seen["unreachable"] = list(failures(dead_url))
print(json.dumps(seen))
