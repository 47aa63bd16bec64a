"""Conversion from and to pixels, rotation, colors and thresholds."""

import math

import numpy as np
import plugrad as pg
import pytest
from plugrad.geometry import Rotation

from ..check import check_gradients
from ..toy import toy
from .moves import (
    DTYPES,
    Move,
    check_derivatives,
    check_parts,
    check_values,
    decomposed,
)

RNG = np.random.default_rng(0)

# --- pixels ----------------------------------------------------------------------

COLOURS = RNG.integers(0, 256, (3, 4, 4), np.uint8)
GRAY = COLOURS[..., 0]
OPAQUE = np.full_like(COLOURS[..., :1], 255)

FROM_PIXELS_CASES = [
    (COLOURS, 3, COLOURS[..., :3]),
    (COLOURS, 1, COLOURS[..., :1]),
    (COLOURS, 4, COLOURS),
    (COLOURS[..., :3], 4, np.concatenate([COLOURS[..., :3], OPAQUE], 2)),
    (COLOURS[::2, ::-1, :3], 2, COLOURS[::2, ::-1, :2]),
    (GRAY, 3, np.stack([GRAY] * 3, 2)),
    (GRAY, 1, GRAY[..., None]),
    (GRAY[..., None], 4, np.concatenate([np.stack([GRAY] * 3, 2), OPAQUE], 2)),
    (COLOURS[:0], 3, COLOURS[:0, :, :3]),
]


@pytest.mark.parametrize(("pixels", "channels", "expected"), FROM_PIXELS_CASES)
def test_from_pixels(pixels, channels, expected, backend):
    expected = expected.astype(np.int32)
    with pg.debug(finite=False):
        y = pg.image.from_pixels(pixels, channels)
    np.testing.assert_array_equal(y.numpy(), expected, strict=True)
    with decomposed("FromPixels"):
        y = pg.image.from_pixels(pixels, channels)
    np.testing.assert_array_equal(y.numpy(), expected, strict=True)


def test_pixels_on_a_backend_without_bytes():
    with toy(dtypes=["int32", "float32", "bool"]), pg.use_backend("toy"):
        y = pg.image.from_pixels(COLOURS)
        np.testing.assert_array_equal(y.numpy(), COLOURS[..., :3])
        np.testing.assert_array_equal(pg.image.to_pixels(y), COLOURS[..., :3])


class Palette:
    """An image like those of Pillow, whose bytes are indices into a palette."""

    def getbands(self):
        return ("P",)

    def convert(self, mode):
        assert mode == "RGBA"
        return COLOURS


def test_images_are_converted(backend):
    y = pg.image.from_pixels(Palette())
    np.testing.assert_array_equal(y.numpy(), COLOURS[..., :3])


@pytest.mark.parametrize("mode", ["L", "P", "1", "LA", "RGB", "RGBA", "CMYK"])
def test_pillow_images(mode, backend):
    images = pytest.importorskip("PIL.Image", reason="Pillow is not a dependency")
    image = images.fromarray(COLOURS).convert(mode)
    expected = np.asarray(image.convert("RGBA"))
    y = pg.image.from_pixels(image, 4)
    np.testing.assert_array_equal(y.numpy(), expected)
    restored = images.fromarray(pg.image.to_pixels(y))
    np.testing.assert_array_equal(np.asarray(restored), expected)


INTENSITIES = np.array([[0, 1, 0.5, 0.1], [1 / 255, 0.9999, 0.0019, 0.998]])
TO_PIXELS_CASES = [
    (INTENSITIES, np.rint(INTENSITIES * 255)),
    (INTENSITIES[..., None], np.rint(INTENSITIES * 255)),
    (np.stack([INTENSITIES] * 3, 2), np.rint(np.stack([INTENSITIES] * 3, 2) * 255)),
    (COLOURS.astype("int32"), COLOURS),
    (COLOURS, COLOURS),
    (GRAY.astype("int64")[..., None], GRAY),
    ((GRAY // 2).astype("int8"), GRAY // 2),
    (np.zeros((0, 3)), np.zeros((0, 3))),
    ([[0.25, 0.75]], [[64, 191]]),
]


@pytest.mark.parametrize(("image", "expected"), TO_PIXELS_CASES)
def test_to_pixels(image, expected, backend):
    expected = np.asarray(expected).astype(np.uint8)
    with pg.debug(finite=False):
        y = pg.image.to_pixels(image)
    np.testing.assert_array_equal(y, expected, strict=True)
    with decomposed("Draw"):
        np.testing.assert_array_equal(pg.image.to_pixels(image), expected, strict=True)


def test_the_draw_kernel_clips_values_that_the_op_refuses(backend):
    x = pg.asarray([[-0.5, 1.5, np.nan, np.inf, -np.inf, 0.5]])
    n = pg.asarray([[-5, 300, 7]])
    for without in ((), ("Draw",)):
        with decomposed(*without) if without else pg.use_backend(backend):
            y = pg.run_kernel("Draw", [x], {})
            assert (y.dtype, y.tolist()) == (np.int32, [[0, 255, 0, 255, 0, 128]])
            assert pg.run_kernel("Draw", [n], {}).tolist() == [[0, 255, 7]]


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ([[0.5, 1.5]], r"float32 must be in \[0, 1\], got 0.5 to 1.5"),
        ([[-1e-3]], r"must be in \[0, 1\]"),
        ([[np.nan]], r"must be in \[0, 1\], got nan"),
        ([[256]], r"int32 must be in \[0, 255\], got 256 to 256"),
        ([[-1]], r"must be in \[0, 255\]"),
        ([0.5], r"\[height, width, 1, 3 or 4\]; got shape \(1,\)"),
        (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
    ],
)
def test_to_pixels_errors(image, message, backend):
    with pytest.raises(ValueError, match=f"^image.to_pixels: .*{message}"):
        pg.image.to_pixels(image)


def test_more_pixel_errors(backend):
    with pytest.raises(TypeError, match="to_pixels: is not defined for bool"):
        pg.image.to_pixels([[True]])
    with pytest.raises(TypeError, match="complex"):
        pg.image.to_pixels([[1j]])
    with pytest.raises(TypeError, match="from_pixels: int is not an image or uint8 ar"):
        pg.image.from_pixels(5)
    with pytest.raises(TypeError, match="pixels must be uint8, got float64"):
        pg.image.from_pixels(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="num_channels must be 1 to 4, got 5"):
        pg.image.from_pixels(COLOURS, 5)
    with pytest.raises(ValueError, match=r"from_pixels: pixels must be .* \(3, 4, 2\)"):
        pg.image.from_pixels(COLOURS[..., :2])


# --- rotation --------------------------------------------------------------------


def rotated_by_loops(image, radians, fill, center):
    """Rotate an image pixel by pixel, with Python floats."""
    _, h, w, _ = image.shape
    y = np.empty_like(image)
    y[...] = fill
    right = center[0] * w
    down = center[1] * h
    sin = math.sin(radians)
    cos = math.cos(radians)
    for i, j in np.ndindex(h, w):
        u = math.floor((j - right) * cos - (i - down) * sin + right + 0.5)
        v = math.floor((j - right) * sin + (i - down) * cos + down + 0.5)
        if 0 <= v < h and 0 <= u < w:
            y[:, i, j] = image[:, v, u]
    return y


def rotation_move(shape, radians, fill=0, center=(0.5, 0.5)):
    return Move(
        f"rotate {shape} {radians} fill={fill} center={center}",
        lambda x: pg.image.rotate_with_offset(
            x, radians, fill_value=fill, center=center
        ),
        lambda x: rotated_by_loops(x, radians, fill, center),
        shape,
        "RotateWithOffset",
    )


MOVES = [
    Move(
        "flip_left_right",
        lambda x: pg.image.flip_left_right(x),
        lambda x: x[..., ::-1, :],
        (2, 3, 4, 2),
        "FlipLeftRight",
    ),
    Move(
        "flip_left_right, no batch",
        lambda x: pg.image.flip_left_right(x),
        lambda x: x[:, ::-1],
        (3, 4, 1),
        "FlipLeftRight",
    ),
    Move(
        "flip_up_down",
        lambda x: pg.image.flip_up_down(x),
        lambda x: x[..., ::-1, :, :],
        (2, 3, 4, 2),
        "Reverse",
    ),
    Move(
        "flip_up_down, empty",
        lambda x: pg.image.flip_up_down(x),
        lambda x: x[:, ::-1],
        (2, 0, 4, 2),
        "Reverse",
    ),
    Move(
        "grayscale_to_rgb",
        lambda x: pg.image.grayscale_to_rgb(x),
        lambda x: np.repeat(x, 3, -1),
        (2, 3, 1),
    ),
    rotation_move((2, 4, 5, 3), 0.6, center=(0.4, 0.6)),
    rotation_move((1, 6, 6, 1), math.pi / 2, 1),
    rotation_move((1, 3, 7, 2), -2, (1, 0)),
    rotation_move((1, 1, 1, 1), 0),
    rotation_move((2, 0, 3, 1), 1),
    rotation_move((0, 3, 3, 2), 1),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("move", MOVES, ids=str)
def test_values(move, dtype, backend):
    check_values(move, dtype)
    if move.kernel:
        check_parts(move, dtype)


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_gradients(move, backend):
    check_derivatives(move)


def test_a_rotation_by_a_right_angle_is_counterclockwise(backend):
    """Pixels right of the center move to the top, because the y axis points down."""
    x = np.zeros((1, 5, 5, 1), "float32")
    x[0, 2, 4] = 1
    center = 2 / 5  # in pixels: (2, 2)
    y = pg.image.rotate_with_offset(x, math.pi / 2, center=center).numpy()
    assert y[0, 0, 2] == 1
    assert y.sum() == 1


def test_a_fill_value_of_three_colours_is_opaque(backend):
    x = np.zeros((1, 4, 4, 4), "int32")
    y = pg.image.rotate_with_offset(x, 1.0, fill_value=(1, 2, 3)).numpy()
    assert y[0, 0, 0].tolist() == [1, 2, 3, 255]


def test_rotation_tables_are_cached(backend):
    x = np.zeros((1, 4, 4, 1), "float32")
    with pg.profile() as seen:
        pg.image.rotate_with_offset(x, 1.0)
        pg.image.rotate_with_offset(x, 1)
    found = [run.attrs.get("geometry") for run in seen.records]
    first, second = (g for g in found if g is not None)
    assert first is second
    assert isinstance(first, Rotation)


def test_rotation_by_kernel_name(backend):
    x = pg.asarray(RNG.normal(size=(1, 4, 4, 2)))
    y = pg.run_kernel("RotateWithOffset", [x], {"radians": 0.5, "fill_value": (1, 2)})
    z = pg.image.rotate_with_offset(x, 0.5, fill_value=[1, 2])
    np.testing.assert_array_equal(y.numpy(), z.numpy())


# --- colours ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
def test_rgb_to_grayscale(dtype, backend):
    x = COLOURS[..., :3].astype(dtype)
    exact = (x.astype(float) * [0.2989, 0.587, 0.114]).sum(-1, keepdims=True)
    y = pg.image.rgb_to_grayscale(x)
    assert y.dtype == dtype
    if x.dtype.kind == "f":
        rtol = 2e-3 if dtype == "float16" else 1e-6
        np.testing.assert_allclose(y.numpy(), exact, rtol=rtol)
    else:
        np.testing.assert_array_equal(y.numpy(), np.rint(exact))
    white = np.full((1, 3), 255, np.uint8)
    assert pg.image.rgb_to_grayscale(white).tolist() == [[255]]


def test_gradients_of_grayscale(backend):
    x = RNG.normal(size=(2, 3, 3))
    check_gradients(lambda x: pg.square(pg.image.rgb_to_grayscale(x)), x)


def otsu(gray):
    """Try every threshold; return the first of the best thresholds."""
    best, found = 0.0, -1
    for t in range(255):
        dark = gray[gray <= t]
        bright = gray[gray > t]
        if dark.size and bright.size:
            gap = dark.mean() - bright.mean()
            spread = dark.size * bright.size * gap**2
            if spread > best * (1 + 1e-12):
                best, found = spread, t
    return found


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("inverted", [False, True])
def test_thresholds(inverted, dtype, backend):
    two_peaks = np.concatenate([RNG.normal(60, 9, 150), RNG.normal(170, 20, 90)])
    for gray in (
        RNG.integers(0, 256, (9, 11, 1)),
        np.rint(two_peaks).reshape(12, 20, 1),
        np.array([[[0], [0], [200]]]),
        np.full((2, 3, 1), 7),
    ):
        x = gray.astype(dtype)
        for method, limit in (("binary", 0.3 * 255), ("otsu", otsu(gray))):
            y = pg.image.threshold(x, method, inverted=inverted, thresh_value=0.3)
            is_white = (gray > limit) != inverted
            np.testing.assert_array_equal(
                y.numpy(), np.int32(255 * is_white), strict=True
            )


def test_thresholds_of_colours(backend):
    x = np.array([[[255, 0, 0], [0, 255, 0], [255, 255, 255]]])
    y = pg.image.threshold(x)
    assert y.numpy().ravel().tolist() == [0, 255, 255]
    assert pg.image.threshold(x, "otsu").numpy().ravel().tolist() == [0, 0, 255]
    assert pg.image.threshold(x[:0]).shape == (0, 3, 1)
    assert pg.image.threshold(x[:0], "otsu").shape == (0, 3, 1)


X = np.zeros((1, 2, 2, 4), "float32")
ERRORS = [
    (lambda: pg.image.flip_left_right(X[0, 0]), "must have rank 3 or more; got shape"),
    (lambda: pg.image.flip_up_down(X[0, 0]), "must have rank 3 or more; got shape"),
    (lambda: pg.image.grayscale_to_rgb(X), "rank 2 or more with 1 channels; got shape"),
    (lambda: pg.image.rgb_to_grayscale(X[0, 0, 0, :3]), "rank 2 or more with 3 chan"),
    (lambda: pg.image.threshold(X[0]), r"\[height, width, 1 or 3\], got \(2, 2, 4\)"),
    (lambda: pg.image.threshold(X[..., 0], "mean"), r"got \(1, 2, 2\)"),
    (lambda: pg.image.threshold(X[0, ..., :1], "mean"), "method 'mean': use 'binary'"),
    (lambda: pg.image.rotate_with_offset(X[0], 1), "image must have rank 4, got shape"),
    (
        lambda: pg.image.rotate_with_offset(X, 1, fill_value=(1, 2)),
        r"fill_value must be one number or 4, .* got \(1, 2\)",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message, backend):
    with pytest.raises(ValueError, match=rf"^image\.\w+: .*{message}"):
        call()


def test_arguments_that_are_not_numbers(backend):
    for given, error, message in (
        ({"radians": "a"}, TypeError, "radians must be a number, got 'a'"),
        ({"radians": math.inf}, ValueError, "radians inf must be finite"),
        ({"radians": 1, "center": (1, 2, 3)}, ValueError, r"center \(1, 2, 3\) a fin"),
        ({"radians": 1, "center": "ab"}, TypeError, "center must be a number, got 'a"),
        ({"radians": 1, "fill_value": [None] * 4}, TypeError, "must be a number, got"),
    ):
        with pytest.raises(error, match=f"image.rotate_with_offset: .*{message}"):
            pg.image.rotate_with_offset(X, given.pop("radians"), **given)
    with pytest.raises(TypeError, match="threshold: thresh_value must be a number"):
        pg.image.threshold(X[0, ..., :1], thresh_value="a")


def test_values_that_do_not_fit_into_the_dtype(backend):
    with pytest.raises(TypeError, match=r"0\.5 does not fit into int32"):
        pg.image.rotate_with_offset(X.astype("int32"), 1, fill_value=0.5)
    with pytest.raises(TypeError, match="rgb_to_grayscale: complex numbers"):
        pg.image.rgb_to_grayscale(X[..., :3].astype("complex64"))
