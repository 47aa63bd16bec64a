"""How the golden cases reach the ops of ``resize``."""

import plugrad as pg


def options(alignCorners=False, halfPixelCenters=False):
    """Convert TensorFlow.js attributes to keyword arguments."""
    return {"align_corners": alignCorners, "half_pixel_centers": halfPixelCenters}


def grad(kernel):
    """Run the gradient kernel of a resizing op; ``dy`` has the new size."""
    return lambda images, dy, size, **given: pg.run_kernel(
        kernel, [images, dy], options(**given)
    )


def crop_and_resize(
    image, boxes, boxInd, cropSize, method="bilinear", extrapolationValue=0
):
    return pg.image.crop_and_resize(
        image,
        boxes,
        boxInd,
        cropSize,
        method=method,
        extrapolation_value=extrapolationValue,
    )


def transform(
    image,
    transforms,
    interpolation="nearest",
    fillMode="constant",
    fillValue=0,
    outputShape=None,
):
    return pg.image.transform(
        image,
        transforms,
        interpolation=interpolation,
        fill_mode=fillMode,
        fill_value=fillValue,
        output_shape=outputShape,
    )


KERNELS = {
    "CropAndResize": crop_and_resize,
    "ResizeBilinear": lambda images, size, **given: pg.image.resize_bilinear(
        images, size, **options(**given)
    ),
    "ResizeBilinearGrad": grad("ResizeBilinearGrad"),
    "ResizeNearestNeighbor": lambda images, size, **given: (
        pg.image.resize_nearest_neighbor(images, size, **options(**given))
    ),
    "ResizeNearestNeighborGrad": grad("ResizeNearestNeighborGrad"),
    "Transform": transform,
}

OPS = {
    "resizeBilinear": lambda images, size, *given: pg.image.resize_bilinear(
        images, size, **options(*given)
    ),
    "resizeNearestNeighbor": lambda images, size, *given: (
        pg.image.resize_nearest_neighbor(images, size, **options(*given))
    ),
    "transform": transform,
}
