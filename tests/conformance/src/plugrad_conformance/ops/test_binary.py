"""Binary ops: values, gradients on every layout, and type promotion."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes
from ..toy import toy
from .elementwise import assert_near, where_exact

SIGNED = ["int8", "int32"]
FLOATS = ["float32", "float64"]
COMPLEX = ["complex64"]
NUMBERS = [*SIGNED, "uint8", *FLOATS]


@dataclass(frozen=True)
class Binary:
    """The specification of one op."""

    op: Callable[..., pg.Tensor]
    reference: Callable[..., np.ndarray]
    dtypes: tuple[str, ...]
    domain: tuple[float, float] = (1.0, 2.0)


def row(op, reference, dtypes, **more):
    return Binary(op, reference, tuple(dtypes), **more)


def floor_of_quotient(a, b):
    """Return Python's floor division, but for infinities the floor of the quotient."""
    infinite = np.isinf(a) | np.isinf(b)
    return np.where(infinite, np.floor(np.divide(a, b)), np.floor_divide(a, b))


CASES = [
    row(pg.add, np.add, ["bool", *NUMBERS, *COMPLEX]),
    row(pg.subtract, np.subtract, [*NUMBERS, *COMPLEX]),
    row(pg.multiply, np.multiply, ["bool", *NUMBERS, *COMPLEX]),
    row(pg.divide, np.divide, [*FLOATS, *COMPLEX]),
    row(
        pg.divide_no_nan,
        lambda a, b: np.where(b == 0, 0, np.divide(a, b)),
        [*FLOATS, *COMPLEX],
    ),
    row(pg.floor_divide, floor_of_quotient, NUMBERS, domain=(5.1, 6.9)),
    row(pg.remainder, np.remainder, NUMBERS, domain=(5.1, 6.9)),
    row(pg.fmod, np.fmod, NUMBERS, domain=(5.1, 6.9)),
    row(pg.pow, np.power, [*NUMBERS, *COMPLEX]),
    row(pg.maximum, np.maximum, ["bool", *NUMBERS]),
    row(pg.minimum, np.minimum, ["bool", *NUMBERS]),
    row(pg.squared_difference, lambda a, b: (a - b) * (a - b), NUMBERS),
    row(pg.atan2, np.arctan2, FLOATS),
    row(pg.hypot, np.hypot, FLOATS),
    row(pg.copysign, np.copysign, FLOATS),
    row(pg.logaddexp, np.logaddexp, FLOATS),
]
SHAPES = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (2, 3)),
    ((2, 3), ()),
    ((), ()),
    ((0, 3), (3,)),
    ((2, 0), (2, 1)),
]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0]


@pytest.fixture(params=CASES, ids=lambda case: case.op.__name__)
def case(request):
    return request.param


def values(case, shape, dtype, seed):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(size=shape) > 0.5
    x = rng.uniform(*case.domain, size=shape) * rng.choice([1, 3], size=shape)
    if dtype == "complex64":
        x = x + 1j * rng.uniform(-2, 2, size=shape)
    return np.asarray(x).astype(dtype)


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_values(case, a, b, backend):
    for dtype in case.dtypes:
        x = values(case, a, dtype, 0)
        y = values(case, b, dtype, 1)
        found = case.op(pg.asarray(x), pg.asarray(y)).numpy()
        expected = np.asarray(case.reference(x, y))
        assert found.dtype == np.dtype(dtype)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected.astype(dtype), rtol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(case, dtype, backend):
    a, b = np.meshgrid(np.asarray(SPECIAL, dtype), np.asarray(SPECIAL, dtype))
    found = case.op(pg.asarray(a), pg.asarray(b)).numpy()
    with np.errstate(all="ignore"):
        expected = case.reference(a, b)
    np.testing.assert_allclose(found, expected, rtol=2e-6)


@pytest.mark.parametrize(("a", "b"), SHAPES[:6], ids=str)
def test_gradients(case, a, b, backend):
    if "float64" in case.dtypes:
        check_gradients(
            case.op, values(case, a, "float64", 2), values(case, b, "float64", 3) * 0.3
        )


# --- sums and products -----------------------------------------------------------


def test_integers_wrap(backend):
    x = pg.asarray(np.asarray([100, -100], np.int8))
    assert (x + x).tolist() == [-56, 56]
    assert (x * x).tolist() == [16, 16]
    assert (pg.asarray(np.asarray([1], np.uint8)) - 2).tolist() == [255]


def test_add_n(backend):
    xs = [np.full((2, 3), float(i)) for i in range(1, 5)]
    np.testing.assert_array_equal(pg.add_n(xs).numpy(), np.full((2, 3), 10.0))
    assert pg.add_n([pg.asarray(1), 2.5]).item() == 3.5
    assert pg.add_n([pg.asarray([1.0])]).tolist() == [1.0]
    check_gradients(lambda *xs: pg.square(pg.add_n(list(xs))), *xs)
    twice = pg.grad(lambda x: pg.add_n([x, x, x]))(pg.asarray(1.0))
    assert twice.item() == 3.0


def test_add_n_does_not_write_into_its_arguments(backend):
    xs = [pg.ones((2,)) for _ in range(3)]
    pg.add_n(xs)
    pg.add_n(xs[:1])
    assert [x.tolist() for x in xs] == [[1.0, 1.0]] * 3


# --- division --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32", "float64"])
def test_quotient_and_remainder_have_the_same_signs_as_in_python(dtype, backend):
    pairs = [(a, b) for a in (-7, -6, 0, 6, 7) for b in (-3, -2, 2, 3)]
    a, b = (pg.asarray(np.asarray(x, dtype)) for x in zip(*pairs, strict=True))
    assert (a // b).tolist() == [p // q for p, q in pairs]
    assert (a % b).tolist() == [p % q for p, q in pairs]
    assert (a // b).dtype == (a % b).dtype == np.dtype(dtype)


def test_division_by_zero(backend):
    x = pg.asarray([3, 0, -3])
    assert (x // 0).tolist() == (x % 0).tolist() == [0, 0, 0]
    x = pg.asarray([3.0, 0.0, -3.0])
    np.testing.assert_array_equal((x // 0).numpy(), [math.inf, math.nan, -math.inf])
    np.testing.assert_array_equal((x % 0).numpy(), [math.nan] * 3)
    assert pg.divide_no_nan(x, 0).tolist() == [0.0, 0.0, 0.0]


def test_the_remainder_of_a_large_number_is_exact(backend):
    a = np.float32(1e6 + 0.3)
    b = np.float32(0.1)
    found = pg.remainder(pg.asarray([a]), pg.asarray([b])).item()
    assert found == pytest.approx(math.fmod(float(a), float(b)), rel=1e-6)
    one = pg.asarray(np.float64(1))
    tenth = pg.asarray(np.float64(0.1))
    assert [(one // tenth).item(), (one % tenth).item()] == [1.0 // 0.1, 1.0 % 0.1]


def test_remainders_are_exact(backend):
    """Some quotients are large; some dividends are next to multiples of the divisor."""
    rng = np.random.default_rng(5)
    sizes = 10.0 ** rng.integers(-15, 15, (2, 600))
    a, b = (rng.standard_normal((2, 600)) * sizes).astype(np.float32)
    multiple = b * rng.integers(1, 4000, 600).astype(np.float32)
    a[:240] = np.nextafter(multiple, np.float32(0))[:240]
    truncated = [math.fmod(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
    expected = np.array(truncated, np.float32)
    np.testing.assert_array_equal(pg.fmod(a, b).numpy(), expected)
    opposite = (expected != 0) & (np.signbit(expected) != np.signbit(b))
    floored = np.where(opposite, expected + b, expected)
    np.testing.assert_array_equal(pg.remainder(a, b).numpy(), floored)


def test_fmod_has_the_sign_of_the_dividend(backend):
    a = np.array([7, -7, 7, -7, 0, 5, -128])
    b = np.array([3, 3, -3, -3, 2, 0, -5])
    for dtype in ("int8", "int32", "float32"):
        with np.errstate(all="ignore"):
            expected = np.fmod(a.astype(dtype), b.astype(dtype))
        y = pg.fmod(pg.asarray(a.astype(dtype)), pg.asarray(b.astype(dtype)))
        np.testing.assert_array_equal(y.numpy(), expected, strict=True)
    tiny = pg.fmod(pg.asarray([-1e-20, np.inf, 5.0]), pg.asarray([3.0, 3.0, -np.inf]))
    np.testing.assert_array_equal(tiny.numpy(), np.float32([-1e-20, np.nan, 5]))
    f = lambda a, b: pg.square(pg.fmod(a, b))
    check_gradients(f, np.array([7.3, -7.3, 7.3]), np.array([3.1, 3.1, -3.1]))
    assert pg.grad(lambda a: pg.fmod(a, 3.0))(pg.asarray(0.0)).item() == 1


def test_floor_divide_has_the_gradient_zero(backend):
    xs = pg.asarray([5.3, -5.3]), pg.asarray([2.0])
    assert [g.tolist() for g in pg.grads(pg.floor_divide)(*xs, dy=pg.ones((2,)))] == [
        [0.0, 0.0],
        [0.0],
    ]


def test_divide_no_nan_has_finite_gradients(backend):
    f = lambda b: pg.sum(pg.divide_no_nan(pg.asarray([1.0, 2.0]), b))
    df = pg.grad(f)
    assert df(pg.asarray([0.0, 2.0])).tolist() == [0.0, -0.5]
    assert pg.grad(lambda b: pg.sum(df(b)))(pg.asarray([0.0, 2.0])).tolist() == [0, 0.5]


def test_dividing_integers_gives_float32(backend):
    x = pg.asarray([1, 2])
    assert (x / x).dtype == (x / 2).dtype == (2 / x).dtype == np.float32
    assert (x / 2**40).dtype == np.float32
    assert pg.divide(1, 2).item() == 0.5
    assert pg.divide(pg.asarray([True]), 2).tolist() == [0.5]
    exact = pg.divide(pg.asarray([2**24 + 1]), pg.asarray(np.asarray([1.0])))
    assert exact.tolist() == [2.0**24 + 1]


# --- powers ----------------------------------------------------------------------


def test_integer_powers(backend):
    a = pg.asarray([-3, -1, 0, 1, 2])
    assert (a**2).tolist() == [9, 1, 0, 1, 4]
    assert (a**3).tolist() == [-27, -1, 0, 1, 8]
    assert (a**0).tolist() == [1] * 5
    assert (a ** pg.asarray([-1])).tolist() == [0, -1, 0, 1, 0]
    assert (a ** pg.asarray([-2])).tolist() == [0, 1, 0, 1, 0]
    assert (2 ** pg.asarray([0, 3, 31])).tolist() == [1, 8, -(2**31)]
    assert (2 ** pg.asarray([-1, 3])).tolist() == [0, 8]
    assert (a**0.5).dtype == np.float32
    half = (pg.asarray([2.0]) ** -1).numpy()
    assert_near(half, np.asarray([0.5], np.float32), where_exact(backend, 3))


@pytest.mark.parametrize("exponent", [1, 2, 3, -1, 0, 0.5, 2.5])
def test_scalar_powers(exponent, backend):
    x = np.asarray([[0.5, 1.0, 2.0], [3.0, 1e-20, 1e15]], np.float32)
    with np.errstate(all="ignore"):
        expected = x**exponent
    found = (pg.asarray(x) ** exponent).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=5e-45)  # 3 ulp
    check_gradients(lambda x: x**exponent, [0.5, 1.0, 2.0])


def test_gradients_of_powers_of_zero_are_finite(backend):
    a = lambda b: pg.grad(lambda a: pg.sum(a**b))(pg.asarray([0.0, -2.0])).tolist()
    found = np.asarray([a(0), a(1), a(2), a(3)], np.float32)
    expected = np.asarray([[0, 0], [1, 1], [0, -4], [0, 12]], np.float32)
    assert_near(found, expected, where_exact(backend, 6))
    second = lambda b: pg.grad(pg.grad(lambda a: a**b))(pg.asarray(0.0)).item()
    found = np.asarray([second(0), second(1), second(2), second(3)], np.float32)
    expected = np.asarray([0, 0, 2, 0], np.float32)
    assert_near(found, expected, where_exact(backend, 6))
    slope_in_b = pg.grad(lambda b: pg.sum(pg.pow(pg.asarray([0.0, -2.0, 2.0]), b)))
    assert slope_in_b(pg.asarray(3.0)).item() == pytest.approx(8 * math.log(2))


def test_the_mixed_derivative_of_pow_where_the_exponent_is_zero(backend):
    mixed = pg.grad(lambda b: pg.grad(lambda a: a**b)(pg.asarray(4.0)))
    found = mixed(pg.asarray(0.0)).numpy()
    assert_near(found, np.asarray(0.25, np.float32), where_exact(backend, 6))


# --- maximum and minimum ---------------------------------------------------------


def test_of_equal_arguments_the_first_is_chosen(backend):
    x = pg.asarray([1.0, 2.0, 3.0]), pg.asarray([2.0, 2.0, 2.0])
    dy = pg.ones((3,))
    greater = [g.tolist() for g in pg.grads(pg.maximum)(*x, dy=dy)]
    smaller = [g.tolist() for g in pg.grads(pg.minimum)(*x, dy=dy)]
    assert greater == [[0, 1, 1], [1, 0, 0]]
    assert smaller == [[1, 1, 0], [0, 0, 1]]


def test_an_infinite_cotangent_goes_only_to_the_chosen_argument(backend):
    dy = pg.asarray([math.inf])
    xs = pg.asarray([1.0]), pg.asarray([2.0])
    assert [g.tolist() for g in pg.grads(pg.maximum)(*xs, dy=dy)] == [[0], [math.inf]]


# --- hypot, atan2 and logaddexp --------------------------------------------------


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e20, 1e30])
def test_hypot_and_atan2_neither_overflow_nor_underflow(size, backend):
    a = pg.asarray([3 * size])
    b = pg.asarray([-4 * size])
    assert pg.hypot(a, b).item() == pytest.approx(5 * size, rel=1e-6)
    da, db = (g.item() for g in pg.grads(pg.hypot)(a, b, dy=pg.ones((1,))))
    assert [da, db] == pytest.approx([0.6, -0.8], rel=1e-6)
    da, db = (g.item() for g in pg.grads(pg.atan2)(a, b, dy=pg.ones((1,))))
    assert [da * size, db * size] == pytest.approx([-0.16, -0.12], rel=1e-6)


def test_hypot_at_the_origin(backend):
    zero = pg.asarray(0.0)
    assert [g.item() for g in pg.grads(pg.hypot)(zero, zero)] == [0.0, 0.0]
    assert pg.hypot(pg.asarray(math.nan), -math.inf).item() == math.inf
    check_gradients(pg.hypot, [3.0, 3.0, -2.0, 0.0], [3.0, -3.0, 0.0, 2.0])


def test_the_gradient_of_atan2_at_the_origin_is_0(backend):
    a = pg.asarray([0.0, -0.0, 3.0])
    b = pg.asarray([0.0, -0.0, 4.0])
    da, db = pg.grads(pg.atan2)(a, b, dy=pg.ones((3,)))
    np.testing.assert_allclose(da.numpy(), [0, 0, 0.16], rtol=1e-6)
    np.testing.assert_allclose(db.numpy(), [0, 0, -0.12], rtol=1e-6)


def test_logaddexp_is_accurate_and_smooth(backend):
    a = pg.asarray([0.0, 1000.0, -1000.0])
    b = pg.asarray([-40.0, 1000.0, -1001.0])
    expected = [math.exp(-40), 1000 + math.log(2), -1000 + math.log1p(math.exp(-1))]
    np.testing.assert_allclose(pg.logaddexp(a, b).numpy(), expected, rtol=1e-6)
    check_gradients(pg.logaddexp, [1.0, 2.0, -3.0], [1.0, -2.0, 5.0])
    minus_infinity = pg.asarray(-math.inf)
    assert pg.logaddexp(minus_infinity, minus_infinity).item() == -math.inf
    halves = pg.grads(pg.logaddexp)(pg.asarray(2.0), pg.asarray(2.0))
    assert [g.item() for g in halves] == [0.5, 0.5]


@pytest.mark.parametrize("x", [-3.0, 0.0, 5.0, -math.inf])
def test_infinity_dominates_logaddexp(x, backend):
    for pair in ((x, math.inf), (math.inf, x)):
        a, b = map(pg.asarray, pair)
        assert pg.logaddexp(a, b).item() == math.inf
        found = [g.item() for g in pg.grads(pg.logaddexp)(a, b)]
        assert found == [float(v == math.inf) for v in pair]
    infinity = pg.asarray(math.inf)
    assert pg.logaddexp(infinity, infinity).item() == math.inf
    slopes = pg.grads(pg.logaddexp)(infinity, infinity)
    assert sum(g.item() for g in slopes) == 1


@pytest.mark.parametrize("op", [pg.atan2, pg.hypot, pg.logaddexp, pg.divide_no_nan])
def test_floating_functions_turn_integers_into_float32(op, backend):
    for pair in (
        (pg.asarray([3]), pg.asarray([4])),
        (pg.asarray([3]), 4),
        (3, pg.asarray([4])),
        (3, 4),
        (pg.asarray([True]), pg.asarray([3], dtype="int64")),
    ):
        assert op(*pair).dtype == np.float32
    assert op(pg.asarray([3]), np.asarray([4.0])).dtype == np.float64


# --- complex numbers -------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [pg.add, pg.subtract, pg.multiply, pg.divide, pg.pow, pg.divide_no_nan],
    ids=lambda op: op.__name__,
)
def test_complex_gradients(op, backend):
    rng = np.random.default_rng(0)
    draw = lambda shape: rng.uniform(1, 2, shape) + 1j * rng.uniform(-1, 1, shape)
    xs = (draw(3), draw(1))
    dy = draw(3)
    directions = (draw(3), draw(1))
    f = lambda *xs: op(*map(pg.asarray, xs)).numpy()
    eps = 1e-6
    up, down = (
        f(*(x + s * v for x, v in zip(xs, directions, strict=True)))
        for s in (eps, -eps)
    )
    numeric = np.vdot(dy, (up - down) / (2 * eps)).real
    dxs = pg.grads(op)(*xs, dy=pg.asarray(dy))
    exact = sum(
        np.vdot(dx.numpy(), v).real for dx, v in zip(dxs, directions, strict=True)
    )
    assert exact == pytest.approx(numeric, rel=1e-6)


def test_zero_to_a_complex_power_is_zero(backend):
    require_dtypes(backend, "complex64")
    powers = [1.0 + 1j, 0.5 - 2j, 3 + 0j, 0j]
    z = pg.zeros((4,), dtype="complex64")
    assert pg.pow(z, powers).tolist() == [0, 0, 0, 1]
    dx = pg.grad(lambda z: pg.pow(z, [2 + 1j, 3 - 2j]))(z[:2], dy=pg.asarray([1j, 1]))
    assert dx.tolist() == [0, 0]


def test_the_gradient_of_a_real_factor_is_real(backend):
    x = pg.asarray([2.0])
    z = pg.asarray([3 + 4j])
    dx = pg.grad(lambda x: x * z)(x, dy=pg.asarray([1 + 1j]))
    assert dx.dtype == np.float32
    assert dx.tolist() == [7.0]


# --- decompositions --------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_decompositions(dtype):
    a = np.asarray([[1, -2], [3, 4]], dtype)
    b = np.asarray([5, -6], dtype)
    with toy(without=["AddN", "SquaredDifference"], dtypes=[dtype, "bool"]):
        for op in (pg.squared_difference, lambda a, b: pg.add_n([a, a, a * b])):
            expected = op(pg.asarray(a), pg.asarray(b))
            with pg.use_backend("toy"):
                found = op(pg.asarray(a), pg.asarray(b))
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found.numpy(), expected.numpy())


# --- errors ----------------------------------------------------------------------

GIVEN = {"mask": [True], "n": [1], "z": [1j]}
ERRORS = [
    (
        lambda t: t.mask - t.mask,
        TypeError,
        "subtract: is defined for integers, floating, c",
    ),
    (lambda t: True - t.mask, TypeError, "subtract: .* got bool; cast"),
    (lambda t: t.mask // t.mask, TypeError, "floor_divide: .* got bool"),
    (lambda t: t.mask % t.mask, TypeError, "remainder: .* got bool"),
    (lambda t: t.mask**t.mask, TypeError, "pow: .* got bool"),
    (
        lambda t: pg.squared_difference(t.mask, t.mask),
        TypeError,
        "squared_difference: .*bool",
    ),
    (lambda t: pg.maximum(t.z, 1), TypeError, "maximum: .* got complex64"),
    (lambda t: pg.minimum(1.0, t.z), TypeError, "minimum: .* got complex64"),
    (lambda t: t.z // 2, TypeError, "floor_divide: .* got complex64"),
    (lambda t: t.n % 2j, TypeError, "remainder: .* got complex64"),
    (lambda t: pg.atan2(t.z, 1.0), TypeError, "atan2: there is no atan2 of complex"),
    (lambda t: pg.atan2(1.0, t.n * 1j), TypeError, "atan2: there is no atan2 of comp"),
    (lambda t: pg.hypot(t.n, 1j), TypeError, "hypot: there is no hypot of complex"),
    (
        lambda t: pg.logaddexp(t.z, t.z),
        TypeError,
        "logaddexp: there is no logaddexp of co",
    ),
    (
        lambda t: t.n**-1,
        ValueError,
        "pow: int32 to the negative power -1 .*such as -1.0",
    ),
    (lambda t: t.n ** np.int64(-2), ValueError, "pow: int32 to the neg"),
    (lambda t: pg.pow(3, -1), ValueError, "pow: int32 to the negative power -1"),
    (lambda t: t.mask**-1, ValueError, "pow: bool to the negative power -1"),
    (lambda t: pg.add_n(t.n), TypeError, "add_n: expected a list .* got Tensor"),
    (lambda t: pg.add_n([]), ValueError, "add_n: the list is empty"),
    (lambda t: pg.add_n([t.n, 1]), ValueError, r"shapes differ; use add,.* \(1,\) and"),
    (lambda t: t.n + "1", TypeError, "no dtype holds both int32 and string"),
    (lambda t: None * t.n, TypeError, "cannot make a tensor of NoneType"),
    (
        lambda t: pg.ones((2,)) ** pg.ones((3,)),
        ValueError,
        r"pow: shapes \(2,\) and \(3,",
    ),
    (
        lambda t: pg.atan2([1, 2], [1, 2, 3]),
        ValueError,
        r"atan2: shapes \(2,\) and \(3,",
    ),
]


@pytest.mark.parametrize(("call", "error", "match"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, match, backend):
    t = SimpleNamespace(**{name: pg.asarray(value) for name, value in GIVEN.items()})
    with pytest.raises(error, match=match):
        call(t)


# --- promotion -------------------------------------------------------------------

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def promoted(a, b):
    """Return the dtype of ``a + b``: as in NumPy within a kind, else by the kinds."""
    a, b = sorted(map(np.dtype, (a, b)), key=lambda d: KINDS[d.kind])
    if KINDS[a.kind] == KINDS[b.kind]:
        both = np.promote_types(a, b)
        return None if KINDS[both.kind] != KINDS[b.kind] else both
    return np.promote_types(a, b) if a.kind == "f" else b


@pytest.mark.parametrize("b", DTYPES)
@pytest.mark.parametrize("a", DTYPES)
def test_promotion(a, b, backend):
    x = pg.ones((2,), dtype=a)
    y = pg.ones((2,), dtype=b)
    both = promoted(a, b)
    if both is None:
        with pytest.raises(TypeError, match=f"add: no dtype holds both {a} and {b}"):
            x + y
        return
    require_dtypes(backend, both)
    assert (x + y).dtype == pg.where(x == y, x, y).dtype == both
    assert (x == y).tolist() == [True, True]


def test_examples_of_promotion():
    assert promoted("int64", "float32") == np.float32
    assert promoted("int8", "uint8") == np.int16
    assert promoted("int64", "uint64") is None
    assert promoted("float64", "complex64") == np.complex128
    assert promoted("int64", "complex64") == np.complex64
    assert promoted("bool", "uint8") == np.uint8


WEAK = [
    ("float32", 1, "float32"),
    ("float32", True, "float32"),
    ("float32", np.sqrt(2.0), "float32"),
    ("float32", np.int64(2), "float32"),
    ("float16", np.float64(2.5), "float16"),
    ("float64", np.float32(1), "float64"),
    ("int64", 1, "int64"),
    ("int8", np.int64(100), "int8"),
    ("uint64", 2**64 - 1, "uint64"),
    ("int32", 1.5, "float32"),
    ("int64", np.float64(1.5), "float32"),
    ("bool", 1, "int32"),
    ("bool", True, "bool"),
    ("bool", np.True_, "bool"),
    ("bool", 1.5, "float32"),
    ("int32", 1j, "complex64"),
    ("float32", 1j, "complex64"),
    ("float32", np.complex128(1j), "complex64"),
    ("float64", 1j, "complex128"),
    ("complex64", 1.5, "complex64"),
    ("complex128", np.complex64(1j), "complex128"),
    ("float32", math.inf, "float32"),
    ("int32", math.nan, "float32"),
]


@pytest.mark.parametrize(("dtype", "scalar", "result"), WEAK, ids=str)
def test_scalars_are_weak(dtype, scalar, result, backend):
    x = pg.ones((2,), dtype=dtype)
    y = pg.ones((), dtype=dtype)
    assert (x + scalar).dtype == (scalar + x).dtype == np.dtype(result)
    assert (y + scalar).dtype == np.dtype(result)
    expected = np.ones(2, result) + np.asarray(scalar, result)
    np.testing.assert_array_equal((x + scalar).numpy(), expected)


OVERFLOW = [
    ("int32", 2**31),
    ("int32", -(2**31) - 1),
    ("uint8", -1),
    ("uint8", 256),
    ("int8", np.int64(128)),
    ("uint64", 2**64),
    ("float16", 1e5),
    ("float16", 70000),
    ("float32", 1e39),
    ("float32", np.float64(-1e39)),
    ("float32", 10**39),
    ("complex64", 1e39j),
]


@pytest.mark.parametrize(("dtype", "scalar"), OVERFLOW, ids=lambda x: str(x)[:16])
@pytest.mark.parametrize("op", [pg.add, pg.equal, pg.maximum], ids=lambda f: f.__name__)
def test_a_scalar_that_does_not_fit_is_an_overflow(op, dtype, scalar, backend):
    if op is pg.maximum and dtype == "complex64":
        op = pg.subtract
    with pytest.raises(OverflowError, match=f"{op.__name__}: .* does not fit into"):
        op(pg.ones((1,), dtype=dtype), scalar)
    with pytest.raises(OverflowError, match=f"does not fit into {dtype}"):
        op(scalar, pg.ones((1,), dtype=dtype))


def test_an_integer_beyond_every_float_is_an_overflow(backend):
    with pytest.raises(OverflowError):
        pg.asarray([1.0]) + 10**400


def test_scalar_minus_zero_keeps_its_sign(backend):
    x = pg.asarray([1.0])
    assert [(x / 0.0).item(), (x / -0.0).item()] == [math.inf, -math.inf]
    assert math.isnan((x * math.nan).item())


def test_numpy_on_the_left_keeps_the_gradient(backend):
    left = np.asarray([2.0], np.float32)
    assert pg.grad(lambda x: pg.sum(left * x))(pg.asarray([1.0])).tolist() == [2.0]


def test_shapes_that_do_not_broadcast(backend):
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\) do not broadcast"):
        pg.ones((2,)) + pg.ones((3,))


def test_the_cast_of_a_promotion_is_on_the_tape(backend):
    x = pg.ones((2,), dtype="float32")
    dx = pg.grad(lambda x: pg.sum(x * pg.ones((2,), dtype="float64")))(x)
    assert dx.dtype == np.float32


def test_a_scalar_on_the_left_is_weak(backend):
    assert pg.add(0.1, np.array([1.0])).numpy() == np.array([1.1])
    assert (5 + pg.Variable(pg.ones((), dtype="uint8"))).dtype == np.uint8
    with pytest.raises(OverflowError, match="does not fit into int32"):
        pg.asarray([1]) + 10**400
