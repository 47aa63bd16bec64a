"""Run the table in a process of its own: ``python -m tests.native.run --help``.

It prints each call before it runs, so that the last line names the one that crashes,
and writes the results as a pickle.

Every kernel in C is called through ``Recorder``, which stands in front of the module in
C before plugrad-cpu is imported.
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

from .guards import EDGES, guarded

SETTINGS = {"set_threads"}  # of the library, and no kernels
FEW = 16  # elements from which on a kernel in C runs, if NumPy is faster for fewer


Run = Callable[[str, Callable[..., None], tuple[Any, ...]], None]


def plain(name: str, kernel: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Run a kernel."""
    kernel(*args)


class Recorder:
    """A kernel in C: it notes that it is called, and how."""

    def __init__(self, name: str, kernel: Callable[..., None], calls: "Calls") -> None:
        self.name = name
        self.kernel = kernel
        self.calls = calls

    def __call__(self, *args: Any) -> None:
        self.calls.reached.add(self.name)
        self.calls.count += 1
        self.calls.run(self.name, self.kernel, args)


class Calls:
    """The module in C of plugrad-cpu, with every kernel behind a ``Recorder``."""

    def __init__(self, level: str | None = None) -> None:
        self.served: set[str] = set()
        self.reached: set[str] = set()
        self.count = 0
        self.run: Run = plain  # how a kernel is called
        self.native = importlib.import_module("plugrad_cpu._native")
        own = {"get": self._get, "get_strided": self._strided}
        own |= {"level": lambda: level} if level else {}
        module = SimpleNamespace(**(vars(self.native) | own))
        sys.modules["plugrad_cpu._native"] = module  # type: ignore[assignment]

    def _get(self, name: str) -> Callable[..., None]:
        kernel = self.native.get(name)
        if name in SETTINGS:
            return kernel
        self.served.add(name)
        return Recorder(name, kernel, self)

    def _strided(self, name: str) -> Callable[..., None]:
        """A kernel that is told strides; it is guarded if arrays are contiguous."""
        kernel = self.native.get_strided(name)
        self.served.add(name)
        return Recorder(name, kernel, self)


def leaves(found: Any) -> list[Any]:
    """Return the results of a call as NumPy arrays."""
    import plugrad as pg

    return [y.numpy().copy() for y in pg.tree.leaves(found)]


def cases(given: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield calls by name: of each row, for each of its dtypes and seeds."""
    from .draw import Draw
    from .rows import ROWS

    for name, row in ROWS.items():
        for dtype in row.dtypes if re.search(given.rows, name) else ():
            for seed in range(given.seed, given.seed + given.count):
                d = lambda n=name, r=row, t=dtype, s=seed: Draw(
                    n, t, s, given.large, r.special
                )
                yield f"{name} {dtype} {seed}", lambda r=row, d=d: r.call(d())


def digest(found: Any) -> str:
    return hashlib.sha256(b"".join(y.tobytes() for y in leaves(found))).hexdigest()


def of_edges(call: Callable[[], Any], calls: Calls) -> dict[str, str]:
    """Return the bits of the results without guards, and at both edges of pages."""
    before = calls.count
    found = {"none": digest(call())}
    for edge in EDGES if calls.count > before else ():
        calls.run = lambda name, *of_call, edge=edge: guarded(*of_call, edge)
        found[edge] = digest(call())
    calls.run = plain
    return found


def of_threads(call: Callable[[], Any], calls: Calls) -> dict[str, str]:
    """Return the bits of the results by the number of threads."""
    set_threads = calls.native.get("set_threads")
    before = calls.count
    found = {}
    for n in (1, 2, 8):
        set_threads(n)
        found[f"{n} threads"] = digest(call())
        if calls.count == before:
            break  # NumPy has run it
    return found


MODES = {
    "results": lambda call, calls: leaves(call()),
    "guards": of_edges,
    "threads": of_threads,
}


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--rows", default="", help="a regular expression")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=1, help="of seeds")
    parser.add_argument("--level", help="of the library, such as x86_64_v3")
    parser.add_argument("--large", action="store_true", help="use threads")
    parser.add_argument("--out", default=os.devnull, help="write the results there")
    return parser.parse_args(arguments)


def main() -> None:
    given = options()
    warnings.simplefilter("error")
    calls = Calls(given.level)
    import plugrad as pg

    pg.set_backend("cpu")
    for name, module in sys.modules.items():
        if not name.startswith("plugrad_cpu.kernels"):
            continue
        for kind in ("REDUCE", "CAST", "GATHER"):
            threshold = f"{kind}_MIN_ELEMENTS"
            if hasattr(module, threshold):
                setattr(module, threshold, FEW)
    found = {}
    for name, call in cases(given):
        print(name, flush=True)
        found[name] = MODES[given.mode](call, calls)
    report = {"served": calls.served, "reached": calls.reached, "found": found}
    with open(given.out, "wb") as file:
        pickle.dump(report, file)


if __name__ == "__main__":
    main()
