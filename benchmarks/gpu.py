"""Measure the backend opencl on a GPU, next to PyTorch and JAX, within ten minutes.

Each line is printed, and the ``--json`` file is rewritten, as soon as the line is
known, so an interrupted run loses nothing. Rows for which ``--minutes`` was too short
are listed at the end::

    python benchmarks/gpu.py --json gpu.json
    python benchmarks/gpu.py --only launches,workloads --workloads transformer
    PLUGRAD_OPENCL_DEVICE=cpu python benchmarks/gpu.py --quick --minutes 2

Parts:

- ``device``: the device, and what a launch, a wait and a copy cost through pyopencl
  alone, in plugrad and in PyTorch.
- ``launches``: the kernels that each workload of ``workloads.py`` launches, eager and
  with ``pg.jit``. They are the same without a GPU (``PLUGRAD_OPENCL_STYLE=gpu``).
- ``bandwidth``: memory-bound ops of 2^27 float32, and their share of the bandwidth of a
  copy.
- ``products``: matrix products, convolutions and attention. PyTorch computes without
  TF32.
- ``workloads``: the workloads, timed in turns of 0.15 s on opencl (with ``pg.jit``
  where they benefit from it), torch-cuda and jax-cuda. The results are compared.

In ``bandwidth`` and ``products``, a time is that of many pipelined calls with one wait
at the end, divided by their number. Each call has run before it is timed, so times do
not include compilation. In ``workloads``, only the first of several turns compiles, and
the best turn counts. Every library runs in its own process; a library that is not
installed is reported and left out. A ratio is the time of a peer divided by that of
plugrad: above 1, plugrad is faster.

Contents: the report; the parts; the command line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import records
import workloads
from peers import gpu_cases
from peers.definitions import WORKLOADS

PEER_SCRIPT = str(Path(__file__).parent / "peers" / "gpu_peer.py")
PEERS = ("torch", "jax")
TURN = {"time": 0.15, "warm": 0.05, "calls": 3, "clock": "wall"}
TURNS_BUDGET_S = 0.5  # seconds of turns, for each workload and contestant
CASE_SECONDS = 0.1  # one measurement of a case
QUICK_DIVISOR = 20  # a quick run divides these times by this number
TERA_PER_S = 1e-6  # bytes or operations per microsecond -> tera per second
NAME_WIDTH = 54  # characters of the first column
ERROR_WIDTH = 100  # characters of an error in a table; the JSON file has the rest

# --- the report ------------------------------------------------------------------


class Report:
    """Prints each row when it is known, and writes all rows as JSON.

    Attributes:
        found: The measured values, by part and row.
        left_out: The rows for which there was no time.

    """

    def __init__(self, file: Path | None, minutes: float) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self.left_out: list[str] = []
        self._file, self._end = file, perf_counter() + 60 * minutes

    def head(self, part: str, columns: Sequence[str] = ()) -> None:
        """Begin a part."""
        self.found[part] = {}
        print(
            f"\n{part:{NAME_WIDTH}}{''.join(f'{c:>13}' for c in columns)}".rstrip(),
            flush=True,
        )

    def row(
        self, part: str, name: str, values: Any, cells: Sequence[str], notes: str = ""
    ) -> None:
        """Print and write a row; ``cells`` are the columns."""
        self.found[part][name] = values
        notes = " ".join(notes.split())
        line = f"{name:{NAME_WIDTH}}{''.join(f'{cell:>13}' for cell in cells)}  {notes}"
        print(line.rstrip(), flush=True)
        self.write()

    def write(self) -> None:
        """Replace the JSON file atomically."""
        if self._file is not None:
            text = json.dumps({**self.found, "left_out": self.left_out}, indent=1)
            temporary = self._file.with_name(f"{self._file.name}.part")
            temporary.write_text(text + "\n")
            temporary.replace(self._file)

    def seconds_left(self) -> float:
        """Return the seconds until the end of the run."""
        return max(self._end - perf_counter(), 0.0)

    def in_time(self, part: str, names: Sequence[str]) -> Iterator[str]:
        """Yield the names while there is time, and note the others as left out."""
        for number, name in enumerate(names):
            if not self.seconds_left():
                self.left_out += [f"{part}: {rest}" for rest in names[number:]]
                self.write()
                return
            yield name


def number(value: float | None) -> str:
    """Return a cell of a table, with three digits or more."""
    if value is None:
        return "-"
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2
    return f"{value:,.{digits}f}"


def short(error: str) -> str:
    """Return the beginning of an error."""
    return error if len(error) <= ERROR_WIDTH else f"{error[:ERROR_WIDTH]}..."


def ratio(us: dict[str, float], peer: str, ours: str = "opencl") -> float | None:
    """Return the time of a peer divided by that of plugrad."""
    return us[peer] / us[ours] if peer in us and ours in us else None


# --- the parts -------------------------------------------------------------------

Contestants = list[workloads.Contestant]


def ask(
    report: Report, contestant: workloads.Contestant, **request: Any
) -> dict[str, Any]:
    """Return the answer to a request, or an error if the run ends before the answer."""
    contestant.timeout_s = report.seconds_left()
    return contestant.ask(**request)


def device(report: Report, libraries: Contestants, args: argparse.Namespace) -> None:
    """Report the device, and what a launch, a wait and a copy cost, in microseconds."""
    answer = ask(
        report, libraries[0], device=True, quick=args.quick, seconds=seconds(args)
    )
    report.head("device", ["pyopencl", *(contestant.name for contestant in libraries)])
    if "error" in answer:
        report.row("device", "error", answer["error"], [], answer["error"])
        return
    for name, value in answer["properties"].items():
        report.row("device", name, value, [], str(value))
    for contestant in libraries:
        report.row(
            "device",
            f"versions of {contestant.name}",
            contestant.versions,
            [],
            str(contestant.versions),
        )
    us = answer["us"]
    rate = answer["bytes"] / us["copy"] * TERA_PER_S
    report.row("device", "copy, TB/s", rate, [number(rate)], f"{number(us['copy'])} us")
    report.row("device", "wait alone", us["wait alone"], [number(us["wait alone"])])
    for name, what in gpu_cases.LATENCIES.items():
        times, errors = time_case(report, libraries, "device", name, args)
        values = {"pyopencl": us[name], **times}
        cells = [
            number(values.get(k))
            for k in ("pyopencl", *(contestant.name for contestant in libraries))
        ]
        report.row(
            "device", name, values, cells, "; ".join([what, *map(short, errors)])
        )


def launches(report: Report, libraries: Contestants, args: argparse.Namespace) -> None:
    """Report the kernels of each workload."""
    report.head("launches", ["eager", "jit"])
    for name in report.in_time("launches", args.workloads):
        found: dict[str, Any] = {}
        cells, notes = [], ""
        for mode in ("eager", "jit"):
            answer = ask(report, libraries[0], launches=name, jit=mode == "jit")
            if "kernels" in answer:
                kernels = answer["kernels"]
                found[mode] = kernels
                notes = ", ".join(f"{kernel} {n}" for kernel, n in kernels.items())
            elif "error" in answer:
                found[mode] = notes = answer["error"]
            cells.append(str(sum(found[mode].values())) if "kernels" in answer else "-")
        report.row("launches", name, found, cells, notes)


def bandwidth(report: Report, libraries: Contestants, args: argparse.Namespace) -> None:
    """Report memory-bound cases: microseconds, TB/s, and share of the copy's TB/s."""
    _rates(report, libraries, args, "bandwidth", "TB/s", share=True)


def products(report: Report, libraries: Contestants, args: argparse.Namespace) -> None:
    """Report products, convolutions and attention: microseconds and TFLOP/s."""
    _rates(report, libraries, args, "products", "TFLOP/s", share=False)


def _rates(
    report: Report,
    libraries: Contestants,
    args: argparse.Namespace,
    part: str,
    unit: str,
    *,
    share: bool,
) -> None:
    """Report the cases of a part; the first is the copy that ``share`` refers to."""
    names = [contestant.name for contestant in libraries]
    heads = [head for name in names for head in (name, unit, *["of copy"] * share)]
    report.head(part, [*heads, *(f"{name}/opencl" for name in names[1:])])
    cases = gpu_cases.cases(part, args.quick)
    ceiling = 0.0
    for name in report.in_time(part, [*cases]):
        us, errors = time_case(report, libraries, part, name, args)
        rates = {k: cases[name].work / us[k] * TERA_PER_S for k in us}
        ceiling = ceiling or max(rates.values(), default=0.0)
        shares = {k: rates[k] / ceiling for k in rates} if share else {}
        columns = [us, rates, *[shares] * share]
        cells = [number(column.get(k)) for k in names for column in columns]
        cells += [number(ratio(us, peer)) for peer in names[1:]]
        values = {"us": us, unit: rates, "errors": errors}
        values |= {"share": shares} if share else {}
        report.row(part, name, values, cells, "; ".join(map(short, errors)))


def time_case(
    report: Report,
    libraries: Contestants,
    part: str,
    name: str,
    args: argparse.Namespace,
) -> tuple[dict[str, float], list[str]]:
    """Return the microseconds of a case by library, and what failed."""
    us, errors = {}, []
    request = {"time": name, "part": part, "quick": args.quick}
    for contestant in libraries:
        answer = ask(report, contestant, **request, seconds=seconds(args))
        if "us" in answer:
            us[contestant.name] = answer["us"]
        elif "error" in answer:
            errors.append(f"{contestant.name}: {answer['error']}")
    return us, errors


def seconds(args: argparse.Namespace) -> float:
    """Return the seconds of one measurement of a case."""
    return CASE_SECONDS / QUICK_DIVISOR if args.quick else CASE_SECONDS


def run_workloads(report: Report, args: argparse.Namespace) -> None:
    """Report the workloads in turns, and their ratios to the peers."""
    divisor = QUICK_DIVISOR if args.quick else 1
    turn = {**TURN, "time": TURN["time"] / divisor, "warm": TURN["warm"] / divisor}
    peers = [f"{peer}-cuda" for peer in args.peers]
    ours = "opencl-mixed"
    contestants = workloads.start([ours], peers, args.threads, args.python)
    peers = [contestant.name for contestant in contestants[1:]]
    report.head("workloads", [ours, *peers, *(f"{p}/opencl" for p in peers)])
    us: workloads.Times = {}
    try:
        for name in report.in_time("workloads", args.workloads):
            for contestant in contestants:
                contestant.timeout_s = report.seconds_left()
            found = workloads.run(name, contestants, TURNS_BUDGET_S / divisor, turn)
            us[name] = {
                k: t for k, t in found["us"].items() if k not in found["differ"]
            }
            cells = [number(found["us"].get(k)) for k in (ours, *peers)]
            cells += [number(ratio(us[name], peer, ours)) for peer in peers]
            notes = [f"! {k} is off by {by:.1e}" for k, by in found["differ"].items()]
            notes += [short(f"{k}: {why}") for k, why in found["errors"].items()]
            report.row("workloads", name, found, cells, "; ".join(notes))
    finally:
        for contestant in contestants:
            contestant.close()
    _summary(report, workloads.ratios(us, [ours], peers)[ours])


def _summary(report: Report, by_peer: dict[str, dict[str, float]]) -> None:
    """Report the geometric mean and the lowest of the ratios to each peer."""
    for peer, found in by_peer.items():
        mean = workloads.geometric_mean(found.values())
        if mean is None:
            continue
        slowest = min(found, key=found.__getitem__)
        report.row(
            "workloads",
            f"summary of {peer}/opencl",
            {"geometric mean": mean, "lowest": {slowest: found[slowest]}},
            [],
            f"geometric mean {mean:.2f} of {len(found)}, lowest {found[slowest]:.2f} "
            f"({slowest})",
        )


def record(
    found: dict[str, dict[str, Any]], args: argparse.Namespace
) -> dict[str, Any]:
    """Return the times of the workloads with correct results as a record."""
    names = ["opencl-mixed", *(f"{peer}-cuda" for peer in args.peers)]
    rows = []
    for name, values in found["workloads"].items():
        if "us" in values:  # a summary has none
            us = {k: t for k, t in values["us"].items() if k not in values["differ"]}
            rows.append([name, *map(us.get, names)])
    known = {
        "question": "How fast are the workloads on a GPU?",
        "unit": "us",
        "columns": ["workload", *names],
        "rows": rows,
    }
    device = found.get("device", {}).get("name")  # else the host's processor
    return known | ({"machine": device} if device else {})


PARTS: dict[str, Callable[[Report, Contestants, argparse.Namespace], None]] = {
    "device": device,
    "launches": launches,
    "bandwidth": bandwidth,
    "products": products,
}

# --- the command line ------------------------------------------------------------


@contextmanager
def start_libraries(args: argparse.Namespace) -> Iterator[Contestants]:
    """Start ``gpu_peer.py`` for plugrad and then for PyTorch; close both at the end."""
    found: Contestants = []
    names = ["opencl", *(["torch"] if "torch" in args.peers else [])]
    if args.only == ["launches"]:
        names = ["opencl"]
    try:
        for name in names:
            python = sys.executable if name == "opencl" else args.python
            script = [PEER_SCRIPT, name]
            contestant = workloads.Contestant(name, args.threads, python, script)
            if not contestant.error:
                found.append(contestant)
                continue
            contestant.close()
            if name == "opencl":
                raise SystemExit(f"opencl does not start: {contestant.error}")
            print(f"{name} is left out: {contestant.error}", file=sys.stderr)
        yield found
    finally:
        for contestant in found:
            contestant.close()


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    names = lambda text: [name for name in text.split(",") if name]
    parts = [*PARTS, "workloads"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="duration of the whole run"
    )
    parser.add_argument("--only", type=names, default=parts, help=",".join(parts))
    parser.add_argument("--peers", type=names, default=[*PEERS], help=",".join(PEERS))
    parser.add_argument("--workloads", type=names, default=[*WORKLOADS], help="names")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count(), help="of the host"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, for tests")
    parser.add_argument("--python", default=sys.executable, help="of the peers")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    records.add_option(parser)
    args = parser.parse_args(arguments)
    for kind, chosen, known in (
        ("part", args.only, parts),
        ("peer", args.peers, PEERS),
        ("workload", args.workloads, WORKLOADS),
    ):
        for name in chosen:
            if name not in known:
                parser.error(f"unknown {kind} {name!r}; choose from {', '.join(known)}")
    if args.minutes <= 0:
        parser.error(f"--minutes must be above 0, got {args.minutes:g}")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; return 1 if there was no time for a row."""
    args = options(arguments)
    report = Report(args.json, args.minutes)
    chosen = [part for part in PARTS if part in args.only]
    if chosen:
        with start_libraries(args) as libraries:
            for part in chosen:
                PARTS[part](report, libraries, args)
    if "workloads" in args.only:
        run_workloads(report, args)
    report.write()
    if args.record and "workloads" in args.only:
        records.write(args.record, **record(report.found, args))
    if report.left_out:
        print(f"\nno time for {len(report.left_out)} rows:", flush=True)
        print("\n".join(report.left_out), flush=True)
    return 1 if report.left_out else 0


if __name__ == "__main__":
    sys.exit(main())
