"""Fused ops, public as ``plugrad.fused``: ``activation(y + bias)`` in one kernel.

Kernels: ``_FusedMatMul FusedConv2D FusedDepthwiseConv2D``. They compute with real
floating numbers; integers become float32.

Under a tape a fused kernel falls apart into its decomposition, so that an override of
``Relu`` reaches the Relu inside; that is why none has a gradient of its own.
"""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

from plugrad import _arguments, geometry
from plugrad._engine import run
from plugrad._kernel import Kernel, Spec, decomposition
from plugrad._tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Rounding, Shape, Sizes, Windows

from . import _convert, _windows, conv, depthwise, linalg, shape
from . import activation as activations

Activation = Literal["linear", "relu", "relu6", "elu", "prelu", "leaky_relu", "sigmoid"]
ACTIVATIONS = get_args(Activation)


# --- contracts -------------------------------------------------------------------


def _normal(part: Kernel, defaults: dict[str, Any]) -> Any:
    """Return what completes the attributes of a user, as ``part`` understands them."""
    defaults = {"activation": "linear", "leaky_relu_alpha": 0.2, **defaults}

    def normalize(*xs: Spec, **given: Any) -> dict[str, Any]:
        given = defaults | given
        return given if part.normalize is None else part.normalize(*xs, **given)

    return normalize


def _product(a: Spec, b: Spec, *_: Spec | None, **attrs: Any) -> Spec:
    turn = {name: attrs[name] for name in ("transpose_a", "transpose_b")}
    return cast("Spec", cast("Any", linalg.BATCH_MATMUL.out)(a, b, **turn))


def _convolved(x: Spec, *_: Spec | None, geometry: Windows, **__: Any) -> Spec:
    return Spec(geometry.out_shape, x.dtype)


FUSED_MATMUL = Kernel(
    "_FusedMatMul(a, b, bias?, prelu_activation_weights?; transpose_a, transpose_b, "
    "activation, leaky_relu_alpha)",
    fused=True,
    normalize=_normal(
        linalg.BATCH_MATMUL, {"transpose_a": False, "transpose_b": False}
    ),
    out=_product,
    op="fused.matmul",
)

_OF_WINDOWS: dict[str, Any] = {"fused": True, "out": _convolved}
_GIVEN = "x, filter, bias?, prelu_activation_weights?"
_GIVEN += "; geometry, activation, leaky_relu_alpha"

FUSED_CONV2D = Kernel(
    f"FusedConv2D({_GIVEN})",
    normalize=_normal(conv.CONV2D, {}),
    op="fused.conv2d",
    **_OF_WINDOWS,
)

FUSED_DEPTHWISE_CONV2D = Kernel(
    f"FusedDepthwiseConv2D({_GIVEN})",
    normalize=_normal(depthwise.DEPTHWISE_CONV2D, {}),
    op="fused.depthwise_conv2d",
    **_OF_WINDOWS,
)


# --- ops -------------------------------------------------------------------------


def matmul(
    a: TensorLike,
    b: TensorLike,
    bias: TensorLike | None = None,
    prelu_weights: TensorLike | None = None,
    /,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: Activation = "linear",
    leaky_relu_alpha: float = 0.2,
) -> Tensor:
    """Return ``activation(plugrad.matmul(a, b) + bias)`` of matrices.

    Integers give float32, as in all of the three.

    Args:
        a: ``[..., i, k]``, or transposed.
        b: ``[..., k, j]``, or transposed.
        bias: Broadcasts to the product.
        prelu_weights: The slopes of activation "prelu"; broadcast to the product.
        transpose_a: Whether ``a`` is ``[..., k, i]``.
        transpose_b: Whether ``b`` is ``[..., j, k]``.
        activation: "linear", "relu", "relu6", "elu", "prelu", "leaky_relu", "sigmoid".
        leaky_relu_alpha: The slope of "leaky_relu" below 0.

    Raises:
        ValueError: Shapes do not fit, or the activation is unknown.
        TypeError: Complex numbers or strings.

    """
    op = "fused.matmul"
    _check(op, activation, prelu_weights)
    turned = (("transpose_a", transpose_a), ("transpose_b", transpose_b))
    transpose_a, transpose_b = (_arguments.flag(op, *one) for one in turned)
    a, b, bias, weights = _floats(op, a, b, bias, prelu_weights)
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ValueError(
            f"{op}: shapes {a.shape} and {b.shape} must have 2 axes or more"
        )
    inner = a.shape[-1 - transpose_a], b.shape[-2 + transpose_b]
    if inner[0] != inner[1]:
        raise ValueError(
            f"{op}: inner sizes {inner[0]} and {inner[1]} of shapes {a.shape} and "
            f"{b.shape} differ (transpose_a={transpose_a}, transpose_b={transpose_b})"
        )
    batch = geometry.broadcast(op, a.shape[:-2], b.shape[:-2])
    out = (*batch, a.shape[-2 + transpose_a], b.shape[-1 - transpose_b])
    return run(
        FUSED_MATMUL,
        a,
        b,
        _beside(op, "bias", bias, out),
        _beside(op, "prelu_weights", weights, out),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        activation=activation,
        leaky_relu_alpha=_arguments.real(op, "leaky_relu_alpha", leaky_relu_alpha),
    )


def conv2d(
    x: TensorLike,
    filter: TensorLike,
    bias: TensorLike | None = None,
    prelu_weights: TensorLike | None = None,
    /,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NHWC",
    dim_rounding_mode: Rounding | None = None,
    groups: int = 1,
    activation: Activation = "linear",
    leaky_relu_alpha: float = 0.2,
) -> Tensor:
    """Return ``activation(plugrad.conv2d(x, filter) + bias)``.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch.
        filter: ``[height, width, channels / groups, out_channels]``.
        bias: One a channel; or what broadcasts to the result, in its format.
        prelu_weights: The slopes of activation "prelu", in shapes like those of bias.
        strides: As of ``plugrad.conv2d``, like all that follow.
        pad: "same", "valid", a number, or ``[(top, bottom), (left, right)]``.
        dilations: Steps between taps.
        data_format: "NHWC" or "NCHW".
        dim_rounding_mode: "floor", "ceil" or "round".
        groups: Parts of the channels.
        activation: "linear", "relu", "relu6", "elu", "prelu", "leaky_relu", "sigmoid".
        leaky_relu_alpha: The slope of "leaky_relu" below 0.

    Raises:
        ValueError: Shapes or attributes do not fit, or the activation is unknown.
        TypeError: Complex numbers or strings.

    """
    given: dict[str, Any] = {"strides": strides, "pad": pad, "dilations": dilations}
    given |= {"dim_rounding_mode": dim_rounding_mode, "groups": groups, "spatial": 2}
    acts = {"activation": activation, "leaky_relu_alpha": leaky_relu_alpha}
    xs = (x, filter, bias, prelu_weights)
    return _fused(FUSED_CONV2D, geometry.convolution, xs, data_format, given, acts)


def depthwise_conv2d(
    x: TensorLike,
    filter: TensorLike,
    bias: TensorLike | None = None,
    prelu_weights: TensorLike | None = None,
    /,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NHWC",
    dim_rounding_mode: Rounding | None = None,
    activation: Activation = "linear",
    leaky_relu_alpha: float = 0.2,
) -> Tensor:
    """Return ``activation(plugrad.depthwise_conv2d(x, filter) + bias)``.

    ``filter`` is ``[height, width, channels, multiplier]``; all else as in ``conv2d``.
    """
    given: dict[str, Any] = {"strides": strides, "pad": pad, "dilations": dilations}
    given |= {"dim_rounding_mode": dim_rounding_mode}
    acts = {"activation": activation, "leaky_relu_alpha": leaky_relu_alpha}
    xs, kernel = (x, filter, bias, prelu_weights), FUSED_DEPTHWISE_CONV2D
    return _fused(kernel, geometry.depthwise, xs, data_format, given, acts)


def _fused(
    kernel: Kernel,
    rule: Any,
    values: tuple[TensorLike | None, ...],
    data_format: str,
    given: dict[str, Any],
    acts: dict[str, Any],
) -> Tensor:
    op = kernel.op
    _check(op, acts["activation"], values[3])
    alpha = _arguments.real(op, "leaky_relu_alpha", acts["leaky_relu_alpha"])
    acts = acts | {"leaky_relu_alpha": alpha}
    x, filter, bias, weights = _floats(op, *values)
    x, back = _windows.channels_last(op, x, 2, data_format)
    windows = rule(op, x.shape, filter.shape, **given)
    first, out = data_format == "NCHW", windows.out_shape
    bias = _beside(op, "bias", bias, out, first)
    weights = _beside(op, "prelu_weights", weights, out, first)
    return back(run(kernel, x, filter, bias, weights, geometry=windows, **acts))


def _check(op: str, activation: str, weights: object) -> None:
    _arguments.choice(op, "activation", activation, *ACTIVATIONS)
    if (activation == "prelu") != (weights is not None):
        raise ValueError(
            f"{op}: activation 'prelu' needs prelu_weights, and no other has any"
        )


def _floats(
    op: str, *values: Any
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return all in one dtype of real floating numbers; None stays."""
    more = [v for v in values[2:] if v is not None]
    found = iter(_convert.together(op, *values[:2], *more))
    xs = [v if v is None else _convert.floating(op, next(found), "f") for v in values]
    return cast("tuple[Tensor, Tensor, Tensor | None, Tensor | None]", tuple(xs))


def _beside(
    op: str, name: str, x: Tensor | None, out: Shape, first: bool = False
) -> Tensor | None:
    """Return ``x`` so that it broadcasts to ``out``, whose channels come last.

    ``first`` tells that those of ``x`` come first, if it has axes other than channels.
    """
    if x is None:
        return None
    if first and 1 < len(x.shape) < 5:
        x = shape.reshape(x, ((1,) * (4 - len(x.shape)) + x.shape))
        x = shape.permute_dims(x, (0, 2, 3, 1))
    if geometry.broadcast(op, out, x.shape) != out:
        raise ValueError(f"{op}: {name} of shape {x.shape} does not broadcast to {out}")
    return x


# --- decompositions --------------------------------------------------------------


def _activated(
    y: Tensor,
    bias: Tensor | None,
    weights: Tensor | None,
    activation: Activation,
    leaky_relu_alpha: float,
) -> Tensor:
    y = y if bias is None else y + bias
    match activation:
        case "relu":
            return activations.relu(y)
        case "relu6":
            return activations.relu6(y)
        case "elu":
            return activations.elu(y)
        case "prelu":
            return activations.prelu(y, cast("Tensor", weights))
        case "leaky_relu":
            return activations.leaky_relu(y, alpha=leaky_relu_alpha)
        case "sigmoid":
            return activations.sigmoid(y)
    return y


@decomposition(FUSED_MATMUL)
def _(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    prelu_activation_weights: Tensor | None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: Activation,
    leaky_relu_alpha: float,
) -> Tensor:
    y = linalg.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return _activated(y, bias, prelu_activation_weights, activation, leaky_relu_alpha)


@decomposition(FUSED_CONV2D)
def _(
    x: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    prelu_activation_weights: Tensor | None,
    *,
    geometry: Windows,
    activation: Activation,
    leaky_relu_alpha: float,
) -> Tensor:
    y = run(conv.CONV2D, x, filter, geometry=geometry)
    return _activated(y, bias, prelu_activation_weights, activation, leaky_relu_alpha)


@decomposition(FUSED_DEPTHWISE_CONV2D)
def _(
    x: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    prelu_activation_weights: Tensor | None,
    *,
    geometry: Windows,
    activation: Activation,
    leaky_relu_alpha: float,
) -> Tensor:
    y = run(depthwise.DEPTHWISE_CONV2D, x, filter, geometry=geometry)
    return _activated(y, bias, prelu_activation_weights, activation, leaky_relu_alpha)
