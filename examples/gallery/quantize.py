"""Train a network whose weights have 2 to 8 bits, with a straight-through gradient.

Rounding has the derivative 0, so a network that rounds its weights does not learn. The
gradient pack ``straight_through`` replaces the gradient of the kernel Round by the
identity, in a block; the network does not change::

    pip install ./core ./plugins/cpu ./plugins/train ./examples/gradient_packs
    pip install scikit-learn matplotlib
    python examples/gallery/quantize.py

The data are the 1,797 digits of scikit-learn; a fifth of them is held out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg
import plugrad_train as pt

Array = np.ndarray[Any, np.dtype[Any]]
Params = dict[str, pg.Tensor]
BITS = (2, 3, 4, 8)


def load() -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return pixels ``[n, 64]`` and labels, for training and for tests."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    y = y.astype(np.int32)
    x, test_x, y, test_y = train_test_split(x, y, test_size=0.2, random_state=0)
    return (x, y), (test_x, test_y)


def quantized(w: pg.Tensor, bits: int | None) -> pg.Tensor:
    """Return weights rounded to ``2**bits - 1`` evenly spaced values around 0."""
    if bits is None:
        return w
    step = pg.stop_gradient(pg.max(pg.abs(w))) / (2 ** (bits - 1) - 1)
    return pg.round(w / step) * step


def logits_of(params: Params, x: pg.Tensor, bits: int | None) -> pg.Tensor:
    """Return the logits ``[n, 10]`` of a network with one hidden layer."""
    hidden = pg.relu(x @ quantized(params["w1"], bits) + params["b1"])
    return hidden @ quantized(params["w2"], bits) + params["b2"]


def new_params(hidden: int = 24) -> Params:
    """Return random weights, the same in each call."""
    draw = pg.random.normal
    return {
        "w1": draw((64, hidden), seed=1) * 0.2,
        "b1": pg.zeros(hidden),
        "w2": draw((hidden, 10), seed=2) * 0.2,
        "b2": pg.zeros(10),
    }


def train(
    bits: int | None, data: tuple[Array, Array], epochs: int, start: Params
) -> Params:
    """Return the parameters after training with quantized weights."""

    def loss(params: Params, batch: Any) -> pg.Tensor:
        x, y = batch
        logits = logits_of(params, x, bits)
        return pg.losses.sparse_softmax_cross_entropy(y, logits)

    batches = pt.Batches(data, 32, shuffle=0)
    return pt.fit(loss, start, pt.adam(3e-3), batches, epochs=epochs).params


def accuracy(params: Params, data: tuple[Array, Array], bits: int | None) -> float:
    """Return the accuracy on the data with quantized weights."""
    guesses = pg.argmax(logits_of(params, pg.asarray(data[0]), bits), axis=-1)
    return float(np.mean(guesses.numpy() == data[1]))


def compare(epochs: int, show: Callable[[str], None] = print) -> list[list[float]]:
    """Print a row for each number of bits, and return the rows."""
    data, test = load()
    float_params = train(None, data, epochs, new_params())
    show(f"float32 weights: accuracy {accuracy(float_params, test, None):.1%}")
    show("bits  rounded afterwards  trained, derivative  trained, straight-through")
    rows = []
    for bits in BITS:
        afterwards = accuracy(float_params, test, bits)
        plain = accuracy(train(bits, data, epochs, new_params()), test, bits)
        with pg.use_gradients("straight_through", kernels=["Round"]):
            trained = train(bits, data, epochs, new_params())
        rows.append([bits, afterwards, plain, accuracy(trained, test, bits)])
        show("{:4}  {:18.1%}  {:19.1%}  {:25.1%}".format(*rows[-1]))
    return rows


def draw(rows: list[list[float]], path: Path) -> None:
    """Write a PNG of the accuracy by the number of bits."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axis = figure.subplots()
    names = ("rounded afterwards", "trained, derivative of round", "straight-through")
    colours = ("tab:gray", "tab:orange", "tab:blue")
    positions = np.arange(len(rows))
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        heights = [100 * row[i + 1] for row in rows]
        bars = axis.bar(
            positions + (i - 1) * 0.27, heights, 0.25, label=name, color=colour
        )
        axis.bar_label(bars, fmt="%.0f", fontsize=9)
    axis.set_xticks(positions, [f"{row[0]} bits" for row in rows])
    axis.set(ylabel="accuracy in percent", ylim=(0, 110))
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> list[list[float]]:
    """Read the options, train and draw; return the rows of the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("out/quantize.png"))
    options = parser.parse_args(arguments)
    rows = compare(options.epochs)
    draw(rows, options.out)
    return rows


if __name__ == "__main__":
    main()
