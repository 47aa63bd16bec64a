"""Native arrays: contiguous, row-major, in linear memory; strings are NumPy's.

Map: ``WasmArray`` (owns its block) and its ``view``; ``empty``, with which every kernel
makes its result; ``WasmArrays``, which moves values.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from .heap import SMALL, Bin
from .runtime import machine

DType = np.dtype[Any]
Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "string",
]


class WasmArray:
    """Elements at ``pointer``, in row-major order; see ``WasmOwner``.

    A kernel may return a view of an input; the block is free when the last one goes.

    Attributes:
        size: The number of elements.
        pointer: The offset of the first element in linear memory.
        base: The array that owns the block, None for the owner itself.

    """

    __slots__ = ("__weakref__", "base", "dtype", "pointer", "shape", "size")

    def __init__(
        self, shape: Shape, dtype: DType, pointer: int, base: WasmArray | None
    ) -> None:
        self.shape = shape
        self.size = prod(shape)
        self.dtype = dtype
        self.pointer = pointer
        self.base = base

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """What NumPy needs for a read-only view that holds this array."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (machine.address + self.pointer, True),
            "version": 3,
        }

    def view(self, shape: Shape, first: int = 0) -> WasmArray:
        """Return the elements from number ``first`` on, in another shape."""
        pointer = self.pointer + first * self.dtype.itemsize
        return WasmArray(shape, self.dtype, pointer, self.base or self)


class WasmOwner(WasmArray):
    """An array with a block of its own, which goes back to its bin; see ``empty``."""

    __slots__ = ("bin",)
    bin: Bin

    def __del__(self) -> None:
        self.bin.append(self.pointer)


_small, _bin, _take = machine.heap.small, machine.heap.bin, machine.take
_new = object.__new__  # __init__ would be one more call, for each result of a kernel


def empty(shape: Shape, dtype: DType) -> WasmArray:
    """Return a new array whose elements are not set."""
    size = prod(shape)
    nbytes = size * dtype.itemsize
    bin = _small[(nbytes + 63) >> 6] if nbytes <= SMALL else _bin(nbytes)
    try:
        pointer = bin.pop()
    except IndexError:
        pointer = _take(nbytes)
    y = _new(WasmOwner)
    y.shape = shape
    y.size = size
    y.dtype = dtype
    y.pointer = pointer
    y.base = None
    y.bin = bin
    return y


def upload(values: Array) -> Any:
    """Return a native copy."""
    dtype = values.dtype
    if dtype.hasobject:
        return values
    native = empty(values.shape, dtype)
    np.ndarray(values.shape, dtype, machine.whole, native.pointer)[...] = values
    return native


def download(native: Any) -> Array:
    """Return a read-only view, which holds the block."""
    return np.asarray(native)


def writable(native: WasmArray) -> Array:
    """Return a view of a new array, for who fills it in; it holds nothing."""
    return np.ndarray(native.shape, native.dtype, machine.whole, native.pointer)


@functools.lru_cache(maxsize=4096)
def describe(numbers: tuple[int, ...]) -> WasmArray:
    """Return i32 in linear memory, which kernels take by pointer.

    Hold the array until the kernel has run: it may leave the cache at any time.
    """
    native = empty((len(numbers),), np.dtype(np.int32))
    writable(native)[...] = np.array(numbers, np.int64).astype(np.int32)
    return native


class WasmArrays:
    """Moves values; only ``upload`` copies."""

    upload = staticmethod(upload)

    def download(self, native: Any) -> Array:
        """Return a read-only view."""
        values = np.asarray(native)
        if values.flags.writeable:  # strings
            values = values.view()
            values.flags.writeable = False
        return values

    def to_dlpack(self, native: Any) -> Array:
        """Return a read-only view, which others may read where it lies."""
        return np.asarray(native)

    def nbytes(self, native: Any) -> int:
        """Return the bytes of the elements; strings are pointers to theirs."""
        texts = native.flat if native.dtype.hasobject else ()
        return native.nbytes + sum(map(len, texts))

    def peak(self) -> int:
        """Return the most bytes that blocks in use have had."""
        return max(machine.heap.peak, machine.heap.used())
