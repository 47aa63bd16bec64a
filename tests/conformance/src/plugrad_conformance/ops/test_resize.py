"""Resizing, crops and transforms, compared with exact fractions or pixel loops."""

import functools
import math
from fractions import Fraction

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts

from ..check import check_gradients
from .moves import decomposed

RNG = np.random.default_rng(0)
HALF = {"half_pixel_centers": True}
ALIGN = {"align_corners": True}


def close(y, expected, rtol=1e-6, atol=1e-6):
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=atol, strict=True)


# --- resizing --------------------------------------------------------------------


def source_coordinate(i, old, new, align_corners=False, half_pixel_centers=False):
    if align_corners and new > 1:
        return Fraction(i * (old - 1), new - 1)
    center = Fraction(1, 2) if half_pixel_centers else 0
    return (i + center) * Fraction(old, new) - center


@functools.cache
def linear(old, new, **options):
    """Return the weight of each old pixel in each new pixel, as a matrix."""
    weights = np.zeros((new, old))
    for i in range(new):
        v = min(max(source_coordinate(i, old, new, **options), 0), old - 1)
        low = math.floor(v)
        weights[i, low] += float(1 - (v - low))
        weights[i, math.ceil(v)] += float(v - low)
    return weights


@functools.cache
def nearest(old, new, **options):
    weights = np.zeros((new, old))
    for i in range(new):
        v = source_coordinate(i, old, new, **options) + (
            Fraction(1, 2) if options else 0
        )
        weights[i, min(math.floor(v), old - 1)] = 1
    return weights


def apply_weights(weight_matrix, x, size, **options):
    (_, h, w, _), (p, q) = x.shape, size
    rows = weight_matrix(h, p, **options)
    columns = weight_matrix(w, q, **options)
    return np.einsum("bijc,pi,qj->bpqc", x.astype(float), rows, columns)


SIZES = [
    ((2, 3, 4, 2), (5, 3)),
    ((1, 4, 5, 3), (4, 9)),
    ((1, 7, 3, 1), (2, 1)),
    ((3, 1, 1, 2), (4, 3)),
    ((1, 6, 6, 20), (1, 13)),
    ((0, 2, 3, 1), (4, 4)),
    ((0, 2, 3, 5), (4, 4)),  # all channels of a pixel are copied together
    ((2, 2, 3, 0), (4, 4)),
    ((1, 49, 49, 1), (98, 25)),
]
OPTIONS = [{}, HALF, ALIGN]
OPS = [
    (pg.image.resize_bilinear, linear, "ResizeBilinear"),
    (pg.image.resize_nearest_neighbor, nearest, "ResizeNearestNeighbor"),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("shape", "size"), SIZES, ids=str)
@pytest.mark.parametrize(("op", "weight_matrix", "kernel"), OPS)
def test_resizing(op, weight_matrix, kernel, shape, size, options, dtype, backend):
    x = RNG.integers(0, 200, shape).astype(dtype)
    expected = apply_weights(weight_matrix, x, size, **options)
    floating = dtype[0] == "f" or weight_matrix is nearest
    expected = expected.astype(dtype if floating else "float32")
    rtol = 3e-3 if dtype == "float16" and weight_matrix is linear else 1e-6
    with pg.debug(finite=False):
        close(op(x, size, **options), expected, rtol)
    with decomposed(kernel):
        close(op(x, size, **options), expected, rtol)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("shape", "size"), SIZES[:6], ids=str)
@pytest.mark.parametrize(("op", "weight_matrix", "kernel"), OPS)
def test_the_transpose_of_resizing(
    op, weight_matrix, kernel, shape, size, options, backend
):
    dy = RNG.normal(size=(shape[0], *size, shape[3]))
    transposed = lambda old, new, **options: weight_matrix(new, old, **options).T
    expected = apply_weights(transposed, dy, shape[1:3], **options)
    for dtype in ("float64", "float32", "float16"):
        given = pg.asarray(dy.astype(dtype))
        rtol = 1e-2 if dtype == "float16" else 1e-5
        run = lambda images, given=given, **extra_attrs: pg.run_kernel(
            f"{kernel}Grad", [images, given], {**options, **extra_attrs}
        )
        with pg.debug(finite=False):
            dx = run(pg.zeros(shape))
        close(dx, expected.astype(dtype), rtol, rtol)
        close(run(None, in_shape=shape), dx.numpy(), 0, 0)
        with decomposed(f"{kernel}Grad"):
            close(run(pg.zeros(shape)), expected.astype(dtype), rtol, rtol)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("shape", "size"), SIZES[:5], ids=str)
@pytest.mark.parametrize(("op", "weight_matrix", "kernel"), OPS)
def test_gradients_of_resizing(
    op, weight_matrix, kernel, shape, size, options, backend
):
    x = RNG.normal(size=shape)
    check_gradients(lambda x: pg.square(op(x, size, **options)), x)


def test_resize_gradient_kernels_have_gradients(backend):
    x = pg.zeros((1, 3, 3, 1), dtype="float64")
    for kernel in ("ResizeBilinearGrad", "ResizeNearestNeighborGrad"):
        f = lambda dy, k=kernel: pg.square(pg.run_kernel(k, [x, dy], ALIGN))
        check_gradients(f, RNG.normal(size=(1, 5, 4, 1)))


def test_images_without_a_batch_and_one_size_for_both_axes(backend):
    x = RNG.normal(size=(3, 4, 2))
    for op, *_ in OPS:
        y = op(x, 6)
        assert y.shape == (6, 6, 2)
        np.testing.assert_array_equal(y.numpy(), op(x[None], (6, 6)).numpy()[0])


def test_images_of_the_requested_size_are_copied_exactly(backend):
    x = np.array([np.nan, np.inf, -np.inf, 3e38, -0.0, 1e-45], "float32")
    for op, *_ in OPS:
        for options in OPTIONS:
            y = op(x.reshape(1, 2, 3, 1), (2, 3), **options).numpy()
            assert y.tobytes() == x.tobytes()


@pytest.mark.parametrize("without", ["none", "ResizeBilinear"])
def test_infinite_and_huge_pixels(without, backend):
    """An infinite pixel affects only the new pixels next to it; nothing overflows.

    At the infinite pixel itself, the result is infinite and not NaN.
    """
    x = np.array([1, np.inf, 2, np.nan, 3, -np.inf], "float32").reshape(1, 1, 6, 1)
    huge = np.array([3e38, -3e38], "float32").reshape(1, 2, 1, 1)
    with decomposed(without) if without != "none" else pg.use_backend(backend):
        y = pg.image.resize_bilinear(x, (1, 11), **ALIGN).numpy().ravel()
        z = pg.image.resize_bilinear(huge, (5, 1), **ALIGN).numpy().ravel()
    inf, nan = np.inf, np.nan
    expected = [1, inf, inf, inf, 2, nan, nan, nan, 3, -inf, -inf]
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_allclose(z, np.float32([3e38, 1.5e38, 0, -1.5e38, -3e38]))


def test_infinite_cotangents_reach_only_the_pixels_that_were_read(backend):
    """The gradient sums over the pixels that were read; it never multiplies by zero."""
    dy = np.zeros((1, 1, 11, 1), "float32")
    dy[0, 0, 4], dy[0, 0, 9] = np.inf, np.nan
    f = lambda x: pg.image.resize_bilinear(x, (1, 11), **ALIGN)
    dx = pg.grad(f)(pg.zeros((1, 1, 6, 1)), dy=pg.asarray(dy)).numpy().ravel()
    np.testing.assert_array_equal(dx, [0, 0, np.inf, 0, np.nan, np.nan])


def test_source_coordinates_are_exact(backend):
    """Coordinates are not rounded: multiples of the scale lie exactly on pixels."""
    for old, new in ((3, 9), (7, 49), (49, 7), (100, 300), (23, 161)):
        x = np.arange(old).reshape(1, old, 1, 1)
        y = pg.image.resize_nearest_neighbor(x, (new, 1)).numpy().ravel()
        np.testing.assert_array_equal(y, np.arange(new) * old // new)


X = np.zeros((1, 3, 4, 2), "float32")
ERRORS = [
    (lambda op: op(X, (3, 4), **HALF, **ALIGN), "or half_pixel_centers, not both"),
    (lambda op: op(X, (3, 4, 5)), r"size must be a positive integer, or 2 of them"),
    (lambda op: op(X, (0, 4)), r"size must be a positive .* got \(0, 4\)"),
    (lambda op: op(X[0, 0], 4), r"must have rank 4, or 3 without a batch; got shape"),
    (lambda op: op(X[:, :0], 4), r"images of shape \(1, 0, 4, 2\) have no pixels"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_of_resizing(call, message, backend):
    for op, *_ in OPS:
        with pytest.raises(ValueError, match=f"^image.{op.__name__}: .*{message}"):
            call(op)


def test_more_errors_of_resizing(backend):
    with pytest.raises(TypeError, match=r"resize_bilinear: there is no .* of complex"):
        pg.image.resize_bilinear(X.astype("complex64"), 2)
    with pytest.raises(TypeError, match="size must be integers"):
        pg.image.resize_bilinear(X, (1.5, 2))
    with pytest.raises(ValueError, match="geometry: dy must have shape"):
        pg.run_kernel("ResizeBilinearGrad", [pg.asarray(X), pg.zeros((2, 5, 5, 2))], {})
    y = pg.image.resize_nearest_neighbor(X.astype("complex64"), 2)
    assert y.dtype == np.complex64


def test_strings_are_resized(backend):
    x = pg.asarray(np.array([b"a", b"b"], object).reshape(1, 1, 2, 1))
    y = pg.image.resize_nearest_neighbor(x, (1, 3))
    assert y.numpy().ravel().tolist() == [b"a", b"a", b"b"]


# --- crops -----------------------------------------------------------------------


def interpolated(image, y, x, method, fill):
    """Return the interpolated value of an image at a coordinate."""
    h, w, _ = image.shape
    if not (0 <= y <= h - 1 and 0 <= x <= w - 1):
        return np.full(image.shape[2], fill)
    if method == "nearest":
        return image[math.floor(y + 0.5), math.floor(x + 0.5)]
    total = 0
    for i in {math.floor(y), math.ceil(y)}:
        for j in {math.floor(x), math.ceil(x)}:
            total += (1 - abs(i - y)) * (1 - abs(j - x)) * image[i, j]
    return total


def box_coordinate(i, count, a, b, size):
    fraction = i / (count - 1) if count > 1 else 0.5
    return (a + (b - a) * fraction) * (size - 1)


def cropped(image, boxes, box_ind, crop_size, method="bilinear", fill=0):
    h, w, c = image.shape[1:]
    y = np.zeros((len(boxes), *crop_size, c))
    for n, i, j in np.ndindex(*y.shape[:3]):
        y1, x1, y2, x2 = boxes[n].tolist()
        at = (
            box_coordinate(i, crop_size[0], y1, y2, h),
            box_coordinate(j, crop_size[1], x1, x2, w),
        )
        y[n, i, j] = interpolated(image[box_ind[n]], *at, method, fill)
    return y


BOXES = [
    [[0, 0, 1, 1]],
    [[0.1, 0.2, 0.83, 0.9], [0.9, 0.7, 0.15, 0.05], [0.3, 0.3, 0.3, 0.3]],
    [[-0.51, 0.1, 1.23, 0.7], [0.2, -2, 0.77, 3], [2, 2, 3, 3]],
    [[0.2, np.nan, 0.9, 1], [0, 0, np.inf, 1], [0.1, -np.inf, 0.93, 0.8]],
    np.zeros((0, 4)),
]
CROPS = [
    ((2, 5, 4, 3), (3, 4)),
    ((3, 1, 6, 1), (1, 5)),
    ((2, 7, 7, 2), (6, 1)),
    ((1, 3, 4, 12), (2, 3)),
    ((1, 3, 3, 0), (2, 2)),
]


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize(("shape", "size"), CROPS, ids=str)
@pytest.mark.parametrize("boxes", BOXES, ids=lambda b: str(len(b)))
@pytest.mark.parametrize("fill", [0, -1.5, np.nan])
def test_crops(boxes, shape, size, method, fill, backend):
    image = RNG.normal(size=shape)
    boxes = np.array(boxes)
    box_ind = np.arange(len(boxes)) % shape[0]
    options = {"method": method, "extrapolation_value": fill}
    expected = cropped(image, boxes, box_ind, size, method, fill)
    for dtype, rtol in (("float64", 1e-12), ("float32", 1e-5), ("float16", 1e-2)):
        x = image.astype(dtype)
        crop = lambda x=x: pg.image.crop_and_resize(x, boxes, box_ind, size, **options)
        with pg.debug(finite=False):
            close(crop(), expected.astype(dtype), rtol, rtol)
        with decomposed("CropAndResize"):
            close(crop(), expected.astype(dtype), rtol, rtol)


def test_a_box_around_the_whole_image_reads_no_pixel_outside(backend):
    """The last coordinate is the last pixel: rounding does not move it outside."""
    for n in (*range(1, 30), 97, 200, 1000):
        x = np.full((1, n, n, 1), 2.0, "float32")
        box = np.array([[0, 0, 1, 1], [1, 1, 0, 0]], "float32")
        for count in (2, 3, 50, 321):
            y = pg.image.crop_and_resize(
                x, box, [0, 0], (count, 1), extrapolation_value=np.nan
            )
            assert not np.isnan(y.numpy()).any(), (n, count)
            z = pg.image.crop_and_resize(x, box, [0, 0], (n, 1), method="nearest")
            assert (z.numpy() == 2).all()


@pytest.mark.parametrize("decompose", [False, True])
def test_a_coordinate_on_a_pixel_ignores_other_pixels(decompose, backend):
    x = np.array([1, np.inf, 2, np.nan, 3], "float32").reshape(1, 1, 5, 1)
    with decomposed("CropAndResize") if decompose else pg.use_backend(backend):
        y = pg.image.crop_and_resize(x, [[0, 0, 0, 1]], [0], (1, 5)).numpy()
        np.testing.assert_array_equal(y.ravel(), x.ravel())


def test_integers_are_cropped_as_float32(backend):
    x = np.arange(4).reshape(1, 2, 2, 1)
    y = pg.image.crop_and_resize(x, [[0, 0, 1, 1]], [0], 3)
    assert (y.dtype, y.numpy()[0, 1].ravel().tolist()) == (np.float32, [1, 1.5, 2])


@pytest.mark.parametrize("boxes", BOXES[:3], ids=lambda b: str(len(b)))
@pytest.mark.parametrize(("shape", "size"), CROPS, ids=str)
def test_gradients_of_crops(boxes, shape, size, backend):
    boxes = np.array(boxes) + 0.013  # between pixels
    box_ind = np.arange(len(boxes)) % shape[0]
    f = lambda image, boxes: pg.square(
        pg.image.crop_and_resize(image, boxes, box_ind, size, extrapolation_value=0.5)
    )
    check_gradients(f, RNG.normal(size=shape), boxes, rtol=1e-4)
    g = lambda image: pg.square(
        pg.image.crop_and_resize(image, boxes, box_ind, size, method="nearest")
    )
    check_gradients(g, RNG.normal(size=shape))


def test_the_derivative_of_boxes_on_pixels(backend):
    """A ramp is smooth everywhere, even on pixels and on the last pixel."""
    ramp = 3.0 * np.arange(5).reshape(1, 5, 1, 1) + np.arange(4).reshape(1, 1, 4, 1)
    f = lambda boxes: pg.image.crop_and_resize(ramp, boxes, [0], (5, 4))
    dy = RNG.normal(size=(1, 5, 4, 1))
    given = pg.asarray([[0.0, 0.0, 1.0, 1.0]])
    dx = pg.grad(f)(given, dy=pg.asarray(dy)).numpy()
    down = np.arange(5)[:, None] / 4
    right = np.arange(4) / 3
    slopes = [12 * (1 - down), 3 * (1 - right), 12 * down, 3 * right]
    expected = [np.sum(dy[0, :, :, 0] * slope) for slope in slopes]
    np.testing.assert_allclose(dx[0], expected, rtol=1e-4)


def test_boxes_outside_the_image_have_no_gradient(backend):
    boxes = pg.asarray([[0.0, np.nan, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]])
    image = pg.asarray(np.full((1, 3, 3, 1), np.inf, "float32"))
    f = lambda image, boxes: pg.image.crop_and_resize(image, boxes, [0, 0], 2)
    dimage, dboxes = pg.grads(f)(image, boxes, dy=pg.full((2, 2, 2, 1), np.nan))
    assert not dimage.numpy().any()
    assert not dboxes.numpy().any()
    nearest_crop = lambda b: pg.image.crop_and_resize(
        image, b, [0, 0], 2, method="nearest"
    )
    assert not pg.grad(nearest_crop)(boxes, dy=pg.ones((2, 2, 2, 1))).numpy().any()


def test_box_indices_out_of_range():
    x = np.zeros((2, 2, 2, 1), "float32")
    with pg.use_backend("cpu"):
        for bad in (2, -1, 2**31 - 1, -(2**31)):  # the product with 4 pixels would wrap
            with pytest.raises(IndexError, match=f"index {bad} is out of range for a"):
                pg.image.crop_and_resize(x, [[5, 5, 6, 6]], pg.asarray([bad]), 2)
            with decomposed("CropAndResize"), pytest.raises(IndexError):
                pg.image.crop_and_resize(x, [[5, 5, 6, 6]], pg.asarray([bad]), 2)


# --- transforms ------------------------------------------------------------------


def map_outside(v, size, mode):
    """Return the coordinate in the image to which a mode maps ``v``."""
    if mode == "reflect":
        v = v % (2 * size)
        return min(max(min(v, 2 * size - 1 - v), 0), size - 1)
    if mode == "wrap":
        return v % size
    return min(max(v, 0), size - 1) if mode == "nearest" else v


def transformed(image, transforms, size, method, mode, fill):
    b, h, w, c = image.shape
    y = np.zeros((b, *size, c))

    def pixel(n, i, j):
        i, j = (i % h, j % w) if mode == "wrap" else (i, j)
        return image[n, i, j] if 0 <= i < h and 0 <= j < w else np.full(c, fill)

    for n, q, p in np.ndindex(*y.shape[:3]):
        a = transforms[n % len(transforms)].tolist()
        k = a[6] * p + a[7] * q + 1
        if k == 0:
            y[n, q, p] = fill
            continue
        u = map_outside((a[0] * p + a[1] * q + a[2]) / k, w, mode)
        v = map_outside((a[3] * p + a[4] * q + a[5]) / k, h, mode)
        if method == "nearest":
            y[n, q, p] = pixel(n, math.floor(v + 0.5), math.floor(u + 0.5))
            continue
        i = math.floor(v)
        j = math.floor(u)
        for di, dj in np.ndindex(2, 2):
            weight = abs(1 - di - (v - i)) * abs(1 - dj - (u - j))
            y[n, q, p] += weight and weight * pixel(n, i + di, j + dj)
    return y


TRANSFORMS = {
    "shift": [[1, 0, 1.3, 0, 1, -0.6, 0, 0]],
    "far": [[1, 0, 21.3, 0, 1, -33.6, 0, 0]],
    "turn": [[0.8, -0.6, 1.1, 0.6, 0.8, -0.7, 0, 0]],
    "bend": [[1.1, 0.2, -0.3, 0.1, 0.9, 0.4, 0.05, -0.125]],
    "two": [[2.1, 0, 0.17, 0, -1.3, 3.1, 0, 0], [0.5, 0.1, 0.2, 0.3, 0.4, 0, -1, 0]],
}
MODES = ["constant", "reflect", "wrap", "nearest"]
IMAGES = [((2, 4, 5, 2), (6, 3)), ((2, 1, 3, 1), None), ((2, 3, 2, 9), (2, 2))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["nearest", "bilinear"])
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize(("shape", "size"), IMAGES)
def test_transforms(name, method, mode, shape, size, backend):
    image = RNG.normal(size=shape)
    transforms = np.array(TRANSFORMS[name], float)
    size = size or shape[1:3]
    options = {"interpolation": method, "fill_mode": mode, "fill_value": 0.25}
    options |= {"output_shape": size} if size != shape[1:3] else {}
    expected = transformed(image, transforms, size, method, mode, 0.25)
    f = lambda image, transforms: pg.image.transform(image, transforms, **options)
    with pg.debug(finite=False):
        close(f(image, transforms), expected, 1e-9, 1e-9)
    with decomposed("Transform"):
        close(f(image, transforms), expected, 1e-9, 1e-9)
    y = f(image.astype("float16"), transforms)
    close(y, expected.astype("float16"), 1e-2, 1e-2)
    if method == "bilinear":
        single = f(image.astype("float32"), transforms.astype("float32"))
        close(single, expected.astype("float32"), 1e-4, 1e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_gradients_of_transforms(name, mode, backend):
    transforms = np.array(TRANSFORMS[name]) + 0.0123
    options = {"fill_mode": mode, "fill_value": 0.5, "output_shape": (3, 4)}
    f = lambda image, transforms: pg.square(
        pg.image.transform(image, transforms, interpolation="bilinear", **options)
    )
    image = RNG.normal(size=(2, 4, 3, 2))
    check_gradients(f, image, transforms, eps=1e-7, rtol=1e-4)
    g = lambda image: pg.square(pg.image.transform(image, transforms, **options))
    check_gradients(g, image)
    h = lambda t: pg.image.transform(image, t, **options)
    dy = pg.ones((2, 3, 4, 2), dtype="float64")
    assert not pg.grad(h)(pg.asarray(transforms), dy=dy).numpy().any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("decompose", [False, True])
def test_undefined_coordinates_are_filled(decompose, mode, backend):
    """The divisor is 0 at one pixel, and coordinates are infinite or NaN."""
    image = np.arange(1, 5, dtype="float32").reshape(1, 2, 2, 1)
    options = {"interpolation": "bilinear", "fill_mode": mode, "fill_value": np.nan}
    zero = [[1, 0, 0, 0, 1, 0, -1, 0]]
    f = lambda t: pg.image.transform(image, t, **options)
    with decomposed("Transform") if decompose else pg.use_backend(backend):
        y = f(zero).numpy()[0, :, :, 0]
        np.testing.assert_array_equal(y, [[1, np.nan], [3, np.nan]])
        for bad in (np.nan, np.inf):
            y = f(np.array([[1, 0, bad, 0, 1, 0, 0, 0]], "float32"))
            assert np.isnan(y.numpy()).all()
    dx = pg.grad(f)(pg.asarray(zero, dtype="float32"), dy=pg.ones((1, 2, 2, 1)))
    if mode != "constant":  # here, pixels next to NaN have no derivative
        assert np.isfinite(dx.numpy()).all()


@pytest.mark.parametrize("mode", MODES)
def test_the_identity_transform_changes_nothing(mode, backend):
    image = np.array([1, np.inf, np.nan, -3e38], "float32").reshape(1, 2, 2, 1)
    identity = [[1, 0, 0, 0, 1, 0, 0, 0]]
    for method in ("nearest", "bilinear"):
        options = {"interpolation": method, "fill_mode": mode, "fill_value": np.nan}
        y = pg.image.transform(image, identity, **options)
        np.testing.assert_array_equal(y.numpy(), image)


def test_the_derivative_of_the_identity_transform(backend):
    """At a pixel, the derivative is the slope towards the next pixel, not zero."""
    ramp = np.arange(16.0).reshape(1, 4, 4, 1)
    f = lambda t: pg.sum(
        pg.image.transform(ramp, t, interpolation="bilinear", fill_mode="nearest")
    )
    dx = pg.grad(f)(pg.asarray([[1.0, 0, 0, 0, 1, 0, 0, 0]]))
    assert dx.numpy()[0, 2] == 16
    assert dx.numpy()[0, 5] == 4 * 16


# --- large images ----------------------------------------------------------------

LARGE_IMAGES = RNG.normal(size=(3, 130, 170, 3)).astype("float32")
RANDOM_BOXES = RNG.uniform(-0.1, 1.1, (40, 4)).astype("float32")
LARGE_IMAGE_CASES = [
    ("ResizeBilinear", lambda x: pg.image.resize_bilinear(x, (300, 110), **HALF)),
    ("ResizeNearestNeighbor", lambda x: pg.image.resize_nearest_neighbor(x, 333)),
    (
        "CropAndResize",
        lambda x: pg.image.crop_and_resize(x, RANDOM_BOXES, np.arange(40) % 3, 50),
    ),
    (
        "Transform",
        lambda x: pg.image.transform(
            x, TRANSFORMS["turn"], interpolation="bilinear", output_shape=(250, 400)
        ),
    ),
]


@pytest.mark.parametrize(("kernel", "op"), LARGE_IMAGE_CASES, ids=lambda v: str(v)[:20])
def test_large_images_that_kernels_process_in_parts(kernel, op, backend):
    """If a kernel processes an image in parts, the result has no seams."""
    y = op(LARGE_IMAGES)
    f = lambda x: op(x)
    dy = pg.asarray(RNG.normal(size=y.shape).astype("float32"))
    dx = pg.grad(f)(pg.asarray(LARGE_IMAGES), dy=dy).numpy()
    with decomposed(kernel, f"{kernel}Grad"):
        np.testing.assert_allclose(op(LARGE_IMAGES).numpy(), y.numpy(), atol=1e-4)
        again = pg.grad(f)(pg.asarray(LARGE_IMAGES), dy=dy).numpy()
    np.testing.assert_allclose(again, dx, atol=1e-3)


CROP_AND_TRANSFORM_ERRORS = [
    (lambda: pg.image.crop_and_resize(X[0], [[0, 0, 1, 1]], [0], 2), "image must be "),
    (lambda: pg.image.crop_and_resize(X[:, :, :0], [[0] * 4], [0], 2), "have pixels"),
    (lambda: pg.image.crop_and_resize(X, [0, 0, 1, 1], [0], 2), r"\(n, 4\) and \(n,\)"),
    (lambda: pg.image.crop_and_resize(X, [[0] * 4], [0, 0], 2), r"and \(2,\)"),
    (lambda: pg.image.crop_and_resize(X, [[0] * 4], [0], 0), "crop_size must be a pos"),
    (
        lambda: pg.image.crop_and_resize(X, [[0] * 4], [0], 2, method="linear"),
        "method 'linear': use 'bilinear' or 'nearest'",
    ),
    (lambda: pg.image.transform(X[0], np.zeros((1, 8))), "image must be "),
    (lambda: pg.image.transform(X, np.zeros((1, 9))), r"must be \(1, 8\) or"),
    (lambda: pg.image.transform(X, np.zeros((3, 8))), r"got shapes \(3, 8\) and \(1, "),
    (
        lambda: pg.image.transform(X, np.zeros((1, 8)), fill_mode="mirror"),
        "fill_mode 'mirror': use 'constant', 'reflect', 'wrap' or 'nearest'",
    ),
    (
        lambda: pg.image.transform(X, np.zeros((1, 8)), interpolation="cubic"),
        "interpolation 'cubic': use",
    ),
    (lambda: pg.image.transform(X, np.zeros((1, 8)), output_shape=(1, -1)), "output_s"),
]


@pytest.mark.parametrize(("call", "message"), CROP_AND_TRANSFORM_ERRORS)
def test_errors(call, message, backend):
    with pytest.raises(ValueError, match=f"^image.(crop|transform).*: .*{message}"):
        call()


def test_types_that_are_not_accepted(backend):
    with pytest.raises(TypeError, match="box_ind must be integers"):
        pg.image.crop_and_resize(X, [[0] * 4], [0.0], 2)
    with pytest.raises(TypeError, match=r"crop_and_resize: .* must be a number"):
        pg.image.crop_and_resize(X, [[0] * 4], [0], 2, extrapolation_value="0")
    with pytest.raises(TypeError, match=r"image\.transform: there is no"):
        pg.image.transform(X.astype("complex64"), np.zeros((1, 8)))


def test_fill_values_must_fit_into_the_dtype(backend):
    crop = {"crop_size": (2, 2), "method": "nearest", "extrapolation_value": 1e300}
    xs = [X, np.zeros((1, 4), "float32"), np.zeros(1, "int32")]
    with pytest.raises(OverflowError, match=r"1e\+300 does not fit into float32"):
        pg.run_kernel("CropAndResize", xs, crop)
    transform = {
        "interpolation": "nearest",
        "fill_mode": "constant",
        "fill_value": 1e300,
    }
    xs = [X, np.zeros((1, 8), "float32")]
    with pytest.raises(OverflowError, match=r"1e\+300 does not fit into float32"):
        pg.run_kernel("Transform", xs, transform | {"output_shape": (2, 2)})


def test_only_box_ind_is_checked_by_kernels():
    assert contracts()["CropAndResize"].checks == ("box_ind",)
