"""Convolutions, compared with sums over kernel positions; gradients, dtypes, errors."""

import numpy as np
import plugrad as pg
import pytest
from plugrad import geometry

from ..check import check_gradients, require_dtypes
from ..toy import toy

RNG = np.random.default_rng(0)
KERNELS = [
    f"{name}{part}"
    for name, version in (("Conv2D", ""), ("Conv3D", "V2"))
    for part in ("", f"BackpropInput{version}", f"BackpropFilter{version}")
]


def reference(
    x, filter, pad_before, out_size, *, strides=1, dilations=1, groups=1, **_
):
    """Return the sum over kernel positions of input times filter."""
    *window, _, k = filter.shape
    n = len(window)
    g = groups
    strides, dilations = (np.broadcast_to(s, n) for s in (strides, dilations))
    x = np.pad(x, [(0, 0), *((b, 99) for b in pad_before), (0, 0)])
    y = np.zeros((x.shape[0], *out_size, k), x.dtype)
    for position in np.ndindex(*window):
        ends = zip(position, dilations, strides, out_size, strict=True)
        patches = x[
            (slice(None), *(slice(a * d, a * d + s * p, s) for a, d, s, p in ends))
        ]
        parts = zip(
            np.split(patches, g, -1), np.split(filter[position], g, -1), strict=True
        )
        y += np.concatenate([part @ matrix for part, matrix in parts], -1)
    return y


def name(value):
    """Return the name of a value in test ids."""
    return getattr(value, "__name__", str(value))


C1 = pg.conv1d
C2 = pg.conv2d
C3 = pg.conv3d
MODE = "dim_rounding_mode"
X = (2, 5, 6, 3)
F = (3, 2, 3, 4)
CASES = [  # op, x, filter, options, padding before, output size
    (C2, X, F, {}, (0, 0), (3, 5)),
    (C2, X, F, {"pad": "same"}, (1, 0), (5, 6)),
    (C2, X, F, {"pad": "same", "strides": 2}, (1, 0), (3, 3)),
    (C2, X, F, {"pad": "same", "dilations": (2, 1)}, (2, 0), (5, 6)),
    (C2, X, F, {"strides": 2, "dilations": 2}, (0, 0), (1, 2)),
    (C2, X, F, {"strides": (1, 3), "pad": 2}, (2, 2), (7, 3)),
    (C2, X, F, {"strides": (2, 3), "pad": [(0, 1), (2, 0)]}, (0, 2), (2, 3)),
    (C2, X, F, {"pad": 1, "strides": 3, MODE: "ceil"}, (1, 1), (3, 3)),
    (C2, X, F, {"pad": 1, "strides": 3, MODE: "ceil_inside"}, (1, 1), (2, 3)),
    (C2, X, F, {"pad": 1, "strides": (3, 4), MODE: "round"}, (1, 1), (2, 3)),
    (C2, X, F, {"pad": 1, "strides": (3, 4), MODE: "floor"}, (1, 1), (2, 2)),
    (C2, X, (1, 1, 3, 4), {}, (0, 0), (5, 6)),
    (C2, X, (1, 1, 3, 4), {"strides": (2, 4)}, (0, 0), (3, 2)),
    (C2, X, (1, 1, 3, 4), {"pad": 2, "strides": 2}, (2, 2), (5, 5)),
    (C2, (1, 2, 2, 1), (4, 3, 1, 2), {"pad": "same"}, (1, 1), (2, 2)),
    (C2, (2, 5, 6, 4), (3, 2, 2, 6), {"pad": "same", "groups": 2}, (1, 0), (5, 6)),
    (C2, (2, 5, 6, 4), (3, 2, 1, 8), {"strides": 2, "groups": 4}, (0, 0), (2, 3)),
    (C1, (2, 7, 3), (3, 3, 4), {"pad": "same", "strides": 2}, (1,), (4,)),
    (C1, (2, 7, 4), (3, 2, 4), {"pad": [(3, 0)], "groups": 2}, (3,), (8,)),
    (C3, (1, 3, 4, 5, 2), (2, 3, 2, 2, 3), {}, (0, 0, 0), (2, 2, 4)),
    (C3, (2, 3, 4, 3, 2), (2, 3, 2, 1, 4), {"groups": 2}, (0, 0, 0), (2, 2, 2)),
    (C3, (1, 3, 4, 3, 2), (2, 3, 2, 2, 2), {"pad": "same"}, (0, 1, 0), (3, 4, 3)),
    (C3, (1, 3, 3, 3, 1), (2, 2, 2, 1, 2), {"dilations": 2}, (0, 0, 0), (1, 1, 1)),
]
cases = pytest.mark.parametrize(
    ("op", "x", "filter", "options", "pad_before", "out_size"), CASES, ids=name
)


@cases
def test_values_and_gradients(op, x, filter, options, pad_before, out_size, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=x)
    filter = RNG.normal(size=filter)
    expected = reference(x, filter, pad_before, out_size, **options)
    y = op(pg.asarray(x), pg.asarray(filter), **options)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert y.shape == expected.shape
    check_gradients(lambda x, filter: op(x, filter, **options), x, filter)


@cases
def test_float32(op, x, filter, options, pad_before, out_size, backend):
    x, filter = (RNG.normal(size=s).astype("float32") for s in (x, filter))
    expected = reference(x, filter, pad_before, out_size, **options)
    y, dxs = pg.value_and_grads(lambda *xs: pg.sum(op(*xs, **options)))(x, filter)
    assert {t.dtype.name for t in (y, *dxs)} == {"float32"}
    y = op(x, filter, **options)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-5)


@cases
def test_decompositions(op, x, filter, options, pad_before, out_size):
    x = RNG.normal(size=x)
    filter = RNG.normal(size=filter)
    conv = lambda *xs: op(*xs, **options)
    dy = RNG.normal(size=op(x, filter, **options).shape)
    expected = [conv(x, filter), *pg.grads(conv)(x, filter, dy=dy)]
    with toy(without=KERNELS, dtypes=["float64", "int32"]), pg.use_backend("toy"):
        found = [conv(x, filter), *pg.grads(conv)(x, filter, dy=dy)]
        for y, z in zip(found, expected, strict=True):
            np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-12, atol=1e-12)


T1 = pg.conv1d_transpose
T2 = pg.conv2d_transpose
T3 = pg.conv3d_transpose
TRANSPOSED = [
    (C1, T1, (2, 7, 3), (3, 3, 4), {"pad": "same", "strides": 2}),
    (C1, T1, (2, 4, 7), (3, 2, 6), {"dilations": 2, "groups": 2, "data_format": "NCW"}),
    (C1, T1, (7, 3), (2, 3, 4), {"pad": [(1, 2)], "strides": 3}),
    (C2, T2, X, F, {"pad": "same", "strides": 2}),
    (C2, T2, X, F, {"dilations": 2}),
    (C2, T2, X, F, {"pad": 3, "strides": (1, 4)}),
    (C2, T2, (2, 5, 6, 4), (3, 2, 2, 6), {"groups": 2}),
    (C2, T2, (2, 5, 6, 4), (3, 2, 1, 4), {"groups": 4}),
    (C2, T2, X[1:], F, {"pad": [(0, 1), (2, 0)]}),
    (C2, T2, X, F, {"pad": 1, "strides": 3, MODE: "ceil"}),
    (C2, T2, (2, 3, 5, 6), F, {"data_format": "NCHW"}),
    (C3, T3, (1, 3, 4, 5, 2), (2, 3, 2, 2, 3), {"strides": 2}),
]


@pytest.mark.parametrize(
    ("op", "transpose", "x", "filter", "options"), TRANSPOSED, ids=name
)
def test_transposes(op, transpose, x, filter, options, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=x)
    filter = RNG.normal(size=filter)
    y = op(x, filter, **options).numpy()
    dy = RNG.normal(size=y.shape)
    options = options | {MODE: None}  # the rounding mode is inferred
    dx = transpose(dy, filter, x.shape, **options)
    assert dx.shape == x.shape
    np.testing.assert_allclose(np.vdot(y, dy), np.vdot(x, dx.numpy()))
    check_gradients(lambda *xs: transpose(*xs, x.shape, **options), dy, filter)


FORMATS = [
    (pg.conv1d, (2, 7, 3), (3, 3, 4), "NCW"),
    (pg.conv2d, X, F, "NCHW"),
    (pg.conv3d, (2, 3, 4, 5, 2), (2, 3, 2, 2, 3), "NCDHW"),
]


@pytest.mark.parametrize(("op", "x", "filter", "data_format"), FORMATS, ids=name)
def test_channels_first_and_no_batch(op, x, filter, data_format, backend):
    x, filter = (RNG.normal(size=s).astype("float32") for s in (x, filter))
    first = lambda x: np.moveaxis(x, -1, 1)
    options = {"pad": [(0, 1)] * (x.ndim - 2), "strides": 2}
    y = op(x, filter, **options).numpy()
    z = op(first(x), filter, **options, data_format=data_format)
    np.testing.assert_allclose(z.numpy(), first(y), rtol=1e-5, atol=1e-5)
    z = op(x[0], filter, **options)
    np.testing.assert_allclose(z.numpy(), y[0], rtol=1e-5, atol=1e-5)
    z = op(first(x)[0], filter, **options, data_format=data_format)
    np.testing.assert_allclose(z.numpy(), first(y)[0], rtol=1e-5, atol=1e-5)


EMPTY = [
    ((0, 5, 6, 3), F),
    ((2, 0, 6, 3), F),
    ((2, 5, 6, 0), (3, 2, 0, 4)),
    (X, (3, 2, 3, 0)),
]


@pytest.mark.parametrize(("x", "filter"), EMPTY)
def test_empty(x, filter, backend):
    x = np.ones(x, "float32")
    filter = np.ones(filter, "float32")
    conv = lambda x, filter: pg.conv2d(x, filter, pad="same")
    y = conv(x, filter)
    assert y.shape == (*x.shape[:3], filter.shape[3])
    assert not y.numpy().any()
    for dx, like in zip(
        pg.grads(conv)(x, filter, dy=np.ones(y.shape, "float32")),
        (x, filter),
        strict=True,
    ):
        assert dx.shape == like.shape
        assert not dx.numpy().any()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("options", [{}, {"groups": 2}], ids=str)
def test_integers_are_exact_and_wrap(dtype, options, backend):
    require_dtypes(backend, dtype)
    limits = np.iinfo(dtype)
    x = RNG.integers(limits.min, limits.max, size=(2, 5, 6, 4), dtype=dtype)
    filter = RNG.integers(0, 9, size=(3, 2, 4 // options.get("groups", 1), 4))
    filter = filter.astype(dtype)
    y = pg.conv2d(x, filter, pad=1, **options)
    expected = reference(x, filter, (1, 1), (5, 7), **options)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.numpy(), expected)


def test_bool_gives_int32(backend):
    x = np.ones((1, 3, 3, 1), bool)
    y = pg.conv2d(x, np.ones((2, 2, 1, 1), bool))
    assert y.dtype == np.int32
    assert y.numpy().ravel().tolist() == [4] * 4


def test_float16_sums_are_wider(backend):
    require_dtypes(backend, "float16")
    x = np.full((1, 64, 64, 1), 1.001, "float16")
    y = pg.conv2d(x, np.ones((64, 64, 1, 1), "float16"))
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.item(), 4096 * float(x[0, 0, 0, 0]), rtol=1e-3)


def test_complex(backend):
    require_dtypes(backend, "complex128")
    z = lambda *shape: RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
    x = z(*X)
    filter = z(*F)
    y = pg.conv2d(x, filter, strides=2)
    expected = reference(x, filter, (0, 0), (2, 3), strides=2)
    np.testing.assert_allclose(y.numpy(), expected)
    dy = z(*y.shape)
    dx = z(*X)
    df = z(*F)
    f = lambda x, filter: pg.conv2d(x, filter, strides=2)
    gx, gf = pg.grads(f)(x, filter, dy=dy)
    for g, d, moved in (
        (gx, dx, f(dx, filter)),
        (gf, df, f(x, df)),
    ):
        np.testing.assert_allclose(
            np.vdot(g.numpy(), d).real, np.vdot(dy, moved.numpy()).real
        )


def test_nan_affects_only_the_windows_that_contain_it(backend):
    x = np.ones((1, 5, 5, 1), "float32")
    x[0, 0, 4] = np.nan
    y = pg.conv2d(x, np.ones((2, 2, 1, 1), "float32")).numpy()[0, ..., 0]
    assert np.argwhere(np.isnan(y)).tolist() == [[0, 3]]


@pytest.mark.parametrize("x", [(3, 30, 30, 16), (1, 60, 60, 16)])
def test_an_image_larger_than_a_block(x, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=x)
    filter = RNG.normal(size=(3, 3, 16, 2))
    out_size = tuple(n - 2 for n in x.shape[1:3])
    y = pg.conv2d(x, filter)
    np.testing.assert_allclose(y.numpy(), reference(x, filter, (0, 0), out_size))
    dy = RNG.normal(size=y.shape)
    dx, df = pg.grads(pg.conv2d)(x, filter, dy=dy)
    np.testing.assert_allclose(np.vdot(dx.numpy(), x), np.vdot(dy, y.numpy()))
    np.testing.assert_allclose(np.vdot(df.numpy(), filter), np.vdot(dy, y.numpy()))


# --- run_kernel ------------------------------------------------------------------


def test_run_kernel_accepts_the_attributes_of_the_op(backend):
    x, f = (pg.asarray(RNG.normal(size=s).astype("float32")) for s in (X, F))
    options = {"strides": 2, "pad": "same"}
    y = pg.run_kernel("Conv2D", [x, f], options)
    np.testing.assert_array_equal(y.numpy(), pg.conv2d(x, f, **options).numpy())
    dx, df = pg.grads(lambda x, f: pg.conv2d(x, f, **options))(x, f, dy=y)
    other = pg.run_kernel("Conv2DBackpropInput", [y, f], {**options, "in_shape": X})
    np.testing.assert_array_equal(other.numpy(), dx.numpy())
    given = {**options, "filter_shape": F}
    other = pg.run_kernel("Conv2DBackpropFilter", [x, y], given)
    np.testing.assert_array_equal(other.numpy(), df.numpy())


def test_run_kernel_checks_the_shape_of_dy(backend):
    f = np.ones(F, "float32")
    dy = np.ones((2, 3, 5, 9), "float32")
    message = r"dy must have shape \(2, 3, 5, 4\), got \(2, 3, 5, 9\)"
    with pytest.raises(ValueError, match=message):
        pg.run_kernel(
            "Conv2DBackpropInput", [pg.asarray(dy), pg.asarray(f)], {"in_shape": X}
        )


GEOMETRY_2D = geometry.windows("test", (2, 5, 6, 3), (2, 2), channels=4)
GEOMETRY_3D = geometry.windows("test", (2, 5, 6, 7, 3), (2, 2, 2), channels=4)


@pytest.mark.parametrize(
    ("kernel", "shapes", "attrs", "message"),
    [
        (
            "Conv2D",
            [X, (2, 2, 5, 4)],
            {"geometry": GEOMETRY_2D},
            "filter must have shape",
        ),
        (
            "Conv2D",
            [X, (2, 2, 3, 5)],
            {"geometry": GEOMETRY_2D},
            "filter must have shape",
        ),
        (
            "Conv2D",
            [GEOMETRY_3D.in_shape, GEOMETRY_3D.filter_shape],
            {"geometry": GEOMETRY_3D},
            "rank 4",
        ),
        (
            "Conv3D",
            [GEOMETRY_2D.in_shape, GEOMETRY_2D.filter_shape],
            {"geometry": GEOMETRY_2D},
            "rank 5",
        ),
        ("Conv2DBackpropInput", [X, F], {"in_shape": 5}, r"rank 4, got shape \(5,\)"),
        ("Conv2DBackpropInput", [X[:2], F], {"in_shape": X}, "output must have rank 4"),
        ("Conv2DBackpropFilter", [X, X], {"filter_shape": "x"}, "must be integers"),
        ("DepthwiseConv2dNative", [X, F], {"groups": 2}, "groups 2 must be 3"),
        (
            "DepthwiseConv2dNative",
            [X, F],
            {"geometry": GEOMETRY_2D},
            "channels must be a gr",
        ),
        ("MaxPool", [X], {"filter_size": 2, "groups": 3}, "must be one group"),
        ("MaxPool", [X], {"geometry": GEOMETRY_2D}, "must be one group"),
        (
            "Dilation2D",
            [X, (2, 2, 4)],
            {"geometry": GEOMETRY_2D},
            "filter must have shape",
        ),
    ],
    ids=str,
)
def test_run_kernel_checks_the_geometry(kernel, shapes, attrs, message, backend):
    with pytest.raises((ValueError, TypeError), match=message):
        pg.run_kernel(kernel, [pg.ones(shape) for shape in shapes], attrs)


# --- errors ----------------------------------------------------------------------

ERRORS = [
    ({"x": (2, 5)}, r"conv2d: x must have rank 4, or 3 without a batch; got shape"),
    ({"filter": (3, 2, 3)}, r"conv2d: filter must have rank 4, got shape \(3, 2, 3\)"),
    ({"filter": (3, 2, 5, 4)}, "conv2d: input has 3 channels but filter expects 5"),
    ({"groups": 2}, "3 channels but filter expects 3 and gives 4 in 2 groups"),
    ({"groups": 0}, "conv2d: groups 0 must be 1 or more"),
    ({"filter": (6, 2, 3, 4)}, r"a window of 6 does not fit into 5 elements"),
    ({"dilations": 3}, r"a window of 7 does not fit .* padded by \(0, 0\)"),
    ({"strides": 0}, r"conv2d: strides must be a positive integer, or 2 of .* got 0"),
    ({"strides": (1, 2, 3)}, "strides must be a positive integer, or 2 of them"),
    ({"dilations": (1, 0)}, "conv2d: dilations must be a positive integer"),
    ({"pad": "full"}, "conv2d: pad 'full': use 'same', 'valid', an integer, or 2"),
    ({"pad": [(1, 1)]}, r"conv2d: pad must be 2 pairs \(before, after\)"),
    ({"pad": -1}, r"conv2d: pad must be 2 pairs .*none negative"),
    ({"data_format": "NWHC"}, "conv2d: data_format 'NWHC': use 'NHWC' or 'NCHW'"),
    ({"pad": 1, MODE: "up"}, "dim_rounding_mode 'up': use 'floor', 'ceil'"),
    ({"pad": "same", MODE: "ceil"}, "needs a pad that is a number or pairs"),
]


@pytest.mark.parametrize(("given", "message"), ERRORS, ids=str)
def test_errors(given, message, backend):
    given = {"x": X, "filter": F} | given
    x, filter = (np.ones(given.pop(name), "float32") for name in ("x", "filter"))
    with pytest.raises(ValueError, match=message):
        pg.conv2d(x, filter, **given)


def test_sizes_are_integers(backend):
    x = np.ones(X, "float32")
    filter = np.ones(F, "float32")
    with pytest.raises(TypeError, match=r"conv2d: strides must be integers, got 1\.5"):
        pg.conv2d(x, filter, strides=1.5)
    with pytest.raises(TypeError, match="conv2d: pad must be integers"):
        pg.conv2d(x, filter, pad=[(0, 1.5), (0, 0)])


WRONG_OUTPUT_SHAPES = [
    ((2, 9, 6, 3), r"the output has \(3, 5\) windows, but \(7, 5\) fit over"),
    ((1, 5, 6, 3), r"x must have shape \(1, 3, 5, 4\), got \(2, 3, 5, 4\)"),
    ((2, 5, 6, 2), "input has 2 channels but filter expects 3"),
    ((5, 6, 3), r"output_shape \(5, 6, 3\) must have the rank of x"),
]


@pytest.mark.parametrize(("output_shape", "message"), WRONG_OUTPUT_SHAPES)
def test_output_shapes_that_do_not_fit(output_shape, message, backend):
    dy = np.ones((2, 3, 5, 4), "float32")
    filter = np.ones(F, "float32")
    with pytest.raises(ValueError, match=f"conv2d_transpose: {message}"):
        pg.conv2d_transpose(dy, filter, output_shape)


def test_geometry_is_computed_once():
    first, second = (
        geometry.windows("op", X, 3, strides=2, pad="same") for _ in range(2)
    )
    assert first is second
    assert hash(first) == hash(second)
    assert first.transposed.in_shape == (2, 7, 8, 3)
