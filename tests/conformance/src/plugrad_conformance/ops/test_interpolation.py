"""Cubic resizing and grid sampling, compared with loops over pixels."""

import itertools
import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from .test_resize import ALIGN, HALF, apply_weights, close, source_coordinate

RNG = np.random.default_rng(0)


def keys(t, a=-0.75):
    """Return the cubic convolution kernel in the notation of Keys' article."""
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def cubic(old, new, coefficient=-0.75, **options):
    """Return the weight of each old pixel in each new pixel, as a matrix."""
    weights = np.zeros((new, old))
    for i in range(new):
        v = float(source_coordinate(i, old, new, **options))
        for pixel in range(math.floor(v) - 1, math.floor(v) + 3):
            weights[i, min(max(pixel, 0), old - 1)] += keys(v - pixel, coefficient)
    return weights


SIZES = [
    ((2, 3, 4, 2), (5, 3)),
    ((1, 7, 3, 1), (2, 1)),
    ((3, 1, 1, 2), (4, 3)),
    ((1, 4, 5, 3), (4, 9)),
    ((0, 2, 3, 1), (4, 4)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("options", [{}, HALF, ALIGN, {"coefficient": -0.5}], ids=str)
@pytest.mark.parametrize(("shape", "size"), SIZES, ids=str)
def test_cubic_resizing(shape, size, options, dtype, backend):
    x = RNG.integers(0, 200, shape).astype(dtype)
    expected = apply_weights(cubic, x, size, **options)
    expected = expected.astype(dtype if dtype[0] == "f" else "float32")
    close(pg.image.resize_bicubic(x, size, **options), expected, 1e-5, 1e-4)
    single = pg.image.resize_bicubic(pg.zeros(shape[1:]), size, **options)
    assert single.shape == (*size, shape[3])


def test_cubic_resizing_keeps_an_image_of_the_same_size(backend):
    x = RNG.normal(size=(1, 3, 4, 2)).astype("float32")
    np.testing.assert_array_equal(pg.image.resize_bicubic(x, (3, 4), **HALF).numpy(), x)


@pytest.mark.parametrize("options", [{}, HALF, ALIGN], ids=str)
def test_gradients_of_cubic_resizing(options, backend):
    f = lambda x: pg.square(pg.image.resize_bicubic(x, (5, 2), **options))
    check_gradients(f, RNG.normal(size=(2, 3, 4, 1)))


# --- grids -----------------------------------------------------------------------


def mirrored(v, size, align):
    """Reflect at the centers of the outermost pixels, or at their outer edges."""
    low, high = (0, size - 1) if align else (-0.5, size - 0.5)
    while low < high and not low <= v <= high:
        v = 2 * low - v if v < low else 2 * high - v
    return min(max(v, 0), size - 1)


PADDING_MODES = {
    "zeros": lambda v, size, align: v,
    "border": lambda v, size, align: min(max(v, 0), size - 1),
    "reflection": mirrored,
}
WEIGHTS = {
    "nearest": lambda t: 1.0,
    "bilinear": lambda t: 1 - abs(t),
    "bicubic": keys,
}


def neighbours(v, method):
    if method == "nearest":
        return [round(v)]
    low = math.floor(v)
    return [low, low + 1] if method == "bilinear" else range(low - 1, low + 3)


def sample_one(image, coordinates, method, padding_mode, align):
    """Return one element of ``grid_sample`` by PyTorch's definition."""
    sizes = image.shape[:-1]
    total = np.zeros(image.shape[-1])
    fold = lambda v, size: PADDING_MODES[padding_mode](v, size, align)
    places = []
    for c, size in zip(coordinates[::-1], sizes, strict=True):
        v = (c + 1) / 2 * (size - 1) if align else ((c + 1) * size - 1) / 2
        places.append(v if method == "bicubic" else fold(v, size))
    for corner in itertools.product(*[neighbours(v, method) for v in places]):
        pairs = zip(places, corner, strict=True)
        weight = math.prod(WEIGHTS[method](v - pixel) for v, pixel in pairs)
        at = [fold(pixel, size) for pixel, size in zip(corner, sizes, strict=True)]
        if all(0 <= p < size for p, size in zip(at, sizes, strict=True)):
            total += weight * image[tuple(int(p) for p in at)]
    return total


def sample_all(x, grid, *options):
    y = np.zeros((*grid.shape[:-1], x.shape[-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        y[at] = sample_one(x[at[0]], grid[at].tolist(), *options)
    return y


GRIDS = [  # the shapes of the images and of the grid without its last axis
    ((2, 4, 5, 3), (2, 3, 4)),
    ((1, 1, 6, 1), (1, 2, 5)),
    ((3, 2, 2, 2), (3, 1, 1)),
    ((2, 3, 2, 4, 2), (2, 2, 3, 2)),
    ((0, 2, 2, 1), (0, 3, 3)),
]
CASES = [  # "bicubic" supports only images with two spatial axes
    (*row, method)
    for row in GRIDS
    for method in WEIGHTS
    if method != "bicubic" or len(row[0]) == 4
]
every_case = pytest.mark.parametrize(("shape", "places", "method"), CASES, ids=str)
every_padding_mode = pytest.mark.parametrize("padding_mode", PADDING_MODES)
both_alignments = pytest.mark.parametrize("align_corners", [False, True])


@every_case
@every_padding_mode
@both_alignments
def test_grid_sample(shape, places, method, padding_mode, align_corners, backend):
    n = len(shape) - 2
    x = RNG.normal(size=shape)
    grid = RNG.uniform(-2.2, 2.2, (*places, n))
    grid.reshape(-1)[: n * 2] = np.resize([1.0, -1.0, 0.0], n * 2)[: grid.size]
    expected = sample_all(x, grid, method, padding_mode, align_corners)
    options = {"method": method, "padding_mode": padding_mode}
    options["align_corners"] = align_corners
    for dtype, tolerance in (("float64", 1e-11), ("float32", 1e-4)):
        if dtype == "float32" and method == "nearest":
            continue  # a rounded coordinate may be nearer to another pixel
        y = pg.image.grid_sample(x.astype(dtype), grid.astype(dtype), **options)
        close(y, expected.astype(dtype), tolerance, tolerance)


@pytest.mark.parametrize(
    ("shape", "places", "method"), [row for row in CASES if row[0][0]], ids=str
)
@every_padding_mode
@both_alignments
def test_gradients_of_grid_sample(
    shape, places, method, padding_mode, align_corners, backend
):
    n = len(shape) - 2
    x = RNG.normal(size=shape)
    grid = RNG.uniform(-1.4, 1.4, (*places, n))
    f = lambda x, grid: pg.square(
        pg.image.grid_sample(
            *(x, grid),
            method=method,
            padding_mode=padding_mode,
            align_corners=align_corners,
        )
    )
    if method == "nearest":
        check_gradients(lambda x: f(x, grid), x)
        dx = pg.grad(lambda grid: pg.sum(f(x, grid)))(pg.asarray(grid))
        assert not dx.numpy().any()
    else:
        check_gradients(f, x, grid, rtol=1e-4)


@every_padding_mode
@pytest.mark.parametrize("method", WEIGHTS)
def test_coordinates_that_are_not_finite(method, padding_mode, backend):
    x = np.arange(1.0, 5, dtype="float32").reshape(1, 1, 4, 1)
    grid = np.zeros((1, 1, 3, 2), "float32")
    grid[..., 0] = [np.nan, np.inf, -np.inf]
    options = {"method": method, "padding_mode": padding_mode}
    y = pg.image.grid_sample(x, grid, **options).numpy().ravel()
    expected = {"zeros": [0, 0, 0], "border": [1, 4, 1]}
    assert np.isfinite(y).all()
    if padding_mode in expected:
        np.testing.assert_allclose(y, expected[padding_mode], rtol=1e-6)


def test_an_infinite_pixel_at_the_edge_is_not_read_outside(backend):
    x = np.full((1, 2, 2, 1), np.inf, "float32")
    y = pg.image.grid_sample(x, [[[[3.0, 0.0], [0.0, -9.0]]]])
    assert y.numpy().ravel().tolist() == [0, 0]
    y = pg.image.grid_sample(x, [[[[1.0, 0.0], [-1.0, 1.0]]]])  # partly outside
    assert y.numpy().ravel().tolist() == [np.inf, np.inf]


def test_a_grid_reads_only_its_own_image_even_outside(backend):
    """Reading after the last pixel of an image must not reach the next image."""
    x = np.full((3, 2, 2, 2), 1.0, "float32") * np.arange(1, 4).reshape(3, 1, 1, 1)
    grid = np.asarray([[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0], [5.0, 5.0]], "float32")
    y = pg.image.grid_sample(x, np.broadcast_to(grid, (3, 1, 4, 2)))
    expected = np.asarray([1, 0.25, 0.25, 0]) * np.arange(1, 4).reshape(3, 1)
    np.testing.assert_allclose(y.numpy()[:, 0, :, 1], expected, rtol=1e-6)


@every_padding_mode
@pytest.mark.parametrize("method", WEIGHTS)
@pytest.mark.parametrize(
    ("shape", "places"),
    [((0, 2, 3, 1), (0, 4, 5)), ((2, 2, 3, 0), (2, 4, 5)), ((2, 2, 3, 1), (2, 0, 5))],
)
def test_empty_grids(shape, places, method, padding_mode, backend):
    x = np.ones(shape, "float32")
    grid = np.zeros((*places, 2), "float32")
    options = {"method": method, "padding_mode": padding_mode}
    y = pg.image.grid_sample(x, grid, **options)
    assert y.shape == (*places, shape[-1])
    f = lambda x, grid: pg.sum(pg.image.grid_sample(x, grid, **options))
    dx, dgrid = pg.grads(f)(pg.asarray(x), pg.asarray(grid))
    assert (dx.shape, dgrid.shape) == (x.shape, grid.shape)
    assert not dx.numpy().any()


X = np.ones((1, 2, 2, 1))
G = np.zeros((1, 2, 2, 2))
ERRORS = [
    (lambda: pg.image.grid_sample(X, G[..., :1]), "image.grid_sample: images"),
    (lambda: pg.image.grid_sample(X, G[0]), "image.grid_sample: images"),
    (lambda: pg.image.grid_sample(X[:, :0], G), "and pixels; got .*0, 2, 1"),
    (lambda: pg.image.grid_sample(X, np.zeros((2, 2, 2, 2))), "image.grid_sample:"),
    (lambda: pg.image.grid_sample(X, G, method="cubic"), "method 'cubic': use"),
    (lambda: pg.image.grid_sample(X, G, padding_mode="edge"), "'edge': use 'zeros'"),
    (
        lambda: pg.image.grid_sample(
            X[None], np.zeros((1, 1, 1, 1, 3)), method="bicubic"
        ),
        "'bicubic' reads images of two spatial axes",
    ),
    (lambda: pg.image.resize_bicubic(X, 0), "image.resize_bicubic: size"),
    (lambda: pg.image.resize_bicubic(X, 2, **HALF, **ALIGN), "not both"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message, backend):
    with pytest.raises(ValueError, match=message):
        call()
