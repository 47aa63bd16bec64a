"""Fused kernels: bias and activation are applied before a result is written.

The bias must have one value per channel. Other cases, such as "prelu" with its slopes,
are computed by separate kernels afterwards.
"""

from __future__ import annotations

from typing import Any

from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from ..arrays import ClArray
from ..elementwise import Function
from ..products import FINISH, Finish
from . import conv, depthwise, linalg
from ._halves import from_halves
from .activation import kernels as activations
from .binary import kernels as binary

_NAMES = {"relu": "Relu", "relu6": "Relu6", "elu": "Elu", "sigmoid": "Sigmoid"}


def _fused(linear: Function, fits: Function) -> Function:
    """Return a kernel that computes ``activation(linear(a, b) + bias)``.

    ``fits`` returns the number of channels, or None to prevent fusion.
    """

    def kernel(
        a: ClArray,
        b: ClArray,
        bias: ClArray | None,
        weights: ClArray | None,
        *,
        activation: str,
        leaky_relu_alpha: float,
        halves: bool = False,
        **attrs: Any,
    ) -> Any:
        n = fits(a, b, **attrs) if a.size and b.size else None
        if halves:
            attrs["halves"] = True
        row = bias is None or (bias.shape[-1:] == (n,) and bias.size == n)
        if n is not None and row and activation in FINISH:
            finish = Finish(bias, activation, leaky_relu_alpha)
            return linear(a, b, **attrs, finish=finish)
        y = linear(a, b, **attrs)
        if bias is not None and y is not NotImplemented:
            y = binary["Add"](y, bias)
        if y is NotImplemented or activation == "linear":
            return y
        if activation == "prelu":
            return activations["Prelu"](y, weights)
        if activation == "leaky_relu":
            return activations["LeakyRelu"](y, alpha=leaky_relu_alpha)
        return activations[_NAMES[activation]](y)

    return kernel


def _columns(a: ClArray, b: ClArray, transpose_a: bool, transpose_b: bool) -> Any:
    m = a.shape[-1 if transpose_a else -2]
    n = b.shape[-2 if transpose_b else -1]
    return n if m > linalg.MEMORY_BOUND_ROWS and n > 1 else None


def _groups_of_one(x: ClArray, filter: ClArray, geometry: Windows) -> int | None:
    return filter.shape[-1] if geometry.groups == 1 else None


def _output_channels(x: ClArray, filter: ClArray, geometry: Windows) -> int:
    return geometry.out_shape[-1]


kernels = KernelTable(
    FusedConv2D=from_halves(_fused(conv.conv, _groups_of_one)),
    FusedDepthwiseConv2D=_fused(depthwise.conv, _output_channels),
    _FusedMatMul=from_halves(_fused(linalg.batch_matmul, _columns)),
)
