"""Comparison, selection, logic and bits, for every dtype, layout and special value."""

import math
import operator
from types import SimpleNamespace

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes
from ..toy import toy

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
ORDERED = ["bool", *INTEGERS, *FLOATS]
ALL_DTYPES = [*ORDERED, "complex64", "complex128"]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0]
SHAPES = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (2, 3)),
    ((), ()),
    ((0, 3), (3,)),
]
COMPARISONS = [
    (pg.equal, np.equal),
    (pg.not_equal, np.not_equal),
    (pg.greater, np.greater),
    (pg.greater_equal, np.greater_equal),
    (pg.less, np.less),
    (pg.less_equal, np.less_equal),
]
LOGIC = [
    (pg.logical_and, np.logical_and),
    (pg.logical_or, np.logical_or),
    (pg.logical_xor, np.logical_xor),
]
BITS = [
    (pg.bitwise_and, np.bitwise_and),
    (pg.bitwise_or, np.bitwise_or),
    (pg.bitwise_xor, np.bitwise_xor),
]
SHIFTS = [
    (pg.bitwise_left_shift, np.left_shift),
    (pg.bitwise_right_shift, np.right_shift),
]
by_name = {"ids": lambda f: getattr(f, "__name__", str(f))}


def with_duplicates(shape, dtype, seed):
    """Return values with many duplicates."""
    return np.random.default_rng(seed).integers(0, 3, shape).astype(dtype)


# --- comparisons -----------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
@pytest.mark.parametrize(("op", "reference"), COMPARISONS, **by_name)
def test_comparisons(op, reference, a, b, backend):
    for dtype in ORDERED:
        x = with_duplicates(a, dtype, 0)
        y = with_duplicates(b, dtype, 1)
        found = op(pg.asarray(x), pg.asarray(y))
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found.numpy(), reference(x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("op", "reference"), COMPARISONS, **by_name)
def test_comparisons_of_special_values(op, reference, dtype, backend):
    a, b = np.meshgrid(np.asarray(SPECIAL, dtype), np.asarray(SPECIAL, dtype))
    found = op(pg.asarray(a), pg.asarray(b)).numpy()
    np.testing.assert_array_equal(found, reference(a, b))


def test_comparisons_across_dtypes(backend):
    x = pg.asarray([1, 2, 3])
    assert (x > 1.5).tolist() == [False, True, True]
    assert (x == pg.asarray([1.0, 2.5, 3.0])).tolist() == [True, False, True]
    assert (x >= True).tolist() == [True, True, True]
    assert (x > 2).tolist() == [False, False, True]
    assert (pg.asarray([True, False]) == 1).tolist() == [True, False]
    assert (pg.asarray([1j, 1 + 0j]) == 1).tolist() == [False, True]
    assert (pg.asarray([1j]) != np.asarray([1j])).tolist() == [False]
    large = pg.asarray(np.asarray([2**24 + 1], np.int32))
    assert (large == 2**24).tolist() == [False]


def test_comparisons_have_zero_derivatives(backend):
    f = lambda x: pg.sum(pg.astype(x > 1, "float32") * pg.astype(x <= 2, "float32") * x)
    assert pg.grad(f)(pg.asarray([0.0, 1.5, 3.0])).tolist() == [0.0, 1.0, 0.0]
    value, pullback = pg.vjp(pg.greater_equal, pg.asarray([1.0]), pg.asarray([0.0]))
    assert [dx.tolist() for dx in pullback(value)] == [[0.0], [0.0]]


# --- where -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3), (2, 3), (2, 3)),
        ((3,), (2, 3), ()),
        ((), (2, 3), (3,)),
        ((2, 1), (1, 3), ()),
        ((2, 3), (), ()),
        ((0,), (2, 1), (1,)),
        ((), (), ()),
    ],
    ids=str,
)
def test_where(shapes, backend):
    rng = np.random.default_rng(0)
    condition = rng.random(shapes[0]) > 0.5
    for dtype in [*ORDERED, "complex64"]:
        a, b = (with_duplicates(shape, dtype, i) for i, shape in enumerate(shapes[1:]))
        found = pg.where(pg.asarray(condition), pg.asarray(a), pg.asarray(b))
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found.numpy(), np.where(condition, a, b))
    a, b = (rng.normal(size=shape) for shape in shapes[1:])
    check_gradients(lambda a, b: pg.where(condition, pg.square(a), b * a), a, b)


def test_where_of_a_condition_alone_is_nonzero(backend):
    for condition in (np.eye(3, dtype=bool), [True, False, True], [0.0, 2.0]):
        for found, wanted in zip(pg.where(condition), np.where(condition), strict=True):
            np.testing.assert_array_equal(found.numpy(), wanted)
            assert found.backend == backend
    with pytest.raises(TypeError, match="where: pass x1 and x2, or neither of them"):
        pg.where(pg.asarray([True]), 1.0)


def test_where_takes_scalars_and_promotes(backend):
    condition = pg.asarray([True, False])
    x = pg.asarray(np.asarray([1, 2], np.uint8))
    for pair, dtype in (
        ((x, 0), "uint8"),
        ((True, x), "uint8"),
        ((x, 0.5), "float32"),
        ((1, 2), "int32"),
        ((1, 2.5), "float32"),
        ((False, True), "bool"),
        ((x, 1j), "complex64"),
        ((x, np.asarray([1.0, 2.0])), "float64"),
    ):
        found = pg.where(condition, *pair)
        assert found.dtype == np.dtype(dtype)
        expected = [np.asarray(pair[0]).flat[0], np.asarray(pair[1]).flat[-1]]
        assert found.tolist() == expected
    assert pg.where(True, 1, x).tolist() == [1, 1]
    assert pg.where([True, False], pg.Variable([1.0, 2.0]), 3.0).tolist() == [1.0, 3.0]


def test_elements_that_are_not_chosen_stay_out_of_the_gradient(backend):
    x = pg.asarray([1.0, 2.0])
    assert pg.grad(lambda x: pg.sum(pg.where(x > 0, x, math.nan)))(x).tolist() == [1, 1]
    dy = pg.asarray([math.inf, math.nan])
    (dx,) = pg.grads(lambda x: pg.where([False, False], x, 0))(x, dy=dy)
    assert dx.tolist() == [0.0, 0.0]


# --- logic -----------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
@pytest.mark.parametrize(("op", "reference"), LOGIC, **by_name)
def test_logic(op, reference, a, b, backend):
    for dtype in ["bool", "int32", "float32", "complex64"]:
        x = with_duplicates(a, dtype, 0)
        y = with_duplicates(b, "bool", 1)
        found = op(pg.asarray(x), pg.asarray(y))
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found.numpy(), reference(x, y))


def test_logic_of_scalars_and_not(backend):
    assert pg.logical_and([True, False], True).tolist() == [True, False]
    assert pg.logical_or(2, pg.asarray([0.0])).tolist() == [True]
    assert pg.logical_not(pg.asarray([True, False])).tolist() == [False, True]
    assert pg.logical_not(pg.asarray([0.0, -0.0, math.nan, 2])).tolist() == [1, 1, 0, 0]
    assert pg.logical_not(False).item() is True


# --- bits ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
@pytest.mark.parametrize(("op", "reference"), BITS, **by_name)
def test_bits(op, reference, dtype, backend):
    rng = np.random.default_rng(0)
    if dtype == "bool":
        x = rng.random((4, 5)) > 0.5
        y = rng.random(5) > 0.5
    else:
        limits = np.iinfo(dtype)
        draw = lambda size: rng.integers(limits.min, limits.max, size, dtype, True)
        x = draw((4, 5))
        y = draw(5)
    found = op(pg.asarray(x), pg.asarray(y))
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.numpy(), reference(x, y))
    np.testing.assert_array_equal(pg.bitwise_invert(x).numpy(), np.invert(x))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("op", "reference"), SHIFTS, **by_name)
def test_shifts(op, reference, dtype, backend):
    limits = np.iinfo(dtype)
    width = 8 * np.dtype(dtype).itemsize
    x = np.asarray(
        [[limits.min], [limits.max], [limits.min // 3], [5], [1], [0]], dtype
    )
    y = np.asarray([0, 1, 2, width - 2, width - 1, width, width + 1, 100], dtype)
    found = op(pg.asarray(x), pg.asarray(y))
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.numpy(), reference(x, y))


# --- isclose and allclose --------------------------------------------------------


@pytest.mark.parametrize(
    "more", [{}, {"rtol": 0.1}, {"atol": 0.5}, {"equal_nan": True}]
)
def test_isclose(more, backend):
    near = [1.0 + 1e-6, 1.05, 1.4, 1e-9, 1e30 * (1 + 1e-6)]
    a, b = np.meshgrid([*SPECIAL, 1e30], [*SPECIAL, *near])
    for dtype in ["float32", "float64"]:
        x = a.astype(dtype)
        y = b.astype(dtype)
        found = pg.isclose(pg.asarray(x), pg.asarray(y), **more)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(found.numpy(), np.isclose(x, y, **more))


def test_isclose_of_large_integers(backend):
    require_dtypes(backend, "float64")  # the values are compared in float64
    large = np.asarray([2**31 - 1, -(2**31), 2**24], np.int32)
    near = pg.asarray(large) - pg.asarray([1, -1, -1])
    assert pg.isclose(pg.asarray(large), near, rtol=0, atol=0.5).tolist() == [False] * 3
    assert pg.isclose(pg.asarray(large), near, rtol=0, atol=1).tolist() == [True] * 3


def test_isclose_of_bool_and_numbers(backend):
    assert pg.isclose(pg.asarray([True]), [True]).tolist() == [True]
    assert pg.isclose(pg.asarray([1.0]), 1).tolist() == [True]


def test_allclose(backend):
    x = pg.asarray([1.0, 2.0])
    assert bool(pg.allclose(x, x + 1e-6))
    assert not bool(pg.allclose(x, pg.asarray([1.0, 2.1])))
    assert bool(pg.allclose(x, pg.asarray([1.0, 2.1]), atol=0.2))
    assert pg.allclose(x, x).shape == ()
    assert bool(pg.allclose(pg.ones((0,)), 1.0))


# --- decompositions --------------------------------------------------------------

NOT_PRIMITIVE = [
    "Greater",
    "GreaterEqual",
    "LessEqual",
    "NotEqual",
    "LogicalAnd",
    "LogicalOr",
    "LogicalXor",
    "LogicalNot",
    "BitwiseOr",
    "BitwiseXor",
    "BitwiseNot",
    "LeftShift",
    "RightShift",
]


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "float64"])
@pytest.mark.parametrize(("op", "_"), COMPARISONS + LOGIC, **by_name)
def test_decompositions(op, _, dtype):
    a = with_duplicates((4, 5), dtype, 0)
    b = with_duplicates(5, dtype, 1)
    if dtype.startswith("float"):
        a, b = map(np.asarray, np.meshgrid(SPECIAL, SPECIAL))
        a = a.astype(dtype)
        b = b.astype(dtype)
    expected = op(pg.asarray(a), pg.asarray(b)).numpy()
    with toy(without=NOT_PRIMITIVE, dtypes=ALL_DTYPES), pg.use_backend("toy"):
        found = op(pg.asarray(a), pg.asarray(b))
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found.numpy(), expected)
        np.testing.assert_array_equal(pg.logical_not(found).numpy(), ~expected)


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_decompositions_of_bits(dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 250, size).astype(dtype) for size in ((4, 5), 5))
    shift = np.asarray([[0], [1], [7], [8 * b.itemsize - 1], [120], [-1]]).astype(dtype)
    calls = [
        *[lambda a, b, shift, op=op: op(a, b) for op, _ in BITS],
        lambda a, b, shift: pg.bitwise_invert(a),
    ]
    if dtype != "bool":
        calls += [lambda a, b, shift, op=op: op(b, shift) for op, _ in SHIFTS]
    else:  # run by name, the kernels accept bool as well
        names = ["BitwiseOr", "BitwiseXor"]
        calls += [lambda a, b, shift, n=n: pg.run_kernel(n, [a, b], {}) for n in names]
        calls += [lambda a, b, shift: pg.run_kernel("BitwiseNot", [a], {})]
    for call in calls:
        expected = call(*map(pg.asarray, (a, b, shift)))
        with toy(without=NOT_PRIMITIVE, dtypes=ALL_DTYPES), pg.use_backend("toy"):
            found = call(*map(pg.asarray, (a, b, shift)))
            assert found.dtype == expected.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_a_comparison_stays_one_kernel_under_a_tape():
    with toy("plain"), pg.use_backend("plain"):
        f = lambda x: pg.sum(pg.where(x <= 1, x, 0))
        assert pg.grad(f)(pg.asarray([1.0, 2.0])).tolist() == [1.0, 0.0]
    assert not [
        name for name, backend, _ in pg.engine().fallback_counts if backend == "plain"
    ]


# --- errors ----------------------------------------------------------------------

GIVEN = {"x": [1.0], "n": [1], "z": [1j], "mask": [True]}
ERRORS = [
    (
        lambda t: t.z > 1,
        TypeError,
        "greater: is defined for bool, integers, floating, strings, got",
    ),
    (lambda t: t.x <= 1j, TypeError, "less_equal: .* got complex64"),
    (lambda t: t.x < t.z, TypeError, "less: .* got complex64"),
    (
        lambda t: pg.greater_equal(t.z, t.z),
        TypeError,
        "greater_equal: .* got complex64",
    ),
    (
        lambda t: t.x & 1,
        TypeError,
        "bitwise_and: is defined for bool, integers, got float",
    ),
    (lambda t: t.x | t.x, TypeError, "bitwise_or: .* got float32; cast with astype"),
    (lambda t: t.n ^ 1.5, TypeError, "bitwise_xor: .* got float32"),
    (lambda t: ~t.x, TypeError, "bitwise_invert: .* got float32"),
    (
        lambda t: t.mask << t.mask,
        TypeError,
        "bitwise_left_shift: .* integers, got bool",
    ),
    (lambda t: t.x >> 1, TypeError, "bitwise_right_shift: .* integers, got float32"),
    (
        lambda t: pg.where(t.n, 1, 2),
        TypeError,
        "where: condition must be bool, got int32",
    ),
    (lambda t: pg.where(t.mask, "a", 2), TypeError, "where: no dtype holds both"),
    (
        lambda t: pg.where([True, False], [1, 2, 3], 0),
        ValueError,
        r"where: shapes \(2,\) and \(3,\) and \(\) do not broadcast",
    ),
    (
        lambda t: pg.where(True, [1, 2, 3], [1, 2]),
        ValueError,
        r"where: shapes .* do not broadcast",
    ),
    (
        lambda t: pg.logical_and([True] * 2, [True] * 3),
        ValueError,
        "logical_and: shapes",
    ),
    (lambda t: pg.equal([1, 2], [1, 2, 3]), ValueError, "equal: shapes"),
    (
        lambda t: pg.asarray(np.asarray([1], np.uint8)) == -1,
        OverflowError,
        "equal: -1 doe",
    ),
    (
        lambda t: t.n < 2**40,
        OverflowError,
        "less: 1099511627776 does not fit into int32",
    ),
    (lambda t: pg.less(t.x, {}), TypeError, "cannot make a tensor of dict"),
]


@pytest.mark.parametrize(("call", "error", "match"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, match, backend):
    t = SimpleNamespace(**{name: pg.asarray(value) for name, value in GIVEN.items()})
    with pytest.raises(error, match=match):
        call(t)


def test_operators_run_the_ops(backend):
    x = pg.asarray([1, 2, 3])
    y = pg.asarray([3, 2, 1])
    for symbol, (_, reference) in zip(
        ["eq", "ne", "gt", "ge", "lt", "le"], COMPARISONS, strict=True
    ):
        found = getattr(operator, symbol)(x, y)
        np.testing.assert_array_equal(found.numpy(), reference(x.numpy(), y.numpy()))
