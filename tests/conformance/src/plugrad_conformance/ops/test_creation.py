"""Conversion, constants, sequences and grids."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes
from ..toy import toy

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]
EMPTY = [(0,), (2, 0, 3)]


# --- conversion ------------------------------------------------------------------


def wrapped(value, dtype):
    """Convert a number to an integer dtype with Python integers; large values wrap."""
    if not math.isfinite(value):
        return 0
    limits = np.iinfo(dtype)
    return (int(value) - int(limits.min)) % 2**limits.bits + int(limits.min)


EDGES = [0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1.5, -1.5, math.nan, math.inf, -math.inf]
EDGES += [
    sign * (2.0**power + more)
    for power in (7, 8, 15, 16, 24, 31, 32, 33, 52, 62, 63, 64, 65, 100)
    for sign in (1, -1)
    for more in (0, 1, -1, 0.5, -0.5, 1.5)
]


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_floating_numbers_become_integers(source, target, backend):
    with warnings.catch_warnings(action="ignore"):
        x = np.asarray(EDGES, source)
    expected = [wrapped(v, target) for v in x.tolist()]
    found = pg.astype(pg.asarray(x), target)
    assert found.dtype == np.dtype(target)
    assert found.tolist() == expected
    one_by_one = [pg.astype(pg.asarray(v), target).item() for v in x]
    assert one_by_one == expected


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_arrays_become_integers_like_tensors(source, target, backend):
    """The backend need not support ``source``: the host converts NumPy arrays."""
    require_dtypes(backend, target)
    with warnings.catch_warnings(action="ignore"):
        x = np.asarray(EDGES, source)
    expected = [wrapped(v, target) for v in x.tolist()]
    for copy in (True, False):
        assert pg.asarray(x, dtype=target, copy=copy).tolist() == expected
    assert pg.asarray(x[::-1], dtype=target).tolist() == expected[::-1]
    assert [pg.asarray(v, dtype=target).item() for v in x] == expected  # NumPy scalars


VIEWS = {
    "permuted": lambda x: pg.permute_dims(x, (2, 0, 1)),
    "sliced": lambda x: x[::-1, :, 1::2],
    "broadcast": lambda x: pg.broadcast_to(x[:1], (5, 3, 4)),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("dtype", [None, "int32"])
def test_copies_of_views(view, dtype, backend):
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = view(pg.asarray(a))
    for given in (x, np.asfortranarray(x.numpy())):
        y = pg.asarray(given, dtype=dtype, copy=True).numpy()
        np.testing.assert_array_equal(y, x.numpy())


def test_a_copy_keeps_the_gradient(backend):
    x = pg.asarray([[1.0, 2.0], [3.0, 4.0]])
    f = lambda x: pg.sum(pg.asarray(pg.matrix_transpose(x), copy=True) ** 2)
    assert pg.grad(f)(x).tolist() == [[2.0, 4.0], [6.0, 8.0]]


@pytest.mark.parametrize("target", [d for d in DTYPES if not d.startswith("complex")])
def test_complex_arrays_become_real_like_tensors(target, backend):
    require_dtypes(backend, target, "complex64")
    z = np.array([1.5 + 2j, -3j, 0, complex(2, math.nan)], "complex64")
    expected = [True, True, False, True] if target == "bool" else [1.5, 0, 0, 2]
    found = pg.asarray(z, dtype=target)
    assert found.tolist() == np.asarray(expected).astype(target).tolist()
    assert pg.astype(pg.asarray(z), target).tolist() == found.tolist()


# --- bits ------------------------------------------------------------------------

BITS = [  # dtypes, and shapes
    ("float32", "int32", (2, 3), (2, 3)),
    ("int32", "float32", (), ()),
    ("uint8", "int8", (3, 0), (3, 0)),
    ("float32", "uint8", (2, 3), (2, 3, 4)),
    ("float32", "uint16", (), (2,)),
    ("uint8", "float32", (2, 3, 4), (2, 3)),
    ("int8", "int32", (4,), ()),
    ("int8", "int32", (0, 4), (0,)),
    ("float64", "int32", (2, 0), (2, 0, 2)),
    ("float16", "uint64", (3, 4), (3,)),
    ("complex64", "float32", (3,), (3, 2)),
]


@pytest.mark.parametrize(("source", "target", "shape", "expected"), BITS, ids=str)
def test_bitcast_keeps_the_bits(source, target, shape, expected, backend):
    require_dtypes(backend, source, target)
    rng = np.random.default_rng(0)
    size = math.prod(shape) * np.dtype(source).itemsize
    x = np.frombuffer(rng.integers(0, 256, size, np.uint8).tobytes(), source).reshape(
        shape
    )
    y = pg.bitcast(pg.asarray(x), target)
    assert (y.shape, y.dtype) == (expected, np.dtype(target))
    assert y.numpy().tobytes() == x.tobytes()
    assert pg.bitcast(y, source).numpy().tobytes() == x.tobytes()


@pytest.mark.parametrize("start", range(4))
def test_bitcast_of_views(start, backend):
    """A view may start at a byte that is not aligned for float32, or be transposed."""
    a = np.arange(64, dtype=np.uint8)
    x = pg.asarray(a)[start : start + 48]
    expected = a[start : start + 48].copy().view(np.float32)
    y = pg.bitcast(pg.reshape(x, (12, 4)), "float32")
    assert (y * 2).numpy().tobytes() == (expected * 2).tobytes()
    transposed = pg.bitcast(pg.permute_dims(pg.reshape(y, (3, 4)), (1, 0)), "uint16")
    assert transposed.numpy().tobytes() == expected.reshape(3, 4).T.tobytes()


def test_bitcast_under_vmap(backend):
    x = pg.asarray([[1.0, 2.0], [3.0, 4.0]])
    for source, target in ((x, "uint8"), (pg.bitcast(x, "uint8"), "float32")):
        found = pg.vmap(lambda x, target=target: pg.bitcast(x, target))(source)
        assert found.tolist() == pg.bitcast(source, target).tolist()


WRONG_BITCASTS = [
    (lambda: pg.bitcast([1, 2, 3], "int64"), ValueError, "to form one int64"),
    (lambda: pg.bitcast(1, "float64"), ValueError, "to form one float64"),
    (lambda: pg.bitcast([True], "int8"), TypeError, "bool to int8: bool is not"),
    (lambda: pg.bitcast([1.0], "bool"), TypeError, "float32 to bool: bool is not"),
    (lambda: pg.bitcast(["a"], "int8"), TypeError, "string is not a numeric"),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG_BITCASTS)
def test_invalid_bitcasts(call, error, message, backend):
    with pytest.raises(error, match=f"bitcast: .*{message}"):
        call()


def test_bitcast_has_no_gradient(backend):
    require_dtypes(backend, "complex64")
    f = lambda x: pg.sum(pg.real(pg.bitcast(x, "complex64")))
    with pytest.raises(pg.GradientNotFound, match="Bitcast: there is no gradient"):
        pg.grad(f)(pg.ones((3, 2)))


# Half a unit above the largest float32, so it rounds to infinity.
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
PYTHON_NUMBERS = [
    (math.nextafter(FLOAT32_OVERFLOW, 0), "float32", 2.0**128 - 2.0**104),
    (-3.402823466385289e38, "float32", -(2.0**128) + 2.0**104),
    (65519.9, "float16", 65504.0),
    (math.inf, "float32", math.inf),
    (255.9, "uint8", 255),
    (-0.9, "uint8", 0),
    (-128.9, "int8", -128),
    (2.0**31 - 0.5, "int32", 2**31 - 1),
    (2**63 - 1, "int64", 2**63 - 1),
    (2**63 + 1, "uint64", 2**63 + 1),
    (2**64 - 1024, "uint64", 2**64 - 1024),
    (math.nan, "bool", True),
    (-3.402823466385289e38j, "complex64", (-(2.0**128) + 2.0**104) * 1j),
    (FLOAT32_OVERFLOW, "float32", "does not fit"),
    (-FLOAT32_OVERFLOW, "float32", "does not fit"),
    (65520, "float16", "does not fit"),
    (FLOAT32_OVERFLOW * 1j, "complex64", "does not fit"),
    (256, "uint8", "does not fit"),
    (-1.0, "uint8", "does not fit"),
    (2.0**31, "int32", "does not fit"),
    (2.0**63, "int64", "does not fit"),
    (2**63, "int64", "does not fit"),
    (math.nan, "int32", "cannot hold nan"),
    (-math.inf, "uint8", "cannot hold -inf"),
]


@pytest.mark.parametrize(("value", "dtype", "expected"), PYTHON_NUMBERS, ids=str)
def test_python_numbers_must_fit(value, dtype, expected, backend):
    require_dtypes(backend, dtype)
    calls = [
        lambda: pg.asarray(value, dtype=dtype),
        lambda: pg.asarray([value, 0, math.nan if dtype[0] == "f" else 0], dtype=dtype),
        lambda: pg.full((3,), value, dtype=dtype),
    ]
    for op, call in zip(("asarray", "asarray", "full"), calls, strict=True):
        if isinstance(expected, str):
            with pytest.raises(OverflowError, match=f"{op}: .*{expected}"):
                call()
        else:
            assert call().numpy().flat[0] == expected


def test_integers_that_need_uint64_stay_integers(backend):
    for value in ([0, 2**63], [-1, 2**63 + 1], [[True, 2**64 - 1]]):
        with pytest.raises(OverflowError, match=r"asarray: .* does not fit into int32"):
            pg.asarray(value)
    assert pg.asarray([2**63, 0.5]).tolist() == [2.0**63, 0.5]


def test_python_complex_numbers_stay_complex(backend):
    for value in (1j, [1 + 0j, 2]):
        with pytest.raises(TypeError, match="asarray: float32 cannot hold complex"):
            pg.asarray(value, dtype="float32")


def test_masked_elements_are_not_accepted(backend):
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for call in (
        lambda: pg.asarray(masked),
        lambda: pg.zeros((2,)) + masked,
        lambda: pg.zeros((2,))[masked.astype(int) - 1],
        lambda: pg.take(pg.zeros((2,)), masked.astype(int) - 1),
    ):
        with pytest.raises(TypeError, match="has no masked elements; fill them"):
            call()
    assert pg.asarray(np.ma.array([1.0, 2.0])).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_the_whole_range_of_integers(source, target, backend):
    """Numbers that fit are truncated, and both limits of the dtype fit."""
    limits = np.iinfo(target)
    top = min(limits.max + 1.0, float(np.finfo(source).max))
    x = np.asarray([0.75, 100.6, limits.min, limits.min / 2, top / 2, 0], np.float64)
    x = np.maximum(x, float(np.finfo(source).min)).astype(source)
    x[-1] = np.nextafter(np.asarray(top, source), np.asarray(0, source))
    assert pg.astype(x, target).tolist() == [int(v) for v in x.tolist()]


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_wrap(source, target, backend):
    limits = np.iinfo(source)
    x = np.asarray([limits.min, limits.max, 0, 1, 77], source)
    assert pg.astype(x, target).tolist() == [wrapped(v, target) for v in x.tolist()]


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_every_conversion(source, target, backend):
    x = np.asarray([[0, 1], [2, 3]]).astype(source)
    if x.dtype.kind == "c":
        x = x + x.dtype.type(4j)
    if x.dtype.kind == "c" and np.dtype(target).kind not in "cb":
        expected = x.real.astype(target)
    else:
        expected = x.astype(target)
    found = pg.astype(pg.asarray(x), target)
    assert found.dtype == np.dtype(target)
    np.testing.assert_array_equal(found.numpy(), expected)
    for shape in EMPTY:
        assert pg.astype(pg.asarray(np.zeros(shape, source)), target).shape == shape
    assert pg.astype(pg.asarray(x[1, 1]), target).item() == expected[1, 1]
    transposed = pg.astype(pg.asarray(x.T), target)  # not in row-major order
    np.testing.assert_array_equal(transposed.numpy(), expected.T)


def test_anything_but_zero_is_true(backend):
    x = pg.asarray([0.0, -0.0, math.nan, math.inf, 0.1])
    assert pg.astype(x, bool).tolist() == [False, False, True, True, True]
    z = pg.asarray([0j, 1j, 1 + 0j])
    assert pg.astype(z, "bool").tolist() == [False, True, True]


def test_a_float_that_is_too_large_is_infinite(backend):
    x = pg.asarray(np.asarray([1e300, -1e300]))
    assert pg.astype(x, "float32").tolist() == [math.inf, -math.inf]


def test_gradients_of_astype(backend):
    x = pg.asarray([1.5, 2.5])
    as_double = lambda x: pg.sum(pg.square(pg.astype(x, "float64")))
    dx = pg.grad(as_double)(x)
    assert (dx.dtype, dx.tolist()) == (np.dtype("float32"), [3.0, 5.0])
    z = pg.asarray([1 + 2j])
    dz = pg.grad(lambda z: pg.sum(pg.square(pg.astype(z, "float32"))))(z)
    assert (dz.dtype, dz.tolist()) == (np.dtype("complex64"), [2 + 0j])
    dx = pg.grad(lambda x: pg.astype(x, "complex64"))(x, dy=pg.asarray([1 + 1j, 2j]))
    assert (dx.dtype, dx.tolist()) == (np.dtype("float32"), [1.0, 0.0])
    through_integers = pg.grad(
        lambda x: pg.sum(pg.astype(pg.astype(x, "int32"), "float32") * x)
    )
    assert through_integers(x).tolist() == [1.0, 2.0]


def test_astype_without_a_copy_returns_the_same_tensor(backend):
    x = pg.ones((2,))
    assert pg.astype(x, "float32", copy=False) is x
    assert pg.astype(x, np.float32) is not x
    assert pg.astype([1, 2], float).dtype == np.float32


@pytest.mark.parametrize("dtype", DTYPES)
def test_identity(dtype, backend):
    x = pg.asarray(np.asarray([[1, 0]]).astype(dtype))
    assert pg.identity(x) is not x
    np.testing.assert_array_equal(pg.identity(x).numpy(), x.numpy())
    assert pg.identity(x).dtype == x.dtype


def test_the_gradient_of_identity(backend):
    check_gradients(lambda x: pg.square(pg.identity(x)), [1.0, 2.0])


# --- constants -------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), *EMPTY], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_constants(dtype, shape, backend):
    x = pg.asarray(np.full(shape, 7, dtype))
    for found, value in (
        (pg.zeros(shape, dtype=dtype), 0),
        (pg.ones(shape, dtype=dtype), 1),
        (pg.full(shape, 5, dtype=dtype), 5),
        (pg.zeros_like(x), 0),
        (pg.ones_like(x), 1),
        (pg.full_like(x, 5), 5),
    ):
        assert (found.dtype, found.shape) == (np.dtype(dtype), shape)
        np.testing.assert_array_equal(found.numpy(), np.full(shape, value, dtype))
    for like in (
        pg.zeros_like,
        pg.ones_like,
        lambda x, dtype: pg.full_like(x, 1, dtype=dtype),
    ):
        assert like(x, dtype="int32").dtype == np.int32


FILLED = [
    (2.5, None, "float32"),
    (2, None, "int32"),
    (True, None, "bool"),
    (1j, None, "complex64"),
    (np.float64(0.1), None, "float32"),
    (np.int64(3), None, "int32"),
    (2.0, "int32", "int32"),
    (2.9, "uint8", "uint8"),
    (-2.9, "int8", "int8"),
    (2**64 - 1, "uint64", "uint64"),
    (math.nan, None, "float32"),
    (-math.inf, "float16", "float16"),
    (-0.0, None, "float32"),
    (2, "bool", "bool"),
    (1, "complex128", "complex128"),
    (0.1, "float64", "float64"),
]


@pytest.mark.parametrize(("value", "dtype", "result"), FILLED, ids=str)
def test_full(value, dtype, result, backend):
    found = pg.full((2,), value, dtype=dtype).numpy()
    expected = np.full(2, value, result)
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


def test_shapes_may_be_integers_or_sequences(backend):
    shapes = [(3,), [3], 3, np.int64(3), (np.int32(3),)]
    assert {pg.ones(shape).shape for shape in shapes} == {(3,)}
    assert all(type(n) is int for n in pg.ones([np.int64(2)]).shape)


def test_constants_have_no_gradient(backend):
    f = lambda x: pg.sum(pg.zeros_like(x) + pg.ones_like(x) * pg.full_like(x, 2.0))
    value, dx = pg.value_and_grad(f)(pg.asarray([1.0, 2.0]))
    assert (value.item(), dx.tolist()) == (4.0, [0.0, 0.0])
    g = lambda x: pg.sum(pg.ones_like(x) * x)
    assert pg.grad(lambda x: pg.sum(pg.grad(g)(x)))(pg.asarray([3.0])).tolist() == [0.0]


WITH_SCALAR_TENSORS = [
    (lambda t: pg.full((2, 3), t.x), lambda x, n: np.full((2, 3), x)),
    (lambda t: pg.full((0,), t.x), lambda x, n: np.full((0,), x)),
    (lambda t: pg.full((2,), t.x, dtype="int32"), lambda x, n: np.full(2, int(x))),
    (lambda t: pg.full(2, t.n), lambda x, n: np.full(2, n)),
    (lambda t: pg.full_like(pg.zeros(2), t.n), lambda x, n: np.full(2, float(n))),
    (lambda t: pg.linspace(t.x, 4, 5), lambda x, n: np.linspace(x, 4, 5)),
    (lambda t: pg.linspace(-1, t.x, 1), lambda x, n: np.linspace(-1, x, 1)),
    (lambda t: pg.linspace(t.x, 0, 0), lambda x, n: np.linspace(x, 0, 0)),
    (lambda t: pg.linspace(t.n, t.x, 7), lambda x, n: np.linspace(n, x, 7)),
    (
        lambda t: pg.linspace(t.n, t.x, 7, endpoint=False, dtype="float32"),
        lambda x, n: np.linspace(n, x, 7, endpoint=False, dtype=np.float32),
    ),
    (lambda t: pg.arange(t.x), lambda x, n: np.arange(x, dtype="float32")),
    (lambda t: pg.arange(t.n, 12, t.n), lambda x, n: np.arange(n, 12, n)),
]


@pytest.mark.parametrize(("call", "expected"), WITH_SCALAR_TENSORS)
def test_numbers_may_be_tensors_of_rank_0(call, expected, backend):
    x = pg.Variable(2.7)
    n = pg.asarray(3, dtype="int32")
    for scalar in (x, x.value):
        found = call(SimpleNamespace(x=scalar, n=n))
        wanted = expected(np.float32(2.7), np.int32(3))
        kind = {"i": "int32", "f": "float32"}[wanted.dtype.kind]
        assert (found.dtype.name, found.backend) == (kind, backend)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("end", [np.inf, -np.inf, 2.0])
def test_linspace_between_equal_ends(end, endpoint, backend):
    """If both ends are equal, so are all numbers; a single number equals the start."""
    for start in (end, pg.asarray(end, dtype="float32")):
        for num in (0, 1, 2, 4):
            y = pg.linspace(start, end, num, endpoint=endpoint)
            assert (y.tolist(), y.dtype) == ([end] * num, np.float32)
        for stop in (end, 1.0, -np.inf, np.nan):
            assert pg.linspace(start, stop, 1, endpoint=endpoint).tolist() == [end]
    y = pg.run_kernel(
        "LinSpace", [], {"start": end, "stop": end, "num": 3, "endpoint": endpoint}
    )
    assert y.tolist() == [end] * 3
    total = lambda x: pg.sum(pg.linspace(x, 2.0, 3, endpoint=endpoint))
    assert pg.grad(total)(2.0).item() == pytest.approx(1.5 if endpoint else 2.0)


def test_numbers_given_as_tensors_keep_their_gradient(backend):
    weights = pg.asarray(np.arange(5.0), dtype="float32")
    check_gradients(lambda x: pg.full((5,), x) * weights, np.array(0.5))
    check_gradients(lambda x: pg.linspace(x, 2, 5) ** 2, np.array(0.5))
    check_gradients(
        lambda a, b: pg.linspace(a, b, 5, endpoint=False) ** 2,
        np.array(0.5),
        np.array(2.0),
    )


def test_linspace_between_tensors_has_exact_ends(backend):
    a = pg.asarray(0.1)
    b = pg.asarray(0.7)
    found = pg.linspace(a, b, 1001)
    assert (found[0].item(), found[-1].item()) == (a.item(), b.item())


# --- sequences -------------------------------------------------------------------

RANGES = [
    ((5,), "int32"),
    ((0,), "int32"),
    ((-3,), "int32"),
    ((2, 7), "int32"),
    ((7, 2), "int32"),
    ((7, 2, -2), "int32"),
    ((0, 10, 3), "int32"),
    ((0, 1, 0.1), "float32"),
    ((1.0, 1.3, 0.1), "float32"),
    ((3.0,), "float32"),
    ((0, -1, -0.25), "float32"),
    ((np.int64(2), np.int8(5)), "int32"),
    ((np.float64(0.5), 3), "float32"),
    ((-1.5, 2.5), "float32"),
]


@pytest.mark.parametrize(("given", "dtype"), RANGES, ids=str)
def test_arange(given, dtype, backend):
    found = pg.arange(*given)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_allclose(found.numpy(), np.arange(*given), rtol=1e-6)
    for other in ("float64", "int64", "float16"):
        if np.dtype(other).kind == "i" and dtype == "float32":
            continue
        found = pg.arange(*given, dtype=other)
        assert found.dtype == np.dtype(other)
        expected = np.arange(*given, dtype=np.float64).astype(other)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ranges_reach_both_limits(dtype, backend):
    limits = np.iinfo(dtype)
    low = int(limits.min)
    high = int(limits.max)
    assert pg.arange(high - 2, high + 1, dtype=dtype).tolist() == [
        high - 2,
        high - 1,
        high,
    ]
    assert pg.arange(low + 1, low - 1, -1, dtype=dtype).tolist() == [low + 1, low]
    third = (high - low) // 3
    assert pg.arange(low, high + 1, third, dtype=dtype).tolist() == list(
        range(low, high + 1, third)
    )


def test_a_range_does_not_accumulate_rounding(backend):
    x = pg.arange(0, 1000, 0.1).numpy()
    np.testing.assert_array_equal(x, (np.arange(10000) * 0.1).astype(np.float32))
    assert pg.arange(0.9, 5, dtype="int32").tolist() == [0, 1, 2, 3, 4]


def test_range_and_linspace_by_run_kernel(backend):
    attrs = {"start": 1, "stop": 7, "step": 2, "dtype": "int32"}
    assert pg.run_kernel("Range", [], attrs).tolist() == [1, 3, 5]
    attrs = {"start": 0, "stop": 1, "num": 3}
    assert pg.run_kernel("LinSpace", [], attrs).tolist() == [0.0, 0.5, 1.0]


LINSPACES = [(0, 1, 5), (1, -1, 4), (2.5, 7.5, 11), (3, 3, 3), (0, 1, 1), (0, 1, 0)]


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("given", [*LINSPACES, (1j, 2, 5)], ids=str)
def test_linspace(given, endpoint, backend):
    expected = np.linspace(*given, endpoint=endpoint)
    found = pg.linspace(*given, endpoint=endpoint)
    assert found.dtype == ("complex64" if 1j in given else "float32")
    np.testing.assert_array_equal(found.numpy(), expected.astype(found.dtype))
    double = "complex128" if 1j in given else "float64"
    found = pg.linspace(*given, endpoint=endpoint, dtype=double)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_linspace_has_exact_ends(backend):
    x = pg.linspace(0.1, 0.7, 1001, dtype="float64")
    assert (x.numpy()[0], x.numpy()[-1]) == (0.1, 0.7)


# --- matrices and grids ----------------------------------------------------------


@pytest.mark.parametrize("k", [-(2**40), -5, -1, 0, 1, 5, 2**40])
@pytest.mark.parametrize(
    "size", [(3,), (2, 4), (4, 2), (0, 3), (3, 0), (1, 1)], ids=str
)
def test_eye(size, k, backend):
    for dtype in ("float32", "int32", "bool", "complex64"):
        found = pg.eye(*size, k=k, dtype=dtype)
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found.numpy(), np.eye(*size, k=k))
    assert pg.eye(*size).dtype == np.float32


@pytest.mark.parametrize("k", [-(2**40), -5, -1, 0, 1, 5, 2**40])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (2, 3, 2), (0, 3)], ids=str)
def test_triangles(shape, k, backend):
    x = np.arange(1, 1 + math.prod(shape)).reshape(shape)
    for dtype in ("bool", "int8", "float32", "complex64"):
        for op, reference in ((pg.tril, np.tril), (pg.triu, np.triu)):
            found = op(pg.asarray(x.astype(dtype)), k=k)
            assert found.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(found.numpy(), reference(x.astype(dtype), k))
    if x.size:
        check_gradients(lambda x: pg.square(pg.tril(x, k=k)), x)
        check_gradients(lambda x: pg.square(pg.triu(x, k=k)), x)


def test_triangles_drop_nan(backend):
    x = pg.full((2, 2), math.nan)
    np.testing.assert_array_equal(pg.triu(x, k=1).numpy(), [[0, math.nan], [0, 0]])


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [(), (3,), (3, 2), (3, 2, 4), (2, 0)], ids=str)
def test_meshgrid(sizes, indexing, backend):
    xs = [np.arange(n, dtype=np.float64) + i for i, n in enumerate(sizes)]
    found = pg.meshgrid(*map(pg.asarray, xs), indexing=indexing)
    expected = np.meshgrid(*xs, indexing=indexing)
    assert len(found) == len(expected)
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_array_equal(y.numpy(), z)
    if 0 not in sizes and len(sizes) > 1:
        grid = lambda *xs: pg.add_n(
            [
                pg.square(y) * (i + 1)
                for i, y in enumerate(pg.meshgrid(*xs, indexing=indexing))
            ]
        )
        check_gradients(grid, *xs)


def test_meshgrid_takes_scalars_and_keeps_dtypes(backend):
    a, b = pg.meshgrid(1, [2.0, 3.0])
    assert [a.tolist(), b.tolist()] == [[[1], [1]], [[2.0], [3.0]]]
    assert (a.dtype, b.dtype) == (np.int32, np.float32)


# --- decompositions --------------------------------------------------------------

CALLS = [
    lambda: pg.identity(pg.asarray([[1.0, 2.0]])),
    lambda: pg.zeros_like(pg.asarray([[1, 2]])),
    lambda: pg.ones_like(pg.asarray([[True, False]])),
    lambda: pg.arange(-3, 12, 4),
    lambda: pg.arange(0, 1, 0.1),
    lambda: pg.arange(5, 2, -1, dtype="float64"),
    lambda: pg.arange(2**64 - 2, 2**64, dtype="uint64"),
    lambda: pg.linspace(0.1, 0.7, 7),
    lambda: pg.linspace(0, 1, 5, endpoint=False, dtype="float64"),
    lambda: pg.linspace(0, 1, 1),
    lambda: pg.linspace(0, 1, 0),
    lambda: pg.linspace(0, 1j, 3),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_decompositions(call):
    expected = call()
    lacking = ["Identity", "LinSpace", "OnesLike", "Range", "ZerosLike"]
    with toy(without=lacking, dtypes=DTYPES), pg.use_backend("toy"):
        found = call()
        assert found.backend == "toy"
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


# --- errors ----------------------------------------------------------------------

GIVEN = {"x": [1.0]}
ERRORS = [
    (
        lambda t: pg.astype(t.x, "float99"),
        TypeError,
        "dtype .*float99.* is not supported",
    ),
    (
        lambda t: pg.full((2, -1), 0),
        ValueError,
        r"full: shape \(2, -1\) must not be negative",
    ),
    (lambda t: pg.zeros(-1), ValueError, "zeros: shape -1 must not be negative"),
    (
        lambda t: pg.ones((2.5,)),
        TypeError,
        r"ones: shape must be integers, got \(2",
    ),
    (
        lambda t: pg.zeros("ab"),
        TypeError,
        "zeros: shape must be integers, got 'ab'",
    ),
    (
        lambda t: pg.full((1,), 1j, dtype="float32"),
        TypeError,
        "full: float32 cannot hold",
    ),
    (
        lambda t: pg.full((1,), math.nan, dtype="int8"),
        OverflowError,
        "int8 cannot hold nan",
    ),
    (
        lambda t: pg.full((1,), 300, dtype="uint8"),
        OverflowError,
        "full: 300 does not fit",
    ),
    (
        lambda t: pg.full((1,), 3e9, dtype="int32"),
        OverflowError,
        "full: 3000000000 does n",
    ),
    (
        lambda t: pg.full((1,), t.x),
        TypeError,
        "full: fill_value must be a number, got Tens",
    ),
    (
        lambda t: pg.full((2,), pg.asarray(1j), dtype="float32"),
        TypeError,
        "full: float32 cannot hold complex numbers",
    ),
    (
        lambda t: pg.full_like(t.x, "a"),
        TypeError,
        "full: float32 cannot hold 'a'",
    ),
    (
        lambda t: pg.arange(0, 3, 0),
        ValueError,
        "arange: start 0, stop 3 and step 0 must be finite",
    ),
    (
        lambda t: pg.arange(math.inf),
        ValueError,
        "arange: start 0, stop inf and step 1 m",
    ),
    (lambda t: pg.arange(math.nan), ValueError, "arange: .* must be finite"),
    (lambda t: pg.arange(2j), TypeError, "arange: stop must be real, got 2j"),
    (
        lambda t: pg.arange(t.x),
        TypeError,
        r"arange: stop must be a number, got Tensor\(.*; take its item",
    ),
    (
        lambda t: pg.arange(pg.asarray(0.5), 3),
        TypeError,
        r"arange: start must be a number, got Tensor\(.*; take its item",
    ),
    (
        lambda t: pg.linspace(pg.asarray(0.5), t.x, 3),
        TypeError,
        r"linspace: stop must be a number, got Tensor\(.*; take its item",
    ),
    (
        lambda t: pg.linspace(pg.asarray(1j), 2, 3, dtype="float32"),
        TypeError,
        "linspace: float32 cannot hold numbers of complex64",
    ),
    (
        lambda t: pg.linspace(pg.asarray(1), 2, 3, dtype="int32"),
        TypeError,
        "linspace: int32 cannot hold numbers of float32",
    ),
    (
        lambda t: pg.arange(300, dtype="uint8"),
        OverflowError,
        "arange: 299 does not fit",
    ),
    (
        lambda t: pg.arange(-1, 3, dtype="uint8"),
        OverflowError,
        "arange: -1 does not fit",
    ),
    (
        lambda t: pg.arange(3, dtype="bool"),
        TypeError,
        "arange: is not defined for bo",
    ),
    (
        lambda t: pg.linspace(0, 1, -1),
        ValueError,
        "linspace: num -1 must be 0 or more",
    ),
    (
        lambda t: pg.linspace(0, 1, 2.5),
        TypeError,
        "linspace: num must be an integer, got 2.5",
    ),
    (
        lambda t: pg.linspace(0, 1, 3, dtype="int32"),
        TypeError,
        "linspace: int32 cannot ho",
    ),
    (
        lambda t: pg.linspace(0, 1j, 3, dtype=float),
        TypeError,
        "linspace: float32 cannot h",
    ),
    (lambda t: pg.linspace(t.x, 1, 3), TypeError, "linspace: start must be a number"),
    (lambda t: pg.eye(-2), ValueError, r"eye: shape \(-2, -2\) must not be negative"),
    (
        lambda t: pg.tril(t.x),
        ValueError,
        r"tril: x must have two axes or more, got .*\(1,\)",
    ),
    (
        lambda t: pg.triu(1.0),
        ValueError,
        r"triu: x must have two axes or more, got .*\(\)",
    ),
    (
        lambda t: pg.meshgrid(t.x, indexing="yx"),
        ValueError,
        "meshgrid: indexing 'yx': use",
    ),
    (
        lambda t: pg.meshgrid([[1]]),
        ValueError,
        r"meshgrid: expected vectors, got shape \(1",
    ),
]


@pytest.mark.parametrize(("call", "error", "match"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, match, backend):
    t = SimpleNamespace(**{name: pg.asarray(value) for name, value in GIVEN.items()})
    with pytest.raises(error, match=match):
        call(t)


def test_a_dtype_that_the_backend_lacks():
    with toy(dtypes=["bool", "int32", "float32"]), pg.use_backend("toy"):
        x = pg.asarray([1.0])
        for op, call in (
            ("astype", lambda: pg.astype(x, "float64")),
            ("full", lambda: pg.full((1,), 1, dtype="float64")),
            ("zeros", lambda: pg.zeros((1,), dtype="float64")),
            ("ones", lambda: pg.ones_like(x, dtype="float64")),
            ("arange", lambda: pg.arange(3, dtype="int64")),
            ("linspace", lambda: pg.linspace(0, 1, 3, dtype="float64")),
            ("astype", lambda: pg.eye(3, dtype="int8")),
        ):
            with pytest.raises(TypeError, match=f"{op}: backend 'toy' has no "):
                call()
