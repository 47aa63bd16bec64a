"""Print how much ``tidy``, ``profile`` and ``debug`` slow down ops.

All arrays are 8x8 float32, where the overhead dominates. The benchmark also measures
ops outside these blocks, which must not become slower; ``benchmarks/dispatch.py``
compares their time with PyTorch. Figures are minima of short interleaved rounds::

    python benchmarks/tools.py [--backend wasm] [--json]
"""

import argparse
import contextlib
import gc
import json
import timeit
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import plugrad as pg

CALLS_PER_ROUND = 200

Block = Callable[[], AbstractContextManager[Any]]
BLOCKS: dict[str, Block] = {
    "off": contextlib.nullcontext,
    "tidy": pg.tidy,
    "profile": pg.profile,
    "debug(finite=False)": lambda: pg.debug(finite=False),
    "debug": pg.debug,
    "debug(leaks=True)": lambda: pg.debug(leaks=True),
}


def cases() -> dict[str, Callable[[], object]]:
    """Return the cases: an op, a gradient, an upload and a download."""
    array = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    x = pg.asarray(array)
    gradient = pg.grad(lambda x: pg.sum(pg.tanh(x * x + x)))
    return {
        "a + b": lambda: x + x,
        "gradient": lambda: gradient(x),
        "asarray": lambda: pg.asarray(array),
        "numpy()": x.numpy,
    }


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return the best time of each case in microseconds, by block."""
    best: dict[str, dict[str, float]] = {name: {} for name in BLOCKS}
    for _ in range(rounds):
        for name, block in BLOCKS.items():
            for what, case in cases().items():
                with block():
                    elapsed_us = (
                        timeit.timeit(case, number=CALLS_PER_ROUND)
                        / CALLS_PER_ROUND
                        * 1e6
                    )
                best[name][what] = min(best[name].get(what, np.inf), elapsed_us)
        gc.collect()
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=pg.backends(), default=pg.get_backend())
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with pg.use_backend(given.backend):
        found = measure(given.rounds)
        tensors = [pg.zeros((8, 8)) for _ in range(1000)]
        report = min(timeit.repeat(pg.memory, number=1, repeat=5)) * 1e3
    if given.json:
        print(json.dumps({"backend": given.backend, "us": found, "memory_ms": report}))
        return
    names = list(cases())
    print(f"{given.backend:20}" + "".join(f"{name:>18}" for name in names))
    for block, times in found.items():
        cells = [
            f"{times[n]:8.2f} us x{times[n] / found['off'][n]:5.1f}" for n in names
        ]
        print(f"{block:20}" + "".join(f"{cell:>18}" for cell in cells))
    print(f"memory() with {len(tensors):,} tensors: {report:.1f} ms")


if __name__ == "__main__":
    main()
