"""Every request of a session, made to fit: what the windows would have cost, remembered and broken."""

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import part_fit
import roster
import rules
import sessions
import setting
import tokens

SHARES = (50, 25)
# A peer gets so many seconds on a processor for a session; what takes longer is left out, and said.
SECONDS_MAX = 180


def run(folder):
    tokens.remember()
    groups = {"made": sessions.made(folder), "recorded": sessions.recorded(folder)}
    counts = {group: len(files) for group, files in groups.items()}
    judged = {}
    for group, files in groups.items():
        for share in SHARES:
            table = judged.setdefault(group, {}).setdefault(str(share), {})
            for name, file in files.items():
                replayed(table, name, file, share)
            setting.save("replay", roster.WINDOWS, sessions=counts, shares=SHARES, rows=judged)


def replayed(table, name, file, share):
    """Adds the figures of one session to those of each contender. Nothing is timed, so they run side by side."""
    messages = json.loads(file.read_text())["messages"]
    budget = tokens.messages(messages) * share // 100
    named = list(contenders(file, budget))

    def work(contender):
        setting.say(f"replay: {name} at {share}%: {contender[0]}")
        return judge(contender[1], file, messages, budget)

    with ThreadPoolExecutor(setting.JOBS) as pool:
        for (contender, _), figures in zip(named, pool.map(work, named)):
            row = table.setdefault(contender, {"left_out": []})
            if "error" in figures:
                setting.say(f"replay: {name} at {share}%: {contender}: {figures['error']}")
                row["left_out"].append(figures["error"])
            else:
                add(row, figures)
    sane(table["everything"])


def sane(row):
    """Sending everything costs what sending everything costs, and forgets nothing: or the judge is broken."""
    kept, asked = row["state"]
    if abs(row["cost"] / row["cost_none"] - 1) > 0.001 or kept != asked:
        raise SystemExit(f"error: everything that was sent was judged as {row}")


def contenders(file, budget):
    yield "Longhand", [setting.example("scoreboard"), "windows", str(file), str(budget)]
    yield "everything", [setting.python("litellm"), str(setting.BENCH / "peer.py"), "everything:Everything",
                         "windows", str(file), str(budget)]
    for peer in roster.WINDOWS:
        if not setting.missing(peer.environment):
            yield peer.name, part_fit.command(peer, "windows", file, budget, untimed=True)


def judge(command, file, messages, budget):
    """Hands every window of a contender to the rules and to the measures of `longhand replay`."""
    maker = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=setting.variables()
    )
    setting.limit(maker, SECONDS_MAX)
    measures = subprocess.Popen(
        [setting.example("scoreboard"), "judge", str(file), str(budget)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    broken = {name: 0 for name in rules.RULES}
    crowded, largest = 0, 0.0
    try:
        for request in requests(messages):
            line = maker.stdout.readline()
            if not line:
                break
            window = json.loads(line)["messages"]
            text = json.dumps({"messages": window}, ensure_ascii=False, separators=(",", ":"))
            measures.stdin.write(text.encode() + b"\n")
            if tokens.messages(request) > budget:
                crowded += 1
                largest = max(largest, tokens.messages(window) * 100 / budget)
                for name, rule in rules.RULES.items():
                    broken[name] += not rule(request, window, budget)
    except BrokenPipeError:
        # The measures refused a window, and say why below.
        pass
    maker.stdout.close()
    out, err = measures.communicate()
    status = maker.wait()
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"error": f"over {SECONDS_MAX} s"}
    if measures.returncode or status:
        return {"error": (err.decode().strip().splitlines() or [f"exit status {status}"])[-1][:200]}
    return {**json.loads(out), "crowded": crowded, "broken": broken, "largest": [largest]}


def requests(messages):
    """Every message of the assistant is one request; what is before it was sent."""
    for at, message in enumerate(messages):
        if message["role"] == "assistant" and at > 0:
            yield messages[:at]


def add(row, figures):
    for name, value in figures.items():
        if isinstance(value, dict):
            add(row.setdefault(name, {}), value)
        elif name == "largest":
            row[name] = [max(value + row.get(name, []))]
        elif isinstance(value, list):
            before = row.get(name, [0] * len(value))
            row[name] = [one + other for one, other in zip(before, value)]
        else:
            row[name] = row.get(name, 0) + value
    if "cost_none" in figures:
        row.setdefault("costs", []).append(figures["cost"] * 100 / figures["cost_none"])
        row["sessions"] = row.get("sessions", 0) + 1
