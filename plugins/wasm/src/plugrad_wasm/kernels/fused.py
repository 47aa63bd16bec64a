"""Fused kernels: bias and activation are applied in the epilogue of a product.

They support float32, with one bias and one slope per channel. Everything else is
decomposed.
"""

from __future__ import annotations

from typing import Any

from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import WasmArray
from ..launch import FLOAT32
from . import conv, linalg
from .norm import is_per_channel

kernels = KernelTable()
ACTIVATIONS = ["linear", "relu", "relu6", "leaky_relu", "prelu", "elu", "sigmoid"]
End = tuple[float, ...] | None


def _epilogue(
    xs: tuple[WasmArray | None, ...], c: int, activation: str, slope: float
) -> End:
    """Return the epilogue as arguments for C; None if C does not support it."""
    bias_and_slopes = xs[2:]
    for x in xs:
        if x is not None and x.dtype is not FLOAT32:
            return None
    if not all([x is None or is_per_channel(x, c) for x in bias_and_slopes]):
        return None
    bias, slopes = [0 if x is None else x.pointer for x in bias_and_slopes]
    return bias, slopes, ACTIVATIONS.index(activation), slope


@kernels("_FusedMatMul")
def fused_matmul(
    a: WasmArray,
    b: WasmArray,
    bias: WasmArray | None,
    weights: WasmArray | None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: str,
    leaky_relu_alpha: float,
) -> Any:
    """Return ``activation(a b + bias)``."""
    columns = b.shape[-2 if transpose_b else -1]
    end = _epilogue((a, b, bias, weights), columns, activation, leaky_relu_alpha)
    if end is None:
        return NotImplemented
    return linalg.product(a, b, transpose_a, transpose_b, end)


@kernels("FusedDepthwiseConv2D")
@kernels("FusedConv2D")
def fused_conv2d(
    x: WasmArray,
    filter: WasmArray,
    bias: WasmArray | None,
    weights: WasmArray | None,
    *,
    geometry: Windows,
    activation: str,
    leaky_relu_alpha: float,
) -> Any:
    """Return ``activation(conv2d(x, filter) + bias)``; the conv2d may be depthwise."""
    channels = geometry.out_shape[-1]
    end = _epilogue((x, filter, bias, weights), channels, activation, leaky_relu_alpha)
    return NotImplemented if end is None else conv.convolved(x, filter, geometry, end)
