"""A Gaussian process on an OpenCL device, with a scikit-learn kernel.

scikit-learn supports the array API standard: it computes ``rbf_kernel`` with the
library of its argument. Here the argument is a plugrad tensor, so the kernel runs on
the backend, and gradients of the likelihood flow through scikit-learn to the length
scale::

    pip install ./core ./plugins/cpu ./plugins/opencl ./plugins/train
    pip install scikit-learn matplotlib
    python examples/gallery/gaussian_process.py --backend opencl
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

os.environ["SCIPY_ARRAY_API"] = "1"  # must be set before SciPy is imported

import numpy as np
import plugrad as pg
import plugrad_train as pt
import sklearn
from sklearn.metrics.pairwise import rbf_kernel

Array = np.ndarray[Any, np.dtype[Any]]
Params = dict[str, pg.Tensor]  # logarithms of length, amplitude and noise


class Prediction(NamedTuple):
    """The mean and the standard deviation at each point."""

    mean: Array
    deviation: Array


def observations(count: int = 60) -> tuple[Array, Array]:
    """Return points ``[n, 1]`` with a gap, and noisy values of a wave ``[n]``."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 4, count // 2), rng.uniform(6, 10, count // 2)])
    y = np.sin(1.5 * x) * np.exp(-0.1 * x) + rng.normal(0, 0.1, count)
    return x[:, None].astype(np.float32), y.astype(np.float32)


def covariance(params: Params, a: pg.Tensor, b: pg.Tensor) -> pg.Tensor:
    """Return the covariances of the values at ``a`` and at ``b``, by scikit-learn."""
    length = pg.exp(params["length"])
    similar = rbf_kernel(a / length, b / length, gamma=0.5)
    return pg.exp(2 * params["amplitude"]) * similar


def factor(params: Params, x: pg.Tensor) -> pg.Tensor:
    """Return the Cholesky factor of the covariance of noisy values."""
    noise = pg.exp(2 * params["noise"]) * pg.eye(x.shape[0])
    return pg.linalg.cholesky(covariance(params, x, x) + noise)


def loss(params: Params, x: pg.Tensor, y: pg.Tensor) -> pg.Tensor:
    """Return the negative logarithm of the marginal likelihood."""
    root = factor(params, x)
    z = pg.linalg.solve(root, y[:, None])
    logs = pg.sum(pg.log(pg.linalg.diagonal(root)))
    return 0.5 * pg.sum(z * z) + logs + 0.5 * y.shape[0] * math.log(2 * math.pi)


def predict(params: Params, x: pg.Tensor, y: pg.Tensor, new: pg.Tensor) -> Prediction:
    """Return the prediction at new points."""
    root = factor(params, x)
    cross = pg.linalg.solve(root, covariance(params, x, new))
    mean = cross.T @ pg.linalg.solve(root, y[:, None])[:, 0]
    variance = pg.exp(2 * params["amplitude"]) - pg.sum(cross * cross, axis=0)
    return Prediction(mean.numpy(), pg.sqrt(pg.maximum(variance, 0.0)).numpy())


def fit(x: pg.Tensor, y: pg.Tensor, steps: int) -> tuple[Params, list[float]]:
    """Return the parameters that maximize the likelihood, and the losses."""
    params = {name: pg.asarray(0.0) for name in ("length", "amplitude", "noise")}
    optimizer = pt.adam(0.1)
    losses = []
    state = optimizer.init(params)
    for _ in range(steps):
        value, slopes = pg.value_and_grad(loss)(params, x, y)
        params, state = optimizer.update(slopes, state, params)
        losses.append(value.item())
    return params, losses


def draw(
    found: dict[str, Prediction], new: Array, data: tuple[Array, Array], path: Path
) -> None:
    """Write a PNG of the predictions before and after the fit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots(1, len(found), sharey=True)
    for axis, (title, (mean, deviation)) in zip(axes, found.items(), strict=True):
        axis.fill_between(
            new[:, 0], mean - 2 * deviation, mean + 2 * deviation, color="C0", alpha=0.2
        )
        axis.plot(new[:, 0], mean, color="C0")
        axis.plot(data[0][:, 0], data[1], ".", color="black", ms=4)
        axis.set_title(title)
        axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> list[float]:
    """Read the options, fit and draw; return the losses."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="opencl")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("out/gaussian_process.png"))
    options = parser.parse_args(arguments)
    data = observations()
    new = np.linspace(-1, 11, 200, dtype=np.float32)[:, None]
    with (
        pg.use_backend(options.backend),
        sklearn.config_context(array_api_dispatch=True),
    ):
        x = pg.asarray(data[0])
        y = pg.asarray(data[1])
        points = pg.asarray(new)
        print(f"rbf_kernel of scikit-learn runs on {rbf_kernel(x, x).backend}")
        params, losses = fit(x, y, options.steps)
        start = dict.fromkeys(params, pg.asarray(0.0))
        found = {
            "length, amplitude and noise 1": predict(start, x, y, points),
            "as found by gradients": predict(params, x, y, points),
        }
    print(f"negative log likelihood {losses[0]:.2f} to {losses[-1]:.2f}")
    for name, value in params.items():
        print(f"{name:9} {math.exp(value.item()):.3f}")
    draw(found, new, data, options.out)
    return losses


if __name__ == "__main__":
    main()
