"""int8 and uint8 convolutions and matrix products, public as ``plugrad.quantized``.

Kernels: ``QuantizedConv2D QuantizedDepthwiseConv2D QuantizedMatMul``. They sum exactly
in int32, add a bias, and round back to int8 or uint8.

Contents: the epilogue; contracts and decompositions; ops.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, creation, shape, unary
from plugrad._src.ops.linalg import products
from plugrad._src.registry.contract import Kernel, Spec, decomposition
from plugrad._src.tensor.arguments import misfit
from plugrad._src.tensor.dtypes import FLOAT32, INT32, dtype_kind, named
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Rounding, Shape, Sizes

from . import _windows, activation, conv, depthwise

if TYPE_CHECKING:
    from plugrad.geometry import Windows

__all__ = ["conv2d", "depthwise_conv2d", "matmul"]

Maybe = Tensor | None
MaybeLike = TensorLike | None

# --- the epilogue ----------------------------------------------------------------

_EPILOGUE_NAMES = "bias", "scale", "zero_point"
_EPILOGUE_INPUTS = "bias?: int32, scale?: float32, zero_point?: int8 | uint8"
_X_EPILOGUE_INPUTS = f"x_zero_point?: x, {_EPILOGUE_INPUTS}"


def _extra_input_names(op: str) -> tuple[str, ...]:
    """Return the names of the inputs that follow the operands."""
    return f"{'a' if op == 'quantized.matmul' else 'x'}_zero_point", *_EPILOGUE_NAMES


def _epilogue_spec(op: str, out: Shape, *epilogue: Any) -> Spec:
    """Return the spec of the result; raise unless the epilogue's tensors fit it."""
    allowed = ((),), (out[-1:],), ((), out[-1:]), ((),)
    for name, x, shapes in zip(_extra_input_names(op), epilogue, allowed, strict=True):
        if x is not None and x.shape not in shapes:
            wanted = " or ".join(map(str, shapes))
            raise ValueError(
                f"{op}: {name} must have the shape {wanted}, got {x.shape}"
            )
    scale, zero_point = epilogue[2:]
    if scale is None and zero_point is not None:
        raise ValueError(f"{op}: a result with a zero point needs a scale")
    floating = INT32 if scale is None else FLOAT32
    return Spec(out, floating if zero_point is None else zero_point.dtype)


def _epilogue(y: Tensor, bias: Maybe, scale: Maybe, zero_point: Maybe) -> Tensor:
    """Apply the epilogue to sums: bias, scale and rounding."""
    y = y if bias is None else y + bias
    if scale is None:
        return y
    y = creation.cast(y, FLOAT32) * scale
    if zero_point is None:
        return y
    least, most = (
        (-128.0, 127.0) if dtype_kind(zero_point.dtype) == "i" else (0.0, 255.0)
    )
    y = unary.round(y) + creation.cast(zero_point, FLOAT32)
    return creation.cast(activation.clip(y, least, most), zero_point.dtype)


def _subtract_zero_point(x: Tensor, zero_point: Maybe) -> Tensor:
    """Return the int32 values of ``x`` minus its zero point."""
    x = creation.cast(x, INT32)
    return x if zero_point is None else x - creation.cast(zero_point, INT32)


_DOC = """
    The sums have 32 bits and wrap. ``bias`` is added to them. Without ``scale``, they
    are the result; otherwise they are converted to float32 and multiplied by ``scale``,
    which is one number or one for each channel. With ``zero_point``, the products are
    rounded to the nearest integer, ties to even, ``zero_point`` is added, and the
    result is limited to the range of the dtype of ``zero_point``."""

# --- contracts and decompositions ------------------------------------------------


def _conv2d_spec(x: Spec, filter: Spec, *epilogue: Any, geometry: Windows) -> Spec:
    op = "quantized.conv2d"
    if geometry.groups != 1:
        raise ValueError(f"{op}: there must be one group, got {geometry.groups}")
    rows = ("x", x, geometry.in_shape), ("filter", filter, geometry.filter_shape)
    _windows.check(geometry, 2, *rows)
    return _epilogue_spec(op, geometry.out_shape, *epilogue)


QUANTIZED_CONV2D = Kernel(
    f"QuantizedConv2D(x: int8 | uint8, filter: int8, {_X_EPILOGUE_INPUTS}; "
    "geometry: Windows)",
    out=_conv2d_spec,
    canonicalize=functools.partial(conv.forward_attributes, conv.IN_2D),
    op="quantized.conv2d",
    doc=f"""``Conv2D`` of ``x - x_zero_point`` and ``filter``; one group. {_DOC}""",
)


@decomposition(QUANTIZED_CONV2D)
def _(
    x: Tensor,
    filter: Tensor,
    x_zero_point: Maybe,
    bias: Maybe,
    scale: Maybe,
    zero_point: Maybe,
    *,
    geometry: Windows,
) -> Tensor:
    w = creation.cast(filter, INT32)
    y = run(conv.CONV2D, _subtract_zero_point(x, x_zero_point), w, geometry=geometry)
    return _epilogue(y, bias, scale, zero_point)


def _depthwise_spec(x: Spec, filter: Spec, *epilogue: Any, geometry: Windows) -> Spec:
    wanted = depthwise.filter_shape(geometry)
    rows = ("x", x, geometry.in_shape), ("filter", filter, wanted)
    _windows.check(geometry, 2, *rows)
    return _epilogue_spec("quantized.depthwise_conv2d", geometry.out_shape, *epilogue)


QUANTIZED_DEPTHWISE_CONV2D = Kernel(
    f"QuantizedDepthwiseConv2D(x: int8 | uint8, filter: int8, {_X_EPILOGUE_INPUTS}; "
    "geometry: Windows)",
    out=_depthwise_spec,
    canonicalize=functools.partial(conv.forward_attributes, geometry.depthwise),
    op="quantized.depthwise_conv2d",
    doc=f"""``DepthwiseConv2dNative`` of ``x - x_zero_point`` and ``filter``. {_DOC}""",
)


@decomposition(QUANTIZED_DEPTHWISE_CONV2D)
def _(
    x: Tensor,
    filter: Tensor,
    x_zero_point: Maybe,
    bias: Maybe,
    scale: Maybe,
    zero_point: Maybe,
    *,
    geometry: Windows,
) -> Tensor:
    w = creation.cast(filter, INT32)
    y = run(
        depthwise.DEPTHWISE_CONV2D,
        _subtract_zero_point(x, x_zero_point),
        w,
        geometry=geometry,
    )
    return _epilogue(y, bias, scale, zero_point)


def _matmul_spec(a: Spec, b: Spec, *epilogue: Any) -> Spec:
    op = "quantized.matmul"
    if not a.shape or len(b.shape) != 2:
        raise misfit(op, "a must have 1 axis or more, and b must have 2", a, b)
    if a.shape[-1] != b.shape[0]:
        raise misfit(op, "the last axis of a must be as long as the first of b", a, b)
    return _epilogue_spec(op, (*a.shape[:-1], b.shape[1]), *epilogue)


QUANTIZED_MAT_MUL = Kernel(
    f"QuantizedMatMul(a: int8 | uint8, b: int8, a_zero_point?: a, {_EPILOGUE_INPUTS})",
    out=_matmul_spec,
    op="quantized.matmul",
    doc=f"""``y[..., j] = Σ (a[..., k] - a_zero_point) b[k, j]`` over k. {_DOC}""",
)


@decomposition(QUANTIZED_MAT_MUL)
def _(
    a: Tensor,
    b: Tensor,
    a_zero_point: Maybe,
    bias: Maybe,
    scale: Maybe,
    zero_point: Maybe,
) -> Tensor:
    rows = math.prod(a.shape[:-1])
    x = shape.reshape(_subtract_zero_point(a, a_zero_point), (rows, a.shape[-1]))
    how = {"transpose_a": False, "transpose_b": False}
    y = run(products.BATCH_MATMUL, x, creation.cast(b, INT32), **how)
    y = _epilogue(y, bias, scale, zero_point)
    return shape.reshape(y, (*a.shape[:-1], b.shape[1]))


# --- ops -------------------------------------------------------------------------


def conv2d(
    x: TensorLike,
    filter: TensorLike,
    /,
    x_zero_point: MaybeLike = None,
    bias: MaybeLike = None,
    scale: MaybeLike = None,
    zero_point: MaybeLike = None,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    dim_rounding_mode: Rounding | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the convolution of ``x - x_zero_point`` and ``filter``.

    Args:
        x: int8 or uint8, ``[batch, height, width, channels]``.
        filter: int8, ``[height, width, channels, out_channels]``.
        x_zero_point: The zero point of ``x``: a number of its dtype. It is also the
            value of the padding.
        bias: int32, ``[out_channels]``, which is added to the sums.
        scale: float32, one number or one for each output channel, by which the sums are
            multiplied. None for an int32 result.
        zero_point: The zero point of the result, int8 or uint8, which is also the dtype
            of the result. None for a float32 result.
        strides: As in ``plugrad.conv2d``, like the attributes below.
        pad: "same", "valid", a number, or ``[(top, bottom), (left, right)]``.
        dilations: Steps between adjacent elements of one window.
        dim_rounding_mode: "floor", "ceil", "round" or "ceil_inside".

    Returns:
        A tensor ``[batch, out_height, out_width, out_channels]``: int32, float32 if
        there is a ``scale``, or of the dtype of ``zero_point``.

    Raises:
        ValueError: The shapes or attributes are incompatible, or there is a
            ``zero_point`` without a ``scale``.
        TypeError: A tensor does not have the required dtype.

    Example:
        >>> x = pg.asarray([[[[7], [8], [9]]]], dtype="uint8")
        >>> w = pg.asarray([[[[1]], [[-2]]]], dtype="int8")
        >>> pg.quantized.conv2d(x, w).tolist()
        [[[[-9], [-10]]]]

    """
    if unknown:
        raise unexpected(conv2d, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode)
    epilogue = x_zero_point, bias, scale, zero_point
    return _convolve(QUANTIZED_CONV2D, conv.IN_2D, (x, filter), epilogue, given)


def depthwise_conv2d(
    x: TensorLike,
    filter: TensorLike,
    /,
    x_zero_point: MaybeLike = None,
    bias: MaybeLike = None,
    scale: MaybeLike = None,
    zero_point: MaybeLike = None,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    dim_rounding_mode: Rounding | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Convolve each channel of ``x - x_zero_point`` with its own filters.

    Args:
        x: int8 or uint8, ``[batch, height, width, channels]``.
        filter: int8, ``[height, width, channels, multiplier]``.
        x_zero_point: The zero point of ``x``: a number of its dtype. It is also the
            value of the padding.
        bias: As in ``quantized.conv2d``, like the arguments below.
        scale: One number, or one for each output channel.
        zero_point: The zero point of the result.
        strides: As in ``plugrad.conv2d``.
        pad: "same", "valid", a number, or ``[(top, bottom), (left, right)]``.
        dilations: Steps between adjacent elements of one window.
        dim_rounding_mode: "floor", "ceil", "round" or "ceil_inside".

    Returns:
        A tensor ``[batch, out_height, out_width, channels · multiplier]``: int32,
        float32 if there is a ``scale``, or of the dtype of ``zero_point``.

    Raises:
        ValueError: The shapes or attributes are incompatible, or there is a
            ``zero_point`` without a ``scale``.
        TypeError: A tensor does not have the required dtype.

    Example:
        >>> x = pg.asarray([[[[7, 3]]]], dtype="uint8")
        >>> w = pg.asarray([[[[2], [5]]]], dtype="int8")
        >>> epilogue = {"scale": 0.5, "zero_point": pg.asarray(100, dtype="uint8")}
        >>> pg.quantized.depthwise_conv2d(x, w, **epilogue).tolist()
        [[[[107, 108]]]]

    """
    if unknown:
        raise unexpected(depthwise_conv2d, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode)
    epilogue = x_zero_point, bias, scale, zero_point
    rule = geometry.depthwise
    return _convolve(QUANTIZED_DEPTHWISE_CONV2D, rule, (x, filter), epilogue, given)


def matmul(
    a: TensorLike,
    b: TensorLike,
    /,
    a_zero_point: MaybeLike = None,
    bias: MaybeLike = None,
    scale: MaybeLike = None,
    zero_point: MaybeLike = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the matrix product of ``a - a_zero_point`` and ``b``.

    Args:
        a: int8 or uint8, ``[..., k]``.
        b: int8, ``[k, n]``.
        a_zero_point: The zero point of ``a``: a number of its dtype.
        bias: As in ``quantized.conv2d``, like the arguments below.
        scale: One number, or one for each column.
        zero_point: The zero point of the result.

    Returns:
        A tensor ``[..., n]``: int32, float32 if there is a ``scale``, or of the dtype
        of ``zero_point``.

    Raises:
        ValueError: The shapes are incompatible, or there is a ``zero_point`` without a
            ``scale``.
        TypeError: A tensor does not have the required dtype.

    Example:
        >>> w = pg.asarray([[1], [-3]], dtype="int8")
        >>> pg.quantized.matmul(pg.asarray([[5, 1]], dtype="uint8"), w).tolist()
        [[2]]

    """
    if unknown:
        raise unexpected(matmul, unknown)
    op = "quantized.matmul"
    a, b = _check_operands(op, a, b)
    epilogue = _epilogue_operands(op, a, a_zero_point, bias, scale, zero_point)
    _matmul_spec(a, b, *epilogue)  # type: ignore[arg-type]  # like specs
    return run(QUANTIZED_MAT_MUL, a, b, *epilogue)


def _convolve(
    kernel: Kernel, rule: Any, operands: Any, epilogue: Any, given: Any
) -> Tensor:
    """Run a quantized convolution; ``rule`` computes its windows."""
    op = kernel.op
    x, filter = _check_operands(op, *operands)
    more = _epilogue_operands(op, x, *epilogue)
    windows = rule(op, x.shape, filter.shape, **given)
    _epilogue_spec(op, windows.out_shape, *more)
    return run(kernel, x, filter, *more, geometry=windows)


def _check_operands(op: str, x: TensorLike, w: TensorLike) -> tuple[Tensor, Tensor]:
    """Return the operands; raise unless they are int8, or the first one uint8."""
    x = _convert.asarray(x)
    w = _convert.asarray(w)
    if x.dtype.name not in ("int8", "uint8"):
        name = "a" if op == "quantized.matmul" else "x"
        raise TypeError(f"{op}: {name} must be int8 or uint8, got {named(x.dtype)}")
    if w.dtype.name != "int8":
        name = "b" if op == "quantized.matmul" else "filter"
        raise TypeError(f"{op}: {name} must be int8, got {named(w.dtype)}")
    return x, w


def _epilogue_operands(op: str, x: Tensor, *given: MaybeLike) -> list[Maybe]:
    """Return the zero points, bias and scale as tensors; a Python scale is float32."""
    found = [v if v is None else _convert.asarray(v) for v in given]
    allowed = (x.dtype.name,), ("int32",), ("float32",), ("int8", "uint8")
    for name, v, names in zip(_extra_input_names(op), found, allowed, strict=True):
        if v is not None and v.dtype.name not in names:
            wanted = " or ".join(names)
            raise TypeError(f"{op}: {name} must be {wanted}, got {named(v.dtype)}")
    return found
