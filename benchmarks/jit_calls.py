"""Print the CPU time of calls: the first four under ``jit``, later ones, eager ones.

Each case runs in a few fresh processes, and the minimum of each figure counts. ``call
1`` to ``call 4`` are the times of the first four calls minus the time of an eager call:
the first two calls record, and the third compiles. ``later`` is the time of a call
after these. ``arguments`` is the time of a later call of a function that gets its
weights as arguments instead of reading them from Python objects. The cases are a
network of objects, a function that reads a dict of 300 tensors, and the workloads of
``first_calls.py``.

``--against PATH`` alternates with the core of another checkout, whose C accelerators
must be compiled. It prints the figures of the other checkout, and the times of this
checkout divided by those of the other::

    python benchmarks/jit_calls.py --only grad_small,layers
    python benchmarks/jit_calls.py --against ../before --json calls.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dispatch
import first_calls

Run = Callable[[], Any]
Figures = dict[str, float]  # microseconds, by the name of a column
CALLS = [f"call {n}" for n in range(1, 5)]
COLUMNS = [*CALLS, "later", "arguments", "eager"]
WARMUP_CALLS = 20  # eager calls, which do the one-time work not due to jit
LATER_ROUNDS = 20  # rounds of later calls; the fastest counts
ROUND_S = 0.01  # duration of a round, in seconds

# --- cases -----------------------------------------------------------------------


class Case(NamedTuple):
    """A function without arguments, to be called eagerly and under ``jit``.

    Attributes:
        make: Returns the function, given ``jit`` or the identity.
        with_arguments: Like ``make``, for a function that gets all tensors as
            arguments; or None.

    """

    make: Callable[[Callable[..., Any]], Run]
    with_arguments: Callable[[Callable[..., Any]], Run] | None = None


class Layer:
    """A dense layer, written as users do without a layer library."""

    def __init__(self, w: Any, b: Any, activated: bool) -> None:
        self.w = w
        self.b = b
        self.activated = activated

    def __call__(self, x: Any) -> Any:
        """Return the layer's output for a batch."""
        import plugrad as pg

        y = pg.matmul(x, self.w) + self.b
        return pg.relu(y) if self.activated else y


class Network:
    """A sequence of layers."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers

    def __call__(self, x: Any) -> Any:
        """Return the last layer's output for a batch."""
        for layer in self.layers:
            x = layer(x)
        return x


def weights(count: int, size: int) -> tuple[Any, dict[str, Any]]:
    """Return a batch, and the weights and biases of layers of one size."""
    import plugrad as pg
    from definitions import Draw

    draw = Draw()
    x = pg.asarray(draw(size, size))
    found = {}
    for n in range(count):
        found[f"w{n}"] = pg.asarray(draw(size, size, scale=size**-0.5))
        found[f"b{n}"] = pg.asarray(draw(size, scale=0.1))
    return x, found


def layers() -> Case:
    """Return the forward pass of a network object with 20 layers of 8 x 8."""
    x, found = weights(20, 8)
    pairs = [(found[f"w{n}"], found[f"b{n}"]) for n in range(20)]
    network = Network([Layer(w, b, n < 19) for n, (w, b) in enumerate(pairs)])

    def make(jit: Callable[..., Any]) -> Run:
        f = jit(lambda x: network(x))
        return lambda: f(x)

    def with_arguments(jit: Callable[..., Any]) -> Run:
        def forward(pairs: list[Any], x: Any) -> Any:
            import plugrad as pg

            for n, (w, b) in enumerate(pairs):
                x = pg.matmul(x, w) + b
                x = pg.relu(x) if n < 19 else x
            return x

        f = jit(forward)
        return lambda: f(pairs, x)

    return Case(make, with_arguments)


def captured() -> Case:
    """Return a chain of 150 matrix products and additions with tensors in a dict."""
    x, found = weights(150, 8)

    def chain(found: Mapping[str, Any], x: Any) -> Any:
        import plugrad as pg

        for n in range(150):
            x = pg.matmul(x, found[f"w{n}"]) + found[f"b{n}"]
        return x

    def make(jit: Callable[..., Any]) -> Run:
        f = jit(lambda x: chain(found, x))
        return lambda: f(x)

    def with_arguments(jit: Callable[..., Any]) -> Run:
        f = jit(chain)
        return lambda: f(found, x)

    return Case(make, with_arguments)


OBJECT_CASES = {"layers": layers, "captured": captured}

# --- measuring -------------------------------------------------------------------


def cpu_us(f: Run) -> float:
    """Return the CPU time of a call."""
    start = time.process_time()
    f()
    return (time.process_time() - start) * 1e6


def measure_case(name: str) -> Figures:
    """Return the figures of one case in this process."""
    import plugrad as pg

    if name in OBJECT_CASES:
        pg.set_backend("cpu")
        sys.path.insert(0, str(first_calls.PEERS))
        case = OBJECT_CASES[name]()
    else:
        case = Case(first_calls.case_factory(name, "cpu"))
    eager = case.make(lambda f: f)
    for _ in range(WARMUP_CALLS):
        eager()
    later = case.make(pg.jit)
    found = {call: cpu_us(later) for call in CALLS}
    runs = {"eager": eager, "later": later}
    if case.with_arguments:
        runs["arguments"] = case.with_arguments(pg.jit)
        runs["arguments"]()
    return found | dispatch.measure(runs, LATER_ROUNDS, ROUND_S, time.process_time)


def core_description() -> str:
    """Return the folder of the core, and whether it uses its C accelerators."""
    import plugrad as pg
    from plugrad._src.engine.accelerated import _speedups

    return f"{Path(pg.__file__).parent}, {'C' if _speedups else 'Python'}"


def least_figures(
    name: str, checkouts: Mapping[str, Sequence[str]], processes: int, threads: int
) -> dict[str, Figures]:
    """Return the minimum of each figure; the processes alternate between checkouts."""
    least: dict[str, Figures] = {checkout: {} for checkout in checkouts}
    for _ in range(processes):
        for checkout, paths in checkouts.items():
            given = {"plugins": "cpu", "threads": threads, "paths": paths}
            found = first_calls.run_in_fresh_process(
                __file__, "--measure", name, **given
            )
            for column, us in found.items():
                least[checkout][column] = min(us, least[checkout].get(column, us))
    for figures in least.values():
        for call in CALLS:
            figures[call] -= figures["eager"]
    return least


def import_paths(path: Path) -> list[str]:
    """Return the module search path that imports the core of another checkout.

    Raises:
        SystemExit: Python finds another core, or only one of the two cores uses its C
            accelerators.

    """
    paths = [str(path.resolve() / "core" / "src")]
    here, there = (
        first_calls.run_in_fresh_process(
            __file__, "--where", plugins="cpu", threads=1, paths=p
        )
        for p in ([], paths)
    )
    if not there.startswith(paths[0] + os.sep):
        raise SystemExit(f"{path}: Python finds another core, {there}")
    if here.split()[-1] != there.split()[-1]:
        raise SystemExit(f"the accelerators differ: {here}; {there}")
    return paths


# --- printing --------------------------------------------------------------------


def row(first: str, figures: Figures) -> str:
    """Return a line of a table."""
    cells = [f"{figures[c]:,.2f}" if c in figures else "-" for c in COLUMNS]
    return f"{first:18}" + "".join([f"{cell:>12}" for cell in cells])


def ratios(here: Figures, there: Figures) -> Figures:
    """Return this checkout's times divided by the other's, if both are positive."""
    both = [c for c in here if min(here[c], there.get(c, 0)) > 0]
    return {c: here[c] / there[c] for c in both}


def table(name: str, found: Mapping[str, Figures]) -> str:
    """Return the lines of one case."""
    lines = [row(name, found["here"])]
    if "there" in found:
        lines.append(row("  there", found["there"]))
        lines.append(row("  here / there", ratios(**found)))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--only", default="", help="cases, separated by commas")
    parser.add_argument("--against", type=Path, help="a checkout of plugrad")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--where", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure or options.where:
        print(
            json.dumps(
                measure_case(options.measure) if options.measure else core_description()
            )
        )
        return 0
    sys.path.insert(0, str(first_calls.PEERS))
    import plugrad_peer

    known = [*OBJECT_CASES, *plugrad_peer.JIT_WORKLOADS]
    chosen = options.only.split(",") if options.only else known
    checkouts: dict[str, Sequence[str]] = {"here": []}
    if options.against:
        checkouts["there"] = import_paths(options.against)
    report = {}
    print(f"{'us of CPU time':18}" + "".join([f"{c:>12}" for c in COLUMNS]))
    for name in chosen:
        report[name] = least_figures(
            name, checkouts, options.processes, options.threads
        )
        print(table(name, report[name]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
