"""Run the table of op calls: ``python -m tests.native.run --help``.

The name of each call is printed before it runs, so that the last line names a call that
crashes. The results are written as a pickle.

``Calls`` replaces the extension module before plugrad-cpu is imported, so that every C
kernel is called through a ``Recorder``.
"""

import argparse
import hashlib
import importlib
import os
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from .guards import EDGES, call_guarded

SETTINGS = {"set_threads"}  # functions of the library that are not kernels
# Replaces larger thresholds in modules, so that C kernels also run on small arrays.
MIN_ELEMENTS = 16


Run = Callable[[str, Callable[..., None], tuple[Any, ...]], None]


def call_kernel(name: str, kernel: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Call a kernel."""
    kernel(*args)


class Recorder:
    """Wraps a C kernel: records its calls, and makes them through ``Calls.run``."""

    def __init__(self, name: str, kernel: Callable[..., None], calls: "Calls") -> None:
        self.name = name
        self.kernel = kernel
        self.calls = calls

    def __call__(self, *args: Any) -> None:
        self.calls.reached.add(self.name)
        self.calls.count += 1
        self.calls.run(self.name, self.kernel, args)


class Calls:
    """Replaces plugrad-cpu's extension module; wraps every kernel in a ``Recorder``."""

    def __init__(self, level: str | None = None) -> None:
        self.served: set[str] = set()
        self.reached: set[str] = set()
        self.count = 0
        self.run: Run = call_kernel  # how a kernel is called
        self.native = importlib.import_module("plugrad_cpu._native")
        overrides = {"get": self._get, "get_strided": self._strided}
        overrides |= {"level": lambda: level} if level else {}
        module = SimpleNamespace(**(vars(self.native) | overrides))
        sys.modules["plugrad_cpu._native"] = module  # type: ignore[assignment]

    def _get(self, name: str) -> Callable[..., None]:
        kernel = self.native.get(name)
        if name in SETTINGS:
            return kernel
        self.served.add(name)
        return Recorder(name, kernel, self)

    def _strided(self, name: str) -> Callable[..., None]:
        """Return a kernel that takes strides, in a ``Recorder``."""
        kernel = self.native.get_strided(name)
        self.served.add(name)
        return Recorder(name, kernel, self)


def leaves(found: Any) -> list[Any]:
    """Return the results of a call as NumPy arrays."""
    import plugrad as pg

    return [y.numpy().copy() for y in pg.tree.leaves(found)]


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a named call for each row, dtype and seed."""
    from .draw import Draw
    from .rows import ROWS

    for name, row in ROWS.items():
        for dtype in row.dtypes if re.search(arguments.rows, name) else ():
            for seed in range(arguments.seed, arguments.seed + arguments.count):
                draw = lambda n=name, r=row, t=dtype, s=seed: Draw(
                    n, t, s, arguments.large, r.special
                )
                yield f"{name} {dtype} {seed}", lambda r=row, draw=draw: r.call(draw())


def digest(found: Any) -> str:
    return hashlib.sha256(b"".join(y.tobytes() for y in leaves(found))).hexdigest()


def digests_by_edge(call: Callable[[], Any], calls: Calls) -> dict[str, str]:
    """Return digests of the results without guard pages and with them at each edge."""
    before = calls.count
    found = {"none": digest(call())}
    for edge in EDGES if calls.count > before else ():
        calls.run = lambda name, *call, edge=edge: call_guarded(*call, edge)
        found[edge] = digest(call())
    calls.run = call_kernel
    return found


def digests_by_threads(call: Callable[[], Any], calls: Calls) -> dict[str, str]:
    """Return digests of the results by the number of threads."""
    set_threads = calls.native.get("set_threads")
    before = calls.count
    found = {}
    for n in (1, 2, 8):
        set_threads(n)
        found[f"{n} threads"] = digest(call())
        if calls.count == before:
            break  # no C kernel has run
    return found


MODES = {
    "results": lambda call, calls: leaves(call()),
    "guards": digests_by_edge,
    "threads": digests_by_threads,
}


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--rows", default="", help="a regular expression")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="number of seeds")
    parser.add_argument("--level", help="instruction set, such as x86_64_v3")
    parser.add_argument("--large", action="store_true", help="use threads")
    parser.add_argument("--out", default=os.devnull, help="file for the results")
    return parser.parse_args(arguments)


def main() -> None:
    arguments = options()
    warnings.simplefilter("error")
    calls = Calls(arguments.level)
    import plugrad as pg

    pg.set_backend("cpu")
    for name, module in sys.modules.items():
        if not name.startswith("plugrad_cpu.kernels"):
            continue
        for kind in ("REDUCE", "CAST", "GATHER"):
            threshold = f"{kind}_MIN_ELEMENTS"
            if hasattr(module, threshold):
                setattr(module, threshold, MIN_ELEMENTS)
    found = {}
    for name, call in cases(arguments):
        print(name, flush=True)
        found[name] = MODES[arguments.mode](call, calls)
    report = {"served": calls.served, "reached": calls.reached, "found": found}
    with open(arguments.out, "wb") as file:
        pickle.dump(report, file)


if __name__ == "__main__":
    main()
