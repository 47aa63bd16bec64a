"""Time the workloads at 1/16, 1/4, 1, 4 and 16 times their size.

The table shows the time per element. Where this time changes, the arrays no longer fit
into a cache, or a library begins to use threads or another algorithm. The growing axes
are in ``peers.definitions.GROWING_AXES``: rows, batches, the sides of images. Only the
elements of the inputs that grow are counted::

    python benchmarks/growth.py --peers torch --record growth.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import records
import workloads
from peers import definitions
from peers.definitions import WORKLOADS

FACTORS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
FACTOR_LABELS = ("1/16", "1/4", "1", "4", "16")
Curves = dict[str, dict[str, list[float | None]]]  # ns: workload, contestant, factor


def elements(name: str, factor: float) -> int:
    """Return the number of elements in the inputs that grow."""
    inputs = WORKLOADS[name].inputs(definitions.Draw())
    scaled = definitions.scaled_inputs(name, inputs, factor)
    growing = definitions.GROWING_AXES.get(name, {"x": (0,)})
    return sum(scaled[key].size for key in growing)


def measure(args: argparse.Namespace) -> Curves:
    """Return nanoseconds per element; None where a result is wrong or missing."""
    contestants = workloads.start(args.backend, args.peers, args.threads, args.python)
    turn = workloads.TURNS[args.turns] | {"clock": "wall"}
    curves: Curves = {}
    try:
        for name in args.only:
            curves[name] = {contestant.name: [] for contestant in contestants}
            for factor in FACTORS:
                found = workloads.run(name, contestants, args.seconds, turn, factor)
                for contestant, curve in curves[name].items():
                    us = (
                        found["us"].get(contestant)
                        if contestant not in found["differ"]
                        else None
                    )
                    count = elements(name, factor)
                    curve.append(None if us is None else us * 1e3 / count)
                for contestant, why in (found["errors"] | found["differ"]).items():
                    print(f"{name} at {factor}: {contestant}: {why}", file=sys.stderr)
    finally:
        for contestant in contestants:
            contestant.close()
    return curves


def table(curves: Curves) -> str:
    """Return a row for each workload and contestant."""

    def row(first: str, second: str, cells: Iterable[str]) -> str:
        return f"{first:14}{second:10}{''.join(f'{x:>10}' for x in cells)}"

    lines = [row("ns an element", "", FACTOR_LABELS)]
    for name, by_contestant in curves.items():
        for contestant, curve in by_contestant.items():
            cells = ["-" if x is None else f"{x:.3g}" for x in curve]
            lines.append(row(name, contestant, cells))
    return "\n".join(lines)


def record(curves: Curves, args: argparse.Namespace) -> dict[str, Any]:
    """Return the times as a record."""
    return {
        "question": "How does the time per element change with the size of the arrays?",
        "threads": args.threads,
        "conditions": f"{args.turns} turns",
        "unit": "ns per element",
        "columns": ["workload", "contestant", *FACTOR_LABELS],
        "labels": 2,
        "rows": [
            [name, contestant, *curve]
            for name, by_contestant in curves.items()
            for contestant, curve in by_contestant.items()
        ],
    }


# --- the command line ------------------------------------------------------------


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    names = lambda text: [name for name in text.split(",") if name]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", type=names, default=["cpu"], help="cpu,wasm,...")
    known = ",".join(workloads.KNOWN_PEERS)
    parser.add_argument("--peers", type=names, default=[], help=known)
    parser.add_argument("--only", type=names, default=[*WORKLOADS], help="workloads")
    parser.add_argument("--threads", type=int, default=1, help="of every contestant")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each point")
    parser.add_argument("--turns", choices=[*workloads.TURNS], default="sustained")
    parser.add_argument("--python", default=sys.executable, help="of the peers")
    parser.add_argument("--json", type=Path, help="write the times to this file")
    records.add_option(parser)
    args = parser.parse_args(arguments)
    if unknown := [name for name in args.only if name not in WORKLOADS]:
        parser.error(f"unknown workloads {unknown}; choose from {', '.join(WORKLOADS)}")
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    args = options(arguments)
    curves = measure(args)
    print(table(curves))
    if args.json:
        report: dict[str, Any] = {"machine": workloads.machine(args.threads)}
        report |= {"factors": FACTORS, "ns": curves}
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    if args.record:
        records.write(args.record, **record(curves, args))


if __name__ == "__main__":
    main()
