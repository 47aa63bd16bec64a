"""Ops of complex infinities: multiplying by real constants introduces no NaN."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_complex_gradients, require_dtypes
from .moves import decomposed

INF, NAN = math.inf, math.nan
DTYPES = ["complex64", "complex128"]
Z = [
    complex(INF, 1), complex(-INF, 1), complex(1, INF), complex(-1, -INF),
    complex(INF, INF), complex(-INF, INF), complex(INF, 0), complex(0, 0),
    complex(-0.0, 0), complex(INF, NAN), complex(NAN, 1), complex(3, -4),
]  # fmt: skip


def check(y, expected, dtype):
    """Compare real and imaginary parts; each may be infinite or NaN."""
    y = y.numpy()
    assert y.dtype == dtype
    expected = np.asarray(expected)
    for found, wanted in ((y.real, expected.real), (y.imag, expected.imag)):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)


def join_parts(real, imag):
    """Return complex numbers without multiplying by 1j, which would make NaN."""
    z = np.empty(np.shape(real), complex)
    z.real, z.imag = real, imag
    return z


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "base"), [(pg.log2, 2), (pg.log10, 10)])
def test_logarithms(op, base, dtype, backend):
    require_dtypes(backend, dtype)
    z = np.asarray(Z, dtype)
    with np.errstate(all="ignore"):
        logs = np.log(np.asarray(Z))
    scale = math.log(base)
    check(op(pg.asarray(z)), join_parts(logs.real / scale, logs.imag / scale), dtype)
    if dtype == "complex128":
        check_complex_gradients(op, np.asarray([1 + 2j, -3 + 0.5j]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_two(dtype, backend):
    require_dtypes(backend, dtype)
    rows = {
        complex(INF, 1): complex(INF, INF),
        complex(INF, 0): complex(INF, 0),
        complex(INF, 3): complex(-INF, INF),
        complex(-INF, 1): 0,
        complex(-INF, INF): 0,
        complex(1, INF): complex(NAN, NAN),
        complex(NAN, 0): complex(NAN, 0),
        3: 8,
        complex(-1, 2): 2 ** complex(-1, 2),
    }
    check(pg.exp2(pg.asarray(np.asarray([*rows], dtype))), [*rows.values()], dtype)
    if dtype == "complex128":
        check_complex_gradients(pg.exp2, np.asarray([1 + 2j, -3 + 0.5j]))


POWERS = {  # exponent: the powers of (inf+1j, 1+infj, -inf+infj, 3-4j)
    1: [complex(INF, 1), complex(1, INF), complex(-INF, INF), 3 - 4j],
    2: [complex(INF, INF), complex(-INF, INF), complex(NAN, -INF), -7 - 24j],
    3: [complex(NAN, INF), complex(-INF, NAN), complex(NAN, NAN), -117 - 44j],
    4: [complex(NAN, NAN)] * 3 + [-527 + 336j],
    0: [1, 1, 1, 1],
    0.5: [complex(INF, NAN)] * 3 + [2 - 1j],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", POWERS)
def test_powers(n, dtype, backend):
    """Powers equal products, as in NumPy, for scalar and array exponents."""
    require_dtypes(backend, dtype)
    z = pg.asarray(
        np.asarray(
            [complex(INF, 1), complex(1, INF), complex(-INF, INF), 3 - 4j], dtype
        )
    )
    check(pg.pow(z, n), POWERS[n], dtype)
    check(pg.pow(z, pg.full((4,), n, dtype=dtype)), POWERS[n], dtype)
    if n in (1, 2):
        check(pg.square(z) if n == 2 else pg.positive(z), POWERS[n], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 5000])
def test_means(rows, dtype, backend):
    require_dtypes(backend, dtype)
    z = np.asarray([[complex(INF, 1), complex(2, -INF), 3 - 4j]] * rows, dtype)
    expected = [complex(INF, 1), complex(2, -INF), 3 - 4j]
    check(pg.mean(pg.asarray(z), axis=0), expected, dtype)
    check(pg.mean(pg.asarray(z.T), axis=1), expected, dtype)
    check(pg.mean(pg.asarray(z[:, :1])), expected[0], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout(dtype, backend):
    require_dtypes(backend, dtype)
    z = np.full(20, complex(INF, 1), dtype)
    y = pg.dropout(pg.asarray(z), 0.5, seed=1).numpy()
    kept = y != 0
    assert 0 < kept.sum() < 20
    check(pg.asarray(y[kept]), [complex(INF, 2)] * kept.sum(), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linspace_keeps_infinite_ends(dtype, backend):
    require_dtypes(backend, dtype)
    ends = complex(INF, 1), complex(INF, 2)
    y = pg.linspace(*ends, 3, dtype=dtype)
    check(y[-1], ends[1], dtype)
    for start in (ends[0], pg.asarray(np.asarray(ends[0], dtype))):
        check(pg.linspace(start, ends[0], 3, dtype=dtype), [ends[0]] * 3, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("z", Z)
def test_a_product_of_one_number_is_the_number(z, dtype, backend):
    """A product must not start from 1+0j, which would turn an infinity into NaN."""
    require_dtypes(backend, dtype)
    x = pg.asarray(np.asarray([[z] * 3], dtype))
    for op in (pg.prod, pg.cumulative_prod):
        check(op(x[:, :1], axis=1), [z] if op is pg.prod else [[z]], dtype)
        check(op(x, axis=0), [z] * 3 if op is pg.prod else [[z] * 3], dtype)
    options = {"axis": 1, "exclusive": True}
    check(pg.cumulative_prod(x, **options)[:, :2], [[1, z]], dtype)
    check(pg.cumulative_prod(x, **options, reverse=True)[:, 1:], [[z, 1]], dtype)


@pytest.mark.parametrize("how", [{}, {"reverse": True}], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cumulative_products(dtype, how, backend):
    """The first result is the first number, the second is a product of two numbers."""
    require_dtypes(backend, dtype)
    a, b = (part.reshape(-1) for part in np.meshgrid(Z, Z))
    pairs = np.stack([b, a] if how else [a, b]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = np.multiply(a, b)
    y = pg.cumulative_prod(pg.asarray(pairs), axis=0, **how)
    check(y[1 if how else 0], a, dtype)
    check(y[0 if how else 1], expected, dtype)


RECIPROCALS = {
    complex(0, 0): complex(NAN, NAN),
    complex(INF, 1): complex(0.0, -0.0),
    complex(-INF, -1): complex(-0.0, 0.0),
    complex(0.0, INF): complex(0.0, -0.0),
    complex(-0.0, -INF): complex(-0.0, 0.0),
    complex(INF, -0.0): complex(0.0, 0.0),
    complex(INF, INF): complex(NAN, NAN),
    complex(NAN, 1): complex(NAN, NAN),
    complex(0.0, -2): complex(0.0, 0.5),
    complex(-0.0, 2): complex(-0.0, -0.5),
    complex(-2, 0.0): complex(-0.5, -0.0),
    complex(3, -4): complex(0.12, 0.16),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_reciprocals(dtype, backend):
    """Reciprocals are ``conj(z) / |z|²``, with the same signs of zeros as in NumPy."""
    require_dtypes(backend, dtype)
    z, expected = (np.asarray([*x], dtype) for x in (RECIPROCALS, RECIPROCALS.values()))
    y = pg.reciprocal(pg.asarray(z))
    check(y, expected, dtype)
    with decomposed("Reciprocal"):
        check(pg.reciprocal(pg.asarray(z)), expected, dtype)
    for part in (np.real, np.imag):
        signed = ~np.isnan(part(expected))
        found = np.signbit(part(y.numpy()))
        assert (found == np.signbit(part(expected)))[signed].all()
    big = np.asarray([complex(1e38, 1e38)], dtype)
    check(pg.reciprocal(pg.asarray(big)) * 1e38, [0.5 - 0.5j], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("z", Z)
def test_a_transform_of_one_number_is_the_number(z, dtype, backend):
    require_dtypes(backend, dtype)
    x = pg.asarray(np.asarray([[z], [1]], dtype))
    for op in (pg.fft.fft, pg.fft.ifft):
        for norm in ("backward", "ortho", "forward"):
            check(op(x, norm=norm), [[z], [1]], dtype)
