"""Device memory, kept for reuse: pages that are not new save 4 to 9 times the time.

Buffers of one size class are interchangeable. One goes back when the native array that
owns it is dropped, while kernels that use it may still wait in the queue: whoever takes
it next comes after them in that queue.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from typing import Any

MARGIN = 256 << 20  # bytes of the host's memory that stay free
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Pool:
    """Buffers by size class.

    Args:
        allocate: Bytes -> a new buffer; raises MemoryError.
        finish: Waits for the device.
        limit: The most bytes that idle buffers may hold.
        largest: The most bytes of one buffer.
        shared: Whether the memory is the host's.

    """

    # Bytes from which on it is worthwhile to count what is idle. Not a global, which
    # finalizers do not find any more when Python ends.
    large = 1 << 20

    def __init__(
        self,
        allocate: Callable[[int], Any],
        finish: Callable[[], None],
        *,
        limit: int,
        largest: int,
        shared: bool,
    ) -> None:
        self._allocate, self._finish = allocate, finish
        self.limit, self.largest, self.shared = limit, largest, shared
        self._idle: dict[int, list[Any]] = {}
        self._lock: Any = threading.Lock()
        self.held = 0  # bytes of all buffers there are, idle or not
        self.peak = 0

    def take(self, nbytes: int) -> Any:
        """Return a buffer of at least ``nbytes``, whose contents are arbitrary."""
        try:
            return self._idle[_class(nbytes)].pop()
        except (KeyError, IndexError):
            return self._new(_class(nbytes))

    def give(self, buffer: Any) -> None:
        """Take a buffer back; called by finalizers, so from anywhere."""
        size = buffer.size
        self._idle.setdefault(size, []).append(buffer)
        if size >= self.large and self._lock.acquire(blocking=False):
            try:  # if another thread has the lock, it looks after the limit, too
                self._trim(self.limit)
            finally:
                self._lock.release()

    def idle(self) -> int:
        """Return the bytes that wait for reuse."""
        return sum(size * len(found) for size, found in [*self._idle.items()])

    def empty(self) -> None:
        """Give all idle buffers back to the device."""
        with self._lock:
            self._trim(0)

    def _new(self, size: int) -> Any:
        if size > self.largest:
            raise MemoryError(
                f"opencl: {size:,} bytes are more than the device gives at once, "
                f"{self.largest:,}; use smaller tensors, or another backend"
            )
        with self._lock:
            try:
                buffer = self._allocated(size, self.limit)
            except MemoryError:
                buffer = self._allocated(size, 0)
            self.held += size
            self.peak = max(self.peak, self.held)
        return buffer

    def _allocated(self, size: int, limit: int) -> Any:
        """Return a buffer; idle ones are released down to ``limit`` bytes before."""
        self._trim(limit)
        try:
            self._check(size)
            return self._allocate(size)
        except MemoryError as error:
            raise MemoryError(
                f"opencl: no memory for {size:,} bytes beside the {self.held:,}"
                f" in use ({error}); drop tensors, or use smaller ones"
            ) from None

    def _trim(self, limit: int) -> None:
        """Release idle buffers, the largest first, down to ``limit`` bytes."""
        idle = self.idle()
        if idle <= limit:
            return
        self._finish()  # no kernel that waits must lose its memory
        for size in sorted(self._idle, reverse=True):
            found = self._idle[size]
            while idle > limit and found:
                found.pop().release()
                idle -= size
                self.held -= size

    def _check(self, size: int) -> None:
        """Refuse what the system would grant, and then kill the process for using."""
        if self.shared and size >= self.large and size + MARGIN > _available():
            raise MemoryError(f"the system has {_available():,} bytes left")


def _class(nbytes: int) -> int:
    """Round up to one of eight steps an octave, 256 bytes at least: never nothing."""
    step = 1 << max((nbytes - 1).bit_length() - 3, 8)
    return -(-nbytes // step) * step or step


def _available() -> int:
    """Return the bytes that the host can give without swapping."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass  # not Linux: the allocation itself has to fail
    return 1 << 62


def limit(total: int) -> int:
    """Return what PLUGRAD_OPENCL_POOL says (``512M``), or a quarter of ``total``."""
    given = os.environ.get("PLUGRAD_OPENCL_POOL")
    if given is None:
        return total // 4
    found = re.fullmatch(r"(\d+)([KMG]?)B?", given.strip().upper())
    if found is None:
        raise ValueError(
            f"PLUGRAD_OPENCL_POOL={given}: give bytes, such as 268435456 or 256M"
        )
    return int(found[1]) * _UNITS[found[2]]
