"""Native arrays: contiguous, in a buffer of the pool.

bool takes 4 bytes for each element on the device. The dtypes in ``STORED`` live on the
device too, but no kernel computes with them: their calls run on the host.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .device import Device, device
from .memory import Lease

Shape = tuple[int, ...]
DType = np.dtype[Any]
Values = np.ndarray[Any, Any]

KINDS = {  # the dtypes of kernels, and the letters of their expressions
    np.dtype("bool"): "b",
    np.dtype("int32"): "i",
    np.dtype("uint32"): "u",
    np.dtype("float32"): "f",
}
HALF = np.dtype("float16")
DTYPES = {letter: dtype for dtype, letter in KINDS.items()} | {"h": HALF}
STORED = "int8 int16 int64 uint8 uint16 uint64 float64 complex64"


def enable_half() -> None:
    """Let kernels compute with float16."""
    KINDS[HALF] = "h"


def itemsize(dtype: DType) -> int:
    """Return the bytes of an element on the device."""
    return 4 if dtype.kind == "b" else dtype.itemsize


_SIGNATURES: dict[tuple[Shape, DType], int] = {}
_NUMBERS = itertools.count()
MAX_CACHED_SIGNATURES = 65536


def signature(shape: Shape, dtype: DType) -> int:
    """Return a number for a shape and a dtype: kernels look up plans by it."""
    found = _SIGNATURES.get((shape, dtype))
    if found is None:
        if len(_SIGNATURES) >= MAX_CACHED_SIGNATURES:
            _SIGNATURES.clear()  # the numbers go on, so none gets a second meaning
        found = _SIGNATURES[shape, dtype] = next(_NUMBERS)
    return found


class Array:
    """A native array.

    Attributes:
        shape, dtype, size: As in NumPy.
        signature: The number of its shape and dtype.
        lease: The buffer, whose size may exceed that of the elements.
        base: The array that owns the buffer, if this one is a view.

    """

    __slots__ = (
        "__weakref__",
        "base",
        "dtype",
        "lease",
        "shape",
        "signature",
        "size",
    )

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        lease: Lease,
        base: Array | None,
        size: int,
        number: int,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.size = size
        self.signature = number
        self.lease = lease
        self.base = base


class Arrays:
    """Moves values in and out of native arrays."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def upload(self, values: Values) -> Array:
        """Return a native copy."""
        raw = np.ascontiguousarray(values)
        if raw.dtype.kind == "b":
            raw = raw.astype(np.uint32)
        nbytes = raw.nbytes
        if nbytes % 4:
            raw = np.frombuffer(raw.tobytes() + bytes(-nbytes % 4), np.uint32)
        flat = raw.reshape(-1)
        lease = self.device.upload(flat, nbytes)
        number = signature(values.shape, values.dtype)
        return Array(values.shape, values.dtype, lease, None, values.size, number)

    def download(self, native: Array) -> Values:
        """Wait for an array and return a copy of its values."""
        nbytes = native.size * itemsize(native.dtype)
        words = self.device.download(native.lease, nbytes + -nbytes % 4)
        if native.dtype.kind == "b":
            return (words != 0).reshape(native.shape)
        raw = words.view(np.uint8)[:nbytes].view(native.dtype)
        return raw.reshape(native.shape)

    def nbytes(self, native: Array) -> int:
        """Return the bytes of the elements; the buffer may be larger."""
        return native.size * itemsize(native.dtype)

    def synchronize(self) -> None:
        """Wait for the device, and raise the errors that kernels have reported."""
        self.device.synchronize()

    def peak(self) -> int:
        """Return the peak number of bytes in use."""
        return self.device.pool.peak

    def kept(self) -> int:
        """Return the bytes that the pool keeps for later arrays."""
        with self.device.lock:
            self.device.pool.reclaim()
            return self.device.pool.pooled


class TimedArrays(Arrays):
    """The arrays of a device with timestamps."""

    def time_device(self, on: bool) -> None:
        """Start or stop to measure kernels."""
        self.device.time(on)

    def device_seconds(self) -> float:
        """Wait, and return how long kernels of the calling thread have run."""
        return self.device.seconds()


def arrays() -> Arrays:
    """Return the arrays of the device."""
    found = device()
    return TimedArrays(found) if found.timer is not None else Arrays(found)
