"""Matrix products and vector norms, compared with NumPy; gradients, errors."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

RNG = np.random.default_rng(0)
linalg = pg.linalg


# --- matmul ----------------------------------------------------------------------

SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((0, 2, 3), (3, 4)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_matmul(a, b, backend):
    require_dtypes(backend, "float64")
    a = RNG.normal(size=a)
    b = RNG.normal(size=b)
    y = pg.matmul(pg.asarray(a), pg.asarray(b))
    np.testing.assert_allclose(y.numpy(), a @ b, rtol=1e-12, atol=1e-14)
    assert y.shape == (a @ b).shape
    check_gradients(pg.matmul, a, b)


TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize(("trans_a", "trans_b"), TRANSPOSES)
@pytest.mark.parametrize("batch", [((), ()), ((5,), ()), ((), (5,)), ((5, 1), (6,))])
def test_transposes(trans_a, trans_b, batch, backend):
    require_dtypes(backend, "float64")
    a = RNG.normal(size=(*batch[0], *((3, 2) if trans_a else (2, 3))))
    b = RNG.normal(size=(*batch[1], *((4, 3) if trans_b else (3, 4))))
    op = lambda a, b: pg.matmul(a, b, transpose_a=trans_a, transpose_b=trans_b)
    expected = (np.swapaxes(a, -1, -2) if trans_a else a) @ (
        np.swapaxes(b, -1, -2) if trans_b else b
    )
    np.testing.assert_allclose(op(a, b).numpy(), expected, rtol=1e-12)
    check_gradients(op, a, b)
    attrs = {"transpose_a": trans_a, "transpose_b": trans_b}
    kernel = lambda a, b: pg.run_kernel("BatchMatMul", [a, b], attrs)
    check_gradients(kernel, a, b)


@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers_are_exact(dtype, size, backend):
    require_dtypes(backend, dtype)
    limits = np.iinfo(dtype)
    a = RNG.integers(limits.min, limits.max, size=(size, size), dtype=dtype)
    small = RNG.integers(0, 100, size=(size, size), dtype=dtype)
    for b in (a, small):
        y = pg.matmul(pg.asarray(a), pg.asarray(b))
        assert y.dtype == np.dtype(dtype)  # sums wrap around
        np.testing.assert_array_equal(y.numpy(), np.einsum("ij,jk->ik", a, b))


def test_dtypes_of_products(backend):
    assert pg.matmul([True, True], [True, True]).item() == 2
    assert pg.matmul([1, 2], [0.5, 0.5]).dtype == np.float32
    require_dtypes(backend, "float16", "complex64")
    ones = np.full((3000,), 1.001, np.float16)
    y = pg.matmul(ones, ones)
    wide = ones.astype(np.float64)
    assert (y.dtype, y.item()) == (np.float16, np.float16(wide @ wide))
    z = np.asarray([[1 + 2j, 3j]], np.complex64)
    np.testing.assert_array_equal(pg.matmul(z, z.T).numpy(), z @ z.T)


def test_the_gradient_of_a_complex_product(backend):
    require_dtypes(backend, "complex64")
    a = np.asarray([[1 + 2j, 3j], [0.5, -1j]], np.complex64)
    b = np.asarray([[2 - 1j], [1 + 1j]], np.complex64)
    dy = pg.asarray(np.asarray([[1j], [2 + 1j]], np.complex64))
    da, db = pg.grads(pg.matmul)(pg.asarray(a), pg.asarray(b), dy=dy)
    np.testing.assert_allclose(da.numpy(), dy.numpy() @ b.conj().T)
    np.testing.assert_allclose(db.numpy(), a.conj().T @ dy.numpy())


def test_matrices_that_are_views(backend):
    a = RNG.random((60, 80), dtype=np.float32)
    views = [a.T, a[::2, ::3], a[::-1], np.broadcast_to(a[:1], (60, 80))]
    for x in views:
        b = RNG.random((x.shape[1], 7), dtype=np.float32)
        y = pg.matmul(pg.asarray(x, copy=False), pg.asarray(b))
        np.testing.assert_allclose(y.numpy(), x @ b, rtol=1e-5)


def test_nan_stays_in_its_row_and_column(backend):
    a = np.asarray([[1, np.nan], [2, 3]], np.float32)
    y = pg.matmul(a, np.eye(2, dtype=np.float32)).numpy()
    assert np.isnan(y).tolist() == [[True, True], [False, False]]


# --- products in another dtype ---------------------------------------------------

# Numbers of rows, columns and summands: part of a tile, a whole tile, several tiles.
SIZES = [(1, 1, 1), (3, 5, 7), (8, 32, 4), (9, 33, 17), (20, 64, 66), (17, 100, 257)]


def extremes(dtype, *shape):
    """Return random integers; about half are the limits of the dtype."""
    limits = np.iinfo(dtype)
    drawn = RNG.integers(limits.min, limits.max + 1, shape)
    ends = RNG.choice([limits.min, limits.max], shape)
    return np.where(RNG.integers(0, 2, shape), drawn, ends).astype(dtype)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("uint8", "int8")], ids=str)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_int8_products(sizes, dtypes, trans_a, trans_b, backend):
    require_dtypes(backend, *dtypes)
    m, n, k = sizes
    a = extremes(dtypes[0], m, k)
    b = extremes(dtypes[1], k, n)
    expected = a.astype(np.int32) @ b.astype(np.int32)
    a = pg.asarray(a.T if trans_a else a)
    b = pg.asarray(b.T if trans_b else b)
    options = {"transpose_a": trans_a, "transpose_b": trans_b}
    y = pg.matmul(a, b, **options, preferred_element_type="int32")
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("shapes", [*SHAPES, ((66000, 1), (66000, 1))], ids=str)
def test_shapes_of_int8_products(shapes, backend):
    """Shapes follow the rules of other products; the sums of the last case wrap."""
    require_dtypes(backend, "int8", "uint8")
    first, second = shapes
    transposed = shapes[0][0] > 9
    a = np.full(first, 255, np.uint8)
    b = np.full(second, -128, np.int8)
    a, b = (a.T, b) if transposed else (a, b)
    expected = np.matmul(a.astype(np.int32), b.astype(np.int32))
    y = pg.matmul(a, b, preferred_element_type="int32")
    assert y.shape == expected.shape
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize(
    ("dtype_a", "dtype_b", "result_dtype"),
    [
        ("int8", "uint8", "int32"),
        ("uint8", "uint8", "int32"),
        ("int8", "int8", "int64"),
        ("int32", "int8", "float32"),
        ("float16", "float16", "float32"),
        ("bool", "bool", "int32"),
    ],
)
def test_products_in_another_dtype(dtype_a, dtype_b, result_dtype, backend):
    require_dtypes(backend, dtype_a, dtype_b, result_dtype)
    a, b = (RNG.integers(0, 100, (3, 3)).astype(dtype) for dtype in (dtype_a, dtype_b))
    y = pg.matmul(a, b, preferred_element_type=result_dtype)
    assert y.dtype == np.dtype(result_dtype)
    np.testing.assert_array_equal(
        y.numpy(), a.astype(result_dtype) @ b.astype(result_dtype)
    )


@pytest.mark.parametrize("result_dtype", ["bool", "string"])
def test_products_in_bool_or_strings_are_refused(result_dtype, backend):
    with pytest.raises(TypeError, match="matmul: preferred_element_type must be"):
        pg.matmul([[1]], [[1]], preferred_element_type=result_dtype)


# --- other products --------------------------------------------------------------


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize(
    ("a", "b"), [((3, 3), (3, 3)), ((5, 3, 3), (3, 3)), ((3, 3), (5, 1, 3, 3))]
)
def test_vecdot(a, b, axis, backend):
    require_dtypes(backend, "float64")
    a = RNG.normal(size=a)
    b = RNG.normal(size=b)
    op = lambda a, b: pg.vecdot(a, b, axis=axis)
    np.testing.assert_allclose(op(a, b).numpy(), (a * b).sum(axis), rtol=1e-12)
    check_gradients(op, a, b)


def test_vecdot_conjugates_the_first_argument(backend):
    require_dtypes(backend, "complex64")
    z = np.asarray([1 + 2j, 3j], np.complex64)
    assert pg.vecdot(z, z).item() == 14


CONTRACTIONS = [
    ((2, 3, 4), (3, 4, 5), 2),
    ((2, 3), (4,), 0),
    ((2, 3, 4), (5, 3, 2), ((1, 0), (1, 2))),
    ((2, 3, 4), (3, 2), ((-3, -2), (1, 0))),
    ((2, 0), (0, 3), 1),
    ((3,), (3,), ((0,), (0,))),
]


@pytest.mark.parametrize(("a", "b", "axes"), CONTRACTIONS, ids=str)
def test_tensordot(a, b, axes, backend):
    require_dtypes(backend, "float64")
    a = RNG.normal(size=a)
    b = RNG.normal(size=b)
    op = lambda a, b: pg.tensordot(a, b, axes=axes)
    expected = np.tensordot(a, b, axes)
    assert op(a, b).shape == expected.shape
    np.testing.assert_allclose(op(a, b).numpy(), expected, rtol=1e-12)
    check_gradients(op, a, b)


PRODUCTS = [
    (linalg.outer, np.outer, (3,), (4,)),
    (linalg.outer, np.outer, (0,), (4,)),
    (linalg.kron, np.kron, (2, 3), (3, 2)),
    (linalg.kron, np.kron, (2,), (2, 1, 3)),
    (linalg.kron, np.kron, (), (2, 3)),
    (linalg.cross, np.cross, (3,), (3,)),
    (linalg.cross, np.cross, (5, 3), (3,)),
    (linalg.cross, np.cross, (4, 1, 3), (5, 3)),
]


@pytest.mark.parametrize(("op", "reference", "a", "b"), PRODUCTS)
def test_products(op, reference, a, b, backend):
    require_dtypes(backend, "float64")
    a = RNG.normal(size=a)
    b = RNG.normal(size=b)
    y = op(pg.asarray(a), pg.asarray(b))
    np.testing.assert_allclose(y.numpy(), reference(a, b), rtol=1e-12)
    assert y.shape == reference(a, b).shape
    assert op(a.astype(np.int32), b.astype(np.int32)).dtype == np.int32
    check_gradients(op, a, b)


def test_the_axis_of_a_cross_product(backend):
    a, b = RNG.normal(size=(2, 3, 4, 5))[:, :, :, :2].astype(np.float32)[:2]
    y = linalg.cross(a, b, axis=0)
    np.testing.assert_allclose(y.numpy(), np.cross(a, b, axis=0), rtol=1e-4, atol=1e-6)


# --- diagonals and transposes ----------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3), (0, 3)], ids=str)
@pytest.mark.parametrize("offset", [0, 1, -1, 3, -3, 9])
def test_diagonal_and_trace(shape, offset, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=shape)
    y = linalg.diagonal(pg.asarray(x), offset=offset)
    expected = np.diagonal(x, offset, -2, -1)
    assert y.shape == expected.shape
    np.testing.assert_array_equal(y.numpy(), expected)
    trace = lambda x: linalg.trace(x, offset=offset)
    np.testing.assert_allclose(trace(x).numpy(), expected.sum(-1), rtol=1e-12)
    check_gradients(trace, x)


def test_dtypes_of_the_trace(backend):
    assert linalg.trace([[1, 2], [3, 4]]).dtype == np.int32
    assert linalg.trace([[True, True], [True, True]]).item() == 2
    assert linalg.trace([[1, 2], [3, 4]], dtype="float32").dtype == np.float32


@pytest.mark.parametrize("shape", [(2, 3), (4, 2, 3)], ids=str)
def test_matrix_transpose(shape, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=shape)
    y = pg.matrix_transpose(pg.asarray(x))
    np.testing.assert_array_equal(y.numpy(), x.swapaxes(-1, -2))
    check_gradients(lambda x: pg.square(pg.matrix_transpose(x)), x)


# --- norms -----------------------------------------------------------------------

ORDERS = [2, 1, 3, 0.5, 4, 2.5, math.inf, -math.inf, -1]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("ord", [*ORDERS, 0])
def test_vector_norm(ord, axis, keepdims, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=(4, 5))
    op = lambda x: linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)
    expected = np.linalg.norm(x, ord, axis, keepdims)
    np.testing.assert_allclose(op(x).numpy(), expected, rtol=1e-12)
    assert op(x).dtype == np.float64
    if ord != 0:
        check_gradients(op, x)


def test_vector_norm_of_several_axes(backend):
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    for axis in (None, (0, 2)):
        expected = np.sqrt((x.astype(np.float64) ** 2).sum(axis))
        y = linalg.vector_norm(x, axis=axis)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


SCALES = [1e30, 1e-30, 0.0, np.inf, np.nan]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("ord", [2, 3, 2.5])
def test_norms_do_not_overflow_or_underflow_early(ord, scale, backend):
    x = np.asarray([3.0, -4.0], np.float32)
    expected = np.linalg.norm(x.astype(np.float64), ord) * scale
    y = linalg.vector_norm(x * np.float32(scale), ord=ord)
    np.testing.assert_allclose(y.item(), expected, rtol=1e-5)
    assert y.dtype == np.float32


EXTREME_ORDERS = [(1e300, 4.0), (-1e300, 3.0), (4e-252, math.inf), (-4e-252, 0.0)]


@pytest.mark.parametrize(("ord", "expected"), EXTREME_ORDERS)
def test_orders_outside_the_range_of_float32(ord, expected, backend):
    x = pg.asarray([3.0, -4.0])
    assert linalg.vector_norm(x, ord=ord).item() == expected
    assert linalg.vector_norm(x[1:], ord=ord).item() == 4.0


@pytest.mark.parametrize("ord", [2, 1, 3, 4, math.inf])
def test_the_gradient_of_a_norm_at_zero_is_finite(ord, backend):
    op = lambda x: linalg.vector_norm(x, ord=ord)
    assert pg.grad(op)(pg.zeros((3,))).tolist() == [0, 0, 0]
    x = pg.asarray([0.0, 3.0, 4.0])
    dx = pg.grad(op)(x).numpy()
    assert np.isfinite(dx).all()
    if ord == 2:
        np.testing.assert_allclose(dx, [0, 0.6, 0.8], rtol=1e-6)
        second = pg.grad(lambda x: pg.grad(op)(x)[0])(x)  # (δ - n nᵀ) / |x|
        np.testing.assert_allclose(second.numpy(), [0.2, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("ord", [0.5, 0.9, -0.5, -1, -2])
def test_norms_of_an_order_below_1_have_gradients_at_zeros(ord, backend):
    op = lambda x: linalg.vector_norm(x, ord=ord)
    assert op(pg.zeros((3,))).item() == 0
    assert pg.grad(op)(pg.zeros((3,))).tolist() == [0, 0, 0]
    x = pg.asarray([0.0, -2.0])
    assert op(x).item() == pytest.approx(2 if ord > 0 else 0)
    np.testing.assert_allclose(pg.grad(op)(x).numpy(), [0, -1 if ord > 0 else 0])
    assert op(pg.asarray([-math.inf, math.inf])).item() == math.inf


# --- errors ----------------------------------------------------------------------

A = np.ones((2, 3), np.float32)
ERRORS = [
    (
        lambda: pg.matmul(A, A),
        ValueError,
        r"inner sizes 3 and 2 must be equal; got shapes \(2, 3\) and",
    ),
    (
        lambda: pg.matmul(A, A, transpose_a=True, transpose_b=True),
        ValueError,
        r"inner sizes 2 and 3 \(a and b transposed\) must be equal",
    ),
    (
        lambda: pg.matmul(A, 2.0),
        ValueError,
        r"matmul: a scalar is not a matrix.* and \(\)",
    ),
    (
        lambda: pg.matmul(A[0], A.T, transpose_a=True),
        ValueError,
        "a vector cannot be transposed",
    ),
    (
        lambda: pg.matmul(np.ones((4, 2, 3)), np.ones((5, 3, 2))),
        ValueError,
        r"matmul: shapes \(4,\) and \(5,\) do not broadcast",
    ),
    (
        lambda: pg.vecdot(A, A.T),
        ValueError,
        r"vecdot: sizes along axis -1 must be equal; .* \(2, 3\) and \(3, 2\)",
    ),
    (lambda: pg.vecdot(A, A[0], axis=1), ValueError, "vecdot: .* count from the end"),
    (lambda: pg.vecdot(A, 1.0), ValueError, "vecdot: axis -1 is out of range"),
    (lambda: pg.tensordot(A, A), None, ""),
    (lambda: pg.tensordot(A, A.T), ValueError, r"tensordot: sizes \[2, 3\] and"),
    (
        lambda: pg.tensordot(A, A, axes=3),
        ValueError,
        "contract 3 axes of ranks 2 and 2",
    ),
    (
        lambda: pg.tensordot(A, A, axes=((0, 1), (0,))),
        ValueError,
        "two sequences of the same length",
    ),
    (
        lambda: pg.tensordot(A, A, axes=((2,), (0,))),
        ValueError,
        "tensordot: axis 2 is out of range",
    ),
    (lambda: linalg.outer(A, A), ValueError, "outer: takes vectors; reshape"),
    (lambda: linalg.cross(A, A.T), ValueError, "cross: axis -1 must have size 3"),
    (lambda: linalg.cross(A, A[0], axis=1), ValueError, "cross: .* count from the end"),
    (
        lambda: linalg.trace(A[0]),
        ValueError,
        r"trace: expected matrices, got shape \(3,\)",
    ),
    (lambda: linalg.diagonal(1.0), ValueError, "diagonal: expected matrices"),
    (
        lambda: pg.matrix_transpose(A[0]),
        ValueError,
        "matrix_transpose: expected matrices",
    ),
    (lambda: linalg.matrix_norm(A[0]), ValueError, "matrix_norm: expected matrices"),
    (lambda: linalg.matrix_norm(A, ord=3), ValueError, "ord 3: use 'fro', 'nuc', ±1"),
    (
        lambda: linalg.vector_norm(A, axis=2),
        ValueError,
        "vector_norm: axis 2 is",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    if error is None:
        assert call().item() == 6
        return
    with pytest.raises(error, match=message):
        call()
