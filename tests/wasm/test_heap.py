"""The allocator: its blocks lie apart, are used again, and come together again."""

import itertools
import random

import pytest

heap = pytest.importorskip("plugrad_wasm.heap", reason="plugrad-wasm is not installed")

LIMIT = 1 << 24


class Blocks:
    """A heap of 16 MiB, and the blocks that are in use."""

    def __init__(self, base=1000):
        self.end = 0
        self.heap = heap.Heap(base, self.grow)
        self.used = {}

    def grow(self, end):
        if end > LIMIT:
            raise MemoryError(f"no more than {LIMIT}")
        self.end = max(self.end, end)

    def take(self, nbytes):
        address = self.heap.take(nbytes)
        assert address % heap.ALIGNMENT == 0
        assert 1000 <= address <= self.end - nbytes
        self.used[address] = nbytes
        return address

    def take_all(self, nbytes):
        while True:
            self.take(nbytes)

    def free(self, address):
        self.heap.bin(self.used.pop(address)).append(address)

    def apart(self):
        ends = sorted((a, a + n) for a, n in self.used.items())
        return all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))


def test_blocks_of_all_sizes_lie_apart():
    blocks, rng = Blocks(), random.Random(1)
    for _ in range(3000):
        if blocks.used and rng.random() < 0.5:
            blocks.free(rng.choice(list(blocks.used)))
        else:
            blocks.take(int(2 ** rng.uniform(0, 18)))
    assert blocks.apart()
    held = sum(blocks.used.values())
    assert held <= blocks.heap.used() <= blocks.heap.size()
    assert blocks.heap.used() <= 1.3 * held + 64 * len(blocks.used)
    assert blocks.heap.peak >= blocks.heap.used()
    for address in list(blocks.used):
        blocks.free(address)
    assert blocks.heap.used() == 0


@pytest.mark.parametrize("nbytes", [0, 1, 64, 65, 1000, 16384, 16385, 100_000, 3 << 20])
def test_a_block_is_used_again(nbytes):
    blocks = Blocks()
    first = blocks.take(nbytes)
    blocks.free(first)
    size = blocks.heap.size()
    for _ in range(100):
        address = blocks.take(nbytes)
        blocks.free(address)
    assert blocks.heap.size() == size


def test_no_class_wastes_more_than_a_quarter():
    for nbytes in [*range(256, 5000, 7), *range(5000, 1 << 20, 999)]:
        unit = heap.ALIGNMENT if nbytes <= heap.SMALL else heap.PAGE
        assert nbytes <= heap.rounded(nbytes, unit) <= max(1.25 * nbytes, nbytes + unit)


def test_everything_is_free_for_something_else():
    """Small blocks, then large ones, then one of nearly all, and small ones again."""
    blocks = Blocks()
    for nbytes in (64, 1000, 16384, 100_000, 15 << 20, 64):
        with pytest.raises(MemoryError, match=r"no room for [\d,]+ bytes: [\d,]+ are"):
            blocks.take_all(nbytes)
        assert blocks.apart()
        assert sum(blocks.used.values()) > 0.8 * (LIMIT - (1 << 16)) - nbytes
        for address in list(blocks.used):
            blocks.free(address)
        assert blocks.heap.used() == 0


def test_a_chunk_with_one_block_in_use_stays():
    blocks = Blocks()
    addresses = [blocks.take(1000) for _ in range(64)]
    kept = addresses[7]
    for address in addresses:
        if address != kept:
            blocks.free(address)
    blocks.heap.trim()
    blocks.take(1 << 20)
    assert blocks.apart()
    assert blocks.take(1000) // heap.CHUNK == kept // heap.CHUNK


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
