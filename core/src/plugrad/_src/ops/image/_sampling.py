"""Interpolation between pixels, for ``crop_and_resize`` and ``transform``.

Both ops compute a grid of coordinates from tensors, and share the rest: sampling images
at these coordinates. At the center of a pixel no other pixel contributes to the value,
and the derivative with respect to the coordinate is the slope towards the next pixel.

Contents: ``Grid``; ``sampled`` and its gradients, ``image_gradient`` and
``coordinate_gradients``; grids of boxes and of transforms, with their gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather, slicing
from plugrad._src.ops.basis import _convert, compare, creation, reduce, shape
from plugrad._src.registry.contract import Spec
from plugrad._src.tensor.arguments import misfit
from plugrad._src.tensor.dtypes import INT32, DType
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

Shaped = Tensor | Spec


class Grid(NamedTuple):
    """Coordinates in images; all tensors broadcast to ``[n, rows, columns]``.

    Attributes:
        sizes: The shape of the images, ``[batch, height, width, channels]``.
        batch: The index of the image.
        y, x: The coordinates, in pixels; 0 where ``seen`` is False.
        seen: Whether a pixel is read; if not, the element gets the fill value.
        edge: What surrounds the image: nothing ("clamp"), a border of one pixel with
            the fill value ("pad"), or the opposite side of the image ("wrap").

    """

    sizes: Shape
    batch: Tensor
    y: Tensor
    x: Tensor
    seen: Tensor
    edge: Literal["clamp", "pad", "wrap"]

    @property
    def rim(self) -> int:
        """The number of pixels added around the image."""
        return 1 if self.edge == "pad" else 0


# --- arguments -------------------------------------------------------------------


def arguments(
    op: str, image: TensorLike, coordinates: TensorLike
) -> tuple[Tensor, Tensor]:
    """Check and convert images and coordinates to floating tensors.

    Coordinates have the promoted dtype of both, but at least float32.
    """
    image, coordinates = (_convert.floating(op, x, "f") for x in (image, coordinates))
    check_image(op, image)
    dtype = np.result_type(coordinates.dtype, image.dtype, np.float32)
    return image, creation.cast(coordinates, dtype)


def check_image(op: str, image: Shaped) -> None:
    """Raise unless ``image`` has four axes and at least one pixel."""
    if len(image.shape) != 4 or 0 in image.shape[1:3]:
        rule = "image must be [batch, height, width, channels] and have pixels"
        raise misfit(op, rule, image)


def constant(values: Any, dtype: DType) -> Tensor:
    """Return host values as a tensor."""
    return _convert.asarray(np.asarray(values, dtype), copy=False)


# --- reading ---------------------------------------------------------------------


def sampled(image: Tensor, grid: Grid, method: str, fill: Any) -> Tensor:
    """Sample the images at the coordinates: ``[n, rows, columns, channels]``."""
    read = _reader(image, grid, fill)
    if method == "nearest":
        y = read(*_nearest(grid))
    else:
        (y0, y1, down), (x0, x1, right) = _neighbors(grid)
        down, right = (_column(t, image.dtype) for t in (down, right))
        top = _interpolate(read(y0, x0), read(y0, x1), right)
        y = _interpolate(top, _interpolate(read(y1, x0), read(y1, x1), right), down)
    return compare.where(shape.expand_dims(grid.seen, axis=-1), y, fill)


def image_gradient(dy: Tensor, grid: Grid, method: str) -> Tensor:
    """Return the gradient of ``sampled`` with respect to the images."""
    if method == "nearest":
        parts = [(*_nearest(grid), dy)]
    else:
        (y0, y1, down), (x0, x1, right) = _neighbors(grid, slope=True)
        parts = [
            (i, j, dy * _column(p * q, dy.dtype))
            for i, p in ((y0, 1 - down), (y1, down))
            for j, q in ((x0, 1 - right), (x1, right))
        ]
    b, h, w, c = _bordered_shape(grid)
    ids = [compare.where(grid.seen, _flat_indices(grid, i, j), -1) for i, j, _ in parts]
    to = shape.concat(ids, axis=None)  # -1 is dropped
    rows = shape.concat([part for _, _, part in parts], axis=None)
    rows = shape.reshape(rows, (*to.shape, c))
    dx = run(gather.UNSORTED_SEGMENT_SUM, rows, to, num_segments=b * h * w)
    dx = shape.reshape(dx, (b, h, w, c))
    return slicing.slice(dx, (0, 1, 1, 0), grid.sizes) if grid.rim else dx


def coordinate_gradients(
    dy: Tensor, image: Tensor, grid: Grid, fill: Any
) -> tuple[Tensor, Tensor]:
    """Return the gradients of bilinear sampling for ``grid.y`` and ``grid.x``."""
    read = _reader(image, grid, fill)
    (y0, y1, down), (x0, x1, right) = _neighbors(grid, slope=True)
    corners = (read(i, j) for i in (y0, y1) for j in (x0, x1))
    sums = (reduce.sum(dy * v, axis=-1) for v in corners)
    a, b, c, d = (creation.cast(v, grid.y.dtype) for v in sums)
    to_y = (c - a) * (1 - right) + (d - b) * right
    to_x = (b - a) * (1 - down) + (d - c) * down
    return compare.where(grid.seen, to_y, 0), compare.where(grid.seen, to_x, 0)


def _bordered_shape(grid: Grid) -> Shape:
    """Return the shape of the images, including the border."""
    b, h, w, c = grid.sizes
    return b, h + 2 * grid.rim, w + 2 * grid.rim, c


def _reader(image: Tensor, grid: Grid, fill: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that reads pixels by their rows and columns."""
    if grid.rim:
        image = image.pad(((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=fill)
    *lead, c = image.shape
    pixels = shape.reshape(image, (math.prod(lead), c))

    def read(row: Tensor, column: Tensor) -> Tensor:
        index = _flat_indices(grid, row, column)
        return run(gather.GATHER_V2, pixels, index, axis=0, batch_dims=0)

    return read


def _flat_indices(grid: Grid, row: Tensor, column: Tensor) -> Tensor:
    """Return the indices of pixels in the flattened images."""
    _, h, w, _ = _bordered_shape(grid)
    return (creation.cast(grid.batch, row.dtype) * h + row) * w + column


def _index(v: Tensor, grid: Grid) -> Tensor:
    """Return whole coordinates as indices, in a dtype wide enough for all images."""
    needs_int64 = math.prod(_bordered_shape(grid)[:3]) >= 2**31
    index = creation.cast(v, _convert.INT64 if needs_int64 else INT32)
    return index + 1 if grid.rim else index


def _neighbors(
    grid: Grid, *, slope: bool = False
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return the pixels before and after each coordinate, and the weight of the latter.

    With ``slope``, a coordinate on the last pixel lies between the last two pixels, so
    that it has a derivative.
    """
    found = []
    for v, size in zip((grid.y, grid.x), grid.sizes[1:3], strict=True):
        low = v.floor()
        if grid.edge == "clamp" and slope:
            low = low.minimum(max(size - 2, 0))
        before = _index(low, grid)
        after = before + 1
        if grid.edge == "clamp":
            after = after.minimum(size - 1)
        elif grid.edge == "wrap":  # the first pixel follows the last one
            after = compare.where(compare.equal(after, size), 0, after)
        found.append((before, after, v - low))
    return found


def _nearest(grid: Grid) -> list[Tensor]:
    """Return the nearest pixels, along both axes; halves round up."""
    return [compare.where(share < 0.5, a, b) for a, b, share in _neighbors(grid)]


def _column(v: Tensor, dtype: DType) -> Tensor:
    return shape.expand_dims(creation.cast(v, dtype), axis=-1)


def _interpolate(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    return compare.where(compare.equal(share, 0), a, a * (1 - share) + b * share)


def _is_on_image(v: Tensor, size: int) -> Tensor:
    """Return whether a coordinate is inside the image; NaN is not."""
    return compare.logical_and(v >= 0, v <= size - 1)


# --- boxes -----------------------------------------------------------------------


def _step_weights(count: int) -> tuple[Any, int]:
    """Return the weights of the start and the end of a box at each step, and their sum.

    Each step is one sample between the two edges. The sum is the same at each step.
    """
    if count == 1:
        return np.array([[1], [1]]), 2
    back = np.arange(count)
    return np.array([back[::-1], back]), count - 1


def box_grid(image: Shaped, boxes: Tensor, box_ind: Tensor, size: Shape) -> Grid:
    """Return the coordinates of ``crop_and_resize``: from edge to edge of each box.

    The first sample lies on the first edge and the last sample on the last edge,
    without rounding if the edges are 0 and 1; a single sample lies in the middle.
    """
    sizes = image.shape
    k = boxes.shape[0]
    coordinates = []
    for axis, count in enumerate(size):
        start, end = (slicing.along(boxes, 1, axis + i, 1) for i in (0, 2))
        shares, total = _step_weights(count)
        front, back = (constant(row, boxes.dtype) for row in shares)
        v = (start * front + end * back) * (sizes[axis + 1] - 1) / total
        coordinates.append(shape.reshape(v, (k, 1, count) if axis else (k, count, 1)))
    y, x = coordinates
    seen = compare.logical_and(_is_on_image(y, sizes[1]), _is_on_image(x, sizes[2]))
    y = compare.where(seen, y, 0)
    x = compare.where(seen, x, 0)
    return Grid(sizes, shape.reshape(box_ind, (k, 1, 1)), y, x, seen, "clamp")


def boxes_gradient(to_y: Tensor, to_x: Tensor, grid: Grid) -> Tensor:
    """Return the gradient with respect to the boxes."""
    sums = reduce.sum(to_y, axis=2), reduce.sum(to_x, axis=1)
    found = []
    for dv, size, count in zip(sums, grid.sizes[1:3], to_y.shape[1:], strict=True):
        shares, total = _step_weights(count)
        slopes = shares.T * ((size - 1) / total)
        found.append(dv @ constant(slopes, dv.dtype))
    boxes = shape.stack(found, axis=2)  # [k, start and end, y and x]
    return shape.reshape(boxes, (boxes.shape[0], 4))


# --- transforms ------------------------------------------------------------------


def _project(transforms: Tensor, output_shape: Shape) -> tuple[Tensor, ...]:
    """Return x, y and their common divisor for each pixel of the output."""
    rows, columns = output_shape
    x = constant(np.arange(columns), transforms.dtype)
    y = constant(np.arange(rows)[:, None], transforms.dtype)
    t = shape.expand_dims(transforms, axis=-1)
    a = [slicing.along(t, 1, i, 1) for i in range(8)]
    divisor = a[6] * x + a[7] * y + 1
    lines = [a[i] * x + a[i + 1] * y + a[i + 2] for i in (0, 3)]
    return lines[0] / divisor, lines[1] / divisor, divisor


def _fold(v: Tensor, size: int, mode: str) -> tuple[Tensor, Tensor | None]:
    """Return coordinates mapped into the image, and the slope of the map; None is 1."""
    if mode == "wrap":
        v = v % size  # may be rounded up to size
        return compare.where(compare.equal(v, size), 0, v), None
    slope = None
    if mode == "reflect":
        v = v % (2 * size)
        other = 2 * size - 1 - v
        slope = compare.where(v < other, 1, creation.full_like(v, -1))
        v = v.minimum(other)
    inside = creation.cast(_is_on_image(v, size), v.dtype)
    v = v.maximum(0).minimum(size - 1)
    return v, inside if slope is None else slope * inside


def transform_grid(image: Shaped, transforms: Tensor, mode: str, size: Shape) -> Grid:
    """Return the coordinates of ``transform``; non-finite ones are not ``seen``."""
    b, h, w, _ = image.shape
    x, y, _ = _project(transforms, size)
    if mode == "constant":
        inside = [compare.logical_and(v > -1, v < n) for v, n in ((y, h), (x, w))]
    else:
        inside = [v.isfinite() for v in (y, x)]
        y, _ = _fold(y, h, mode)
        x, _ = _fold(x, w, mode)
    seen = compare.logical_and(*inside)
    y = compare.where(seen, y, 0)
    x = compare.where(seen, x, 0)
    batch = constant(np.arange(b)[:, None, None], INT32)
    edge: Any = {"constant": "pad", "wrap": "wrap"}.get(mode, "clamp")
    return Grid(image.shape, batch, y, x, seen, edge)


def transforms_gradient(
    to_y: Tensor, to_x: Tensor, transforms: Tensor, grid: Grid, fill_mode: str
) -> Tensor:
    """Return the gradient with respect to the transforms.

    A transform is a 3 x 3 matrix whose last entry is 1. The gradient of each row is the
    sum of its cotangents times the pixel coordinates (x, y, 1).
    """
    n, rows, columns = to_x.shape
    *lines, divisor = _project(transforms, (rows, columns))
    divisor = compare.where(grid.seen, divisor, 1)
    found = []
    total = creation.zeros_like(to_x)
    for dv, v, size in zip((to_x, to_y), lines, grid.sizes[2:0:-1], strict=True):
        v = compare.where(grid.seen, v, 0)
        slope = None if grid.rim else _fold(v, size, fill_mode)[1]
        dv = (dv if slope is None else dv * slope) / divisor
        found.append(dv)
        total = total - dv * v
    dv = shape.reshape(shape.stack([*found, total], axis=1), (n, 3, rows * columns))
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    pixels = np.stack([x, y, np.ones_like(x)], axis=-1).reshape(-1, 3)
    nine = shape.reshape(dv @ constant(pixels, dv.dtype), (n, 9))
    return reduce.sum_to(slicing.along(nine, 1, 0, 8), transforms.shape)
