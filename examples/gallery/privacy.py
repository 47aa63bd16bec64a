"""Train with differential privacy: clip the gradient of each example, then add noise.

``pg.vmap(pg.grad(loss))`` gives the gradients of all examples at once (Abadi et al.,
arXiv:1607.00133). Each step uses all examples, so ``n`` steps are ``n`` Gaussian
mechanisms (Bun and Steinke, arXiv:1605.02065). With noise ``sigma`` times the clipping
norm, their budget is ``epsilon = rho + 2 sqrt(rho log(1 / delta))``, where ``rho = n /
(2 sigma²)``::

    pip install scikit-learn matplotlib
    python examples/gallery/privacy.py
"""

from __future__ import annotations

import argparse
import math
import timeit
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg

Array = np.ndarray[Any, np.dtype[Any]]
Params = dict[str, pg.Tensor]
NOISES = (0.0, 10.0, 20.0, 40.0, 80.0)  # sigma
DELTA = 1e-5
CLIP = 1.0


def load() -> list[Array]:
    """Return training and test digits ``[n, 64]``, and the labels of both."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x, y = (x / 16).astype(np.float32), y.astype(np.int32)
    return train_test_split(x, y, test_size=0.2, random_state=0)


def new_params() -> Params:
    """Return random weights of a network with a hidden layer, the same each time."""
    return {
        "w1": pg.random.normal((64, 16), seed=1) * 0.2,
        "b1": pg.zeros(16),
        "w2": pg.random.normal((16, 10), seed=2) * 0.2,
        "b2": pg.zeros(10),
    }


def logits_of(params: Params, x: pg.Tensor) -> pg.Tensor:
    """Return the logits of one example or of a batch."""
    hidden = pg.relu(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss(params: Params, x: pg.Tensor, label: pg.Tensor) -> pg.Tensor:
    """Return the cross-entropy of one example."""
    logits = logits_of(params, x[None])
    return pg.losses.sparse_softmax_cross_entropy(label[None], logits)


def private(grads: Params, sigma: float, key: pg.Tensor) -> tuple[Params, pg.Tensor]:
    """Return the noisy sum of clipped gradients, and the norms before clipping."""
    squares = [pg.sum(pg.square(g), axis=range(1, g.ndim)) for g in grads.values()]
    norms = pg.sqrt(sum(squares[1:], squares[0]))
    factors = pg.minimum(CLIP / norms, 1.0)
    keys = pg.random.split(key, len(grads))
    noisy = {}
    for i, (name, g) in enumerate(grads.items()):
        total = pg.einsum("n,n...->...", factors, g)
        noise = pg.random.normal(total.shape, seed=keys[i])
        noisy[name] = total + sigma * CLIP * noise
    return noisy, norms


def train(
    sigma: float, x: Array, y: Array, steps: int, rate: float = 2.0
) -> tuple[Params, list[Array]]:
    """Return the parameters, and the norms of the gradients at each step."""
    images, labels = pg.asarray(x), pg.asarray(y)
    example_grads = pg.vmap(pg.grad(loss), in_axes=(None, 0, 0))
    params, key, all_norms = new_params(), pg.random.key(0), []
    for step in range(steps):
        grads, norms = private(
            example_grads(params, images, labels), sigma, pg.random.fold_in(key, step)
        )
        params = {k: w - rate / len(x) * grads[k] for k, w in params.items()}
        all_norms.append(norms.numpy())
    return params, all_norms


def epsilon(sigma: float, steps: int) -> float:
    """Return the privacy budget of a number of steps, for ``DELTA``."""
    rho = steps / (2 * sigma**2) if sigma else math.inf
    return rho + 2 * math.sqrt(rho * math.log(1 / DELTA))


def speed(x: Array, y: Array) -> tuple[float, float]:
    """Return the seconds for the gradients of 100 examples, at once and in a loop."""
    images, labels, params = pg.asarray(x[:100]), pg.asarray(y[:100]), new_params()
    example_grads = pg.vmap(pg.grad(loss), in_axes=(None, 0, 0))
    loop = lambda: [pg.grad(loss)(params, images[i], labels[i]) for i in range(100)]
    timed = lambda f: min(timeit.repeat(f, number=1, repeat=3))
    return timed(lambda: example_grads(params, images, labels)), timed(loop)


def draw(rows: list[list[float]], norms: list[Array], path: Path) -> None:
    """Write a PNG of accuracy by budget, and of the norms that are clipped."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    budgets, scores = zip(*((row[1], 100 * row[2]) for row in rows[1:]), strict=True)
    left.semilogx(budgets, scores, "o-", color="tab:blue")
    left.axhline(100 * rows[0][2], color="gray", ls="--", label="without noise")
    left.set_xticks(budgets, [f"{budget:.1f}" for budget in budgets])
    left.minorticks_off()
    left.set(xlabel="privacy budget ε (δ = 1e-5)", ylabel="accuracy in percent")
    left.legend(frameon=False)
    right.hist([norms[0], norms[-1]], np.arange(40), label=["first step", "last step"])
    right.set(xlabel="norm of the gradient of an example", ylabel="examples")
    right.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> list[list[float]]:
    """Read the options, train and draw; return sigma, epsilon and accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", type=Path, default=Path("out/privacy.png"))
    options = parser.parse_args(arguments)
    x, test_x, y, test_y = load()
    fast, loop = speed(x, y)
    print(f"gradients of 100 examples: {1e3 * fast:.1f} ms, in a loop {1e3 * loop:.1f}")
    print("noise  epsilon  accuracy")
    rows = []
    for sigma in NOISES:
        params, norms = train(sigma, x, y, options.steps)
        guesses = pg.argmax(logits_of(params, pg.asarray(test_x)), axis=-1).numpy()
        rows.append([sigma, epsilon(sigma, options.steps), np.mean(guesses == test_y)])
        print("{:5.1f}  {:7.1f}  {:8.1%}".format(*rows[-1]))
    draw(rows, norms, options.out)
    return rows


if __name__ == "__main__":
    main()
