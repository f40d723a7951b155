"""What one more durable round takes, by the length of the session that it is added to."""

import json
import os
import subprocess
import time

import roster
import setting

LENGTHS = (100, 1_000, 10_000)
SAMPLES = 40
SECONDS_MAX = 600


def run(folder):
    rows = {}
    rounds = made(max(LENGTHS) + SAMPLES)
    for length in LENGTHS:
        lines = "".join(json.dumps(one) + "\n" for one in rounds[: length + SAMPLES])
        contenders = [
            ("SQLite, one insert", lambda file: peer("litellm", "sqlite", file, length, lines)),
            ("Longhand, library", lambda file: library(file, length, lines)),
            ("Longhand, `record` as a process", lambda file: process(file, length, rounds)),
        ]
        for one in roster.RECORDS:
            if not setting.missing(one.environment):
                work = lambda file, one=one: peer(one.environment, one.adapter, file, length, lines)
                contenders.append((one.name, work))
        for name, work in contenders:
            setting.say(f"record: {length} rounds: {name}")
            file = folder / f"{name.replace('`', '').replace(' ', '-')}-{length}.db"
            found = work(file)
            if "error" not in found:
                text = sum(len(one["user"]) + len(one["assistant"]) for one in rounds[: length + SAMPLES])
                new = sum(len(one["user"]) + len(one["assistant"]) for one in rounds[length : length + SAMPLES])
                found = {
                    "cpu_ms": setting.median(found["cpu_ms"]), "wall_ms": setting.median(found["wall_ms"]),
                    "file_ratio": size(file) / text, "text_bytes": text, "round_bytes": new / SAMPLES,
                }
            rows.setdefault(name, {})[length] = found
        setting.save("record", roster.RECORDS, lengths=LENGTHS, samples=SAMPLES, rows=rows)


def made(count):
    """Rounds of the testkit's chat."""
    body = json.loads(setting.output([setting.example("made_session"), "chat", "1", str(count)]))
    messages = body["messages"]
    pairs = zip(messages[::2], messages[1::2])
    return [{"user": user["content"], "assistant": reply["content"]} for user, reply in pairs]


def size(file):
    """The bytes of a database, with what it has not taken into its main file yet."""
    files = [file, file.with_name(file.name + "-wal")]
    return sum(one.stat().st_size for one in files if one.exists())


def peer(environment, adapter, file, length, lines):
    script = str(setting.BENCH / "record.py")
    command = [setting.python(environment), script, adapter, str(file), str(length)]
    return setting.measured(command, SECONDS_MAX, stdin=subprocess.PIPE, input=lines)


def library(file, length, lines):
    command = [setting.example("scoreboard"), "record", str(file), str(length)]
    return setting.measured(command, SECONDS_MAX, stdin=subprocess.PIPE, input=lines)


def process(file, length, rounds):
    """A process that is told a round a line, and says when each is durable."""
    command = [setting.longhand(), "record", "scoreboard", "-", "--archive", str(file), "--json"]
    child = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    cpu_ms, wall_ms = [], []
    for number, one in enumerate(rounds[: length + SAMPLES]):
        wall, cpu = time.perf_counter(), on_cpu(child.pid)
        child.stdin.write(json.dumps(one) + "\n")
        child.stdin.flush()
        if not child.stdout.readline():
            return {"error": f"`longhand record` ended with status {child.wait()}"}
        if number >= length:
            wall_ms.append((time.perf_counter() - wall) * 1000)
            cpu_ms.append((on_cpu(child.pid) - cpu) * 1000)
    child.stdin.close()
    child.wait()
    return {"cpu_ms": cpu_ms, "wall_ms": wall_ms}


def on_cpu(pid):
    """The seconds that all threads of a process were on a processor."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        text = setting.read(f"/proc/{pid}/task/{thread}/schedstat")
        total += int(text.split()[0]) if text else 0
    return total / 1e9
