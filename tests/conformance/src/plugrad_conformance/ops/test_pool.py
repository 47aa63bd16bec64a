"""Pooling, compared with explicit windows; NaN, ties, padding and empty windows."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from ..toy import toy
from .moves import decomposed
from .test_conv import require_dtypes

RNG = np.random.default_rng(0)
KERNELS = [
    f"{kind}Pool{axes}{part}"
    for kind in ("Max", "Avg")
    for axes in ("", "3D")
    for part in ("", "Grad")
]
KERNELS.append("MaxPoolWithArgmax")
MODE = "dim_rounding_mode"
X, X3 = (2, 5, 6, 3), (1, 3, 4, 5, 2)
CASES = [  # x, window, options, padding before, output sizes
    (X, 2, {}, (0, 0), (2, 3)),
    (X, (3, 2), {"strides": 1}, (0, 0), (3, 5)),
    (X, 3, {"strides": 2, "pad": "same"}, (1, 0), (3, 3)),
    (X, (2, 3), {"strides": (1, 3), "pad": [(1, 0), (0, 2)]}, (1, 0), (5, 2)),
    (X, 3, {"pad": 1, "strides": 3, MODE: "ceil"}, (1, 1), (3, 3)),
    (X, 3, {"pad": 1, "strides": 3, MODE: "ceil_inside"}, (1, 1), (2, 3)),
    (X, 3, {"pad": 1, "strides": (3, 2), MODE: "round"}, (1, 1), (2, 4)),
    (X, 2, {"strides": 1, "dilations": (2, 3)}, (0, 0), (3, 3)),
    (X, 2, {"strides": 2, "dilations": 2, "pad": 1}, (1, 1), (3, 3)),
    (X, 1, {"strides": 1}, (0, 0), (5, 6)),
    (X, 1, {"strides": (2, 4)}, (0, 0), (3, 2)),
    (X, (5, 6), {}, (0, 0), (1, 1)),
    (X3, 2, {"strides": 1}, (0, 0, 0), (2, 3, 4)),
    (X3, (2, 3, 2), {"pad": "same", "strides": 2}, (0, 0, 0), (2, 2, 3)),
    (X3, (1, 2, 3), {"pad": 1, "strides": (2, 1, 3)}, (1, 1, 1), (3, 5, 2)),
]
cases = pytest.mark.parametrize(
    ("x", "window", "options", "before", "out_size"), CASES, ids=str
)


def windows(x, window, before, out_size, *, strides=None, dilations=1, **_):
    """Return the elements of all windows by position in the window; mask padding."""
    n = x.ndim - 2
    window = np.broadcast_to(window, n)
    strides = window if strides is None else np.broadcast_to(strides, n)
    dilations = np.broadcast_to(dilations, n)
    widths = [(0, 0), *((b, 99) for b in before), (0, 0)]
    mask = np.pad(np.zeros(x.shape, bool), widths, constant_values=True)
    x = np.ma.array(np.pad(x, widths), mask=mask)
    positions = []
    for position in np.ndindex(*window):
        steps = zip(position, dilations, strides, out_size, strict=True)
        where = tuple(slice(a * d, a * d + s * p, s) for a, d, s, p in steps)
        positions.append(x[(slice(None), *where)])
    return np.ma.stack(positions)


def distinct(shape):
    """Return numbers that are far enough apart for finite differences."""
    return RNG.permutation(np.prod(shape)).reshape(shape) / 7.0


@cases
def test_max_pool(x, window, options, before, out_size, backend):
    require_dtypes(backend, "float64")
    x = distinct(x) - 5
    y = pg.max_pool(pg.asarray(x), window, **options)
    expected = windows(x, window, before, out_size, **options).max(0).filled(-np.inf)
    np.testing.assert_array_equal(y.numpy(), expected)
    if np.isfinite(expected).all():
        check_gradients(lambda x: pg.square(pg.max_pool(x, window, **options)), x)


@cases
def test_avg_pool(x, window, options, before, out_size, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=x)
    y = pg.avg_pool(pg.asarray(x), window, **options)
    expected = windows(x, window, before, out_size, **options).mean(0).filled(np.nan)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)
    if np.isfinite(expected).all():
        check_gradients(lambda x: pg.square(pg.avg_pool(x, window, **options)), x)


PADDED = [  # x, window, strides, padding, other options
    (X, (3, 3), (3, 3), [(1, 1), (1, 1)], {}),
    (X, (3, 2), (2, 2), [(1, 0), (0, 1)], {MODE: "ceil_inside"}),
    ((1, 5, 5, 1), (3, 3), (3, 3), [(1, 1), (1, 1)], {MODE: "ceil_inside"}),
    ((2, 4, 3, 2), (2, 2), (1, 1), [(3, 3), (0, 2)], {}),
    (X, (2, 3), (1, 2), [(2, 0), (1, 1)], {"dilations": 2}),
    (X3, (2, 3, 2), (2, 2, 2), [(1, 1), (1, 1), (0, 1)], {MODE: "ceil_inside"}),
    ((2, 7, 3), (3,), (2,), [(1, 2)], {MODE: "ceil_inside"}),
    ((2, 8, 3), (3,), (2,), [(0, 0)], {MODE: "ceil_inside"}),
]


def averaged(x, window, strides, padding, ceil, dilations=1):
    """Average along the first axis with PyTorch's rules for padding and ``ceil``."""
    before, after = padding
    n = len(x)
    steps = (n + before + after - (window - 1) * dilations - 1) / strides
    starts = strides * np.arange((np.ceil if ceil else np.floor)(steps) + 1, dtype=int)
    x = np.pad(x, [padding] + [(0, 0)] * (x.ndim - 1))
    rows = [
        b + dilations * np.arange(window) for b in starts if not ceil or b < before + n
    ]
    return np.stack([x[at[at < len(x)]].mean(0) for at in rows])


@pytest.mark.parametrize(("x", "window", "strides", "pad", "others"), PADDED, ids=str)
def test_count_include_pad(x, window, strides, pad, others, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=x)
    op = pg.avg_pool1d if len(window) == 1 else pg.avg_pool
    options = {"strides": strides, "pad": pad, "count_include_pad": True, **others}
    expected, gaps = x, others.get("dilations", 1)
    for axis, each in enumerate(zip(window, strides, pad, strict=True), 1):
        moved = averaged(np.moveaxis(expected, axis, 0), *each, MODE in others, gaps)
        expected = np.moveaxis(moved, 0, axis)
    y = op(x, window, **options)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)
    check_gradients(lambda x: pg.square(op(x, window, **options)), x)


def test_count_include_pad_counts_same_padding(backend):
    x = RNG.normal(size=X).astype("float32")
    options = {"strides": 1, "count_include_pad": True}
    y, z = (pg.avg_pool(x, 3, pad=pad, **options) for pad in ("same", 1))
    np.testing.assert_array_equal(y.numpy(), z.numpy())


OPS = {"max": (pg.max_pool1d, pg.max_pool), "avg": (pg.avg_pool1d, pg.avg_pool)}
OPTIONS_OF_ONE_AXIS = [  # options for one axis; the same for images of one row
    ({}, {"strides": (1, 3)}),
    (
        {"strides": 2, "pad": 1, MODE: "ceil_inside"},
        {"strides": (1, 2), "pad": [(0, 0), (1, 1)], MODE: "ceil_inside"},
    ),
    (
        {"strides": 1, "pad": "same", "dilations": 2},
        {"strides": 1, "pad": "same", "dilations": (1, 2)},
    ),
]


@pytest.mark.parametrize(("options", "image_options"), OPTIONS_OF_ONE_AXIS, ids=str)
@pytest.mark.parametrize("shape", [(2, 8, 3), (9, 2)])
@pytest.mark.parametrize("kind", OPS)
def test_one_axis_is_an_image_of_one_row(kind, shape, options, image_options, backend):
    require_dtypes(backend, "float64")
    one, two = OPS[kind]
    x = distinct(shape)
    y = one(x, 3, **options)
    expected = two(np.expand_dims(x, -3), (1, 3), **image_options).numpy().squeeze(-3)
    np.testing.assert_array_equal(y.numpy(), expected)
    z = one(np.swapaxes(x, -1, -2), 3, **options, data_format="NCW")
    np.testing.assert_array_equal(z.numpy(), np.swapaxes(expected, -1, -2))
    check_gradients(lambda x: pg.square(one(x, 3, **options)), x)


@cases
def test_decompositions(x, window, options, before, out_size):
    x = RNG.integers(-3, 3, size=x).astype("float32")  # many ties
    x.flat[5] = np.nan
    maxima = lambda x: pg.max_pool(x, window, **options)
    averages = lambda x: pg.avg_pool(x, window, **options)
    dy = RNG.normal(size=maxima(x).shape).astype("float32")

    def results():
        yield from (maxima(x), averages(x))
        yield from (pg.grad(f)(x, dy=dy) for f in (maxima, averages))
        second = lambda dy: pg.grad(maxima)(x, dy=dy)
        yield pg.grad(second)(dy, dy=x)
        second = lambda dy: pg.grad(averages)(x, dy=dy)
        yield pg.grad(second)(dy, dy=np.ones_like(x))

    expected = [y.numpy() for y in results()]
    with toy(without=KERNELS), pg.use_backend("toy"):
        for y, z in zip(results(), expected, strict=True):
            assert y.dtype == np.float32
            np.testing.assert_allclose(y.numpy(), z, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pool(kind, window, backend):
    x = RNG.normal(size=X).astype("float32")
    op = {"max": pg.max_pool, "avg": pg.avg_pool}[kind]
    options = {"pad": 1, "dilations": 2}
    y = pg.pool(x, window, kind, **options)
    z = op(x, window, strides=1, **options)
    np.testing.assert_array_equal(y.numpy(), z.numpy())


@pytest.mark.parametrize("channels", [1, 7, 16, 17, 24, 31, 64, 65, 90])
def test_numbers_of_channels(channels, backend):
    x = RNG.normal(size=(2, 5, 6, channels)).astype("float32")
    elements = windows(x, (3, 2), (1, 0), (3, 3), strides=2)
    options = {"strides": 2, "pad": [(1, 1), (0, 0)]}
    y = pg.max_pool(x, (3, 2), **options).numpy()
    np.testing.assert_array_equal(y, elements.max(0))
    y = pg.avg_pool(x, (3, 2), **options).numpy()
    np.testing.assert_allclose(y, elements.mean(0), rtol=1e-5, atol=1e-6)


def test_channels_first_and_no_batch(backend):
    x = RNG.normal(size=X).astype("float32")
    y = pg.max_pool(x, 2, pad=[(0, 1), (2, 0)]).numpy()
    options = {"pad": [(0, 1), (2, 0)], "data_format": "NCHW"}
    z = pg.max_pool(x.transpose(0, 3, 1, 2), 2, **options)
    np.testing.assert_array_equal(z.numpy(), y.transpose(0, 3, 1, 2))
    z = pg.max_pool(x[1].transpose(2, 0, 1), 2, **options)
    np.testing.assert_array_equal(z.numpy(), y[1].transpose(2, 0, 1))
    x = RNG.normal(size=X3).astype("float32")
    y, z = pg.avg_pool(x, 2), pg.avg_pool(np.moveaxis(x, -1, 1), 2, data_format="NCDHW")
    np.testing.assert_array_equal(z.numpy(), np.moveaxis(y.numpy(), -1, 1))


# --- special cases ---------------------------------------------------------------


@pytest.mark.parametrize("op", [pg.max_pool, pg.avg_pool])
@pytest.mark.parametrize("sizes", [(2, 0, 3, 1), (2, 3, 0, 1), (0, 3, 3, 1)])
def test_pooling_empty_images(op, sizes, backend):
    pooled = lambda x: op(x, 2, pad="same")
    n, h, w, c = sizes
    assert pooled(pg.ones(sizes)).shape == (n, -(-h // 2), -(-w // 2), c)
    assert pg.grad(lambda x: pg.sum(pooled(x)))(pg.ones(sizes)).shape == sizes


def image(*rows):
    return np.asarray(rows, "float32")[..., None]


SPECIAL = [  # a row in windows of 2; their maxima; the gradient of ones
    ([1, 1, 0, 2], [1, 2], [1, 0, 0, 1]),
    ([np.nan, 3, 4, np.nan], [3, 4], [0, 1, 1, 0]),
    ([np.nan, np.nan, 1, 1], [-np.inf, 1], [0, 0, 1, 0]),
    ([np.inf, np.inf, -np.inf, 0], [np.inf, 0], [1, 0, 0, 1]),
    ([-np.inf, -np.inf, 0, -0.0], [-np.inf, 0], [1, 0, 1, 0]),
]


@pytest.mark.parametrize(("x", "maxima", "first"), SPECIAL, ids=str)
def test_ties_nan_and_infinities(x, maxima, first, backend):
    pool = lambda x: pg.max_pool(x, (1, 2))
    y, dx = pool(image(x)), pg.grad(pool)(image(x), dy=np.ones((1, 2, 1), "float32"))
    np.testing.assert_array_equal(y.numpy().ravel(), maxima)
    np.testing.assert_array_equal(dx.numpy().ravel(), first)


def test_the_first_of_equal_maxima_is_found_row_by_row(backend):
    x = image([0, 5], [5, 0])
    pool = lambda x: pg.max_pool(x, 2)
    dx = pg.grad(pool)(x, dy=np.full((1, 1, 1), 3, "float32"))
    assert dx.numpy()[..., 0].tolist() == [[0, 3], [0, 0]]


def test_infinite_cotangents_go_to_the_maximum_alone(backend):
    pool = lambda x: pg.max_pool(x, (1, 2))
    dx = pg.grad(pool)(image([1, 2, 4, 3]), dy=image([np.inf, np.nan]))
    np.testing.assert_array_equal(dx.numpy().ravel(), [0, np.inf, np.nan, 0])


def test_windows_of_padding_alone(backend):
    x = image([1, 2], [3, 4])
    options = {"strides": 1, "pad": [(0, 0), (2, 0)]}
    y = pg.max_pool(x, 2, **options).numpy().ravel()
    np.testing.assert_array_equal(y, [-np.inf, 3, 4])
    y = pg.avg_pool(x, 2, **options).numpy().ravel()
    np.testing.assert_array_equal(y, [np.nan, 2, 2.5])
    y = pg.max_pool(x.astype("int32"), 2, **options).numpy().ravel()
    assert y.tolist() == [np.iinfo("int32").min, 3, 4]
    ones = np.ones((1, 3, 1), "float32")
    for op, dx in (
        (pg.max_pool, [0, 0, 1, 1]),
        (pg.avg_pool, [0.75, 0.25, 0.75, 0.25]),
    ):
        pool = lambda x, op=op: op(x, 2, **options)
        gradient = lambda dy, pool=pool: pg.grad(pool)(x, dy=dy)
        np.testing.assert_array_equal(gradient(ones).numpy().ravel(), dx)
        ddy = pg.grad(gradient)(ones, dy=x).numpy().ravel()
        np.testing.assert_array_equal(
            ddy, [0, *op(x, 2, **options).numpy().ravel()[1:]]
        )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16"])
def test_dtypes(dtype, backend):
    require_dtypes(backend, dtype)
    x = RNG.integers(0, 100, size=X).astype(dtype)
    expected = windows(x.astype("float64"), 2, (1, 1), (3, 4))
    y = pg.max_pool(x, 2, pad=1)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.numpy(), expected.max(0))
    y = pg.avg_pool(x, 2, pad=1)
    assert y.dtype == ("float16" if dtype == "float16" else "float32")
    np.testing.assert_allclose(y.numpy(), expected.mean(0), rtol=1e-3)


def test_averages_of_complex_numbers(backend):
    require_dtypes(backend, "complex64")
    x = np.asarray([1 + 2j, 3 - 4j], "complex64").reshape(1, 2, 1)
    y = pg.avg_pool(x, (1, 2))
    assert y.numpy().ravel().tolist() == [2 - 1j]
    dx = pg.grad(lambda x: pg.avg_pool(x, (1, 2)))(x, dy=y)
    assert dx.numpy().ravel().tolist() == [1 - 0.5j] * 2


def test_empty_batches_and_channels(backend):
    for op in (pg.max_pool, pg.avg_pool):
        for shape in ((0, 4, 4, 3), (2, 4, 4, 0)):
            x = np.ones(shape, "float32")
            dy = np.ones((shape[0], 2, 2, shape[3]), "float32")
            y, dx = op(x, 2), pg.grad(lambda x, op=op: op(x, 2))(x, dy=dy)
            assert (y.shape, dx.shape) == (dy.shape, x.shape)
    y, indices = pg.max_pool_with_argmax(np.ones((0, 4, 4, 3), "float32"), 2)
    assert y.shape == indices.shape == (0, 2, 2, 3)


# --- with argmax -----------------------------------------------------------------


@pytest.mark.parametrize("include_batch", [False, True])
@pytest.mark.parametrize(
    ("x", "window", "options", "before", "out_size"),
    [case for case in CASES if case[0] is X],
    ids=str,
)
def test_argmax(x, window, options, before, out_size, include_batch, backend):
    require_dtypes(backend, "float64")
    x = RNG.integers(-3, 3, size=x).astype("float64")
    y, indices = pg.max_pool_with_argmax(
        x, window, **options, include_batch_in_index=include_batch
    )
    assert indices.dtype == np.int32
    flat_indices = np.arange(x.size).reshape(x.shape)
    if not include_batch:
        flat_indices = np.broadcast_to(flat_indices[:1], x.shape)
    elements = windows(x, window, before, out_size, **options)
    numbers = windows(flat_indices, window, before, out_size, **options)
    first = np.argmax(elements.filled(-99), 0)[None]  # the first of equal maxima
    expected = np.ma.array(
        np.take_along_axis(numbers.data, first, 0)[0], mask=elements.mask.all(0)
    )
    np.testing.assert_array_equal(indices.numpy(), expected.filled(-1))
    np.testing.assert_array_equal(y.numpy(), elements.max(0).filled(-np.inf))
    with (
        toy(without=KERNELS, dtypes=["float64", "int32", "bool"]),
        pg.use_backend("toy"),
    ):
        _, again = pg.max_pool_with_argmax(
            x, window, **options, include_batch_in_index=include_batch
        )
        assert again.dtype == np.int32
        np.testing.assert_array_equal(again.numpy(), indices.numpy())


@pytest.mark.parametrize("without", [(), KERNELS], ids=["kernel", "decomposition"])
def test_padding_differs_from_the_smallest_integer(without):
    x = np.full((1, 2, 2, 1), np.iinfo("int32").min, "int32")
    with toy(without=without), pg.use_backend("toy"):
        _, indices = pg.max_pool_with_argmax(x, 2, strides=1, pad=[(2, 0), (1, 0)])
        assert indices.numpy()[0, ..., 0].tolist() == [[-1, -1], [0, 0], [0, 0]]


def test_float16_is_averaged_in_float32(backend):
    require_dtypes(backend, "float16")
    dy = np.ones((1, 1, 301, 1), "float16")
    options = {"filter_size": (1, 300), "strides": 1}
    hits = [min(i, 599 - i, 299) + 1 for i in range(600)]  # windows of each element
    for name, inputs, more_attrs, expected in (
        ("AvgPool", [np.full((1, 1, 300, 1), 60000, "float16")], {}, [60000]),
        ("AvgPoolGrad", [dy, None], {"in_shape": (1, 1, 600, 1)}, np.divide(hits, 300)),
    ):
        y = pg.run_kernel(name, inputs, options | more_attrs)
        with decomposed(name):
            z = pg.run_kernel(name, inputs, options | more_attrs)
        for found in (y, z):
            assert found.dtype == "float16"
            np.testing.assert_allclose(found.numpy().ravel(), expected, rtol=1e-3)


def test_padding_that_is_too_large_for_kernels(backend):
    """The positions would need more than 32 bits."""
    with pytest.raises(ValueError, match=r"span less than 2\*\*31 elements"):
        pg.max_pool(np.ones((1, 2, 2, 1), "f"), 1, strides=2**30, pad=2**40)


def test_gradient_of_the_maxima_with_argmax(backend):
    require_dtypes(backend, "float64")
    x = distinct(X)
    op = lambda x: pg.square(pg.max_pool_with_argmax(x, 2, strides=1)[0])
    check_gradients(op, x)


# --- calls by kernel name, and errors --------------------------------------------


def test_run_kernel_infers_the_rounding_mode(backend):
    x = pg.asarray(RNG.normal(size=X).astype("float32"))
    options = {"strides": 3, "pad": 1}
    for kind, op in (("Max", pg.max_pool), ("Avg", pg.avg_pool)):
        for mode in ("floor", "ceil"):
            pool = lambda x, op=op, mode=mode: op(
                x, 3, **options, dim_rounding_mode=mode
            )
            y = pool(x)
            inputs = [y, x, y] if kind == "Max" else [y, x]
            given = {"filter_size": 3, **options}
            dx = pg.run_kernel(f"{kind}PoolGrad", inputs, given)
            np.testing.assert_array_equal(dx.numpy(), pg.grad(pool)(x, dy=y).numpy())
    given = {"filter_size": 2, "in_shape": (1, 4, 4, 1)}
    dx = pg.run_kernel("AvgPoolGrad", [pg.ones((1, 3, 3, 1)), None], given)
    assert dx.shape == (1, 4, 4, 1)


def test_run_kernel_checks_the_rank(backend):
    with pytest.raises(ValueError, match="run_kernel: the input must have rank 4, got"):
        pg.run_kernel("MaxPool", [pg.ones(X3)], {"filter_size": 2})


ERRORS = [
    ({"x": (3, 3)}, "max_pool: x must have rank 4, or 3 without a batch, or 5"),
    ({"filter_size": 7}, "max_pool: a window of 7 does not fit into 5 elements"),
    ({"filter_size": 0}, "max_pool: the window must be a positive integer, or 2"),
    ({"filter_size": (2, 2, 2)}, "the window must be a positive integer, or 2"),
    ({"x": X3, "strides": (1, 1)}, "strides must be a positive integer, or 3 of"),
    ({"data_format": "NDHWC"}, "data_format 'NDHWC': use 'NHWC' or 'NCHW'"),
    ({"pad": "same", MODE: "round"}, "needs a pad that is a number or pairs"),
]


@pytest.mark.parametrize(("given", "message"), ERRORS, ids=str)
def test_errors(given, message, backend):
    given = {"x": X, "filter_size": 2} | given
    x = np.ones(given.pop("x"), "float32")
    with pytest.raises(ValueError, match=message):
        pg.max_pool(x, **given)


def test_errors_of_other_ops(backend):
    with pytest.raises(
        ValueError, match="pool: pooling_type 'min': use 'max' or 'avg'"
    ):
        pg.pool(np.ones(X), 2, "min")
    with pytest.raises(ValueError, match="max_pool_with_argmax: x must have rank 4"):
        pg.max_pool_with_argmax(np.ones(X[1:]), 2)
    with pytest.raises(TypeError, match="max_pool: bool has no order"):
        pg.max_pool(np.ones(X, bool), 2)
    with pytest.raises(TypeError, match="pool: complex numbers have no order"):
        pg.pool(np.ones(X, "complex64"), 2, "max")
