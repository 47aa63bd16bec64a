"""Native arrays: contiguous, row-major, in linear memory; strings are NumPy arrays.

Contents: ``WasmArray`` and its ``view``; ``WasmOwner``, which owns a block; ``empty``,
which allocates the results of kernels; ``WasmArrays``, which moves values in and out.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from types import MethodType
from typing import Any

import numpy as np
import plugrad

from . import guard
from .heap import SMALL_MAX_BYTES
from .runtime import Machine

DType = np.dtype[Any]
Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
BFLOAT16: DType = plugrad.bfloat16
MAX_AXES = 64  # NumPy's limit; MAX_RANK in elementwise.h
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
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "string",
]


class WasmArray:
    """Elements at ``pointer``, in row-major order; see ``WasmOwner``.

    A kernel may return a view of an input. The block is released when the last array
    that uses it is deleted.

    Attributes:
        size: The number of elements.
        pointer: The offset of the first element in linear memory.
        base: The array that owns the block; None for the owner itself.
        machine: The machine whose memory contains the elements.

    """

    __slots__ = ("__weakref__", "base", "dtype", "machine", "pointer", "shape", "size")

    def __init__(
        self,
        machine: Machine,
        shape: Shape,
        dtype: DType,
        pointer: int,
        base: WasmArray | None,
    ) -> None:
        self.machine = machine
        self.shape = shape
        self.size = prod(shape)
        self.dtype = dtype
        self.pointer = pointer
        self.base = base

    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """A description for NumPy: a read-only view that keeps this array alive."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.machine.address + self.pointer, True),
            "version": 3,
        }

    def view(self, shape: Shape, first: int = 0) -> WasmArray:
        """Return the elements from index ``first`` on as a view of another shape."""
        check_axes(shape)
        pointer = self.pointer + first * self.dtype.itemsize
        return WasmArray(self.machine, shape, self.dtype, pointer, self.base or self)

    def viewed_as(self, dtype: DType, shape: Shape) -> WasmArray:
        """Return a view of the same bytes as elements of another dtype."""
        return WasmArray(self.machine, shape, dtype, self.pointer, self.base or self)


def check_axes(shape: Sequence[int]) -> None:
    """Raise ValueError if there are more axes than NumPy supports."""
    if len(shape) > MAX_AXES:
        raise ValueError(
            f"wasm: an array has at most {MAX_AXES} axes, as in NumPy; this one "
            f"has {len(shape)}"
        )


class WasmOwner(WasmArray):
    """An array that owns a block; deleting it returns the block to its bin.

    The finalizer of an instance is the method ``free`` of its block. If an exception
    occurs before the instance gets a block, it has no finalizer.
    """

    __slots__ = ("__del__",)
    __del__: MethodType


_new = object.__new__  # saves a call of __init__ for each result of a kernel


def empty(machine: Machine, shape: Shape, dtype: DType) -> WasmArray:
    """Return a new array with uninitialized elements."""
    size = prod(shape)
    nbytes = size * dtype.itemsize
    y = _new(WasmOwner)
    y.machine = machine
    y.shape = shape
    y.size = size
    y.dtype = dtype
    y.base = None
    heap = machine.heap
    bin = (
        heap.small[(nbytes + 63) >> 6]
        if nbytes <= SMALL_MAX_BYTES
        else heap.bin(nbytes)
    )
    while not bin:
        machine.fill(nbytes)
    # Nothing is called from here on, so no other thread, signal handler or finalizer
    # can run before the block has an owner.
    block = bin[-1]
    y.pointer = block.pointer
    y.__del__ = block.free
    del bin[-1]
    return y


class GuardedArray(WasmArray):
    """An array between guard zones, which its finalizer checks; see ``guard``."""

    __slots__ = ("owner",)
    owner: WasmArray

    def __del__(self) -> None:
        assert self.machine.guards is not None
        self.machine.guards.leave(self.pointer)


def _guarded(machine: Machine, shape: Shape, dtype: DType) -> WasmArray:
    """Return a new array with guard zones, filled with the pattern of the zones."""
    assert machine.guards is not None
    nbytes = prod(shape) * dtype.itemsize
    owner = _empty(machine, (nbytes + 2 * guard.ZONE_BYTES,), np.dtype(np.uint8))
    y = GuardedArray(machine, shape, dtype, owner.pointer + guard.ZONE_BYTES, None)
    y.owner = owner
    machine.guards.enter(y.pointer, nbytes)
    return y


_empty = empty
if guard.IS_ENABLED:
    empty = _guarded


def upload(machine: Machine, values: Array) -> Any:
    """Return a native copy."""
    dtype = values.dtype
    if dtype.hasobject:
        return values
    if dtype.kind == "b":  # nonzero bytes become 1
        values = values.view(np.uint8) != 0
    native = empty(machine, values.shape, dtype)
    np.ndarray(values.shape, dtype, machine.whole, native.pointer)[...] = values
    return native


def download(native: Any) -> Array:
    """Return a read-only view, which keeps the block alive."""
    values = np.asarray(native)
    # A type string of NumPy cannot express bfloat16.
    return values.view(BFLOAT16) if native.dtype is BFLOAT16 else values


def writable(native: WasmArray) -> Array:
    """Return a writable view to fill a new array; the view does not keep it alive."""
    whole = native.machine.whole
    return np.ndarray(native.shape, native.dtype, whole, native.pointer)


def describe(machine: Machine, numbers: tuple[int, ...]) -> WasmArray:
    """Return int32 numbers in linear memory, for kernels to read; see ``Cached``.

    Keep the array until the kernel has run: the cache may drop it at any time.
    """
    native = empty(machine, (len(numbers),), np.dtype(np.int32))
    writable(native)[...] = np.array(numbers, np.int64).astype(np.int32)
    return native


class _WritableView:
    """The array interface of a writable view that keeps an array alive."""

    def __init__(self, native: WasmArray) -> None:
        self._native = native

    @property
    def __array_interface__(self) -> dict[str, Any]:
        interface = self._native.__array_interface__
        return interface | {"data": (interface["data"][0], False)}


class WasmArrays:
    """Moves values into and out of a machine; only ``upload`` copies."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.upload = functools.partial(upload, machine)

    def download(self, native: Any) -> Array:
        """Return a read-only view."""
        values = download(native)
        if values.flags.writeable:  # strings
            values = values.view()
            values.flags.writeable = False
        return values

    def to_dlpack(self, native: WasmArray) -> Array:
        """Return a view, which other libraries may read in place.

        The view is writable, because DLPack before 1.0 cannot export read-only memory.
        plugrad marks it as read-only for libraries that support newer versions.
        """
        values = np.asarray(_WritableView(native))
        return values.view(BFLOAT16) if native.dtype is BFLOAT16 else values

    def nbytes(self, native: Any) -> int:
        """Return the size in bytes; strings count as their pointers plus texts."""
        texts = native.flat if native.dtype.hasobject else ()
        return native.nbytes + sum(map(len, texts))

    def peak(self) -> int:
        """Return the peak of the bytes in use."""
        return max(self.machine.heap.peak, self.machine.heap.used())
