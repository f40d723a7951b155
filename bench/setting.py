"""Where everything is, and small things that all parts need."""

import datetime
import json
import os
import pathlib
import platform
import resource
import signal
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
DOCS = ROOT / "docs" / "benchmarks"
# `cargo xtask scoreboard` sets these.
PEERS = pathlib.Path(os.environ.get("LONGHAND_PEERS", ""))
RELEASE = pathlib.Path(os.environ.get("LONGHAND_RELEASE", ROOT / "target" / "release"))
# Recorded sessions, where there are some.
SHARED = pathlib.Path(os.environ.get("LONGHAND_SHARED", ROOT.parent / "shared"))

# How many peers work side by side. Times are CPU times, so that they bear it.
JOBS = int(os.environ.get("LONGHAND_JOBS", os.cpu_count()))

TOKENIZERS = "lib/python*/site-packages/litellm/litellm_core_utils/tokenizers"


def longhand():
    return str(RELEASE / "longhand")


def example(name):
    return str(RELEASE / "examples" / name)


def python(environment):
    return str(PEERS / environment / "venv" / "bin" / "python")


def missing(environment):
    """Why a peer cannot take part, in one line; nothing if it can."""
    error = PEERS / environment / "error.txt"
    if error.exists():
        return error.read_text().strip()
    there = PEERS / environment / ("node_modules" if environment == "node" else "venv")
    return "" if there.exists() else "it is not installed"


def variables():
    """The environment of peers: the vocabulary comes with LiteLLM's package, and no host is asked for it."""
    found = list((PEERS / "litellm" / "venv").glob(TOKENIZERS))
    quiet = {
        "TIKTOKEN_CACHE_DIR": str(found[0]) if found else "",
        "LANGSMITH_TRACING": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",
        "HEADROOM_TELEMETRY": "off",
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
    }
    return {**os.environ, **quiet}


def version(environment, package):
    if environment == "node":
        text = (PEERS / "node" / "node_modules" / package / "package.json").read_text()
        return json.loads(text)["version"]
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return output([python(environment), "-c", code])


def versions(peers):
    """The version of every package that took part."""
    there = [peer for peer in peers if not missing(peer.environment)]
    names = {(peer.environment, package) for peer in there for package in peer.packages}
    found = {package: version(environment, package) for environment, package in sorted(names)}
    return {"longhand": output([longhand(), "--version"]).split()[-1], **found}


def output(command, **options):
    """What a command prints; it must succeed."""
    return subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, env=variables(), **options
    ).stdout.strip()


def limit(process, seconds):
    """Lets a process have so many seconds on a processor, whatever else the machine does."""
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds + 5))


def measured(command, seconds=300, **options):
    """The JSON that a command prints, or what went wrong, in one line."""
    process = subprocess.Popen(
        command, text=True, stdin=options.get("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=variables(),
    )
    limit(process, seconds)
    out, err = process.communicate(options.get("input"))
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"error": f"over {seconds} s", "seconds_max": seconds}
    if process.returncode:
        lines = err.strip().splitlines() or [f"exit status {process.returncode}"]
        return {"error": lines[-1][:200]}
    return json.loads(out.strip().splitlines()[-1])


def median(values):
    return statistics.median(values) if values else None


def machine():
    """What it ran on."""
    model, memory = platform.processor(), ""
    for line in read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    for line in read("/proc/meminfo").splitlines():
        if line.startswith("MemTotal"):
            memory = f"{int(line.split()[1]) / 2**20:.0f} GiB"
    load = read("/proc/loadavg").split()[:1]
    return {
        "cores": os.cpu_count(), "processor": model, "memory": memory,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(), "node": node_version(), "load": " ".join(load),
    }


def node_version():
    try:
        return output(["node", "--version"]).lstrip("v")
    except (OSError, subprocess.CalledProcessError):
        return "none"


def read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def save(part, peers, **figures):
    """Keeps the figures of a part; the document is written from these files."""
    DOCS.mkdir(parents=True, exist_ok=True)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    absent = {peer.name: missing(peer.environment) for peer in peers if missing(peer.environment)}
    uses = {peer.name: peer.use for peer in peers}
    kept = {
        "date": today, "command": f"cargo xtask scoreboard {part}", "machine": machine(),
        "note": os.environ.get("LONGHAND_NOTE", ""), "versions": versions(peers), "absent": absent, "uses": uses, **figures,
    }
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    (DOCS / f"{part}.json").write_text(text + "\n")


def say(text):
    print(f"scoreboard: {text}", file=sys.stderr, flush=True)
