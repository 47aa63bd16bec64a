"""Pooling: the maximum or the average of each window.

Kernels: ``MaxPool AvgPool MaxPool3D AvgPool3D``, a gradient kernel for each, and
``MaxPoolWithArgmax``. The rank of ``x`` determines whether an op pools over two or
three spatial axes.

Padding does not count as elements: both maxima and averages ignore it. A window that
contains only padding has a maximum of -inf, or the lowest integer, and an average of
NaN. A maximum also ignores NaN. Its gradient goes to the first element that attains it,
in row-major order.

Contents: contracts; ops; decompositions; gradients.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import gather, slicing
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import choice, flag, misfit, sizes
from plugrad._src.tensor.dtypes import INT32, DType, dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Rounding, Sizes

from . import _windows
from ._windows import Options

if TYPE_CHECKING:
    from plugrad.geometry import Windows

__all__ = [
    "avg_pool",
    "avg_pool1d",
    "max_pool",
    "max_pool1d",
    "max_pool_with_argmax",
    "pool",
]

# --- contracts -------------------------------------------------------------------


def _attributes(spatial: int, x: Spec, *, filter_size: Sizes, **given: Any) -> Options:
    """Convert the user's attributes, such as strides and pad, to the contract's."""
    geometry.rank("run_kernel", "the input", x.shape, spatial)
    return _windows.to_contract(given, geometry.windows, x.shape, filter_size)


def _gradient_attributes(
    spatial: int, dy: Spec, input: Spec | None, *_: Spec, filter_size: Sizes, **o: Any
) -> Options:
    """Convert the attributes of a pooling gradient to the contract's.

    The rounding mode follows from the shape of ``dy``.
    """
    shape = sizes("run_kernel", o.pop("in_shape", ()), "in_shape") if not input else ()
    x = input or Spec(shape, dy.dtype)
    geometry.rank("run_kernel", "the input", x.shape, spatial)
    return _windows.to_contract(o, geometry.windows, x.shape, filter_size, dy=dy)


def _pool_spec(spatial: int, x: Spec, *, geometry: Windows) -> Spec:
    _windows.check(geometry, spatial, ("x", x, geometry.in_shape))
    _windows.check_channels(geometry)
    return Spec(geometry.out_shape, x.dtype)


def _with_argmax(
    x: Spec, *, geometry: Windows, include_batch_in_index: bool
) -> tuple[Spec, Spec]:
    y = _pool_spec(2, x, geometry=geometry)
    return y, y._replace(dtype=INT32)


def _gradient_spec(spatial: int, *given: Spec, geometry: Windows) -> Spec:
    shapes, dy = (geometry.out_shape, geometry.in_shape, geometry.out_shape), given[0]
    rows = zip(("dy", "input", "output"), given, shapes, strict=False)
    _windows.check(geometry, spatial, *rows)
    _windows.check_channels(geometry)
    return Spec(geometry.in_shape, dy.dtype)


def _rules(out: Any, canonicalize: Any, spatial: int) -> dict[str, Any]:
    parts = {"out": out, "canonicalize": canonicalize}
    return {name: functools.partial(part, spatial) for name, part in parts.items()}


_2D, _3D = (_rules(_pool_spec, _attributes, spatial) for spatial in (2, 3))

MAX_POOL = Kernel(
    "MaxPool(x: integer | floating; geometry: Windows)",
    op="max_pool",
    doc="""The largest element of ``x`` in each window.

    Padding and NaN are ignored; a window that contains nothing else gives -inf, or the
    least integer of the dtype. The maximum of 0.0 and -0.0 is either of them.""",
    **_2D,
)
MAX_POOL_3D = Kernel(
    "MaxPool3D(x: integer | floating; geometry: Windows)",
    op="max_pool",
    doc="""``MaxPool`` with three spatial axes.""",
    **_3D,
)
MAX_POOL_WITH_ARGMAX = Kernel(
    "MaxPoolWithArgmax(x: integer | floating; geometry: Windows, "
    "include_batch_in_index: bool) -> y, indices",
    op="max_pool_with_argmax",
    doc="""``MaxPool``, and the int32 index of each maximum,
    ``(h · width + w) · channels + c``; of equal elements, the first in row-major order.

    With ``include_batch_in_index``, indices count from the first image; otherwise, from
    the start of the window's image. The index is -1 if the window contains only padding
    and NaN.""",
    **_2D | {"out": _with_argmax},
)
AVG_POOL = Kernel(
    "AvgPool(x: inexact; geometry: Windows)",
    op="avg_pool",
    doc="""The sum of the elements of ``x`` in each window, divided by their number.

    Padding is not counted; a window that contains only padding gives NaN. float16 is
    summed in float32.""",
    **_2D,
)
AVG_POOL_3D = Kernel(
    "AvgPool3D(x: inexact; geometry: Windows)",
    op="avg_pool",
    doc="""``AvgPool`` with three spatial axes.""",
    **_3D,
)

_B2, _B3 = (_rules(_gradient_spec, _gradient_attributes, spatial) for spatial in (2, 3))

MAX_POOL_GRAD = Kernel(
    "MaxPoolGrad(dy: floating, input: dy, output: dy; geometry: Windows) -> dx",
    doc="""The ``dy`` of each window is added to the first element of ``input`` in it,
    in row-major order, that is equal to ``output``.

    A window that contains only padding and NaN adds nothing. ``output`` must be the
    output of ``MaxPool``; otherwise the result is undefined.""",
    **_B2,
)
MAX_POOL_3D_GRAD = Kernel(
    "MaxPool3DGrad(dy: floating, input: dy, output: dy; geometry: Windows) -> dx",
    doc="""``MaxPoolGrad`` with three spatial axes.""",
    **_B3,
)
# The gradient does not depend on the values of ``input``, so tapes do not save them.
AVG_POOL_GRAD = Kernel(
    "AvgPoolGrad(dy: inexact, input?; geometry: Windows) -> dx",
    doc="""The ``dy`` of each window, divided by the number of input elements in the
    window, is added to each of these elements.

    A window that contains only padding adds nothing. float16 is summed in float32. Only
    the shape of ``input`` is used.""",
    **_B2,
)
AVG_POOL_3D_GRAD = Kernel(
    "AvgPool3DGrad(dy: inexact, input?; geometry: Windows) -> dx",
    doc="""``AvgPoolGrad`` with three spatial axes.""",
    **_B3,
)


# --- ops -------------------------------------------------------------------------


def max_pool(
    x: TensorLike,
    /,
    filter_size: Sizes,
    *,
    strides: Sizes | None = None,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str | None = None,
    dim_rounding_mode: Rounding | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the maximum of each window; NaN and padding are ignored.

    A window that contains only NaN and padding gives -inf, or the lowest integer. The
    gradient goes to the first element that attains the maximum, in row-major order.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch; for three spatial
            axes ``[batch, depth, height, width, channels]``.
        filter_size: The window size: one number for all spatial axes or one for each.
        strides: Steps between adjacent windows; by default ``filter_size``.
        pad: ``"same"`` gives ``ceil(size / stride)`` windows; ``"valid"`` adds nothing;
            a number pads all ends; pairs give (before, after) for each spatial axis.
        dilations: Steps between adjacent elements of one window.
        data_format: The layout: channels last by default; ``"NCHW"`` or ``"NCDHW"`` for
            channels first.
        dim_rounding_mode: How to round the number of windows, as in ``conv2d``.

    Returns:
        The maxima, in the layout and dtype of ``x``.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: The dtype of ``x`` is complex, bool or string, for which no maximum
            is defined.

    Example:
        >>> x = pg.reshape(pg.arange(16), (4, 4, 1))
        >>> pg.max_pool(x, 2).reshape((2, 2))
        Tensor([[ 5,  7],
                [13, 15]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(max_pool, unknown)
    x = _windows.ordered("max_pool", x)
    given = _window_options(filter_size, strides, pad, dilations, dim_rounding_mode)
    return _pool(MAXIMA, "max_pool", x, data_format, given)


def avg_pool(
    x: TensorLike,
    /,
    filter_size: Sizes,
    *,
    strides: Sizes | None = None,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str | None = None,
    dim_rounding_mode: Rounding | None = None,
    count_include_pad: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the average of each window, over the elements that lie in ``x``.

    By default padding is not counted, and a window that contains only padding gives
    NaN. With ``count_include_pad``, padding counts as zeros; positions beyond the
    padding, which occur with "ceil_inside", do not count. A window that contains NaN
    gives NaN.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch; for three spatial
            axes ``[batch, depth, height, width, channels]``.
        filter_size: The window size: one number for all spatial axes or one for each.
        strides: Steps between adjacent windows; by default ``filter_size``.
        pad: ``"same"``, ``"valid"``, a number or pairs, as in ``max_pool``.
        dilations: Steps between adjacent elements of one window.
        data_format: The layout: channels last by default; ``"NCHW"`` or ``"NCDHW"`` for
            channels first.
        dim_rounding_mode: How to round the number of windows, as in ``conv2d``.
        count_include_pad: Whether padding is counted, as in PyTorch.

    Returns:
        The averages, in the layout and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: ``x`` contains strings.

    Example:
        >>> x = pg.reshape(pg.arange(16), (4, 4, 1))
        >>> pg.avg_pool(x, 2).reshape((2, 2))
        Tensor([[ 2.5,  4.5],
                [10.5, 12.5]], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(avg_pool, unknown)
    x = _convert.floating("avg_pool", x)
    given = _window_options(filter_size, strides, pad, dilations, dim_rounding_mode)
    return _pool(AVERAGES, "avg_pool", x, data_format, given, count_include_pad)


def max_pool1d(
    x: TensorLike,
    /,
    filter_size: Sizes,
    *,
    strides: Sizes | None = None,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NWC",
    dim_rounding_mode: Rounding | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the maximum of each window along one spatial axis; see ``max_pool``.

    Args:
        x: ``[batch, width, channels]``, or without the batch.
        filter_size: The window size.
        strides: The step between adjacent windows; by default ``filter_size``.
        pad: ``"same"``, ``"valid"``, a number, or ``[(left, right)]``.
        dilations: Steps between adjacent elements of one window.
        data_format: "NWC", or "NCW" for channels first.
        dim_rounding_mode: How to round the number of windows, as in ``conv2d``.

    Returns:
        The maxima, in the layout and dtype of ``x``.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: The dtype of ``x`` is complex, bool or string, for which no maximum
            is defined.

    Example:
        >>> pg.max_pool1d(pg.reshape([1, 5, 2, 4], (4, 1)), 2)[:, 0]
        Tensor([5, 4], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(max_pool1d, unknown)
    given = _window_options(filter_size, strides, pad, dilations, dim_rounding_mode)
    x = _windows.ordered("max_pool1d", x)
    return _pool1d(MAX_POOL, "max_pool1d", x, data_format, given)


def avg_pool1d(
    x: TensorLike,
    /,
    filter_size: Sizes,
    *,
    strides: Sizes | None = None,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NWC",
    dim_rounding_mode: Rounding | None = None,
    count_include_pad: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the average of each window along one spatial axis; see ``avg_pool``.

    Args:
        x: ``[batch, width, channels]``, or without the batch.
        filter_size: The window size.
        strides: The step between adjacent windows; by default ``filter_size``.
        pad: ``"same"``, ``"valid"``, a number, or ``[(left, right)]``.
        dilations: Steps between adjacent elements of one window.
        data_format: "NWC", or "NCW" for channels first.
        dim_rounding_mode: How to round the number of windows, as in ``conv2d``.
        count_include_pad: Whether padding is counted, as in ``avg_pool``.

    Returns:
        The averages, in the layout and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.avg_pool1d(pg.reshape([1.0, 5.0, 2.0, 4.0], (4, 1)), 2)[:, 0]
        Tensor([3., 3.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(avg_pool1d, unknown)
    x, op = _convert.floating("avg_pool1d", x), "avg_pool1d"
    given = _window_options(filter_size, strides, pad, dilations, dim_rounding_mode)
    return _pool1d(AVG_POOL, op, x, data_format, given, count_include_pad)


def pool(
    x: TensorLike,
    /,
    window_shape: Sizes,
    pooling_type: Literal["max", "avg"],
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str | None = None,
    dim_rounding_mode: Rounding | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``max_pool`` or ``avg_pool`` of ``x``; windows are 1 apart by default.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch; for three spatial
            axes ``[batch, depth, height, width, channels]``.
        window_shape: The window size: one number for all spatial axes, or one for each.
        pooling_type: ``"max"`` or ``"avg"``.
        strides: Steps between adjacent windows.
        pad: ``"same"``, ``"valid"``, a number or pairs, as in ``max_pool``.
        dilations: Steps between adjacent elements of one window.
        data_format: The layout: channels last by default; ``"NCHW"`` or ``"NCDHW"`` for
            channels first.
        dim_rounding_mode: How to round the number of windows, as in ``conv2d``.

    Returns:
        The maxima or averages, as ``max_pool`` and ``avg_pool`` return them.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: The pooling is not defined for the dtype of ``x``.

    Example:
        >>> x = pg.reshape(pg.arange(9), (3, 3, 1))
        >>> pg.pool(x, 2, "max").reshape((2, 2))
        Tensor([[4, 5],
                [7, 8]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(pool, unknown)
    given = _window_options(window_shape, strides, pad, dilations, dim_rounding_mode)
    if choice("pool", "pooling_type", pooling_type, "max", "avg") == "max":
        return _pool(MAXIMA, "pool", _windows.ordered("pool", x), data_format, given)
    return _pool(AVERAGES, "pool", _convert.floating("pool", x), data_format, given)


def _window_options(
    window: Sizes, strides: Sizes | None, pad: Padding, dilations: Sizes, mode: Any
) -> Options:
    """Return arguments for ``geometry.windows``; strides default to the window size."""
    strides = window if strides is None else strides
    given = {"window": window, "strides": strides, "pad": pad, "dilations": dilations}
    return given | {"dim_rounding_mode": mode}


MAXIMA, AVERAGES = {2: MAX_POOL, 3: MAX_POOL_3D}, {2: AVG_POOL, 3: AVG_POOL_3D}


def _pool(
    kernels: dict[int, Kernel],
    op: str,
    x: Tensor,
    data_format: str | None,
    given: Any,
    count_include_pad: bool = False,
) -> Tensor:
    spatial = 3 if len(x.shape) == 5 else 2
    if len(x.shape) not in (3, 4, 5):
        raise misfit(op, "x must have rank 4, or 3 without a batch, or 5 in 3D", x)
    if data_format is None:
        data_format = _windows.FORMATS[spatial][0]
    x, back = _windows.channels_last(op, x, spatial, data_format)
    windows = geometry.windows(op, x.shape, **given)
    y = run(kernels[spatial], x, geometry=windows)
    if flag(op, "count_include_pad", count_include_pad):
        y = _include_padding(y, windows, given["pad"])
    return back(y)


def _pool1d(
    kernel: Kernel,
    op: str,
    x: Tensor,
    data_format: str,
    given: Any,
    count_include_pad: bool = False,
) -> Tensor:
    x, back = _windows.channels_last(op, x, 1, data_format)
    windows = geometry.windows(op, x.shape, **given)
    flat = windows.with_leading_axis()
    y = run(kernel, shapes.reshape(x, flat.in_shape), geometry=flat)
    y = shapes.reshape(y, windows.out_shape)
    if flag(op, "count_include_pad", count_include_pad):
        y = _include_padding(y, windows, given["pad"])
    return back(y)


def _include_padding(y: Tensor, windows: Windows, pad: Padding) -> Tensor:
    """Convert averages over the input to averages over the input and its padding."""
    ends = geometry._padding("avg_pool", pad, len(windows.window))
    ends = windows.padding if isinstance(ends, str) else ends
    sizes = zip(windows.in_shape[1:-1], ends, strict=True)
    spatial = [before + n + after for n, (before, after) in sizes]
    beyond = zip(windows.padding, ends, strict=True)
    from dataclasses import replace

    wide = replace(
        windows,
        in_shape=(windows.in_shape[0], *spatial, windows.in_shape[-1]),
        padding=tuple([(0, max(p[1] - e[1], 0)) for p, e in beyond]),
    )
    seen = _counts(windows)
    if not seen.all():
        y = compare.where(_convert.asarray(seen > 0), y, 0)
    share = (seen / _counts(wide)).astype(y.dtype)
    return y * _convert.asarray(share)


def max_pool_with_argmax(
    x: TensorLike,
    /,
    filter_size: Sizes,
    *,
    strides: Sizes | None = None,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    dim_rounding_mode: Rounding | None = None,
    include_batch_in_index: bool = False,
    **unknown: Unpack[Nothing],
) -> tuple[Tensor, Tensor]:
    """Return ``max_pool`` and the index of each maximum.

    Args:
        x: ``[batch, height, width, channels]``.
        filter_size: The window size: one number for both spatial axes or one for each.
        strides: Steps between adjacent windows; by default ``filter_size``.
        pad: ``"same"``, ``"valid"``, a number or pairs, as in ``max_pool``.
        dilations: Steps between adjacent elements of one window.
        dim_rounding_mode: How to round the number of windows: "floor", "ceil" or
            "round".
        include_batch_in_index: Whether indices count positions in the whole batch
            instead of one image.

    Returns:
        The maxima, and int32 indices of the same shape. Each index is that of the first
        element that attains the maximum: ``(h · width + w) · channels + c``, counted
        from the start of its image, or of the batch. It is -1 if a window contains only
        NaN and padding.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: The dtype of ``x`` is complex, bool or string, for which no maximum
            is defined.

    Example:
        >>> x = pg.reshape(pg.arange(16), (1, 4, 4, 1))
        >>> y, indices = pg.max_pool_with_argmax(x, 2)
        >>> indices.reshape((2, 2))
        Tensor([[ 5,  7],
                [13, 15]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(max_pool_with_argmax, unknown)
    op, name = "max_pool_with_argmax", "include_batch_in_index"
    x = _windows.ordered(op, x)
    geometry.rank(op, "x", x.shape, 2)
    given = _window_options(filter_size, strides, pad, dilations, dim_rounding_mode)
    windows = geometry.windows(op, x.shape, **given)
    attrs = {name: flag(op, name, include_batch_in_index)}
    y, indices = run_many(MAX_POOL_WITH_ARGMAX, x, geometry=windows, **attrs)
    return y, indices


# --- decompositions --------------------------------------------------------------


def _reduce(op: Any, x: Tensor, windows: Windows, value: float) -> Tensor:
    """Reduce each window with ``op``, axis by axis; ``value`` is its identity."""
    x = _windows.padded(x, windows.padding, value)
    for i, count in enumerate(windows.window):
        gap, rest = windows.dilations[i], (windows.out_shape[i + 1], windows.strides[i])
        if count > 1 or rest[0] < x.shape[i + 1]:
            parts = [slicing.along(x, i + 1, a * gap, *rest) for a in range(count)]
            x = functools.reduce(op, parts)
    return x


def _counts(windows: Windows) -> np.ndarray[Any, DType]:
    """Return the number of input elements in each window: ``[*places, 1]``."""
    return _outer_product([np.array([sum(row) for row in a]) for a in windows.inside])


def _outer_product(axes: list[Any]) -> np.ndarray[Any, DType]:
    product: np.ndarray[Any, DType] = functools.reduce(np.multiply.outer, axes)
    return product[..., None]


def _average(x: Tensor, windows: Windows, least: int) -> Tensor:
    """Divide sums by each window's number of input elements, but at least by ``least``.

    Without padding, all windows have the same number of elements.
    """
    if not any(map(any, windows.padding)):
        return binary.divide(x, math.prod(windows.window))
    counts = np.maximum(_counts(windows), least).astype(x.dtype)
    return binary.divide(x, _convert.asarray(counts))


@decomposition(MAX_POOL_3D)
@decomposition(MAX_POOL)
def _(x: Tensor, *, geometry: Windows) -> Tensor:
    lowest = _windows.lowest_number(x.dtype)
    if dtype_kind(x.dtype) == "f":
        x = compare.where(compare.equal(x, x), x, lowest)
    return _reduce(binary.maximum, x, geometry, lowest)


@decomposition(AVG_POOL_3D)
@decomposition(AVG_POOL)
def _(x: Tensor, *, geometry: Windows) -> Tensor:
    total = _reduce(binary.add, reduce.widened(x), geometry, 0)
    return creation.cast(_average(total, geometry, 0), x.dtype)


@decomposition(AVG_POOL_3D_GRAD)
@decomposition(AVG_POOL_GRAD)
def _(dy: Tensor, input: Tensor | None, *, geometry: Windows) -> Tensor:
    shares = _windows.insert_zeros(_average(reduce.widened(dy), geometry, 1), geometry)
    dx = _reduce(binary.add, shares, geometry.transposed, 0)
    return creation.cast(dx, dy.dtype)


def _winners(x: Tensor, y: Tensor, windows: Windows) -> Tensor:
    """Return, for each window, the first position with the maximum.

    Positions are counted from 1; 0 marks windows with only NaN and padding.
    """
    seen = _windows.window_values(x, windows, _windows.padding_that_never_wins(x.dtype))
    found = creation.zeros(y.shape, dtype=INT32)
    for position in reversed(range(len(seen))):
        hit = mask_padding(position, compare.equal(seen[position], y), x, windows)
        found = compare.where(hit, position + 1, found)
    return found


def mask_padding(position: int, hit: Tensor, x: Tensor, windows: Windows) -> Tensor:
    """Return ``hit`` where a position of the window lies in the input, else False.

    For floating dtypes the padding is NaN, which is never a hit, so ``hit`` is returned
    unchanged.
    """
    if dtype_kind(x.dtype) == "f" or not any(map(any, windows.padding)):
        return hit
    taps = zip(windows.inside, np.unravel_index(position, windows.window), strict=True)
    inside = _outer_product([[row[a] for row in axis] for axis, a in taps])
    return compare.logical_and(hit, _convert.asarray(inside.astype(bool)))


@decomposition(MAX_POOL_3D_GRAD)
@decomposition(MAX_POOL_GRAD)
def _(dy: Tensor, input: Tensor, output: Tensor, *, geometry: Windows) -> Tensor:
    return _windows.scatter_to_winners(dy, _winners(input, output, geometry), geometry)


@decomposition(MAX_POOL_WITH_ARGMAX)
def _(
    x: Tensor, *, geometry: Windows, include_batch_in_index: bool
) -> tuple[Tensor, Tensor]:
    y = run(MAX_POOL, x, geometry=geometry)
    winners = _winners(x, y, geometry)
    steps, origins = _addresses(geometry, include_batch_in_index)
    offsets = _convert.asarray(steps)
    indices = run(gather.GATHER_V2, offsets, winners, axis=0, batch_dims=0) + origins
    return y, compare.where(compare.equal(winners, 0), -1, indices)


def _addresses(windows: Windows, batch: bool) -> tuple[Any, Any]:
    """Return the offset of each position in a window, and the address of each window.

    Positions are counted from 1; the address of a window is that of its first position.
    """
    n, height, width, c = windows.in_shape
    steps = [0, *((h * width + w) * c for h, w in windows.kernel_positions)]
    (top, _), (left, _) = windows.padding
    h = np.arange(windows.out_shape[1]) * windows.strides[0] - top
    w = np.arange(windows.out_shape[2]) * windows.strides[1] - left
    origins = (h[:, None] * width + w)[..., None] * c + np.arange(c)
    images = np.arange(n if batch else 1)[:, None, None, None] * (height * width * c)
    return np.asarray(steps, np.int32), (images + origins).astype(np.int32)


# --- gradients -------------------------------------------------------------------


def _at_maxima(ddx: Tensor, input: Tensor, output: Tensor, geometry: Windows) -> Tensor:
    return _windows.gather_winners(ddx, _winners(input, output, geometry), geometry)


def _register_maximum_gradients(pool: Kernel, back: Kernel) -> None:
    """Register the gradients of a max-pooling kernel and its gradient ``back``."""
    gradients(pool, x=lambda dy, x, y, geometry: run(back, dy, x, y, geometry=geometry))
    # The winner is piecewise constant, so there is no derivative with respect to
    # ``input`` and ``output``.
    gradients(back, dy=_at_maxima, input=None, output=None)


def _register_average_gradients(pool: Kernel, back: Kernel) -> None:
    """Register the gradients of an average-pooling kernel and its gradient ``back``."""

    def averages(ddx: Tensor, geometry: Windows) -> Tensor:
        """Return averages; zeros for windows without elements."""
        y, seen = run(pool, ddx, geometry=geometry), _counts(geometry) > 0
        return y if seen.all() else compare.where(_convert.asarray(seen), y, 0)

    gradients(pool, x=lambda dy, geometry: run(back, dy, None, geometry=geometry))
    gradients(back, dy=averages, input=None)


_register_maximum_gradients(MAX_POOL, MAX_POOL_GRAD)
_register_maximum_gradients(MAX_POOL_3D, MAX_POOL_3D_GRAD)
_register_average_gradients(AVG_POOL, AVG_POOL_GRAD)
_register_average_gradients(AVG_POOL_3D, AVG_POOL_3D_GRAD)

gradients(
    MAX_POOL_WITH_ARGMAX,
    x=lambda dy, _, x, y, geometry: run(MAX_POOL_GRAD, dy, x, y, geometry=geometry),
)
