"""Kernels that Numba compiles at their first use with a dtype, and caches on disk.

Scalar functions become ufuncs, which broadcast and accept any strides, so the same
machine code works for arrays of every shape and layout.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import from_dtype, njit, vectorize
from plugrad.geometry import Windows
from plugrad.plugin import KernelTable

from .moving import Array

Function = Callable[..., Any]
Pair = tuple[int, ...]


def elementwise(function: Function, result_dtype: str = "") -> Function:
    """Return the kernel function for a scalar function; inputs broadcast.

    ``result_dtype`` is set if it differs from the dtype of the arguments.
    """
    arity = function.__code__.co_argcount

    @functools.cache
    def compiled(dtype: np.dtype[Any]) -> Function:
        result = from_dtype(np.dtype(result_dtype) if result_dtype else dtype)
        signature = result(*[from_dtype(dtype)] * arity)
        return vectorize([signature], cache=True)(function)

    return lambda *xs: compiled(xs[0].dtype)(*xs)


def for_kinds(kinds: str, kernel: Function) -> Function:
    """Return a kernel function that leaves dtypes of other kinds to the host."""
    return lambda *xs: kernel(*xs) if xs[0].dtype.kind in kinds else NotImplemented


# The elementwise primitives, and kernels whose decompositions would run several of
# them; here each makes one pass over memory. Numba compiles the NumPy calls.
kernels = KernelTable(
    Add=elementwise(lambda a, b: np.add(a, b)),
    Atan2=elementwise(lambda a, b: np.arctan2(a, b)),
    BitwiseAnd=elementwise(lambda a, b: a & b),
    Equal=elementwise(lambda a, b: a == b, "bool"),
    Expm1=for_kinds("f", elementwise(lambda x: np.expm1(x))),
    Floor=elementwise(lambda x: np.floor(x)),
    FloorDiv=for_kinds("iu", elementwise(lambda a, b: np.floor_divide(a, b))),
    Less=elementwise(lambda a, b: a < b, "bool"),
    Log=elementwise(lambda x: np.log(x)),
    Log1p=for_kinds("f", elementwise(lambda x: np.log1p(x))),
    Maximum=elementwise(lambda a, b: np.maximum(a, b)),
    Minimum=elementwise(lambda a, b: np.minimum(a, b)),
    Multiply=elementwise(lambda a, b: np.multiply(a, b)),
    Pow=for_kinds("iuf", elementwise(lambda a, b: a**b)),
    RealDiv=elementwise(lambda a, b: np.true_divide(a, b)),
    Sqrt=elementwise(lambda x: np.sqrt(x)),
    Sub=elementwise(lambda a, b: np.subtract(a, b)),
    # not primitives:
    Erf=elementwise(lambda x: math.erf(x)),
    Neg=elementwise(lambda x: np.negative(x)),
    Rsqrt=elementwise(lambda x: 1 / np.sqrt(x)),
    Square=elementwise(lambda x: np.multiply(x, x)),
)


@kernels("Cast")
def cast(x: Array, *, dtype: np.dtype[Any]) -> Any:
    """Cast; the host casts floating-point numbers to integers, and wraps them."""
    if x.dtype.kind in "fc" and dtype.kind in "iu":
        return NotImplemented
    return np.asarray(x if dtype.kind in "bc" else x.real).astype(dtype)


@njit(cache=True)
def _depthwise(
    x: Array, filter: Array, y: Array, strides: Pair, padding: Pair, dilations: Pair
) -> None:
    images, rows, columns, channels, multiples = y.shape
    for n, p, q in np.ndindex(images, rows, columns):
        for i, j in np.ndindex(filter.shape[:2]):
            row = p * strides[0] - padding[0] + i * dilations[0]
            column = q * strides[1] - padding[1] + j * dilations[1]
            if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                for c in range(channels):
                    for m in range(multiples):
                        y[n, p, q, c, m] += x[n, row, column, c] * filter[i, j, c, m]


@kernels("DepthwiseConv2dNative")
def depthwise(x: Array, filter: Array, *, geometry: Windows) -> Array:
    """Read windows in place; the decomposition copies the input for each filter tap."""
    y: Array = np.zeros((*geometry.out_shape[:-1], *filter.shape[2:]), x.dtype)
    padding = tuple(first for first, _ in geometry.padding)
    contiguous = np.ascontiguousarray(x), np.ascontiguousarray(filter)
    _depthwise(*contiguous, y, geometry.strides, padding, geometry.dilations)
    return y.reshape(geometry.out_shape)
