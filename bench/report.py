"""Writes docs/BENCHMARKS.md and its plots from the figures that the parts left in docs/benchmarks."""

import json
import math

import rules
import setting
import svg

FOLDS = {
    "A coding session": "crates/longhand/tests/folds/coding.txt",
    "A service desk": "crates/longhand/tests/folds/service.txt",
}

INTRODUCTION = """\
# Benchmarks

`cargo xtask scoreboard` installs the peers below into the user's cache, runs them beside Longhand on the same
work in one run, and writes this page. No model is asked, and nothing but the package registries is called. One
part by itself: `cargo xtask scoreboard fit`, `record`, `proxy` or `replay`.

- **Same work.** Conversations come from the testkit, so that anybody can repeat it: `cargo run --release -p
  longhand-testkit --example history 10000` and `--example made_session coding 1`. Recorded sessions are used, too,
  where a folder `shared` beside the project has them; only figures of them are written.
- **Each peer as its documentation says**, with exact o200k counts where it takes a counter. Not every peer aims
  at what is measured: what each is for, and how it was used, is in the [last table](#who-took-part).
- **Ratios within one run.** The machine is shared with other work, so times are medians, and CPU time where it can
  be had. Compare lines with one another, and not with another machine.
"""


def write():
    parts = {part: figures(part) for part in ("fit", "replay", "record", "proxy")}
    sections = [INTRODUCTION]
    if parts["fit"]:
        sections.append(fit(parts["fit"]))
    if parts["replay"]:
        sections += [validity(parts["replay"]), replay(parts["replay"])]
    if parts["record"]:
        sections.append(record(parts["record"]))
    if parts["proxy"]:
        sections.append(proxy(parts["proxy"]))
    sections += [folds(), took_part([part for part in parts.values() if part])]
    (setting.ROOT / "docs" / "BENCHMARKS.md").write_text("\n".join(sections))
    setting.say("wrote docs/BENCHMARKS.md")


def figures(part):
    text = setting.read(setting.DOCS / f"{part}.json")
    return json.loads(text) if text else None


def stamp(part):
    """When and on what a part was measured."""
    on = part["machine"]
    return (
        f"`{part['command']}`, {part['date']}; {on['cores']} cores ({on['processor']}), {on['memory']}, "
        f"{on['kernel']}, Python {on['python']}, Node {on['node']}; load {on['load']}. {part.get('note', '')}".rstrip() + "\n"
    )


def fit(part):
    base = part["rows"]["Longhand, library"]
    sizes = [str(size) for size in part["sizes"] if str(size) in base]
    lines = [
        "## Time to fit a budget\n", stamp(part),
        f"A conversation with tool calls, about 3 KB a message, is made to fit {part['budget']:,} tokens. CPU time "
        "from the peer's own message types to its window, without reading and writing JSON; only the line of "
        "`compact` has that, and the start of the process, too. In brackets: times Longhand's library. The last "
        "column names the [rules](#validity-of-windows) that one of the windows breaks.\n",
        table(
            ["", *[f"{int(size):,} messages" for size in sizes], "broken"],
            [
                [name, *[_timed(row.get(size), base[size]) for size in sizes], _broken(row)]
                for name, row in part["rows"].items()
            ],
        ),
        "![CPU time by number of messages](benchmarks/fit.svg)\n",
    ]
    rows = {
        name: [(int(size), row[size]["cpu_ms"]) for size in sizes if row.get(size, {}).get("cpu_ms")]
        for name, row in part["rows"].items()
    }
    draw("fit", "Time to fit 32,000 tokens", "messages", "CPU ms", rows)
    return "\n".join(lines)


def _timed(found, base):
    if not found or "error" in found:
        return (found or {}).get("error", "–")
    if not found["cpu_ms"]:
        return "too short for the clock"
    return f"{_ms(found['cpu_ms'])} ({_times(found['cpu_ms'] / base['cpu_ms'])})"


def _broken(row):
    broken = {name for found in row.values() for name in found.get("broken", [])}
    told = any("broken" in found for found in row.values())
    return ", ".join(name for name in rules.RULES if name in broken) or ("none" if told else "–")


def validity(part):
    lines = [
        "## Validity of windows\n", stamp(part),
        "Every request of a session that has more tokens than the budget, made to fit. The rules are the "
        "scoreboard's own (`bench/rules.py`), the same for all, and counted in windows that break them:\n",
        *[f"- **{name}**: {' '.join(rule.__doc__.split())}" for name, rule in rules.RULES.items()],
        "",
    ]
    for group, share, rows in _tables(part):
        lines += [
            f"{_group(part, group)}, budget {share}% of each session's size:\n",
            table(
                ["", "windows", *rules.RULES, "largest window"],
                [
                    [name, f"{row['crowded']:,}", *[_count(row["broken"][rule]) for rule in rules.RULES],
                     f"{row['largest'][0]:.0f}% of budget"]
                    for name, row in rows.items()
                    if name != "everything" and "crowded" in row
                ],
            ),
        ]
    return "\n".join(lines)


def replay(part):
    lines = [
        "## Cost and memory over whole sessions\n",
        "The same windows, judged by the measures of `longhand replay` ([REPLAY.md](REPLAY.md)): *cost* against "
        "sending everything, with cached tokens at a tenth; *breaks* of the cached prefix; *need*, the names that the "
        "agent uses next and still has in its window; *ctx*, those in text as it was received; *state*, what it "
        "must know of its own work. A peer that does not aim at a budget may send more than the others: its memory "
        "is bought with that.\n",
    ]
    for group, share, rows in _tables(part):
        lines += [
            f"{_group(part, group)}, budget {share}%:\n",
            table(
                ["", "cost", "median", "over budget", "breaks", "need", "ctx", "state"],
                [_replayed(name, row) for name, row in rows.items() if "requests" in row],
            ),
        ]
        left = [f"{name}: {'; '.join(sorted(set(row['left_out'])))}" for name, row in rows.items() if row["left_out"]]
        if left:
            lines.append(f"Left out of sessions: {'. '.join(left)}.\n")
    group, share, rows = next(_tables(part))
    points = {
        name: [(_share(row["state"]), row["cost"] * 100 / row["cost_none"])]
        for name, row in rows.items()
        if "requests" in row
    }
    draw("replay", f"Cost and state, budget {share}%, {_group(part, group).lower()}", "state kept, %",
         "cost against sending everything, %", points, x_log=False, y_log=False)
    lines.append("![Cost over state kept](benchmarks/replay.svg)\n")
    return "\n".join(lines)


def _tables(part):
    for group, shares in part["rows"].items():
        for share, rows in shares.items():
            if rows:
                yield group, share, rows


def _group(part, group):
    count = part["sessions"][group]
    return f"{count} sessions of the testkit" if group == "made" else f"{count} recorded sessions"


def _replayed(name, row):
    return [
        name, f"{row['cost'] * 100 / row['cost_none']:.0f}%", f"{setting.median(row['costs']):.0f}%",
        _count(row["over_budget"]), f"{row['breaks']:,}",
        *[f"{_share(row[measure]):.1f}%" if row[measure][1] else "–" for measure in ("need", "ctx", "state")],
    ]


def _share(pair):
    return pair[0] * 100 / pair[1] if pair[1] else 0


def record(part):
    base = part["rows"]["SQLite, one insert"]
    lengths = [str(length) for length in part["lengths"] if str(length) in base]
    size = base[lengths[-1]]["round_bytes"]
    lines = [
        "## Durable record by session length\n", stamp(part),
        f"One more round (two messages, {size:,.0f} bytes) of a session that has so many already, until it is durable: "
        f"median CPU time of {part['samples']}, in brackets times a bare insert of both messages into SQLite, synced. How "
        "long the disk takes is not shown: on a shared machine it says more about the neighbours. Longhand "
        "also numbers, chains and indexes the round for search, and makes the window of the next request. The last "
        "column is the file against the text in it.\n",
        table(
            ["", *[f"{int(length):,} rounds" for length in lengths], "file"],
            [_recorded(name, row, lengths, base) for name, row in part["rows"].items()],
        ),
        "![CPU time of a durable round by session length](benchmarks/record.svg)\n",
    ]
    rows = {
        name: [(int(length), row[length]["cpu_ms"]) for length in lengths if "cpu_ms" in row.get(length, {})]
        for name, row in part["rows"].items()
    }
    draw("record", "One more durable round", "rounds in the session", "CPU ms", rows)
    return "\n".join(lines)


def _recorded(name, row, lengths, base):
    def one(length):
        found = row.get(length, {"error": "–"})
        if "error" in found:
            return found["error"]
        return f"{_ms(found['cpu_ms'])} ({_times(found['cpu_ms'] / base[length]['cpu_ms'])})"

    last = row.get(lengths[-1], {})
    ratio = f"{last['file_ratio']:.1f} ×" if "file_ratio" in last else "–"
    return [name, *map(one, lengths), ratio]


def proxy(part):
    lines = [
        "## What a proxy adds\n", stamp(part),
        f"{part['requests']} requests of a growing conversation for each size, one after the other, on loopback in front "
        "of a server that answers at once; all ways take turns. Longhand finds the session and archives every message meanwhile; LiteLLM routes between providers and "
        "keeps no conversation; headroom compresses.\n",
        table(
            ["", *[f"{kind}: CPU a request" for kind in part["kinds"]], "memory", "start"],
            [_proxied(name, row, part["kinds"]) for name, row in part["rows"].items() if name != "direct"],
        ),
    ]
    failures = {name: sum(row[kind]["failed"] for kind in part["kinds"]) for name, row in part["rows"].items()}
    failed = [f"{name}: {count} failed requests" for name, count in failures.items() if count]
    failed += [f"{name}: {why}" for name, why in part["failed"].items()]
    if failed:
        lines.append(". ".join(failed) + ".\n")
    rows = {
        name: [(kind, row[kind]["cpu_ms"]) for kind in part["kinds"]]
        for name, row in part["rows"].items()
        if name != "direct"
    }
    sizes = {kind: float(kind.split()[0]) for kind in part["kinds"]}
    draw("proxy", "What a request costs a proxy", "KB a request", "CPU ms",
         {name: [(sizes[kind], value) for kind, value in row] for name, row in rows.items()})
    lines.append("![CPU of a request by its size](benchmarks/proxy.svg)\n")
    return "\n".join(lines)


def _proxied(name, row, kinds):
    cells = [name]
    for kind in kinds:
        cells.append(_ms(row[kind]["cpu_ms"]))
    return [*cells, f"{row['memory_mb']:.0f} MB", f"{row['start_s']:.1f} s"]


def folds():
    lines = [
        "## Two folds\n",
        "What stands in a window for the messages that it no longer shows, made without a model. Tests hold them "
        "to these texts (`longhand/tests/suite/fold.rs`), and `cargo xtask tidy` holds this page to them.\n",
    ]
    for title, path in FOLDS.items():
        text = (setting.ROOT / path).read_text().rstrip("\n")
        lines += [f"### {title}\n", f"`{path}`:\n", "````text", text, "````\n"]
    return "\n".join(lines)


def took_part(parts):
    versions, uses, absent = {}, {}, {}
    for part in parts:
        versions.update(part["versions"])
        uses.update(part["uses"])
        absent.update(part["absent"])
    lines = [
        "## Who took part\n",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in sorted(versions.items())) + ".\n",
        table(["", "how it was used"], [[name, use] for name, use in uses.items()]),
    ]
    if absent:
        lines.append("Not there: " + "; ".join(f"{name} ({why})" for name, why in absent.items()) + ".\n")
    return "\n".join(lines)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell or " " for cell in line) + " |" for line in lines).replace("|   |", "| |") + "\n"


def draw(name, title, x_label, y_label, rows, **scales):
    rows = {label: points for label, points in rows.items() if points}
    xs = [x for points in rows.values() for x, _ in points]
    ys = [y for points in rows.values() for _, y in points]
    chart = svg.Chart(title, x_label, y_label, xs, ys, **scales)
    for label, points in rows.items():
        chart.line(label, points)
    (setting.DOCS / f"{name}.svg").write_text(chart.text())


def _ms(value):
    if value >= 10_000:
        return f"{value / 1000:.0f} s"
    if value >= 100:
        return f"{value:,.0f} ms"
    return f"{value:.{max(0, 1 - math.floor(math.log10(max(value, 0.001))))}f} ms"


def _times(ratio):
    return f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.1f} ×"


def _count(number):
    return f"**{number:,}**" if number else "0"
