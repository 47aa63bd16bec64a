"""Compare the time of products with low-bit and float32 weights, and of NumPy's.

The matrices are those of a small language model, in blocks of 32 weights. A 4-bit
weight takes 0.75 bytes, including its share of scale and offset. "rounded" rounds the
input to 8 bits. Figures are the best of several turns, in milliseconds of CPU time on
one thread::

    OMP_NUM_THREADS=1 python -m benchmarks.few_bits [--backend wasm]
"""

import argparse
import time

import numpy as np
import plugrad as pg

from benchmarks.turns import best_ms

# Outputs, inputs, and number of matrices, which together exceed the caches.
MATRICES = [(49152, 576, 1), (1536, 576, 20), (576, 1536, 20)]


def times(outputs: int, inputs: int, count: int, rows: int) -> list[float]:
    """Return milliseconds: NumPy, float32, 8 bits, 4 bits, 4 bits rounded."""
    random = np.random.default_rng(0)
    shape = (count, outputs, inputs)
    weights = [*random.normal(size=shape).astype(np.float32)]
    x = random.normal(size=(rows, inputs)).astype(np.float32)
    tensor = pg.asarray(x)
    plain = [pg.asarray(w) for w in weights]
    of_8 = [pg.quantized.quantize_blocks(w, bits=8, symmetric=True) for w in weights]
    of_4 = [pg.quantized.quantize_blocks(w, bits=4) for w in weights]
    multiply = pg.quantized.block_matmul
    return best_ms(
        [
            lambda: [x @ w.T for w in weights],
            lambda: [pg.matmul(tensor, w, transpose_b=True) for w in plain],
            lambda: [multiply(tensor, *w, bits=8) for w in of_8],
            lambda: [multiply(tensor, *w, bits=4) for w in of_4],
            lambda: [multiply(tensor, *w, bits=4, rounded=True) for w in of_4],
        ],
        clock=time.process_time,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=pg.backends(), default=pg.get_backend())
    given = parser.parse_args()
    print("outputs inputs  rows    NumPy  float32   8 bits   4 bits  rounded")
    with pg.use_backend(given.backend):
        for outputs, inputs, count in MATRICES:
            for rows in (1, 4, 64):
                found = times(outputs, inputs, count, rows)
                cells = "".join(f"{each:9.2f}" for each in found)
                print(f"{outputs:7}{inputs:7}{rows:6}{cells}", flush=True)


if __name__ == "__main__":
    main()
