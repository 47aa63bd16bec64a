"""The machine: calls, memory, and everything that may go wrong while a kernel runs."""

import gc
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from .processes import run

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")

FLOAT32 = np.dtype(np.float32)
THREADS = [1, 2, 3]


@pytest.fixture
def arrays():
    return runtime("wasm").arrays


# --- threads ---------------------------------------------------------------------


@pytest.mark.parametrize("threads", THREADS)
def test_each_item_is_processed_once(threads):
    assert run(
        threads,
        """
        x = upload(np.zeros(100_000, np.uint32))
        kernel = machine.kernel("test_count")
        for grain in (1, 7, 1000, 99_999, 100_000, 1 << 31):
            kernel(x.pointer, 100_000, grain)
        assert (download(x) == 6 * np.arange(100_000)).all()
        print(threading.active_count())
        """,
    ) == [str(threads)]


def test_the_number_of_threads_is_checked_when_the_backend_opens():
    for bad in ("0", "65", "two", "-1", "1.5", ""):
        code = """
            import plugrad as pg
            try:
                pg.set_backend("wasm")
            except pg.BackendUnavailable as error:
                print(error.__cause__)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**os.environ, "PLUGRAD_WASM_THREADS": bad},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"PLUGRAD_WASM_THREADS={bad}: use a number from 1 to 64\n"


@pytest.mark.parametrize("threads", [1, 2])
def test_python_threads_take_turns(threads):
    assert run(
        threads,
        """
        def work(seed):
            x = np.random.default_rng(seed).normal(size=20_000).astype(np.float32)
            for _ in range(50):
                with pg.use_backend("wasm"):
                    y = pg.asarray(x) + pg.asarray(x) * 2.0
                right.append(bool((y.numpy() == x + x * 2).all()))

        right = []
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(len(right), all(right))
        """,
    ) == ["200", "True"]


# --- memory ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float64", "complex128"])
def test_downloads_return_the_uploaded_values(dtype, arrays):
    for shape in ((), (0,), (3,), (2, 3, 4), (1000, 33)):
        x = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype)
        for values in (x, x.T, x[..., ::-1] if shape else x):
            native = arrays.upload(values)
            assert (native.shape, native.dtype) == (values.shape, values.dtype)
            assert native.pointer % 64 == 0
            np.testing.assert_array_equal(arrays.download(native), values)


def test_every_nonzero_byte_of_a_bool_becomes_one(arrays):
    """Files and buffers of other libraries may contain such bytes."""
    x = np.frombuffer(b"\7\0\xff\1\0\200", bool).reshape(2, 3)
    for values in (x, x.T, x[:, ::-1], x[0, 0]):
        found = arrays.download(arrays.upload(values))
        truth = values.view(np.uint8) != 0
        np.testing.assert_array_equal(found.view(np.uint8), truth.view(np.uint8))
    with pg.use_backend("wasm"):
        t = pg.asarray(x[0])
        assert (t == pg.asarray([True, False, True])).tolist() == [True] * 3
        assert (~t).tolist() == [False, True, False]
        assert pg.sum(pg.astype(t, "int32")).item() == pg.count_nonzero(t).item() == 2
        assert (t * 1.0).tolist() == [1, 0, 1]


def test_a_download_shares_the_memory_and_keeps_it_alive(arrays):
    native = arrays.upload(np.arange(1000.0))
    y = arrays.download(native)
    assert not y.flags.writeable
    assert not y.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        y[0] = 1
    part = y[10:20]
    del native, y
    gc.collect()
    others = [arrays.upload(np.zeros(1000)) for _ in range(100)]
    assert part.tolist() == list(range(10, 20))
    del others


def test_a_view_keeps_its_owner_alive(arrays):
    machine = arrays.machine
    before = machine.heap.used()
    view = arrays.upload(np.arange(6.0)).view((2, 3)).view((3,), 3)
    others = [arrays.upload(np.zeros(6)) for _ in range(10)]
    assert arrays.download(view).tolist() == [3, 4, 5]
    assert view.base.base is None
    del view, others
    assert machine.heap.used() == before


def test_a_block_is_freed_by_any_thread_and_in_cycles(arrays):
    from plugrad_wasm.arrays import empty

    machine = arrays.machine
    gc.collect()
    before = machine.heap.used()
    held = [empty(machine, (1000,), FLOAT32) for _ in range(100)]
    assert machine.heap.used() > before + 400_000
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert machine.heap.used() == before
    for _ in range(10):
        cycle = [empty(machine, (1000,), FLOAT32)]
        cycle.append(cycle)
    del cycle
    gc.collect()
    assert machine.heap.used() == before


def test_creating_and_dropping_arrays_does_not_grow_the_heap(arrays, request):
    machine = arrays.machine
    rounds = 1_000_000 if request.config.getoption("all") else 20_000
    with pg.use_backend("wasm"):
        x = pg.asarray([1.0, 2.0])
        gc.collect()
        y = x + x
        used = machine.heap.used()
        size = machine.heap.size()
        for _ in range(rounds):
            y = x + x
        assert y.tolist() == [2.0, 4.0]
    assert (machine.heap.used(), machine.heap.size()) == (used, size)


def test_memory_reports_bytes_and_peak(arrays):
    with pg.use_backend("wasm"):
        before = pg.memory().backends["wasm"]
        x = pg.zeros((1000, 1000))
        y = pg.reshape(x, (1000000,))
        now = pg.memory().backends["wasm"]
        assert now.bytes - before.bytes == 4_000_000
        assert now.buffers - before.buffers == 1
        assert now.peak >= now.bytes
        assert y.size == x.size


def test_memory_grows_up_to_the_limit_and_is_freed():
    """Earlier views stay valid."""
    found = run(
        1,
        """
        x = upload(np.arange(10.0))
        y, held, size = download(x), [], 1 << 28
        while True:
            try:
                held.append(empty((size,), np.dtype(np.int8)))
            except MemoryError as error:
                assert "no memory for" in str(error) and "4 GiB" in str(error)
                break
        print(len(held))
        assert y.tolist() == download(x).tolist() == list(range(10))
        last = held[-1].pointer + size - 8
        machine.kernel("test_count")(last, 2, 1)
        del held[:]
        print(machine.heap.used() < 1 << 20, count())
        whole = empty((15 << 28,), np.dtype(np.int8))
        """,
    )
    assert found == ["15", "True", "True"]


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs RLIMIT_AS of Linux"
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_small_address_space_is_enough(threads):
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        import numpy as np, plugrad as pg
        pg.set_backend("wasm")
        x = pg.asarray(np.arange(10.0, dtype=np.float32))
        print((x + x).tolist() == list(range(0, 20, 2)))
        try:
            pg.zeros((1 << 30,))
        except MemoryError as error:
            print("no memory" in str(error))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={
            **os.environ,
            "PLUGRAD_WASM_THREADS": str(threads),
            "OPENBLAS_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["True", "True"], done.stderr


# --- kernels that end early ------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "in_workers"), [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1)]
)
def test_a_kernel_that_fails_raises_an_error(threads, in_workers):
    """Kernels fail repeatedly, on the first thread or only in workers."""
    found = run(
        threads,
        f"""
        for _ in range(20):
            try:
                machine.kernel("test_fail")({in_workers})
            except BackendError as error:
                assert str(error).startswith("wasm: the kernel test_fail failed"), error
                assert str(error).endswith("test_fail was called"), error
                assert ("in a worker" in str(error)) >= {in_workers}, error
            else:
                print("nothing")
        print(count())
        """,
    )
    assert found == ["True"]


@pytest.mark.parametrize("threads", THREADS)
def test_an_access_out_of_bounds_raises_an_error(threads):
    """This holds on each thread; faulthandler, if enabled, reports the fault first."""
    found = run(
        threads,
        """
        for n in (1, 1 << 24):
            try:
                machine.kernel("test_count")(0xF0000000, n, 1 << 16)
            except BackendError as error:
                print("out_of_bounds" in str(error).replace(" ", "_"))
        print(count())
        """,
    )
    assert found == ["True", "True", "True"]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("tiles", [0, 1 << 22])
def test_ctrl_c(threads, tiles):
    """Kernels that run in pieces, and those that poll, stop; the next kernel works."""
    found = run(
        threads,
        f"""
        x = upload(np.zeros(4, np.uint32))
        for _ in range(3):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            then = time.perf_counter()
            try:
                machine.kernel("test_forever")(x.pointer, {tiles})
            except KeyboardInterrupt:
                print(time.perf_counter() - then < 2)
        print(count())
        """,
    )
    assert found == ["True"] * 4


def test_other_signals_are_handled_while_a_kernel_runs():
    """The kernel continues if the handler does not raise; kernels in it are refused."""
    found = run(
        2,
        """
        def note(*_):
            try:
                count()
            except BackendError as error:
                noted.append(str(error))

        noted = []
        signal.signal(signal.SIGUSR1, note)
        x = upload(np.zeros(4, np.uint32))
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            machine.kernel("test_forever")(x.pointer, 0)
        except KeyboardInterrupt:
            print(*[note.split()[2] for note in noted], count())
        """,
    )
    assert found == ["signal", "True"]


def test_a_kernel_within_another_is_refused(arrays):
    """Otherwise the inner call would overwrite the arguments of the outer call."""
    machine = arrays.machine
    x, y = (arrays.upload(np.zeros(9, np.uint32)) for _ in range(2))
    kernel = machine.kernel("test_count")
    kernel(x.pointer, 9, 1)

    class Nested:
        def __index__(self):
            kernel(y.pointer, 9, 1)
            return 9

    with pytest.raises(pg.BackendError, match="while another one was running"):
        kernel(x.pointer, Nested(), 1)
    assert not arrays.download(y).any()
    kernel(x.pointer, 9, 1)
    assert arrays.download(x).tolist() == [2 * i for i in range(9)]


# --- processes -------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("threads", THREADS)
def test_a_fork_continues_with_one_thread(threads):
    found = run(
        threads,
        """
        assert count()
        for _ in range(3):
            child = os.fork()
            if not child:
                os._exit(42 if count() and threading.active_count() == 1 else 1)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), count())
        """,
    )
    assert found == ["42", "True"] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_fork_while_a_kernel_runs(threads):
    """The fork waits until the kernel ends, so the child's memory is consistent."""
    found = run(
        threads,
        """
        x = upload(np.zeros(1 << 24, np.uint32))
        def work():
            for _ in range(5):
                machine.kernel("test_count")(x.pointer, 1 << 24, 1 << 12)
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.01)
        child = os.fork()
        if not child:
            os._exit(42 if count() else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        thread.join()
        print(bool((download(x) == 5 * np.arange(1 << 24, dtype=np.uint32)).all()))
        """,
    )
    assert found == ["42", "True"]


@pytest.mark.parametrize("threads", THREADS)
def test_a_process_can_exit_while_it_computes(threads):
    """A tensor is alive, a thread computes, and an exit handler runs an op."""
    found = run(
        threads,
        """
        import atexit
        x = pg.ones((1000,))
        atexit.register(lambda: print((x + x).tolist()[0]))
        def work():
            while True:
                pg.exp(x)
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.05)
        """,
    )
    assert found == ["2.0"]


def test_a_closed_machine_continues_with_one_thread():
    found = run(
        2,
        """
        x = pg.ones((3,))
        for _ in range(2):
            machine.close()
            print(threading.active_count(), count())
        """,
    )
    assert found == ["1", "True"] * 2
