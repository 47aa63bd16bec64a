"""Images: pixels in and out, turning, colours.

Kernels: ``Draw FlipLeftRight FromPixels RotateWithOffset``. The namespace ``image``
holds the ops of ``boxes`` and of ``resize``, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from plugrad import geometry
from plugrad.engine.dispatch import active, run
from plugrad.geometry import Rotation
from plugrad.registry.contract import Kernel, Spec, decomposition
from plugrad.tensor.arguments import choice, entries, flag, integer, misfit, real
from plugrad.tensor.dtypes import DTYPES, INT32
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, compare, creation, gather, reduce, shape, slicing, unary
from ._windows import fits
from .boxes import (
    non_max_suppression,
    non_max_suppression_padded,
    non_max_suppression_with_score,
)
from .resize import crop_and_resize, resize_bilinear, resize_nearest_neighbor, transform

__all__ = ["crop_and_resize", "flip_left_right", "flip_up_down", "from_pixels"]
__all__ += ["grayscale_to_rgb", "non_max_suppression", "non_max_suppression_padded"]
__all__ += ["non_max_suppression_with_score", "resize_bilinear"]
__all__ += ["resize_nearest_neighbor", "rgb_to_grayscale", "rotate_with_offset"]
__all__ += ["threshold", "to_pixels", "transform"]

# --- pixels ----------------------------------------------------------------------


def _taken(pixels: Spec, *, num_channels: int) -> Spec:
    *size, channels = pixels.shape if len(pixels.shape) == 3 else (0, 0)
    if not 1 <= num_channels <= channels:
        rule = f"pixels must have rank 3, and {num_channels} channels or more"
        raise misfit("image.from_pixels", rule, pixels)
    return Spec((*size, num_channels), INT32)


FROM_PIXELS = Kernel(
    "FromPixels(pixels: integer; num_channels: int)",
    out=_taken,
    op="image.from_pixels",
    doc="""The first ``num_channels`` channels, as by ``Cast`` to int32.""",
)


def from_pixels(pixels: Any, /, num_channels: int = 3) -> Tensor:
    """Return an image as an int32 tensor ``[height, width, num_channels]``.

    Args:
        pixels: An image of Pillow, or a uint8 array: ``[height, width]`` or with one
            channel for shades of gray, three for colours, four for colours and opacity.
        num_channels: How many of red, green, blue and opacity to take; gray stands for
            the first three, and all is opaque (255) where nothing else is said.

    Raises:
        TypeError: It is no image, or an array that is not uint8.
        ValueError: The shape or the number of channels does not fit.

    """
    op = "image.from_pixels"
    channels = integer(op, "num_channels", num_channels)
    if not 1 <= channels <= 4:
        raise ValueError(f"{op}: num_channels must be 1 to 4, got {channels}")
    if hasattr(pixels, "convert") and hasattr(pixels, "getbands"):  # Pillow's
        pixels = pixels.convert("RGBA")
    if not hasattr(pixels, "__array__") and not hasattr(pixels, "__array_interface__"):
        raise TypeError(f"{op}: {type(pixels).__name__} is no image or uint8 array")
    given = np.asarray(pixels)
    if given.dtype != np.uint8:
        raise TypeError(f"{op}: pixels must be uint8, got {given.dtype}; cast them")
    _drawn(op, "pixels", given)
    given = given[..., None] if given.ndim == 2 else given
    *size, have = given.shape
    taken = np.broadcast_to(given, (*size, 3)) if have == 1 else given
    if channels == 4 != have:
        opaque = np.full((*size, 1), 255, np.uint8)
        taken = np.concatenate((taken, opaque), axis=2)
    held = DTYPES["uint8"] in active().dtypes
    x = _convert.asarray(taken[..., :channels], dtype="uint8" if held else INT32)
    return run(FROM_PIXELS, x, num_channels=channels)


@decomposition(FROM_PIXELS)
def _(pixels: Tensor, *, num_channels: int) -> Tensor:
    return creation.cast(slicing.along(pixels, 2, 0, num_channels), INT32)


def _drawn(op: str, name: str, image: Any) -> None:
    """Complain unless this has the shape of one image, gray or in colours."""
    if len(image.shape) < 2 or image.shape[2:] not in ((), (1,), (3,), (4,)):
        rule = f"{name} must be [height, width] or [height, width, 1, 3 or 4]"
        raise misfit(op, rule, image)


def _pixels_of(image: Spec) -> Spec:
    _drawn("image.to_pixels", "image", image)
    return image._replace(dtype=INT32)


DRAW = Kernel(
    "Draw(image: integer | floating)",
    out=_pixels_of,
    op="image.to_pixels",
    doc="""Floating values times 255, rounded, a half to the even number; integers as by
    ``Cast`` to int32. All are clipped to 0 and 255; NaN gives 0.""",
)


def to_pixels(image: TensorLike, /) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return an image as a uint8 array, ready for Pillow's ``Image.fromarray``.

    Args:
        image: ``[height, width]`` or with 1, 3 or 4 channels (gray; red, green and
            blue; these and opacity): floating from 0 to 1, or integers from 0 to 255.

    Returns:
        ``[height, width]`` for gray, else ``[height, width, channels]``. Floating
        values are multiplied by 255 and rounded, a half to the even number.

    Raises:
        ValueError: The shape does not fit, or a value is out of range, or NaN.
        TypeError: The dtype is bool, complex or string.

    """
    op = "image.to_pixels"
    x = _convert.real(op, image)
    if x.dtype.kind not in "iuf":
        raise TypeError(f"{op}: {x.dtype} is no colour; cast to float32 or int32")
    _drawn(op, "image", x)
    top = 1 if x.dtype.kind == "f" else 255
    low, high = (reduce.min(x).item(), reduce.max(x).item()) if x.size else (0, 0)
    if not (low >= 0 and high <= top):
        raise ValueError(f"{op}: {x.dtype} must be in [0, {top}], got {low} to {high}")
    y = run(DRAW, x).numpy().astype(np.uint8)
    return y[..., 0] if x.shape[2:] == (1,) else y


@decomposition(DRAW)
def _(image: Tensor) -> Tensor:
    if image.dtype.kind == "f":
        return creation.cast(unary.round(image.maximum(0).minimum(1) * 255), INT32)
    return creation.cast(image, INT32).maximum(0).minimum(255)


# --- turning ---------------------------------------------------------------------


def _check_rank(op: str, x: Tensor | Spec, rank: int, channels: int = 0) -> None:
    if len(x.shape) < rank or (channels and x.shape[-1] != channels):
        wanted = f" with {channels} channels" if channels else ""
        raise misfit(op, f"image must have rank {rank} or more{wanted}", x)


def _flipped(image: Spec) -> Spec:
    _check_rank("image.flip_left_right", image, 3)
    return image


FLIP_LEFT_RIGHT = Kernel(
    "FlipLeftRight(image)",
    out=_flipped,
    op="image.flip_left_right",
    doc="""``y[..., i, c] = image[..., width - 1 - i, c]``.""",
)


def flip_left_right(image: TensorLike, /) -> Tensor:
    """Return images ``[..., height, width, channels]`` with their columns reversed.

    Fewer than three axes are a ValueError.
    """
    return run(FLIP_LEFT_RIGHT, _images("image.flip_left_right", image, 3))


# No gradient: it is that of the parts.
decomposition(FLIP_LEFT_RIGHT, lambda image: shape.flip(image, axis=-2))


def flip_up_down(image: TensorLike, /) -> Tensor:
    """Return images ``[..., height, width, channels]`` with their rows reversed.

    Fewer than three axes are a ValueError.
    """
    return shape.flip(_images("image.flip_up_down", image, 3), axis=-3)


def _images(op: str, image: TensorLike, rank: int, channels: int = 0) -> Tensor:
    x = _convert.asarray(image)
    _check_rank(op, x, rank, channels)
    return x


ROTATE = "image.rotate_with_offset"
_rotation = functools.lru_cache(maxsize=16)(Rotation)  # whose tables are large


def _turned(
    image: Spec | Tensor,
    *,
    radians: float,
    fill_value: float | Sequence[float] = 0,
    center: float | Sequence[float] = 0.5,
) -> dict[str, Any]:
    """Turn attributes of a user into the contract's."""
    geometry.rank(ROTATE, "image", image.shape, 2)
    _, h, w, c = image.shape
    angle = float(real(ROTATE, "radians", radians))
    given = entries(center) or (center, center)
    places = [float(real(ROTATE, "center", v)) for v in given]
    if len(places) != 2 or not all(map(math.isfinite, (angle, *places))):
        raise ValueError(
            f"{ROTATE}: radians {radians} must be finite, center {center} a number or "
            "x, y"
        )
    x, y = places
    listed = entries(fill_value) or ()
    opaque = [*listed, 255] if len(listed) == 3 and c == 4 else fill_value
    fill = _fill(opaque, image)
    return {"geometry": _rotation(h, w, angle, (x * w, y * h)), "fill_value": fill}


def _fill(value: Any, image: Spec | Tensor) -> Any:
    """Return what comes in from outside: a number, or a tuple of one a channel."""
    if (listed := entries(value)) is None:
        return slicing.constant(ROTATE, value, image.dtype)
    if len(listed) != (c := image.shape[-1]):
        raise ValueError(f"{ROTATE}: fill_value {value} is not for {c} channels")
    return tuple([slicing.constant(ROTATE, v, image.dtype) for v in listed])


def _rotated(image: Spec, *, geometry: Rotation, fill_value: Any) -> Spec:
    wanted = (*image.shape[:1], geometry.height, geometry.width, *image.shape[-1:])
    fits("geometry", "image", image.shape, wanted)
    _fill(fill_value, image)
    return image


ROTATE_WITH_OFFSET = Kernel(
    "RotateWithOffset(image; geometry: Rotation, fill_value)",
    canonicalize=_turned,
    out=_rotated,
    op=ROTATE,
    doc="""``y[n, i, c] = image[n, geometry.table[i], c]``, with pixels i counted row by
    row; ``fill_value``, or that of c, where the table has -1.""",
)


def rotate_with_offset(
    image: TensorLike,
    radians: float,
    /,
    *,
    fill_value: float | Sequence[float] = 0,
    center: float | Sequence[float] = 0.5,
) -> Tensor:
    """Return images turned to the left by an angle; each pixel is the nearest one.

    Args:
        image: ``[batch, height, width, channels]``.
        radians: The angle; a negative one turns to the right.
        fill_value: What comes in from outside: a number, or one a channel. Three for
            four channels leave opacity at 255.
        center: What stays where it is, as a fraction of the size: a number, or x and y.
            It is the pixel in column ``x · width`` and row ``y · height``, from 0.

    Returns:
        The shape and dtype of ``image``.

    Raises:
        ValueError: The rank is not 4, the angle or the center not finite, or
            ``fill_value`` is not for so many channels.
        TypeError: The angle or the center is no real number.

    """
    x = _convert.asarray(image)
    given: Any = {"radians": radians, "fill_value": fill_value, "center": center}
    return run(ROTATE_WITH_OFFSET, x, **_turned(x, **given))


@decomposition(ROTATE_WITH_OFFSET)  # and no gradient: it is that of the parts
def _(image: Tensor, *, geometry: Rotation, fill_value: Any) -> Tensor:
    b, h, w, c = image.shape
    pixels = shape.reshape(image, (b, h * w, c))
    y = gather.gather(pixels, np.maximum(geometry.table, 0), axis=1)
    inside = _convert.asarray(geometry.table[:, None] >= 0, copy=False)
    fill = _convert.asarray(np.asarray(fill_value, image.dtype), copy=False)
    return shape.reshape(compare.where(inside, y, fill), image.shape)


# --- colours ---------------------------------------------------------------------

LUMA = (0.2989, 0.587, 0.114)  # of ITU-R BT.601


def grayscale_to_rgb(image: TensorLike, /) -> Tensor:
    """Return ``image`` [..., 1] with its one channel three times, [..., 3].

    Another size of the last axis, or no other axis, is a ValueError.
    """
    x = _images("image.grayscale_to_rgb", image, 2, 1)
    return run(shape.BROADCAST_TO, x, shape=(*x.shape[:-1], 3))


def rgb_to_grayscale(image: TensorLike, /) -> Tensor:
    """Return ``0.2989·red + 0.587·green + 0.114·blue`` as the one channel of an image.

    ``image`` is ``[..., 3]``, and the result ``[..., 1]``, of the same dtype. Integers
    are rounded, a half to the even number.

    Raises:
        ValueError: The last axis has not size 3, or is the only one.
        TypeError: Complex numbers.

    """
    op = "image.rgb_to_grayscale"
    x = _convert.real(op, _images(op, image, 2, 3))
    y = _luma(x)
    return y if x.dtype.kind == "f" else creation.cast(unary.round(y), x.dtype)


def _luma(image: Tensor) -> Tensor:
    x = _convert.floating("image.rgb_to_grayscale", image)
    weights = _convert.asarray(np.array(LUMA, x.dtype), copy=False)
    return reduce.sum(x * weights, axis=-1, keepdims=True)


def threshold(
    image: TensorLike,
    /,
    method: Literal["binary", "otsu"] = "binary",
    *,
    inverted: bool = False,
    thresh_value: float = 0.5,
) -> Tensor:
    """Return 255 where an image is brighter than a threshold, and 0 elsewhere.

    Args:
        image: ``[height, width, 1 or 3]`` of values from 0 to 255; colours are turned
            into shades of gray, as by ``rgb_to_grayscale`` without rounding.
        method: "binary" for the threshold ``255 · thresh_value``, "otsu" for the one
            that sets apart dark and bright pixels best: the largest variance between
            the two (the first of equals; -1 for an image of one shade).
        inverted: Whether 255 and 0 are exchanged.
        thresh_value: From 0 to 1, for "binary".

    Returns:
        int32 ``[height, width, 1]``.

    Raises:
        ValueError: The shape does not fit, or the method is unknown.
        TypeError: Complex numbers.

    """
    op = "image.threshold"
    x = _convert.real(op, image)
    if len(x.shape) != 3 or x.shape[2] not in (1, 3):
        raise ValueError(f"{op}: image must be [height, width, 1 or 3], got {x.shape}")
    choice(op, "method", method, "binary", "otsu")
    inverted = flag(op, "inverted", inverted)
    gray = _luma(x) if x.shape[2] == 3 else _convert.floating(op, x)
    share = real(op, "thresh_value", thresh_value)
    limit = _otsu(gray) if method == "otsu" else 255 * share
    hit = gray <= limit if inverted else gray > limit
    return compare.where(hit, 255, creation.zeros(hit.shape, dtype=INT32))


def _otsu(gray: Tensor) -> float:
    """Return the threshold of Otsu (1979), from a histogram that is read here."""
    levels = shape.reshape(creation.cast(unary.round(gray), INT32), -1)
    ones = creation.ones(levels.shape, dtype=INT32)
    counts = gather.unsorted_segment_sum(ones, levels, 256).numpy().astype(np.float64)
    dark, mass = counts.cumsum(), (counts * np.arange(256)).cumsum()
    bright = dark[-1] - dark
    with np.errstate(all="ignore"):
        gap = mass / dark - (mass[-1] - mass) / bright
    variance = np.nan_to_num(dark * bright * gap**2)
    best = int(variance.argmax())
    return best if variance[best] > 0 else -1
