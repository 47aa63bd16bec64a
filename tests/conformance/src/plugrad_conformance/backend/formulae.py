"""The primitives in NumPy: the formula, dtypes and tolerance of each.

``ROWS`` has one row per kernel: the formula, a function that makes inputs, the dtypes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import plugrad as pg

Array = np.ndarray[Any, Any]
Inputs = tuple[list[Array], dict[str, Any]]

REAL = "iuf"
NUMBERS = "iufc"
ALL = "biufc"
FLOATING = "fc"
LAYOUTS = ("transposed", "strided", "reversed", "broadcast")


@dataclass(frozen=True)
class Row:
    """The specification of a primitive.

    Attributes:
        formula: Maps arrays and attributes to the result, in the dtype of the arrays
            or a wider one.
        inputs: Maps a random generator, a shape and a dtype to arrays and attributes.
        kinds: The NumPy kinds of its dtypes.
        ulp: The tolerance in units in the last place; for sums, per summand.

    """

    formula: Callable[..., Any]
    inputs: Callable[[np.random.Generator, tuple[int, ...], np.dtype[Any]], Inputs]
    kinds: str = ALL
    ulp: float = 0.0


# --- inputs ----------------------------------------------------------------------


def draw(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    low: float = -9,
    high: float = 9,
) -> Array:
    """Return random numbers from the part of a range that the dtype can represent."""
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape), dtype)
    if dtype.kind == "u":
        low = max(low, 0)
    x = np.asarray(rng.uniform(low, high, shape))
    if dtype.kind == "c":
        return np.asarray(x + 1j * rng.uniform(low, high, shape)).astype(dtype)
    return x.astype(dtype)


def unary_inputs(low: float = -9, high: float = 9, **attrs: Any) -> Any:
    """Return a function that makes one array of numbers in a range."""
    return lambda rng, shape, dtype: ([draw(rng, shape, dtype, low, high)], attrs)


def binary_inputs(low: float = -9, high: float = 9) -> Any:
    """Return a function that makes two broadcastable arrays, the second in a range."""

    def inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
        other = (1, *shape[1:])[-len(shape) :] if shape else ()
        return [draw(rng, shape, dtype), draw(rng, other, dtype, low, high)], {}

    return inputs


def power_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make bases and exponents whose powers are in range."""
    if dtype.kind in "iu":
        return [draw(rng, shape, dtype, 0, 4), draw(rng, shape, dtype, 0, 4)], {}
    return [draw(rng, shape, dtype, 0.1, 4), draw(rng, shape, dtype, -3, 3)], {}


def matmul_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make two stacks of matrices, the first one transposed."""
    rows, n = (*shape, 3, 4)[:2]
    a = draw(rng, (2, n, rows), dtype)
    b = draw(rng, (1, n, 5), dtype)
    return [a, b], {"transpose_a": True, "transpose_b": False}


def select_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make a condition and two arrays."""
    condition = np.asarray(rng.integers(0, 2, shape), bool)
    return [condition, draw(rng, shape, dtype), draw(rng, shape, dtype)], {}


def reduction_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make an array to reduce along its last axis, which is not empty."""
    shape = (*shape[:-1], max(shape[-1], 1)) if shape else ()
    axis = (len(shape) - 1,) if shape else ()
    return [draw(rng, shape, dtype)], {"axis": axis, "keepdims": False}


def fill_attributes(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make only attributes; the kernel has no inputs."""
    return [], {"shape": shape, "value": dtype.type(1).item(), "dtype": dtype}


def concat_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make three arrays to be joined along the last axis."""
    shape = shape or (1,)
    return [draw(rng, shape, dtype) for _ in range(3)], {"axis": len(shape) - 1}


def gather_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make a table of six rows, and int32 indices."""
    indices = np.asarray(rng.integers(0, 6, shape[:1] or (2,)), np.int32)
    table = draw(rng, (6, *shape[1:]), dtype)
    return [table, indices], {"axis": 0, "batch_dims": 0}


def segment_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make rows and their segment numbers; -1 is out of range and is ignored."""
    x = draw(rng, shape or (1,), dtype)
    ids = np.asarray(rng.integers(-1, 4, x.shape[:1]), np.int32)
    return [x, ids], {"num_segments": 5}


def top_k_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make an array without equal elements in its rows."""
    shape = shape or (1,)
    rows = [rng.permutation(shape[-1]) for _ in range(int(np.prod(shape[:-1])))]
    x = np.asarray(rows).reshape(shape).astype(dtype)
    return [x], {"k": min(3, shape[-1]), "sorted": True}


def array_and_attribute(attribute: str, make: Callable[[tuple[int, ...]], Any]) -> Any:
    """Return a function that makes an array and an attribute derived from its shape."""
    return lambda rng, shape, dtype: (
        [draw(rng, shape, dtype)],
        {attribute: make(shape)},
    )


def pad_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make an array and the widths of its padding."""
    paddings = tuple((i % 2, 2) for i in range(len(shape)))
    value = dtype.type(1).item()
    return [draw(rng, shape, dtype)], {"paddings": paddings, "constant_values": value}


def slice_inputs(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make an array and a slice of every second element; the first axis is reversed."""
    steps = tuple(-2 if i == 0 else 2 for i in range(len(shape)))
    size = tuple((n + 1) // 2 for n in shape)
    begin = tuple(max(n - 1, 0) if i == 0 else 0 for i, n in enumerate(shape))
    attrs = {"begin": begin, "size": size, "strides": steps}
    return [draw(rng, shape, dtype)], attrs


def complex_parts(rng: Any, shape: Any, dtype: Any) -> Inputs:
    """Make a real and an imaginary part."""
    return [draw(rng, shape, dtype), draw(rng, shape, dtype)], {}


# --- formulae --------------------------------------------------------------------


def total(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Return the sum, in the dtype of ``x`` or in a wider one."""
    wide = {"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype)
    return np.asarray(np.sum(x, axis=axis, dtype=wide, keepdims=keepdims))


def product(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    """Return the products of two stacks of matrices."""
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    b = np.swapaxes(b, -1, -2) if transpose_b else b
    return np.asarray(a @ b)


def slice_(x: Array, begin: Any, size: Any, strides: Any) -> Array:
    """Return the elements at ``begin + i * strides``."""
    at = [b + s * np.arange(n) for b, n, s in zip(begin, size, strides, strict=True)]
    return x[np.ix_(*at)] if at else x


def segment_sum(x: Array, segment_ids: Array, num_segments: int) -> Array:
    """Return the sums of the rows of each segment."""
    y = np.zeros((num_segments, *x.shape[1:]), x.dtype)
    inside = (segment_ids >= 0) & (segment_ids < num_segments)
    np.add.at(y, segment_ids[inside], x[inside])
    return y


def top_k(x: Array, k: int, sorted: bool) -> tuple[Array, Array]:
    """Return the ``k`` largest elements of each row, and their indices.

    Equal elements are in the order of their indices.
    """
    descending = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    at = (x.shape[-1] - 1 - descending)[..., :k]
    return np.take_along_axis(x, at, -1), at.astype(np.int32)


ROWS = {
    "Add": Row(np.add, binary_inputs(), NUMBERS, 0.5),
    "Atan2": Row(np.arctan2, binary_inputs(), "f", 3),
    "BatchMatMul": Row(product, matmul_inputs, NUMBERS, 8),
    "BitwiseAnd": Row(np.bitwise_and, binary_inputs(), "biu"),
    "BroadcastTo": Row(
        np.broadcast_to, array_and_attribute("shape", lambda s: (2, *s))
    ),
    "Complex": Row(lambda real, imag: real + 1j * imag, complex_parts, "f"),
    "Concat": Row(lambda *xs, axis: np.concatenate(xs, axis), concat_inputs),
    "Cos": Row(np.cos, unary_inputs(), FLOATING, 3),
    "Equal": Row(np.equal, binary_inputs(0, 3)),
    "Exp": Row(np.exp, unary_inputs(), FLOATING, 3),
    "Expm1": Row(np.expm1, unary_inputs(-2, 2), "f", 3),
    "Fill": Row(
        lambda shape, value, dtype: np.full(shape, value, dtype), fill_attributes
    ),
    "Floor": Row(np.floor, unary_inputs(), "f"),
    "FloorDiv": Row(np.floor_divide, binary_inputs(1, 5), REAL),
    "GatherV2": Row(lambda x, i, axis, batch_dims: x[i], gather_inputs),
    "Imag": Row(np.imag, unary_inputs(), "c"),
    "Less": Row(np.less, binary_inputs(), REAL),
    "Log": Row(np.log, unary_inputs(0.1, 50), FLOATING, 3),
    "Log1p": Row(np.log1p, unary_inputs(-0.9, 9), "f", 3),
    "Max": Row(np.max, reduction_inputs, REAL),
    "Maximum": Row(np.maximum, binary_inputs(), REAL),
    "Minimum": Row(np.minimum, binary_inputs(), REAL),
    "Mod": Row(np.mod, binary_inputs(1, 5), REAL, 0.5),
    "Multiply": Row(np.multiply, binary_inputs(), NUMBERS, 0.5),
    "PadV2": Row(
        lambda x, paddings, constant_values: (
            np.pad(x, paddings, constant_values=constant_values) if paddings else x
        ),
        pad_inputs,
    ),
    "Pow": Row(np.power, power_inputs, NUMBERS, 3),
    "Real": Row(np.real, unary_inputs(), "c"),
    "RealDiv": Row(np.divide, binary_inputs(1, 5), FLOATING, 0.5),
    "Reshape": Row(np.reshape, array_and_attribute("shape", lambda s: (1, *s[::-1]))),
    "Select": Row(np.where, select_inputs),
    "Sin": Row(np.sin, unary_inputs(), FLOATING, 3),
    "Sqrt": Row(np.sqrt, unary_inputs(0, 50), FLOATING, 0.5),
    "StridedSlice": Row(slice_, slice_inputs),
    "Sub": Row(np.subtract, binary_inputs(), NUMBERS, 0.5),
    "Sum": Row(total, reduction_inputs, NUMBERS, 8),
    "Tanh": Row(np.tanh, unary_inputs(-4, 4), FLOATING, 3),
    "TopK": Row(top_k, top_k_inputs, REAL),
    "Transpose": Row(
        np.transpose, array_and_attribute("axes", lambda s: (*range(len(s)),)[::-1])
    ),
    "UnsortedSegmentSum": Row(segment_sum, segment_inputs, NUMBERS, 8),
}


# --- running ---------------------------------------------------------------------


def with_layout(x: Array, layout: str) -> tuple[pg.Tensor, Array]:
    """Return a tensor whose memory has the given layout, and its values."""
    if layout == "transposed":
        return pg.permute_dims(pg.asarray(x.T.copy()), range(x.ndim)[::-1]), x
    if layout == "strided":
        wide = np.repeat(x, 2, axis=-1) if x.ndim else x
        return (pg.asarray(wide)[..., ::2] if x.ndim else pg.asarray(x)), x
    if layout == "reversed":
        return pg.flip(pg.asarray(np.flip(x).copy())), x
    if layout == "broadcast" and x.ndim:
        x = np.broadcast_to(x[:1], x.shape)
        return pg.broadcast_to(pg.asarray(x[:1].copy()), x.shape), x
    return pg.asarray(x), x


def listed(found: Any) -> list[Any]:
    """Return the results of a kernel as a list."""
    return list(found) if isinstance(found, list | tuple) else [found]


def expected(row: Row, arrays: list[Array], attrs: dict[str, Any]) -> list[Array]:
    """Return the result of the formula, computed in double precision."""
    wide = [
        x.astype(np.float64 if x.dtype.kind == "f" else np.complex128)
        if x.dtype.kind in "fc" and row.ulp
        else x
        for x in arrays
    ]
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in listed(row.formula(*wide, **attrs))]


def assert_near(found: Array, wanted: Array, ulp: float) -> None:
    """Require values within ``ulp`` units in the last place of the largest summand."""
    if found.dtype.kind not in "fc" or not ulp:
        np.testing.assert_array_equal(found, wanted.astype(found.dtype))
        return
    with np.errstate(all="ignore"):
        rounded = wanted.astype(found.dtype)
        scale = np.spacing(np.abs(rounded))
        if ulp > 3:  # summands cancel
            scale = scale.max(initial=0)
        if rounded.dtype.kind == "c":  # the parts of products and logarithms cancel
            scale = scale * 8
        wide = found.astype(np.complex128 if found.dtype.kind == "c" else np.float64)
        wrong = np.abs(wide - wanted) > max(ulp, 1.0) * scale
        wrong &= ~((found == rounded) | (np.isnan(found) & np.isnan(rounded)))
    assert not wrong.any(), (
        f"off by more than {ulp} units in the last place: {found[wrong][:5]} instead "
        f"of {rounded[wrong][:5]}"
    )
