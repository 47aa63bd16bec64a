"""Draw saliency maps with three gradients of one network: the derivative and two packs.

A small convolutional network learns to read digits (the UCI digits of scikit-learn, 8x8
pixels, enlarged to 32x32). Then the program computes the gradient of the largest logit
with respect to the pixels three times. Only ``plugrad.use_gradients`` differs::

    pip install scikit-learn matplotlib
    python saliency.py [--out saliency.png]
"""

import argparse
import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg

Array = np.ndarray[Any, np.dtype[Any]]
Weights = list[pg.Variable]

SIZE = 32  # pixels on each side
ROWS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    "derivative": contextlib.nullcontext,
    "“deconvnet”": lambda: pg.use_gradients("deconvnet"),
    "“guided”": lambda: pg.use_gradients("guided"),
}


def load() -> tuple[Array, Array]:
    """Return images ``[n, 32, 32, 1]`` from 0 to 1, and their classes ``[n]``."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    small = pg.asarray(digits.images[..., None].astype(np.float32) / 16)
    large = pg.image.resize_bilinear(small, (SIZE, SIZE), half_pixel_centers=True)
    return large.numpy(), digits.target.astype(np.int32)


def new_weights(rng: np.random.Generator) -> Weights:
    """Return random weights (He et al., 2015) of four convolutions and a matrix."""
    shapes = [(3, 3, 1, 8), (3, 3, 8, 16), (3, 3, 16, 32), (3, 3, 32, 32), (512, 10)]
    scale = lambda shape: math.sqrt(2 / math.prod(shape[:-1]))
    draw = lambda shape: rng.normal(0, scale(shape), shape).astype(np.float32)
    return [pg.Variable(draw(shape)) for shape in shapes]


def logits(weights: Weights, images: pg.Tensor) -> pg.Tensor:
    """Return ``[n, 10]``: convolution, ReLU and pooling, three times, then a matrix."""
    *filters, matrix = weights
    x = images
    for i, filter in enumerate(filters):
        x = pg.relu(pg.conv2d(x, filter, pad="same"))
        x = pg.max_pool(x, 2) if i < 3 else x
    return pg.matmul(pg.reshape(x, (x.shape[0], -1)), matrix)


def train(weights: Weights, images: Array, labels: Array, epochs: int) -> None:
    """Train by gradient descent with momentum."""
    rng = np.random.default_rng(0)
    velocity = [pg.zeros_like(v) for v in weights]
    for epoch in range(epochs):
        losses = []
        for indices in np.array_split(rng.permutation(len(images)), len(images) // 32):
            x = pg.asarray(images[indices])
            y = pg.asarray(labels[indices])
            loss = lambda x=x, y=y: pg.losses.sparse_softmax_cross_entropy(
                y, logits(weights, x)
            )
            value, slopes = pg.variable_grads(loss)
            for i, v in enumerate(weights):
                velocity[i] = 0.9 * velocity[i] - 0.02 * slopes[v]
                v.assign(v.value + velocity[i])
            losses.append(value.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}")


def saliency(weights: Weights, images: Array) -> Array:
    """Return the gradient of each image's largest logit, ``[n, 32, 32]``."""
    top_logit = lambda x: pg.sum(pg.max(logits(weights, x), axis=-1))
    return pg.grad(top_logit)(images).numpy()[..., 0]


def draw(images: Array, maps: dict[str, Array], path: Path) -> None:
    """Write the images, and below each its maps; each map has its own scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.3 * len(images) + 1.3, 5.6), layout="constrained")
    figure.suptitle("One network, one digit each, three gradients of ReLU")
    axes = figure.subplots(len(maps) + 1, len(images))
    for line, (name, values) in zip(
        axes, {"digit": images[..., 0], **maps}.items(), strict=True
    ):
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=12)
        for axis, pixels in zip(line, values, strict=True):
            axis.set(xticks=[], yticks=[])
            largest = np.abs(pixels).max()
            if name == "digit":
                axis.imshow(pixels, cmap="gray_r")
            else:
                shown = axis.imshow(pixels / largest, cmap="RdBu_r", vmin=-1, vmax=1)
    bar = figure.colorbar(shown, ax=axes, location="bottom", shrink=0.5, aspect=50)
    bar.set_ticks([-1, 1], labels=["less ink would help", "more ink would help"])
    figure.savefig(path, dpi=100)


def main() -> None:
    """Train, take three gradients, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("saliency.png"))
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    images, labels = load()
    held_out = len(images) // 5
    weights = new_weights(np.random.default_rng(0))
    train(weights, images[held_out:], labels[held_out:], options.epochs)
    test, test_labels = images[:held_out], labels[:held_out]
    correct = (
        np.argmax(logits(weights, pg.asarray(test)).numpy(), axis=-1) == test_labels
    )
    print(f"accuracy {correct.mean():.1%} on {held_out} digits held out")
    some = [
        np.flatnonzero(correct & (test_labels == digit))[0]
        for digit in (0, 2, 3, 5, 6, 8)
    ]
    maps = {}
    for name, scope in ROWS.items():
        with scope():
            maps[name] = saliency(weights, test[some])
    draw(test[some], maps, options.out)
    print(f"picture: {options.out}")


if __name__ == "__main__":
    main()
