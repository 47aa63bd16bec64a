"""Resizing, cropping and transforming images, public in the namespace ``image``.

Kernels: ``ResizeBilinear ResizeNearestNeighbor`` are linear, so one kernel for the
transpose of each gives derivatives of every order. ``CropAndResize Transform`` read
images at coordinates that are computed from tensors; ``_sampling`` implements this.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather, slicing
from plugrad._src.ops.basis import _convert, shape
from plugrad._src.ops.nn import _windows
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import Ints, choice, flag, misfit, sizes
from plugrad._src.tensor.dtypes import INT32
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape, Sizes

from . import _sampling

if TYPE_CHECKING:
    from plugrad.geometry import Resizing

Method = Literal["bilinear", "nearest"]
FillMode = Literal["constant", "reflect", "wrap", "nearest"]

# --- resizing --------------------------------------------------------------------


def _resizing(
    op: str, shape: Shape, size: Sizes, align_corners: bool, half_pixel_centers: bool
) -> Resizing:
    """Return the resizing of images of ``shape`` to the height and width ``size``."""
    height, width = geometry._positive_integers(op, "size", size, 2)
    align_corners = flag(op, "align_corners", align_corners)
    half_pixel_centers = flag(op, "half_pixel_centers", half_pixel_centers)
    if align_corners and half_pixel_centers:
        raise ValueError(f"{op}: use align_corners or half_pixel_centers, not both")
    geometry.rank(op, "images", shape, 2)
    if 0 in shape[1:3]:
        raise ValueError(f"{op}: images of shape {shape} have no pixels to read")
    new = (shape[0], height, width, shape[3])
    return _cached_resizing(shape, new, align_corners, half_pixel_centers)


@functools.lru_cache(maxsize=256)
def _cached_resizing(*arguments: Any) -> Resizing:
    """Return a resizing from the cache, with its tables."""
    return geometry.Resizing(*arguments)


def _forward_attributes(
    images: Spec,
    *,
    size: Sizes,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> dict[str, Any]:
    """Convert the attributes of the op to those of the contract."""
    options = (align_corners, half_pixel_centers)
    return {"geometry": _resizing("run_kernel", images.shape, size, *options)}


def _backward_attributes(
    images: Spec | None,
    dy: Spec,
    *,
    in_shape: Ints = (),
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> dict[str, Any]:
    """Convert the attributes of the op for a transpose; the size is that of ``dy``."""
    x = images or Spec(sizes("run_kernel", in_shape, "in_shape"), dy.dtype)
    options = {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
    return _forward_attributes(x, size=dy.shape[1:3], **options)


def _resize_spec(images: Spec, *, geometry: Resizing) -> Spec:
    _windows.check_shape("geometry", "images", images.shape, geometry.in_shape)
    return Spec(geometry.out_shape, images.dtype)


def _resize_gradient_spec(images: Spec | None, dy: Spec, *, geometry: Resizing) -> Spec:
    if images is not None:
        _windows.check_shape("geometry", "images", images.shape, geometry.in_shape)
    _windows.check_shape("geometry", "dy", dy.shape, geometry.out_shape)
    return Spec(geometry.in_shape, dy.dtype)


_FORWARD_RULES: Any = {"canonicalize": _forward_attributes, "out": _resize_spec}
_BACKWARD_RULES: Any = {
    "canonicalize": _backward_attributes,
    "out": _resize_gradient_spec,
}

BILINEAR = Kernel(
    "ResizeBilinear(images: floating; geometry: Resizing)",
    op="image.resize_bilinear",
    doc="""Pixel i of the result is read, along each axis, at ``i · old / new``; with
    ``align_corners`` at ``i · (old - 1) / (new - 1)``, or at 0 if ``new`` is 1; with
    ``half_pixel_centers`` at ``(i + 1/2) · old / new - 1/2``. A coordinate before the
    first pixel, or after the last one, is moved to that pixel.

    Between two pixels, the result is interpolated linearly, with the weights in
    ``geometry.linear``. At the center of a pixel no other pixel contributes, even if it
    is infinite or NaN.""",
    **_FORWARD_RULES,
)
BILINEAR_GRAD = Kernel(
    "ResizeBilinearGrad(images?, dy: floating; geometry: Resizing) -> dx",
    doc="""The transpose of ``ResizeBilinear``: each ``dy`` is added to the pixels that
    were read, times their weights. Only the shape of ``images`` is used.""",
    **_BACKWARD_RULES,
)
NEAREST = Kernel(
    "ResizeNearestNeighbor(images; geometry: Resizing)",
    op="image.resize_nearest_neighbor",
    doc="""The pixel nearest to the coordinate of ``ResizeBilinear``; of two that are
    equally near, the later one. With neither option, the pixel at or before the
    coordinate. ``geometry.nearest`` has the indices.""",
    **_FORWARD_RULES,
)
NEAREST_GRAD = Kernel(
    "ResizeNearestNeighborGrad(images?, dy: inexact; geometry: Resizing) -> dx",
    doc="""The transpose of ``ResizeNearestNeighbor``: each ``dy`` is added to the pixel
    that was read. Only the shape of ``images`` is used.""",
    **_BACKWARD_RULES,
)


def resize_bilinear(
    images: TensorLike,
    /,
    size: Sizes,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return images of another size, interpolated between the four nearest pixels.

    Args:
        images: ``[batch, height, width, channels]``, or without the batch; real
            numbers.
        size: The new height and width, or one number for both.
        align_corners: Whether the centers of the corner pixels stay at the corners:
            pixel i is read at ``i · (old - 1) / (new - 1)``.
        half_pixel_centers: Whether pixels are squares with the center at 1/2: pixel i
            is read at ``(i + 1/2) · old / new - 1/2``. With neither option it is read
            at ``i · old / new``.

    Returns:
        ``[batch, *size, channels]``, with the dtype of ``images``; float32 for integers
        and bool.

    Raises:
        ValueError: A shape or size does not fit, or both options are given.
        TypeError: ``images`` are complex, or contain strings.

    Example:
        >>> x = pg.reshape([0.0, 1.0, 2.0, 3.0], (2, 2, 1))
        >>> pg.image.resize_bilinear(x, 3, align_corners=True).reshape((3, 3))
        Tensor([[0. , 0.5, 1. ],
                [1. , 1.5, 2. ],
                [2. , 2.5, 3. ]], dtype=float32, backend='cpu')

    Source:
        TensorFlow, ``tf.compat.v1.image.resize_bilinear``.

    """
    if unknown:
        raise unexpected(resize_bilinear, unknown)
    op = "image.resize_bilinear"
    x, back = _windows.channels_last(op, _convert.floating(op, images, "f"), 2, "NHWC")
    new = _resizing(op, x.shape, size, align_corners, half_pixel_centers)
    return back(run(BILINEAR, x, geometry=new))


def resize_nearest_neighbor(
    images: TensorLike,
    /,
    size: Sizes,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return images of another size, with the value of the nearest pixel.

    If two pixels are equally near, the later one is used. With neither option, the
    pixel at or before the coordinate is always used.

    Args:
        images: ``[batch, height, width, channels]``, or without the batch; of any
            dtype.
        size: The new height and width, or one number for both.
        align_corners: Whether corner pixels stay at the corners, as in
            ``resize_bilinear``.
        half_pixel_centers: Whether the center of a pixel is at 1/2, as in
            ``resize_bilinear``.

    Returns:
        ``[batch, *size, channels]``, with the dtype of ``images``.

    Raises:
        ValueError: A shape or size does not fit, or both options are given.

    Example:
        >>> x = pg.reshape([0, 1, 2, 3], (2, 2, 1))
        >>> pg.image.resize_nearest_neighbor(x, 3).reshape((3, 3))
        Tensor([[0, 0, 1],
                [0, 0, 1],
                [2, 2, 3]], dtype=int32, backend='cpu')

    Source:
        TensorFlow, ``tf.compat.v1.image.resize_nearest_neighbor``.

    """
    if unknown:
        raise unexpected(resize_nearest_neighbor, unknown)
    op = "image.resize_nearest_neighbor"
    x, back = _windows.channels_last(op, _convert.asarray(images), 2, "NHWC")
    new = _resizing(op, x.shape, size, align_corners, half_pixel_centers)
    return back(run(NEAREST, x, geometry=new))


@decomposition(BILINEAR)
def _(images: Tensor, *, geometry: Resizing) -> Tensor:
    for axis, (low, high, share) in enumerate(geometry.linear, 1):
        if geometry.in_shape[axis] != geometry.out_shape[axis]:
            a, b = (gather.gather(images, i, axis=axis) for i in (low, high))
            p, q = _weights(axis, share, images)
            images = a * p + b * q
    return images


@decomposition(BILINEAR_GRAD)
def _(images: Tensor | None, dy: Tensor, *, geometry: Resizing) -> Tensor:
    for axis, (low, high, share) in enumerate(geometry.linear, 1):
        if geometry.in_shape[axis] != geometry.out_shape[axis]:
            parts = [dy * weight for weight in _weights(axis, share, dy)]
            rows = np.concatenate([low, high])
            dy = _sum_by_index(shape.concat(parts, axis=axis), rows, axis, geometry)
    return dy


def _weights(axis: int, share: Any, x: Tensor) -> list[Tensor]:
    """Return the weights of the pixels before and after each position along an axis."""
    after = share.reshape(-1, *(1,) * (3 - axis))
    return [_sampling.constant(w, x.dtype) for w in (1 - after, after)]


def _sum_by_index(dy: Tensor, rows: Any, axis: int, geometry: Resizing) -> Tensor:
    """Sum the cotangents that belong to the same row or column of the old images."""
    old = Spec((*dy.shape[:axis], geometry.in_shape[axis]), dy.dtype)
    indices = _convert.tensor_of(rows, copy=False)
    return gather._gather_gradient(dy, indices, old, axis, 0)


@decomposition(NEAREST)
def _(images: Tensor, *, geometry: Resizing) -> Tensor:
    for axis, rows in enumerate(geometry.nearest, 1):
        images = gather.gather(images, rows, axis=axis)
    return images


@decomposition(NEAREST_GRAD)
def _(images: Tensor | None, dy: Tensor, *, geometry: Resizing) -> Tensor:
    for axis, rows in enumerate(geometry.nearest, 1):
        dy = _sum_by_index(dy, rows, axis, geometry)
    return dy


def _register_transposes(to: Kernel, back: Kernel) -> None:
    """Register a resizing and its transpose as gradients of each other."""
    gradients(to, images=lambda dy, geometry: run(back, None, dy, geometry=geometry))
    gradients(back, images=None)  # only the shape of images is used
    gradients(back, dy=lambda ddx, geometry: run(to, ddx, geometry=geometry))


_register_transposes(BILINEAR, BILINEAR_GRAD)
_register_transposes(NEAREST, NEAREST_GRAD)


# --- boxes -----------------------------------------------------------------------


CROP = "image.crop_and_resize"


def _check_boxes(boxes: Tensor | Spec, box_ind: Tensor | Spec) -> None:
    if len(box_ind.shape) != 1 or boxes.shape != (*box_ind.shape, 4):
        raise misfit(CROP, "boxes and box_ind must be (n, 4) and (n,)", boxes, box_ind)


def _crop_spec(
    image: Spec, boxes: Spec, box_ind: Spec, *, crop_size: Shape, **more: Any
) -> Spec:
    _sampling.check_image(CROP, image)
    _check_boxes(boxes, box_ind)
    slicing.constant(CROP, more["extrapolation_value"], image.dtype)
    size = geometry._positive_integers(CROP, "crop_size", crop_size, 2)
    return Spec((boxes.shape[0], *size, image.shape[3]), image.dtype)


CROP_AND_RESIZE = Kernel(
    "CropAndResize(image: floating, boxes: floating, box_ind: integer; "
    "crop_size: ints, method: 'bilinear' | 'nearest', extrapolation_value: float)",
    out=_crop_spec,
    checks="box_ind",
    op=CROP,
    doc="""Row i of m is read at
    ``(y1 · (m - 1 - i) + y2 · i) · (height - 1) / (m - 1)`` of image ``box_ind``, for a
    box (y1, x1, y2, x2); a single row at ``(y1 + y2) · (height - 1) / 2``. The same
    holds for columns.

    "bilinear" interpolates between the surrounding pixels; pixels with weight 0 do not
    contribute, even if they are infinite or NaN. "nearest" takes the nearest pixel;
    halves round up. A coordinate that is NaN, before the first pixel or after the last
    one gives ``extrapolation_value``.""",
)


def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_ind: TensorLike,
    /,
    crop_size: Sizes,
    *,
    method: Method = "bilinear",
    extrapolation_value: float = 0,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the parts of images inside boxes, all resized to the same size.

    Args:
        image: ``[batch, height, width, channels]``, real numbers.
        boxes: ``[count, 4]``, rows of (y1, x1, y2, x2), where 0 is the center of the
            first pixel and 1 that of the last. ``y1 > y2`` flips the part upside down.
        box_ind: ``[count]``, integers: the index of the image for each box.
        crop_size: Height and width of the result, or one number for both.
        method: How to interpolate: ``"bilinear"``, or ``"nearest"``, where halves round
            up.
        extrapolation_value: The value outside the image.

    Returns:
        ``[count, *crop_size, channels]``, with the dtype of ``image``; float32 for
        integers and bool. It has a gradient with respect to ``image`` and, for
        ``"bilinear"``, ``boxes``.

    Raises:
        IndexError: An index in ``box_ind`` is out of range.
        ValueError: Shapes or attributes do not fit.
        TypeError: ``image`` or ``boxes`` are complex or strings, or ``box_ind`` does
            not contain integers.

    Example:
        >>> x = pg.reshape(pg.arange(9.0), (1, 3, 3, 1))
        >>> y = pg.image.crop_and_resize(x, [[0.0, 0.0, 0.5, 0.5]], [0], 2)
        >>> y.reshape((2, 2))
        Tensor([[0., 1.],
                [3., 4.]], dtype=float32, backend='cpu')

    Source:
        TensorFlow, ``tf.image.crop_and_resize``.

    """
    if unknown:
        raise unexpected(crop_and_resize, unknown)
    image, boxes = _sampling.arguments(CROP, image, boxes)
    box_ind = _convert.integer_tensor(CROP, "box_ind", box_ind)
    _check_boxes(boxes, box_ind)
    attrs = {
        "crop_size": geometry._positive_integers(CROP, "crop_size", crop_size, 2),
        "method": choice(CROP, "method", method, *get_args(Method)),
        "extrapolation_value": slicing.constant(CROP, extrapolation_value, image.dtype),
    }
    return run(CROP_AND_RESIZE, image, boxes, box_ind, **attrs)


@decomposition(CROP_AND_RESIZE)
def _(
    image: Tensor,
    boxes: Tensor,
    box_ind: Tensor,
    *,
    crop_size: Shape,
    method: str,
    extrapolation_value: float,
) -> Tensor:
    images = _sampling.constant(np.arange(image.shape[0]), INT32)
    # GatherV2 raises an IndexError if an index is out of range.
    box_ind = run(gather.GATHER_V2, images, box_ind, axis=0, batch_dims=0)
    grid = _sampling.box_grid(image, boxes, box_ind, crop_size)
    with gather.range_errors("image.crop_and_resize", box_ind, image.shape[:1]):
        return _sampling.sampled(image, grid, method, extrapolation_value)


def _crop_gradient(
    dy: Tensor, boxes: Tensor, box_ind: Tensor, image_spec: Spec, method: str
) -> Tensor:
    grid = _sampling.box_grid(image_spec, boxes, box_ind, dy.shape[1:3])
    return _sampling.image_gradient(dy, grid, method)


def _boxes_gradient(
    dy: Tensor, image: Tensor, boxes: Tensor, box_ind: Tensor, method: str
) -> Tensor:
    if method == "nearest":
        return boxes.zeros_like()
    grid = _sampling.box_grid(image, boxes, box_ind, dy.shape[1:3])
    return _sampling.boxes_gradient(
        *_sampling.coordinate_gradients(dy, image, grid, 0), grid
    )


gradients(CROP_AND_RESIZE, image=_crop_gradient, boxes=_boxes_gradient, box_ind=None)


# --- transforms ------------------------------------------------------------------


def _check_transforms(image: Tensor | Spec, transforms: Tensor | Spec) -> None:
    if transforms.shape not in ((1, 8), (image.shape[0], 8)):
        rule = "transforms must be (1, 8) or (batch, 8)"
        raise misfit("image.transform", rule, transforms, image)


def _transform_spec(
    image: Spec, transforms: Spec, *, fill_value: float, output_shape: Shape, **_: Any
) -> Spec:
    _sampling.check_image("image.transform", image)
    _check_transforms(image, transforms)
    slicing.constant("image.transform", fill_value, image.dtype)
    size = geometry._positive_integers(
        "image.transform", "output_shape", output_shape, 2
    )
    return Spec((image.shape[0], *size, image.shape[3]), image.dtype)


TRANSFORM = Kernel(
    "Transform(image: floating, transforms: floating; "
    "interpolation: 'bilinear' | 'nearest', "
    "fill_mode: 'constant' | 'reflect' | 'wrap' | 'nearest', fill_value: float, "
    "output_shape: ints)",
    out=_transform_spec,
    op="image.transform",
    doc="""Pixel (x, y) of the result is read at ``((a·x + b·y + c) / k, (d·x + e·y + f)
    / k)`` with ``k = g·x + h·y + 1``, for a transform (a, b, ..., h). "bilinear" and
    "nearest" are as in ``CropAndResize``. Coordinates that are not finite give
    ``fill_value``.

    ``fill_mode`` determines what surrounds an image (a b c d). "constant" stands for
    ``fill_value``, towards which "bilinear" interpolates up to a pixel away; "reflect"
    for (d c b a | a b c d | d c b a); "wrap" for (a b c d | a b c d | a b c d); and
    "nearest" for (a a a a | a b c d | d d d d).""",
)


def transform(
    image: TensorLike,
    transforms: TensorLike,
    /,
    *,
    interpolation: Method = "nearest",
    fill_mode: FillMode = "constant",
    fill_value: float = 0,
    output_shape: Sizes | None = None,
) -> Tensor:
    """Return projective transforms of images.

    Pixel (x, y) of the result is read at ``((a·x + b·y + c) / k, (d·x + e·y + f) / k)``
    of the image, where ``k = g·x + h·y + 1``.

    Args:
        image: ``[batch, height, width, channels]``, real numbers.
        transforms: ``[batch, 8]``, rows of (a, b, c, d, e, f, g, h), or ``[1, 8]`` for
            all images.
        interpolation: How to interpolate: ``"nearest"``, where halves round up, or
            ``"bilinear"``.
        fill_mode: The values outside the image: ``"constant"`` stands for
            ``fill_value``, ``"reflect"`` for the mirrored image (d c b a | a b c d | d
            c b a), ``"wrap"`` for the repeated image (a b c d | a b c d | a b c d), and
            ``"nearest"`` for the pixel at the edge (a a a a | a b c d | d d d d).
        fill_value: The value outside the image with ``"constant"``; in all modes, also
            the value where k is 0.
        output_shape: Height and width of the result; by default those of the image.

    Returns:
        ``[batch, *output_shape, channels]``, with the dtype of ``image``; float32 for
        integers and bool. It has a gradient with respect to ``image`` and, for
        ``"bilinear"``, ``transforms``.

    Raises:
        ValueError: Shapes or attributes do not fit.
        TypeError: ``image`` or ``transforms`` are complex or strings.

    Example:
        >>> x = pg.reshape(pg.arange(4.0), (1, 2, 2, 1))
        >>> shift = [[1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]]
        >>> pg.image.transform(x, shift).reshape((2, 2))
        Tensor([[1., 0.],
                [3., 0.]], dtype=float32, backend='cpu')

    Source:
        TensorFlow Addons, ``tfa.image.transform``.

    """
    op = "image.transform"
    image, transforms = _sampling.arguments(op, image, transforms)
    _check_transforms(image, transforms)
    size = image.shape[1:3] if output_shape is None else output_shape
    attrs = {
        "interpolation": choice(op, "interpolation", interpolation, *get_args(Method)),
        "fill_mode": choice(op, "fill_mode", fill_mode, *get_args(FillMode)),
        "fill_value": slicing.constant(op, fill_value, image.dtype),
        "output_shape": geometry._positive_integers(op, "output_shape", size, 2),
    }
    return run(TRANSFORM, image, transforms, **attrs)


@decomposition(TRANSFORM)
def _(
    image: Tensor,
    transforms: Tensor,
    *,
    interpolation: str,
    fill_mode: str,
    fill_value: float,
    output_shape: Shape,
) -> Tensor:
    grid = _sampling.transform_grid(image, transforms, fill_mode, output_shape)
    return _sampling.sampled(image, grid, interpolation, fill_value)


def _image_gradient(
    dy: Tensor, transforms: Tensor, image_spec: Spec, interpolation: str, fill_mode: str
) -> Tensor:
    grid = _sampling.transform_grid(image_spec, transforms, fill_mode, dy.shape[1:3])
    return _sampling.image_gradient(dy, grid, interpolation)


def _transforms_gradient(
    dy: Tensor,
    image: Tensor,
    transforms: Tensor,
    interpolation: str,
    fill_mode: str,
    fill_value: float,
) -> Tensor:
    if interpolation == "nearest":
        return transforms.zeros_like()
    grid = _sampling.transform_grid(image, transforms, fill_mode, dy.shape[1:3])
    places = _sampling.coordinate_gradients(dy, image, grid, fill_value)
    return _sampling.transforms_gradient(*places, transforms, grid, fill_mode)


gradients(TRANSFORM, image=_image_gradient, transforms=_transforms_gradient)
