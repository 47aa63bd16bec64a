"""Images seen through projective transforms, and elastic deformations of images.

``plugrad.image.transform`` reads the pixels of a projective transform, except for the
fill mode "mirror", which it does not have.
"""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import draw_seed

from ..core.abstract import BACKEND as SHAPES
from ..core.variables import convert_to_tensor, floating
from .coordinates import FILL_MODES, interpolated
from .filters import blurred
from .layouts import Images, batch, checked, rounded, wide

ORDERS = {"nearest": 0, "bilinear": 1}


def affine_transform(
    images: Any,
    transform: Any,
    interpolation: str = "bilinear",
    fill_mode: str = "constant",
    fill_value: float = 0,
    data_format: str | None = None,
) -> Tensor:
    """Return images whose pixels are read where a transform maps their coordinates.

    A transform ``(a, b, c, d, e, f, g, h)`` maps ``(x, y)`` to
    ``((a·x + b·y + c) / k, (d·x + e·y + f) / k)`` with ``k = g·x + h·y + 1``.
    """
    checked(images)
    matrix = convert_to_tensor(transform)
    if len(matrix.shape) not in (1, 2):
        raise ValueError(
            "Invalid transform rank: expected rank 1 (single transform) or rank 2 "
            "(batch of transforms). Received input with shape: "
            f"transform.shape={matrix.shape}"
        )
    if matrix.shape[-1] != 8:
        raise ValueError(
            "Invalid transform shape: expected the last dimension to be 8. "
            f"Received: transform.shape={matrix.shape}"
        )
    given = batch(images, data_format)
    rows = pg.reshape(wide(matrix), (-1, 8))
    return _projected(given, rows, interpolation, fill_mode, fill_value)


def perspective_transform(
    images: Any,
    start_points: Any,
    end_points: Any,
    interpolation: str = "bilinear",
    fill_value: float = 0,
    data_format: str | None = None,
) -> Tensor:
    """Return images in which four points have moved from their start to their end."""
    given = batch(images, data_format)
    start = convert_to_tensor(start_points)
    end = convert_to_tensor(end_points)
    rows = pg.reshape(_homography(start, end), (-1, 8))
    return _projected(given, rows, interpolation, "constant", fill_value)


def compute_homography_matrix(start_points: Any, end_points: Any) -> Tensor:
    """Return the projective transforms that map four end points to their start.

    The points are ``[..., 4, 2]``, the results ``[..., 8]``: the third row of a matrix
    ends with 1, which is left out.
    """
    start = floating(start_points)
    return rounded(_homography(start, floating(end_points)), start.dtype.name)


def _homography(start: Tensor, end: Tensor) -> Tensor:
    """Return the transforms, in float32 or float64."""
    for name, points in (("start_points", start), ("end_points", end)):
        if points.shape[-2:] != (4, 2) or len(points.shape) not in (2, 3):
            raise ValueError(
                f"Invalid {name} shape: expected (4,2) for a single image or (N,4,2) "
                f"for a batch. Received shape: {points.shape}"
            )
    if start.shape != end.shape:
        raise ValueError(
            "start_points and end_points must have the same shape. Received "
            f"start_points.shape={start.shape}, end_points.shape={end.shape}"
        )
    start, end = wide(start), wide(end)
    x, y = pg.unstack(end, axis=-1)
    u, v = pg.unstack(start, axis=-1)
    one, zero = pg.ones_like(x), pg.zeros_like(x)
    first = pg.stack([x, y, one, zero, zero, zero, -u * x, -u * y], axis=-1)
    second = pg.stack([zero, zero, zero, x, y, one, -v * x, -v * y], axis=-1)
    matrix = pg.concat([first, second], axis=-2)
    targets = pg.expand_dims(pg.concat([u, v], axis=-1), axis=-1)
    return pg.squeeze(pg.linalg.solve(matrix, targets), axis=-1)


def _projected(
    images: Images, rows: Tensor, interpolation: str, fill_mode: str, fill_value: Any
) -> Tensor:
    """Return the images seen through a transform for each, or one for all."""
    order = _order(interpolation)
    x = images.pixels
    rows = pg.astype(rows, x.dtype)
    if rows.shape[0] not in (1, x.shape[0]):
        raise ValueError(
            "There must be one transform for each image, or one for all. Received: "
            f"{rows.shape[0]} transforms for {x.shape[0]} images"
        )
    if fill_mode not in FILL_MODES:
        raise ValueError(
            f"`fill_mode` must be one of {FILL_MODES}. Received: fill_mode={fill_mode}"
        )
    if fill_mode != "mirror":
        y = pg.image.transform(
            x,
            rows,
            interpolation="bilinear" if order else "nearest",
            fill_mode=fill_mode,  # type: ignore[arg-type]  # checked above
            fill_value=fill_value,
        )
        return images.restored(y)
    down, right = _pixels(x)
    a, b, c, d, e, f, g, h = pg.unstack(pg.reshape(rows, (-1, 8, 1, 1)), axis=1)
    k = g * right + h * down + 1
    places = [(d * right + e * down + f) / k, (a * right + b * down + c) / k]
    return images.restored(_read(x, places, order, fill_mode, fill_value))


def elastic_transform(
    images: Any,
    alpha: float = 20.0,
    sigma: float = 5.0,
    interpolation: str = "bilinear",
    fill_mode: str = "reflect",
    fill_value: float = 0.0,
    seed: Any = None,
    data_format: str | None = None,
) -> Tensor:
    """Return images whose pixels are moved by smooth random distances.

    The distances are normal numbers of standard deviation ``sigma``, blurred with the
    same width, times ``alpha``.
    """
    given = batch(images, data_format)
    x = given.pixels
    size = int(6 * float(sigma)) | 1
    noise = pg.random.normal((2, *x.shape[:3]), dtype=x.dtype, seed=_key(seed))
    noise = pg.reshape(noise * sigma, (-1, *x.shape[1:3], 1))
    smooth = blurred(noise, (size, size), (sigma, sigma))
    right, down = pg.reshape(smooth * alpha, (2, *x.shape[:3]))
    y, z = _pixels(x)
    places = [y + down, z + right]
    order = _order(interpolation)
    return given.restored(_read(x, places, order, fill_mode, fill_value))


def _order(interpolation: str) -> int:
    """Return the order of an interpolation."""
    if interpolation not in ORDERS:
        raise ValueError(
            f"`interpolation` must be one of {tuple(ORDERS)}. "
            f"Received: interpolation={interpolation}"
        )
    return ORDERS[interpolation]


def _key(seed: Any) -> Any:
    """Return the key of a random draw; while shapes are inferred, any will do."""
    drawn = draw_seed(seed)
    return 0 if pg.get_backend() == SHAPES else pg.bitcast(drawn, "int32")


def _pixels(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row ``[1, height, 1]`` and the column ``[1, 1, width]`` of pixels."""
    height, width = x.shape[1:3]
    down = pg.reshape(pg.arange(height, dtype=x.dtype), (1, height, 1))
    return down, pg.reshape(pg.arange(width, dtype=x.dtype), (1, 1, width))


def _read(
    x: Tensor, places: list[Tensor], order: int, fill_mode: str, fill_value: Any
) -> Tensor:
    """Return the pixels at places of a batch of images."""
    count, height, width, channels = x.shape
    flat = pg.reshape(x, (-1, channels))
    first = pg.arange(count, dtype="int32") * (height * width)
    shape = (count, height, width)
    places = [pg.broadcast_to(place, shape) for place in places]
    base = pg.reshape(first, (count, 1, 1))
    sizes = (height, width)
    return interpolated(flat, base, sizes, places, order, fill_mode, fill_value)
