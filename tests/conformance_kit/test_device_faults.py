"""A device that leaks memory or reports wrong times fails the kit."""

import pytest

from .faults import Fault, assert_found

MEMORY = "backend.test_device_memory"
TIME = "backend.test_device_time"
FAILS = r"backend/test_device_{}.py::{}\[faulty\]"

POOL = """
class Pool:
    def __init__(self):
        self.held = self.idle = self.peak = 0

    def take(self, nbytes):
        if self.idle >= nbytes:
            self.idle -= nbytes
        else:
            self.held += nbytes
            self.peak = max(self.peak, self.held)

    def give(self, nbytes):
        self.idle += nbytes

pool = Pool()

class Native(np.ndarray):
    nbytes_of_block = 0

    def __del__(self):
        if self.nbytes_of_block:
            pool.give(self.nbytes_of_block)

def native(y):
    y = np.array(y).view(Native)
    y.nbytes_of_block = y.nbytes
    pool.take(y.nbytes)
    return y

Arrays.upload = lambda self, values: native(values)
def pooled(f):
    def g(*xs, **attrs):
        y = f(*[np.asarray(x) if isinstance(x, Native) else x for x in xs], **attrs)
        ys = y if isinstance(y, tuple | list) else [y]
        found = [native(x) for x in ys]
        return type(y)(found) if isinstance(y, tuple | list) else found[0]
    return g
wrap = options["wrap"]
options["wrap"] = lambda f: pooled(wrap(f))
"""
COUNTED = """
Arrays.peak = lambda self: pool.peak
Arrays.kept = lambda self: pool.idle
"""
# Handles whose finalizers destroy them, though the arrays return them for reuse.
HANDLES = """
class Handle:
    gone = False

    def __del__(self):
        self.gone = True

free = []

class Native(np.ndarray):
    def __del__(self):
        if handle := getattr(self, "handle", None):
            free.append(handle)

def upload(self, values):
    y = np.array(values).view(Native)
    y.handle = free.pop() if free else Handle()
    if y.handle.gone:
        raise RuntimeError("the buffer of this handle was destroyed")
    return y

Arrays.upload = upload
"""
CLOCK = """
import time
clock = {"on": False, "total": 0.0, "reported": 0.0}
matmul = kernels["BatchMatMul"]

def timed(a, b, **attrs):
    start = time.perf_counter()
    y = matmul(a, b, **attrs)
    if clock["on"]:
        clock["total"] += time.perf_counter() - start
    return y

kernels["BatchMatMul"] = timed
Arrays.time_device = lambda self, on: clock.update(on=on)
Arrays.device_seconds = lambda self: clock["total"]
"""
FAULTS = [
    Fault(
        "results that never return to the pool",
        POOL + COUNTED + "pool.give = lambda nbytes: None",
        (MEMORY,),
        FAILS.format("memory", "test_(a_thousand|no_primitive|cycles).*"),
        "buffers are lost",
    ),
    Fault(
        "a pool that reuses nothing",
        POOL + COUNTED + "Pool.take = lambda self, nbytes: None",
        (MEMORY,),
        FAILS.format("memory", "test_(a_thousand|no_primitive|cycles).*"),
        "buffers are not reused",
    ),
    Fault(
        "a pool without a peak that runs dry",
        POOL
        + """
pool.idle = 48 << 20
def take(nbytes):
    pool.idle = max(pool.idle - nbytes, 0)
pool.take, pool.give = take, lambda nbytes: None
Arrays.kept = lambda self: pool.idle
""",
        (MEMORY, "-k", "thousand or native"),
        FAILS.format("memory", "test_a_thousand.*"),
        "kept() fell from",
    ),
    Fault(
        "scratch memory that one primitive loses",
        POOL
        + COUNTED
        + """
sums = kernels["Sum"]
def leaking(x, **attrs):
    pool.take(x.nbytes)
    return sums(x, **attrs)
kernels["Sum"] = leaking
""",
        (MEMORY,),
        FAILS.format("memory", "test_no_primitive.*"),
        "{'Sum': 'peak() has grown by",
    ),
    Fault(
        "handles that are finalized with their arrays",
        HANDLES,
        (MEMORY, "-k", "native or opens_once", "backend.test_life"),
        FAILS.format("memory", "test_native_arrays_in_cycles_are_freed"),
        "the buffer of this handle was destroyed",
    ),
    Fault(
        "seconds since the last call",
        CLOCK
        + """
def since(self):
    clock["reported"], before = clock["total"], clock["reported"]
    return clock["total"] - before
Arrays.device_seconds = since
""",
        (TIME,),
        FAILS.format("time", "test_(it_is|asking|a_profile|the_time).*"),
        "assert 0.0 == ",
    ),
    Fault(
        "seconds that are counted several times",
        CLOCK + 'Arrays.device_seconds = lambda self: 4 * clock["total"]',
        (TIME,),
        FAILS.format("time", "test_(it_is|a_profile).*"),
        "more than the elapsed time",
    ),
    Fault(
        "seconds that are always zero",
        CLOCK + "Arrays.device_seconds = lambda self: 0.0",
        (TIME,),
        FAILS.format("time", "test_(it_is|a_profile).*"),
        "matrix products took no time",
    ),
    Fault(
        "a clock that never stops",
        CLOCK + "Arrays.device_seconds = lambda self: time.perf_counter()",
        (TIME,),
        FAILS.format("time", "test_(asking|the_time|it_is|a_profile).*"),
        "asking_again",
    ),
    Fault(
        "a measurement that cannot be ended",
        CLOCK + "Arrays.time_device = lambda self, on: clock.update(on=True)",
        (TIME,),
        FAILS.format("time", "test_the_time_while_nothing_measures.*"),
        "after - before",
    ),
    Fault(
        "device_seconds without time_device",
        "Arrays.device_seconds = lambda self: 0.0",
        (TIME, "backend.test_device_memory", "-k", "methods or native"),
        FAILS.format("time", "test_there_are_both_methods_or_neither"),
        "assert [False, True] in",
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_found(kit, fault):
    assert_found(kit, fault)


@pytest.mark.parametrize(
    "right", [POOL + COUNTED, POOL, CLOCK], ids=["pool", "no counts", "clock"]
)
def test_a_device_without_fault_passes(kit, right):
    kit.install(right)
    done = kit.run(MEMORY, TIME)
    assert done.returncode == 0, done.stdout + done.stderr
