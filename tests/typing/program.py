"""A user's program with types: ``mypy --strict`` accepts every line, and it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
import plugrad.linalg
from plugrad import Variable
from plugrad.fft import rfft
from plugrad.plugin import Backend, GradientPack, KernelTable, Runtime, hookimpl

Params = dict[str, pg.Tensor]


# --- a model ---------------------------------------------------------------------


def initial(sizes: list[int]) -> Params:
    inputs, outputs = sizes
    weights = pg.random.normal((inputs, outputs), seed=1)
    return {"w": weights * 0.1, "b": pg.zeros(outputs)}


def model(params: Params, x: pg.Tensor, *, rate: float = 0.0) -> pg.Tensor:
    hidden = (x @ params["w"] + params["b"]).relu()
    return pg.dropout(hidden, rate, seed=0) if rate else hidden


def loss(params: Params, x: pg.Tensor, y: pg.Tensor) -> pg.Tensor:
    wrong: pg.Tensor = 2 * (model(params, x) - y) ** 2 / 2
    return wrong.mean(axis=(0, 1)) + 1e-4 * params["w"].square().sum()


# --- training, by functions and by variables -------------------------------------


class Step(NamedTuple):
    value: float
    params: Params


def train(params: Params, x: pg.Tensor, y: pg.Tensor, steps: int) -> list[float]:
    values: list[float] = []
    step = pg.value_and_grad(loss)
    for _ in range(steps):
        value, grads = step(params, x, y)
        params = {name: w - 0.1 * grads[name] for name, w in params.items()}
        values.append(Step(value.item(), params).value)
    return values


def train_variables(x: pg.Tensor, y: pg.Tensor) -> pg.Tensor:
    w = Variable(np.ones((3, 2), np.float32), name="w")
    scaled: pg.Tensor = 1.0 - (w + 1) * w / 2 + w.relu().sum(axis=0) - -w
    assert scaled.shape == w.shape

    def objective() -> pg.Tensor:
        return pg.losses.mean_squared_error(y, x @ w.value)

    value, grads = pg.variable_grads(objective, [w])
    w.assign(w - 0.1 * grads[w])
    return value


# --- gradients -------------------------------------------------------------------


@pg.custom_grad
def clip_gradient(
    x: pg.Tensor, limit: int
) -> tuple[pg.Tensor, Callable[[pg.Tensor], pg.Tensor]]:
    return x, lambda dy: pg.clip(dy, -limit, limit)


@pg.override_gradient("Relu", x=lambda dy, y: dy * (y > 0) * (dy > 0))
def saliency(x: pg.Tensor, scale: float = 1.0) -> pg.Tensor:
    return pg.sum(clip_gradient(pg.relu(x) * scale, limit=1))


def derivatives(x: pg.Tensor) -> list[pg.Tensor]:
    value, pullback = pg.vjp(saliency, x)
    (dx,) = pullback(pg.ones_like(value))
    _, tangent = pg.jvp(pg.relu, [x], [pg.ones_like(x)])
    first: pg.Tensor = pg.grad(saliency)(x, scale=2.0)
    weighted: pg.Tensor = pg.grad(pg.relu)(x, dy=first)
    second: pg.Tensor = pg.grad(lambda x: pg.sum(pg.grad(saliency)(x)))(x)
    both = pg.grads(lambda a, b: pg.sum(a * b))(x, x)
    of_dict = pg.grad(lambda p: p["w"] * 2.0)({"w": pg.asarray(1.0)})
    jacobian = pg.jacobian(pg.relu)(x)
    return [dx, tangent, first, weighted, second, *both, of_dict["w"], jacobian]


# --- results with names ----------------------------------------------------------


def decompose(x: pg.Tensor) -> plugrad.linalg.SVDResult:
    found = plugrad.linalg.svd(x)
    spectrum: pg.Tensor = rfft(found.S).abs()
    for row in found.U:
        assert (row == row).all()
        assert 2.0 not in spectrum
    return found


# --- a plugin --------------------------------------------------------------------

kernels = KernelTable()


@kernels("Relu")
def relu(x: Any) -> Any:
    return np.maximum(x, 0)


class HostArrays:
    def upload(self, values: np.ndarray[Any, Any]) -> Any:
        return values.copy()

    def download(self, native: Any) -> np.ndarray[Any, Any]:
        return np.asarray(native)

    def nbytes(self, native: Any) -> int:
        return int(native.nbytes)


def open_backend() -> Runtime:
    return Runtime(arrays=HostArrays(), kernels=kernels, host="cpu")


@hookimpl
def plugrad_backends() -> list[Backend]:
    return [Backend("custom", open=open_backend)]


@hookimpl
def plugrad_gradients() -> list[GradientPack]:
    return [GradientPack("custom", open=lambda: {"Relu": {"x": lambda dy: dy}})]


def main() -> None:
    x = pg.ones((4, 3))
    y = pg.zeros((4, 2))
    values = train(initial([3, 2]), x, y, steps=3)
    assert values[-1] <= values[0]
    train_variables(x, y)
    assert len(derivatives(pg.asarray([1.0, -1.0]))) == 9
    decompose(x)
    pg.register_backend(plugrad_backends()[0])
    try:
        with pg.use_backend("custom"):
            assert pg.relu([1.0, -1.0]).backend == "custom"
    finally:
        pg.remove_backend("custom")
    print(plugrad_gradients()[0].name, pg.__version__)
