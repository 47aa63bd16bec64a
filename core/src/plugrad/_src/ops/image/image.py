"""Images: conversion to and from pixels, flips and rotation, colors.

Kernels: ``Draw FlipLeftRight FromPixels RotateWithOffset``. The namespace ``image``
also contains the ops of ``boxes``, ``interpolation`` and ``resize``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import active, run
from plugrad._src.ops.array import gather, slicing
from plugrad._src.ops.basis import _convert, compare, creation, reduce, shape, unary
from plugrad._src.ops.nn._windows import check_shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition
from plugrad._src.tensor.arguments import (
    choice,
    entries,
    finite,
    flag,
    integer,
    misfit,
    real,
)
from plugrad._src.tensor.dtypes import DTYPES, INT32, dtype_kind
from plugrad._src.tensor.tensor import Tensor, TensorLike

from .boxes import (
    non_max_suppression,
    non_max_suppression_padded,
    non_max_suppression_with_score,
)
from .interpolation import grid_sample, resize_bicubic
from .resize import crop_and_resize, resize_bilinear, resize_nearest_neighbor, transform

if TYPE_CHECKING:
    from plugrad.geometry import Rotation

__all__ = ["crop_and_resize", "flip_left_right", "flip_up_down", "from_pixels"]
__all__ += [
    "grayscale_to_rgb",
    "grid_sample",
    "non_max_suppression",
    "non_max_suppression_padded",
]
__all__ += ["non_max_suppression_with_score", "resize_bicubic", "resize_bilinear"]
__all__ += ["resize_nearest_neighbor", "rgb_to_grayscale", "rotate_with_offset"]
__all__ += ["threshold", "to_pixels", "transform"]

# --- pixels ----------------------------------------------------------------------


def _from_pixels_spec(pixels: Spec, *, num_channels: int) -> Spec:
    *size, channels = pixels.shape if len(pixels.shape) == 3 else (0, 0)
    if not 1 <= num_channels <= channels:
        rule = f"pixels must have rank 3, and {num_channels} channels or more"
        raise misfit("image.from_pixels", rule, pixels)
    return Spec((*size, num_channels), INT32)


FROM_PIXELS = Kernel(
    "FromPixels(pixels: integer; num_channels: int)",
    out=_from_pixels_spec,
    op="image.from_pixels",
    doc="""The first ``num_channels`` channels, converted as by ``Cast`` to int32.""",
)


def from_pixels(pixels: Any, /, num_channels: int = 3) -> Tensor:
    """Return an image as an int32 tensor ``[height, width, num_channels]``.

    A gray channel is copied to red, green and blue. Opacity is 255 if the image has no
    opacity channel.

    Args:
        pixels: A Pillow image, or a uint8 array: ``[height, width]`` or
            ``[height, width, 1]`` for gray, 3 channels for color, 4 for color and
            opacity.
        num_channels: The number of channels to return, from 1 to 4, in the order red,
            green, blue, opacity.

    Returns:
        An int32 tensor ``[height, width, num_channels]`` of values from 0 to 255.

    Raises:
        TypeError: ``pixels`` is neither an image nor a uint8 array.
        ValueError: The shape or the number of channels does not fit.

    Example:
        >>> pg.image.from_pixels(np.array([[0, 128]], np.uint8))
        Tensor([[[  0,   0,   0],
                 [128, 128, 128]]], dtype=int32, backend='cpu')

    Source:
        ``tf.browser.fromPixels`` in TensorFlow.js, for Python images.

    """
    op = "image.from_pixels"
    channels = integer(op, "num_channels", num_channels)
    if not 1 <= channels <= 4:
        raise ValueError(f"{op}: num_channels must be 1 to 4, got {channels}")
    if hasattr(pixels, "convert") and hasattr(pixels, "getbands"):  # a Pillow image
        pixels = pixels.convert("RGBA")
    if not hasattr(pixels, "__array__") and not hasattr(pixels, "__array_interface__"):
        raise TypeError(f"{op}: {type(pixels).__name__} is not an image or uint8 array")
    given = np.asarray(pixels)
    if given.dtype != np.uint8:
        raise TypeError(f"{op}: pixels must be uint8, got {given.dtype}; cast them")
    _check_image(op, "pixels", given)
    given = given[..., None] if given.ndim == 2 else given
    *size, have = given.shape
    taken = np.broadcast_to(given, (*size, 3)) if have == 1 else given
    if channels == 4 != have:
        opaque = np.full((*size, 1), 255, np.uint8)
        taken = np.concatenate((taken, opaque), axis=2)
    has_uint8 = DTYPES["uint8"] in active().dtypes
    x = _convert.asarray(taken[..., :channels], dtype="uint8" if has_uint8 else INT32)
    return run(FROM_PIXELS, x, num_channels=channels)


@decomposition(FROM_PIXELS)
def _(pixels: Tensor, *, num_channels: int) -> Tensor:
    return creation.cast(slicing.along(pixels, 2, 0, num_channels), INT32)


def _check_image(op: str, name: str, image: Any) -> None:
    """Raise unless ``image`` has the shape of a single gray or color image."""
    if len(image.shape) < 2 or image.shape[2:] not in ((), (1,), (3,), (4,)):
        rule = f"{name} must be [height, width] or [height, width, 1, 3 or 4]"
        raise misfit(op, rule, image)


def _draw_spec(image: Spec) -> Spec:
    _check_image("image.to_pixels", "image", image)
    return image._replace(dtype=INT32)


DRAW = Kernel(
    "Draw(image: integer | floating)",
    out=_draw_spec,
    op="image.to_pixels",
    doc="""Floating values times 255, rounded with ties to even; integers converted as
    by ``Cast`` to int32. All are limited to the range from 0 to 255; NaN gives 0.""",
)


def to_pixels(image: TensorLike, /) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return an image as a uint8 array that Pillow's ``Image.fromarray`` accepts.

    Floating values are multiplied by 255 and rounded, with ties to even.

    Args:
        image: ``[height, width]``, or with 1, 3 or 4 channels (gray; red, green and
            blue; these and opacity): floating-point numbers from 0 to 1, or integers
            from 0 to 255.

    Returns:
        A uint8 NumPy array: ``[height, width]`` for gray, else
        ``[height, width, channels]``.

    Raises:
        ValueError: The shape does not fit, or a value is out of range or NaN.
        TypeError: The dtype is bool, complex or string.

    Example:
        >>> pg.image.to_pixels([[0.0, 0.2, 1.0]])
        array([[  0,  51, 255]], dtype=uint8)

    Source:
        ``tf.browser.toPixels`` in TensorFlow.js, which also adds opacity.

    """
    op = "image.to_pixels"
    x = _convert.real(op, image)
    if dtype_kind(x.dtype) not in "iuf":
        raise TypeError(f"{op}: is not defined for {x.dtype}; cast to float32 or int32")
    _check_image(op, "image", x)
    top = 1 if dtype_kind(x.dtype) == "f" else 255
    low, high = (reduce.min(x)._item(), reduce.max(x)._item()) if x.size else (0, 0)
    if not (low >= 0 and high <= top):
        raise ValueError(f"{op}: {x.dtype} must be in [0, {top}], got {low} to {high}")
    y = run(DRAW, x)._values().astype(np.uint8)
    return y[..., 0] if x.shape[2:] == (1,) else y


@decomposition(DRAW)
def _(image: Tensor) -> Tensor:
    if dtype_kind(image.dtype) == "f":
        return creation.cast(unary.round(image.maximum(0).minimum(1) * 255), INT32)
    return creation.cast(image, INT32).maximum(0).minimum(255)


# --- flips and rotation ----------------------------------------------------------


def _check_rank(op: str, x: Tensor | Spec, rank: int, channels: int = 0) -> None:
    if len(x.shape) < rank or (channels and x.shape[-1] != channels):
        wanted = f" with {channels} channels" if channels else ""
        raise misfit(op, f"image must have rank {rank} or more{wanted}", x)


def _flip_spec(image: Spec) -> Spec:
    _check_rank("image.flip_left_right", image, 3)
    return image


FLIP_LEFT_RIGHT = Kernel(
    "FlipLeftRight(image)",
    out=_flip_spec,
    op="image.flip_left_right",
    doc="""``y[..., i, c] = image[..., width - 1 - i, c]``.""",
)


def flip_left_right(image: TensorLike, /) -> Tensor:
    """Return images with their columns reversed.

    Args:
        image: ``[..., height, width, channels]`` of any dtype.

    Returns:
        A tensor with the shape and dtype of ``image``.

    Raises:
        ValueError: ``image`` has fewer than three axes.

    Example:
        >>> pg.image.flip_left_right([[[1], [2], [3]]]).tolist()
        [[[3], [2], [1]]]

    Source:
        The semantics are those of ``tf.image.flipLeftRight`` in TensorFlow.js.

    """
    return run(FLIP_LEFT_RIGHT, _images("image.flip_left_right", image, 3))


# It has no gradient of its own: that of the decomposition is used.
decomposition(FLIP_LEFT_RIGHT, lambda image: shape.flip(image, axis=-2))


def flip_up_down(image: TensorLike, /) -> Tensor:
    """Return images with their rows reversed.

    Args:
        image: ``[..., height, width, channels]`` of any dtype.

    Returns:
        A tensor with the shape and dtype of ``image``.

    Raises:
        ValueError: ``image`` has fewer than three axes.

    Example:
        >>> pg.image.flip_up_down([[[1]], [[2]], [[3]]]).tolist()
        [[[3]], [[2]], [[1]]]

    """
    return shape.flip(_images("image.flip_up_down", image, 3), axis=-3)


def _images(op: str, image: TensorLike, rank: int, channels: int = 0) -> Tensor:
    x = _convert.asarray(image)
    _check_rank(op, x, rank, channels)
    return x


ROTATE = "image.rotate_with_offset"


@functools.lru_cache(maxsize=16)  # a small cache, because the tables are large
def _rotation(*arguments: Any) -> Rotation:
    return geometry.Rotation(*arguments)


def _rotation_attributes(
    image: Spec | Tensor,
    *,
    radians: float,
    fill_value: float | Sequence[float] = 0,
    center: float | Sequence[float] = 0.5,
) -> dict[str, Any]:
    """Canonicalize the attributes of the op."""
    geometry.rank(ROTATE, "image", image.shape, 2)
    _, h, w, c = image.shape
    angle = float(real(ROTATE, "radians", radians))
    given = entries(center) or (center, center)
    center_xy = [float(real(ROTATE, "center", v)) for v in given]
    if len(center_xy) != 2 or not all(map(math.isfinite, (angle, *center_xy))):
        raise ValueError(
            f"{ROTATE}: radians {radians} must be finite, and center {center} a finite "
            "number or a pair (x, y)"
        )
    x, y = center_xy
    listed = entries(fill_value) or ()
    opaque = [*listed, 255] if len(listed) == 3 and c == 4 else fill_value
    fill = _fill(opaque, image)
    return {"geometry": _rotation(h, w, angle, (x * w, y * h)), "fill_value": fill}


def _fill(value: Any, image: Spec | Tensor) -> Any:
    """Return the value of pixels outside the image: a number, or one per channel."""
    if (listed := entries(value)) is None:
        return slicing.constant(ROTATE, value, image.dtype)
    if len(listed) != (c := image.shape[-1]):
        raise ValueError(
            f"{ROTATE}: fill_value must be one number or {c}, one for each channel, "
            f"got {value}"
        )
    return tuple([slicing.constant(ROTATE, v, image.dtype) for v in listed])


def _rotate_spec(image: Spec, *, geometry: Rotation, fill_value: Any) -> Spec:
    wanted = (*image.shape[:1], geometry.height, geometry.width, *image.shape[-1:])
    check_shape("geometry", "image", image.shape, wanted)
    _fill(fill_value, image)
    return image


ROTATE_WITH_OFFSET = Kernel(
    "RotateWithOffset(image; geometry: Rotation, fill_value)",
    canonicalize=_rotation_attributes,
    out=_rotate_spec,
    op=ROTATE,
    doc="""``y[n, i, c] = image[n, geometry.table[i], c]``, where i counts pixels row by
    row; ``fill_value``, or its entry for c, where the table has -1.""",
)


def rotate_with_offset(
    image: TensorLike,
    radians: float,
    /,
    *,
    fill_value: float | Sequence[float] = 0,
    center: float | Sequence[float] = 0.5,
) -> Tensor:
    """Return images rotated counterclockwise, with nearest-neighbor sampling.

    Args:
        image: ``[batch, height, width, channels]`` of any dtype.
        radians: The angle; a negative one rotates clockwise.
        fill_value: The value of pixels outside the image: a number, or one for each
            channel. If there are three numbers for four channels, the opacity is 255.
        center: The fixed point as a fraction of the size: a number, or x and y. It is
            the pixel in column ``x · width`` and row ``y · height``, counted from 0.

    Returns:
        A tensor with the shape and dtype of ``image``.

    Raises:
        ValueError: The rank is not 4, the angle or the center is not finite, or
            ``fill_value`` does not fit the channels.
        TypeError: The angle or the center is not a real number.

    Example:
        >>> image = pg.reshape(pg.arange(1, 10), (1, 3, 3, 1))
        >>> y = pg.image.rotate_with_offset(image, np.pi / 2, center=1 / 3)
        >>> y[0, :, :, 0]
        Tensor([[3, 6, 9],
                [2, 5, 8],
                [1, 4, 7]], dtype=int32, backend='cpu')

    Source:
        The semantics are those of ``tf.image.rotateWithOffset`` in TensorFlow.js.

    """
    x = _convert.asarray(image)
    given: Any = {"radians": radians, "fill_value": fill_value, "center": center}
    return run(ROTATE_WITH_OFFSET, x, **_rotation_attributes(x, **given))


@decomposition(ROTATE_WITH_OFFSET)  # also used for the gradient
def _(image: Tensor, *, geometry: Rotation, fill_value: Any) -> Tensor:
    b, h, w, c = image.shape
    pixels = shape.reshape(image, (b, h * w, c))
    y = gather.gather(pixels, np.maximum(geometry.table, 0), axis=1)
    inside = _convert.tensor_of(geometry.table[:, None] >= 0, copy=False)
    fill = _convert.tensor_of(np.asarray(fill_value, image.dtype), copy=False)
    return shape.reshape(compare.where(inside, y, fill), image.shape)


# --- colors ----------------------------------------------------------------------

LUMA = (0.2989, 0.587, 0.114)  # the weights of red, green and blue in ITU-R BT.601


def grayscale_to_rgb(image: TensorLike, /) -> Tensor:
    """Return images with their single channel repeated three times.

    Args:
        image: ``[..., 1]`` of any dtype with at least two axes.

    Returns:
        A tensor ``[..., 3]`` with the dtype of ``image``.

    Raises:
        ValueError: The last axis does not have size 1, or is the only one.

    Example:
        >>> pg.image.grayscale_to_rgb([[[7], [9]]]).tolist()
        [[[7, 7, 7], [9, 9, 9]]]

    Source:
        The semantics are those of ``tf.image.grayscaleToRGB`` in TensorFlow.js.

    """
    x = _images("image.grayscale_to_rgb", image, 2, 1)
    return run(shape.BROADCAST_TO, x, shape=(*x.shape[:-1], 3))


def rgb_to_grayscale(image: TensorLike, /) -> Tensor:
    """Return the brightness of images, ``0.2989·red + 0.587·green + 0.114·blue``.

    Integers are rounded, with ties to even.

    Args:
        image: ``[..., 3]`` of real numbers with at least two axes.

    Returns:
        A tensor ``[..., 1]`` with the dtype of ``image``.

    Raises:
        ValueError: The last axis does not have size 3, or is the only one.
        TypeError: ``image`` is complex or contains strings.

    Example:
        >>> pg.image.rgb_to_grayscale([[255, 0, 0], [0, 255, 0]]).tolist()
        [[76], [150]]

    Source:
        The semantics are those of ``tf.image.rgbToGrayscale`` in TensorFlow.js. The
        weights are those of ITU-R BT.601.

    """
    op = "image.rgb_to_grayscale"
    x = _convert.real(op, _images(op, image, 2, 3))
    y = _luma(x)
    return y if dtype_kind(x.dtype) == "f" else creation.cast(unary.round(y), x.dtype)


def _luma(image: Tensor) -> Tensor:
    x = _convert.floating("image.rgb_to_grayscale", image)
    weights = _convert.tensor_of(np.array(LUMA, x.dtype), copy=False)
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

    Colors are converted to gray, as by ``rgb_to_grayscale`` without rounding.

    Args:
        image: ``[height, width, 1]`` or ``[height, width, 3]`` of values from 0 to 255.
        method: "binary" for the threshold ``255 · thresh_value``; "otsu" for the
            threshold with the largest variance between dark and bright pixels (if
            several are equal, the first; -1 for an image of a single shade).
        inverted: Whether to exchange 255 and 0.
        thresh_value: The threshold of "binary", from 0 to 1.

    Returns:
        An int32 tensor ``[height, width, 1]``.

    Raises:
        ValueError: The shape does not fit, the method is unknown, or ``thresh_value``
            is not from 0 to 1.
        TypeError: ``image`` is complex or contains strings.

    Example:
        >>> pg.image.threshold([[[10], [100], [200]]]).tolist()
        [[[0], [0], [255]]]

    Source:
        The semantics are those of ``tf.image.threshold`` in TensorFlow.js. N. Otsu, "A
        Threshold Selection Method from Gray-Level Histograms", 1979.

    """
    op = "image.threshold"
    x = _convert.real(op, image)
    if len(x.shape) != 3 or x.shape[2] not in (1, 3):
        raise ValueError(f"{op}: image must be [height, width, 1 or 3], got {x.shape}")
    choice(op, "method", method, "binary", "otsu")
    inverted = flag(op, "inverted", inverted)
    gray = _luma(x) if x.shape[2] == 3 else _convert.floating(op, x)
    share = finite(op, "thresh_value", thresh_value, least=0, most=1)
    limit = _otsu(gray) if method == "otsu" else 255 * share
    hit = gray <= limit if inverted else gray > limit
    return compare.where(hit, 255, creation.zeros(hit.shape, dtype=INT32))


def _otsu(gray: Tensor) -> float:
    """Return Otsu's threshold, from a histogram that is read on the host."""
    levels = shape.reshape(creation.cast(unary.round(gray), INT32), -1)
    ones = creation.ones(levels.shape, dtype=INT32)
    counts = gather.unsorted_segment_sum(ones, levels, 256)._values().astype(np.float64)
    dark = counts.cumsum()
    mass = (counts * np.arange(256)).cumsum()
    bright = dark[-1] - dark
    with np.errstate(all="ignore"):
        gap = mass / dark - (mass[-1] - mass) / bright
    variance = np.nan_to_num(dark * bright * gap**2)
    best = int(variance.argmax())
    return best if variance[best] > 0 else -1
