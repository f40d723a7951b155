"""Runs one peer, with the Python that has its packages: `python peer.py MODULE:CLASS TASK FILE BUDGET`.

`fit` makes a conversation fit some times and prints how long that took, and the last window; what is
read and turned into the peer's own types before, and back after, is not timed. `windows` prints the
window of every request of a session, a line each.
"""

import importlib
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
OUT = os.fdopen(os.dup(1), "w")
# What a peer prints is not part of the answer.
os.dup2(2, 1)

# Whatever the number of times asked for, so many seconds on a processor are enough.
SECONDS_MAX = 10
WARM = 20


def main(name, task, file, budget, *rest):
    module, _, kind = name.partition(":")
    make = getattr(importlib.import_module(f"peers.{module}"), kind)
    with open(file) as text:
        messages = json.load(text)["messages"]
    {"fit": fit, "windows": windows}[task](make, messages, int(budget), *rest)


def fit(make, messages, budget, times):
    cpu_ms, wall_ms, window = [], [], None
    # What is loaded with the first call is not part of the work.
    warm = make(budget, messages[:WARM])
    warm.fit([warm.load(at, message) for at, message in enumerate(messages[:WARM])])
    begun = time.process_time()
    for _ in range(int(times)):
        peer = make(budget, messages)
        loaded = [peer.load(at, message) for at, message in enumerate(messages)]
        wall, cpu = time.perf_counter(), time.process_time()
        window = peer.fit(loaded)
        cpu_ms.append((time.process_time() - cpu) * 1000)
        wall_ms.append((time.perf_counter() - wall) * 1000)
        if time.process_time() - begun > SECONDS_MAX:
            break
    window = [peer.dump(message, messages) for message in window]
    answer(cpu_ms=cpu_ms, wall_ms=wall_ms, window=window)


def windows(make, messages, budget):
    import tokens

    tokens.remember()
    peer = make(budget, messages)
    loaded = []
    for at, message in enumerate(messages):
        if message["role"] == "assistant" and at > 0:
            window = peer.fit(list(loaded))
            answer(messages=[peer.dump(message, messages) for message in window])
        loaded.append(peer.load(at, message))


def answer(**fields):
    OUT.write(json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n")
    OUT.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
