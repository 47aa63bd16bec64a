"""Print how long plugrad and NumPy take to write one row into each of 60 caches.

The caches are those of a small language model: ``[heads, positions, size]``. A step
changes only one row of a cache, so its time should not depend on the number of
positions. NumPy writes into its arrays in place. Figures are the best of several turns,
in milliseconds on one thread::

    OMP_NUM_THREADS=1 python -m benchmarks.caches [--backend wasm]
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import plugrad as pg

from benchmarks.turns import best_ms

CACHES, HEADS, SIZE = 60, 3, 64
POSITIONS = (192, 2048, 8192)
Caches = list[pg.Tensor]


def assign(caches: Caches, at: pg.Tensor, row: pg.Tensor) -> Caches:
    """Write a row into each cache."""
    for cache in caches:
        cache[:, at] = row
    return caches


def scatter(caches: Caches, at: pg.Tensor, row: pg.Tensor) -> Caches:
    """Return caches with a row written into each."""
    places = pg.stack([pg.arange(HEADS), pg.broadcast_to(at, (HEADS,))], axis=1)
    return [pg.tensor_scatter_update(cache, places, row) for cache in caches]


def select(caches: Caches, at: pg.Tensor, row: pg.Tensor) -> Caches:
    """Return new caches, in which ``where`` selects the row or the old values."""
    here = pg.equal(pg.arange(caches[0].shape[1]), at)[:, None]
    return [pg.where(here, row[:, None], cache) for cache in caches]


def numpy_writer(positions: int) -> Callable[[], None]:
    """Return a function that writes the rows in NumPy."""
    caches = [np.zeros((HEADS, positions, SIZE), np.float32) for _ in range(CACHES)]
    row = np.ones((HEADS, SIZE), np.float32)

    def run() -> None:
        for cache in caches:
            cache[:, 100] = row

    return run


def plugrad_writer(positions: int, step: Callable[..., Any]) -> Callable[[], None]:
    """Return a function that passes the caches of its previous call to ``step``."""
    caches = [pg.zeros((HEADS, positions, SIZE)) for _ in range(CACHES)]
    row = pg.ones((HEADS, SIZE))
    at = pg.asarray(100)

    def run() -> None:
        caches[:] = step([*caches], at, row)
        caches[-1][0, 0, 0].item()  # waits for an asynchronous backend

    return run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=pg.backends(), default=pg.get_backend())
    given = parser.parse_args()
    ways = {"assign": assign, "scatter": scatter, "where": select}
    titles = [f"{name}, {how}" for name in ways for how in ("eager", "jit", "donated")]
    print("positions     NumPy", *[f"{title:>16}" for title in titles])
    with pg.use_backend(given.backend):
        for positions in POSITIONS:
            functions = [numpy_writer(positions)]
            for step in ways.values():
                functions.append(plugrad_writer(positions, step))
                functions.append(plugrad_writer(positions, pg.jit(step)))
                donated = pg.jit(step, donate="caches")
                functions.append(plugrad_writer(positions, donated))
            found = best_ms(functions)
            cells = " ".join(f"{each:16.2f}" for each in found[1:])
            print(f"{positions:9}{found[0]:10.2f} {cells}", flush=True)


if __name__ == "__main__":
    main()
