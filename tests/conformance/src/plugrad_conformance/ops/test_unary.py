"""Element-wise ops of one argument; each row specifies one op."""

import math

import numpy as np
import plugrad as pg
import pytest

from .. import check
from ..check import check_gradients
from .elementwise import (
    INF,
    INTEGERS,
    NAN,
    SAMPLE,
    SPECIAL,
    Row,
    assert_near,
    check_decomposition,
    check_gradient,
    check_integers,
    check_signs_of_zero,
    check_special_values,
    check_the_whole_range,
    check_values,
    every,
    run,
    supported_dtypes,
    where_exact,
    without,
)

POSITIVE = (0.1, 4.0)
erf = np.vectorize(math.erf, otypes=[float])
erfc = np.vectorize(math.erfc, otypes=[float])
inverse_root = lambda x: 1 / np.sqrt(x)

FLOATING = [
    Row(pg.exp, "Exp", np.exp),
    Row(pg.exp2, "Exp2", np.exp2),
    Row(pg.expm1, "Expm1", np.expm1),
    Row(pg.log, "Log", np.log, domain=POSITIVE),
    Row(pg.log1p, "Log1p", np.log1p, domain=(-0.9, 4.0)),
    Row(pg.log2, "", np.log2, domain=POSITIVE, composed=9),
    Row(pg.log10, "", np.log10, domain=POSITIVE, composed=9),
    Row(pg.sqrt, "Sqrt", np.sqrt, domain=POSITIVE, ulp=0),
    Row(pg.rsqrt, "Rsqrt", inverse_root, domain=POSITIVE, ulp=1),
    Row(pg.reciprocal, "Reciprocal", lambda x: 1 / x, domain=POSITIVE, ulp=1),
    Row(pg.erf, "Erf", erf),
    Row(pg.erfc, "Erfc", erfc, composed=8),
]
EXACT = [
    Row(pg.abs, "Abs", np.abs, domain=POSITIVE, keeps=True, ulp=0),
    Row(pg.ceil, "Ceil", np.ceil, domain=(0.1, 0.9), keeps=True, ulp=0),
    Row(pg.floor, "Floor", np.floor, domain=(0.1, 0.9), keeps=True, ulp=0),
    Row(pg.positive, "", lambda x: x, keeps=True, ulp=0),
    Row(pg.round, "Round", np.round, domain=(-0.4, 0.4), keeps=True, ulp=0),
    Row(
        pg.sign,
        "Sign",
        lambda x: x if x.dtype == bool else np.sign(x),
        domain=POSITIVE,
        keeps=True,
        ulp=0,
    ),
    Row(pg.square, "Square", lambda x: x * x, keeps=True, ulp=0),
    Row(pg.trunc, "Trunc", np.trunc, domain=(0.1, 0.9), keeps=True, ulp=0),
]
NEGATIVE = Row(pg.negative, "Neg", np.negative, keeps=True, ulp=0)
ROWS = [*FLOATING, *EXACT, NEGATIVE]
PREDICATES = [(pg.isfinite, np.isfinite), (pg.isinf, np.isinf), (pg.isnan, np.isnan)]
PRIMITIVES = ("Exp", "Expm1", "Floor", "Log", "Log1p", "Sqrt")
by_name = {"ids": lambda f: f.__name__}


@every(ROWS)
def test_values(row, backend):
    check_values(row, backend)


@every(ROWS)
def test_special_values(row, backend):
    check_special_values(row, backend)


@every(ROWS)
def test_the_whole_range_of_float32(row, backend):
    check_the_whole_range(row, backend)


@every([*FLOATING, *EXACT])
def test_integers(row, backend):
    check_integers(row, backend)


@every(ROWS)
def test_gradients(row, backend):
    check_gradient(row)


@every([row for row in ROWS if row.kernel and row.kernel not in PRIMITIVES])
def test_decompositions(row):
    dtypes = ["float32", "float64", "float16", "int32", "uint8", "bool"]
    check_decomposition(row, dtypes[:-1] if row is NEGATIVE else dtypes)


# --- whole numbers ---------------------------------------------------------------


def test_signed_integers(backend):
    for dtype in supported_dtypes(["int8", "int32", "int64"]):
        smallest = np.iinfo(dtype).min
        x = np.asarray([-3, 0, 5, smallest], dtype)
        assert_near(run(pg.abs, x), np.asarray([3, 0, 5, smallest], dtype), 0)
        assert_near(run(pg.negative, x), np.asarray([3, 0, -5, smallest], dtype), 0)
        assert_near(run(pg.sign, x), np.asarray([-1, 0, 1, -1], dtype), 0)
        for op in (pg.ceil, pg.floor, pg.positive, pg.round, pg.trunc):
            assert_near(run(op, x), x, 0)


def test_negative_wraps(backend):
    for dtype in supported_dtypes(["uint8", "uint64"]):
        largest = int(np.iinfo(dtype).max)
        assert run(pg.negative, np.asarray([0, 1, largest], dtype)).tolist() == [
            0,
            largest,
            1,
        ]


def test_large_integers_are_exact(backend):
    for dtype in supported_dtypes(["int64", "uint64"]):
        x = np.asarray([2**53 + 1, 2**62 + 1], dtype)
        for op in (pg.abs, pg.ceil, pg.floor, pg.round, pg.trunc):
            assert run(op, x).tolist() == x.tolist()


def test_halves_are_rounded_to_even(backend):
    x = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0, 2.0**30]
    assert pg.round(x).tolist() == [-2, -2, 0, 0, 2, 2, 0, 8388609, 2**30]


def test_results_that_round_to_zero_keep_their_sign(backend):
    for op in (pg.ceil, pg.round, pg.trunc):
        assert np.signbit(run(op, np.asarray([-0.3, -0.0, 0.0]))).tolist() == [1, 1, 0]
    for op in (pg.abs, pg.sign):
        assert not np.signbit(run(op, np.asarray([-0.0, 0.0]))).any()


@pytest.mark.parametrize("op", [pg.expm1, pg.log1p, pg.erf, pg.sqrt], **by_name)
def test_zero_keeps_its_sign(op, backend):
    check_signs_of_zero(op, [True, False])


def test_ops_do_not_write_to_their_input(backend):
    for op in (*(row.op for row in ROWS), pg.isnan, pg.isinf, pg.isfinite):
        x = pg.asarray([0.5, -1.5, 2.5])
        y = op(x)
        assert y is not x
        y.dispose()
        assert x.tolist() == [0.5, -1.5, 2.5]


# --- isfinite, isinf, isnan ------------------------------------------------------


@pytest.mark.parametrize(("op", "reference"), PREDICATES, **by_name)
def test_isfinite_isinf_and_isnan(op, reference, backend):
    for dtype in supported_dtypes(["float16", "float32", "float64"]):
        with np.errstate(over="ignore"):
            x = np.asarray([SPECIAL]).astype(dtype)
        assert_near(run(op, x), reference(x), 0)
    for dtype in supported_dtypes(["bool", *INTEGERS]):
        x = np.asarray([0, 1, 100]).astype(dtype)
        assert_near(run(op, x), reference(x), 0)
    assert_near(run(op, np.zeros((0, 2), np.float32)), np.zeros((0, 2), bool), 0)
    assert_near(run(op, np.float32(NAN)), np.asarray(op is pg.isnan), 0)
    dx = pg.grad(lambda x: pg.sum(pg.astype(op(x), "float32") * x))
    ones = reference(np.asarray([2.0, 3.0])).astype(float)
    np.testing.assert_array_equal(dx(pg.asarray([2.0, 3.0])).numpy(), ones)


@pytest.mark.parametrize("kernel", ["IsFinite", "IsInf", "IsNan"])
def test_isfinite_isinf_and_isnan_without_kernels(kernel):
    reference = getattr(np, kernel.lower())
    with without(kernel), pg.use_backend("toy"):
        for dtype in ("float16", "float32", "float64", "int32", "uint8", "bool"):
            with np.errstate(over="ignore", invalid="ignore"):
                x = np.asarray(SPECIAL[dtype[0] != "f" and 3 :]).astype(dtype)
            assert_near(run(getattr(pg, kernel.lower()), x), reference(x), 0)


# --- accuracy --------------------------------------------------------------------


def test_erf_in_float64(backend):
    if not supported_dtypes(["float64"]):
        pytest.skip("no float64")
    ends = [1e-320, 1e-20, 0.9999999, 1.0, 1.0000001, 5.9, 6.0, 6.1, 40.0]
    x = np.concatenate([np.linspace(-7, 7, 20_001), ends])
    assert_near(run(pg.erf, x), erf(x), 2)
    parts = np.stack([x[:10_000], x[10_000:20_000]], axis=1)[::3]
    assert_near(run(pg.erf, parts), erf(parts), 2)
    long = np.linspace(-3, 3, 100_001)  # longer than a block
    assert_near(run(pg.erf, long), erf(long), 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf_without_kernel(dtype):
    x = np.linspace(-7, 7, 20_001).astype(dtype)
    with without("Erf"), pg.use_backend("toy"):
        assert_near(run(pg.erf, x), erf(x.astype(float)).astype(dtype), 2)


def test_log_next_to_one(backend):
    x = np.linspace(0.5, 2.0, 100_001, dtype=np.float32)
    assert_near(run(pg.log, x), np.log(x.astype(float)).astype(np.float32), 3)
    small = np.asarray([1e-10, -1e-10, 1e-30], np.float32)
    assert_near(run(pg.log1p, small), small, where_exact(backend, 3))
    assert_near(run(pg.expm1, small), small, where_exact(backend, 3))


def test_powers_of_two_and_ten(backend):
    ulp = where_exact(backend, 9)
    exponents = [0.0, 1.0, 10.0, -3.0, 100.0]
    for op, given, expected in [
        (pg.exp2, exponents, [1, 2, 1024, 0.125, 2.0**100]),
        (pg.log2, [1.0, 2.0, 8.0, 1024.0, 0.25], [0, 1, 3, 10, -2]),
        (pg.log10, [1.0, 10.0, 1e3, 1e6], [0, 1, 3, 6]),
    ]:
        assert_near(op(given).numpy(), np.asarray(expected, np.float32), ulp)


# --- gradients at difficult points -----------------------------------------------

DERIVATIVES = [
    (pg.abs, [0.0, -0.0, NAN, INF], [0, 0, NAN, 1]),
    (pg.sign, [0.0, 2.0, NAN], [0, 0, 0]),
    (pg.floor, [0.0, 0.5, INF], [0, 0, 0]),
    (pg.ceil, [1.0, 0.5, NAN], [0, 0, 0]),
    (pg.round, [0.5, 1.0], [0, 0]),
    (pg.trunc, [0.0, -1.5], [0, 0]),
    (pg.sqrt, [0.0, 4.0, -1.0], [INF, 0.25, NAN]),
    (pg.rsqrt, [0.0, 4.0, INF], [-INF, -1 / 16, 0]),
    (pg.reciprocal, [0.0, 1e-15, INF], [-INF, -1e30, 0]),
    (pg.log, [0.0, INF, 1e-30], [INF, 0, 1e30]),
    (pg.log1p, [-1.0, 1e-30, INF], [INF, 1, 0]),
    (pg.expm1, [-50.0, -INF], [math.exp(-50), 0]),
    (pg.exp, [-INF, 100.0], [0, INF]),
    (pg.erf, [0.0, 1e20, -INF], [2 / math.sqrt(math.pi), 0, 0]),
    (pg.exp2, [0.0, 3.0], [math.log(2), 8 * math.log(2)]),
]


@pytest.mark.parametrize(("op", "x", "slope"), DERIVATIVES, ids=range(len(DERIVATIVES)))
def test_slopes(op, x, slope, backend):
    x = pg.asarray(x)
    dx = pg.grad(op)(x, dy=pg.ones(x.shape)).numpy()
    np.testing.assert_allclose(dx, np.asarray(slope, np.float32), rtol=1e-6)


def test_second_order_gradients_through_steps(backend):
    for op in (pg.floor, pg.ceil, pg.round, pg.sign, pg.trunc):
        f = lambda x, op=op: op(x) * x
        second = pg.grad(lambda x, f=f: pg.grad(f)(x) * x)
        x = pg.asarray(2.6)
        assert second(x).item() == op(x).item()


# --- complex numbers -------------------------------------------------------------

COMPLEX = [
    (pg.exp, np.exp),
    (pg.exp2, lambda z: 2**z),
    (pg.expm1, np.expm1),
    (pg.log, np.log),
    (pg.log1p, lambda z: np.log(1 + z)),
    (pg.log2, np.log2),
    (pg.log10, np.log10),
    (pg.sqrt, np.sqrt),
    (pg.rsqrt, inverse_root),
    (pg.reciprocal, lambda z: 1 / z),
    (pg.square, np.square),
    (pg.negative, np.negative),
    (pg.positive, np.positive),
    (pg.sign, lambda z: z / np.abs(z)),
    (pg.round, np.round),
]


@pytest.mark.parametrize(("op", "reference"), COMPLEX, ids=lambda f: f.__name__)
def test_complex_values_and_gradients(op, reference):
    """Run on cpu only: other backends lack sign and rounding of complex numbers."""
    rng = np.random.default_rng(0)
    draw = lambda: rng.normal(size=50) + 1j * rng.normal(size=50)
    z = 2 * draw()
    v = draw()
    dy = draw()
    eps = 1e-6
    with pg.use_backend("cpu"):
        f = lambda z: run(op, z)
        np.testing.assert_allclose(f(z), reference(z), rtol=1e-12)
        single = f(z.astype(np.complex64))
        assert single.dtype == np.complex64
        np.testing.assert_allclose(single, reference(z), rtol=1e-5)
        (dz,) = pg.grads(op)(pg.asarray(z), dy=pg.asarray(dy))
    numeric = (dy.conj() * (f(z + eps * v) - f(z - eps * v))).real / (2 * eps)
    np.testing.assert_allclose((dz.numpy().conj() * v).real, numeric, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["Neg", "Square", "Rsqrt", "Reciprocal"])
def test_complex_decompositions(kernel):
    op = pg.negative if kernel == "Neg" else getattr(pg, kernel.lower())
    z = np.asarray([1 + 2j, -3 - 1j, 1e-9j])
    expected = run(op, z)
    with without(kernel), pg.use_backend("toy"):
        np.testing.assert_allclose(run(op, z), expected, rtol=1e-14)


def test_negative_complex_zeros():
    zeros = [0.0, -0.0, INF]
    z = np.asarray([complex(a, b) for a in zeros for b in zeros])
    for backend in ("cpu", "toy"):
        with without("Neg"), pg.use_backend(backend):
            found = run(pg.negative, z)
        np.testing.assert_array_equal(found.view(float), -z.view(float))
        np.testing.assert_array_equal(
            np.signbit(found.view(float)), ~np.signbit(z.view(float))
        )


def test_complex_numbers_that_are_not_finite(backend):
    check.require_dtypes(backend, "complex64")
    z = np.asarray([1 + 1j, complex(INF, 0), complex(0, NAN), complex(NAN, INF)])
    z = z.astype(np.complex64)
    assert run(pg.isnan, z).tolist() == [False, False, True, True]
    assert run(pg.isfinite, z).tolist() == [True, False, False, False]


@pytest.mark.parametrize("z", [complex(NAN, 1), complex(1, NAN), complex(0.6, NAN)])
def test_the_logarithm_of_nan_is_nan(z, backend):
    check.require_dtypes(backend, "complex64")
    for op, x in ((pg.log, z), (pg.log1p, z - 1)):
        y = op(pg.asarray(x, dtype="complex64")).numpy()
        assert np.isnan(y.real)
        assert np.isnan(y.imag)


def test_the_sign_of_complex_numbers_of_every_magnitude():
    with pg.use_backend("cpu"):
        z = np.asarray([3e38 + 3e38j, -1e-40j, 0, 1e-40 + 1e-40j], np.complex64)
        half = math.sqrt(0.5)
        expected = [half + half * 1j, -1j, 0, half + half * 1j]
        np.testing.assert_allclose(run(pg.sign, z), expected, rtol=1e-6)
        dz = pg.grad(pg.sign)(pg.asarray([0j, 2 + 0j]), dy=pg.asarray([1j, 1 + 1j]))
        np.testing.assert_allclose(dz.numpy(), [0, 0.5j])


def test_log1p_of_complex_numbers_next_to_zero(backend):
    check.require_dtypes(backend, "complex128")
    z = np.asarray([1e-12 + 1e-13j, 1e-20 + 0j, 1e300 + 1e300j, -1 + 0j])
    expected = [1e-12 + 1e-13j, 1e-20, np.log(z[2]), complex(-INF, 0)]
    np.testing.assert_allclose(run(pg.log1p, z), expected, rtol=1e-11)


# --- dtypes and errors -----------------------------------------------------------


def test_floating_point_exceptions_do_not_warn(backend):
    x = pg.asarray([-1.0, 4.0])
    np.testing.assert_array_equal(pg.sqrt(x).numpy(), [NAN, 2.0])
    np.testing.assert_array_equal((x / 0.0).numpy(), [-INF, INF])


def test_python_operators(backend):
    x = pg.asarray([1.0, -2.0])
    assert (-x).tolist() == [-1.0, 2.0]
    assert abs(x).tolist() == [1.0, 2.0]


def test_numbers_lists_arrays_and_variables(backend):
    for op in (pg.exp, pg.abs, pg.negative, pg.isfinite, pg.round):
        for x in (2.0, [1.0, 2.0], np.ones((2, 2)), pg.Variable(pg.ones((2,)))):
            assert isinstance(op(x), pg.Tensor)


REAL_ONLY = [pg.ceil, pg.erf, pg.floor, pg.trunc]


@pytest.mark.parametrize("op", REAL_ONLY, ids=lambda op: op.__name__)
def test_ops_that_are_not_defined_for_complex_numbers(op, backend):
    with pytest.raises(TypeError, match=f"{op.__name__}: .*complex"):
        op(np.asarray([1j]))


def test_negative_is_not_defined_for_bool(backend):
    with pytest.raises(TypeError, match="negative: is not defined for bool; use log"):
        pg.negative([True])


@every(ROWS)
def test_strings_and_dicts_are_refused(row, backend):
    with pytest.raises(TypeError, match="of strings"):
        row.op("q")
    with pytest.raises(TypeError, match="cannot make a tensor of dict"):
        row.op({})


def test_gradients_of_many_dimensions_and_layouts(backend):
    x = np.random.default_rng(0).uniform(0.5, 1.5, (2, 3, 1, 2))
    for op in (pg.log, pg.rsqrt, pg.erf, pg.reciprocal):
        check_gradients(lambda x, op=op: op(x) * op(x + 1), x)


def test_the_sample_has_enough_finite_numbers():
    assert np.isfinite(SAMPLE).sum() > 20_000
