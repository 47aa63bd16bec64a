"""Ops of opset 6, the oldest one supported, where broadcasting starts at an axis."""

from __future__ import annotations

from typing import Any

import plugrad as pg

from ..registry import Value, find, op
from .linear import gemm
from .normalization import batch_normalization


def _from_axis(a: Value, b: Value, axis: int | None) -> Value:
    """Reshape ``b`` so that its first axis aligns with ``axis`` of ``a``."""
    if axis is None or axis < 0:
        return b
    return pg.reshape(b, (*b.shape, *[1] * (a.ndim - axis - b.ndim)))


def _register(name: str) -> None:
    row = find("", name, 7)
    assert row is not None
    function: Any = row.function

    def broadcast_from_axis(
        a: Value, b: Value, *, axis: int | None = None, broadcast: int = 0
    ) -> Value:
        return function(a, _from_axis(a, b, axis) if broadcast else b)

    op(name, since=6)(broadcast_from_axis)


_NAMES = "Add And Div Equal Greater Less Mul Or Pow Sub Xor"
for _name in _NAMES.split():
    _register(_name)


@op("PRelu", since=6)
def prelu(x: Value, slope: Value) -> Value:
    is_scalar = slope.size == 1
    return pg.prelu(
        x, slope if is_scalar else pg.reshape(slope, (-1, *[1] * (x.ndim - 2)))
    )


@op("BatchNormalization", since=6)
def batch_normalization_6(
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> Value:
    return batch_normalization(x, scale, bias, mean, variance, epsilon=epsilon)


@op("Gemm", since=6)
def gemm_6(
    a: Value,
    b: Value,
    c: Value,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
