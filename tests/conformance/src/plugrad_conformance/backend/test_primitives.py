"""The kernels from which all others are composed, against their formulae in NumPy.

Every dtype that the backend declares, every layout, empty arrays, special values.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts, runtime

from ..primitives import PRIMITIVES
from .formulae import LAYOUTS, ROWS, assert_near, expected, laid_out, listed

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (17, 33), (0,), (3, 0), (0, 4)]
HALVES = {"float16": None, "float32": "complex64", "float64": "complex128"}
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e30, -1e30, 1e-30]
ELEMENTARY = "Atan2 Cos Exp Expm1 Floor Log Log1p Sin Sqrt Tanh"
ARITHMETIC = "Add Equal Less Maximum Minimum Multiply Pow RealDiv Sub"


def check(
    backend: str, kernel: str, shape: Any, dtype: Any, layout: str = "as uploaded"
) -> list[pg.Tensor]:
    """Run a primitive; demand values, dtype and shape, and inputs left as they were."""
    row, rng = ROWS[kernel], np.random.default_rng(len(shape))
    arrays, attrs = row.inputs(rng, shape, np.dtype(dtype))
    pairs = [laid_out(x, layout) for x in arrays]
    xs, arrays = [x for x, _ in pairs], [x.copy() for _, x in pairs]
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


def fits(kernel: str, dtype: str, backend: str) -> None:
    """Skip what a kernel is not for, or what the backend does not hold."""
    held = runtime(backend).dtypes
    if dtype not in held:
        pytest.skip(f"{backend} has no {dtype}")
    if kernel == "Complex" and HALVES[dtype] not in held:
        pytest.skip(f"{backend} has no complex numbers of parts of {dtype}")


def typed() -> list[tuple[str, str]]:
    """Return every primitive with every dtype that it is for."""
    return [
        (kernel, dtype)
        for kernel, row in ROWS.items()
        for dtype in DTYPES
        if np.dtype(dtype).kind in row.kinds
        if (kernel, dtype) != ("Complex", "float16")  # there is no such complex
    ]


@pytest.mark.parametrize(("kernel", "dtype"), typed())
def test_dtypes_and_shapes(kernel: str, dtype: str, backend: str) -> None:
    fits(kernel, dtype, backend)
    for shape in SHAPES:
        check(backend, kernel, shape, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", ROWS)
def test_layouts(kernel: str, layout: str, backend: str) -> None:
    row = ROWS[kernel]
    held = [
        d for d in ("float32", "complex64", "int32") if np.dtype(d).kind in row.kinds
    ]
    for dtype in held:
        fits(kernel, dtype, backend)
        for shape in [(), (7,), (4, 6), (2, 3, 4), (0, 3)]:
            check(backend, kernel, shape, dtype, layout)


@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_casts(dtype: str, to: str, backend: str) -> None:
    """Cast cuts towards zero, and drops imaginary parts."""
    fits("Cast", dtype, backend)
    fits("Cast", to, backend)
    numbers = [0, 1, 2, 3.75, 100] + ([-1.5, -7] if dtype[0] in "ifc" else [])
    if np.dtype(to).kind == "u":
        numbers = [n for n in numbers if n >= 0]
    x = np.asarray(numbers).astype(dtype)
    for layout in ("as uploaded", "reversed"):
        given, _ = laid_out(x, layout)
        y = pg.run_kernel("Cast", [given], {"dtype": np.dtype(to)})
        wanted = (x.real if np.dtype(to).kind in "iuf" else x).astype(to)
        assert y.dtype == to
        np.testing.assert_array_equal(y.numpy(), wanted)


@pytest.mark.parametrize("kernel", (ELEMENTARY + " " + ARITHMETIC).split())
def test_special_values(kernel: str, backend: str) -> None:
    """NaN, infinities and zeros are IEEE's, and never warn."""
    row, values = ROWS[kernel], np.asarray(SPECIAL, np.float32)
    count = len(contracts()[kernel].inputs)
    arrays = [values] if count == 1 else [*map(np.ravel, np.meshgrid(values, values))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = pg.run_kernel(kernel, [pg.asarray(x) for x in arrays], {}).numpy()
    (wanted,) = expected(row, arrays, {})
    if kernel in ("Sin", "Cos"):  # of 1e30: reduced exactly, or nearly so
        near = np.abs(arrays[0]) < 1e9
        y, wanted = (
            y[near | ~np.isfinite(arrays[0])],
            wanted[near | ~np.isfinite(arrays[0])],
        )
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


def test_every_primitive_has_a_formula() -> None:
    assert sorted({*PRIMITIVES} - {"Cast"}) == sorted(ROWS)
