"""Fused ops, public as ``plugrad.fused``: ``activation(y + bias)`` in one kernel.

Kernels: ``_FusedMatMul FusedConv2D FusedDepthwiseConv2D``. They compute with real
floating-point numbers; integers become float32.

Under a tape a fused kernel is decomposed, so that an override of ``Relu`` also applies
to the Relu inside it. Therefore none of these kernels has its own gradient.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, get_args

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, shape
from plugrad._src.ops.linalg import products
from plugrad._src.registry.contract import Kernel, Spec, decomposition
from plugrad._src.tensor.arguments import choice, flag, misfit, real
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Rounding, Shape, Sizes

from . import _windows, conv, depthwise
from . import activation as activations
from ._windows import Options

if TYPE_CHECKING:
    from plugrad.geometry import Windows

__all__ = ["conv2d", "depthwise_conv2d", "matmul"]

Activation = Literal["linear", "relu", "relu6", "elu", "prelu", "leaky_relu", "sigmoid"]
ACTIVATIONS = get_args(Activation)
Maybe = Tensor | None
Inputs = tuple[Tensor, Tensor, Maybe, Maybe]
Shaped = Tensor | Spec


# --- contracts and decompositions ------------------------------------------------

_LINEAR: Options = {"activation": "linear", "leaky_relu_alpha": 0.2}
_NOT_TRANSPOSED: Options = {"transpose_a": False, "transpose_b": False, **_LINEAR}


_EPILOGUE_INPUTS = "bias?: {0}, prelu_activation_weights?: {0}"
_ACTIVATION = "activation: {}, leaky_relu_alpha: float".format(
    " | ".join(map(repr, ACTIVATIONS))
)


def _product(a: Shaped, b: Shaped, transpose_a: bool, transpose_b: bool) -> Shape:
    """Return the shape of a product; raise if the shapes are incompatible."""
    op = "fused.matmul"
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise misfit(op, "a and b must have 2 axes or more", a, b)
    columns = a.shape[-1 - transpose_a]
    rows = b.shape[-2 + transpose_b]
    if columns != rows:
        turns = f"transpose_a={transpose_a}, transpose_b={transpose_b}"
        rule = f"inner sizes {columns} and {rows} differ ({turns})"
        raise explained(misfit(op, rule, a, b), "inner-sizes-differ")
    batch = geometry.broadcast(op, a.shape[:-2], b.shape[:-2])
    return (*batch, a.shape[-2 + transpose_a], b.shape[-1 - transpose_b])


def _check_epilogue(
    op: str, activation: str, out: Shape, *epilogue: Spec | None
) -> None:
    """Raise unless bias and slopes broadcast to ``out`` and suit the activation."""
    _check_weights(op, activation, epilogue[1])
    for name, x in zip(("bias", "prelu_activation_weights"), epilogue, strict=True):
        if x is not None:
            _convert.check_broadcast(op, name, x, out)


def _check_weights(op: str, activation: str, weights: object) -> None:
    if (activation == "prelu") != (weights is not None):
        raise ValueError(
            f"{op}: prelu_weights must be given for 'prelu', and for no other "
            "activation"
        )


def _multiplied(a: Spec, b: Spec, *epilogue: Any, activation: str, **more: Any) -> Spec:
    out = _product(a, b, more["transpose_a"], more["transpose_b"])
    _check_epilogue("fused.matmul", activation, out, *epilogue)
    return Spec(out, a.dtype)


FUSED_MATMUL = Kernel(
    f"_FusedMatMul(a: floating, b: a, {_EPILOGUE_INPUTS.format('a')}; "
    f"transpose_a: bool, transpose_b: bool, {_ACTIVATION})",
    fused=True,
    canonicalize=lambda *_, **given: _NOT_TRANSPOSED | given,
    out=_multiplied,
    op="fused.matmul",
    doc="""``activation(BatchMatMul(a, b) + bias)``, as the separate kernels compute it.

    ``prelu_activation_weights`` are the slopes of "prelu", and missing for all other
    activations; ``leaky_relu_alpha`` is the slope of "leaky_relu".""",
)


@decomposition(FUSED_MATMUL)
def _(
    a: Tensor,
    b: Tensor,
    bias: Maybe,
    prelu_activation_weights: Maybe,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: Activation,
    leaky_relu_alpha: float,
) -> Tensor:
    y = products.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return _activated(y, bias, prelu_activation_weights, activation, leaky_relu_alpha)


def _convolved(
    part: Any,
    x: Spec,
    f: Spec,
    *epilogue: Any,
    geometry: Any,
    activation: str,
    **_: Any,
) -> Spec:
    y: Spec = part.out(x, f, geometry=geometry)
    _check_epilogue(f"fused.{part.op}", activation, y.shape, *epilogue)
    return y


def _convolution(name: str, part: Kernel, rule: Any) -> Kernel:
    """Return a contract for ``part`` with an activation; register its decomposition.

    ``rule`` is the ``geometry`` function that computes the windows.
    """
    kernel = Kernel(
        f"{name}(x: floating, filter: x, {_EPILOGUE_INPUTS.format('x')}; "
        f"geometry: Windows, {_ACTIVATION})",
        fused=True,
        canonicalize=lambda *xs, **given: conv.forward_attributes(
            rule, *xs, **_LINEAR | given
        ),
        out=functools.partial(_convolved, part),
        op=f"fused.{part.op}",
        doc=f"""``activation({part.name}(x, filter) + bias)``, as the separate kernels
        compute it. Slopes are as in ``_FusedMatMul``.""",
    )

    @decomposition(kernel)
    def _(
        x: Tensor,
        filter: Tensor,
        bias: Maybe,
        prelu_activation_weights: Maybe,
        *,
        geometry: Windows,
        activation: Activation,
        leaky_relu_alpha: float,
    ) -> Tensor:
        y = run(part, x, filter, geometry=geometry)
        slopes = prelu_activation_weights
        return _activated(y, bias, slopes, activation, leaky_relu_alpha)

    return kernel


def _activated(
    y: Tensor, bias: Maybe, slopes: Maybe, activation: Activation, alpha: float
) -> Tensor:
    y = y if bias is None else y + bias
    match activation:
        case "relu" | "relu6" | "elu" | "sigmoid":
            return cast("Tensor", getattr(activations, activation)(y))
        case "prelu":
            return activations.prelu(y, cast("Tensor", slopes))
        case "leaky_relu":
            return activations.leaky_relu(y, alpha=alpha)
    return y


FUSED_CONV2D = _convolution("FusedConv2D", conv.CONV2D, conv.IN_2D)
FUSED_DEPTHWISE_CONV2D = _convolution(
    "FusedDepthwiseConv2D", depthwise.DEPTHWISE_CONV2D, geometry.depthwise
)


# --- ops -------------------------------------------------------------------------


def matmul(
    a: TensorLike,
    b: TensorLike,
    /,
    bias: TensorLike | None = None,
    prelu_weights: TensorLike | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: Activation = "linear",
    leaky_relu_alpha: float = 0.2,
) -> Tensor:
    """Return ``activation(plugrad.matmul(a, b) + bias)``.

    Backends may run it as one kernel. Tapes record the separate ops.

    Args:
        a: ``[..., i, k]``, or ``[..., k, i]`` if ``transpose_a``.
        b: ``[..., k, j]``, or ``[..., j, k]`` if ``transpose_b``.
        bias: A tensor that broadcasts to the product; None for no bias.
        prelu_weights: The slopes of the activation "prelu", which broadcast to the
            product; None for other activations.
        transpose_a: Whether to transpose the last two axes of ``a``.
        transpose_b: Whether to transpose the last two axes of ``b``.
        activation: "linear", "relu", "relu6", "elu", "prelu", "leaky_relu" or
            "sigmoid".
        leaky_relu_alpha: The slope of "leaky_relu" for negative numbers.

    Returns:
        A tensor ``[..., i, j]`` of the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes or attributes are incompatible, the activation is
            unknown, or ``prelu_weights`` are missing for "prelu" or given for another
            activation.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> x, w = [[1.0, 2.0]], [[1.0, -1.0], [1.0, -1.0]]
        >>> pg.fused.matmul(x, w, [0.5, 0.5], activation="relu")
        Tensor([[3.5, 0. ]], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.fused.matMul`` in TensorFlow.js.

    """
    op = "fused.matmul"
    acts = _activation_attributes(op, activation, leaky_relu_alpha, prelu_weights)
    turn_a = flag(op, "transpose_a", transpose_a)
    turn_b = flag(op, "transpose_b", transpose_b)
    a, b, bias, weights = _floats(op, a, b, bias, prelu_weights)
    out = _product(a, b, turn_a, turn_b)
    bias = _align_channels(op, "bias", bias, out)
    weights = _align_channels(op, "prelu_weights", weights, out)
    acts |= {"transpose_a": turn_a, "transpose_b": turn_b}
    return run(FUSED_MATMUL, a, b, bias, weights, **acts)


def conv2d(
    x: TensorLike,
    filter: TensorLike,
    /,
    bias: TensorLike | None = None,
    prelu_weights: TensorLike | None = None,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NHWC",
    dim_rounding_mode: Rounding | None = None,
    groups: int = 1,
    activation: Activation = "linear",
    leaky_relu_alpha: float = 0.2,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``activation(plugrad.conv2d(x, filter) + bias)``.

    Backends may run it as one kernel. Tapes record the separate ops.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch.
        filter: ``[height, width, channels / groups, out_channels]``.
        bias: A tensor ``[out_channels]``, or one that broadcasts to the result in its
            format; None for no bias.
        prelu_weights: The slopes of the activation "prelu", shaped like ``bias``; None
            for other activations.
        strides: As in ``plugrad.conv2d``, like all attributes up to ``groups``.
        pad: "same", "valid", a number, or ``[(top, bottom), (left, right)]``.
        dilations: Steps between adjacent elements of one window.
        data_format: "NHWC" or "NCHW", for ``x`` and the result.
        dim_rounding_mode: "floor", "ceil" or "round".
        groups: The number of groups into which the channels are split.
        activation: "linear", "relu", "relu6", "elu", "prelu", "leaky_relu" or
            "sigmoid".
        leaky_relu_alpha: The slope of "leaky_relu" for negative numbers.

    Returns:
        A tensor ``[batch, out_height, out_width, out_channels]`` in the format of
        ``x``, of the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes or attributes are incompatible, the activation is
            unknown, or ``prelu_weights`` are missing for "prelu" or given for another
            activation.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> x = pg.reshape(pg.arange(9.0), (1, 3, 3, 1))
        >>> y = pg.fused.conv2d(x, pg.ones((2, 2, 1, 1)), [-15.0], activation="relu")
        >>> y[0, :, :, 0]
        Tensor([[0., 0.],
                [5., 9.]], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.fused.conv2d`` in TensorFlow.js, with groups.

    """
    if unknown:
        raise unexpected(conv2d, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode, groups)
    acts = _activation_attributes(
        "fused.conv2d", activation, leaky_relu_alpha, prelu_weights
    )
    xs = (x, filter, bias, prelu_weights)
    return _fused(FUSED_CONV2D, conv.IN_2D, data_format, given, acts, xs)


def depthwise_conv2d(
    x: TensorLike,
    filter: TensorLike,
    /,
    bias: TensorLike | None = None,
    prelu_weights: TensorLike | None = None,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NHWC",
    dim_rounding_mode: Rounding | None = None,
    activation: Activation = "linear",
    leaky_relu_alpha: float = 0.2,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``activation(plugrad.depthwise_conv2d(x, filter) + bias)``.

    Backends may run it as one kernel. Tapes record the separate ops.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch.
        filter: ``[height, width, channels, multiplier]``.
        bias: A tensor ``[channels · multiplier]``, or one that broadcasts to the result
            in its format; None for no bias.
        prelu_weights: The slopes of the activation "prelu", shaped like ``bias``; None
            for other activations.
        strides: As in ``plugrad.depthwise_conv2d``, like all attributes up to
            ``dim_rounding_mode``.
        pad: "same", "valid", a number, or ``[(top, bottom), (left, right)]``.
        dilations: Steps between adjacent elements of one window.
        data_format: "NHWC" or "NCHW", for ``x`` and the result.
        dim_rounding_mode: "floor", "ceil" or "round".
        activation: "linear", "relu", "relu6", "elu", "prelu", "leaky_relu" or
            "sigmoid".
        leaky_relu_alpha: The slope of "leaky_relu" for negative numbers.

    Returns:
        A tensor ``[batch, out_height, out_width, channels · multiplier]`` in the format
        of ``x``, of the promoted dtype; float32 for integers and bool.

    Raises:
        ValueError: The shapes or attributes are incompatible, the activation is
            unknown, or ``prelu_weights`` are missing for "prelu" or given for another
            activation.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> x, filter = [[[[3.0, 5.0]]]], [[[[1.0], [-1.0]]]]
        >>> pg.fused.depthwise_conv2d(x, filter, [1.0, 1.0], activation="relu").tolist()
        [[[[4.0, 0.0]]]]

    Source:
        The semantics are those of ``tf.fused.depthwiseConv2d`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(depthwise_conv2d, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode)
    acts = _activation_attributes(
        "fused.depthwise_conv2d", activation, leaky_relu_alpha, prelu_weights
    )
    xs = (x, filter, bias, prelu_weights)
    rule = geometry.depthwise
    return _fused(FUSED_DEPTHWISE_CONV2D, rule, data_format, given, acts, xs)


def _fused(
    kernel: Kernel, rule: Any, data_format: str, given: Options, acts: Options, xs: Any
) -> Tensor:
    op = kernel.op
    x, filter, bias, weights = _floats(op, *xs)
    x, back = _windows.channels_last(op, x, 2, data_format)
    windows = rule(op, x.shape, filter.shape, **given)
    first = data_format == "NCHW"
    out = windows.out_shape
    bias = _align_channels(op, "bias", bias, out, first)
    weights = _align_channels(op, "prelu_weights", weights, out, first)
    return back(run(kernel, x, filter, bias, weights, geometry=windows, **acts))


def _activation_attributes(
    op: str, activation: str, alpha: float, weights: object
) -> Options:
    """Check and return the attributes of an activation; only "prelu" has weights."""
    choice(op, "activation", activation, *ACTIVATIONS)
    _check_weights(op, activation, weights)
    alpha = real(op, "leaky_relu_alpha", alpha)
    return {"activation": activation, "leaky_relu_alpha": alpha}


def _floats(op: str, *values: Any) -> Inputs:
    """Convert all values to one real floating dtype; None stays None."""
    more = [v for v in values[2:] if v is not None]
    found = iter(_convert.promote_all(op, *values[:2], *more))
    xs = [v if v is None else _convert.floating(op, next(found), "f") for v in values]
    return cast("Inputs", tuple(xs))


def _align_channels(
    op: str, name: str, x: Maybe, out: Shape, first: bool = False
) -> Maybe:
    """Reshape ``x`` so that it broadcasts to ``out``, whose channels are last.

    ``first`` says whether ``x``, if it has other axes, has its channels first.
    """
    if x is None:
        return None
    if first and 1 < len(x.shape) < 5:
        x = shape.reshape(x, ((1,) * (4 - len(x.shape)) + x.shape))
        x = shape.permute_dims(x, (0, 2, 3, 1))
    return _convert.check_broadcast(op, name, x, out)
