"""The pool of buffers: arrays lease buffers, and their finalizers give them back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import MethodType
from typing import Any

SMALLEST_BYTES = 256  # also the padding that reads of four elements may touch
POWER_OF_TWO_BYTES = 1 << 20  # sizes up to this one are rounded to powers of two
STEP_BYTES = 1 << 18  # larger sizes are rounded to multiples of this
WAITING_BUFFERS = 16  # free buffers of a size that wait for a submission
POOL_BYTES = 1 << 30  # the pool keeps at most this much for later arrays

Returned = tuple[int, int]  # the bytes of a buffer and its number


class Lease:
    """A buffer of the pool, until this object is dropped.

    The pool owns ``gpu``, wgpu's buffer, because Python finalizes the objects of a
    reference cycle in any order. The finalizer is ``deque.append``: it runs no Python
    code, in which a keyboard interrupt would be lost, and waits for no lock.
    """

    __slots__ = ("__del__", "__weakref__", "gpu", "nbytes", "number")
    __del__: MethodType

    def __init__(
        self, give_back: Callable[[Returned], None], gpu: Any, nbytes: int, number: int
    ) -> None:
        self.gpu = gpu
        self.nbytes = nbytes
        self.number = number
        self.__del__ = MethodType(give_back, (nbytes, number))


class Pool:
    """Lends buffers by size. Its callers hold the lock of the device.

    Attributes:
        pooled: The bytes of free buffers.
        peak: The largest number of bytes that were leased at a time.

    """

    def __init__(
        self, create: Callable[[int], Any], batch: Callable[[], int], limit: int
    ) -> None:
        """Take functions that create a buffer and return the number of the batch."""
        self._create = create
        self._batch = batch
        self._limit = limit
        self._returned: deque[Returned] = deque()
        self._free: dict[int, deque[tuple[int, int]]] = {}  # (number, batch) by size
        self._buffers: dict[int, Any] = {}
        self._number = 0
        self._leased = 0
        self.pooled = 0
        self.peak = 0

    def lend(self, size: int) -> Lease:
        """Return a buffer of a size that ``rounded`` has returned.

        Its contents are those of its last user.
        """
        if self._returned:
            self.reclaim()
        free = self._free.get(size)
        if free:
            number, _ = free.pop()
            self.pooled -= size
        else:
            number = self._new(size)
        return self._lease(size, number)

    def lend_idle(self, nbytes: int, *, recorded: bool) -> tuple[Lease, bool]:
        """Return a buffer for an upload, and whether the recorded batch may use it.

        Args:
            nbytes: The size of the data.
            recorded: Whether kernels are recorded that have not been submitted.

        """
        size = rounded(nbytes)
        self.reclaim()
        free = self._free.get(size)
        if free and (not recorded or free[0][1] < self._batch()):
            number, _ = free.popleft()
            self.pooled -= size
            return self._lease(size, number), False
        few = size <= POWER_OF_TWO_BYTES and len(free or ()) < WAITING_BUFFERS
        if not free or few:
            return self._lease(size, self._new(size)), False
        return self.lend(size), True

    def _new(self, size: int) -> int:
        if size > self._limit:
            raise MemoryError(
                f"webgpu: {size:,} bytes are more than the {self._limit:,} that an "
                "array of this device can have"
            )
        gpu = self._create(size)
        self._number += 1
        self._buffers[self._number] = gpu
        return self._number

    def _lease(self, size: int, number: int) -> Lease:
        self._leased += size
        if self._leased > self.peak:
            self.peak = self._leased
        return Lease(self._returned.append, self._buffers[number], size, number)

    def reclaim(self) -> None:
        """Make the buffers of dropped arrays free."""
        batch = self._batch()
        while self._returned:
            size, number = self._returned.popleft()
            self._free.setdefault(size, deque()).append((number, batch))
            self._leased -= size
            self.pooled += size

    def full(self) -> bool:
        """Return whether the pool keeps more free buffers than it should."""
        return self.pooled > POOL_BYTES

    def trim(self) -> None:
        """Destroy all free buffers; the caller has submitted what uses them."""
        self.reclaim()
        for free in self._free.values():
            while free:
                number, _ = free.popleft()
                self._buffers.pop(number).destroy()
        self.pooled = 0


def rounded(nbytes: int) -> int:
    """Return the size of the buffer for so many bytes."""
    if nbytes <= SMALLEST_BYTES:
        return SMALLEST_BYTES
    if nbytes <= POWER_OF_TWO_BYTES:
        return 1 << (nbytes - 1).bit_length()
    return -(-nbytes // STEP_BYTES) * STEP_BYTES
