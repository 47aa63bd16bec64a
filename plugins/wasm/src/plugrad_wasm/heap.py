"""Blocks of linear memory: size classes, on top of extents that coalesce.

A free block is in the *bin* of its size, a list: ``arrays.empty`` pops the last block,
and the finalizer of an array appends its block again, both without a lock.

Another thread, a signal handler or a finalizer may run at any call, at any backward
jump and at any allocation of a container. It may free blocks, take blocks, or raise.
Therefore the free extents are an immutable value, ``Extents``. A change computes a new
value, which ``Heap._commit`` stores; nothing else can run within the commit. If
anything has changed in the meantime, the change is computed again. No block is lost if
an exception occurs.

Contents: ``Block``; ``Extents``; ``Heap.fill``; cutting extents, and gathering free
blocks when memory is exhausted; statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import NamedTuple

ALIGNMENT = 64
SMALL_MAX_BYTES = 16384  # larger blocks have their own extents
PAGE = 4096  # sizes of extents are multiples of this
CHUNK_BYTES = 65536  # size and alignment of chunks, which are cut into small blocks
GATHER_ATTEMPTS = 8  # attempts to empty a bin while other threads use it

Extent = tuple[int, int]  # start and end address
_ALL = slice(None)


def rounded(nbytes: int, unit: int) -> int:
    """Return the size class of ``nbytes``: four to eight classes per power of two.

    From 8 MiB on, classes are 1 MiB apart.
    """
    step = min(max(unit, 1 << max((nbytes - 1).bit_length() - 3, 0)), 1 << 20)
    return -(-max(nbytes, 1) // step) * step


class Block:
    """A piece of memory, which arrays use one after another.

    Attributes:
        pointer: The address at which it begins.
        free: Appends the block to its bin. It is implemented purely in C, so that no
            signal handler can interrupt it when it runs as a finalizer.

    """

    __slots__ = ("free", "pointer")

    def __init__(self, pointer: int, bin: Bin) -> None:
        self.pointer = pointer
        self.free = MethodType(bin.append, self)


Bin = list[Block]


class Extents(NamedTuple):
    """The division of linear memory into free extents; the rest is cut into blocks.

    Attributes:
        top: The end of the memory in use, a multiple of ``CHUNK_BYTES``.
        free: The free extents, sorted; no two are adjacent.
        chunks: The number of chunks by the size of their blocks.

    """

    top: int
    free: tuple[Extent, ...]
    chunks: dict[int, int]

    def cut_free(self, size: int, alignment: int) -> tuple[Extents, int] | None:
        """Cut from the smallest free extent that fits; return extents and address."""
        best: tuple[int, int, int] | None = None
        for i, (begin, end) in enumerate(self.free):
            if -(-begin // alignment) * alignment + size <= end and (
                best is None or end - begin < best[0]
            ):
                best = (end - begin, i, -(-begin // alignment) * alignment)
        if best is None:
            return None
        _, i, at = best
        begin, end = self.free[i]
        rest = [e for e in ((begin, at), (at + size, end)) if e[0] < e[1]]
        return self._replace(free=(*self.free[:i], *rest, *self.free[i + 1 :])), at

    def cut_at_top(self, size: int, alignment: int) -> tuple[Extents, int]:
        """Cut a block at the top; include the last free extent if it ends there."""
        begin, free = self.top, self.free
        if free and free[-1][1] == begin and alignment != CHUNK_BYTES:
            begin, free = free[-1][0], free[:-1]
        end = -(-(begin + size) // CHUNK_BYTES) * CHUNK_BYTES
        rest = [(begin + size, end)] if begin + size < end else []
        return self._replace(top=end, free=(*free, *rest)), begin

    def with_free(self, extents: Iterable[Extent]) -> Extents:
        """Return the extents with more free extents, merged if adjacent."""
        free: list[Extent] = []
        for begin, end in sorted([*self.free, *extents]):
            if free and free[-1][1] == begin:
                free[-1] = (free[-1][0], end)
            else:
                free.append((begin, end))
        return self._replace(free=tuple(free))

    def with_chunks(self, size: int, chunks: int) -> Extents:
        """Return the extents with more chunks for blocks of ``size`` bytes."""
        count = self.chunks.get(size, 0) + chunks
        return self._replace(chunks=self.chunks | {size: count})


class Heap:
    """The memory from ``base`` on, in blocks aligned to 64 bytes.

    Args:
        base: The address at which it begins.
        grow: A function that makes memory usable up to an address, or raises
            MemoryError.

    Attributes:
        small: The bins for sizes up to ``SMALL_MAX_BYTES``, by the size in units of 64
            bytes.
        peak: The peak of the bytes in use, updated when memory is cut.

    """

    def __init__(self, base: int, grow: Callable[[int], None]) -> None:
        self._base = -(-base // CHUNK_BYTES) * CHUNK_BYTES
        self._grow = grow
        self._extents = Extents(self._base, (), {})
        self._bins: dict[int, Bin] = {}
        self.peak = 0
        classes = [
            rounded(n, ALIGNMENT) for n in range(0, SMALL_MAX_BYTES + 1, ALIGNMENT)
        ]
        self.small = [self._bins.setdefault(size, []) for size in classes]

    def bin(self, nbytes: int) -> Bin:
        """Return the bin for blocks of ``nbytes``, which may be empty."""
        if nbytes <= SMALL_MAX_BYTES:
            return self.small[(nbytes + ALIGNMENT - 1) // ALIGNMENT]
        return self._bins.setdefault(rounded(nbytes, PAGE), [])

    def fill(self, nbytes: int) -> None:
        """Put blocks into the bin for ``nbytes`` if it is empty; the lock must be held.

        Raises:
            MemoryError: There is not enough memory; the message contains the sizes.

        """
        found = self.bin(nbytes)
        if found:
            return
        while not found:
            if nbytes > SMALL_MAX_BYTES:
                before, after, at = self._cut(rounded(nbytes, PAGE), PAGE)
                begins = range(at, at + 1)
            else:
                size = rounded(nbytes, ALIGNMENT)
                before, after, at = self._cut(CHUNK_BYTES, CHUNK_BYTES)
                after = after.with_chunks(size, 1)
                begins = range(at, at + CHUNK_BYTES - size + 1, size)
            blocks = [Block(begin, found) for begin in begins]
            self._commit(found, [], blocks, before, after)
        self.peak = max(self.peak, self.used())

    def _commit(
        self, found: Bin, old: Bin, new: Bin, before: Extents, after: Extents
    ) -> bool:
        """Replace a bin and the extents if neither has changed; return whether it did.

        Nothing else can run between the comparisons and the end: there is no call, no
        backward jump and no allocation of a container.
        """
        if found != old or self._extents is not before:
            return False
        found[_ALL] = new
        self._extents = after
        return True

    # --- extents -----------------------------------------------------------------

    def _cut(self, size: int, alignment: int) -> tuple[Extents, Extents, int]:
        """Cut ``size`` bytes; return the extents before and after, and the address."""
        before = self._extents
        cut = before.cut_free(size, alignment)
        if cut is None:
            self._gather_large()
            before = self._extents
            cut = before.cut_free(size, alignment) or self._enlarge(
                before, size, alignment
            )
        if cut is None:
            self._gather_small()
            before = self._extents
            cut = before.cut_free(size, alignment)
        if cut is None:
            raise MemoryError(
                f"wasm: no memory for {size:,} bytes: {self.used():,} are in use, of "
                f"{self.size():,} in all, and linear memory does not grow any further "
                "(it ends at 4 GiB); drop or dispose tensors that are not needed"
            )
        return before, *cut

    def _enlarge(
        self, before: Extents, size: int, alignment: int
    ) -> tuple[Extents, int] | None:
        after, at = before.cut_at_top(size, alignment)
        try:
            self._grow(after.top)
        except MemoryError:
            return None
        return after, at

    def _gather_large(self) -> None:
        """Turn all free large blocks into extents."""
        for size in list(self._bins):
            if size > SMALL_MAX_BYTES:
                self._gather(size)

    def _gather_small(self) -> None:
        """Turn chunks whose blocks are all free into extents."""
        for size in self._extents.chunks:
            self._gather(size)

    def _gather(self, size: int) -> None:
        """Turn free blocks of a size into extents."""
        found = self._bins[size]
        for _ in range(GATHER_ATTEMPTS):
            before, old = self._extents, found[_ALL]
            if not old:
                return
            if size > SMALL_MAX_BYTES:
                gone, rest = old, []
                after = before.with_free([(b.pointer, b.pointer + size) for b in gone])
            else:
                whole = _whole_chunks(old, size)
                gone = [b for b in old if b.pointer // CHUNK_BYTES in whole]
                rest = [b for b in old if b.pointer // CHUNK_BYTES not in whole]
                after = before.with_free(
                    [(c * CHUNK_BYTES, (c + 1) * CHUNK_BYTES) for c in whole]
                )
                after = after.with_chunks(size, -len(whole))
            if self._commit(found, old, rest, before, after):
                for block in gone:
                    del block.free  # breaks a cycle: it refers to the block
                return

    # --- statistics -----------------------------------------------------------------

    def used(self) -> int:
        """Return the bytes of the blocks in use."""
        top, extents, chunks = self._extents
        tails = sum([count * (CHUNK_BYTES % size) for size, count in chunks.items()])
        binned = sum([size * len(self._bins[size]) for size in list(self._bins)])
        free = sum([end - begin for begin, end in extents])
        return top - self._base - free - tails - binned

    def size(self) -> int:
        """Return the bytes of linear memory that the heap covers; it never shrinks."""
        return self._extents.top - self._base

    def trim(self) -> None:
        """Merge all free extents."""
        self._gather_large()
        self._gather_small()


def _whole_chunks(blocks: Bin, size: int) -> set[int]:
    """Return the indices of the chunks whose blocks are all among ``blocks``."""
    count: dict[int, int] = {}
    for block in blocks:
        chunk = block.pointer // CHUNK_BYTES
        count[chunk] = count.get(chunk, 0) + 1
    return {chunk for chunk, n in count.items() if n == CHUNK_BYTES // size}
