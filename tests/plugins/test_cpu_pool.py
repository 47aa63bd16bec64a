"""plugrad-cpu's memory pool: which arrays use it, and when it frees memory."""

import os
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import plugrad as pg
import pytest

from tests.processes import output

pool = pytest.importorskip("plugrad_cpu.pool", reason="plugrad-cpu is not installed")
if pool.native is None:
    pytest.skip("plugrad-cpu was built without a C compiler", allow_module_level=True)

allocator = np._core.multiarray.get_handler_name
LARGE = 1 << 18  # elements: 1 MiB of float32


@pytest.fixture(autouse=True)
def on_cpu():
    with pg.use_backend("cpu"):
        yield


def run(program, **env):
    """Run a program in a separate process, and return the words that it prints."""
    env = {"PLUGRAD_PLUGINS": "cpu"} | env
    return output(textwrap.dedent(program), **env).split()


def test_results_use_the_pool_and_user_arrays_do_not():
    user_array = np.ones(LARGE, np.float32)
    x = pg.asarray(user_array)
    result = pg.exp(x) + x
    assert allocator(result._data) == "plugrad_cpu_pool"
    later_array = np.ones(LARGE, np.float32) * 2
    assert {allocator(user_array), allocator(later_array)} == {"default_allocator"}
    np.testing.assert_allclose(result.numpy(), np.e + 1, rtol=1e-6)


def test_memory_is_reused_and_aligned():
    program = """
    import plugrad as pg, numpy as np
    from plugrad_cpu.pool import native
    x = pg.ones(1 << 18)
    places = set()
    for i in range(50):
        y = x + float(i)
        assert y[0].item() == i + 1.0 and y[-1].item() == i + 1.0
        places.add(y.numpy().ctypes.data)
        del y
    assert {place % 64 for place in places} == {0}
    found = native.pool_statistics()
    print(len(places) <= 3, found["hits"] >= 45, pg.memory().backends["cpu"].kept)
    native.release_pool()
    print(pg.memory().backends["cpu"].kept)
    """
    reused, hits, kept, released = run(program)
    assert (reused, hits, released) == ("True", "True", "0")
    assert int(kept) >= 1 << 20


def test_zeros_are_zeros_in_reused_memory():
    for _ in range(3):
        x = pg.ones(LARGE) * 7.0
        del x
        assert not pg.zeros(LARGE).numpy().any()
        assert not pg.scatter_nd([[0]], [0.0], (LARGE,)).numpy().any()


@pytest.mark.parametrize("sizes", [(3, 1 << 16), (1 << 16, 1 << 18), (1 << 18, 5)])
def test_arrays_can_be_resized(sizes):
    from plugrad_cpu import arrays

    before, after = sizes
    x = arrays.kernel_context(np.arange)(before)
    assert allocator(x) == "plugrad_cpu_pool"
    x.resize(after, refcheck=False)
    expected = np.zeros(after, x.dtype)
    expected[: min(sizes)] = np.arange(min(sizes))
    np.testing.assert_array_equal(x, expected)


def test_the_pool_stays_within_its_limit():
    program = """
    import plugrad as pg
    from plugrad_cpu.pool import LIMIT, native
    x = pg.ones(1 << 18)
    many = [x + 1.0 for _ in range(10)]
    del many
    found = native.pool_statistics()
    print(LIMIT, found["kept"], found["most_kept"] <= LIMIT)
    """
    limit, kept, bounded = run(program, PLUGRAD_CPU_POOL="3M")
    assert (int(limit), bounded) == (3 << 20, "True")
    assert 2 << 20 <= int(kept) <= 3 << 20


def test_unused_blocks_are_freed():
    program = """
    import time, numpy as np, plugrad as pg
    from plugrad_cpu import arrays
    from plugrad_cpu.pool import native
    x = pg.ones(1 << 18)
    arrays.kernel_context(native.use_pool)(1 << 30, 1)
    many = [x + 1.0 for _ in range(8)]
    del many
    before = native.pool_statistics()["kept"]
    time.sleep(3)
    y = x[: 1 << 17] + 1.0
    del y
    print(before >> 20, native.pool_statistics()["kept"] >> 20)
    """
    before, after = map(int, run(program))
    assert before >= 8
    assert after <= 1


@pytest.mark.parametrize(
    ("value", "limit"), [("0", 0), ("512M", 512 << 20), ("2 GiB", 2 << 30), ("9", 9)]
)
def test_limits_have_units(value, limit):
    assert pool.limit_of(value) == limit


def test_an_invalid_limit_is_refused():
    for value in ("much", "-1", "1T", ""):
        with pytest.raises(ValueError, match=r"PLUGRAD_CPU_POOL=.*such as 512M"):
            pool.limit_of(value)


def test_the_default_limit(tmp_path):
    folder = tmp_path / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text("83886080\n")
    assert pool.memory(tmp_path) == 80 << 20
    (folder / "memory.max").write_text("max\n")
    assert pool.memory(tmp_path) > 80 << 20
    assert 0 < pool.limit_of(None) <= 1 << 30


def test_the_pool_can_be_turned_off():
    program = """
    import numpy as np, plugrad as pg
    y = pg.ones(1 << 18) + 1.0
    print(np._core.multiarray.get_handler_name(y._data))
    """
    assert run(program, PLUGRAD_CPU_POOL="0") == ["default_allocator"]


MISSING = {  # why the extension module is missing: the error, and doctor's reason
    "not compiled": ("ModuleNotFoundError", "plugrad-cpu was installed without a C"),
    "for another NumPy": (
        "ImportError",
        "plugrad_cpu._native cannot be imported, reinstall plugrad-cpu: of no use",
    ),
}


@pytest.mark.parametrize("cause", MISSING)
def test_without_the_extension_module(cause):
    error, reason = MISSING[cause]
    program = f"""
    import sys
    class Finder:
        def find_spec(self, name, *_):
            if name == "plugrad_cpu._native":
                raise {error}("of no use")
    sys.meta_path.insert(0, Finder())
    import numpy as np, plugrad as pg
    from plugrad import plugin
    from plugrad_cpu import pool
    y = pg.ones(1 << 18) + 1.0
    pool_is_off, kernels_are_off = plugin.runtime("cpu").self_test()
    assert pool_is_off.startswith("the memory pool is not in use ({reason}")
    assert kernels_are_off.startswith("the kernels in C are not in use ({reason}")
    print(np._core.multiarray.get_handler_name(y._data), pool.kept(), pool.native)
    """
    assert run(program) == ["default_allocator", "0", "None"]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux limits address space")
def test_pooled_memory_is_freed_before_an_allocation_fails():
    program = """
    import resource, plugrad as pg
    from plugrad_cpu.pool import native
    x = pg.ones(1 << 20)
    pg.set_backend("cpu")
    many = [x + 1.0 for _ in range(64)]
    del many
    kept = native.pool_statistics()["kept"]
    pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (pages + (64 << 20), -1))
    y = pg.ones(40 << 20)
    print(kept >> 20, y.shape[0] >> 20, native.pool_statistics()["kept"])
    try:
        pg.ones(1 << 30)
    except MemoryError:
        print("MemoryError")
    """
    kept, size, left, error = run(program, PLUGRAD_CPU_POOL="1G")
    assert (size, left, error) == ("40", "0", "MemoryError")
    assert int(kept) >= 200


def test_threads_that_allocate():
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        with pg.use_backend("cpu"):
            for _ in range(60):
                n = int(rng.integers(1 << 12, 1 << 17))
                x = pg.full((n,), float(seed))
                y = x * 2.0 + 1.0
                del x
                if not (y.numpy() == 2 * seed + 1).all():
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forks_while_threads_allocate():
    program = """
    import os, sys, threading, warnings, plugrad as pg
    warnings.simplefilter("ignore", DeprecationWarning)  # fork while threads run
    x, stop = pg.ones(1 << 16), threading.Event()

    def work():
        while not stop.is_set():
            x + 1.0

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    bad = 0
    for _ in range(20):
        child = os.fork()
        if not child:
            os._exit(int((x * 3.0).numpy().sum() != 3 << 16))
        bad += os.waitpid(child, 0)[1] != 0
    stop.set()
    for thread in threads:
        thread.join()
    print(bad)
    """
    assert run(program) == ["0"]


@pytest.mark.parametrize("native", [pool.native, None], ids=["C", "Python"])
def test_a_kernel_may_call_another_kernel(native, monkeypatch):
    from plugrad_cpu import arrays

    monkeypatch.setattr(pool, "native", native)
    log = arrays.kernel_context(np.log)
    outer = arrays.kernel_context(np.frompyfunc(log, 1, 1))
    with np.errstate(all="raise"):
        assert outer(np.zeros(2)).tolist() == [-np.inf, -np.inf]
        with ThreadPoolExecutor(2) as executor:
            assert [*executor.map(log, [0.0] * 4)] == [-np.inf] * 4


def test_an_error_in_a_kernel_is_raised_and_ends_its_context():
    from plugrad_cpu import arrays

    calls = []

    def fail(x):
        calls.append(x)
        raise RuntimeError("cannot enter context: mine")

    with pytest.raises(RuntimeError, match="mine"):
        arrays.kernel_context(np.frompyfunc(fail, 1, 1))(np.zeros(1))
    assert len(calls) == 1
    assert arrays.kernel_context(np.log)(0.0) == -np.inf
