"""Print how fast NumPy and plugrad read the matrix in products of 1 to 4 rows.

The unit is GB/s. The matrices are those of a small language model; together they exceed
the size of the caches. A matrix is stored by columns (as the weights of a linear layer)
or by rows. Figures are the best of several turns, in CPU time on one thread::

    OMP_NUM_THREADS=1 python -m benchmarks.few_rows [--backend wasm]
"""

import argparse
import time

import numpy as np
import plugrad as pg

from benchmarks.turns import best_ms

# Number of columns, inner size, and number of matrices.
MATRICES = [(49152, 576, 1), (1536, 576, 60), (576, 1536, 60), (576, 576, 120)]
MATRICES += [(192, 576, 120)]


def rates(columns: int, inner: int, count: int, rows: int) -> list[float]:
    """Return GB/s: NumPy and plugrad by columns, then NumPy and plugrad by rows."""
    random = np.random.default_rng(0)
    shape = (count, columns, inner)
    by_columns = [*random.normal(size=shape).astype(np.float32)]
    by_rows = [w.T.copy() for w in by_columns]
    x = random.normal(size=(rows, inner)).astype(np.float32)
    tensor = pg.asarray(x)
    tensors_by_columns = [pg.asarray(w) for w in by_columns]
    tensors_by_rows = [pg.asarray(w) for w in by_rows]

    def by_columns_in_plugrad() -> None:
        for w in tensors_by_columns:
            pg.matmul(tensor, w, transpose_b=True)

    milliseconds = best_ms(
        [
            lambda: [x @ w.T for w in by_columns],
            by_columns_in_plugrad,
            lambda: [x @ w for w in by_rows],
            lambda: [pg.matmul(tensor, w) for w in tensors_by_rows],
        ],
        clock=time.process_time,
    )
    megabytes = 4e-6 * columns * inner * count
    return [megabytes / each for each in milliseconds]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=pg.backends(), default=pg.get_backend())
    given = parser.parse_args()
    print("                       by columns, GB/s    by rows, GB/s")
    print("columns  inner  rows   NumPy  plugrad      NumPy  plugrad")
    with pg.use_backend(given.backend):
        for columns, inner, count in MATRICES:
            for rows in (1, 2, 3, 4):
                found = rates(columns, inner, count, rows)
                cells = "{:8.1f}{:9.1f}   {:8.1f}{:9.1f}".format(*found)
                print(f"{columns:7}{inner:7}{rows:6}{cells}", flush=True)


if __name__ == "__main__":
    main()
