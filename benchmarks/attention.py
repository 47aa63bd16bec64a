"""Compare attention, and attention with its gradient, with PyTorch.

Every query attends to the keys before it, or to all keys with ``--full``. The columns
are milliseconds of plugrad, of plugrad with ``pg.jit``, and of PyTorch, in turns; the
best turn counts. The gradient of ``parts`` consists of separate kernels, which an
override needs. The last columns are the largest memory of plugrad's arrays during a
gradient, in MB::

    OMP_NUM_THREADS=1 python -m benchmarks.attention [--backend wasm] [--full]

It needs ``pip install torch``.
"""

import argparse
import os
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import plugrad as pg
import torch
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.turns import best_ms

# Batch, heads of q, heads of k and v, length, size of a head.
CASES = [
    (32, 4, 4, 64, 16),
    (1, 9, 3, 128, 64),
    (4, 8, 8, 128, 64),
    (1, 8, 8, 512, 64),
    (1, 4, 4, 2048, 64),
]
Call = Callable[[], Any]


def arrays_of(case: tuple[int, ...]) -> list[Any]:
    """Return q, k, v and the cotangent of the result."""
    batch, heads, groups, length, size = case
    random = np.random.default_rng(0)
    counts = (heads, groups, groups, heads)
    shapes = [(batch, count, length, size) for count in counts]
    return [random.normal(size=shape).astype(np.float32) for shape in shapes]


def calls(case: tuple[int, ...], causal: bool) -> dict[str, Call]:
    """Return the calls of plugrad, by name."""
    *xs, dy = map(pg.asarray, arrays_of(case))

    def attend(*qkv: pg.Tensor) -> pg.Tensor:
        return pg.scaled_dot_product_attention(
            *qkv, is_causal=causal, enable_gqa=case[1] != case[2]
        )

    def both(*qkv: pg.Tensor) -> tuple[pg.Tensor, ...]:
        y, pullback = pg.vjp(attend, *qkv)
        return y, *pullback(dy)

    def of_parts() -> tuple[pg.Tensor, ...]:
        same = lambda dy, original: original(dy)
        with pg.override_gradient("Softmax", logits=same):
            return both(*xs)

    jitted = pg.jit(both)
    return {
        "attention": lambda: attend(*xs),
        "gradient": lambda: both(*xs),
        "jit": lambda: jitted(*xs),
        "parts": of_parts,
    }


def calls_in_torch(case: tuple[int, ...], causal: bool) -> dict[str, Call]:
    """Return the calls of PyTorch, by name."""
    *xs, dy = map(torch.from_numpy, arrays_of(case))

    def attend(*qkv: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(
            *qkv, is_causal=causal, enable_gqa=case[1] != case[2]
        )

    def both() -> Any:
        qkv = [x.detach().requires_grad_() for x in xs]
        y = attend(*qkv)
        return y, torch.autograd.grad(y, qkv, dy)

    return {"attention": lambda: attend(*xs), "gradient": both}


def peak_megabytes(call: Call) -> float:
    """Return the largest size of the NumPy arrays that a call allocates."""
    tracemalloc.start()
    call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def row(case: tuple[int, ...], causal: bool, backend: str) -> str:
    """Measure a case, and return its line of the table."""
    ours, theirs = calls(case, causal), calls_in_torch(case, causal)
    forward = best_ms([ours["attention"], theirs["attention"]])
    gradients = [ours["gradient"], ours["jit"], ours["parts"], theirs["gradient"]]
    backward = best_ms(gradients)
    sizes = []
    if backend == "cpu":
        sizes = [peak_megabytes(ours[kind]) for kind in ("gradient", "parts")]
    batch, heads, groups, length, size = case
    parts = (forward, backward, sizes)
    cells = ["".join([f"{number:9.2f}" for number in part]) for part in parts]
    return f"{batch} x {heads}/{groups} x {length} x {size}".ljust(28) + " |".join(
        cells
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=pg.backends(), default=pg.get_backend())
    parser.add_argument("--full", action="store_true", help="attend to all keys")
    given = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    heads = (
        ("plugrad", "torch"),
        ("plugrad", "jit", "parts", "torch"),
        ("MB", "parts"),
    )
    titles = ["".join([f"{head:>9}" for head in part]) for part in heads]
    print("batch x heads x length x size".ljust(28) + " |".join(titles))
    with pg.use_backend(given.backend):
        for case in CASES:
            print(row(case, not given.full, given.backend), flush=True)


if __name__ == "__main__":
    main()
