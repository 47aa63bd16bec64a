"""The pool of buffers, without a device."""

import threading

import pytest

pool = pytest.importorskip("plugrad_opencl.pool")


class Buffer:
    def __init__(self, size):
        self.size, self.released = size, False

    def release(self):
        assert not self.released
        self.released = True


class Device:
    """Counts what it gives; fails when more than ``room`` bytes are out."""

    def __init__(self, room=1 << 40):
        self.room, self.buffers, self.finished = room, [], 0

    def allocate(self, size):
        if size + sum(b.size for b in self.buffers if not b.released) > self.room:
            raise MemoryError("no room")
        self.buffers.append(Buffer(size))
        return self.buffers[-1]

    def finish(self):
        self.finished += 1

    def pool(self, limit=1 << 30, largest=1 << 40, shared=False):
        return pool.Pool(
            self.allocate, self.finish, limit=limit, largest=largest, shared=shared
        )


def test_what_comes_back_is_given_again():
    device = Device()
    made = device.pool()
    buffer = made.take(1000)
    made.give(buffer)
    assert made.idle() == buffer.size >= 1000
    assert made.take(999) is buffer
    assert (made.idle(), made.held, made.peak) == (0, buffer.size, buffer.size)
    assert device.finished == 0


@pytest.mark.parametrize("nbytes", [0, 1, 255, 257, 4096, 4097, 10**6 + 1, 2**30 - 3])
def test_size_classes_waste_at_most_a_quarter(nbytes):
    size = Device().pool().take(nbytes).size
    assert nbytes <= size <= nbytes * 1.25 + 256


def test_the_limit_holds_for_what_is_idle():
    device = Device()
    made = device.pool(limit=4 << 20)
    taken = [made.take(1 << 20) for _ in range(16)]
    assert made.held == 16 << 20
    for buffer in taken:
        made.give(buffer)
    assert made.idle() <= 4 << 20
    assert made.held == made.idle()
    assert device.finished, "buffers that kernels may use were released"


def test_small_buffers_are_trimmed_at_the_next_allocation():
    made = Device().pool(limit=1000)
    for buffer in [made.take(256) for _ in range(100)]:
        made.give(buffer)
    made.take(512)
    assert made.idle() <= 1000


def test_when_memory_runs_out_idle_buffers_go_first():
    device = Device(room=10 << 20)
    made = device.pool()
    made.give(made.take(8 << 20))
    assert made.take(5 << 20).size == 5 << 20
    assert device.buffers[0].released


def test_then_the_error_says_what_is_in_use():
    made = Device(room=10 << 20).pool()
    held = made.take(8 << 20)
    with pytest.raises(
        MemoryError, match=f"{5 << 20:,} bytes beside the {held.size:,}"
    ):
        made.take(5 << 20)


def test_more_than_the_device_gives_at_once():
    with pytest.raises(MemoryError, match="more than the device gives at once"):
        Device().pool(largest=1 << 20).take(1 << 21)


def test_memory_of_the_host_is_not_promised_twice(monkeypatch):
    monkeypatch.setattr(pool, "_available", lambda: 1 << 30)
    made = Device().pool(shared=True)
    made.take(1 << 29)
    with pytest.raises(MemoryError, match="1,073,741,824 bytes left"):
        made.take(1 << 30)


def test_threads_never_share_a_buffer():
    made, out, twice = Device().pool(limit=1 << 21), set(), []

    def work():
        for i in range(2000):
            buffer = made.take(1 << (8 + i % 14))
            if buffer in out:
                twice.append(buffer)
            out.add(buffer)
            out.discard(buffer)
            made.give(buffer)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not twice
    made.empty()
    assert (made.idle(), made.held) == (0, 0)


@pytest.mark.parametrize(
    ("given", "bytes_"), [("0", 0), ("1000", 1000), ("2k", 2048), ("1GB", 2**30)]
)
def test_limit_of_the_environment(monkeypatch, given, bytes_):
    monkeypatch.setenv("PLUGRAD_OPENCL_POOL", given)
    assert pool.limit(1 << 40) == bytes_


def test_bad_limit(monkeypatch):
    monkeypatch.setenv("PLUGRAD_OPENCL_POOL", "much")
    with pytest.raises(ValueError, match="PLUGRAD_OPENCL_POOL=much: give bytes"):
        pool.limit(1 << 40)


def test_without_limit_a_quarter(monkeypatch):
    monkeypatch.delenv("PLUGRAD_OPENCL_POOL", raising=False)
    assert pool.limit(1 << 40) == 1 << 38
