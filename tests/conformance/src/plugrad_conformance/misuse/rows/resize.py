"""Valid calls of kernels that resize and read images."""

from .. import call, floats, ints

_CORNERS = {"align_corners": True, "half_pixel_centers": False}
_CENTERS = {"align_corners": False, "half_pixel_centers": True}

CALLS = {
    "CropAndResize": call(
        floats(2, 5, 6, 3),
        floats(7, 4),
        ints(7),
        crop_size=(2, 4),
        method="bilinear",
        extrapolation_value=0.5,
    ),
    "ResizeBilinear": call(floats(2, 5, 6, 3), size=(4, 7), **_CORNERS),
    "ResizeBilinearGrad": call(floats(2, 5, 6, 3), floats(2, 4, 7, 3), **_CENTERS),
    "ResizeNearestNeighbor": call(floats(2, 5, 6, 3), size=(4, 7), **_CENTERS),
    "ResizeNearestNeighborGrad": call(
        None, floats(2, 4, 7, 3), **_CORNERS, in_shape=(2, 5, 6, 3)
    ),
    "Transform": call(
        floats(2, 5, 6, 3),
        floats(2, 8),
        interpolation="bilinear",
        fill_mode="reflect",
        fill_value=0.5,
        output_shape=(4, 7),
    ),
}
