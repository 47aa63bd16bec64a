"""Compare outcomes of Keras' own tests on two backends: which failures are ours?

The files are written by ``python -m tests.keras.suite --results``. A test counts if it
passes on the second backend. Those that count and fail on the first one are listed with
their reasons, one reason a line::

    python -m tests.keras.outcomes plugrad.jsonl jax.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path


def read(path: Path) -> dict[str, dict[str, str]]:
    """Return the last outcome of each test; an error after a test counts as failed."""
    found: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row["when"] != "teardown" or row["outcome"] == "failed":
            found[row["test"]] = row
    return found


def room(test: str) -> str:
    """Return the folder of ``keras/src`` that a test is in."""
    return test.rpartition("/")[2].split("__")[0].removesuffix("_test.py")


def table(ours: dict[str, dict[str, str]], theirs: dict[str, dict[str, str]]) -> str:
    """Return passed and failed tests by folder, of those that pass elsewhere."""
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for test, row in ours.items():
        if theirs.get(test, {}).get("outcome") != "passed":
            continue
        passed[room(test)] += row["outcome"] == "passed"
        failed[room(test)] += row["outcome"] == "failed"
    lines = []
    for name in sorted(passed):
        share = passed[name] / max(1, passed[name] + failed[name])
        lines += [
            f"{name:20} {passed[name]:6} passed {failed[name]:5} failed {share:.2%}"
        ]
    good, bad = passed.total(), failed.total()
    lines += [f"{'all':20} {good:6} passed {bad:5} failed {good / (good + bad):.2%}"]
    return "\n".join(lines)


def reasons(ours: dict[str, dict[str, str]], theirs: dict[str, dict[str, str]]) -> str:
    """Return the failures that are ours, by reason, the most frequent first."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for test, row in ours.items():
        if row["outcome"] != "failed":
            continue
        if theirs.get(test, {}).get("outcome") == "passed":
            first = row["reason"].strip().splitlines()[0][:150]
            groups[first].append(test.rpartition("/")[2])
    lines = []
    for reason, tests in sorted(groups.items(), key=lambda item: -len(item[1])):
        lines += [f"{len(tests):4}  {reason}"]
        lines += [f"        {test}" for test in tests]
    return "\n".join(lines)


def main() -> int:
    """Print the table, and the reasons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ours", type=Path, help="outcomes on this backend")
    parser.add_argument("theirs", type=Path, help="outcomes on another one")
    options = parser.parse_args()
    ours, theirs = read(options.ours), read(options.theirs)
    print(table(ours, theirs))
    print(reasons(ours, theirs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
