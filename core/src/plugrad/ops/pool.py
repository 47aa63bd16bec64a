"""Pooling: what is largest in each window, or what it is on average.

Kernels: ``MaxPool AvgPool MaxPool3D AvgPool3D``, a gradient kernel for each, and
``MaxPoolWithArgmax``. One op serves two and three spatial axes, by the rank of ``x``.

Padding is no element: a maximum does not see it (a window of nothing else has -inf, or
the least integer), an average does not count it (a window of nothing else has NaN).
NaN is never the largest. The gradient of a maximum goes to the first element that
attains it, row by row.

Map: contracts; ops; decompositions; gradients.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import numpy as np

from plugrad import geometry
from plugrad._arguments import choice, flag
from plugrad._dtypes import INT32, DType
from plugrad._engine import run, run_many
from plugrad._kernel import Kernel, Spec, decomposition, gradients
from plugrad._tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Rounding, Sizes, Windows

from . import _convert, _windows, binary, compare, conv, creation, gather

# --- contracts -------------------------------------------------------------------


def _of(spatial: int, x: Spec, *, filter_size: Sizes, **given: Any) -> dict[str, Any]:
    """Turn attributes of a user, such as strides and pad, into the contract's."""
    told = _windows.options(given)
    geometry.rank("run_kernel", "the input", x.shape, spatial)
    found = geometry.windows("run_kernel", x.shape, filter_size, **told)
    return {"geometry": found, **given}


def _back(
    spatial: int, dy: Spec, input: Spec | None, *_: Spec, filter_size: Sizes, **o: Any
) -> dict[str, Any]:
    """Do so for the gradient of a pooling; the rounding is found from ``dy``."""
    x = input or Spec(tuple(o.pop("in_shape", ())), dy.dtype)
    o |= {"filter_size": filter_size, "places": dy.shape[1:-1]}
    return conv.checked(dy, _of(spatial, x, **o))


def _pooled(x: Spec, *, geometry: Windows) -> Spec:
    return Spec(geometry.out_shape, x.dtype)


def _unpooled(dy: Spec, *_: Spec | None, geometry: Windows) -> Spec:
    return Spec(geometry.in_shape, dy.dtype)


def _with_argmax(x: Spec, *, geometry: Windows, **_: Any) -> tuple[Spec, Spec]:
    return Spec(geometry.out_shape, x.dtype), Spec(geometry.out_shape, INT32)


_2D, _3D = functools.partial(_of, 2), functools.partial(_of, 3)

MAX_POOL = Kernel("MaxPool(x; geometry)", normalize=_2D, out=_pooled, op="max_pool")
MAX_POOL_3D = Kernel(
    "MaxPool3D(x; geometry)", normalize=_3D, out=_pooled, op="max_pool"
)
MAX_POOL_WITH_ARGMAX = Kernel(
    "MaxPoolWithArgmax(x; geometry, include_batch_in_index) -> y, indices",
    normalize=_2D,
    out=_with_argmax,
    op="max_pool_with_argmax",
)
AVG_POOL = Kernel("AvgPool(x; geometry)", normalize=_2D, out=_pooled, op="avg_pool")
AVG_POOL_3D = Kernel(
    "AvgPool3D(x; geometry)", normalize=_3D, out=_pooled, op="avg_pool"
)

_B2: Any = {"out": _unpooled, "normalize": functools.partial(_back, 2)}
_B3: Any = {"out": _unpooled, "normalize": functools.partial(_back, 3)}

MAX_POOL_GRAD = Kernel("MaxPoolGrad(dy, input, output; geometry) -> dx", **_B2)
MAX_POOL_3D_GRAD = Kernel("MaxPool3DGrad(dy, input, output; geometry) -> dx", **_B3)
# An average does not depend on what it is of: no tape need keep ``input``.
AVG_POOL_GRAD = Kernel("AvgPoolGrad(dy, input?; geometry) -> dx", **_B2)
AVG_POOL_3D_GRAD = Kernel("AvgPool3DGrad(dy, input?; geometry) -> dx", **_B3)


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
) -> Tensor:
    """Return the maximum over each window; NaN and padding are passed over.

    A window of nothing else gives -inf, or the least integer. The gradient goes to the
    first element that attains the maximum, row by row.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch; for three spatial
            axes ``[batch, depth, height, width, channels]``.
        filter_size: The size of windows, one for all spatial axes or one each.
        strides: Steps between neighbouring windows; by default ``filter_size``.
        pad: ``"same"`` keeps ``ceil(size / stride)`` places; ``"valid"`` adds nothing;
            a number pads all ends; a pair (before, after) for each spatial axis.
        dilations: Steps between neighbouring elements of one window.
        data_format: Channels last, unless "NCHW" or "NCDHW".
        dim_rounding_mode: As in ``conv2d``.

    Raises:
        ValueError: Shapes or attributes do not fit each other.
        TypeError: Elements without order: complex numbers, bool or strings.

    """
    x = _ordered("max_pool", x)
    given = _given(filter_size, strides, pad, dilations, dim_rounding_mode)
    return _pool(MAXIMA, "max_pool", x, filter_size, data_format, given)


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
) -> Tensor:
    """Return the average over each window, of the elements that lie in ``x``.

    A window of padding alone gives NaN, and so does NaN. Arguments are those of
    ``max_pool``; integers give float32.
    """
    x = _convert.floating("avg_pool", x)
    given = _given(filter_size, strides, pad, dilations, dim_rounding_mode)
    return _pool(AVERAGES, "avg_pool", x, filter_size, data_format, given)


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
) -> Tensor:
    """Return ``max_pool`` or ``avg_pool``, by default at every place.

    ``pooling_type`` is "max" or "avg"; all other arguments are those of ``max_pool``.
    """
    given = _given(window_shape, strides, pad, dilations, dim_rounding_mode)
    if choice("pool", "pooling_type", pooling_type, "max", "avg") == "max":
        return _pool(
            MAXIMA, "pool", _ordered("pool", x), window_shape, data_format, given
        )
    x = _convert.floating("pool", x)
    return _pool(AVERAGES, "pool", x, window_shape, data_format, given)


def _given(
    size: Sizes,
    strides: Sizes | None,
    pad: Padding,
    dilations: Sizes,
    rounding: Rounding | None,
) -> dict[str, Any]:
    """Return the arguments of ``geometry.windows``; strides default to the window."""
    strides = size if strides is None else strides
    given = {"strides": strides, "pad": pad, "dilations": dilations}
    return {**given, "dim_rounding_mode": rounding}


MAXIMA, AVERAGES = {2: MAX_POOL, 3: MAX_POOL_3D}, {2: AVG_POOL, 3: AVG_POOL_3D}


def _pool(
    kernels: dict[int, Kernel],
    op: str,
    x: Tensor,
    size: Sizes,
    data_format: str | None,
    given: dict[str, Any],
) -> Tensor:
    spatial = 3 if len(x.shape) == 5 else 2
    if len(x.shape) not in (3, 4, 5):
        raise ValueError(
            f"{op}: x must have rank 4, or 3 without a batch, or 5 for three spatial "
            f"axes, got shape {x.shape}"
        )
    if data_format is None:
        data_format = _windows.FORMATS[spatial][0]
    x, back = _windows.channels_last(op, x, spatial, data_format)
    windows = geometry.windows(op, x.shape, size, **given)
    return back(run(kernels[spatial], x, geometry=windows))


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
) -> tuple[Tensor, Tensor]:
    """Return ``max_pool`` and where each maximum is.

    Args:
        x: ``[batch, height, width, channels]``.
        filter_size: See ``max_pool``, as for all but the last.
        strides: Steps between windows; by default ``filter_size``.
        pad: "same", "valid", a number or pairs.
        dilations: Steps between the elements of one window.
        dim_rounding_mode: "floor", "ceil" or "round".
        include_batch_in_index: Whether indices count through the batch.

    Returns:
        The maxima, and int32 indices of the same shape, of the first element that
        attains each: ``(h · width + w) · channels + c``, plus the size of an image for
        each image before it if asked for; -1 in a window of NaN and padding alone.

    Raises:
        ValueError, TypeError: As of ``max_pool``.

    """
    x = _ordered("max_pool_with_argmax", x)
    if len(x.shape) != 4:
        raise ValueError(
            f"max_pool_with_argmax: x must have rank 4, got shape {x.shape}"
        )
    given = _given(filter_size, strides, pad, dilations, dim_rounding_mode)
    windows = geometry.windows("max_pool_with_argmax", x.shape, filter_size, **given)
    kernel, name = MAX_POOL_WITH_ARGMAX, "include_batch_in_index"
    attrs = {name: flag(kernel.op, name, include_batch_in_index)}
    y, indices = run_many(kernel, x, geometry=windows, **attrs)
    return y, indices


def _ordered(op: str, value: TensorLike) -> Tensor:
    x = _convert.real(op, value)
    if x.dtype.kind == "b":
        raise TypeError(f"{op}: bool has no order; cast to a number")
    return x


# --- decompositions --------------------------------------------------------------


def _reduced(op: Any, x: Tensor, windows: Windows, value: float) -> Tensor:
    """Combine what each window sees, axis by axis; ``op`` does not notice ``value``."""
    x = _windows.padded(x, windows, value)
    for i, count in enumerate(windows.window, 1):
        size, strides = list(x.shape), [1] * len(x.shape)
        size[i], strides[i] = windows.out_shape[i], windows.strides[i - 1]
        begin = [0] * len(x.shape)
        parts = []
        for a in range(count):
            begin[i] = a * windows.dilations[i - 1]
            parts.append(_windows.part(x, tuple(begin), tuple(size), tuple(strides)))
        x = functools.reduce(op, parts)
    return x


def _least(dtype: DType) -> float:
    return -math.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


def _counts(windows: Windows) -> np.ndarray[Any, DType]:
    """Return how many elements of the input each window sees: ``[*places, 1]``."""
    return _outer([np.sum(axis, axis=1) for axis in windows.inside])


def _outer(axes: list[Any]) -> np.ndarray[Any, DType]:
    product = np.ones((), np.int64)
    for axis in axes:
        product = np.multiply.outer(product, np.asarray(axis))
    return product[..., None]


def _share(x: Tensor, windows: Windows, least: int) -> Tensor:
    """Divide by the number of elements in each window, at least ``least``."""
    if not any(map(any, windows.padding)):
        return binary.divide(x, math.prod(windows.window))
    counts = np.maximum(_counts(windows), least).astype(x.dtype)
    return binary.divide(x, _convert.asarray(counts))


@decomposition(MAX_POOL_3D)
@decomposition(MAX_POOL)
def _(x: Tensor, *, geometry: Windows) -> Tensor:
    least = _least(x.dtype)
    if x.dtype.kind == "f":
        x = compare.where(compare.equal(x, x), x, least)
    return _reduced(binary.maximum, x, geometry, least)


@decomposition(AVG_POOL_3D)
@decomposition(AVG_POOL)
def _(x: Tensor, *, geometry: Windows) -> Tensor:
    return _share(_reduced(binary.add, x, geometry, 0), geometry, 0)


@decomposition(AVG_POOL_3D_GRAD)
@decomposition(AVG_POOL_GRAD)
def _(dy: Tensor, input: Tensor | None, *, geometry: Windows) -> Tensor:
    dy = _windows.spread(_share(dy, geometry, 1), geometry)
    return _reduced(binary.add, dy, geometry.transposed, 0)


def _winners(x: Tensor, y: Tensor, windows: Windows) -> Tensor:
    """Return which tap of each window is the first to have the maximum.

    Counted from 1; 0 where none has, in windows of NaN and padding alone.
    """
    padding = any(map(any, windows.padding))
    value = math.nan if x.dtype.kind == "f" else _least(x.dtype)
    seen = _windows.taps(x, windows, value)
    found = creation.zeros(y.shape, dtype=INT32)
    for i in reversed(range(len(seen))):
        hit = compare.equal(seen[i], y)
        if padding and x.dtype.kind != "f":
            inside = _convert.asarray(_inside(windows, i))
            hit = compare.logical_and(hit, inside)
        found = compare.where(hit, i + 1, found)
    return found


def _inside(windows: Windows, tap: int) -> np.ndarray[Any, DType]:
    """Return whether the tap lies in the input, for each window: ``[*places, 1]``."""
    at = np.unravel_index(tap, windows.window)
    axes = [
        [row[a] for row in axis] for axis, a in zip(windows.inside, at, strict=True)
    ]
    return _outer(axes).astype(bool)


@decomposition(MAX_POOL_3D_GRAD)
@decomposition(MAX_POOL_GRAD)
def _(dy: Tensor, input: Tensor, output: Tensor, *, geometry: Windows) -> Tensor:
    winners = _winners(input, output, geometry)
    return _windows.to_winners(dy, winners, geometry)


@decomposition(MAX_POOL_WITH_ARGMAX)
def _(
    x: Tensor, *, geometry: Windows, include_batch_in_index: bool
) -> tuple[Tensor, Tensor]:
    y = run(MAX_POOL, x, geometry=geometry)
    winners = _winners(x, y, geometry)
    steps, origins = _addresses(geometry, include_batch_in_index)
    indices = gather.gather(_convert.asarray(steps), winners) + origins
    return y, compare.where(compare.equal(winners, 0), -1, indices)


def _addresses(windows: Windows, batch: bool) -> tuple[Any, Any]:
    """Return how far each tap, counted from 1, is from the first; and where that is."""
    n, height, width, c = windows.in_shape
    steps = [0, *((h * width + w) * c for h, w in windows.taps)]
    (top, _), (left, _) = windows.padding
    h, w = (
        np.arange(places) * stride
        for places, stride in zip(windows.out_shape[1:-1], windows.strides, strict=True)
    )
    origins = ((h[:, None] - top) * width + w - left)[..., None] * c + np.arange(c)
    images = np.arange(n)[:, None, None, None] * (height * width * c)
    origins = origins + images if batch else origins[None]
    return np.asarray(steps, np.int32), origins.astype(np.int32)


# --- gradients -------------------------------------------------------------------


def _collected(ddx: Tensor, input: Tensor, output: Tensor, geometry: Windows) -> Tensor:
    return _windows.of_winners(ddx, _winners(input, output, geometry), geometry)


def _averages(y: Tensor, windows: Windows) -> Tensor:
    """Return ``y`` with zeros for the averages of nothing, which nothing moves."""
    seen = _counts(windows) > 0
    return y if seen.all() else compare.where(_convert.asarray(seen), y, 0)


gradients(
    MAX_POOL,
    x=lambda dy, x, y, geometry: run(MAX_POOL_GRAD, dy, x, y, geometry=geometry),
)
gradients(
    MAX_POOL_3D,
    x=lambda dy, x, y, geometry: run(MAX_POOL_3D_GRAD, dy, x, y, geometry=geometry),
)
gradients(
    MAX_POOL_WITH_ARGMAX,
    x=lambda dy, _, x, y, geometry: run(MAX_POOL_GRAD, dy, x, y, geometry=geometry),
)
# Who wins changes in steps, so that there is no derivative in ``input`` and ``output``.
gradients(MAX_POOL_GRAD, dy=_collected, input=None, output=None)
gradients(MAX_POOL_3D_GRAD, dy=_collected, input=None, output=None)

gradients(
    AVG_POOL, x=lambda dy, geometry: run(AVG_POOL_GRAD, dy, None, geometry=geometry)
)
gradients(
    AVG_POOL_3D,
    x=lambda dy, geometry: run(AVG_POOL_3D_GRAD, dy, None, geometry=geometry),
)
gradients(
    AVG_POOL_GRAD,
    dy=lambda ddx, geometry: _averages(run(AVG_POOL, ddx, geometry=geometry), geometry),
    input=None,
)
gradients(
    AVG_POOL_3D_GRAD,
    dy=lambda ddx, geometry: _averages(
        run(AVG_POOL_3D, ddx, geometry=geometry), geometry
    ),
    input=None,
)
