"""Train one model on every backend from the same start, and compare the curves.

The program is the same for all backends. The weights, the order of the batches and the
dropout come from seeds, which give the same numbers on every backend. Only the last
bits of sums differ, because each backend adds in a different order::

    python -m pip install --upgrade pip  # --group needs 25.1
    pip install --group demo ./core ./plugins/cpu ./plugins/train
    pip install ./plugins/wasm ./plugins/opencl
    python examples/gallery/backends.py
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg
import plugrad_train as pt

Array = np.ndarray[Any, np.dtype[Any]]
Params = dict[str, pg.Tensor]


def new_params() -> Params:
    """Return random weights of a convolution and a matrix, from seeds."""
    return {
        "filter": pg.random.normal((3, 3, 1, 16), seed=1) * 0.3,
        "matrix": pg.random.normal((256, 10), seed=2) * 0.1,
        "bias": pg.zeros(10),
    }


def loss(params: Params, batch: Any, key: pg.Tensor) -> pg.Tensor:
    """Return the mean cross-entropy, with dropout."""
    images, labels = batch
    x = pg.relu(pg.conv2d(images, params["filter"], pad="same"))
    x = pg.reshape(pg.max_pool(x, 2), (x.shape[0], -1))
    x = pg.dropout(x, 0.2, seed=key)
    logits = x @ params["matrix"] + params["bias"]
    return pg.losses.sparse_softmax_cross_entropy(labels, logits)


def digits() -> tuple[Array, Array]:
    """Return images and labels."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    return images, labels.astype(np.int32)


def curve(data: tuple[Array, Array], epochs: int) -> Array:
    """Train on the active backend; return the loss of each step."""
    batches = pt.Batches(data, 64, shuffle=0)
    step = pt.train_step(loss, pt.adam(3e-3))
    params = new_params()
    key = pg.random.key(0)
    losses: list[float] = []
    state = step.optimizer.init(params)
    for _ in range(epochs):
        for x, y in batches:
            step_key = pg.random.fold_in(key, len(losses))
            batch = pg.asarray(x), pg.asarray(y)
            params, state, value = step.run(params, state, batch, step_key)
            losses.append(value.item())
    return np.array(losses)


def draw(curves: dict[str, Array], path: Path) -> None:
    """Write a PNG of the curves, and of their differences."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    (first, reference), *others = curves.items()
    for i, (name, losses) in enumerate(curves.items()):
        width = 2 * (len(curves) - i) - 1  # so that no curve hides another
        left.semilogy(losses, lw=width, label=name, color=f"C{i}")
    left.set(xlabel="step", ylabel="loss")
    left.legend(frameon=False)
    for i, (name, losses) in enumerate(others, 1):
        error = np.abs(losses - reference) / reference
        right.semilogy(np.maximum(error, 1e-9), ".", ms=3, label=name, color=f"C{i}")
    right.set(xlabel="step", ylabel=f"relative difference to {first}", ylim=(1e-9, 1))
    right.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main(arguments: list[str] | None = None) -> dict[str, Array]:
    """Read the options, train on each backend and draw; return the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backends", nargs="+", default=["cpu", "wasm", "opencl"])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("out/backends.png"))
    options = parser.parse_args(arguments)
    curves = dict[str, Array]()
    data = digits()
    print("backend  first loss  last loss  largest difference  first epoch  training")
    for name in options.backends:
        with pg.use_backend(name):
            times = [time.perf_counter()]
            for epochs in (1, options.epochs):  # the first call loads and compiles
                curves[name] = curve(data, epochs)
                times.append(time.perf_counter())
        start, rest = np.diff(times)
        error = np.abs(curves[name] / curves[options.backends[0]] - 1).max()
        first, last = curves[name][[0, -1]]
        print(f"{name:7}  {first:10.6f}  {last:9.6f}  {error:18.1e}", end="")
        print(f"  {start:9.2f} s  {rest:6.2f} s")
    draw(curves, options.out)
    return curves


if __name__ == "__main__":
    main()
