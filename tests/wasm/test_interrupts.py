"""Signal handlers may raise anywhere, without a crash, a wrong value or a leak."""

import gc
import sys

import numpy as np
import pytest
from plugrad.plugin import runtime

from .processes import run

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")

# Raises a signal in the Python code between two pieces of a kernel, at the n-th call of
# the clock. There are three such calls before the kernel continues.
INJECT = """
    from plugrad_wasm import runtime as module

    class Stop({base}): pass
    class Second({base}): pass

    def stop(number, frame):
        raise Stop if number == signal.SIGUSR1 else Second

    signal.signal(signal.SIGUSR1, stop)
    signal.signal(signal.SIGUSR2, stop)
    real, left = time.perf_counter, [0]

    def clock():
        left[0] -= 1
        if left[0] == 0:
            for number in {signals}:
                signal.raise_signal(number)
        return real()

    module.perf_counter = clock
    x, ended = upload(np.zeros(4, np.uint32)), []
    for left[0] in (1, 2, 3, 4, 5) * 3:
        try:
            machine.kernel("test_forever")(x.pointer, {tiles})
        except (Stop, Second) as error:
            ended.append(error)
    print(len(ended), count())
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tiles", [0, 1 << 22])
@pytest.mark.parametrize("base", ["Exception", "KeyboardInterrupt"])
@pytest.mark.parametrize(
    "signals", ["[signal.SIGUSR1]", "[signal.SIGUSR1, signal.SIGUSR2]"]
)
def test_an_interrupt_between_two_pieces_of_a_kernel(threads, tiles, base, signals):
    """The handler of a second signal runs while the first one is being handled."""
    code = INJECT.format(base=base, signals=signals, tiles=tiles)
    assert run(threads, code) == ["15", "True"]


def test_no_stack_frame_is_left_for_the_check_of_signals():
    """Long kernels run at every depth of a recursion, up to the recursion limit."""
    found = run(
        1,
        """
        x = upload(np.zeros(4, np.uint32))
        kernel = machine.kernel("test_count")

        def deep():
            machine._until_poll.value = 1
            kernel(x.pointer, 4, 1)
            deep()

        sys.unraisablehook = lambda _: None  # reports that the check was impossible
        for limit in range(100, 110):
            sys.setrecursionlimit(limit)
            try:
                deep()
            except RecursionError:
                print(limit)
        sys.setrecursionlimit(1000)

        def stop(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGUSR1, stop)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        try:
            machine.kernel("test_forever")(x.pointer, 0)
        except KeyboardInterrupt:
            print(count())
        """,
    )
    assert found == [*map(str, range(100, 110)), "True"]


HAMMER = """
    import gc, random

    class Stop({base}): pass
    rng, on, strikes, done = random.Random(1), False, 0, 0

    def strike(*_):
        global strikes
        if on:
            strikes += 1
            signal.setitimer(signal.ITIMER_REAL, 5e-5 + rng.expovariate(100))
            raise Stop

    def work():
        global done
        while strikes < {strikes}:
            assert ((a @ a).numpy() == square).all()
            assert ((a + a).numpy() == double).all()
            done += 1

    def main():
        global on
        while strikes < {strikes}:
            try:
                on = True
                work()
            except Stop:
                pass

    signal.signal(signal.SIGALRM, strike)
    a = pg.asarray(np.random.default_rng(0).normal(size=(300, 300)), dtype="float32")
    square, double = np.array(a @ a), np.array(a + a)
    gc.collect()
    used = machine.heap.used()
    signal.setitimer(signal.ITIMER_REAL, 1e-3)
    while True:
        try:
            main()
            on = False
            break
        except Stop:
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert ((a @ a).numpy() == square).all()
    gc.collect()
    print(machine.heap.used() - used, count(), done > 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signal timers")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("base", ["Exception", "KeyboardInterrupt"])
def test_thousands_of_interrupts(threads, base, request):
    """Products of 300x300 are interrupted, and all their memory is freed."""
    strikes = 5_000 if request.config.getoption("all") else 400
    code = HAMMER.format(base=base, strikes=strikes)
    assert run(threads, code, timeout=600) == ["0", "True", "True"]


# --- a block and its owner -------------------------------------------------------


class Stop(Exception):
    """Raised by a signal handler."""


@pytest.fixture
def arrays():
    return runtime("wasm").arrays


def interrupted(function, number, ignored=()):
    """Run a function, raise at event ``number``, and return whether that happened.

    The events are the starts of Python functions and the ends of C functions. Except
    for backward jumps, CPython runs signal handlers only there. Functions named in
    ``ignored`` have no events. Garbage collection is off, because Python ignores errors
    in its callbacks, such as that of hypothesis.
    """

    def event(frame, kind, value):
        nonlocal number
        if kind in ("call", "c_return") and frame.f_code.co_name not in ignored:
            number -= 1
            if number == 0:
                raise Stop

    gc.disable()
    try:
        sys.setprofile(event)
        function()
    except Stop:
        return True
    finally:
        sys.setprofile(None)
        gc.enable()
    return False


@pytest.mark.parametrize("size", [10, 5000, 500_000])
def test_no_block_is_lost_wherever_an_interrupt_occurs(size, arrays):
    """Arrays are created, in free blocks or new ones, and dropped."""
    from plugrad_wasm.arrays import empty

    machine = arrays.machine
    dtype = np.dtype("float32")
    heap = machine.heap

    def make_and_drop():
        arrays_ = [empty(machine, (size,), dtype) for _ in range(3)]
        arrays_.clear()

    make_and_drop()
    gc.collect()
    used = heap.used()
    for before in (lambda: None, heap.trim):
        number = 1
        before()
        while interrupted(make_and_drop, number):
            assert heap.used() == used, number
            number += 1
            before()
        assert number > 10


class First(Exception):
    """Raised by the handler of an earlier signal, while a kernel ran."""


def test_an_interrupt_while_another_one_ends_a_kernel(arrays, monkeypatch):
    """Wherever the interrupt occurs, the same kernel can be called again."""
    from plugrad_wasm import runtime as module

    machine, armed, found = arrays.machine, False, []
    kernel = machine.kernel("test_forever")
    x = arrays.upload(np.zeros(4, np.uint32))

    def clock():
        nonlocal armed
        if armed:
            armed = False
            raise First
        return 0.0

    def end():
        nonlocal armed
        armed, machine._until_poll.value = True, 1
        try:
            kernel(x.pointer, 1 << 12)
        except First as error:
            found.append(error)
        finally:
            armed = False

    monkeypatch.setattr(module, "perf_counter", clock)
    number = 1
    while interrupted(end, number, ("_watching", "clock", "end")):
        kernel(x.pointer, 1)
        number += 1
    assert number > 3
    assert found


def test_an_array_without_a_block_frees_nothing(arrays):
    """An exception may leave such an array, and its finalizer must not fail."""
    from plugrad_wasm.arrays import WasmOwner

    gc.collect()
    used = arrays.machine.heap.used()
    object.__new__(WasmOwner)
    gc.collect()
    assert arrays.machine.heap.used() == used
