"""The scoreboard: Longhand and its peers on the same work, in one run. `cargo xtask scoreboard` runs it.

`scoreboard.py [PART…]` measures the parts (all of them if none is named) and writes docs/BENCHMARKS.md from
the figures in docs/benchmarks; `scoreboard.py render` only writes.
"""

import pathlib
import sys
import tempfile
import unittest

PARTS = ("fit", "record", "proxy", "replay")


def main(parts):
    unknown = [part for part in parts if part not in (*PARTS, "render")]
    if unknown:
        sys.exit(f"error: `{unknown[0]}` is no part\nhint: the parts are {', '.join(PARTS)} and render")
    measured = [part for part in parts or PARTS if part != "render"]
    if measured and not unittest.main("test_rules", argv=["test_rules", "-q"], exit=False).result.wasSuccessful():
        sys.exit("error: the rules do not judge as they should")
    for part in measured:
        with tempfile.TemporaryDirectory(prefix="scoreboard-") as folder:
            module = __import__(f"part_{part}")
            module.run(pathlib.Path(folder))
    import report

    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
