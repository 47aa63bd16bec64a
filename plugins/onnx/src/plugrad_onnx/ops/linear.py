"""Matrix products, with the bias and activation that a pass may fuse."""

from __future__ import annotations

from typing import Any

import plugrad as pg

from ..dtypes import is_floating
from ..registry import Value, op


@op("MatMul")
def matmul(a: Value, b: Value) -> Value:
    return pg.matmul(a, b)


@op("Dense", domain="plugrad")
def dense(
    a: Value,
    b: Value,
    bias: Value = None,
    *,
    activation: str = "linear",
    slope: float = 0.2,
) -> Value:
    """Multiply, add a bias and apply an activation; passes insert this op."""
    return pg.fused.matmul(a, b, bias, **activation_attrs(activation, slope))


@op("Gemm", since=7)
def gemm(
    a: Value,
    b: Value,
    c: Value = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "linear",
    slope: float = 0.2,
) -> Value:
    flips: dict[str, Any] = {"transpose_a": bool(transA), "transpose_b": bool(transB)}
    scaled = alpha != 1 or beta != 1 or a.dtype.kind != "f"
    if not scaled and (c is None or c.ndim == 1):
        return pg.fused.matmul(a, b, c, **flips, **activation_attrs(activation, slope))
    y = pg.matmul(a, b, **flips)
    y = y if alpha == 1 else _scaled(y, alpha)
    if c is not None:
        y = y + (c if beta == 1 else _scaled(c, beta))
    return activated(y, activation, slope)


def _scaled(x: Value, factor: float) -> Value:
    return x * (factor if is_floating(x.dtype) else int(factor))


def activation_attrs(activation: str, slope: float) -> dict[str, Any]:
    """Return the attributes that select an activation of a fused kernel."""
    return {"activation": activation, "leaky_relu_alpha": slope}


ACTIVATIONS: dict[str, Any] = {
    "linear": lambda x: x,
    "relu": pg.relu,
    "relu6": pg.relu6,
    "sigmoid": pg.sigmoid,
    "elu": pg.elu,
}


def activated(x: Value, activation: str, slope: float) -> Value:
    """Apply an activation that fused kernels support."""
    if activation == "leaky_relu":
        return pg.leaky_relu(x, alpha=slope)
    return ACTIVATIONS[activation](x)


@op("Einsum")
def einsum(*xs: Value, equation: str) -> Value:
    return pg.einsum(equation.replace(" ", ""), *xs)


@op("Det")
def det(x: Value) -> Value:
    return pg.linalg.det(x)
