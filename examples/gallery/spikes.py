"""Train a spiking network: its step function gets a surrogate gradient.

A leaky integrate-and-fire neuron fires when its potential is above 1. A spike is a step
function of the potential, so its derivative is 0. In a block, the gradient pack
``surrogate.fast_sigmoid`` replaces the gradient of the kernel Step; the network does
not change::

    pip install ./core ./plugins/cpu ./plugins/train ./plugins/attribution
    pip install scikit-learn matplotlib
    python examples/gallery/spikes.py
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
STEPS = 25  # time steps
LEAK = 0.9  # the fraction of a potential that remains after a time step
PACKS: tuple[Any, ...] = ({}, "surrogate.fast_sigmoid", "surrogate.atan")
REMOVED = range(0, 64, 8)  # numbers of pixels


def load() -> list[Array]:
    """Return training and test digits ``[n, 64]``, and the labels of both."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x, y = (x / 16).astype(np.float32), y.astype(np.int32)
    return train_test_split(x, y, test_size=0.2, random_state=0)


def new_params(hidden: int = 64) -> Params:
    """Return random weights of two layers, the same in each call."""
    return {
        "w1": pg.random.normal((64, hidden), seed=1) * 0.05,
        "b1": pg.zeros(hidden),
        "w2": pg.random.normal((hidden, 10), seed=2) * 0.1,
        "b2": pg.zeros(10),
    }


def fire(potential: pg.Tensor, current: pg.Tensor) -> tuple[pg.Tensor, pg.Tensor]:
    """Return the new potential of neurons, and 1 where one fires and is reset."""
    potential = LEAK * potential + current
    spikes = pg.step(potential - 1.0)
    return potential - pg.stop_gradient(spikes), spikes


def spikes_of(params: Params, x: pg.Tensor) -> tuple[pg.Tensor, pg.Tensor]:
    """Return the spikes ``[time, n, neurons]`` of the hidden layer and the outputs."""
    current = x @ params["w1"] + params["b1"]  # a pixel is a constant current
    inner, outer = pg.zeros_like(current), pg.zeros((x.shape[0], 10))
    hidden, outputs = [], []
    for _ in range(STEPS):
        inner, spikes = fire(inner, current)
        hidden.append(spikes)
        outer, spikes = fire(outer, spikes @ params["w2"] + params["b2"])
        outputs.append(spikes)
    return pg.stack(hidden), pg.stack(outputs)


def loss(params: Params, x: pg.Tensor, labels: pg.Tensor) -> pg.Tensor:
    """Return the cross-entropy; the logits are the numbers of spikes."""
    counts = pg.sum(spikes_of(params, x)[1], axis=0)
    return pg.losses.sparse_softmax_cross_entropy(labels, counts)


def train(x: Array, y: Array, epochs: int) -> Params:
    """Return the parameters after training; ``jit`` records one step and replays it."""
    optimizer = pt.adam(3e-3)

    @pg.jit
    def step(params: Params, state: Any, x: pg.Tensor, y: pg.Tensor) -> tuple[Any, Any]:
        return optimizer.update(pg.grad(loss)(params, x, y), state, params)

    params = new_params()
    state = optimizer.init(params)
    for _ in range(epochs):
        for images, labels in pt.Batches((x, y), 32, shuffle=0):
            params, state = step(params, state, pg.asarray(images), pg.asarray(labels))
    return params


def compare(epochs: int) -> dict[str, tuple[Params, float]]:
    """Print a row for each gradient; return the parameters and the accuracies."""
    x, test_x, y, test_y = load()
    found = {}
    print("gradient of a spike     accuracy  hidden spikes  CPU seconds")
    for pack in PACKS:
        start = time.process_time()
        with pg.use_gradients(pack):
            params = train(x, y, epochs)
        seconds = time.process_time() - start
        hidden, outputs = (s.numpy() for s in spikes_of(params, pg.asarray(test_x)))
        accuracy = float(np.mean(outputs.sum(0).argmax(-1) == test_y))
        spikes, name = hidden.sum() / len(test_x), pack or "derivative"
        print(f"{name:22}  {accuracy:8.1%}  {spikes:13.0f}  {seconds:11.1f}")
        found[name] = params, accuracy
    return found


def relevance(params: Params, x: Array) -> Array:
    """Return the surrogate gradient of each digit's answer, times the pixels."""

    def answers(x: pg.Tensor) -> pg.Tensor:
        counts = pg.sum(spikes_of(params, x)[1], axis=0)
        return pg.sum(pg.max(counts, axis=1) - pg.mean(counts, axis=1))

    with pg.use_gradients("surrogate.fast_sigmoid"):
        slopes = pg.grad(answers)(pg.asarray(x))
    return slopes.numpy() * x


def deletion(params: Params, x: Array, values: Array) -> list[float]:
    """Return the shares of answers that remain while pixels become black."""
    ranks = np.argsort(np.argsort(-values, axis=1), axis=1)
    found: list[Array] = []
    for count in REMOVED:
        kept = pg.asarray(np.where(ranks < count, np.float32(0), x))
        found.append(spikes_of(params, kept)[1].numpy().sum(0).argmax(-1))
    return [float(np.mean(answers == found[0])) for answers in found]


def explain(params: Params) -> dict[str, list[float]]:
    """Print the deletion curves of three orders of pixels, and return them."""
    _, x, _, _ = load()
    random = np.random.default_rng(0).random(x.shape)
    orders = {"relevance": relevance(params, x), "brightness": x, "random": random}
    curves = {name: deletion(params, x, order) for name, order in orders.items()}
    print("pixels removed by      " + "".join(f"{count:5}" for count in REMOVED))
    for name, curve in curves.items():
        print(f"{name:22} " + "".join(f"{share:5.0%}" for share in curve))
    return curves


def draw(params: Params, path: Path) -> None:
    """Write a PNG of a held-out digit, and of the spikes of both layers by time."""
    from matplotlib.figure import Figure

    _, (image, *_), _, (label, *_) = load()
    found = spikes_of(params, pg.asarray(image[None]))
    hidden, outputs = (spikes.numpy()[:, 0].T for spikes in found)
    hidden = np.array(sorted(hidden, key=np.sum))
    hidden = hidden[hidden.any(1)]
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    shown, left, right = figure.subplots(1, 3, width_ratios=[1, 2.4, 2.4])
    shown.imshow(image.reshape(8, 8), cmap="gray")
    shown.set(title=f"a held-out {label}", xticks=[], yticks=[])
    left.eventplot([np.flatnonzero(line) for line in hidden], colors="black")
    left.set(title=f"{len(hidden)} of {params['b1'].size} hidden neurons fire")
    left.set(xlabel="time step", ylabel="neuron, by number of spikes", yticks=[])
    for i, line in enumerate(outputs):
        color = "tab:orange" if i == label else "gray"
        right.vlines(np.flatnonzero(line), i - 0.4, i + 0.4, color)
        right.text(STEPS, i, f"{line.sum():.0f}", va="center", color=color)
    right.set(title="spikes of each class", xlabel="time step", yticks=range(10))
    right.set(ylabel="class", xlim=(-1, STEPS + 2), ylim=(-0.7, 9.7))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> dict[str, tuple[Params, float]]:
    """Read the options, train and draw; return the results of ``compare``."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path("out/spikes.png"))
    options = parser.parse_args(arguments)
    found = compare(options.epochs)
    explain(found["surrogate.fast_sigmoid"][0])
    draw(found["surrogate.fast_sigmoid"][0], options.out)
    return found


if __name__ == "__main__":
    main()
