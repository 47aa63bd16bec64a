"""Choose 50 hyperparameters by their gradient, through the training itself.

The inner problem is logistic regression with a weight decay for each feature. Newton's
method solves it with Hessian-vector products; the Hessian is never formed. The outer
problem is to choose the decays by the loss on validation data. ``custom_grad`` defines
its gradient by the implicit function theorem: it solves one linear system instead of
differentiating through all iterations. The data set is scikit-learn's breast cancer
data, with 20 noise features added::

    pip install scikit-learn matplotlib
    python examples/gallery/bilevel.py
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
Product = Callable[[pg.Tensor], pg.Tensor]
Data = tuple[Array, Array]
FEATURES, NOISE = 30, 20


def load() -> tuple[Data, Data, Data]:
    """Return features, and labels -1 or 1: for training, validation and tests."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    x = np.hstack([(x - x.mean(0)) / x.std(0), rng.normal(size=(len(x), NOISE))])
    parts = np.split(rng.permutation(len(x)), [100, 400])
    train, validation, test = ((x[i], 2.0 * y[i] - 1) for i in parts)
    return train, validation, test


def loss(w: pg.Tensor, data: Data) -> pg.Tensor:
    """Return the mean logistic loss."""
    x, y = data
    return pg.mean(pg.softplus(-y * (x @ w)))


def objective(w: pg.Tensor, decays: pg.Tensor, data: Data) -> pg.Tensor:
    """Return the loss with a weight decay ``exp(decays[i])`` for each weight."""
    return loss(w, data) + 0.5 * pg.sum(pg.exp(decays) * w * w)


def hessian_product(f: Callable[[pg.Tensor], pg.Tensor], w: pg.Tensor) -> Product:
    """Return the function ``v -> H v`` of the Hessian of ``f`` at ``w``."""
    slope = pg.grad(f)
    return lambda v: pg.grad(lambda w: pg.sum(slope(w) * v))(w)


def conjugate_gradients(product: Product, b: pg.Tensor, steps: int = 60) -> pg.Tensor:
    """Return ``x`` with ``product(x) = b``, for a positive definite matrix."""
    x = pg.zeros_like(b)
    p = r = b
    size = pg.sum(r * r)
    for _ in range(steps):
        if size.item() < 1e-22:
            break
        q = product(p)
        rate = size / pg.sum(p * q)
        x, r = x + rate * p, r - rate * q
        previous, size = size, pg.sum(r * r)
        p = r + size / previous * p
    return x


def solve(decays: pg.Tensor, data: Data, newton_steps: int = 12) -> pg.Tensor:
    """Return the weights that minimize the objective, by Newton's method."""
    w = pg.zeros_like(decays)
    for _ in range(newton_steps):
        f = lambda w: objective(w, decays, data)
        w = w - conjugate_gradients(hessian_product(f, w), pg.grad(f)(w))
    return w


def trained(decays: pg.Tensor, data: Data) -> pg.Tensor:
    """Return ``solve(decays, data)``, differentiable with respect to ``decays``."""

    @pg.custom_grad
    def implicit(decays: pg.Tensor) -> tuple[pg.Tensor, Product]:
        w = solve(decays, data)

        def gradient(dw: pg.Tensor) -> pg.Tensor:
            product = hessian_product(lambda w: objective(w, decays, data), w)
            v = conjugate_gradients(product, dw)
            slope = lambda decays: pg.grad(lambda w: objective(w, decays, data))(w)
            return pg.vjp(slope, decays)[1](-v)[0]

        return w, gradient

    return implicit(decays)


def best_equal(train: Data, validation: Data) -> pg.Tensor:
    """Return the best of ten equal decays, by the loss on the validation data."""
    grid = np.linspace(np.log(1e-4), np.log(1e-1), 10)
    candidates = [pg.full(FEATURES + NOISE, value, dtype="float64") for value in grid]
    return min(candidates, key=lambda d: loss(trained(d, train), validation).item())


def draw(losses: Array, path: Path) -> None:
    """Write a PNG of the losses."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axis = figure.subplots()
    axis.plot(losses, "o-", label=["validation data", "test data"])
    axis.set(xlabel="outer step", ylabel="loss", ylim=(0, None))
    axis.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> Array:
    """Read the options, choose the decays and draw; return the outer losses."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("out/bilevel.png"))
    options = parser.parse_args(arguments)
    train, validation, test = load()
    decays = equal = best_equal(train, validation)
    optimizer = pt.adam(0.2)
    losses = []
    state = optimizer.init(decays)
    outer = pg.value_and_grad(lambda decays: loss(trained(decays, train), validation))
    for _ in range(options.steps):
        value, slope = outer(decays)
        losses.append([value.item(), loss(trained(decays, train), test).item()])
        decays, state = optimizer.update(slope, state, decays)
    print(f"data        best equal decay  {len(slope.numpy())} decays")
    before, after = (trained(weights, train) for weights in (equal, decays))
    for name, data in {"train": train, "validation": validation, "test": test}.items():
        row = name, loss(before, data).item(), loss(after, data).item()
        print("{:10}  {:16.3f}  {:9.3f}".format(*row))
    draw(np.array(losses), options.out)
    return np.array(losses)


if __name__ == "__main__":
    main()
