"""The pool of buffers, without a device."""

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
    """Counts what it gives; fails when more than ``room`` bytes are out.

    Like PoCL it takes memory from the system, ``system`` bytes, when kernels run.
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


def test_what_comes_back_is_given_again():
    device = Device()
    made = device.pool()
    buffer = made.take(1000)
    made.give(buffer)
    assert made.idle() == buffer.size >= 1000
    assert made.take(999) is buffer
    assert (made.idle(), made.held, made.peak) == (0, buffer.size, buffer.size)
    assert device.finished == 0


@pytest.mark.parametrize("nbytes", [0, 5000, 1 << 20, 3 << 21])
def test_what_a_finalizer_appends_is_given_again(nbytes):
    made = Device().pool()
    buffer, give_back = made.lend(nbytes)
    assert type(give_back) is type([].append)  # no Python code, which is interruptible
    give_back(buffer)
    assert made.idle() == made.held == buffer.size
    assert made.lend(nbytes)[0] is buffer
    assert made.idle() == 0


def test_idle_buffers_are_not_counted_below_the_limit(monkeypatch):
    made = Device().pool(limit=8 << 20)
    taken = [made.take(1 << 20) for _ in range(9)]
    made.give(taken.pop())  # 9 MiB in all: counted, as more than 8 might be idle
    made.empty()
    monkeypatch.setattr(made, "_idle_bytes", lambda: pytest.fail("counted"))
    for buffer in taken:
        made.give(buffer)


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
    assert not device.finished, "dropping tensors waited for the device"


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
        MemoryError, match=f"{5 << 20:,} bytes in addition to {held.size:,}"
    ):
        made.take(5 << 20)


def test_more_than_the_device_gives_at_once():
    with pytest.raises(MemoryError, match="more than the device's largest buffer"):
        Device().pool(largest=1 << 20).take(1 << 21)


UNIT = 64 << 20


@pytest.mark.parametrize("size", [UNIT // 8, 200_000])  # small ones add up, too
@pytest.mark.parametrize("bound", ["system", "total"])
def test_no_more_is_promised_than_there_is(bound, size, monkeypatch):
    monkeypatch.setattr(pool, "RESERVED_BYTES", UNIT)
    device = Device(system=4 * UNIT if bound == "system" else 1 << 40)
    made = device.pool(total=4 * UNIT if bound == "total" else 1 << 40)
    held = []

    def fill():
        while made.held < 8 * UNIT:
            held.append(made.take(size))

    with pytest.raises(MemoryError, match=r"opencl: no memory for .* bytes in"):
        fill()
    spare = UNIT if size > made.large else UNIT // 4
    most = 4 * UNIT - spare
    assert most - made.large - held[0].size <= made.held <= most + made.large
    assert made.peak == made.held
    for buffer in held:
        made.give(buffer)
    assert made.take(2 * UNIT).size == 2 * UNIT  # and it goes on


def test_a_full_system_leaves_some_for_small_work(monkeypatch):
    monkeypatch.setattr(pool, "RESERVED_BYTES", UNIT)
    made = Device(system=4 * UNIT).pool()
    held = [made.take(UNIT) for _ in range(3)]
    with pytest.raises(MemoryError, match=rf"\(the system has {UNIT:,} bytes left"):
        made.take(UNIT // 4)
    assert made.take(4096).size == 4096
    assert len(held) == 3


def test_what_is_in_use_already_is_not_counted_twice(monkeypatch):
    """All of it is written to, again and again; the system has room for 3."""
    monkeypatch.setattr(pool, "RESERVED_BYTES", 0)
    device = Device(system=3 * UNIT)
    made = device.pool(limit=0)
    for _ in range(20):
        held = [made.take(UNIT), made.take(UNIT)]
        device.finish()
        for buffer in held:
            made.give(buffer)
    assert made.held == 0


# --- finalizers ---------------------------------------------------------------------


class Dropped:
    """In a cycle, so that only the collector finds it; then it gives a buffer back."""

    def __init__(self, made, size):
        self.made = made
        self.size = size
        self.me = self

    def __del__(self):
        self.made.give(Buffer(self.size))


@pytest.mark.parametrize(
    "work",
    [
        lambda made: made.idle(),
        lambda made: made.take(1 << 21),
        lambda made: made.give(Buffer(1 << 22)),
        lambda made: made.empty(),
    ],
    ids=["idle", "take", "give", "empty"],
)
def test_arrays_may_be_dropped_at_any_allocation(work):
    """Each adds a size class, at one allocation after the other of ``work``."""
    before = gc.get_threshold()
    gc.freeze()
    try:
        for late in range(1, 60):
            gc.collect()
            gc.disable()
            made = Device().pool(limit=1 << 20)
            made.held = 1 << 30  # so that it counts what is idle
            for i in range(50):
                made.give(Buffer(1000 + i))
            for i in range(5):
                Dropped(made, 5000 + i)
            gc.set_threshold(gc.get_count()[0] + late)
            gc.enable()
            work(made)
    finally:
        gc.set_threshold(*before)
        gc.enable()


def ended(work):
    """Run ``work`` in a thread; tell whether it has ended soon."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


@pytest.mark.parametrize("place", ["allocate", "finish", "release"])
def test_a_finalizer_that_runs_ops_does_not_wait_for_its_own_thread(place):
    """It is called in the middle, takes buffers of other classes, and gives one."""
    device = Device(room=10 << 20)
    made = device.pool(limit=1 << 20)
    taken, entered = [], []

    def meanwhile():
        if not entered:
            entered.append(place)
            taken.append(made.take(300_000))
            made.give(made.take(2 << 20))

    def then(work):
        def both(*args):
            meanwhile()
            return work(*args)

        return both

    if place == "release":
        idle = Buffer(4 << 20)
        idle.release = then(idle.release)
        made._idle[idle.size] = [idle]
    else:
        setattr(made, f"_{place}", then(getattr(device, place)))

    def work():
        held = [made.take(3 << 20) for _ in range(3)]
        with pytest.raises(MemoryError):
            made.take(3 << 20)
        assert len({id(b) for b in (*held, *taken)}) == 4

    assert ended(work), "it waits for a lock that its own thread has"
    assert entered == [place]


def test_a_finalizer_does_not_wait_for_another_thread():
    made = Device().pool(limit=0)
    buffer = made.take(2 << 20)
    with made.lock:
        assert ended(lambda: made.give(buffer)), "it waits for the lock"
    assert made.idle() == buffer.size
    made.give(Buffer(1 << 20))  # the next one makes up for it
    assert made.idle() == 0


def test_threads_never_share_a_buffer():
    made = Device().pool(limit=1 << 21)
    out = set()
    twice = []

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
