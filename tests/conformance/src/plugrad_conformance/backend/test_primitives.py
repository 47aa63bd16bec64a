"""Compares the primitives, which all other kernels are made of, with NumPy formulae.

The tests cover every dtype that the backend declares, every layout, empty arrays and
special values.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts, runtime

from ..primitives import PRIMITIVES
from .formulae import LAYOUTS, ROWS, Array, assert_near, expected, listed, with_layout

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (17, 33), (0,), (3, 0), (0, 4)]
COMPLEX_WITH_PARTS = {"float16": None, "float32": "complex64", "float64": "complex128"}
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e30, -1e30, 1e-30]
ELEMENTARY = "Atan2 Cos Exp Expm1 Floor Log Log1p Sin Sqrt Tanh"
ARITHMETIC = "Add Equal Less Maximum Minimum Multiply Pow RealDiv Sub"


def check(
    backend: str, kernel: str, shape: Any, dtype: Any, layout: str = "as uploaded"
) -> list[pg.Tensor]:
    """Run a primitive; check values, dtype and shape, and that inputs are unchanged."""
    row = ROWS[kernel]
    rng = np.random.default_rng(len(shape))
    arrays, attrs = row.inputs(rng, shape, np.dtype(dtype))
    pairs = [with_layout(x, layout) for x in arrays]
    xs = [x for x, _ in pairs]
    arrays = [x.copy() for _, x in pairs]
    with warnings.catch_warnings(), pg.debug(finite=False):
        warnings.simplefilter("error")
        ys = listed(pg.run_kernel(kernel, xs, attrs))
    for y, wanted in zip(ys, expected(row, arrays, attrs), strict=True):
        assert y.backend == backend
        assert y.shape == wanted.shape
        assert_near(y.numpy(), wanted, row.ulp)
    for x, before in zip(xs, arrays, strict=True):
        np.testing.assert_array_equal(
            x.numpy(), before, err_msg=f"{kernel} wrote into an input"
        )
    return ys


def skip_unsupported(kernel: str, dtype: str, backend: str) -> None:
    """Skip dtypes that the kernel or the backend does not support."""
    declared = runtime(backend).dtypes
    if dtype not in declared:
        pytest.skip(f"{backend} has no {dtype}")
    if kernel == "Complex" and COMPLEX_WITH_PARTS[dtype] not in declared:
        pytest.skip(f"{backend} has no complex dtype with {dtype} parts")


def kernels_and_dtypes() -> list[tuple[str, str]]:
    """Return every primitive with each of its dtypes."""
    return [
        (kernel, dtype)
        for kernel, row in ROWS.items()
        for dtype in DTYPES
        if np.dtype(dtype).kind in row.kinds
        if (kernel, dtype)
        != ("Complex", "float16")  # no complex dtype has float16 parts
    ]


@pytest.mark.parametrize(("kernel", "dtype"), kernels_and_dtypes())
def test_dtypes_and_shapes(kernel: str, dtype: str, backend: str) -> None:
    skip_unsupported(kernel, dtype, backend)
    for shape in SHAPES:
        check(backend, kernel, shape, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", ROWS)
def test_layouts(kernel: str, layout: str, backend: str) -> None:
    row = ROWS[kernel]
    dtypes = [
        d for d in ("float32", "complex64", "int32") if np.dtype(d).kind in row.kinds
    ]
    for dtype in dtypes:
        skip_unsupported(kernel, dtype, backend)
        for shape in [(), (7,), (4, 6), (2, 3, 4), (0, 3)]:
            check(backend, kernel, shape, dtype, layout)


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_casts(dtype: str, target: str, backend: str) -> None:
    """Cast truncates towards zero and drops imaginary parts."""
    skip_unsupported("Cast", dtype, backend)
    skip_unsupported("Cast", target, backend)
    numbers = [0, 1, 2, 3.75, 100] + ([-1.5, -7] if dtype[0] in "ifc" else [])
    if np.dtype(target).kind == "u":
        numbers = [n for n in numbers if n >= 0]
    x = np.asarray(numbers).astype(dtype)
    for layout in ("as uploaded", "reversed"):
        given, _ = with_layout(x, layout)
        y = pg.run_kernel("Cast", [given], {"dtype": np.dtype(target)})
        wanted = (x.real if np.dtype(target).kind in "iuf" else x).astype(target)
        assert y.dtype == target
        np.testing.assert_array_equal(y.numpy(), wanted)


@pytest.mark.parametrize("kernel", (ELEMENTARY + " " + ARITHMETIC).split())
def test_special_values(kernel: str, backend: str) -> None:
    """NaN, infinities and zeros follow IEEE 754 without warnings."""
    row = ROWS[kernel]
    values = np.asarray(SPECIAL, np.float32)
    count = len(contracts()[kernel].inputs)
    arrays = [values] if count == 1 else [*map(np.ravel, np.meshgrid(values, values))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = pg.run_kernel(kernel, [pg.asarray(x) for x in arrays], {}).numpy()
    (wanted,) = expected(row, arrays, {})
    if kernel in ("Sin", "Cos"):  # 1e30 need not be reduced exactly
        checked = np.abs(arrays[0]) < 1e9
        y = y[checked | ~np.isfinite(arrays[0])]
        wanted = wanted[checked | ~np.isfinite(arrays[0])]
    assert_near(y, wanted, row.ulp)


@pytest.mark.parametrize("kernel", ["Sum", "Max"])
@pytest.mark.parametrize("axis", [(), (0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
def test_axes(kernel: str, axis: tuple[int, ...], backend: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (3, 4, 5)).astype(np.float32)
    for keepdims in (False, True):
        attrs = {"axis": axis, "keepdims": keepdims}
        y = pg.run_kernel(kernel, [pg.asarray(x)], attrs).numpy()
        formula = {"Sum": np.sum, "Max": np.max}[kernel]
        np.testing.assert_array_equal(y, formula(x, axis=axis, keepdims=keepdims))


def test_nan_wins_every_maximum(backend: str) -> None:
    x = np.asarray([[1, np.nan, 2], [3, 4, 5]], np.float32)
    y = pg.run_kernel("Max", [pg.asarray(x)], {"axis": (1,), "keepdims": False})
    np.testing.assert_array_equal(y.numpy(), [np.nan, 5])


# --- indices ---------------------------------------------------------------------

INDEX_DTYPES = [dtype for dtype in DTYPES if np.dtype(dtype).kind in "iu"]
OUT_OF_RANGE = [3, 4, 100, 127, -1, -3, -128, 2**15, -(2**31), 2**31 - 1, 2**31]
OUT_OF_RANGE += [2**32 - 1, 2**32, 2**32 + 1, -(2**32), 2**63 - 1, 2**63, 2**64 - 1]


def out_of_range_indices(dtype: str) -> list[int]:
    """Return indices of a dtype that are out of range for three rows."""
    ends = np.iinfo(dtype)
    return [i for i in OUT_OF_RANGE if ends.min <= i <= ends.max]


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_an_index_out_of_range_is_an_error(axis: int, dtype: str, backend: str) -> None:
    """Kernels raise IndexError, now or at the next read; the device stays usable."""
    skip_unsupported("GatherV2", dtype, backend)
    attrs = {"axis": axis, "batch_dims": 0}
    x = pg.asarray(np.arange(9, dtype=np.float32).reshape(3, 3))
    for index in out_of_range_indices(dtype):
        for indices in ([index], [0, 1, index, 2]):
            given = pg.asarray(np.asarray(indices, dtype))
            with pytest.raises(IndexError):  # noqa: PT012  either line may raise
                y = pg.run_kernel("GatherV2", [x, given], attrs)
                pytest.fail(f"index {index} of 3 gives {y.numpy().tolist()}")
        valid = pg.asarray(np.asarray([2, 0, 1], dtype))
        y = pg.run_kernel("GatherV2", [x, valid], attrs)
        wanted = np.take(x.numpy(), [2, 0, 1], axis)
        np.testing.assert_array_equal(y.numpy(), wanted)


def test_an_empty_table_has_no_valid_index(backend: str) -> None:
    given = [pg.zeros((0, 3)), pg.asarray([0], dtype="int32")]
    with pytest.raises(IndexError):
        pg.run_kernel("GatherV2", given, {"axis": 0, "batch_dims": 0}).numpy()


def test_an_index_out_of_range_may_give_an_empty_result(backend: str) -> None:
    """Nothing is read, so an IndexError and an empty result are both right."""
    given = [pg.zeros((3, 0)), pg.asarray([7, 0], dtype="int32")]
    try:
        y = pg.run_kernel("GatherV2", given, {"axis": 0, "batch_dims": 0}).numpy()
    except IndexError:
        return
    assert (y.shape, y.dtype) == ((2, 0), np.float32)


@pytest.mark.parametrize("dtype", INDEX_DTYPES)
def test_segments_out_of_range_are_left_out(dtype: str, backend: str) -> None:
    """Rows with an out-of-range segment number are ignored."""
    skip_unsupported("UnsortedSegmentSum", dtype, backend)
    outside = out_of_range_indices(dtype)
    ids = np.asarray([0, *outside, 2, 0], dtype)
    x = np.arange(1, 2 * len(ids) + 1, dtype=np.float32).reshape(len(ids), 2)
    given = [pg.asarray(x), pg.asarray(ids)]
    y = pg.run_kernel("UnsortedSegmentSum", given, {"num_segments": 3}).numpy()
    np.testing.assert_array_equal(y, [x[0] + x[-1], [0, 0], x[-2]])


# --- bits ------------------------------------------------------------------------

EXACT = {
    "Add": np.add,
    "Sub": np.subtract,
    "Multiply": np.multiply,
    "RealDiv": np.divide,
    "Floor": np.floor,
}
UNUSUAL_VALUES = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e8,
    -1e8,
    16777216.0,
    16777217,
]
UNUSUAL_VALUES += [
    3e38,
    -3e38,
    1e-20,
    1e20,
    0.1,
    -0.7,
    3.0,
    1 / 3,
    1.0000001,
    8388608.5,
]


def assert_bits(found: Array, wanted: Array, what: str) -> None:
    """Require equal bits; all NaN are equal, and denormals may be flushed to zero."""
    tiny = np.finfo(wanted.dtype).tiny
    denormal = (np.abs(wanted) < tiny) & (wanted != 0)
    equal = (found.view(np.uint32) == wanted.view(np.uint32)) | denormal
    equal |= np.isnan(found) & np.isnan(wanted)
    bad = np.flatnonzero(~equal)[:5]
    assert not bad.size, f"{what}: {found[bad]} instead of {wanted[bad]}"


@pytest.mark.parametrize("kernel", EXACT)
def test_bits_of_arithmetic(kernel: str, backend: str) -> None:
    """Each kernel rounds once and keeps the sign of zeros and NaN.

    ``x - x`` is not 0 for infinities, ``x * 0`` is -0.0 or NaN for some x, and passing
    the same input twice must not change the computation.
    """
    drawn = np.random.default_rng(5).normal(size=20)
    values = np.asarray([*UNUSUAL_VALUES, *drawn, *(drawn * 1e5)], np.float32)
    pairs = [x.ravel() for x in np.meshgrid(values, values)]
    x, y = (pg.asarray(v) for v in pairs)
    scalars = [(pg.asarray(s), s) for s in values[:9]]
    calls = [("x and y", (x, y), pairs), ("x twice", (x, x), [pairs[0]] * 2)]
    calls += [(f"x and {s}", (x, t), [pairs[0], s]) for t, s in scalars]
    calls += [(f"{s} and x", (t, x), [s, pairs[0]]) for t, s in scalars]
    count = len(contracts()[kernel].inputs)
    for what, tensors, arrays in calls[: None if count == 2 else 1]:
        with np.errstate(all="ignore"):
            wanted = EXACT[kernel](*arrays[:count])
        found = pg.run_kernel(kernel, [*tensors[:count]], {}).numpy()
        if kernel == "RealDiv":  # may be off by one unit, unless the result is exact
            exact = ~np.isfinite(wanted) | (wanted == 0) | (wanted == 1)
            found, wanted = found[exact], wanted[exact]
        assert_bits(found, wanted, f"{kernel} of {what}")


@pytest.mark.parametrize("kernel", ["Atan2", "Expm1", "Log1p", "Sin", "Sqrt", "Tanh"])
def test_signs_of_zeros(kernel: str, backend: str) -> None:
    zeros = np.asarray([0.0, -0.0], np.float32)
    given = [zeros, np.ones(2, np.float32)][: len(contracts()[kernel].inputs)]
    y = pg.run_kernel(kernel, [pg.asarray(x) for x in given], {}).numpy()
    assert_bits(y, zeros, kernel)


def test_every_primitive_has_a_formula() -> None:
    assert sorted({*PRIMITIVES} - {"Cast"}) == sorted(ROWS)
