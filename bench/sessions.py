"""The conversations of the scoreboard: the testkit's, and recorded ones where they are there."""

import json

import setting
import tokens

# A recorded session below this is no matter of windows.
TOKENS_MIN = 3_000

MADE = {
    "coding": ("made_session", "coding", "1"),
    "service": ("made_session", "service", "1", "40"),
    "chat": ("made_session", "chat", "1", "120"),
}


def made(folder):
    """Writes the testkit's sessions, and returns their files by name."""
    files = {}
    for name, (program, *arguments) in MADE.items():
        body = json.loads(setting.output([setting.example(program), *arguments]))
        files[name] = write(folder, name, body["messages"])
    return files


def history(folder, messages):
    """Writes a long conversation of so many messages, with a system prompt before it."""
    listed = json.loads(setting.output([setting.example("history"), str(messages - 1)]))
    system = {"role": "system", "content": "You are a coding agent. Never edit files under vendor/."}
    return write(folder, f"history-{messages}", [system, *listed])


def recorded(folder):
    """Writes the recorded sessions that are there, and returns their files by a number."""
    files = {}
    for path in sorted((setting.SHARED / "data" / "traces").glob("*.json")):
        body = json.loads(path.read_text())
        messages = body.get("messages") if isinstance(body, dict) else body
        is_session = messages and all(isinstance(one, dict) and "role" in one for one in messages)
        if is_session and tokens.messages(messages) >= TOKENS_MIN:
            files[str(len(files) + 1)] = write(folder, f"recorded-{len(files) + 1}", messages)
    return files


def write(folder, name, messages):
    path = folder / f"{name.replace(' ', '-')}.json"
    path.write_text(json.dumps({"messages": messages}, ensure_ascii=False, separators=(",", ":")))
    return path
