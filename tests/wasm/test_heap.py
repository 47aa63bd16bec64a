"""The allocator: blocks do not overlap, are reused, and are merged again."""

import itertools
import random
import sys
import threading

import pytest

heap = pytest.importorskip("plugrad_wasm.heap", reason="plugrad-wasm is not installed")

LIMIT = 1 << 24


class Blocks:
    """A heap of 16 MiB, and the blocks that are in use."""

    def __init__(self, limit=LIMIT):
        self.end, self.limit = 0, limit
        self.heap = heap.Heap(1000, self.grow)
        self.used, self.blocks = {}, {}

    def grow(self, end):
        if end > self.limit:
            raise MemoryError(f"no more than {self.limit}")
        self.end = max(self.end, end)

    def take(self, nbytes):
        self.heap.fill(nbytes)
        block = self.heap.bin(nbytes).pop()
        address = block.pointer
        assert address % heap.ALIGNMENT == 0
        assert 1000 <= address <= self.end - nbytes
        self.used[address], self.blocks[address] = nbytes, block
        return address

    def take_all(self, nbytes):
        while True:
            self.take(nbytes)

    def free(self, address):
        del self.used[address]
        self.blocks.pop(address).free()

    def free_extents(self):
        """Return the free ranges of bins and of extents."""
        bins = self.heap._bins.items()
        found = [(b.pointer, b.pointer + size) for size, blocks in bins for b in blocks]
        return [*found, *self.heap._extents.free]

    def are_disjoint(self, others=()):
        ends = sorted([*((a, a + n) for a, n in self.used.items()), *others])
        return all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))


def test_blocks_of_all_sizes_do_not_overlap():
    blocks = Blocks()
    rng = random.Random(1)
    for _ in range(3000):
        if blocks.used and rng.random() < 0.5:
            blocks.free(rng.choice(list(blocks.used)))
        else:
            blocks.take(int(2 ** rng.uniform(0, 18)))
    assert blocks.are_disjoint()
    used_bytes = sum(blocks.used.values())
    assert used_bytes <= blocks.heap.used() <= blocks.heap.size()
    assert blocks.heap.used() <= 1.3 * used_bytes + 64 * len(blocks.used)
    assert blocks.heap.peak >= blocks.heap.used()
    for address in list(blocks.used):
        blocks.free(address)
    assert blocks.heap.used() == 0


@pytest.mark.parametrize("nbytes", [0, 1, 64, 65, 1000, 16384, 16385, 100_000, 3 << 20])
def test_a_block_is_reused(nbytes):
    blocks = Blocks()
    first = blocks.take(nbytes)
    blocks.free(first)
    size = blocks.heap.size()
    for _ in range(100):
        address = blocks.take(nbytes)
        blocks.free(address)
    assert blocks.heap.size() == size


def test_no_size_class_wastes_more_than_a_quarter():
    for nbytes in [*range(256, 5000, 7), *range(5000, 1 << 20, 999)]:
        unit = heap.ALIGNMENT if nbytes <= heap.SMALL_MAX_BYTES else heap.PAGE
        assert nbytes <= heap.rounded(nbytes, unit) <= max(1.25 * nbytes, nbytes + unit)


def test_free_memory_can_be_used_for_other_sizes():
    """The heap is filled with small, then large, then huge, then small blocks."""
    blocks = Blocks()
    for nbytes in (64, 1000, 16384, 100_000, 15 << 20, 64):
        with pytest.raises(
            MemoryError, match=r"no memory for [\d,]+ bytes: [\d,]+ are"
        ):
            blocks.take_all(nbytes)
        assert blocks.are_disjoint()
        assert sum(blocks.used.values()) > 0.8 * (LIMIT - (1 << 16)) - nbytes
        for address in list(blocks.used):
            blocks.free(address)
        assert blocks.heap.used() == 0


def test_a_chunk_with_one_used_block_stays():
    blocks = Blocks()
    addresses = [blocks.take(1000) for _ in range(64)]
    remaining = addresses[7]
    for address in addresses:
        if address != remaining:
            blocks.free(address)
    blocks.heap.trim()
    blocks.take(1 << 20)
    assert blocks.are_disjoint()
    assert blocks.take(1000) // heap.CHUNK_BYTES == remaining // heap.CHUNK_BYTES


def test_trim_joins_neighbours():
    blocks = Blocks()
    addresses = [blocks.take(1 << 20) for _ in range(8)]
    random.Random(1).shuffle(addresses)
    for address in addresses:
        blocks.free(address)
    size = blocks.heap.size()
    blocks.heap.trim()
    blocks.take(8 << 20)
    assert blocks.heap.size() == size


# --- interrupts in the code of the heap --------------------------------------------


class Stop(Exception):
    """Raised by a signal handler."""


def stop(blocks):
    raise Stop


def free_some(blocks):
    for address in list(blocks.used)[::2]:
        blocks.free(address)


def take_and_free(blocks):
    blocks.take(3000)
    for nbytes in (3000, 20_000, 50_000):
        blocks.free(blocks.take(nbytes))


def gather(blocks):
    blocks.heap.trim()


def during(function, action, number):
    """Run a function, and run an action at event ``number`` in the heap's code.

    Events are all calls, lines and returns, except those inside ``_commit``, where
    CPython runs no other code. Returns whether the event occurred.
    """

    def event(frame, kind, value):
        nonlocal number
        if frame.f_code.co_filename != heap.__file__:
            return None
        number -= 1
        if number == 0:
            sys.settrace(None)
            action()
        return None if frame.f_code.co_name == "_commit" else event

    try:
        sys.settrace(event)
        function()
    except (Stop, MemoryError):
        pass  # after the action there may be no room
    finally:
        sys.settrace(None)
    return number <= 0


def fragmented_heap():
    """Return a small heap in which nearly all blocks are free."""
    blocks = Blocks(limit=1 << 20)
    for nbytes in (300, 5000, 16384, 20_000, 70_000):
        for _ in range(5):
            blocks.take(nbytes)
    for address in list(blocks.used)[1:-1]:
        blocks.free(address)
    return blocks


@pytest.mark.parametrize("action", [stop, free_some, take_and_free, gather])
@pytest.mark.parametrize("nbytes", [1000, 100_000, 500_000])
def test_handlers_may_use_the_heap_at_any_moment(nbytes, action):
    """If a handler raises, takes or frees blocks, no block is lost or used twice.

    Blocks of these sizes come from a chunk, from behind the top, and from gathered
    memory.
    """
    number, happened = 0, True
    while happened:
        number += 1
        blocks = fragmented_heap()
        assert not blocks.heap.bin(nbytes)
        happened = during(
            lambda heap=blocks.heap: heap.fill(nbytes),
            lambda blocks=blocks: action(blocks),
            number,
        )
        assert blocks.heap.used() == sum(map(size_in_heap, blocks.used.values()))
        assert blocks.are_disjoint(blocks.free_extents())
        if action is not take_and_free:
            blocks.take(nbytes)
            assert blocks.are_disjoint(blocks.free_extents())
    assert number > 20


def size_in_heap(nbytes):
    return heap.rounded(
        nbytes, heap.ALIGNMENT if nbytes <= heap.SMALL_MAX_BYTES else heap.PAGE
    )


def test_used_bytes_can_be_read_while_another_thread_makes_bins():
    blocks = Blocks()
    stopped = threading.Event()

    def read():
        while not stopped.is_set():
            blocks.heap.used()

    thread = threading.Thread(target=read)
    thread.start()
    for nbytes in range(20_000, 4 << 30, 400_000):
        blocks.heap.bin(nbytes)
    stopped.set()
    thread.join()
