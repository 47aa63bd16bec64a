"""Caches device memory: reusing pages is 4 to 9 times faster than new ones.

Buffers of one size class are interchangeable. One goes back when the native array that
owns it is dropped, while kernels that use it may still wait in the queue: whatever
takes it next comes after them in that queue.

Arrays are dropped by finalizers, and those run at any allocation of Python's, in any
thread, also inside of these functions: no step relies on what an earlier one has seen,
the lock may be taken again by its owner, and ``give`` never waits for it. Arrays only
append their buffers to a list: small ones to the idle buffers of their size class,
large ones to ``returned``, which the next use of the pool sorts, counts and trims.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable
from typing import Any

RESERVED_BYTES = 256 << 20  # of device memory that stay free
MAX_CACHED_CLASSES = 4096  # numbers of bytes whose size class is remembered
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Pool:
    """Buffers by size class.

    Args:
        allocate: Bytes -> a new buffer; raises MemoryError.
        finish: Waits for the device.
        limit: The most bytes that idle buffers may hold.
        largest: The most bytes of one buffer.
        total: The most bytes of all buffers.
        left: Returns the bytes that the system has left for the device.
        lock: A lock that its owner may take again. That of the device: with two of
            them, two threads could each wait for the one that the other holds.

    """

    # Bytes from which on it is worthwhile to count what is idle, if there are more
    # buffers than the limit allows. Not a global, which finalizers do not find any more
    # when Python ends.
    large = 1 << 20

    def __init__(
        self,
        allocate: Callable[[int], Any],
        finish: Callable[[], None],
        *,
        limit: int,
        largest: int,
        total: int,
        left: Callable[[], int],
        lock: Any = None,
    ) -> None:
        self._allocate, self._finish = allocate, finish
        self.limit = limit
        self.largest = largest
        self.total = total
        self._left = left
        self._idle: dict[int, list[Any]] = {}
        self.lock = lock or threading.RLock()
        self.returned: list[Any] = []  # large ones, by finalizers, in any thread
        self.held = 0  # bytes of all buffers there are, idle or not
        self.peak = 0
        self._promised = 0  # bytes of buffers that nothing may have written to yet
        self._unasked = 0  # bytes of new buffers since the system was asked

    def take(self, nbytes: int) -> Any:
        """Return a buffer of at least ``nbytes``, whose contents are arbitrary."""
        return self.lend(nbytes)[0]

    def lend(self, nbytes: int) -> tuple[Any, Callable[[Any], None]]:
        """Return a buffer, and a function for finalizers that takes it back.

        The function runs no Python code; it is ``append`` of a list.
        """
        if self.returned:
            self._settle()
        size = _class(nbytes)
        idle = self._idle.get(size)
        if idle is None:
            idle = self._idle.setdefault(size, [])
        give_back = idle.append if size < self.large else self.returned.append
        try:
            return idle.pop(), give_back
        except IndexError:
            return self._new(size), give_back

    def give(self, buffer: Any) -> None:
        """Take a buffer back; may be called by finalizers, so from anywhere."""
        size = buffer.size
        self._idle.setdefault(size, []).append(buffer)
        if size >= self.large and self.held > self.limit:
            # Another thread that has the lock may be past its look: so look again.
            while self._waiting() > self.limit and self.lock.acquire(blocking=False):
                try:
                    self._trim(self.limit)
                finally:
                    self.lock.release()

    def idle(self) -> int:
        """Return the bytes that wait for reuse."""
        self._settle()
        return self._waiting()

    def _settle(self) -> None:
        """Take back the buffers that finalizers have returned."""
        while self.returned:
            try:
                buffer = self.returned.pop()
            except IndexError:  # another thread has taken it
                return
            self.give(buffer)

    def _waiting(self) -> int:
        return sum([size * len(self._idle[size]) for size in list(self._idle)])

    def empty(self) -> None:
        """Release all idle buffers."""
        self._settle()
        with self.lock:
            self._trim(0)

    def _new(self, size: int) -> Any:
        if size > self.largest:
            raise MemoryError(
                f"opencl: {size:,} bytes are more than the device gives at once, "
                f"{self.largest:,}; use smaller tensors, or another backend"
            )
        with self.lock:
            for prepare in (self._recycled, self._written, self._emptied):
                self._settle()
                prepare()
                try:
                    return self._granted(size)
                except MemoryError as error:
                    why = error
            raise MemoryError(
                f"opencl: no memory for {size:,} bytes beside the {self.held:,} in use "
                f"({why}); drop tensors, or use smaller ones"
            )

    def _recycled(self) -> None:
        self._trim(self.limit)

    def _written(self) -> None:
        """Finish all kernels, so that the system knows which memory is in use."""
        self._finish()
        self._promised = 0

    def _emptied(self) -> None:
        """Release all idle buffers, after the kernels that use them."""
        self._trim(0)
        self._written()

    def _granted(self, size: int) -> Any:
        """Return a new buffer, if there is enough memory.

        The system grants what it has not, and then kills the process for using it. So
        what was promised and may not be in use yet counts as taken.
        """
        spare = (
            RESERVED_BYTES if size >= self.large else RESERVED_BYTES // 4
        )  # so that work goes on
        if size > self.total - spare - self.held:
            raise MemoryError(f"there are {self.total:,} in all")
        promised = self._promised + size
        unasked = self._unasked + size
        if unasked >= self.large:
            left = self._left()
            unasked = 0
            if promised > left - spare:
                raise MemoryError(f"the system has {left:,} bytes left")
        buffer = self._allocate(size)
        self._promised, self._unasked = promised, unasked
        self.held += size
        self.peak = max(self.peak, self.held)
        return buffer

    def _trim(self, limit: int) -> None:
        """Release idle buffers, the largest first, down to ``limit`` bytes.

        OpenCL keeps the memory until the kernels have run that wait for it.
        """
        for size in sorted(self._idle, reverse=True):
            for _ in range(-(-(self._waiting() - limit) // size)):
                try:
                    self._idle[size].pop().release()
                except IndexError:
                    break  # another thread has taken it
                self.held -= size


@functools.lru_cache(MAX_CACHED_CLASSES)
def _class(nbytes: int) -> int:
    """Round up to a size class: eight per power of two, at least 256 bytes."""
    step = 1 << max((nbytes - 1).bit_length() - 3, 8)
    return -(-nbytes // step) * step or step


def limit(total: int) -> int:
    """Return PLUGRAD_OPENCL_POOL (``512M``) in bytes, or a quarter of ``total``."""
    given = os.environ.get("PLUGRAD_OPENCL_POOL")
    if given is None:
        return total // 4
    found = re.fullmatch(r"(\d+)([KMG]?)B?", given.strip().upper())
    if found is None:
        raise ValueError(
            f"PLUGRAD_OPENCL_POOL={given}: give bytes, such as 268435456 or 256M"
        )
    return int(found[1]) * _UNITS[found[2]]
