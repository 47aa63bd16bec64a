"""Native arrays: row-major and contiguous, on a device. Views change shape and dtype.

Strings stay on the host, as read-only NumPy object arrays.
"""

from __future__ import annotations

import math
from types import MethodType
from typing import Any

import numpy as np

from .runtime import Device

Shape = tuple[int, ...]
DType = np.dtype[Any]
Strings = np.ndarray[Any, DType]

MAX_AXES = 64  # the same limit as in NumPy


class ClArray:
    """An array on a device: a view of another one, or a ``ClOwner``.

    Attributes:
        shape, dtype, size: As in NumPy.
        buffer: The memory, to pass to kernels.
        device: The device that owns the memory.
        base: The array that owns the memory, if this one is a view.

    """

    __slots__ = ("__weakref__", "base", "buffer", "device", "dtype", "shape", "size")

    buffer: Any
    device: Device
    shape: Shape
    dtype: DType
    size: int
    base: ClArray | None

    def view(self, shape: Shape, dtype: DType | None = None) -> ClArray:
        """Return the same memory under another shape, or as another dtype."""
        dtype = dtype or self.dtype
        size = math.prod(shape)
        if size * dtype.itemsize != self.nbytes or len(shape) > MAX_AXES:
            raise _shape_error(shape, self.shape)
        y = ClArray.__new__(ClArray)
        y.buffer = self.buffer
        y.device = self.device
        y.dtype = dtype
        y.shape = shape
        y.size = size
        y.base = self.base or self
        return y

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * self.dtype.itemsize


class ClOwner(ClArray):
    """An array with its own buffer; dropping the array returns the buffer to the pool.

    The finalizer is ``append`` of a list in the pool. It runs no Python code, because
    a keyboard interrupt would be lost there: Python ignores exceptions in
    finalizers.
    """

    __slots__ = ("__del__",)
    __del__: MethodType

    def __init__(self, device: Device, shape: Shape, dtype: DType, size: int) -> None:
        if size < 0 or len(shape) > MAX_AXES:
            raise _shape_error(shape)
        self.device = device
        self.shape = shape
        self.dtype = dtype
        self.size = size
        self.base = None
        self.buffer, give_back = device.pool.lend(size * dtype.itemsize)
        self.__del__ = MethodType(give_back, self.buffer)
        if device.notes is not None and (notes := device.current_notes()):
            notes.made(self)


def _shape_error(shape: Shape, given: Shape | None = None) -> ValueError:
    """Return the error for a shape that an array cannot have."""
    if len(shape) > MAX_AXES:
        return ValueError(
            f"opencl: {len(shape)} axes are more than the {MAX_AXES} that an array can "
            "have; join some with reshape"
        )
    if given is None:
        return ValueError(f"opencl: shape {shape} must not have negative sizes")
    return ValueError(
        f"opencl: cannot view shape {given} as {shape}; the sizes in bytes differ"
    )


def empty(device: Device, shape: Shape, dtype: DType) -> ClArray:
    """Return an array with arbitrary contents."""
    return ClOwner(device, shape, dtype, math.prod(shape))


def filled(device: Device, shape: Shape, value: complex, dtype: DType) -> ClArray:
    """Return an array filled with ``value``."""
    y = empty(device, shape, dtype)
    if y.size:
        device.fill(y.buffer, np.full((), value, dtype), y.nbytes)
    return y


class ClArrays:
    """Copies values to and from one device."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def upload(self, values: np.ndarray[Any, DType]) -> ClArray | Strings:
        """Return a copy on the device. Strings stay on the host, as a read-only view.

        On the device, True is always the byte 1, whatever byte it is in ``values``,
        because kernels compute with it.
        """
        if values.dtype.hasobject:
            values = values.view()
            values.flags.writeable = False
            return values
        values = np.asarray(values, order="C")
        if values.dtype == bool:
            raw = values.view(np.uint8)
            values = raw != 0 if raw.max(initial=0) > 1 else values
        y = ClOwner(self.device, values.shape, values.dtype, values.size)
        if values.size:
            self.device.write(y.buffer, values)
        return y

    def download(self, native: ClArray | Strings) -> np.ndarray[Any, DType]:
        """Return a copy on the host, after all work that was enqueued before."""
        if isinstance(native, np.ndarray):
            return native
        values = np.empty(native.shape, native.dtype)
        self.device.read(values, native.buffer)
        return values

    def nbytes(self, native: ClArray | Strings) -> int:
        """Return the bytes of the elements."""
        texts = native.flat if isinstance(native, np.ndarray) else ()
        return native.nbytes + sum(map(len, texts))

    def peak(self) -> int:
        """Return the peak number of bytes allocated on the device."""
        return self.device.pool.peak

    def kept(self) -> int:
        """Return the bytes of idle buffers, which later arrays will use."""
        return self.device.pool.idle()

    def synchronize(self) -> None:
        """Wait for the device; raise errors of earlier kernels.

        In a forked child, where the device cannot be used, this does nothing.
        """
        if not self.device.gone:
            self.device.synchronize()

    def time_device(self, on: bool) -> None:
        """Start or stop measuring how long kernels and fills run."""
        if not self.device.gone:
            self.device.time(on)

    def device_seconds(self) -> float:
        """Wait for this thread's kernels; return how long they ran since the start."""
        return 0.0 if self.device.gone else self.device.seconds()
