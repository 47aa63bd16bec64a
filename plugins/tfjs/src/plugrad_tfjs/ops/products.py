"""Matrix products."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad.importing import namespace

from ..activations import Fused
from .images import NO_EXTRAS, fused
from .table import op


@op("MatMul")
def matmul(
    a: Any, b: Any, *, transpose_a: bool = False, transpose_b: bool = False
) -> Any:
    return pg.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


@op("BatchMatMul", "BatchMatMulV2")
def batch_matmul(a: Any, b: Any, *, adj_x: bool = False, adj_y: bool = False) -> Any:
    return pg.matmul(a, b, transpose_a=adj_x, transpose_b=adj_y)


@op("_FusedMatMul")
def fused_matmul(
    a: Any,
    b: Any,
    *extra: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    fused_ops: Fused = NO_EXTRAS,
    leakyrelu_alpha: float = 0.2,
) -> Any:
    options: dict[str, Any] = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    fused_options = fused(fused_ops, extra)
    return pg.fused.matmul(
        a, b, **options, **fused_options, leaky_relu_alpha=leakyrelu_alpha
    )


@op("Einsum")
def einsum(*xs: Any, equation: str) -> Any:
    return pg.einsum(equation, *xs)


@op("Transpose", reads=(1,))
def transpose(x: Any, axes: Any) -> Any:
    return namespace(x).permute_dims(x, tuple(axes.tolist()))
