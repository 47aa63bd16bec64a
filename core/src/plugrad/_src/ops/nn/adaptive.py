"""Pooling to a given number of windows for any input size. No kernels.

Along an axis of size ``n``, window ``i`` of ``m`` begins at ``⌊i·n / m⌋`` and ends
before ``⌈(i + 1)·n / m⌉``. If the windows differ in size, their elements are gathered
into windows of the same size, which the kernels of ``pool`` can read.
"""

from __future__ import annotations

import functools
from typing import Unpack

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather
from plugrad._src.ops.basis import _convert, compare, creation, reduce
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.registry.contract import Kernel
from plugrad._src.tensor.arguments import integers, misfit
from plugrad._src.tensor.dtypes import INT32
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape, Sizes

from . import _windows, pool

__all__ = [
    "adaptive_avg_pool",
    "adaptive_avg_pool1d",
    "adaptive_max_pool",
    "adaptive_max_pool1d",
]


def adaptive_max_pool(
    x: TensorLike,
    /,
    output_size: Sizes,
    *,
    data_format: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the maxima of ``output_size`` windows along each axis.

    Window ``i`` of ``m`` begins at ``⌊i·n / m⌋`` and ends before ``⌈(i + 1)·n / m⌉``,
    where ``n`` is the size of the axis. NaN is ignored, and the gradient goes to the
    first element that attains the maximum, as in ``max_pool``.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch; for three spatial
            axes ``[batch, depth, height, width, channels]``.
        output_size: The number of windows: one number for all spatial axes or one for
            each.
        data_format: The layout: channels last by default; ``"NCHW"`` or ``"NCDHW"`` for
            channels first.

    Returns:
        The maxima, in the layout and dtype of ``x``.

    Raises:
        ValueError: The shapes are incompatible, or a spatial axis is empty.
        TypeError: The dtype of ``x`` is complex, bool or string, for which no maximum
            is defined.

    Example:
        >>> x = pg.reshape(pg.arange(16), (4, 4, 1))
        >>> pg.adaptive_max_pool(x, (3, 2))[:, :, 0]
        Tensor([[ 5,  7],
                [ 9, 11],
                [13, 15]], dtype=int32, backend='cpu')

    Source:
        ``torch.nn.functional.adaptive_max_pool2d``, which puts channels first.

    """
    if unknown:
        raise unexpected(adaptive_max_pool, unknown)
    op = "adaptive_max_pool"
    x = _windows.ordered(op, x)
    return _adaptive_pool(
        op, x, output_size, _spatial_rank(op, x), data_format, pool.MAXIMA
    )


def adaptive_avg_pool(
    x: TensorLike,
    /,
    output_size: Sizes,
    *,
    data_format: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the averages of ``output_size`` windows along each axis.

    Window ``i`` of ``m`` begins at ``⌊i·n / m⌋`` and ends before ``⌈(i + 1)·n / m⌉``,
    where ``n`` is the size of the axis.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch; for three spatial
            axes ``[batch, depth, height, width, channels]``.
        output_size: The number of windows: one number for all spatial axes or one for
            each.
        data_format: The layout: channels last by default; ``"NCHW"`` or ``"NCDHW"`` for
            channels first.

    Returns:
        The averages, in the layout and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, or a spatial axis is empty.
        TypeError: ``x`` contains strings.

    Example:
        >>> x = pg.reshape(pg.arange(16), (4, 4, 1))
        >>> pg.adaptive_avg_pool(x, (3, 2))[:, :, 0]
        Tensor([[ 2.5,  4.5],
                [ 6.5,  8.5],
                [10.5, 12.5]], dtype=float32, backend='cpu')

    Source:
        ``torch.nn.functional.adaptive_avg_pool2d``, which puts channels first.

    """
    if unknown:
        raise unexpected(adaptive_avg_pool, unknown)
    op = "adaptive_avg_pool"
    x = _convert.floating(op, x)
    return _adaptive_pool(
        op, x, output_size, _spatial_rank(op, x), data_format, pool.AVERAGES
    )


def adaptive_max_pool1d(
    x: TensorLike,
    /,
    output_size: Sizes,
    *,
    data_format: str = "NWC",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the maxima of windows along one spatial axis; see ``adaptive_max_pool``.

    Args:
        x: ``[batch, width, channels]``, or without the batch.
        output_size: The number of windows.
        data_format: "NWC", or "NCW" for channels first.

    Returns:
        The maxima, in the layout and dtype of ``x``.

    Raises:
        ValueError: The shapes are incompatible, or the spatial axis is empty.
        TypeError: The dtype of ``x`` is complex, bool or string, for which no maximum
            is defined.

    Example:
        >>> pg.adaptive_max_pool1d(pg.reshape([1, 5, 2, 4, 3], (5, 1)), 2)[:, 0]
        Tensor([5, 4], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(adaptive_max_pool1d, unknown)
    op = "adaptive_max_pool1d"
    return _adaptive_pool(
        op, _windows.ordered(op, x), output_size, 1, data_format, pool.MAXIMA
    )


def adaptive_avg_pool1d(
    x: TensorLike,
    /,
    output_size: Sizes,
    *,
    data_format: str = "NWC",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the averages of windows along one spatial axis; see ``adaptive_avg_pool``.

    Args:
        x: ``[batch, width, channels]``, or without the batch.
        output_size: The number of windows.
        data_format: "NWC", or "NCW" for channels first.

    Returns:
        The averages, in the layout and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: The shapes are incompatible, or the spatial axis is empty.
        TypeError: ``x`` contains strings.

    Example:
        >>> x = pg.reshape([1.0, 5.0, 3.0, 4.0, 2.0], (5, 1))
        >>> pg.adaptive_avg_pool1d(x, 2)[:, 0]
        Tensor([3., 3.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(adaptive_avg_pool1d, unknown)
    op = "adaptive_avg_pool1d"
    x = _convert.floating(op, x)
    return _adaptive_pool(op, x, output_size, 1, data_format, pool.AVERAGES)


def _spatial_rank(op: str, x: Tensor) -> int:
    if len(x.shape) not in (3, 4, 5):
        raise misfit(op, "x must have rank 4, or 3 without a batch, or 5 in 3D", x)
    return 3 if len(x.shape) == 5 else 2


def _adaptive_pool(
    op: str,
    x: Tensor,
    output_size: Sizes,
    spatial: int,
    data_format: str | None,
    kernels: dict[int, Kernel],
) -> Tensor:
    wanted = integers(op, "output_size", output_size)
    wanted = wanted * spatial if len(wanted) == 1 else wanted
    if len(wanted) != spatial or min(wanted) < 1:
        rule = f"must be {spatial} sizes of 1 or more, or one for all axes"
        raise ValueError(f"{op}: output_size {output_size} {rule}")
    data_format = data_format or _windows.FORMATS[spatial][0]
    x, back = _windows.channels_last(op, x, spatial, data_format)
    if 0 in x.shape[1:-1]:
        raise misfit(op, "the spatial axes must not be empty", x)
    averages = kernels is pool.AVERAGES
    window_indices = [
        _window_indices(*pair) for pair in zip(x.shape[1:-1], wanted, strict=True)
    ]
    if averages and any(indices is not None for indices, _ in window_indices):
        return back(_averages(x, wanted, window_indices))
    for axis, (indices, _) in enumerate(window_indices, 1):
        x = _gather_windows(x, indices, axis)
    size = tuple([n // m for n, m in zip(x.shape[1:-1], wanted, strict=True)])
    windows = geometry.windows(op, x.shape, size, strides=size)
    if spatial > 1:
        return back(run(kernels[spatial], x, geometry=windows))
    flat = windows.with_leading_axis()
    y = run(kernels[2], shapes.reshape(x, flat.in_shape), geometry=flat)
    return back(shapes.reshape(y, windows.out_shape))


WindowIndices = tuple[np.ndarray | None, np.ndarray]


@functools.lru_cache(maxsize=256)
def _window_indices(n: int, m: int) -> WindowIndices:
    """Return the indices that the windows read, ``[m, size]``, and their sizes.

    Windows with fewer than ``size`` elements repeat their last element. The indices are
    None if all windows have the same size and do not overlap.
    """
    i = np.arange(m, dtype=np.int64)
    begins = i * n // m
    ends = -(-(i + 1) * n // m)
    counts = ends - begins
    if n % m == 0:
        return None, counts
    offsets = np.arange(counts.max())
    return np.minimum(begins[:, None] + offsets, ends[:, None] - 1), counts


def _gather_windows(x: Tensor, indices: np.ndarray | None, axis: int) -> Tensor:
    if indices is None:
        return x
    ids = _convert.tensor_of(indices.ravel().astype(INT32), copy=False)
    return run(gather.GATHER_V2, x, ids, axis=axis, batch_dims=0)


def _averages(x: Tensor, wanted: Shape, window_indices: list[WindowIndices]) -> Tensor:
    """Average the elements of each window; repeated elements are replaced by 0."""
    wide = reduce.widened(x)
    sizes = [x.shape[0]]
    total = np.ones(())
    for axis, (indices, counts) in enumerate(window_indices, 1):
        m = wanted[axis - 1]
        size = int(counts.max())
        wide = _gather_windows(wide, indices, axis)
        if counts.min() < size:
            present = np.arange(size) < counts[:, None]
            line = (m * size, *[1] * (len(x.shape) - axis - 1))
            mask = _convert.tensor_of(present.reshape(line), copy=False)
            wide = compare.where(mask, wide, 0)
        sizes += [m, size]
        total = np.multiply.outer(total, counts)
    wide = run(shapes.RESHAPE, wide, shape=(*sizes, x.shape[-1]))
    axes = tuple(range(2, len(sizes), 2))
    wide = run(reduce.SUM, wide, axis=axes, keepdims=False)
    number = _convert.tensor_of(total[..., None].astype(np.float32), copy=False)
    return creation.cast(wide / creation.cast(number, wide.dtype), x.dtype)
