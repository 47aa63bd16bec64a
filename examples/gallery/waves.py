"""Differentiate through a wave simulation whose kernel runs on two backends.

A wave on a torus moves by ``u[t + 1] = 2 u[t] - u[t - 1] + c² Δu[t]``; ``Δ`` is a
kernel. With its gradient, the program finds an initial wave that becomes a picture::

    pip install ./core ./plugins/cpu ./plugins/opencl ./plugins/train matplotlib
    python examples/gallery/waves.py --backend opencl
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg
import plugrad_train as pt
from plugrad.plugin import Kernel, decomposition, gradients, run, same
from plugrad_opencl import source_kernel

Array = np.ndarray[Any, np.dtype[Any]]

# --- the kernel: contract, decomposition, gradient, two kernel functions -----------

LAPLACIAN = Kernel("gallery.Laplacian(x: floating)", out=same)


@decomposition(LAPLACIAN)
def _(x: pg.Tensor) -> pg.Tensor:
    neighbours = [pg.roll(x, shift, axis=axis) for shift in (-1, 1) for axis in (0, 1)]
    return neighbours[0] + neighbours[1] + neighbours[2] + neighbours[3] - 4 * x


gradients(LAPLACIAN, x=lambda dy: laplacian(dy))  # Δ is symmetric


def numpy_laplacian(x: Array) -> Array:
    """Return the sum of the four neighbors minus four times the element."""
    x = np.pad(x, 1, mode="wrap")
    neighbours = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return neighbours - 4 * x[1:-1, 1:-1]


OPENCL_SOURCE = """
__kernel void laplacian(__global const T *x, __global T *y, long y_size,
                        long x_shape0, long x_shape1) {
  const long item = get_global_id(0);
  if (item >= y_size) return;
  const long i = item / x_shape1, j = item % x_shape1;
  const long up = (i ? i : x_shape0) - 1, down = i + 1 < x_shape0 ? i + 1 : 0;
  const long left = (j ? j : x_shape1) - 1, right = j + 1 < x_shape1 ? j + 1 : 0;
  y[item] = x[up * x_shape1 + j] + x[down * x_shape1 + j]
          + x[i * x_shape1 + left] + x[i * x_shape1 + right] - 4 * x[item];
}
"""


def laplacian(x: pg.Tensor, /) -> pg.Tensor:
    """Return the discrete Laplacian of a periodic plane."""
    return run(LAPLACIAN, x)


def register() -> None:
    """Register both kernel functions for the process."""
    pg.register_kernel(LAPLACIAN, "cpu", numpy_laplacian)
    source_kernel(LAPLACIAN, OPENCL_SOURCE)


# --- the simulation ----------------------------------------------------------------


def simulate(start: pg.Tensor, steps: int, speed: float = 0.5) -> list[pg.Tensor]:
    """Return the wave at each step, starting from water at rest."""
    waves = [start, start + 0.5 * speed**2 * laplacian(start)]
    for _ in range(steps - 1):
        waves.append(2 * waves[-1] - waves[-2] + speed**2 * laplacian(waves[-1]))
    return waves


def nabla(size: int) -> Array:
    """Return a picture of the sign of the gradient, from 0 to 1, with soft edges."""
    y, x = np.linspace(-1, 1, size)[:, None], np.abs(np.linspace(-1, 1, size))
    edge = lambda top: (y > top) & (x < 0.55 * (0.7 - y) - 0.6 * (top + 0.65))
    sign = (edge(-0.65) & ~edge(-0.38)).astype(np.float32)
    for _ in range(5):
        sign = sign + 0.15 * numpy_laplacian(sign)
    return sign.astype(np.float32)


def find_start(target: Array, steps: int, iterations: int) -> tuple[Any, list[float]]:
    """Return the initial wave that leads to the target after ``steps``, and losses."""
    goal, start = pg.asarray(target), pg.zeros(target.shape)

    def loss(start: pg.Tensor, goal: pg.Tensor) -> pg.Tensor:
        return 0.5 * pg.sum(pg.square(simulate(start, steps)[-1] - goal))

    step = pt.train_step(loss, pt.sgd(0.5, 0.8))
    state, losses = step.optimizer.init(start), []
    for _ in range(iterations):
        start, state, value = step.run(start, state, goal)
        losses.append(value.item())
    return start, losses


# --- the picture and the command line ------------------------------------------------


def draw(waves: list[Array], path: Path, shown: int = 6) -> None:
    """Write a PNG of some of the waves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 * shown, 2.3), layout="constrained")
    steps_shown = np.linspace(0, len(waves) - 1, shown).round().astype(int)
    for axis, step in zip(figure.subplots(1, shown), steps_shown, strict=True):
        axis.imshow(waves[step], "RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        axis.set(xticks=[], yticks=[], title=f"step {step}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def main(arguments: list[str] | None = None) -> dict[str, list[Array]]:
    """Read the options, simulate on each backend; return the waves of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", nargs="+", default=["cpu", "opencl"])
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("out/waves.png"))
    options = parser.parse_args(arguments)
    register()
    target, found = nabla(options.size), {}
    for name in options.backend:
        with pg.use_backend(name):
            times = [time.perf_counter()]
            for count in (1, options.iterations):  # the first call loads and compiles
                start, losses = find_start(target, options.steps, count)
                times.append(time.perf_counter())
            found[name] = [u.numpy() for u in simulate(start, options.steps)]
        first, rest = np.diff(times)
        print(f"{name}: loss {losses[0]:.1f} to {losses[-1]:.3f}", end=" ")
        print(f"in {rest:.1f} s, after a first step of {first:.2f} s")
    draw(found[options.backend[0]], options.out)
    return found


if __name__ == "__main__":
    main()
