"""Time the workloads on plugrad backends and, in the same run, on other libraries.

Every contestant is a process that stays open. All prepare one workload, then they take
turns, and the best time of each counts, so a busy machine affects all alike. In a turn,
a contestant warms up and then runs for 0.3 s and at least ten calls, as it would in a
program of its own. With ``--turns short``, a turn is 4 ms: it starts with sleeping
threads and cold caches but, on a busy machine, some of these turns are undisturbed.

The benchmark compares the results; a contestant with a wrong result gets no ratio.
Memory-bound workloads vary by up to a third between processes, because each process
gets different physical pages: with ``--processes 3``, each contestant is started three
times, and the best time counts. A ratio is the time of a peer divided by the time of
plugrad: above 1, plugrad is faster::

    python benchmarks/workloads.py --backend cpu --peers numpy,autograd
    make peers  # installs torch, jax, autograd and TensorFlow.js
    python benchmarks/workloads.py --backend wasm --peers tfjs --json wasm.json
    python benchmarks/workloads.py --list

Backends: ``cpu-jit`` is cpu with ``pg.jit``, for the workloads that benefit from it,
and ``cpu-jit-own`` the same without compilers from other distributions, such as
plugrad-llvm. ``wasm-jit`` and ``opencl-jit`` are wasm and opencl with ``pg.jit``.
``opencl-mixed`` (or ``cpu-mixed``, ...) runs all workloads, with ``pg.jit`` where they
benefit from it.

Peers: torch; torch-compile (for the workloads of ``cpu-jit``: it needs a C++ compiler,
and some seconds for each); jax (without compilation for workloads that measure eager
execution; jax-jit compiles all); numpy; autograd; tfjs (its wasm backend in Node, with
one thread; tfjs-cpu is its JavaScript backend); torch-cuda and jax-cuda, compiled,
on an NVIDIA GPU, to compare with opencl there. With one contestant, there is no
comparison.

``--clock cpu`` counts CPU time instead of wall-clock time. Use it to compare single
threads on a busy machine.

Contents: contestants; measuring; comparing; printing; the command line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import records
from peers import definitions
from peers.definitions import WORKLOADS, Array

HERE = Path(__file__).parent
Times = dict[str, dict[str, float]]  # by workload and contestant
ANSWER_TIMEOUT_S = 600  # seconds to wait for the answer of a contestant
TOLERANCE = 2e-3  # relative to an array's largest number; for deep float32 networks
TURNS = {  # per turn: seconds, seconds to warm up, and the minimum number of calls
    "sustained": {"time": 0.3, "warm": 0.1, "calls": 10},
    "short": {"time": 0.004, "warm": 0.0, "calls": 1},
}
MIN_TURNS = 3  # turns of each contestant, even if they exceed its time budget

# --- contestants -----------------------------------------------------------------

KNOWN_PEERS = ("torch", "torch-compile", "torch-cuda", "jax", "jax-jit", "jax-cuda")
KNOWN_PEERS += ("numpy", "autograd", "tfjs", "tfjs-cpu")


def command(name: str, threads: int, python: str) -> list[str]:
    """Return the command of a contestant; unknown names are backends of plugrad.

    ``python`` is the interpreter of the peers.
    """
    if name.startswith("tfjs"):
        kind = name.partition("-")[2] or "wasm"
        return ["node", str(HERE / "peers/tfjs.mjs"), kind]
    library, _, option = name.partition("-")
    arguments = {"torch": [str(threads), option], "jax": [option]}
    if name not in KNOWN_PEERS:
        library = "plugrad"
        arguments = {"plugrad": [name]}
        python = sys.executable
    script = HERE / f"peers/{library}_peer.py"
    return [python, str(script), *arguments.get(library, [])]


def environment(name: str, threads: int) -> dict[str, str]:
    """Return an environment that limits a contestant to this number of threads."""
    count = str(threads)
    pools = ("OMP", "OPENBLAS", "MKL", "VECLIB")
    found = {f"{pool}_NUM_THREADS": count for pool in pools}
    found |= {"POCL_CPU_MAX_CU_COUNT": count, "POCL_MAX_PTHREAD_COUNT": count}
    found |= {"JAX_PLATFORMS": "cuda" if name == "jax-cuda" else "cpu", "NPROC": count}
    if name.endswith("-own"):
        found["PLUGRAD_PLUGINS"] = f"cpu,{name.partition('-')[0]}"
    if name.partition("-")[0] == "wasm":
        found["PLUGRAD_WASM_THREADS"] = count
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **found, "PYTHONPATH": os.pathsep.join(paths)}


class Contestant:
    """A process that runs workloads on request.

    Attributes:
        name: The name in tables.
        error: Why the process has stopped; empty while it runs.
        versions: The versions of its packages.
        timeout_s: The seconds to wait for an answer.

    """

    def __init__(
        self, name: str, threads: int, python: str, script: Sequence[str] = ()
    ) -> None:
        """Start the process: the peer of this name, or a ``script`` with arguments."""
        self.name, self.error = name, ""
        self.timeout_s: float = ANSWER_TIMEOUT_S
        self.versions: dict[str, str] = {}
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # close() closes it
        self._process = subprocess.Popen(
            [python, *script] if script else command(name, threads, python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment(name, threads),
            text=True,
            bufsize=1,
        )
        if processors := _processors(threads):
            os.sched_setaffinity(self._process.pid, processors)
        self.versions = self._answer().get("versions", {})

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to a request; it has an ``error`` if the request failed."""
        if self.error:
            return {"error": self.error}
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer gives the reason
            self._process.stdin.write(json.dumps(request) + "\n")
        return self._answer()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def _answer(self) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], self.timeout_s)[0]:
            self.error = f"no answer for {self.timeout_s:.0f} s"
        elif line := stdout.readline():
            return dict(json.loads(line))
        else:
            self._log.seek(0)
            lines = self._log.read().strip().splitlines() or ["it ended without output"]
            self.error = next((x for x in lines if x.startswith("Error")), lines[-1])
        return {"error": self.error}


def _processors(threads: int) -> set[int]:
    """Return one processor for each thread; none if every processor is needed."""
    if not hasattr(os, "sched_getaffinity"):
        return set()
    available = sorted(os.sched_getaffinity(0))
    return set(available[-threads:]) if threads < len(available) else set()


def start(
    backends: Sequence[str], peers: Sequence[str], threads: int, python: str
) -> list[Contestant]:
    """Return the contestants; report and omit peers that do not start."""
    found = []
    for name in [*backends, *peers]:
        if name.startswith("tfjs") and shutil.which("node") is None:
            print(f"{name} is left out: it needs Node.js", file=sys.stderr)
            continue
        contestant = Contestant(name, threads, python)
        if not contestant.error:
            found.append(contestant)
            continue
        contestant.close()
        if name in backends:
            raise SystemExit(f"backend {name!r} does not start: {contestant.error}")
        print(f"{name} is left out: {contestant.error}", file=sys.stderr)
        target = (
            "benchmarks/peers/node_modules" if "tfjs" in name else ".venv/.group-bench"
        )
        if "needs" not in contestant.error:  # the package is missing, not a requirement
            print(f"  `make {target}` installs it", file=sys.stderr)
    return found


# --- measuring -------------------------------------------------------------------


def run(
    name: str,
    contestants: Sequence[Contestant],
    budget: float,
    turn: dict[str, Any],
    factor: float = 1,
) -> dict[str, Any]:
    """Return the times of one workload in microseconds, and errors.

    ``budget`` is in seconds, for each contestant; ``turn`` is the request for one turn.
    The inputs are ``factor`` times as large as those of the table.
    """
    us: dict[str, float] = {}
    errors: dict[str, str] = {}
    results: dict[str, list[Array]] = {}
    with tempfile.TemporaryDirectory() as folder:
        inputs = definitions.write(name, Path(folder), factor)
        ready = []
        for contestant in contestants:
            answer = contestant.ask(load=name, folder=folder)
            if "error" in answer:
                errors[contestant.name] = answer["error"]
            elif "missing" not in answer:
                ready.append(contestant)
                results[contestant.name] = _result(name, inputs, Path(folder))
    _take_turns(ready, budget, turn, us, errors)
    return {"us": us, "errors": errors, "differ": differing(name, results)}


def _take_turns(
    ready: list[Contestant],
    budget: float,
    turn: dict[str, Any],
    us: dict[str, float],
    errors: dict[str, str],
) -> None:
    """Fill ``us`` with the best times, and ``errors`` with failures."""
    spent = dict.fromkeys((contestant.name for contestant in ready), 0.0)
    turns = 0
    while ready := [
        contestant
        for contestant in ready
        if contestant.name not in errors
        and (turns < MIN_TURNS or spent[contestant.name] < budget)
    ]:
        turns += 1
        for contestant in ready:
            start = perf_counter()
            answer = contestant.ask(**turn)
            spent[contestant.name] += perf_counter() - start
            if "error" in answer:
                errors[contestant.name] = answer["error"]
            else:
                us[contestant.name] = min(
                    us.get(contestant.name, math.inf), answer["us"]
                )


def _result(name: str, inputs: Mapping[str, Array], folder: Path) -> list[Array]:
    """Return the result of a contestant; after training, the change of the weights."""
    found = np.fromfile(folder / "result.bin", np.float32)
    if not WORKLOADS[name].trains:
        return [found]
    changes, end = [], 0
    for key, before in inputs.items():
        if key.startswith("w"):
            begin = end
            end = end + before.size
            changes.append(found[begin:end] - before.ravel())
    return changes


# --- comparing -------------------------------------------------------------------


def differing(name: str, results: Mapping[str, list[Array]]) -> dict[str, float]:
    """Return the contestants that disagree with most others, and their distances.

    The distance is the largest difference over all arrays of a result, relative to the
    largest number of each array. If there are only two contestants and they disagree,
    the function returns both.
    """
    limit = 0.0 if WORKLOADS[name].exact else TOLERANCE
    found = {}
    for contestant, result in results.items():
        others = [
            _distance(result, r) for other, r in results.items() if other != contestant
        ]
        agreeing = sum(d <= limit for d in others)
        if 2 * agreeing < len(others):
            found[contestant] = min(others)
    return found


def _distance(result: list[Array], other: list[Array]) -> float:
    if [x.size for x in result] != [x.size for x in other]:
        return math.inf
    pairs = zip(result, other, strict=True)
    distances = [np.abs(a - b).max() / (np.abs(b).max() or 1) for a, b in pairs]
    return float(max(distances)) if np.isfinite(distances).all() else math.inf


def ratios(
    us: Times, backends: Iterable[str], peers: Iterable[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return peer time / plugrad time, by backend, peer and workload."""
    peers = list(peers)
    return {
        ours: {
            peer: {
                name: found[peer] / found[ours]
                for name, found in us.items()
                if peer in found and ours in found
            }
            for peer in peers
        }
        for ours in backends
    }


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean; None if there are no values."""
    found = [*values]
    return statistics.geometric_mean(found) if found else None


# --- printing --------------------------------------------------------------------


def machine(threads: int) -> dict[str, Any]:
    """Return a description of the machine."""
    return {
        "cpu": records.machine_name(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "threads": threads,
        "load": os.getloadavg()[0],  # of all processes
    }


def table(report: Mapping[str, Any]) -> str:
    """Return the times, and a column of ratios for each pair of backend and peer."""
    names = list(report["contestants"])
    by_backend = report["ratios"].items()
    pairs = [(ours, peer) for ours, by_peer in by_backend for peer in by_peer]
    heads = [f"{peer}/{ours}" for ours, peer in pairs]

    def row(first: str, cells: Iterable[str], found: Iterable[float | None]) -> str:
        parts = ["" if x is None else f"{x:.2f}" for x in found] or heads
        wide = zip(parts, heads, strict=True)
        right = "".join(f"{x:>{max(8, len(head) + 2)}}" for x, head in wide)
        return f"{first:16}{''.join(f'{cell:>14}' for cell in cells)} {right}".rstrip()

    lines = [row("us", names, [])]
    for name, us in report["us"].items():
        wrong = report["differ"].get(name, {})
        cells = [_cell(us.get(contestant), contestant in wrong) for contestant in names]
        by_pair = (report["ratios"][ours][peer].get(name) for ours, peer in pairs)
        lines.append(row(name, cells, by_pair))
    if pairs:
        means = (report["geometric_means"][ours][peer] for ours, peer in pairs)
        lines.append(row("geometric mean", [""] * len(names), means))
    for name, wrong in report["differ"].items():
        lines += [
            f"! {name}: {contestant} is off by {by:.1e}"
            for contestant, by in wrong.items()
        ]
    for name, errors in report["errors"].items():
        lines += [
            f"- {name}: {contestant} cannot: {why}"
            for contestant, why in errors.items()
        ]
    return "\n".join(lines)


def _cell(us: float | None, wrong: bool) -> str:
    if us is None:
        return "-"
    digits = 0 if us >= 1000 else 1 if us >= 10 else 2
    return f"{'! ' if wrong else ''}{us:,.{digits}f}"


# --- the command line ------------------------------------------------------------


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Run the workloads and return the report; see its keys."""
    budget = args.seconds / 10 if args.quick else args.seconds
    turn = TURNS[args.turns] | {"clock": args.clock}
    us: Times = {name: {} for name in args.only}
    errors: dict[str, dict[str, str]] = {name: {} for name in args.only}
    differ: Times = {name: {} for name in args.only}
    versions: dict[str, dict[str, str]] = {}
    for number in range(args.processes):
        contestants = start(args.backend, args.peers, args.threads, args.python)
        versions |= {contestant.name: contestant.versions for contestant in contestants}
        try:
            for done, name in enumerate(args.only):
                found = run(name, contestants, budget, turn)
                errors[name] |= found["errors"]
                differ[name] |= found["differ"]
                for contestant, time in found["us"].items():
                    us[name][contestant] = min(time, us[name].get(contestant, math.inf))
                _progress(f"{name}: {done + 1} of {len(args.only)}, run {number + 1}")
        finally:
            for contestant in contestants:
                contestant.close()
            _progress("")
    peers = [name for name in versions if name not in args.backend]
    by_pair = ratios(_correct_times(us, differ), args.backend, peers)
    means = {
        ours: {peer: geometric_mean(x.values()) for peer, x in by_peer.items()}
        for ours, by_peer in by_pair.items()
    }
    return {
        "machine": machine(args.threads),
        "clock": args.clock,
        "turns": args.turns,
        "processes": args.processes,
        "contestants": versions,
        "us": us,
        "ratios": by_pair,
        "geometric_means": means,
        "differ": {name: found for name, found in differ.items() if found},
        "errors": {name: found for name, found in errors.items() if found},
    }


def record(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report as a record, without the times of wrong results."""
    names = [*report["contestants"]]
    times = _correct_times(report["us"], report["differ"])
    return {
        "question": "How long do the workloads take?",
        "threads": report["machine"]["threads"],
        "conditions": ", ".join(
            f"--{option} {report[option]}" for option in ("clock", "turns", "processes")
        ),
        "versions": records.versions_of(report["contestants"]),
        "unit": "us",
        "columns": ["workload", *names],
        "rows": [[name, *map(us.get, names)] for name, us in times.items()],
    }


def _correct_times(us: Times, differ: Times) -> Times:
    """Return the times of the contestants with correct results."""
    return {
        name: {
            contestant: t
            for contestant, t in times.items()
            if contestant not in differ.get(name, {})
        }
        for name, times in us.items()
    }


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    names = lambda text: [name for name in text.split(",") if name]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", type=names, default=["cpu"], help="cpu,wasm,...")
    parser.add_argument("--peers", type=names, default=[], help=",".join(KNOWN_PEERS))
    parser.add_argument("--only", type=names, default=[*WORKLOADS], help="workloads")
    parser.add_argument("--threads", type=int, default=1, help="of every contestant")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each pair")
    parser.add_argument("--processes", type=int, default=1, help="per contestant")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--turns", choices=[*TURNS], default="sustained")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time")
    parser.add_argument("--python", default=sys.executable, help="of the peers")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    records.add_option(parser)
    parser.add_argument("--list", action="store_true", help="describe the workloads")
    args = parser.parse_args(arguments)
    for kind, chosen, known in (
        ("workload", args.only, WORKLOADS),
        ("peer", args.peers, KNOWN_PEERS),
    ):
        for name in chosen:
            if name not in known:
                parser.error(f"unknown {kind} {name!r}; choose from {', '.join(known)}")
    for option in ("threads", "processes"):
        if getattr(args, option) < 1:
            parser.error(f"--{option} is at least 1, not {getattr(args, option)}")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; return 1 if results differ."""
    args = options(arguments)
    if args.list:
        for name, workload in WORKLOADS.items():
            print(f"{name:16} {workload.what}")
        return 0
    report = measure(args)
    print(
        f"{report['machine']['cpu']}, {args.threads} of "
        f"{report['machine']['processors']} processors"
    )
    print(table(report))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    if args.record:
        records.write(args.record, **record(report))
    return 1 if report["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
