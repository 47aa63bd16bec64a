"""Softmax and normalization: values by NumPy formulas, gradients, decompositions."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes
from ..toy import toy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4))


# --- softmax ---------------------------------------------------------------------


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


PAIRS = [(pg.softmax, softmax), (pg.log_softmax, log_softmax)]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("op", "reference"), PAIRS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(2, 3, 4), (700, 5, 1), (3, 300, 9)], ids=str)
def test_softmax(op, reference, axis, shape, backend):
    x = RNG.normal(size=shape).astype(np.float32) * 10 + 1000
    y = op(pg.asarray(x), axis=axis)
    expected = reference(x.astype(np.float64), axis)
    np.testing.assert_allclose(y.numpy(), expected, rtol=3e-5, atol=1e-6)
    assert y.dtype == np.float32


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("op", [pg.softmax, pg.log_softmax], ids=lambda f: f.__name__)
def test_gradients_of_softmax(op, axis, backend):
    require_dtypes(backend, "float64")
    check_gradients(lambda x: op(x, axis=axis), X)


@pytest.mark.parametrize("axis", [(0, 2), (-1, 0), [1, 2], None, (1,)], ids=str)
@pytest.mark.parametrize(("op", "reference"), PAIRS, ids=lambda f: f.__name__)
def test_softmax_over_several_axes(op, reference, axis, backend):
    x = (X * 10 + 1000).astype(np.float32)
    x[0, 1, 2] = -np.inf
    y = op(pg.asarray(x), axis=axis)
    along = tuple(axis) if isinstance(axis, list) else axis
    with np.errstate(divide="ignore"):
        expected = reference(x.astype(np.float64), along)
    np.testing.assert_allclose(y.numpy(), expected, rtol=3e-5, atol=1e-6)
    check_gradients(lambda x: op(x, axis=axis), X)


@pytest.mark.parametrize(("op", "value"), [(pg.softmax, 1), (pg.log_softmax, 0)])
def test_softmax_over_no_axes(op, value, backend):
    x = pg.asarray(X.astype(np.float32))
    assert (op(x, axis=()).numpy() == value).all()
    assert op(3.0, axis=None).item() == value
    assert op(pg.zeros((0, 3)), axis=(0, 1)).shape == (0, 3)


def test_softmax_of_extreme_values(backend):
    x = pg.asarray([[0.0, -np.inf, 0.0], [1e4, -1e4, 0.0], [np.nan, 0.0, 1.0]])
    half = np.log(0.5)
    nan = np.nan
    np.testing.assert_allclose(
        pg.softmax(x).numpy(), [[0.5, 0, 0.5], [1, 0, 0], [nan, nan, nan]]
    )
    np.testing.assert_allclose(
        pg.log_softmax(x).numpy(),
        [[half, -np.inf, half], [0, -2e4, -1e4], [nan, nan, nan]],
        rtol=1e-6,
    )
    for op in (
        pg.softmax,
        pg.log_softmax,
    ):  # the gradients of the first two rows are finite
        dx = pg.grad(lambda x, op=op: pg.sum(op(x)[:2, 0]))(x)
        assert np.isfinite(dx.numpy()[:2]).all()


@pytest.mark.parametrize("op", [pg.softmax, pg.log_softmax], ids=lambda f: f.__name__)
def test_softmax_of_other_dtypes_and_empty_arrays(op, backend):
    assert op([1, 2]).dtype == np.float32
    for shape in ((0, 3), (3, 0)):
        assert op(np.empty(shape, np.float32)).shape == shape
    require_dtypes(backend, "float16")
    y = op(pg.full((40_000,), 1, dtype="float16"), axis=0)
    expected = 1 / 40_000 if op is pg.softmax else -np.log(40_000)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.numpy(), np.float16(expected), rtol=1e-3)


# --- batch, layer and group ------------------------------------------------------


def batch_norm(x, mean, variance, offset=0, scale=1, epsilon=1e-3):
    return (x - mean) / np.sqrt(variance + epsilon) * scale + offset


SHAPES = [((5, 3), (3,)), ((2, 2, 3, 3), (3,)), ((2, 3), (2, 3)), ((4, 3), (4, 1))]


@pytest.mark.parametrize("given", ["both", "scale", "offset", "none"])
@pytest.mark.parametrize(("shape", "channels"), SHAPES, ids=str)
def test_batch_norm(shape, channels, given, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=shape)
    mean = RNG.normal(size=channels)
    variance = RNG.uniform(0.5, 2, size=channels)
    parameters = [RNG.normal(size=channels), RNG.normal(size=channels)]
    parameters = {
        "both": parameters,
        "scale": parameters[1:],
        "offset": parameters[:1],
        "none": [],
    }[given]

    def op(x, mean, variance, *parameters):
        offset = parameters[0] if given in ("both", "offset") else None
        scale = parameters[-1] if given in ("both", "scale") else None
        return pg.batch_norm(x, mean, variance, offset, scale, epsilon=1e-2)

    y = op(*map(pg.asarray, (x, mean, variance, *parameters)))
    offset = parameters[0] if given in ("both", "offset") else 0
    scale = parameters[-1] if given in ("both", "scale") else 1
    expected = batch_norm(x, mean, variance, offset, scale, 1e-2)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)
    check_gradients(op, x, mean, variance, *parameters)


def test_dtypes_of_batch_norm(backend):
    y = pg.batch_norm([[1, 2]], [1, 1], [1, 4], epsilon=0)
    assert (y.tolist(), y.dtype) == ([[0.0, 0.5]], np.float32)
    require_dtypes(backend, "float16", "float64")
    x = pg.asarray([[300.0, 1.0]], dtype="float16")
    y = pg.batch_norm(x, pg.zeros((2,), dtype="float16"), x[0] * 0 + 1, epsilon=1e-5)
    assert (y.dtype, y.tolist()) == (np.float16, [[300.0, 1.0]])
    assert pg.batch_norm(x, pg.zeros((2,), dtype="float64"), 1.0).dtype == np.float64


def layer_norm(x, scale, offset, axis):
    x = x.astype(np.float64)
    mean = x.mean(axis, keepdims=True)
    variance = x.var(axis, keepdims=True)
    offset = 0 if offset is None else offset
    return batch_norm(x, mean, variance, offset, 1 if scale is None else scale, 1e-5)


# The shape of a scale or offset: a function of the shape of x and of the first
# normalized axis.
PARAMETER_SHAPES = {
    "none": lambda shape, first: None,
    "number": lambda shape, first: (),
    "last": lambda shape, first: shape[-1:],
    "row": lambda shape, first: shape[first:],
    "long row": lambda shape, first: (*[1] * first, *shape[first:]),
    "per row": lambda shape, first: (*shape[:-1], 1),
    "all": lambda shape, first: shape,
}
SCALES_AND_OFFSETS = [
    "none none",
    "row row",
    "row none",
    "none row",
    "last number",
    "number last",
]
SCALES_AND_OFFSETS = [pair.split() for pair in SCALES_AND_OFFSETS] + [
    ["long row", "per row"],
    ["all", "row"],
]
SHAPES_AND_AXES = [
    ((9, 7), -1),
    ((2, 3, 4), (-2, -1)),
    ((5, 4), 0),
    ((2, 3, 4, 5), (1, 2)),
]
SHAPES_AND_AXES += [((3, 4, 1), 1), ((4, 3), ()), ((3, 2, 5), (0, 1, 2)), ((1, 1), -1)]
SHAPES_AND_AXES += [((3, n), -1) for n in (2, 15, 33, 64, 100, 2048, 5001)] + [
    ((300, 67), -1)
]
TOLERANCES = {"float16": 4e-3, "float32": 5e-6, "float64": 1e-13}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES, ids=str)
def test_values_of_layer_norm(shape, axis, dtype, backend):
    require_dtypes(backend, dtype)
    axes = np.arange(len(shape))[axis if type(axis) is int else list(axis)]
    first = np.min(axes, initial=len(shape))
    x = (RNG.normal(size=shape) + 1).astype(dtype)
    for given in SCALES_AND_OFFSETS:
        scale_and_offset = [PARAMETER_SHAPES[name](shape, first) for name in given]
        scale_and_offset = [
            s if s is None else RNG.normal(size=s).astype(dtype)
            for s in scale_and_offset
        ]
        y = pg.layer_norm(x, *scale_and_offset, axis=axis)
        expected = layer_norm(x, *scale_and_offset, axis)
        tolerances = {
            "rtol": TOLERANCES[dtype],
            "atol": TOLERANCES[dtype],
            "err_msg": str(given),
        }
        np.testing.assert_allclose(y.numpy(), expected, **tolerances)
        assert (y.dtype, y.shape) == (dtype, shape)


@pytest.mark.parametrize("axis", [-1, 1, (1, 2)], ids=str)
def test_gradients_of_layer_norm(axis, backend):
    require_dtypes(backend, "float64")
    scale = RNG.normal(size=(4,))
    offset = RNG.normal(size=(3, 4))
    check_gradients(lambda *xs: pg.layer_norm(*xs, axis=axis), X, scale, offset)
    check_gradients(lambda x: pg.layer_norm(x, axis=axis), X)


def test_layer_norm_of_large_numbers(backend):
    x = np.asarray([[10_000.0, 10_001.0, 10_002.0]], np.float32)
    expected = np.asarray([[-1.2247, 0, 1.2247]])
    np.testing.assert_allclose(pg.layer_norm(x).numpy(), expected, atol=1e-3)
    x = (RNG.normal(size=(2, 999)) + 1e5).astype(np.float32)
    expected = layer_norm(x, None, None, -1)
    # Neighboring float32 of this size differ by 2**-7, so the mean is off by 2**-8.
    np.testing.assert_allclose(pg.layer_norm(x).numpy(), expected, atol=0.01)


def test_layer_norm_of_a_million_elements(backend):
    x = RNG.uniform(size=(2, 1_000_003)).astype(np.float32)
    y = pg.layer_norm(x).numpy()
    np.testing.assert_allclose(y, layer_norm(x, None, None, -1), atol=2e-6)


def test_nan_and_infinity_stay_in_their_row_of_layer_norm(backend):
    x = RNG.normal(size=(7, 70)).astype(np.float32)
    clean = pg.layer_norm(x, x[0], x[1]).numpy()
    x[2, 3] = np.nan
    x[4, 69] = np.inf
    x[5, 0] = -np.inf
    y = pg.layer_norm(x, x[0], x[1]).numpy()
    bad_rows = [2, 4, 5]
    assert np.isnan(y[bad_rows]).all()
    np.testing.assert_array_equal(
        np.delete(y, bad_rows, 0), np.delete(clean, bad_rows, 0)
    )


@pytest.mark.parametrize("axis", [0, -1, (0, 1), ()], ids=str)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0)], ids=str)
def test_layer_norm_of_empty_arrays(shape, axis, backend):
    x = np.empty(shape, np.float32)
    assert pg.layer_norm(x, x[:1], 2.0, axis=axis).shape == shape


@pytest.mark.parametrize("shape", [(4, 1), (4,), (1, 4), (), (1,)], ids=str)
def test_layer_norm_scales_rows_or_columns(shape, backend):
    x, dy = RNG.normal(size=(2, 4, 4)).astype(np.float32)
    scale, offset = RNG.normal(size=(2, *shape)).astype(np.float32)
    y = pg.layer_norm(x, scale, offset).numpy()
    np.testing.assert_allclose(y, layer_norm(x, scale, offset, -1), 1e-5, 1e-5)
    found = pg.grad(lambda x: pg.sum(pg.layer_norm(x, scale, offset) * dy))(x)
    expected = pg.grad(lambda x: pg.sum(pg.layer_norm(x) * (dy * scale)))(x)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-5)


def test_overriding_the_gradient_of_layer_norm(backend):
    def constant_factor(dy, x, scale):
        factor = pg.rsqrt(pg.var(x, axis=-1, keepdims=True) + 1e-5) * scale
        return (dy - pg.mean(dy, axis=-1, keepdims=True)) * factor

    x, dy = RNG.normal(size=(2, 4, 9)).astype(np.float32)
    op = lambda x: pg.layer_norm(x, [2.0])
    with pg.override_gradient("LayerNorm", x=constant_factor):
        dx = pg.grad(op)(x, dy=dy).numpy()
    factor = 2 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    expected = (dy - dy.mean(-1, keepdims=True)) * factor
    np.testing.assert_allclose(dx, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(pg.grad(op)(x, dy=dy).numpy() - expected).max() > 0.1


@pytest.mark.parametrize(("axis", "shape"), [(-1, (2, 3, 5, 6)), (1, (2, 6, 5))])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm(axis, shape, groups, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=shape)
    scale = RNG.normal(size=6)
    offset = RNG.normal(size=6)
    channels_last = np.moveaxis(x, axis, -1)
    by_group = channels_last.reshape(*channels_last.shape[:-1], groups, -1)
    axes = (*range(1, by_group.ndim - 2), by_group.ndim - 1)
    mean = by_group.mean(axes, keepdims=True)
    variance = by_group.var(axes, keepdims=True)
    by_group = batch_norm(by_group, mean, variance, epsilon=1e-5)
    expected = np.moveaxis(
        by_group.reshape(channels_last.shape) * scale + offset, -1, axis
    )
    options = {"groups": groups, "axis": axis}
    y = pg.group_norm(x, scale, offset, **options)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-10, atol=1e-12)
    plain = pg.group_norm(x, **options) * 1.0
    assert plain.shape == x.shape
    check_gradients(lambda *xs: pg.group_norm(*xs, **options), x, scale, offset)


# --- local response --------------------------------------------------------------


def local_response(x, depth_radius, bias, alpha, beta):
    y = np.empty_like(x)
    for c in range(x.shape[-1]):
        neighbours = x[..., max(c - depth_radius, 0) : c + depth_radius + 1]
        y[..., c] = x[..., c] * (bias + alpha * (neighbours**2).sum(-1)) ** -beta
    return y


LRN_VALUES = [(2, 1.0, 1.0, 0.5), (0, 0.5, 2.0, 0.75), (9, 2.0, 0.1, 1.0)]


@pytest.mark.parametrize("values", LRN_VALUES, ids=str)
@pytest.mark.parametrize("shape", [(2, 2, 3, 7), (2, 2, 1)], ids=str)
def test_local_response_normalization(shape, values, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=shape)
    attrs = dict(zip(("depth_radius", "bias", "alpha", "beta"), values, strict=True))
    y = pg.local_response_normalization(x, **attrs)
    np.testing.assert_allclose(y.numpy(), local_response(x, *values), rtol=1e-12)
    check_gradients(lambda x: pg.local_response_normalization(x, **attrs), x)


# --- decompositions --------------------------------------------------------------

KERNELS = ["Softmax", "LogSoftmax", "FusedBatchNorm", "LayerNorm", "LRN", "LRNGrad"]
LRN_ATTRS = {"depth_radius": 2, "bias": 1.0, "alpha": 0.5, "beta": 0.75}
CALLS = {
    "softmax": lambda x: pg.softmax(x, axis=1),
    "log_softmax": lambda x: pg.log_softmax(x, axis=1),
    "batch_norm": lambda x: pg.batch_norm(x, x[0, 0, 0], abs(x), x[1, 1], x),
    "no scale": lambda x: pg.batch_norm(x, x[0, 0, 0], abs(x)),
    "layer_norm": lambda x: pg.layer_norm(x, x[0, 0, 0], x[1, 1], axis=(2, 3)),
    "group_norm": lambda x: pg.group_norm(x, groups=3, axis=1),
    "lrn": lambda x: pg.local_response_normalization(x, **LRN_ATTRS),
    "lrn_grad": lambda x: pg.run_kernel("LRNGrad", [x, x * 2, x * 3], LRN_ATTRS),
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("row", CALLS)
def test_decompositions(row, dtype):
    x = RNG.normal(size=(2, 3, 2, 4)).astype(dtype)
    expected = CALLS[row](pg.asarray(x))
    dtypes = ["bool", "int32", "float16", "float32", "float64"]
    with toy(without=KERNELS, dtypes=dtypes), pg.use_backend("toy"):
        y = CALLS[row](pg.asarray(x))
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    rtol = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=rtol, atol=rtol)


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (lambda x: pg.softmax(x, axis=3), ValueError, "softmax: axis 3 is out of range"),
    (lambda x: pg.softmax(x, axis=(0, -3)), ValueError, "names one axis twice"),
    (lambda x: pg.log_softmax(1.0), ValueError, "log_softmax: axis -1 is out of range"),
    (lambda x: pg.softmax(1j), TypeError, "softmax: there is no softmax of complex"),
    (
        lambda x: pg.batch_norm(x, pg.ones((5,)), 1.0),
        ValueError,
        r"batch_norm: shapes \(5,\) and \(2, 3, 4\) do not broadcast",
    ),
    (
        lambda x: pg.batch_norm(x, 1.0, pg.ones((7, 2, 3, 4))),
        ValueError,
        r"batch_norm: variance must broadcast to \(2, 3, 4\); got shape \(7, 2, 3, 4\)",
    ),
    (
        lambda x: pg.layer_norm(x[0], pg.ones((2, 1, 1))),
        ValueError,
        "layer_norm: scale must broadcast to",
    ),
    (
        lambda x: pg.group_norm(x, groups=3),
        ValueError,
        "group_norm: 3 groups do not divide 4 channels",
    ),
    (lambda x: pg.group_norm(x, groups=1, axis=0), ValueError, "is the batch axis"),
    (
        lambda x: pg.group_norm(x, pg.ones((3,)), groups=2),
        ValueError,
        r"scale and offset must be \(4,\), .* got shape \(3,\)",
    ),
    (
        lambda x: pg.local_response_normalization(x[0]),
        ValueError,
        r"local_response_normalization: x must have rank 3 or 4; .* shape \(3, 4\)",
    ),
    (
        lambda x: pg.local_response_normalization(x, depth_radius=0.5),
        TypeError,
        "depth_radius must be an integer, got 0.5",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call(pg.asarray(X.astype(np.float32)))
