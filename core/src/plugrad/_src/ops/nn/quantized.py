"""Convolutions and products of bytes, public as ``plugrad.quantized``.

Kernels: ``QuantizedConv2D QuantizedDepthwiseConv2D``. They sum in int32, exactly, add a
bias, and round to bytes again. Weights are packed once, by ``pack``, in the order in
which processors multiply bytes.

Map: what kernels share; packed weights; contracts and decompositions; ops.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import slicing
from plugrad._src.ops.basis import _convert, creation, reduce, shape, unary
from plugrad._src.registry.contract import Kernel, Spec, decomposition
from plugrad._src.tensor.arguments import misfit, sizes
from plugrad._src.tensor.dtypes import FLOAT32, INT32, named
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Rounding, Shape, Sizes

from . import _windows, activation, conv, depthwise

if TYPE_CHECKING:
    from plugrad.geometry import Windows

__all__ = ["conv2d", "depthwise_conv2d", "matmul", "pack"]

Maybe = Tensor | None
MaybeLike = TensorLike | None

# --- what kernels share ----------------------------------------------------------

_NAMES = "x_zero_point", "bias", "scale", "zero_point"
_END = "x_zero_point?: x, bias?: int32, scale?: float32, zero_point?: int8 | uint8"


def _ended(op: str, out: Shape, *end: Any) -> Spec:
    """Return the result; raise unless its shape fits the tensors of the end."""
    allowed = ((),), (out[-1:],), ((), out[-1:]), ((),)
    for name, x, shapes in zip(_NAMES, end, allowed, strict=True):
        if x is not None and x.shape not in shapes:
            wanted = " or ".join(map(str, shapes))
            raise ValueError(
                f"{op}: {name} must have the shape {wanted}, got {x.shape}"
            )
    scale, zero_point = end[2:]
    if scale is None and zero_point is not None:
        raise ValueError(f"{op}: a result with a zero point needs a scale")
    floating = INT32 if scale is None else FLOAT32
    return Spec(out, floating if zero_point is None else zero_point.dtype)


def _end(y: Tensor, bias: Maybe, scale: Maybe, zero_point: Maybe) -> Tensor:
    """Add a bias to sums, scale and round them: what the kernels do as they end."""
    y = y if bias is None else y + bias
    if scale is None:
        return y
    y = creation.cast(y, FLOAT32) * scale
    if zero_point is None:
        return y
    least, most = (-128.0, 127.0) if zero_point.dtype.kind == "i" else (0.0, 255.0)
    y = unary.round(y) + creation.cast(zero_point, FLOAT32)
    return creation.cast(activation.clip(y, least, most), zero_point.dtype)


def _less(x: Tensor, zero_point: Maybe) -> Tensor:
    x = creation.cast(x, INT32)
    return x if zero_point is None else x - creation.cast(zero_point, INT32)


_DOC = """
    The sums have 32 bits, and wrap. ``bias`` is added to them. They are the result if
    there is no ``scale``; else they are converted to float32 and multiplied by it. With
    ``zero_point``, that is rounded to the nearest integer, half to even, ``zero_point``
    is added, and the result is the nearest number of the dtype of ``zero_point``.
    ``scale`` is one number or one for each channel."""

# --- packed weights --------------------------------------------------------------

PANEL = 16


def _packed_shape(k: int, n: int) -> Shape:
    return -(-n // PANEL), -(-k // 4), PANEL, 4


def pack(filter: TensorLike, /) -> tuple[Tensor, Tensor]:
    """Return weights as ``conv2d`` and ``matmul`` take them, and their sums.

    Do it once for weights that do not change.

    Args:
        filter: int8, ``[..., channels, out_channels]``: the window of a convolution, if
            it has one, is in front.

    Returns:
        The panels: the weights as a matrix ``[k, out_channels]``, with as many zeros at
        the ends of both axes as make them multiples of 4 and of 16, as
        ``[out_channels / 16, k / 4, 16, 4]``. And the sums of the matrix over k, int32.

    Raises:
        ValueError: ``filter`` has fewer than two axes.
        TypeError: ``filter`` is not int8.

    Example:
        >>> w = pg.asarray([[1, 2], [3, 4], [5, 6]], dtype="int8")
        >>> panels, sums = pg.quantized.pack(w)
        >>> panels.shape, panels[0, 0, :2].tolist(), sums.tolist()
        ((1, 1, 16, 4), [[1, 3, 5, 0], [2, 4, 6, 0]], [9, 12])

    """
    w = _convert.asarray(filter)
    if w.dtype.name != "int8":
        raise TypeError(f"quantized.pack: weights must be int8, got {named(w.dtype)}")
    if len(w.shape) < 2:
        raise misfit("quantized.pack", "weights must have 2 axes or more", w)
    k, n = math.prod(w.shape[:-1]), w.shape[-1]
    across, words, _, _ = _packed_shape(k, n)
    w = shape.reshape(w, (k, n))
    y = slicing.pad(w, [(0, words * 4 - k), (0, across * PANEL - n)])
    y = shape.reshape(y, (words, 4, across, PANEL))
    sums = reduce.sum(w, axis=0, dtype=INT32)
    return shape.permute_dims(y, (2, 0, 3, 1)), sums


def _unpacked(panels: Tensor, like: Shape) -> Tensor:
    """Return the weights of a shape again."""
    k, n = math.prod(like[:-1]), like[-1]
    across, words = panels.shape[:2]
    y = shape.permute_dims(panels, (1, 3, 0, 2))
    y = shape.reshape(y, (words * 4, across * PANEL))
    return shape.reshape(y[:k, :n], like)


# --- contracts and decompositions ------------------------------------------------


def _convolved(x: Spec, panels: Spec, sums: Spec, *end: Any, geometry: Windows) -> Spec:
    op, n = "quantized.conv2d", geometry.out_shape[-1]
    if geometry.groups != 1:
        raise ValueError(f"{op}: there must be one group, got {geometry.groups}")
    packed = _packed_shape(math.prod(geometry.filter_shape[:-1]), n)
    rows = ("panels", panels, packed), ("sums", sums, (n,))
    _windows.check(geometry, 2, ("x", x, geometry.in_shape), *rows)
    return _ended(op, geometry.out_shape, *end)


def _windows_of(x: Spec, panels: Spec, sums: Spec, *_: Any, **given: Any) -> Any:
    """Canonicalize attributes of the op: its window, strides and so on."""
    if "geometry" in given:
        return given
    window = sizes("run_kernel", given.pop("window", (1, 1)), "window")
    filter = Spec((*window, *x.shape[-1:], *sums.shape), x.dtype)
    return conv.of(conv.IN_2D, x, filter, **given)


QUANTIZED_CONV2D = Kernel(
    f"QuantizedConv2D(x: int8 | uint8, panels: int8, sums: int32, {_END}; "
    "geometry: Windows)",
    out=_convolved,
    canonicalize=_windows_of,
    op="quantized.conv2d",
    doc=f"""``Conv2D`` of ``x - x_zero_point`` and the weights that ``pack`` packed in
    ``panels``, whose ``sums`` over k it gave, too. There is one group. {_DOC}""",
)


@decomposition(QUANTIZED_CONV2D)
def _(
    x: Tensor,
    panels: Tensor,
    sums: Tensor,
    x_zero_point: Maybe,
    bias: Maybe,
    scale: Maybe,
    zero_point: Maybe,
    *,
    geometry: Windows,
) -> Tensor:
    filter = creation.cast(_unpacked(panels, geometry.filter_shape), INT32)
    y = run(conv.CONV2D, _less(x, x_zero_point), filter, geometry=geometry)
    return _end(y, bias, scale, zero_point)


def _each(x: Spec, filter: Spec, *end: Any, geometry: Windows) -> Spec:
    wanted = depthwise.filter_shape(geometry)
    rows = ("x", x, geometry.in_shape), ("filter", filter, wanted)
    _windows.check(geometry, 2, *rows)
    return _ended("quantized.depthwise_conv2d", geometry.out_shape, *end)


QUANTIZED_DEPTHWISE_CONV2D = Kernel(
    f"QuantizedDepthwiseConv2D(x: int8 | uint8, filter: int8, {_END}; "
    "geometry: Windows)",
    out=_each,
    canonicalize=lambda *xs, **given: conv.of(geometry.depthwise, *xs, **given),
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
    y = run(depthwise.DEPTHWISE_CONV2D, _less(x, x_zero_point), w, geometry=geometry)
    return _end(y, bias, scale, zero_point)


# --- ops -------------------------------------------------------------------------


def conv2d(
    x: TensorLike,
    panels: TensorLike,
    sums: TensorLike,
    /,
    x_zero_point: MaybeLike = None,
    bias: MaybeLike = None,
    scale: MaybeLike = None,
    zero_point: MaybeLike = None,
    *,
    window: Sizes = 1,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    dim_rounding_mode: Rounding | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the convolution of ``x - x_zero_point`` and packed weights.

    Args:
        x: int8 or uint8, ``[batch, height, width, channels]``.
        panels: Weights ``[height, width, channels, out_channels]`` as ``pack`` returns
            them.
        sums: Their sums, which ``pack`` returns, too.
        x_zero_point: The zero point of ``x``: a number of its dtype. It is what the
            padding has.
        bias: int32, ``[out_channels]``, which is added to the sums.
        scale: float32, one number or one for each channel out: the sums are multiplied
            by it. None: the result is int32.
        zero_point: The zero point of the result, int8 or uint8, to which the products
            with ``scale`` are rounded. None: the result is float32.
        window: The height and width of the weights.
        strides: As for ``plugrad.conv2d``, like the attributes that follow.
        pad: "same", "valid", a number, or ``[(top, bottom), (left, right)]``.
        dilations: Steps between neighbouring elements of one window.
        dim_rounding_mode: "floor", "ceil", "round" or "ceil_inside".

    Returns:
        A tensor ``[batch, out_height, out_width, out_channels]``: int32, float32 if
        there is a ``scale``, or of the dtype of ``zero_point``.

    Raises:
        ValueError: Shapes or attributes do not fit each other, or there is a
            ``zero_point`` without a ``scale``.
        TypeError: A tensor has another dtype.

    Example:
        >>> x = pg.asarray([[[[7], [8], [9]]]], dtype="uint8")
        >>> packed = pg.quantized.pack(pg.asarray([[[[1]], [[-2]]]], dtype="int8"))
        >>> pg.quantized.conv2d(x, *packed, window=(1, 2)).tolist()
        [[[[-9], [-10]]]]

    """
    if unknown:
        raise unexpected(conv2d, unknown)
    op = "quantized.conv2d"
    x, panels, sums = map(_convert.asarray, (x, panels, sums))
    more = _others(op, x, x_zero_point, bias, scale, zero_point)
    if len(x.shape) != 4 or len(sums.shape) != 1:
        raise misfit(op, "x must have rank 4, and the sums of weights 1", x, sums)
    given = _windows.given(strides, pad, dilations, dim_rounding_mode)
    window = _pair(op, window)
    filter = (*window, x.shape[-1], *sums.shape)
    windows = conv.IN_2D(op, x.shape, filter, **given)
    packed = _packed_shape(math.prod(filter[:-1]), filter[-1])
    if panels.shape != packed:
        rule = f"weights of the shape {filter} are packed in panels {packed}"
        raise misfit(op, rule, panels)
    _ended(op, windows.out_shape, *more)
    return run(QUANTIZED_CONV2D, x, panels, sums, *more, geometry=windows)


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
    """Return the convolution of each channel of ``x - x_zero_point``.

    Args:
        x: int8 or uint8, ``[batch, height, width, channels]``.
        filter: int8, ``[height, width, channels, multiplier]``.
        x_zero_point: The zero point of ``x``: a number of its dtype. It is what the
            padding has.
        bias: As in ``quantized.conv2d``, like all that follow.
        scale: One number, or one for each channel out.
        zero_point: The zero point of the result.
        strides: As for ``plugrad.conv2d``.
        pad: "same", "valid", a number, or ``[(top, bottom), (left, right)]``.
        dilations: Steps between neighbouring elements of one window.
        dim_rounding_mode: "floor", "ceil", "round" or "ceil_inside".

    Returns:
        A tensor ``[batch, out_height, out_width, channels · multiplier]``: int32,
        float32 if there is a ``scale``, or of the dtype of ``zero_point``.

    Raises:
        ValueError: Shapes or attributes do not fit each other, or there is a
            ``zero_point`` without a ``scale``.
        TypeError: A tensor has another dtype.

    Example:
        >>> x = pg.asarray([[[[7, 3]]]], dtype="uint8")
        >>> w = pg.asarray([[[[2], [5]]]], dtype="int8")
        >>> end = {"scale": 0.5, "zero_point": pg.asarray(100, dtype="uint8")}
        >>> pg.quantized.depthwise_conv2d(x, w, **end).tolist()
        [[[[107, 108]]]]

    """
    if unknown:
        raise unexpected(depthwise_conv2d, unknown)
    op = "quantized.depthwise_conv2d"
    x, filter = _convert.asarray(x), _convert.asarray(filter)
    more = _others(op, x, x_zero_point, bias, scale, zero_point)
    given = _windows.given(strides, pad, dilations, dim_rounding_mode)
    windows = geometry.depthwise(op, x.shape, filter.shape, **given)
    _ended(op, windows.out_shape, *more)
    return run(QUANTIZED_DEPTHWISE_CONV2D, x, filter, *more, geometry=windows)


def matmul(
    a: TensorLike,
    panels: TensorLike,
    sums: TensorLike,
    /,
    a_zero_point: MaybeLike = None,
    bias: MaybeLike = None,
    scale: MaybeLike = None,
    zero_point: MaybeLike = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the product of ``a - a_zero_point`` and packed weights.

    Args:
        a: int8 or uint8, ``[..., k]``.
        panels: Weights ``[k, n]`` as ``pack`` returns them.
        sums: Their sums, which ``pack`` returns, too.
        a_zero_point: The zero point of ``a``: a number of its dtype.
        bias: As in ``quantized.conv2d``, like all that follow.
        scale: One number, or one for each column.
        zero_point: The zero point of the result.

    Returns:
        A tensor ``[..., n]``: int32, float32 if there is a ``scale``, or of the dtype
        of ``zero_point``.

    Raises:
        ValueError: Shapes do not fit each other, or there is a ``zero_point`` without a
            ``scale``.
        TypeError: A tensor has another dtype.

    Example:
        >>> packed = pg.quantized.pack(pg.asarray([[1], [-3]], dtype="int8"))
        >>> pg.quantized.matmul(pg.asarray([[5, 1]], dtype="uint8"), *packed).tolist()
        [[2]]

    """
    if unknown:
        raise unexpected(matmul, unknown)
    a = _convert.asarray(a)
    if not a.shape:
        raise misfit("quantized.matmul", "a must have 1 axis or more", a)
    rows = math.prod(a.shape[:-1])
    x = shape.reshape(a, (rows, 1, 1, a.shape[-1]))
    y = conv2d(x, panels, sums, a_zero_point, bias, scale, zero_point)
    return shape.reshape(y, (*a.shape[:-1], y.shape[-1]))


def _pair(op: str, window: Sizes) -> Shape:
    return (window,) * 2 if isinstance(window, int) else sizes(op, window, "window")


def _others(op: str, x: Tensor, *given: MaybeLike) -> list[Maybe]:
    """Return the zero points, bias and scale; a scale that is a number is float32."""
    found = [v if v is None else _convert.asarray(v) for v in given]
    allowed = (x.dtype.name,), ("int32",), ("float32",), ("int8", "uint8")
    for name, v, names in zip(_NAMES, found, allowed, strict=True):
        if v is not None and v.dtype.name not in names:
            wanted = " or ".join(names)
            raise TypeError(f"{op}: {name} must be {wanted}, got {named(v.dtype)}")
    return found
