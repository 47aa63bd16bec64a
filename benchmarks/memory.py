"""Compare the peak memory of training steps with PyTorch's.

Each workload runs in a separate process: first at a sixteenth of its size, so that
one-time allocations of the library are not counted, then ten steps at full size. The
figure is the peak of the process's resident memory beyond the inputs and weights. For
plugrad backends, ``tensors`` is what ``plugrad.memory()`` counts after the last step,
and ``kept`` is the memory that the backend keeps for later results. Linux only::

    python benchmarks/memory.py --backend cpu --peers torch
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import records
from peers import definitions
from workloads import KNOWN_PEERS, Contestant

TRAINING = ("mlp_train", "cnn_train", "transformer")
LATER_STEPS = 9  # after the first step


def peak(name: str, contestant: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return a contestant's memory usage for a workload, in bytes."""
    process = Contestant(contestant, args.threads, args.python)
    try:
        for factor, more in ((1 / 16, {}), (args.size, {"memory": LATER_STEPS})):
            with tempfile.TemporaryDirectory() as folder:
                definitions.write(name, Path(folder), factor)
                answer = process.ask(load=name, folder=folder, **more)
            if "error" in answer:
                raise SystemExit(f"{contestant} cannot run {name}: {answer['error']}")
        return answer
    finally:
        process.close()


def table(report: dict[str, dict[str, Any]]) -> str:
    """Return a row for each workload and contestant, in MB."""
    megabytes = lambda n: f"{n / 1e6:10.1f}" if n is not None else " " * 10
    lines = [f"{'MB':14}{'':10}{'peak':>10}{'tensors':>10}{'kept':>10}"]
    for name, by_contestant in report.items():
        for contestant, answer in by_contestant.items():
            usage = answer.get("usage", {})
            cells = [answer["peak"], usage.get("bytes"), usage.get("kept")]
            numbers = "".join(map(megabytes, cells)).rstrip()
            lines.append(f"{name:14}{contestant:10}{numbers}")
    return "\n".join(lines)


def record(
    report: dict[str, dict[str, Any]], args: argparse.Namespace
) -> dict[str, Any]:
    """Return the table as a record."""
    rows = []
    for name, by_contestant in report.items():
        for contestant, answer in by_contestant.items():
            usage = answer.get("usage", {})
            found = [answer["peak"], usage.get("bytes"), usage.get("kept")]
            megabytes = [None if n is None else n / 1e6 for n in found]
            rows.append([name, contestant, *megabytes])
    return {
        "question": "How much memory does training need?",
        "threads": args.threads,
        "unit": "MB",
        "columns": ["workload", "contestant", "peak", "tensors", "kept"],
        "labels": 2,
        "rows": rows,
    }


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    names = lambda text: [name for name in text.split(",") if name]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", type=names, default=["cpu"], help="cpu,wasm,...")
    parser.add_argument("--peers", type=names, default=[], help=",".join(KNOWN_PEERS))
    parser.add_argument("--only", type=names, default=[*TRAINING], help="workloads")
    parser.add_argument("--size", type=float, default=1.0, help="of the inputs")
    parser.add_argument("--threads", type=int, default=1, help="of every contestant")
    parser.add_argument("--python", default=sys.executable, help="of the peers")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    records.add_option(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    args = options(arguments)
    contestants = [*args.backend, *args.peers]
    report = {
        name: {contestant: peak(name, contestant, args) for contestant in contestants}
        for name in args.only
    }
    print(table(report))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    if args.record:
        records.write(args.record, **record(report, args))


if __name__ == "__main__":
    main()
