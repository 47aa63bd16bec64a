"""Fused ops, public as ``plugrad.fused``: one kernel where a backend has one.

Under a tape a fused kernel falls apart into its decomposition, so that an override of
``Relu`` reaches the Relu inside; that is why none has a gradient of its own.
"""

from __future__ import annotations

from typing import Literal

from plugrad._engine import run
from plugrad._kernel import Kernel, Spec, decomposition
from plugrad._tensor import Tensor, TensorLike
from plugrad.geometry import Conv2DGeometry, Padding, Pair

from . import _convert, conv, creation
from . import activation as activations

Activation = Literal["linear", "relu"]

FUSED_CONV2D = Kernel(
    "FusedConv2D",
    "x filter bias?",
    attrs="geometry activation",
    fused=True,
    normalize=conv.CONV2D.normalize,
    out=lambda x, filter, bias, geometry, activation: Spec(geometry.out_shape, x.dtype),
)


def conv2d(
    x: TensorLike,
    filter: TensorLike,
    bias: TensorLike | None = None,
    /,
    *,
    strides: int | Pair = 1,
    pad: Padding = "valid",
    dilations: int | Pair = 1,
    activation: Activation = "linear",
) -> Tensor:
    """Return ``activation(plugrad.conv2d(x, filter) + bias)``."""
    if activation not in ("linear", "relu"):
        raise ValueError(f"fused.conv2d: activation {activation!r}: use linear or relu")
    x, filter = _convert.together("fused.conv2d", x, filter)
    bias = None if bias is None else creation.astype(bias, x.dtype)
    geometry = Conv2DGeometry.of(x.shape, filter.shape, strides, pad, dilations)
    return run(FUSED_CONV2D, x, filter, bias, geometry=geometry, activation=activation)


@decomposition(FUSED_CONV2D)
def _(
    x: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    *,
    geometry: Conv2DGeometry,
    activation: Activation,
) -> Tensor:
    y = run(conv.CONV2D, x, filter, geometry=geometry)
    y = y if bias is None else y + bias
    return activations.relu(y) if activation == "relu" else y
