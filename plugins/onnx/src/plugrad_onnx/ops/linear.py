"""Matrix products, with the bias and activation that a pass puts into them."""

from __future__ import annotations

from typing import Any

import plugrad as pg

from ..registry import Value, op


@op("MatMul")
def matmul(a: Value, b: Value) -> Value:
    return pg.matmul(a, b)


@op("Dense", domain="plugrad")
def dense(a: Value, b: Value, bias: Value = None, *, activation: str) -> Value:
    """A product of matrices with a bias and an activation: of a pass."""
    return pg.fused.matmul(a, b, bias, activation=activation)  # type: ignore[arg-type]


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
) -> Value:
    flips = {"transpose_a": bool(transA), "transpose_b": bool(transB)}
    scaled = alpha != 1 or beta != 1 or a.dtype.kind != "f"
    if not scaled and (c is None or c.ndim == 1):
        return pg.fused.matmul(a, b, c, **flips, activation=activation)  # type: ignore[arg-type]
    y = pg.matmul(a, b, **flips)
    y = y if alpha == 1 else _scaled(y, alpha)
    if c is not None:
        y = y + (c if beta == 1 else _scaled(c, beta))
    return activated(y, activation)


def _scaled(x: Value, factor: float) -> Value:
    return x * (factor if x.dtype.kind == "f" else int(factor))


ACTIVATIONS: dict[str, Any] = {
    "linear": lambda x: x,
    "relu": pg.relu,
    "relu6": pg.relu6,
    "sigmoid": pg.sigmoid,
    "elu": pg.elu,
}


def activated(x: Value, activation: str) -> Value:
    """Apply an activation that kernels have built in."""
    return ACTIVATIONS[activation](x)


@op("Einsum")
def einsum(*xs: Value, equation: str) -> Value:
    return pg.einsum(equation.replace(" ", ""), *xs)


@op("Det")
def det(x: Value) -> Value:
    return pg.linalg.det(x)
