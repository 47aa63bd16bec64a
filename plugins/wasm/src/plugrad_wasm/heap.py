"""Blocks of linear memory: size classes, on top of extents that coalesce.

A free block lies in the *bin* of its size, a list that whoever allocates pops from and
whoever frees appends to. Both are atomic, so that neither needs a lock, and a finalizer
may free a block in any thread and in the middle of anything.

Map: ``Heap.take`` (the fast path is in ``arrays.empty``), where bins are filled from,
what is done when there is nothing left, and what is told.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, insort
from collections.abc import Callable

ALIGNMENT = 64
SMALL = 16384  # bytes; more than that has an extent of its own
PAGE = 4096  # extents are a multiple of it
CHUNK = 65536  # small blocks of one size are cut from chunks of this size and alignment

Bin = list[int]


def rounded(nbytes: int, unit: int) -> int:
    """Return the size of the class of ``nbytes``: four to eight of them an octave.

    From 8 MiB on they are 1 MiB apart.
    """
    step = min(max(unit, 1 << max((nbytes - 1).bit_length() - 3, 0)), 1 << 20)
    return -(-max(nbytes, 1) // step) * step


class Heap:
    """The memory from ``base`` on, in blocks aligned to 64 bytes.

    Args:
        base: Where it begins.
        grow: Called with an address; makes memory usable up to there, or raises
            MemoryError.

    Attributes:
        small: For sizes up to ``SMALL``, in units of 64 bytes, the bin.
        peak: The most bytes that blocks in use have had when memory was cut.

    """

    def __init__(self, base: int, grow: Callable[[int], None]) -> None:
        self._base = self._top = -(-base // CHUNK) * CHUNK
        self._grow = grow
        self._bins: dict[int, Bin] = {}
        self._free: list[tuple[int, int]] = []  # extents (begin, end), sorted, apart
        self._chunks: dict[int, int] = {}  # of small blocks: begin -> size of a block
        self.peak = 0
        classes = [rounded(n, ALIGNMENT) for n in range(0, SMALL + 1, ALIGNMENT)]
        self.small = [self._bins.setdefault(size, []) for size in classes]

    def bin(self, nbytes: int) -> Bin:
        """Return the bin to pop from, which may be empty, and to append to."""
        if nbytes <= SMALL:
            return self.small[(nbytes + ALIGNMENT - 1) // ALIGNMENT]
        return self._bins.setdefault(rounded(nbytes, PAGE), [])

    def take(self, nbytes: int) -> int:
        """Return the address of a block; call it under a lock.

        Raises:
            MemoryError: There is no room, with the figures.

        """
        found = self.bin(nbytes)
        try:
            return found.pop()
        except IndexError:
            pass
        if nbytes > SMALL:
            address = self._extent(rounded(nbytes, PAGE))
        else:
            size = rounded(nbytes, ALIGNMENT)
            chunk = self._extent(CHUNK, CHUNK)
            self._chunks[chunk] = size
            found.extend(range(chunk + size, chunk + CHUNK - size + 1, size))
            address = chunk
        self.peak = max(self.peak, self.used())
        return address

    # --- extents -----------------------------------------------------------------

    def _extent(self, size: int, alignment: int = PAGE) -> int:
        """Cut ``size`` bytes from what is free, or from the end of the memory."""
        find = functools.partial(self._fit, size, alignment)
        at = find()
        if at is None:
            self._gather_large()
            at = find()
        if at is None:
            at = self._extend(size)
        if at is None:
            self._gather_small()
            at = find()
        if at is not None:
            return at
        raise MemoryError(
            f"wasm: no room for {size:,} bytes: {self.used():,} are in use, of "
            f"{self._top - self._base:,} in all, and linear memory does not grow any "
            "further (it ends at 4 GiB); drop or dispose tensors that are not needed"
        ) from None

    def _fit(self, size: int, alignment: int) -> int | None:
        """Cut from the smallest free extent that has room."""
        best: tuple[int, int, int] | None = None
        for i, (begin, end) in enumerate(self._free):
            if -(-begin // alignment) * alignment + size <= end and (
                best is None or end - begin < best[0]
            ):
                best = (end - begin, i, -(-begin // alignment) * alignment)
        if best is None:
            return None
        _, i, at = best
        begin, end = self._free[i]
        self._free[i : i + 1] = [
            piece for piece in ((begin, at), (at + size, end)) if piece[0] < piece[1]
        ]
        return at

    def _extend(self, size: int) -> int | None:
        """Take it from behind the end, which is a multiple of ``CHUNK``."""
        begin = self._top
        if self._free and self._free[-1][1] == begin and size != CHUNK:
            begin = self._free[-1][0]
        end = -(-(begin + size) // CHUNK) * CHUNK
        try:
            self._grow(end)
        except MemoryError:
            return None
        if begin < self._top:
            self._free.pop()
        self._top = end
        self._release(begin + size, end)
        return begin

    def _release(self, begin: int, end: int) -> None:
        """Put an extent among the free ones and join it with its neighbours."""
        if begin == end:
            return
        i = bisect_left(self._free, (begin, end))
        if i < len(self._free) and self._free[i][0] == end:
            end = self._free.pop(i)[1]
        if i and self._free[i - 1][1] == begin:
            begin = self._free.pop(i - 1)[0]
        insort(self._free, (begin, end))

    def _gather_large(self) -> None:
        """Make extents of all free large blocks."""
        for size, found in list(self._bins.items()):
            while size > SMALL and found:
                address = found.pop()
                self._release(address, address + size)

    def _gather_small(self) -> None:
        """Make extents of the chunks of which all blocks are free."""
        for size in {*self._chunks.values()}:
            found, free = self._bins[size], dict[int, list[int]]()
            for _ in range(len(found)):
                address = found.pop()
                free.setdefault(address // CHUNK * CHUNK, []).append(address)
            for chunk, addresses in free.items():
                if len(addresses) == CHUNK // size:
                    del self._chunks[chunk]
                    self._release(chunk, chunk + CHUNK)
                else:
                    found.extend(addresses)

    # --- what is told ------------------------------------------------------------

    def used(self) -> int:
        """Return the bytes of the blocks that are in use."""
        tails = sum(CHUNK % size for size in self._chunks.values())
        binned = sum(size * len(found) for size, found in self._bins.items())
        free = sum(end - begin for begin, end in self._free)
        return self._top - self._base - free - tails - binned

    def size(self) -> int:
        """Return the bytes that have been cut from linear memory; they never shrink."""
        return self._top - self._base

    def trim(self) -> None:
        """Join all that is free."""
        self._gather_large()
        self._gather_small()
