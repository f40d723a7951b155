"""Records rounds with one peer: `python record.py PEER FILE FIRST`, with the Python that has its packages.

Rounds come from standard input, a line each. The first so many are handed over at once, as a session
that is there already; how long each later one takes is printed.
"""

import asyncio
import json
import sys
import time


def main(peer, file, first):
    rounds = [json.loads(line) for line in sys.stdin]
    session = {"langgraph": LangGraph, "agents": Agents, "sqlite": Sqlite}[peer](file)
    known, new = rounds[: int(first)], rounds[int(first):]
    session.add([message for one in known for message in messages(one)])
    cpu_ms, wall_ms = [], []
    for one in new:
        wall, cpu = time.perf_counter(), time.process_time()
        session.add(messages(one))
        cpu_ms.append((time.process_time() - cpu) * 1000)
        wall_ms.append((time.perf_counter() - wall) * 1000)
    print(json.dumps({"cpu_ms": cpu_ms, "wall_ms": wall_ms}))


def messages(one):
    return [
        {"role": "user", "content": one["user"]},
        {"role": "assistant", "content": one["assistant"]},
    ]


class LangGraph:
    """A model that answers at once stands for the model; every super-step is a checkpoint."""

    def __init__(self, file):
        import sqlite3

        from langchain_core.messages import convert_to_messages
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import START, MessagesState, StateGraph

        self.convert = convert_to_messages
        self.answer = []
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda state: {"messages": self.answer})
        graph.add_edge(START, "model")
        saver = SqliteSaver(sqlite3.connect(file, check_same_thread=False))
        self.graph = graph.compile(checkpointer=saver)
        self.thread = {"configurable": {"thread_id": "scoreboard"}}

    def add(self, many):
        *asked, self.answer = self.convert(many)
        self.answer = [self.answer]
        self.graph.invoke({"messages": asked}, self.thread)


class Agents:
    def __init__(self, file):
        from agents import SQLiteSession

        self.session = SQLiteSession("scoreboard", file)
        self.loop = asyncio.new_event_loop()

    def add(self, many):
        self.loop.run_until_complete(self.session.add_items(many))


class Sqlite:
    """No peer, but the least that a durable round takes: one insert, synced."""

    def __init__(self, file):
        import sqlite3

        self.file = sqlite3.connect(file)
        self.file.execute("PRAGMA journal_mode=WAL")
        self.file.execute("PRAGMA synchronous=FULL")
        self.file.execute("CREATE TABLE messages (number INTEGER PRIMARY KEY, json TEXT)")

    def add(self, many):
        rows = [(json.dumps(message),) for message in many]
        self.file.executemany("INSERT INTO messages (json) VALUES (?)", rows)
        self.file.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
