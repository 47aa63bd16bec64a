"""Parts of complex numbers, and the gradients of all functions of complex numbers."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_complex_gradients, check_gradients, require_dtypes
from ..toy import toy

RNG = np.random.default_rng(0)
INF, NAN = np.inf, np.nan
PARTS = {"complex64": "float32", "complex128": "float64"}


def z(*shape):
    """Return random complex numbers."""
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def x(*shape):
    """Return random real numbers."""
    return RNG.normal(size=shape)


# --- values ----------------------------------------------------------------------

REFERENCES = [
    (pg.real, np.real),
    (pg.imag, np.imag),
    (pg.conj, np.conj),
    (pg.abs, np.abs),
    (pg.angle, np.angle),
]


@pytest.mark.parametrize("dtype", PARTS)
@pytest.mark.parametrize(("op", "reference"), REFERENCES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)], ids=str)
def test_parts(shape, op, reference, dtype, backend):
    require_dtypes(backend, dtype)
    a = np.asarray(z(*shape)).astype(dtype)
    for array in (a, a.T):
        y = op(pg.asarray(array, copy=False))
        assert y.dtype == (dtype if op is pg.conj else PARTS[dtype])
        np.testing.assert_allclose(y.numpy(), reference(array), rtol=3e-7)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "float64"])
def test_parts_of_real_numbers(dtype, backend):
    require_dtypes(backend, dtype)
    a = pg.asarray(np.asarray([0, 1, 3]).astype(dtype))
    for same in (pg.real(a), pg.conj(a)):
        assert same is not a  # assigning to the result must not change a
        assert (same.tolist(), same.dtype) == (a.tolist(), a.dtype)
    assert (pg.imag(a).tolist(), pg.imag(a).dtype) == ([0, 0, 0], a.dtype)
    floating = dtype if dtype.startswith("float") else "float32"
    assert (pg.angle(a).tolist(), pg.angle(a).dtype) == ([0, 0, 0], floating)
    np.testing.assert_allclose(pg.angle([-2.0, 2.0]).numpy(), [np.pi, 0], rtol=1e-6)


DTYPES_OF_PARTS = [
    ("float32", "float32", "complex64"),
    ("float64", "float64", "complex128"),
    ("float32", "float64", "complex128"),
    ("float16", "float16", "complex64"),
    ("int32", "bool", "complex64"),
    ("int64", "float64", "complex128"),
]


@pytest.mark.parametrize(("real", "imag", "result"), DTYPES_OF_PARTS)
def test_complex(real, imag, result, backend):
    require_dtypes(backend, real, imag, result)
    a = np.ones((2, 1), real)
    b = np.asarray([0, 1, 1]).astype(imag)
    y = pg.complex(pg.asarray(a), pg.asarray(b))
    assert (y.dtype, y.shape) == (result, (2, 3))
    np.testing.assert_array_equal(y.numpy(), a + 1j * b)


def test_complex_of_scalars_and_of_empty_arrays(backend):
    require_dtypes(backend, "complex64", "complex128", "float64")
    assert pg.complex(1, 2.5).numpy() == np.complex64(1 + 2.5j)
    assert pg.complex(np.ones(2), 1).tolist() == [1 + 1j, 1 + 1j]
    assert pg.complex(2, pg.ones((2,))).dtype == np.complex64
    assert pg.complex(np.empty((0, 3)), 0).shape == (0, 3)


def test_scalars_keep_the_signs_of_their_zeros(backend):
    require_dtypes(backend, "complex64")
    for scalar in (0j, complex(0, -0.0), complex(-0.0, 0), 0j):
        y = pg.where([True], scalar, pg.asarray([1j])).numpy()[0]
        assert np.signbit(y.real) == np.signbit(scalar.real)
        assert np.signbit(y.imag) == np.signbit(scalar.imag)


def test_the_parts_are_independent(backend):
    require_dtypes(backend, "complex64")
    parts = [0.0, -0.0, INF, -INF, NAN, 1e-45, 3e38]
    a, b = np.meshgrid(np.asarray(parts, np.float32), np.asarray(parts, np.float32))
    y = pg.complex(a, b)
    np.testing.assert_array_equal(pg.real(y).numpy(), a)
    np.testing.assert_array_equal(pg.imag(y).numpy(), b)
    flipped = pg.conj(y).numpy()
    np.testing.assert_array_equal(flipped.real, a)
    np.testing.assert_array_equal(flipped.imag, -b)
    number = ~np.isnan(b)  # the sign of NaN is not defined
    assert (np.signbit(flipped.imag) != np.signbit(b))[number].all()
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(pg.abs(y).numpy(), np.hypot(a, b), rtol=3e-7)


def test_the_angle_of_zero_is_zero_and_so_is_its_derivative(backend):
    require_dtypes(backend, "complex64")
    y, dy = pg.value_and_grad(lambda a: pg.sum(pg.angle(a)))(pg.asarray([0j, 2j]))
    np.testing.assert_allclose([y.item(), *dy.numpy()], [np.pi / 2, 0, -0.5], rtol=1e-6)
    assert pg.grad(lambda a: pg.sum(pg.angle(a)))(pg.asarray([0.0, -1.0])).tolist() == [
        0,
        0,
    ]


CASTS = [("complex64", "int32", [1, -2]), ("complex64", "bool", [True, True])]
CASTS += [("float32", "complex64", [1.75, -2.0]), ("bool", "complex64", [1, 1])]
CASTS += [("complex64", "float64", [1.75, -2.0]), ("complex64", "complex128", None)]


@pytest.mark.parametrize(("source", "dtype", "expected"), CASTS)
def test_casts(source, dtype, expected, backend):
    require_dtypes(backend, source, dtype)
    a = pg.asarray([1.75 + 0.5j, -2 - 1j]).astype(source)
    y = pg.astype(a, dtype)
    assert y.dtype == dtype
    assert y.tolist() == (a.tolist() if expected is None else expected)


# --- gradients -------------------------------------------------------------------

UNARY = [
    *(pg.negative, pg.positive, pg.square, pg.sqrt, pg.rsqrt, pg.reciprocal, pg.exp),
    *(pg.expm1, pg.exp2, pg.log, pg.log1p, pg.log2, pg.log10, pg.sin, pg.cos, pg.tan),
    *(pg.asin, pg.acos, pg.atan, pg.sinh, pg.cosh, pg.tanh, pg.asinh, pg.acosh),
    *(pg.atanh, pg.abs, pg.sign, pg.real, pg.imag, pg.conj, pg.angle),
]
GRADIENTS = {op.__name__: (op, z(2, 3)) for op in UNARY} | {
    "complex": (pg.complex, x(2, 3), x(3)),
    "add": (pg.add, z(2, 3), x(3)),
    "subtract": (pg.subtract, x(2, 3), z(3)),
    "multiply": (pg.multiply, z(2, 3), z(3)),
    "multiply by real": (pg.multiply, z(2, 3), x(3)),
    "divide": (pg.divide, z(2, 3), z(3)),
    "divide real": (pg.divide, x(3), z(2, 3)),
    "divide_no_nan": (pg.divide_no_nan, z(2, 3), z(3)),
    "pow": (pg.pow, z(2, 3), z(3)),
    "pow of real": (pg.pow, x(3) ** 2, z(3)),
    "cube": (lambda a: a**3, z(3)),
    "inverse square": (lambda a: a**-2, z(3)),
    "sum": (lambda a: pg.sum(a, axis=0), z(2, 3)),
    "mean": (lambda a: pg.mean(a, axis=1), z(2, 3)),
    "prod": (lambda a: pg.prod(a, axis=1), z(2, 3)),
    "matmul": (pg.matmul, z(2, 3), z(3, 2)),
    "matmul by real": (pg.matmul, z(2, 3), x(3, 2)),
    "matmul transposed": (
        lambda a, b: pg.matmul(a, b, transpose_a=True, transpose_b=True),
        *(z(3, 2), z(4, 3)),
    ),
    "vecdot": (pg.vecdot, z(2, 3), z(3)),
    "tensordot": (lambda a, b: pg.tensordot(a, b, axes=1), z(2, 3), z(3, 2)),
    "outer": (pg.linalg.outer, z(2), z(3)),
    "trace": (pg.linalg.trace, z(3, 3)),
    "vector_norm": (pg.linalg.vector_norm, z(2, 3)),
    "vector_norm 3": (lambda a: pg.linalg.vector_norm(a, ord=3), z(4)),
    "matrix_norm": (pg.linalg.matrix_norm, z(2, 3)),
    "where": (lambda a, b: pg.where([True, False], a, b) ** 2, z(2), z(2)),
    "parts": (lambda a: pg.real(a) * a + pg.conj(a) * pg.imag(a), z(3)),
    "to complex": (lambda a: pg.astype(a, "complex128") ** 2, x(3)),
    "to real": (lambda a: pg.astype(a, "float64") ** 2, z(3)),
    "concat": (lambda a, b: pg.concat([a, b]) ** 2, z(2), z(3)),
    "stack": (lambda a, b: pg.stack([a, b]) ** 2, z(2), z(2)),
    "pad": (lambda a: pg.pad(a, [(1, 2)]) ** 2, z(3)),
    "slices": (lambda a: (a[::-2] * a[1]) ** 2, z(5)),
    "gather": (lambda a: pg.gather(a, [0, 2, 2]) ** 2, z(3)),
    "repeat": (lambda a: pg.repeat(a, 2) ** 2, z(3)),
    "conv1d": (pg.conv1d, z(1, 5, 2), z(2, 2, 3)),
    "fft": (pg.fft.fft, z(2, 5)),
    "ifft": (lambda a: pg.fft.ifft(a) ** 2, z(2, 5)),
}


@pytest.mark.parametrize("row", GRADIENTS)
def test_gradients(row, backend):
    require_dtypes(backend, "complex128")
    op, *arrays = GRADIENTS[row]
    check_complex_gradients(op, *arrays)


def test_real_inputs_have_real_gradients(backend):
    require_dtypes(backend, "complex128")
    rotated = lambda a: pg.real(pg.exp(pg.complex(0.0, a)) * (1 + 2j))
    check_gradients(rotated, x(3))
    assert pg.grad(lambda a: pg.abs(a * 1j))(2.0).dtype == np.float32


def test_a_step_against_the_gradient_goes_downhill(backend):
    require_dtypes(backend, "complex64")
    target = pg.asarray([1 - 2j, 3j])
    a = pg.asarray([0j, 1 + 1j])
    for _ in range(60):
        a = a - 0.2 * pg.grad(lambda a: pg.sum(pg.square(pg.abs(a - target))))(a)
    np.testing.assert_allclose(a.numpy(), target.numpy(), atol=1e-6)


SIZES = [0, 1e-40 + 1e-40j, -3e38 + 1e38j, 3 - 4j]


def test_the_gradient_of_abs_at_all_sizes(backend):
    require_dtypes(backend, "complex64")
    a = np.asarray(SIZES, np.complex64)
    da = pg.grad(lambda a: pg.sum(pg.abs(a)))(pg.asarray(a)).numpy()
    wide = a.astype(np.complex128)
    expected = np.where(a == 0, 0, wide / np.where(a == 0, 1, np.abs(wide)))
    np.testing.assert_allclose(da, expected, rtol=1e-6)
    norm = lambda a: pg.sum(pg.real(pg.grad(lambda a: pg.sum(pg.abs(a)))(a)))
    assert np.isfinite(pg.grad(norm)(pg.asarray([0j, 1j])).numpy()).all()


# --- decompositions --------------------------------------------------------------


@pytest.mark.parametrize("dtype", PARTS)
def test_decompositions(dtype):
    a = np.asarray([*SIZES, complex(INF, 0), complex(NAN, 1), complex(-INF, NAN), 1j])
    a = pg.asarray(a.astype(dtype))
    dtypes = ["bool", "int32", *PARTS, *PARTS.values()]
    with toy(without=["ComplexAbs", "Sign"], dtypes=dtypes):
        for op, count in ((pg.abs, 8), (pg.sign, 4)):
            expected = op(a)[:count]
            with pg.use_backend("toy"):
                y = op(a)[:count]
            assert (y.dtype, y.backend) == (expected.dtype, "toy")
            np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=3e-7)
        with pg.use_backend("toy"):
            check_complex_gradients(pg.abs, z(3))


# --- errors ----------------------------------------------------------------------


def test_errors(backend):
    require_dtypes(backend, "complex64")
    with pytest.raises(TypeError, match="complex: the parts must be real, got complex"):
        pg.complex(1j, 1.0)
    with pytest.raises(ValueError, match=r"complex: shapes \(2,\) and \(3,\) do not"):
        pg.complex(pg.ones((2,)), pg.ones((3,)))
    with pytest.raises(TypeError, match="conj: there is no conj of strings"):
        pg.conj("z")


def test_backends_without_complex_numbers_say_so():
    with toy(dtypes=["float32", "float64", "complex64"]), pg.use_backend("toy"):
        assert pg.complex(1.0, 2.0).item() == 1 + 2j
        with pytest.raises(TypeError, match="complex: backend 'toy' has no complex128"):
            pg.complex(np.ones(2), 1.0)
