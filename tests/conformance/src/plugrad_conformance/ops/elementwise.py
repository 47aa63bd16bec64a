"""Tests of every elementwise op with one argument; a ``Row`` is the specification."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..check import check_gradients
from ..toy import toy

SHAPES = [(), (1,), (3, 4), (2, 1, 3), (0, 3)]
INTEGERS = ["int8", "int32", "int64", "uint8", "uint64"]
INF, NAN = np.inf, np.nan
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, 3e30]
# Every 200,003rd float32, from the smallest to the largest, of both signs.
SAMPLE = np.arange(0, 2**32, 200_003, np.uint64).astype(np.uint32).view(np.float32)


@dataclass(frozen=True)
class Row:
    """An op, the kernel that it runs, and the NumPy formula for both.

    Attributes:
        op: The public function.
        kernel: The kernel that does the work; "" for compositions.
        reference: The formula, on float64 arrays.
        domain: An interval without NaNs and kinks, for gradients.
        keeps: Whether integers and bool keep their dtype instead of becoming float32.
        ulp: The tolerance of float32, in units in the last place.
        loose: The tolerance if a decomposition does the work.
        composed: The tolerance if the kernels of the decomposition are within 3 ulp and
            their errors add up.

    """

    op: Callable[..., pg.Tensor]
    kernel: str
    reference: Callable[[np.ndarray], np.ndarray]
    domain: tuple[float, float] = (-2.0, 2.0)
    keeps: bool = False
    ulp: float = 3
    loose: float = 3
    composed: float = 3

    def __str__(self):
        return self.op.__name__

    def truth(self, x):
        """Return the expected result for an array, in the dtype of the array."""
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64) if x.dtype.kind == "f" else x
            return np.asarray(self.reference(wide)).astype(x.dtype)


def every(rows):
    """Return the decorator that runs a test for every row."""
    return pytest.mark.parametrize("row", rows, ids=str)


def run(op, x):
    return op(pg.asarray(x)).numpy()


def supported_dtypes(dtypes):
    """Return the dtypes among these that the active backend supports."""
    names = runtime(pg.get_backend()).dtypes
    return [dtype for dtype in dtypes if np.dtype(dtype).name in names]


def without(*kernels):
    """Register the backend "toy", which is cpu without some kernels."""
    return toy(without=kernels, dtypes=runtime("cpu").dtypes)


def draw(row, shape, dtype="float64", seed=0):
    x = np.random.default_rng(seed).uniform(*row.domain, size=shape)
    return np.asarray(x).astype(dtype)


def assert_near(found, expected, ulp):
    """Compare arrays of one dtype by the number of floats between them."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    with np.errstate(all="ignore"):
        gap = np.spacing(np.abs(expected[finite])).astype(np.float64)
        distance = np.abs(np.subtract(found[finite], expected[finite], dtype=float))
        wrong = ~(distance <= ulp * gap)
    assert not wrong.any(), (
        f"found {found[finite][wrong][:4]}, expected {expected[finite][wrong][:4]}"
    )


# --- checks ----------------------------------------------------------------------


def tolerance(row, backend):
    """Return the tolerance for float32; it is smaller if the op has a kernel.

    "primitives" has the primitives of cpu, which are within 1 ulp.
    """
    if backend == "cpu" or row.kernel in pg.get_kernels_for_backend(backend):
        return row.ulp
    return row.loose if backend == "primitives" else max(row.loose, row.composed)


def where_exact(backend, others):
    """Return 0 ulp for the backends of this project, which are exact here.

    ``others`` is the tolerance that the contract allows.
    """
    return 0 if backend in ("cpu", "primitives", "wasm", "opencl") else others


def loosest(row):
    """Return the tolerance for the active backend; at least ``loose``."""
    return max(row.loose, tolerance(row, pg.get_backend()))


def check_values(row, backend):
    """Compare all floating dtypes, on every shape and on a transposed array."""
    ulp = tolerance(row, backend)
    for dtype in supported_dtypes(["float16", "float32", "float64"]):
        for shape in SHAPES:
            x = draw(row, shape, dtype)
            assert_near(run(row.op, x), row.truth(x), max(ulp, 6 * (dtype[5:] == "16")))
        x = draw(row, (5, 4), dtype).T[::2]
        assert_near(run(row.op, x), row.truth(x), max(ulp, 6 * (dtype[5:] == "16")))


def check_special_values(row, backend):
    """Compare NaN, infinities and zeros of both signs."""
    for dtype in supported_dtypes(["float32", "float64"]):
        x = np.asarray(SPECIAL, dtype)
        assert_near(run(row.op, x), row.truth(x), loosest(row))


def check_signs_of_zero(op, expected):
    """Check the sign of the results for -0.0 and 0.0, in small and large arrays."""
    for dtype in supported_dtypes(["float16", "float32", "float64"]):
        for count in (1, 3, 5000):
            y = run(op, np.asarray([-0.0, 0.0] * count, dtype))
            assert not y.any()
            assert np.signbit(y).tolist() == expected * count, (dtype, count)


def check_the_whole_range(row, backend):
    """Compare samples of all float32 numbers: no early overflow, no cancellation."""
    ulp = tolerance(row, backend)
    assert_near(run(row.op, SAMPLE), row.truth(SAMPLE), ulp)


def check_integers(row, backend):
    """Check that integers and bool keep their dtype or become float32."""
    for dtype in supported_dtypes([*INTEGERS, "bool"]):
        x = np.asarray([[0, 1, 3], [2, 1, 7]]).astype(dtype)
        if row.keeps:
            with np.errstate(all="ignore"):
                expected = np.asarray(row.reference(x)).astype(dtype)
        else:
            expected = row.truth(x.astype(np.float32))
        assert_near(run(row.op, x), expected, loosest(row))


def check_gradient(row):
    """Check first and second derivatives on every shape."""
    for shape in ((3, 4), (), (0, 2)):
        check_gradients(row.op, draw(row, shape))


def check_decomposition(
    row, dtypes=("float32", "float64", "int32", "bool"), *, zeros=True
):
    """Compare the decomposition with the cpu implementation, special values included.

    If ``zeros`` is true, zeros must have the same sign.
    """
    with without(row.kernel):
        for dtype in dtypes:
            values = SPECIAL if dtype[0] == "f" else [0, 1, 2, 7]
            with np.errstate(all="ignore"):
                x = np.concatenate([values, draw(row, (20,))]).astype(dtype)
            expected = run(row.op, x)
            with pg.use_backend("toy"):
                found = row.op(pg.asarray(x))
            assert found.backend == "toy"
            assert_near(found.numpy(), expected, 6)
            if zeros and expected.dtype.kind == "f":
                zero = expected == 0
                np.testing.assert_array_equal(
                    np.signbit(found.numpy()[zero]), np.signbit(expected[zero])
                )
