"""What a proxy adds to a request, on loopback in front of a server that answers at once."""

import http.client
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import time

import roster
import sessions
import setting
from part_record import on_cpu

# Requests of each kind and proxy, and how many of them warm it up.
REQUESTS = 200
WARM = 20
KINDS = {"8 KB": 8_000, "200 KB": 200_000}
START_SECONDS = 180
# One of the proxies wants a key of its callers; all are called with it.
KEY = f"sk-{secrets.token_hex(16)}"


def run(folder):
    upstream = start([sys.executable, str(setting.BENCH / "upstream.py")], folder, "upstream")
    port = int(upstream.stdout.readline())
    lines = [("direct", upstream, port, 0.0)]
    absent = {}
    try:
        for name, launch in launchers(folder, port):
            setting.say(f"proxy: starting {name}")
            begun = time.perf_counter()
            process, own_port = launch()
            if wait(process, own_port):
                lines.append((name, process, own_port, time.perf_counter() - begun))
            else:
                absent[name] = f"it did not listen within {START_SECONDS} s: {last_line(folder, name)}"
                stop(process)
        rows = {name: {"start_s": begun} for name, _, _, begun in lines}
        for kind, size in KINDS.items():
            bodies = conversation(folder, size)
            for name, figures in measure(lines, bodies).items():
                rows[name][kind] = figures
        for name, process, _, _ in lines:
            rows[name]["memory_mb"] = memory(process.pid)
    finally:
        for _, process, _, _ in reversed(lines):
            stop(process)
    setting.save("proxy", roster.PROXIES, requests=REQUESTS, kinds=list(KINDS), rows=rows, failed=absent)


def launchers(folder, upstream):
    """How each proxy is started: it returns the process and its port."""
    url = f"http://127.0.0.1:{upstream}"

    def longhand():
        port = free_port()
        command = [
            setting.longhand(), "serve", "--listen", f"127.0.0.1:{port}", "--upstream", url, "--budget", "128k",
            "--archive", str(folder / "proxy.db"), "--quiet",
        ]
        return start(command, folder, "longhand"), port

    def litellm():
        port = free_port()
        config = folder / "litellm.yaml"
        config.write_text(json.dumps({
            "model_list": [{
                "model_name": "gpt-4o",
                "litellm_params": {"model": "openai/gpt-4o", "api_base": f"{url}/v1", "api_key": "none"},
            }],
        }))
        program = pathlib.Path(setting.python("litellm")).with_name("litellm")
        command = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port),
                   "--telemetry", "False"]
        return start(command, folder, "LiteLLM proxy", {"LITELLM_MASTER_KEY": KEY}), port

    def headroom():
        port = free_port()
        program = pathlib.Path(setting.python("headroom")).with_name("headroom")
        command = [str(program), "proxy", "--host", "127.0.0.1", "--port", str(port), "--no-rate-limit",
                   "--no-cache"]
        home = {"HOME": str(folder), "OPENAI_TARGET_API_URL": url, "HEADROOM_TELEMETRY": "off"}
        return start(command, folder, "headroom proxy", home), port

    yield "longhand serve", longhand
    for peer, launch in zip(roster.PROXIES, (litellm, headroom)):
        if not setting.missing(peer.environment):
            yield peer.name, launch


def conversation(folder, size):
    """Requests of a conversation that grows by a round each, the last of about so many bytes."""
    messages = json.loads(sessions.history(folder, 600).read_text())["messages"]
    messages = [one for one in messages if one["role"] != "tool" and not one.get("tool_calls")]
    while len(json.dumps(messages)) < size:
        messages = messages + messages[1:]
    while len(json.dumps(messages)) > size:
        messages = messages[:-1]
    bodies = []
    for number in range(REQUESTS + WARM):
        ask = {"role": "user", "content": f"Question {number}?"}
        bodies.append(json.dumps({"model": "gpt-4o", "messages": [*messages, ask]}))
        messages = [*messages, ask, {"role": "assistant", "content": "ok"}]
    return bodies


def measure(lines, bodies):
    """Sends the same requests by every way, in turn, so that noise meets all of them alike."""
    clients = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _, _, port, _ in lines]
    wall_ms = [[] for _ in lines]
    cpu = [0.0] * len(lines)
    failed = [0] * len(lines)
    for number, body in enumerate(bodies):
        if number == WARM:
            cpu = [group_on_cpu(process.pid) for _, process, _, _ in lines]
        # Another one first each time: whoever follows a slow one finds the server's processor cold.
        for at in [(number + step) % len(clients) for step in range(len(clients))]:
            client = clients[at]
            begun = time.perf_counter()
            client.request(
                "POST", "/v1/chat/completions", body,
                {"content-type": "application/json", "authorization": f"Bearer {KEY}"},
            )
            answer = client.getresponse()
            content = answer.read()
            if number >= WARM:
                wall_ms[at].append((time.perf_counter() - begun) * 1000)
            failed[at] += answer.status != 200 or b"ok" not in content
    spent = [group_on_cpu(process.pid) - before for (_, process, _, _), before in zip(lines, cpu)]
    return {
        name: {
            "p50_ms": setting.median(wall_ms[at]),
            "p90_ms": sorted(wall_ms[at])[len(wall_ms[at]) * 9 // 10],
            "cpu_ms": spent[at] * 1000 / REQUESTS,
            "failed": failed[at],
        }
        for at, (name, _, _, _) in enumerate(lines)
    }


def start(command, folder, name, more=None):
    log = open(folder / f"{name.replace(' ', '-')}.log", "w")
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if name == "upstream" else log, stderr=log,
        text=True, env={**setting.variables(), **(more or {})}, start_new_session=True,
    )


def stop(process):
    """Ends a process that was started here, with those it started."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()


def wait(process, port):
    for _ in range(START_SECONDS * 5):
        if process.poll() is not None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.2)
    return False


def last_line(folder, name):
    lines = setting.read(folder / f"{name.replace(' ', '-')}.log").strip().splitlines()
    return lines[-1][:160] if lines else "nothing was said"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def members(pid):
    """A process and those in its session."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = setting.read(f"/proc/{entry}/stat").rpartition(")")[2].split()
            if fields and fields[3] == str(pid):
                yield int(entry)


def group_on_cpu(pid):
    return sum(map(on_cpu, members(pid)))


def memory(pid):
    """The resident memory of a process and those in its session."""
    pages = [setting.read(f"/proc/{member}/statm").split() for member in members(pid)]
    return sum(int(page[1]) for page in pages if page) * os.sysconf("SC_PAGE_SIZE") / 1e6
