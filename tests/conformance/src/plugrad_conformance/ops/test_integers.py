"""Common divisors and multiples of integers, and positions in a shape."""

import numpy as np
import plugrad as pg
import pytest

from ..check import require_dtypes
from .elementwise import without

by_name = {"ids": lambda f: f.__name__}
DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
PAIRS = [(pg.gcd, np.gcd), (pg.lcm, np.lcm)]
# The hardest pairs for Euclid's algorithm are neighboring Fibonacci numbers.
FIBONACCI = [1, 1]
while FIBONACCI[-1] < 2**64:
    FIBONACCI.append(FIBONACCI[-1] + FIBONACCI[-2])


def numbers(dtype):
    """Return random numbers, the limits of the dtype, and Fibonacci numbers."""
    low = np.iinfo(dtype).min
    high = np.iinfo(dtype).max
    rng = np.random.default_rng(0)
    special = [low, low + 1, high, high - 1, 0, 1, 2, 3, 6, 12]
    fibonacci = [n for n in FIBONACCI if n <= high][-4:]
    random = rng.integers(low, high, 20, dtype, endpoint=True)
    return np.concatenate([random, np.asarray([*special, *fibonacci], dtype)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflow in NumPy
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "reference"), PAIRS, **by_name)
def test_divisors_and_multiples(op, reference, dtype, backend):
    require_dtypes(backend, dtype)
    x = numbers(dtype)
    expected = reference(x[:, None], x)
    np.testing.assert_array_equal(op(x[:, None], x).numpy(), expected, strict=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gcd_without_kernel(dtype):
    x = numbers(dtype)
    with without("Gcd"), pg.use_backend("toy"):
        y = pg.gcd(x[:, None], x)
    np.testing.assert_array_equal(y.numpy(), np.gcd(x[:, None], x), strict=True)


def test_divisors_of_scalars_and_empty_arrays(backend):
    assert pg.gcd([12, 18], 8).tolist() == [4, 2]
    assert pg.lcm(4, pg.asarray([6, 0])).tolist() == [12, 0]
    assert pg.gcd(12, -18).item() == 6
    assert pg.lcm(np.zeros((0, 2), np.int32), [1, 2]).shape == (0, 2)


def test_divisors_under_jit_and_vmap(backend):
    a = pg.asarray([[12, -18], [7, 21]])
    b = pg.asarray([20, 12])
    for op, reference in PAIRS:
        expected = reference(a.numpy(), b.numpy())
        f = pg.jit(op)
        for found in (f(a, b), f(a, b), f(a, b), pg.vmap(op, in_axes=(0, None))(a, b)):
            np.testing.assert_array_equal(found.numpy(), expected)


# --- positions -------------------------------------------------------------------

SHAPES = [(7,), (2, 3), (4, 1, 5), (3, 2, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_positions(shape, backend):
    indices = np.random.default_rng(1).permutation(int(np.prod(shape)))
    for given in (indices.tolist(), indices, pg.asarray(indices, dtype="int32")):
        found = pg.unravel_index(given, shape)
        for y, expected in zip(found, np.unravel_index(indices, shape), strict=True):
            np.testing.assert_array_equal(y.numpy(), expected)
            assert y.dtype == np.int32


def test_positions_of_any_shape_and_dtype(backend):
    x = pg.reshape(pg.arange(24), (2, 3, 4))
    assert x[pg.unravel_index([[5, 23], [0, 12]], x.shape)].tolist() == [
        [5, 23],
        [0, 12],
    ]
    assert [y.item() for y in pg.unravel_index(5, (2, 3))] == [1, 2]
    assert pg.unravel_index(0, ()) == ()
    assert pg.unravel_index(3, 4)[0].item() == 3
    assert [y.shape for y in pg.unravel_index(np.zeros((0, 2), int), (0, 3))] == [
        (0, 2)
    ] * 2


def test_positions_in_a_huge_array(backend):
    require_dtypes(backend, "int64")
    shape = (3, 2**20, 2**13)
    index = np.asarray(2**33 + 12345)
    found = [y.item() for y in pg.unravel_index(index, shape)]
    assert found == [int(i) for i in np.unravel_index(index, shape)]
    y = pg.unravel_index(pg.asarray([7], dtype="int32"), shape)[2]
    assert (y.item(), y.dtype) == (7, np.int64)


TRIANGLES = [(pg.tril_indices, np.tril_indices), (pg.triu_indices, np.triu_indices)]


@pytest.mark.parametrize(("op", "reference"), TRIANGLES, **by_name)
@pytest.mark.parametrize("m", [None, 0, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_triangles(op, reference, n, m, backend):
    for k in (-9, -1, 0, 2, 9):
        rows, columns = op(n, m, k=k)
        for y, expected in zip((rows, columns), reference(n, k, m), strict=True):
            np.testing.assert_array_equal(y.numpy(), expected)
            assert y.dtype == np.int32


ERRORS = [
    (lambda: pg.gcd(1.5, 2), TypeError, "gcd: is defined for integers, got float32"),
    (lambda: pg.gcd(True, True), TypeError, "gcd: is defined for integers, got bool"),
    (
        lambda: pg.lcm([1.0], [2]),
        TypeError,
        "lcm: is defined for integers, got float32",
    ),
    (
        lambda: pg.lcm(["a"], ["b"]),
        TypeError,
        "lcm: is defined for integers, got string",
    ),
    (lambda: pg.gcd([1, 2], [1, 2, 3]), ValueError, "gcd: .*broadcast"),
    (
        lambda: pg.unravel_index([0, 6], (2, 3)),
        ValueError,
        r"unravel_index: index 6 is out of range for shape \(2, 3\) with 6 elements",
    ),
    (lambda: pg.unravel_index(pg.asarray([-1]), (2, 3)), ValueError, "index -1 is out"),
    (lambda: pg.unravel_index(0, (0, 3)), ValueError, "with 0 elements"),
    (
        lambda: pg.unravel_index([0.5], (2, 3)),
        TypeError,
        "indices must be integers, got",
    ),
    (lambda: pg.unravel_index([0], (2, -3)), ValueError, "must not be negative"),
    (lambda: pg.tril_indices(-1), ValueError, "tril_indices: .* must not be negative"),
    (lambda: pg.triu_indices(2.5), TypeError, "triu_indices: .* must be"),
    (
        lambda: pg.tril_indices(2, k=0.5),
        TypeError,
        "tril_indices: k must be an integer",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
