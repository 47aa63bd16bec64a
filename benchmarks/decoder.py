"""Print how long a decoder with the sizes of SmolLM2-135M takes for one token.

The weights are random: float32, bfloat16, 8 bits, or 4 bits with an embedding of 8
bits. "rounded" rounds the inputs of products to 8 bits. "rest" is the step without the
products with weights. Each figure is the time of the fastest step, in milliseconds::

    OMP_NUM_THREADS=1 PLUGRAD_CPU_THREADS=1 python -m benchmarks.decoder
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import plugrad as pg

from benchmarks.turns import best_ms

LAYERS, HEADS, GROUPS, SIZE, HIDDEN, TOKENS = 30, 9, 3, 64, 1536, 49152
WIDTH = HEADS * SIZE
SHAPES = {
    "q": (WIDTH, WIDTH),
    "k": (GROUPS * SIZE, WIDTH),
    "v": (GROUPS * SIZE, WIDTH),
    "out": (WIDTH, WIDTH),
    "gate": (HIDDEN, WIDTH),
    "up": (HIDDEN, WIDTH),
    "down": (WIDTH, HIDDEN),
}
Dense = Callable[[pg.Tensor, Any], pg.Tensor]


def weights(outputs: int, inputs: int) -> np.ndarray[Any, Any]:
    """Return random weights."""
    random = np.random.default_rng(outputs + inputs)
    w = random.normal(0, inputs**-0.5, (outputs, inputs))
    return w.astype(np.float32)


def plain(x: pg.Tensor, w: pg.Tensor) -> pg.Tensor:
    """Multiply by float32 or bfloat16 weights."""
    return pg.matmul(x, w, transpose_b=True)


def packed(bits: int, rounded: bool = False) -> Dense:
    """Return a product with packed weights; 8-bit weights have no offsets."""

    def multiply(x: pg.Tensor, w: Any) -> pg.Tensor:
        own = bits if w[2] is not None else 8
        return pg.quantized.block_matmul(x, *w, bits=own, rounded=rounded)

    return multiply


def no_product(x: pg.Tensor, w: pg.Tensor) -> pg.Tensor:
    """Return a result of the right shape without computing a product."""
    return w + x[:, :1] * 0.0


def stored(bits: int) -> Callable[[np.ndarray[Any, Any]], Any]:
    """Return a function that stores weights in 32 to 4 bits, or zeros for 0."""

    def store(w: np.ndarray[Any, Any]) -> Any:
        if bits >= 16:
            return pg.astype(w, pg.float32 if bits == 32 else pg.bfloat16)
        if not bits:
            return pg.zeros((1, len(w)))
        own = 8 if len(w) == TOKENS else bits
        return pg.quantized.quantize_blocks(w, bits=own, symmetric=own == 8)

    return store


def make_step(dense: Dense, bits: int, positions: int) -> Callable[[], None]:
    """Return a function that computes one more token in each call."""
    store = stored(bits)
    layers = [{n: store(weights(*s)) for n, s in SHAPES.items()} for _ in range(LAYERS)]
    head = store(weights(TOKENS, WIDTH))
    angles = np.arange(positions)[:, None] * 1e4 ** (-np.arange(0, SIZE, 2) / SIZE)
    cos, sin = (pg.asarray(f(angles).astype(np.float32)) for f in (np.cos, np.sin))

    @pg.jit
    def step(x: pg.Tensor, caches: list[pg.Tensor], at: pg.Tensor) -> pg.Tensor:
        turn = cos[at], sin[at]
        for i, layer in enumerate(layers):
            keys, values = caches[2 * i : 2 * i + 2]
            h = pg.rms_norm(x)
            q = pg.reshape(dense(h, layer["q"]), (1, HEADS, 1, SIZE))
            k = pg.reshape(dense(h, layer["k"]), (1, GROUPS, SIZE))
            keys[:, :, at] = pg.rotary_embedding(k, *turn)
            values[:, :, at] = pg.reshape(dense(h, layer["v"]), (1, GROUPS, SIZE))
            q = pg.rotary_embedding(q, *turn)
            y = pg.scaled_dot_product_attention(
                q, keys, values, length=at + 1, enable_gqa=True
            )
            x = x + dense(pg.reshape(y, (1, WIDTH)), layer["out"])
            h = pg.rms_norm(x)
            h = pg.silu(dense(h, layer["gate"])) * dense(h, layer["up"])
            x = x + dense(h, layer["down"])
        return pg.argmax(dense(pg.rms_norm(x), head)[0])

    shape = (1, GROUPS, positions, SIZE)
    caches = [pg.zeros(shape) for _ in range(2 * LAYERS)]
    x = pg.ones((1, WIDTH))
    place = iter(range(positions))
    return lambda: step(x, caches, pg.asarray(next(place))).item()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=pg.backends(), default=pg.get_backend())
    parser.add_argument("--positions", type=int, default=2048)
    given = parser.parse_args()
    ways: dict[str, tuple[Dense, int]] = {
        "float32": (plain, 32),
        "bfloat16": (plain, 16),
        "8 bits": (packed(8), 8),
        "4 bits": (packed(4), 4),
        "4 bits, rounded": (packed(4, rounded=True), 4),
        "rest": (no_product, 0),
    }
    with pg.use_backend(given.backend):
        for name, (dense, bits) in ways.items():
            (found,) = best_ms([make_step(dense, bits, given.positions)], turns=30)
            print(f"{name:16}{found:8.2f}", flush=True)


if __name__ == "__main__":
    main()
