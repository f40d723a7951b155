"""How long it takes to make a conversation fit, by its size."""

import json
import pathlib
import resource
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import roster
import rules
import sessions
import setting

SIZES = (100, 1_000, 10_000)
TIMES = {100: 5, 1_000: 3, 10_000: 3}
BUDGET = 32_000
# A peer gets so many seconds on a processor for a size; warming up and turning types count.
SECONDS_MAX = 120


def run(folder):
    rows = {name: {} for name in ("Longhand, library", "Longhand, `compact` as a process")}
    peers = [peer for peer in roster.WINDOWS if not setting.missing(peer.environment)]
    rows.update({peer.name: {} for peer in peers})
    for size in SIZES:
        file = sessions.history(folder, size)
        request = json.loads(file.read_text())["messages"]
        times = TIMES[size]
        setting.say(f"fit: {size} messages: Longhand")
        command_line = [setting.example("scoreboard"), "fit", str(file), str(BUDGET), str(times)]
        rows["Longhand, library"][size] = kept(setting.measured(command_line))
        rows["Longhand, `compact` as a process"][size] = compact(file, times, request)

        def work(peer):
            if gave_up(rows[peer.name]):
                return {"error": "–"}
            setting.say(f"fit: {size} messages: {peer.name}")
            return kept(setting.measured(command(peer, "fit", file, BUDGET, times), SECONDS_MAX), request)

        with ThreadPoolExecutor(setting.JOBS) as pool:
            for peer, found in zip(peers, pool.map(work, peers)):
                rows[peer.name][size] = found
        setting.save("fit", roster.WINDOWS, budget=BUDGET, sizes=SIZES, rows=rows)


def gave_up(row):
    return any("seconds_max" in figures for figures in row.values())


def command(peer, task, file, budget, *rest, untimed=False):
    """How a peer is run."""
    rest = [str(one) for one in rest]
    if peer.environment == "node":
        script = str(setting.BENCH / "peers" / f"{peer.adapter}.mjs")
        return ["node", script, str(setting.PEERS / "node"), task, str(file), str(budget), *rest]
    adapter = (untimed and peer.adapter_untimed) or peer.adapter
    script = str(setting.BENCH / "peer.py")
    return [setting.python(peer.environment), script, adapter, task, str(file), str(budget), *rest]


def kept(found, request=None):
    """What is kept of a measurement: medians, and which rules the window breaks."""
    if "error" in found:
        return found
    figures = {"cpu_ms": setting.median(found["cpu_ms"]), "wall_ms": setting.median(found["wall_ms"])}
    if request is not None:
        window = found["window"]
        figures["broken"] = [
            name for name, rule in rules.RULES.items() if not rule(request, window, BUDGET)
        ]
    return figures


def compact(file, times, request):
    """The whole process: reading, fitting, checking and writing JSON."""
    cpu_ms, wall_ms = [], []
    out = pathlib.Path(f"{file}.window")
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.perf_counter()
        subprocess.run(
            [setting.longhand(), "compact", str(file), "--budget", str(BUDGET), "--meter", "o200k",
             "--quiet", "-o", str(out)],
            check=True,
        )
        wall_ms.append((time.perf_counter() - begun) * 1000)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        cpu_ms.append(spent * 1000)
    window = json.loads(out.read_text())["messages"]
    return kept({"cpu_ms": cpu_ms, "wall_ms": wall_ms, "window": window}, request)
