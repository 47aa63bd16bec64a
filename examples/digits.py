"""Train a network on handwritten digits, then draw its saliency maps.

The data are the 1,797 digits of 8x8 pixels in scikit-learn; a fifth of them is held
out. The network trains on the active backend. Afterwards, a block overrides the
gradient of one kernel, Relu. This turns plain saliency maps into guided ones
(Springenberg et al., 2015), without a change to the network::

    python examples/digits.py --seed 1 --epochs 30 --backend cpu --out digits.png

Contents: the data; the network; training; saliency; the picture; the command line.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg

# Functions import scikit-learn, tqdm and matplotlib when they need them, so that tests
# can import this module without them.

Array = np.ndarray[Any, np.dtype[Any]]
Weights = Mapping[str, pg.Variable]


# --- the data --------------------------------------------------------------------


class Split(NamedTuple):
    """Images ``[n, 8, 8, 1]`` of float32 from 0 to 1 and labels ``[n]`` of int32."""

    images: Array
    labels: Array
    test_images: Array
    test_labels: Array


def load(seed: int) -> Split:
    """Return the digits, a fifth of each class held out at random."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    labels = labels.astype(np.int32)
    x, test_x, y, test_y = train_test_split(
        images, labels, test_size=0.2, stratify=labels, random_state=seed
    )
    return Split(x, y, test_x, test_y)


def shifted(images: Array, rng: np.random.Generator) -> Array:
    """Return the images, each shifted by up to one pixel."""
    count, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    down, right = rng.integers(0, 3, (2, count, 1, 1))
    rows = down + np.arange(height)[:, None]
    columns = right + np.arange(width)
    return padded[np.arange(count)[:, None, None], rows, columns]


# --- the network -----------------------------------------------------------------


def new_weights(rng: np.random.Generator) -> Weights:
    """Return random weights (He et al., 2015) of two convolutions and a dense layer."""
    shapes = {"conv1": (3, 3, 1, 32), "conv2": (3, 3, 32, 64), "dense": (1024, 10)}
    weights = {}
    for name, shape in shapes.items():
        scale = math.sqrt(2 / math.prod(shape[:-1]))
        filter = rng.normal(0, scale, shape).astype(np.float32)
        weights[name] = pg.Variable(filter, name=name)
        weights[f"{name}_bias"] = pg.Variable(pg.zeros(shape[-1]), name=f"{name}_bias")
    return weights


def classify(weights: Weights, images: pg.Tensor) -> pg.Tensor:
    """Return the logits ``[n, 10]`` of images ``[n, 8, 8, 1]``."""
    x = pg.conv2d(images, weights["conv1"], pad="same") + weights["conv1_bias"]
    x = pg.relu(x)
    x = pg.conv2d(x, weights["conv2"], pad="same") + weights["conv2_bias"]
    x = pg.max_pool(pg.relu(x), 2)
    x = pg.reshape(x, (x.shape[0], -1))
    return pg.matmul(x, weights["dense"]) + weights["dense_bias"]


def loss_of(weights: Weights, images: pg.Tensor, labels: pg.Tensor) -> pg.Tensor:
    """Return the mean cross-entropy between the labels and the logits."""
    logits = classify(weights, images)
    return pg.losses.sparse_softmax_cross_entropy(labels, logits)


# --- training --------------------------------------------------------------------


class Adam:
    """Adam (Kingma and Ba, 2015): steps of about ``rate`` for any scale of the loss."""

    def __init__(self, variables: Iterable[pg.Variable]) -> None:
        self.mean = {v: pg.zeros_like(v) for v in variables}
        self.square = dict(self.mean)
        self.steps = 0

    def step(self, gradients: Mapping[pg.Variable, pg.Tensor], rate: float) -> None:
        """Move the variables against their gradients."""
        self.steps += 1
        rate *= math.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        for v, dv in gradients.items():
            self.mean[v] = 0.9 * self.mean[v] + 0.1 * dv
            self.square[v] = 0.999 * self.square[v] + 0.001 * dv * dv
            v.assign(v.value - rate * self.mean[v] / (pg.sqrt(self.square[v]) + 1e-8))


def train(
    weights: Weights,
    images: Array,
    labels: Array,
    rng: np.random.Generator,
    *,
    epochs: int,
    batch: int = 32,
    rate: float = 3e-3,
) -> Iterator[tuple[int, float]]:
    """Train; yield the number of images and the loss of each batch.

    Every epoch uses all images, in a new order and with new shifts. The rate decreases
    linearly to zero.
    """
    optimizer = Adam(weights.values())
    total = epochs * len(images)
    done = 0
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(images), batch):
            chosen = order[start : start + batch]
            x = pg.asarray(shifted(images[chosen], rng))
            y = pg.asarray(labels[chosen])
            loss, gradients = pg.variable_grads(partial(loss_of, weights, x, y))
            optimizer.step(gradients, rate * (1 - done / total))
            done += len(chosen)
            yield len(chosen), loss.item()


def accuracy(weights: Weights, images: Array, labels: Array) -> float:
    """Return the accuracy on the images, from 0 to 1."""
    classes = pg.argmax(classify(weights, pg.asarray(images)), axis=-1)
    return float(np.mean(classes.numpy() == labels))


# --- saliency --------------------------------------------------------------------


def saliency(weights: Weights, images: Array) -> Array:
    """Return the gradients of the largest logits by pixel, ``[n, 8, 8]``."""
    top_logit = lambda x: pg.sum(pg.max(classify(weights, x), axis=-1))
    return pg.grad(top_logit)(images).numpy()[..., 0]


def guided(dy: pg.Tensor, y: pg.Tensor) -> pg.Tensor:
    """Pass ``dy`` if the unit was active (``y > 0``) and ``dy`` is positive."""
    return dy * (dy > 0) * (y > 0)


def guided_saliency(weights: Weights, images: Array) -> Array:
    """Return ``saliency`` with the guided gradient of Relu, only in this block."""
    with pg.override_gradient("Relu", x=guided, linear=False):
        return saliency(weights, images)


# --- the picture -----------------------------------------------------------------


def one_of_each(labels: Array) -> Array:
    """Return the index of the first image of each class."""
    return np.unique(labels, return_index=True)[1]


def draw(weights: Weights, images: Array, labels: Array, path: Path) -> None:
    """Write a PNG of digits with their plain and guided saliency maps."""
    from matplotlib.figure import Figure

    chances = pg.softmax(classify(weights, pg.asarray(images))).numpy()
    rows = {
        "digit": images[..., 0],
        "gradient": saliency(weights, images),
        "guided\ngradient": guided_saliency(weights, images),
    }
    count = len(images)
    figure = Figure(figsize=(1.25 * count + 1, 5.4), layout="constrained")
    figure.suptitle(
        "What the network reads, how sure it is, and which pixels make it say so",
        fontsize=15,
    )
    axes = figure.subplots(len(rows), count, squeeze=False)
    for (name, maps), line in zip(rows.items(), axes, strict=True):
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=12)
        for axis, digit, values in zip(line, images[..., 0], maps, strict=True):
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_color("lightgray")
            if name == "digit":
                axis.imshow(values, cmap="gray_r", vmin=0, vmax=1)
            else:  # each map has its own scale; zero is white
                largest = np.abs(values).max() or 1
                drawn = axis.imshow(values / largest, cmap="RdBu_r", vmin=-1, vmax=1)
                draw_outline(axis, digit)
    for axis, chance, label in zip(axes[0], chances, labels, strict=True):
        guess = chance.argmax()
        colour = "black" if guess == label else "crimson"
        axis.set_title(f"“{guess}”  {chance[guess]:.0%}", color=colour, fontsize=12)
    bar = figure.colorbar(drawn, ax=axes, location="bottom", shrink=0.5, aspect=50)
    meaning = ["ink here speaks against it", "ink here speaks for it"]
    bar.set_ticks([-1, 1], labels=meaning)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def draw_outline(axis: Any, digit: Array) -> None:
    """Draw the outline of a digit over its map."""
    upscaled = np.pad(np.kron(digit > 0.4, np.ones((8, 8))), 1)  # 8 x 8 dots per pixel
    positions = (np.arange(len(upscaled)) - 0.5) / 8 - 0.5
    axis.contour(positions, positions, upscaled, [0.5], colors="black", linewidths=0.9)


# --- the command line ------------------------------------------------------------


def main(arguments: list[str] | None = None) -> float:
    """Read the options and train; return the accuracy."""
    parser = argparse.ArgumentParser(description="Learn to read handwritten digits.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--backend", choices=pg.backends())
    parser.add_argument("--out", type=Path, default=Path("out/digits-saliency.png"))
    options = parser.parse_args(arguments)
    with pg.use_backend(options.backend or pg.get_backend()):
        return train_and_report(options.seed, options.epochs, options.out)


def train_and_report(seed: int, epochs: int, out: Path) -> float:
    """Train, print the accuracy and draw; return the accuracy on held-out digits."""
    from tqdm.auto import tqdm

    rng = np.random.default_rng(seed)
    data = load(seed)
    weights = new_weights(rng)
    total = epochs * len(data.images)
    print(f"{len(data.images)} digits to learn from, on backend {pg.get_backend()!r}")
    start = time.perf_counter()
    with tqdm(total=total, unit=" images", unit_scale=True) as bar:
        for count, loss in train(weights, data.images, data.labels, rng, epochs=epochs):
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            bar.update(count)
    speed = total / (time.perf_counter() - start)
    print(f"{speed:.0f} images per second")
    score = accuracy(weights, data.test_images, data.test_labels)
    print(f"test accuracy {score:.2%}, on {len(data.test_labels)} digits held out")
    chosen = one_of_each(data.test_labels)
    draw(weights, data.test_images[chosen], data.test_labels[chosen], out)
    print(f"saliency maps: {out.resolve()}")
    return score


if __name__ == "__main__":
    main()
