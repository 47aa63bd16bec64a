"""Cubic resizing, and sampling at a grid; public in ``image``. No kernels.

The value between pixels is a weighted sum of the two or four pixels around the position
along each axis. Both ops are compositions, so they have gradients of every order.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar, Unpack, get_args

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather, slicing
from plugrad._src.ops.basis import _convert, binary, compare, creation, reduce
from plugrad._src.ops.basis import shape as shapes
from plugrad._src.ops.nn import _windows
from plugrad._src.tensor.arguments import choice, finite, flag, misfit
from plugrad._src.tensor.dtypes import INT32
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Sizes

from . import _sampling, resize

__all__ = ["grid_sample", "resize_bicubic"]

Method = Literal["nearest", "bilinear", "bicubic"]
Outside = Literal["zeros", "border", "reflection"]
CUBIC_COEFFICIENT = -0.75  # the coefficient of cubic interpolation in PyTorch
MAX_COORDINATE = 2.0**20  # coordinates are clipped to this, so they stay finite
Number = TypeVar("Number", Tensor, Any)


def _cubic(share: Number, a: float) -> list[Number]:
    """Return the weights of the pixels at -1, 0, 1 and 2, for a position from 0 to 1.

    Source: Keys, "Cubic convolution interpolation for digital image processing", 1981.
    """

    def near(t: Number) -> Number:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Number) -> Number:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return [far(share + 1), near(share), near(1 - share), far(2 - share)]


def resize_bicubic(
    images: TensorLike,
    /,
    size: Sizes,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    coefficient: float = CUBIC_COEFFICIENT,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return images of another size, interpolated between the 16 nearest pixels.

    Outside an image, the nearest pixel at its edge is used. The results may lie outside
    the range of the pixel values.

    Args:
        images: ``[batch, height, width, channels]``, or without the batch; real
            numbers.
        size: The new height and width, or one number for both.
        align_corners: Whether corner pixels stay at the corners, as in
            ``resize_bilinear``.
        half_pixel_centers: Whether the center of a pixel is at 1/2, as in
            ``resize_bilinear``.
        coefficient: The parameter of Keys' cubic: -0.75 in PyTorch, -0.5 in TensorFlow.

    Returns:
        ``[batch, *size, channels]``, with the dtype of ``images``; float32 for integers
        and bool.

    Raises:
        ValueError: A shape or size does not fit, both options are given, or
            ``coefficient`` is not finite.
        TypeError: ``images`` are complex, or contain strings.

    Example:
        >>> x = pg.reshape([0.0, 1.0, 2.0, 3.0], (2, 2, 1))
        >>> pg.image.resize_bicubic(x, (2, 3), align_corners=True)[..., 0]
        Tensor([[0. , 0.5, 1. ],
                [2. , 2.5, 3. ]], dtype=float32, backend='cpu')

    Source:
        PyTorch, ``torch.nn.functional.interpolate`` with ``mode="bicubic"``, whose
        ``align_corners=False`` is ``half_pixel_centers`` here.

    """
    if unknown:
        raise unexpected(resize_bicubic, unknown)
    op = "image.resize_bicubic"
    x, back = _windows.channels_last(op, _convert.floating(op, images, "f"), 2, "NHWC")
    new = resize._resizing(op, x.shape, size, align_corners, half_pixel_centers)
    a = finite(op, "coefficient", coefficient)
    for axis, (n, numerators, denominator) in enumerate(new._places, 1):
        if n == new.out_shape[axis]:
            continue
        low, rest = np.divmod(numerators, denominator)
        parts = []
        for i, weight in enumerate(_cubic(rest / denominator, a), -1):
            pixels = gather.gather(x, np.clip(low + i, 0, n - 1), axis=axis)
            weight = weight.reshape(-1, *(1,) * (3 - axis))
            parts.append(pixels * _sampling.constant(weight, x.dtype))
        x = functools.reduce(binary.add, parts)
    return back(x)


# --- grids -----------------------------------------------------------------------


def grid_sample(
    images: TensorLike,
    grid: TensorLike,
    /,
    *,
    method: Method = "bilinear",
    padding_mode: Outside = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Return images read at the coordinates of a grid.

    Args:
        images: ``[batch, height, width, channels]``, or ``[batch, depth, height, width,
            channels]``; real numbers.
        grid: ``[batch, ..., (x, y)]``, or ``(x, y, z)`` for three spatial axes, as many
            axes as ``images``: coordinates from -1 to 1.
        method: How to interpolate: ``"nearest"``, where ties round to even,
            ``"bilinear"``, or, for two spatial axes, ``"bicubic"``.
        padding_mode: What surrounds an image: ``"zeros"``; ``"border"``, the pixel at
            the edge; or ``"reflection"``, mirror images.
        align_corners: Whether -1 and 1 are the centers of the first and the last pixel;
            if False, they are the outer edges of these pixels.

    Returns:
        ``[batch, ..., channels]``, with the dtype of ``images``; float32 for integers
        and bool. It has gradients with respect to ``images`` and, except for
        ``"nearest"``, ``grid``.

    Raises:
        ValueError: Shapes or attributes do not fit.
        TypeError: ``images`` or ``grid`` are complex, or contain strings.

    Example:
        >>> x = pg.reshape(pg.arange(4.0), (1, 2, 2, 1))
        >>> grid = [[[[-0.5, -0.5], [0.0, -0.5], [0.0, 0.0], [1.0, 1.0]]]]
        >>> pg.image.grid_sample(x, grid)[0, 0, :, 0]
        Tensor([0.  , 0.5 , 1.5 , 0.75], dtype=float32, backend='cpu')

    Source:
        PyTorch, ``torch.nn.functional.grid_sample``, with channels last.

    """
    op = "image.grid_sample"
    x, grid = (_convert.floating(op, t, "f") for t in (images, grid))
    sizes = x.shape[1:-1]
    n = len(x.shape) - 2
    fits = n in (2, 3) and grid.shape[:1] == x.shape[:1] and grid.shape[-1:] == (n,)
    if not fits or len(grid.shape) != n + 2 or 0 in sizes:
        rule = "images [batch, ..., channels] and grid [batch, ..., k] must have k = 2"
        raise misfit(op, f"{rule} or 3 spatial axes, and pixels", x, grid)
    if choice(op, "method", method, *get_args(Method)) == "bicubic" and n == 3:
        raise misfit(op, "'bicubic' reads images of two spatial axes", x)
    outside = choice(op, "padding_mode", padding_mode, *get_args(Outside))
    aligned = flag(op, "align_corners", align_corners)
    grid = creation.cast(grid, np.result_type(grid.dtype, x.dtype, np.float32))
    taps = [
        _taps(grid[..., n - 1 - i], size, method, outside, aligned)
        for i, size in enumerate(sizes)
    ]
    return _weighted_sum(x, taps, outside == "zeros")


def _pixel_position(v: Tensor, size: int, aligned: bool) -> Tensor:
    """Convert coordinates in [-1, 1] to positions in pixels; NaN is outside."""
    v = (v + 1) * ((size - 1) / 2) if aligned else ((v + 1) * size - 1) / 2
    return (
        compare.where(compare.equal(v, v), v, -MAX_COORDINATE)
        .maximum(-MAX_COORDINATE)
        .minimum(MAX_COORDINATE)
    )


def _fold(v: Tensor, size: int, outside: str, aligned: bool) -> Tensor:
    """Replace positions outside an axis with the positions to read instead."""
    if outside == "zeros":
        return v
    if outside == "reflection":
        low, span = (0.0, size - 1) if aligned else (-0.5, size)
        v = span - (span - (v - low) % (2 * max(span, 1))).abs() + low
    return v.maximum(0).minimum(size - 1)


class Tap(NamedTuple):
    """A pixel read along an axis: its index, whether it is inside, and its weight."""

    pixel: Tensor
    inside: Tensor
    weight: Tensor


def _taps(v: Tensor, size: int, method: str, outside: str, aligned: bool) -> list[Tap]:
    """Return the pixels around coordinates along one axis."""
    fold = functools.partial(_fold, size=size, outside=outside, aligned=aligned)
    position = _pixel_position(v, size, aligned)
    position = position if method == "bicubic" else fold(position)
    start = position.round() if method == "nearest" else position.floor()
    share = position - start
    weights: dict[str, Callable[[], list[Tensor]]] = {
        "nearest": lambda: [creation.ones_like(position)],
        "bilinear": lambda: [1 - share, share],
        "bicubic": lambda: _cubic(share, CUBIC_COEFFICIENT),
    }
    found = []
    first = -1 if method == "bicubic" else 0
    for i, weight in enumerate(weights[method](), first):
        place = fold(start + i)
        near = place.maximum(0).minimum(size - 1)
        inside = compare.equal(near, place)
        found.append(Tap(creation.cast(near, INT32), inside, weight))
    return found


def _weighted_sum(x: Tensor, taps: list[list[Tap]], zeros: bool) -> Tensor:
    """Return the weighted sums of pixels; ``taps`` contains a list for each axis.

    All corners are read at once. Taps outside the image read a zero pixel that is
    appended to the image, because an infinite pixel with the weight 0 would give NaN.
    """
    b, *sizes, c = x.shape
    corners = [*itertools.product(*taps)]
    count = math.prod(sizes)
    shape = corners[0][0].pixel.shape
    pixels = run(shapes.RESHAPE, x, shape=(b, count, c))
    if zeros:
        pixels = slicing.pad(pixels, [(0, 0), (0, 1), (0, 0)])
    points = math.prod(shape[1:])
    indices = []
    weights = []
    for corner in corners:
        index = corner[0].pixel
        for tap, n in zip(corner[1:], sizes[1:], strict=True):
            index = index * n + tap.pixel
        if zeros:
            inside = functools.reduce(compare.logical_and, [t.inside for t in corner])
            index = compare.where(inside, index, count)
        indices.append(run(shapes.RESHAPE, index, shape=(b, 1, points)))
        weight = functools.reduce(binary.multiply, [tap.weight for tap in corner])
        weights.append(run(shapes.RESHAPE, weight, shape=(b, 1, points, 1)))
    flat = shapes.concat(indices, axis=1)
    y = run(gather.GATHER_V2, pixels, flat, axis=1, batch_dims=1)
    y = y * creation.cast(shapes.concat(weights, axis=1), x.dtype)
    return run(shapes.RESHAPE, reduce.sum(y, axis=1), shape=(*shape, c))
