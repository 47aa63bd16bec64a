"""The buffer pool, tested without a device."""

import gc
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
    """A fake device that fails to allocate more than ``room`` bytes at a time.

    The system has ``system`` bytes. As in PoCL, the device takes them when kernels run.
    """

    def __init__(self, room=1 << 40, system=1 << 40):
        self.room = room
        self.buffers = []
        self.finished = 0
        self.left = self.system = system

    def allocate(self, size):
        if size + sum(b.size for b in self.buffers if not b.released) > self.room:
            raise MemoryError("no room")
        self.buffers.append(Buffer(size))
        return self.buffers[-1]

    def finish(self):
        self.finished += 1
        used = sum(b.size for b in self.buffers if not b.released)
        self.left = self.system - used

    def pool(self, limit=1 << 30, largest=1 << 40, total=1 << 40):
        bounds = {"limit": limit, "largest": largest, "total": total}
        return pool.Pool(self.allocate, self.finish, left=lambda: self.left, **bounds)


def test_a_returned_buffer_is_reused():
    device = Device()
    buffer_pool = device.pool()
    buffer = buffer_pool.take(1000)
    buffer_pool.give(buffer)
    assert buffer_pool.idle() == buffer.size >= 1000
    assert buffer_pool.take(999) is buffer
    assert buffer_pool.idle() == 0
    assert buffer_pool.held == buffer_pool.peak == buffer.size
    assert device.finished == 0


@pytest.mark.parametrize("nbytes", [0, 5000, 1 << 20, 3 << 21])
def test_a_buffer_that_a_finalizer_returns_is_reused(nbytes):
    buffer_pool = Device().pool()
    buffer, give_back = buffer_pool.lend(nbytes)
    assert type(give_back) is type([].append)  # runs no Python code, so no signals
    give_back(buffer)
    assert buffer_pool.idle() == buffer_pool.held == buffer.size
    assert buffer_pool.lend(nbytes)[0] is buffer
    assert buffer_pool.idle() == 0


def test_idle_bytes_are_not_counted_below_the_limit(monkeypatch):
    buffer_pool = Device().pool(limit=8 << 20)
    taken = [buffer_pool.take(1 << 20) for _ in range(9)]
    buffer_pool.give(taken.pop())  # counts: with 9 MiB, over 8 may be idle
    buffer_pool.empty()
    monkeypatch.setattr(buffer_pool, "_idle_bytes", lambda: pytest.fail("counted"))
    for buffer in taken:
        buffer_pool.give(buffer)


@pytest.mark.parametrize("nbytes", [0, 1, 255, 257, 4096, 4097, 10**6 + 1, 2**30 - 3])
def test_size_classes_waste_at_most_a_quarter(nbytes):
    size = Device().pool().take(nbytes).size
    assert nbytes <= size <= nbytes * 1.25 + 256


def test_the_limit_applies_to_idle_buffers():
    device = Device()
    buffer_pool = device.pool(limit=4 << 20)
    taken = [buffer_pool.take(1 << 20) for _ in range(16)]
    assert buffer_pool.held == 16 << 20
    for buffer in taken:
        buffer_pool.give(buffer)
    assert buffer_pool.idle() <= 4 << 20
    assert buffer_pool.held == buffer_pool.idle()
    assert not device.finished, "dropping tensors waited for the device"


def test_small_buffers_are_trimmed_at_the_next_allocation():
    buffer_pool = Device().pool(limit=1000)
    for buffer in [buffer_pool.take(256) for _ in range(100)]:
        buffer_pool.give(buffer)
    buffer_pool.take(512)
    assert buffer_pool.idle() <= 1000


def test_idle_buffers_are_released_when_memory_runs_out():
    device = Device(room=10 << 20)
    buffer_pool = device.pool()
    buffer_pool.give(buffer_pool.take(8 << 20))
    assert buffer_pool.take(5 << 20).size == 5 << 20
    assert device.buffers[0].released


def test_the_memory_error_says_how_much_is_in_use():
    buffer_pool = Device(room=10 << 20).pool()
    buffer = buffer_pool.take(8 << 20)
    with pytest.raises(
        MemoryError, match=f"{5 << 20:,} bytes in addition to {buffer.size:,}"
    ):
        buffer_pool.take(5 << 20)


def test_more_than_the_largest_buffer_is_an_error():
    with pytest.raises(MemoryError, match="more than the device's largest buffer"):
        Device().pool(largest=1 << 20).take(1 << 21)


UNIT = 64 << 20


@pytest.mark.parametrize("size", [UNIT // 8, 200_000])  # also many small buffers
@pytest.mark.parametrize("bound", ["system", "total"])
def test_the_pool_lends_no_more_than_there_is(bound, size, monkeypatch):
    monkeypatch.setattr(pool, "RESERVED_BYTES", UNIT)
    device = Device(system=4 * UNIT if bound == "system" else 1 << 40)
    buffer_pool = device.pool(total=4 * UNIT if bound == "total" else 1 << 40)
    buffers = []

    def fill():
        while buffer_pool.held < 8 * UNIT:
            buffers.append(buffer_pool.take(size))

    with pytest.raises(MemoryError, match=r"opencl: no memory for .* bytes in"):
        fill()
    spare = UNIT if size > buffer_pool.large else UNIT // 4
    usable = 4 * UNIT - spare
    assert (
        usable - buffer_pool.large - buffers[0].size
        <= buffer_pool.held
        <= usable + buffer_pool.large
    )
    assert buffer_pool.peak == buffer_pool.held
    for buffer in buffers:
        buffer_pool.give(buffer)
    assert buffer_pool.take(2 * UNIT).size == 2 * UNIT  # the pool still works


def test_a_full_system_leaves_memory_for_small_work(monkeypatch):
    monkeypatch.setattr(pool, "RESERVED_BYTES", UNIT)
    buffer_pool = Device(system=4 * UNIT).pool()
    buffers = [buffer_pool.take(UNIT) for _ in range(3)]
    with pytest.raises(MemoryError, match=rf"\(the system has {UNIT:,} bytes left"):
        buffer_pool.take(UNIT // 4)
    assert buffer_pool.take(4096).size == 4096
    assert len(buffers) == 3


def test_memory_in_use_is_not_counted_twice(monkeypatch):
    """Two units are used repeatedly, and the system has memory for three."""
    monkeypatch.setattr(pool, "RESERVED_BYTES", 0)
    device = Device(system=3 * UNIT)
    buffer_pool = device.pool(limit=0)
    for _ in range(20):
        buffers = [buffer_pool.take(UNIT), buffer_pool.take(UNIT)]
        device.finish()
        for buffer in buffers:
            buffer_pool.give(buffer)
    assert buffer_pool.held == 0


# --- finalizers ---------------------------------------------------------------------


class Dropped:
    """An object in a cycle, which gives a buffer back when it is collected."""

    def __init__(self, buffer_pool, size):
        self.buffer_pool = buffer_pool
        self.size = size
        self.me = self

    def __del__(self):
        self.buffer_pool.give(Buffer(self.size))


@pytest.mark.parametrize(
    "work",
    [
        lambda buffer_pool: buffer_pool.idle(),
        lambda buffer_pool: buffer_pool.take(1 << 21),
        lambda buffer_pool: buffer_pool.give(Buffer(1 << 22)),
        lambda buffer_pool: buffer_pool.empty(),
    ],
    ids=["idle", "take", "give", "empty"],
)
def test_arrays_may_be_collected_at_any_allocation(work):
    """Each array adds a size class; each allocation of ``work`` starts a collection."""
    before = gc.get_threshold()
    gc.freeze()
    try:
        for allocations in range(1, 60):
            gc.collect()
            gc.disable()
            buffer_pool = Device().pool(limit=1 << 20)
            buffer_pool.held = 1 << 30  # makes the pool count idle bytes
            for i in range(50):
                buffer_pool.give(Buffer(1000 + i))
            for i in range(5):
                Dropped(buffer_pool, 5000 + i)
            gc.set_threshold(gc.get_count()[0] + allocations)
            gc.enable()
            work(buffer_pool)
    finally:
        gc.set_threshold(*before)
        gc.enable()


def ends_in_time(work):
    """Run ``work`` in a thread; return whether it has ended within 20 seconds."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


@pytest.mark.parametrize("place", ["allocate", "finish", "release"])
def test_a_finalizer_that_runs_ops_does_not_wait_for_its_own_thread(place):
    """The finalizer runs in ``place``, takes buffers of other sizes and returns one."""
    device = Device(room=10 << 20)
    buffer_pool = device.pool(limit=1 << 20)
    taken, entered = [], []

    def finalize():
        if not entered:
            entered.append(place)
            taken.append(buffer_pool.take(300_000))
            buffer_pool.give(buffer_pool.take(2 << 20))

    def after_finalizer(work):
        def finalize_and_work(*args):
            finalize()
            return work(*args)

        return finalize_and_work

    if place == "release":
        idle = Buffer(4 << 20)
        idle.release = after_finalizer(idle.release)
        buffer_pool._idle[idle.size] = [idle]
    else:
        setattr(buffer_pool, f"_{place}", after_finalizer(getattr(device, place)))

    def work():
        buffers = [buffer_pool.take(3 << 20) for _ in range(3)]
        with pytest.raises(MemoryError):
            buffer_pool.take(3 << 20)
        assert len({id(b) for b in (*buffers, *taken)}) == 4

    assert ends_in_time(work), "it waits for a lock that its own thread holds"
    assert entered == [place]


def test_a_finalizer_does_not_wait_for_another_thread():
    buffer_pool = Device().pool(limit=0)
    buffer = buffer_pool.take(2 << 20)
    with buffer_pool.lock:
        assert ends_in_time(lambda: buffer_pool.give(buffer)), "it waits for the lock"
    assert buffer_pool.idle() == buffer.size
    buffer_pool.give(Buffer(1 << 20))  # returning the next buffer trims the pool
    assert buffer_pool.idle() == 0


def test_threads_never_share_a_buffer():
    buffer_pool = Device().pool(limit=1 << 21)
    in_use = set()
    shared = []

    def work():
        for i in range(2000):
            buffer = buffer_pool.take(1 << (8 + i % 14))
            if buffer in in_use:
                shared.append(buffer)
            in_use.add(buffer)
            in_use.discard(buffer)
            buffer_pool.give(buffer)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not shared
    buffer_pool.empty()
    assert (buffer_pool.idle(), buffer_pool.held) == (0, 0)


@pytest.mark.parametrize(
    ("setting", "nbytes"), [("0", 0), ("1000", 1000), ("2k", 2048), ("1GB", 2**30)]
)
def test_the_limit_from_the_environment(monkeypatch, setting, nbytes):
    monkeypatch.setenv("PLUGRAD_OPENCL_POOL", setting)
    assert pool.limit(1 << 40) == nbytes


def test_an_invalid_limit(monkeypatch):
    monkeypatch.setenv("PLUGRAD_OPENCL_POOL", "much")
    with pytest.raises(ValueError, match="PLUGRAD_OPENCL_POOL=much: give bytes"):
        pool.limit(1 << 40)


def test_the_default_limit_is_a_quarter(monkeypatch):
    monkeypatch.delenv("PLUGRAD_OPENCL_POOL", raising=False)
    assert pool.limit(1 << 40) == 1 << 38


def test_pinned_buffers_are_neither_lent_nor_released():
    device = Device()
    buffer_pool = device.pool()
    pinned, other = [buffer_pool.take(1000) for _ in range(2)]
    unpin = buffer_pool.pin([pinned])
    unpin_again = buffer_pool.pin([pinned, other])
    for buffer in (other, pinned):
        buffer_pool.give(buffer)
    assert buffer_pool.take(1000) not in (pinned, other)
    buffer_pool.empty()
    assert not pinned.released
    assert not other.released
    unpin([pinned])
    assert buffer_pool.take(1000) is not pinned
    unpin_again([pinned, other])
    assert {id(buffer_pool.take(1000)) for _ in range(2)} == {id(pinned), id(other)}


def test_a_pinned_buffer_in_use_stays_in_use():
    buffer_pool = Device().pool()
    buffer = buffer_pool.take(1000)
    unpin = buffer_pool.pin([buffer])
    unpin([buffer])
    assert buffer_pool.take(1000) is not buffer
    buffer_pool.give(buffer)
    assert buffer_pool.take(1000) is buffer
