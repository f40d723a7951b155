"""Compares our windows with the summaries that Claude Code wrote itself: `python native.py LONGHAND FILE…`.

The files are its session files. At every place where it compacted a conversation, the messages before that place are made to fit
with `longhand compact`, once into as many tokens as its summary has (`longhand count`), and once into 20,000.

Counted are, in percent:
- names: of the distinct names in the calls and texts of the agent's next STEPS messages that stood anywhere before the place, those
  that stand in the window or in the summary. A name is a run of letters, digits and `_./:@#-` of at least five characters with a mark
  and a letter inside; a path also counts by its part below the folder that the session ran in.
- user: of the messages that the user typed before the place, those whose first OPENING characters stand there, or all of them
  if they are shorter. Spaces and line breaks count alike. What a client inserts is not typed.
"""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

STEPS = 60
OPENING = 60
WIDE = 20_000

NAME = re.compile(r"[A-Za-z0-9_./:@#-]{5,120}")
EDGES = ".:-#@"
MARK = re.compile(r"[A-Za-z0-9][_./:@#-]+[A-Za-z0-9]")
INSERTED = re.compile(
    r"^\s*(<[a-z-]*(command|caveat|notification|reminder|stdout|context)|\[Request interrupted|Caveat:|Base directory for)"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("longhand")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--lost", action="store_true", help="list what the windows lack")
    args = parser.parse_args()
    sums = {}
    count = 0
    for file in args.files:
        lines = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
        for at in (at for at, line in enumerate(lines) if line.get("isCompactSummary")):
            count += 1
            for who, what in compared(args, lines, at).items():
                for kind, (kept, all_of) in what.items():
                    sums.setdefault((who, kind), []).append((kept, all_of))
    print(f"{count} compactions in {len(args.files)} files")
    for (who, kind), pairs in sums.items():
        kept, all_of = (sum(column) for column in zip(*pairs))
        print(f"{who:>10} {kind:>5}: {100 * kept / max(all_of, 1):5.1f}% of {all_of}")


def compared(args, lines, at):
    """What the summary at a line keeps, and what our windows of what it stands for do."""
    boundary = at - 1 if lines[at - 1].get("subtype") == "compact_boundary" else at
    begin = max((n + 1 for n, line in enumerate(lines[:boundary]) if line.get("subtype") == "compact_boundary"), default=0)
    before = [line for line in lines[begin:boundary] if is_message(line)]
    after = [line for line in lines[at + 1 :] if is_message(line) and line["type"] == "assistant"][:STEPS]
    folder = lines[at].get("cwd", "").rstrip("/") + "/"
    known = squashed(said(before))
    names = {name for name in names_in(said(after)) if name in known}
    asked = [words[:OPENING] for words in map(squashed, filter(None, map(typed, before)))]
    summary = squashed(said([lines[at]]))
    size = tokens(args.longhand, said([lines[at]]))
    texts = {"summary": summary, "same size": window(args.longhand, before, size), f"{WIDE:,}": window(args.longhand, before, WIDE)}
    found = {}
    for who, text in texts.items():
        kept = {name for name in names if name in text or name.removeprefix(folder) in text}
        heard = [words for words in asked if words in text]
        found[who] = {"names": (len(kept), len(names)), "user": (len(heard), len(asked))}
        if args.lost and who != "summary":
            print(f"{who}: lacks {sorted(names - kept)} and {[words for words in asked if words not in text]}")
    return found


def is_message(line):
    return line.get("type") in ("user", "assistant") and not line.get("isSidechain") and not line.get("isMeta")


def parts(line):
    content = line["message"]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def said(lines):
    """All texts, arguments and results of some lines."""
    texts = []
    for part in (part for line in lines for part in parts(line)):
        texts += strings(part.get("text") or part.get("input") or part.get("content") or "")
    return "\n".join(texts)


def strings(value):
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inside for text in strings(one)]


def typed(line):
    """What the user typed, if the line has such words."""
    if line["type"] != "user" or line.get("isCompactSummary"):
        return None
    texts = [part["text"] for part in parts(line) if part.get("type") == "text"]
    words = "\n".join(text for text in texts if not INSERTED.match(text)).strip()
    return words or None


def names_in(text):
    runs = (run.strip(EDGES) for run in NAME.findall(text))
    return {run for run in runs if len(run) >= 5 and MARK.search(run) and re.search("[A-Za-z]", run)}


def squashed(text):
    return " ".join(text.split())


def window(longhand, lines, budget):
    with tempfile.TemporaryDirectory() as folder:
        source, made = pathlib.Path(folder, "in.jsonl"), pathlib.Path(folder, "out.jsonl")
        source.write_text("".join(json.dumps(unbilled(line)) + "\n" for line in lines))
        command = [longhand, "compact", source, "--budget", str(budget), "-o", made, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True)
        # 3: the newest messages alone are larger.
        if done.returncode not in (0, 3):
            raise SystemExit(f"longhand compact: {done.stderr.strip()}")
        return squashed(said([json.loads(line) for line in made.read_text().splitlines() if '"message"' in line]))


def unbilled(line):
    """A line without the counts of its provider, which have the agent's own prompt and tools in them: both sides have these."""
    message = {key: value for key, value in line["message"].items() if key != "usage"}
    return {**line, "message": message}


def tokens(longhand, text):
    request = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": text}]})
    done = subprocess.run([longhand, "count", "--json"], input=request, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["tokens"]


if __name__ == "__main__":
    main()
