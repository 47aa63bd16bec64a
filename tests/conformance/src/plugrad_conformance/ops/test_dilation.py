"""Dilation, compared with explicit windows: equal sums, NaN, padding, integers."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from ..toy import toy
from .test_conv import require_dtypes
from .test_pool import distinct, image, windows

RNG = np.random.default_rng(0)
KERNELS = ["Dilation2D", "Dilation2DBackpropInput", "Dilation2DBackpropFilter"]
X = (2, 5, 6, 3)
CASES = [  # window, options, padding before, output size
    ((1, 1), {}, (0, 0), (5, 6)),
    ((2, 2), {}, (0, 0), (4, 5)),
    ((2, 3), {"strides": (1, 3)}, (0, 0), (4, 2)),
    ((3, 3), {"strides": 2, "pad": "same"}, (1, 0), (3, 3)),
    ((3, 2), {"pad": "same", "dilations": (2, 3)}, (2, 1), (5, 6)),
    ((2, 2), {"pad": 1, "strides": 2, "dilations": 2}, (1, 1), (3, 3)),
    ((2, 2), {"pad": [(1, 0), (0, 2)], "strides": (3, 1)}, (1, 0), (2, 7)),
    ((1, 2), {"strides": (4, 3)}, (0, 0), (2, 2)),
    ((5, 6), {}, (0, 0), (1, 1)),
    ((2, 4), {"pad": "same", "dilations": (1, 6)}, (0, 9), (5, 6)),
]
cases = pytest.mark.parametrize(("window", "options", "pad_before", "out_size"), CASES)
with_and_without_kernels = pytest.mark.parametrize(
    "without", [(), KERNELS], ids=["kernel", "composed"]
)


def sums(x, filter, window, pad_before, out_size, *, strides=1, dilations=1, **_):
    """Return the window sums by kernel position; those of padding are masked."""
    given = {"strides": strides, "dilations": dilations}
    rows = filter.reshape(-1, 1, 1, 1, filter.shape[-1])
    return windows(x, window, pad_before, out_size, **given) + rows


@cases
def test_values_and_gradients(window, options, pad_before, out_size, backend):
    require_dtypes(backend, "float64")
    x = distinct(X) - 5
    filter = distinct((*window, 3)) * np.sqrt(2)
    y = pg.dilation2d(pg.asarray(x), pg.asarray(filter), **options)
    expected = sums(x, filter, window, pad_before, out_size, **options).max(0)
    np.testing.assert_array_equal(y.numpy(), expected.filled(-np.inf))
    if np.isfinite(y.numpy()).all():
        op = lambda x, f: pg.square(pg.dilation2d(x, f, **options))
        check_gradients(op, x, filter)


@cases
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int8"])
def test_decompositions(window, options, pad_before, out_size, dtype):
    x = RNG.integers(-3, 3, size=X).astype(dtype)  # many ties
    filter = RNG.integers(-3, 3, size=(*window, 3)).astype(dtype)
    if x.dtype.kind == "f":
        x /= x.dtype.type(10)
        filter /= filter.dtype.type(10)
        x.flat[5:8] = np.nan, np.inf, -np.inf
        filter.flat[0] = -np.inf
    dy = RNG.integers(-9, 9, size=(2, *out_size, 3)).astype(dtype)

    def results():
        yield pg.dilation2d(x, filter, **options)
        for name in KERNELS[1:]:
            inputs = [pg.asarray(a) for a in (x, filter, dy)]
            yield pg.run_kernel(name, inputs, {"strides": 1, **PAD, **options})
        if x.dtype.kind == "f":
            op = lambda x, f: pg.dilation2d(x, f, **options)
            first = lambda dy: pg.grads(op)(x, filter, dy=dy)
            yield from pg.vjp(first, dy)[1]((np.where(x > 0, x, 1), filter))

    expected = [y.numpy() for y in results()]
    dtypes = [dtype, "int32", "bool"]
    with toy(without=KERNELS, dtypes=dtypes), pg.use_backend("toy"):
        for y, z in zip(results(), expected, strict=True):
            assert y.dtype == dtype
            np.testing.assert_array_equal(y.numpy(), z)


PAD = {"pad": "valid"}


def exact_gradients(x, filter, *more, **options):
    """Return the gradients of the sum of all maxima, from unrounded window sums."""
    total = sums(x.astype("float64"), filter.astype("float64"), *more, **options)
    first = np.argmax(total.filled(-np.inf), 0)
    number = np.arange(x.size).reshape(x.shape)
    indices = sums(number, np.zeros(filter.shape, int), *more, **options)
    winners = np.take_along_axis(indices.data, first[None], 0)
    weights = ~total.mask.all(0).ravel() if np.ma.is_masked(total) else None
    dx = np.bincount(winners.ravel(), weights, x.size).reshape(x.shape)
    c = filter.shape[-1]
    df = np.bincount((first * c + np.arange(c)).ravel(), weights, filter.size)
    return dx, df.reshape(filter.shape)


@with_and_without_kernels
@cases
def test_rounding_does_not_choose_the_winner(
    window, options, pad_before, out_size, without
):
    """Rounding to float32 makes some sums equal or swaps them; float64 is exact."""
    x = (RNG.integers(1, 9, size=X) / 10).astype("float32")
    filter = (RNG.integers(1, 9, size=(*window, 3)) / 10).astype("float32")
    args = x, filter, window, pad_before, out_size
    with toy(without=without), pg.use_backend("toy"):
        op = lambda x, f: pg.sum(pg.dilation2d(x, f, **options))
        found = pg.grads(op)(x, filter)
    for dx, expected in zip(found, exact_gradients(*args, **options), strict=True):
        np.testing.assert_array_equal(dx.numpy(), expected)


def test_of_equal_sums_the_first_wins_row_by_row(backend):
    op = lambda x, f: pg.dilation2d(x, f)
    dx, df = pg.grads(op)(image([0, 5], [3, 2]), image([1, 0], [2, 3]), dy=image([2]))
    assert dx.numpy()[..., 0].tolist() == [[0, 2], [0, 0]]
    assert df.numpy()[..., 0].tolist() == [[0, 2], [0, 0]]


@pytest.mark.parametrize(
    ("x", "filter", "largest", "dx"),
    [
        ([np.nan, 1], [5, 1], 2, [0, 1]),
        ([np.nan, np.nan], [5, 1], -np.inf, [0, 0]),
        ([np.inf, np.inf], [0, 1], np.inf, [1, 0]),
        ([-np.inf, -np.inf], [0, 1], -np.inf, [1, 0]),
        ([-np.inf, 1], [np.inf, 1], 2, [0, 1]),
        ([3e38, 2e38], [3e38, 3e38], np.inf, [1, 0]),
    ],
)
def test_nan_and_infinities(x, filter, largest, dx, backend):
    op = lambda x: pg.dilation2d(x, image(filter))
    y, found = pg.value_and_grad(op)(image(x), dy=image([1]))
    assert y.item() == np.float32(largest)
    assert found.numpy().ravel().tolist() == dx


def test_infinite_cotangents_go_to_the_winner_alone(backend):
    op = lambda x, f: pg.dilation2d(x, f, strides=(1, 2))
    dy = image([np.inf, np.nan])
    dx, df = pg.grads(op)(image([1, 2, 4, 1]), image([0, 1]), dy=dy)
    np.testing.assert_array_equal(dx.numpy().ravel(), [0, np.inf, np.nan, 0])
    np.testing.assert_array_equal(df.numpy().ravel(), [np.nan, np.inf])


@with_and_without_kernels
def test_padding_never_wins(without):
    """Padding never wins, even with +inf in the filter or when integers wrap."""
    options = {"pad": [(0, 0), (2, 0)]}
    with toy(without=without), pg.use_backend("toy"):
        y = pg.dilation2d(image([1]), image([np.inf, 0]), **options)
        assert y.numpy().ravel().tolist() == [-np.inf, 1]
        least = np.iinfo("int32").min
        x, filter = (image(row).astype("int32") for row in ([-5], [-9, -1]))
        y = pg.dilation2d(x, filter, **options)
        assert y.numpy().ravel().tolist() == [least, -6]
        full = lambda shape, value: pg.full(shape, value, dtype="int32")
        inputs = [full((1, 1, 1, 1), least), full((1, 2, 1), 0), full((1, 1, 2, 1), 7)]
        dx, df = (pg.run_kernel(k, inputs, options) for k in KERNELS[1:])
        assert (dx.item(), df.numpy().ravel().tolist()) == (7, [0, 7])


def test_a_filter_of_zeros_makes_it_a_max_pool(backend):
    x = RNG.normal(size=X).astype("float32")
    options = {"strides": 2, "pad": "same"}
    y = pg.dilation2d(x, np.zeros((3, 2, 3), "float32"), **options)
    np.testing.assert_array_equal(y.numpy(), pg.max_pool(x, (3, 2), **options).numpy())


def test_channels_first_and_no_batch(backend):
    x = RNG.normal(size=X).astype("float32")
    filter = RNG.normal(size=(2, 3, 3)).astype("float32")
    y = pg.dilation2d(x, filter, pad="same").numpy()
    options = {"pad": "same", "data_format": "NCHW"}
    z = pg.dilation2d(x.transpose(0, 3, 1, 2), filter, **options)
    np.testing.assert_array_equal(z.numpy(), y.transpose(0, 3, 1, 2))
    z = pg.dilation2d(x[1], filter, pad="same")
    np.testing.assert_array_equal(z.numpy(), y[1])


def test_dtypes_are_promoted(backend):
    x = np.ones((2, 2, 1), "int32")
    filter = np.full((1, 1, 1), 0.5, "float32")
    y = pg.dilation2d(x, filter)
    assert (y.dtype, y.numpy().max()) == (np.float32, 1.5)


@pytest.mark.parametrize("shape", [(0, 4, 4, 3), (2, 4, 4, 0)])
def test_empty(shape, backend):
    x = np.ones(shape, "float32")
    filter = np.ones((2, 2, shape[-1]), "float32")
    dy = np.ones((shape[0], 3, 3, shape[-1]), "float32")
    dx, df = pg.grads(pg.dilation2d)(x, filter, dy=dy)
    assert pg.dilation2d(x, filter).shape == dy.shape
    assert (dx.shape, df.numpy().tolist()) == (shape, np.zeros_like(filter).tolist())


def test_long_sums_are_accurate(backend):
    """The gradient of a filter is a sum over all windows."""
    x = np.zeros((1, 400, 400, 1), "float32")
    dy = np.full_like(x, 0.1)
    df = pg.grads(pg.dilation2d)(x, np.zeros((1, 1, 1), "float32"), dy=dy)[1]
    np.testing.assert_allclose(df.item(), 16000, rtol=1e-6)


# --- run_kernel, and errors ------------------------------------------------------

ERRORS = [
    ({"x": (3, 3)}, "dilation2d: x must have rank 4, or 3 without a batch; got shape"),
    ({"filter": (2, 2)}, r"filter must have shape \(height, width, 3\), with channels"),
    ({"filter": (2, 2, 2)}, r"of x; got shapes \(2, 2, 2\) and \(2, 5, 6, 3\)"),
    ({"filter": (7, 2, 3)}, "dilation2d: a window of 7 does not fit into 5 elements"),
    ({"filter": (0, 2, 3)}, "dilation2d: the window must be a positive integer, or 2"),
    ({"strides": 0}, "dilation2d: strides must be a positive integer, or 2 of them"),
    ({"dilations": (1, 1, 1)}, "dilations must be a positive integer, or 2 of them"),
    ({"pad": "full"}, "dilation2d: pad 'full': use 'same', 'valid', an integer, or"),
    ({"data_format": "NHC"}, "dilation2d: data_format 'NHC': use 'NHWC' or 'NCHW'"),
]


@pytest.mark.parametrize(("given", "message"), ERRORS)
def test_errors(given, message, backend):
    given = {"x": X, "filter": (2, 2, 3)} | given
    x, filter = (np.ones(given.pop(name), "float32") for name in ("x", "filter"))
    with pytest.raises(ValueError, match=message):
        pg.dilation2d(x, filter, **given)


def test_errors_of_dtypes(backend):
    ones = lambda dtype: (np.ones(X, dtype), np.ones((2, 2, 3), dtype))
    with pytest.raises(TypeError, match="dilation2d: bool has no order; cast"):
        pg.dilation2d(*ones("bool"))
    with pytest.raises(TypeError, match="dilation2d: complex numbers have no order"):
        pg.dilation2d(*ones("complex64"))


def test_run_kernel_checks_shapes(backend):
    x = pg.ones(X)
    filter = pg.ones((2, 2, 3))
    dy = pg.ones((2, 4, 5, 3))
    assert pg.run_kernel("Dilation2D", [x, filter], PAD).shape == dy.shape
    with pytest.raises(ValueError, match="run_kernel: the input must have rank 4, got"):
        pg.run_kernel("Dilation2D", [x[0], filter], PAD)
    for name in KERNELS[1:]:
        with pytest.raises(ValueError, match=r"geometry: dy must have shape"):
            pg.run_kernel(name, [x, filter, dy[1:]], PAD)
