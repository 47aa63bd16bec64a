"""Images: resizing, cropping, rotation, colors, and boxes."""

from ._src.ops.image.image import (
    __doc__ as __doc__,
)
from ._src.ops.image.image import (
    crop_and_resize,
    flip_left_right,
    flip_up_down,
    from_pixels,
    grayscale_to_rgb,
    grid_sample,
    non_max_suppression,
    non_max_suppression_padded,
    non_max_suppression_with_score,
    resize_bicubic,
    resize_bilinear,
    resize_nearest_neighbor,
    rgb_to_grayscale,
    rotate_with_offset,
    threshold,
    to_pixels,
    transform,
)
from ._src.public import publish

__all__ = [
    "crop_and_resize",
    "flip_left_right",
    "flip_up_down",
    "from_pixels",
    "grayscale_to_rgb",
    "grid_sample",
    "non_max_suppression",
    "non_max_suppression_padded",
    "non_max_suppression_with_score",
    "resize_bicubic",
    "resize_bilinear",
    "resize_nearest_neighbor",
    "rgb_to_grayscale",
    "rotate_with_offset",
    "threshold",
    "to_pixels",
    "transform",
]

publish(globals())
