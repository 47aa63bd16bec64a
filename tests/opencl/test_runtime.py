"""The device at work: order, threads, late errors, memory, exit."""

import gc
import threading
import time

import numpy as np
import plugrad as pg
import pytest

from tests.processes import output, python

BIG = 1 << 18  # elements: goes to the queue for large work


@pytest.fixture(autouse=True)
def opencl():
    with pg.use_backend("opencl"):
        yield


def test_small_and_large_work_alternate():
    x = pg.zeros(BIG)
    y = pg.zeros(8)
    for i in range(50):
        x = x + 1.0
        y = y + x[i : i + 8]  # small work on a pending result
        x = x + pg.broadcast_to(y[0] * 0.0, (BIG,))
    assert y.tolist() == [sum(range(1, 51))] * 8
    assert x.numpy().min() == x.numpy().max() == 50


def test_memory_is_reused_in_order():
    start = np.arange(BIG, dtype=np.float32)
    x = pg.asarray(start)
    found = [pg.sum(x * float(i) - x) for i in range(40)]  # only the sums are kept
    total = start.sum(dtype=np.float64)
    for i, y in enumerate(found):
        np.testing.assert_allclose(y.item(), total * (i - 1), rtol=1e-5)


def test_an_upload_may_be_overwritten():
    values = np.ones(BIG, np.float32)
    x = pg.asarray(values)
    values[:] = 7
    assert (x.numpy() == 1).all()


def test_threads_get_the_same_values_as_one_thread():
    def work(seed, found):
        rng = np.random.default_rng(seed)
        with pg.use_backend("opencl"):
            for n in (16, BIG, 1000):
                x = pg.asarray(rng.normal(size=n).astype(np.float32))
                for _ in range(10):
                    x = pg.tanh(x * 1.5 + pg.mean(x))
                found.append(x.numpy())

    alone, together = {}, {}
    for seed in range(3):
        work(seed, alone.setdefault(seed, []))
    threads = [
        threading.Thread(target=work, args=(seed, together.setdefault(seed, [])))
        for seed in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, expected in alone.items():
        for a, b in zip(together[seed], expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_bad_index_is_an_error_at_the_next_wait():
    x = pg.asarray([1.0, 2.0, 3.0])
    y = pg.gather(x, pg.asarray([0, 3, 1]))
    with pytest.raises(IndexError, match="gather: index 3 is out of range for axis 0"):
        y.numpy()
    assert x.tolist() == [1.0, 2.0, 3.0]  # and the error is raised once


NINE = np.arange(1.0, 10, dtype="float32").reshape(3, 3)
BAD_INDICES = [[0, 5], [-4, 3], [1, 1]]  # only the last index is valid
RESULTS_OF_BAD_INDICES = {
    "gather": (lambda: pg.gather(NINE[0], pg.asarray([3, -4, 1])), [0, 0, 2]),
    "gather_nd": (lambda: pg.gather_nd(NINE, pg.asarray(BAD_INDICES)), [0, 0, 5]),
    "scatter_nd": (
        lambda: pg.scatter_nd(pg.asarray(BAD_INDICES), [7.0, 8.0, 9.0], (3, 3)),
        [[0, 0, 0], [0, 9, 0], [0, 0, 0]],
    ),
    "tensor_scatter_update": (
        lambda: pg.tensor_scatter_update(
            NINE, pg.asarray(BAD_INDICES), [0.0, 0.0, 50.0]
        ),
        [[1, 2, 3], [4, 50, 6], [7, 8, 9]],
    ),
}


@pytest.mark.parametrize("op", RESULTS_OF_BAD_INDICES)
def test_a_bad_index_reads_zeros_and_writes_nothing(op):
    call, expected = RESULTS_OF_BAD_INDICES[op]
    y = call()
    with pytest.raises(IndexError, match=f"^{op}: index -?[0-9] is out of range"):
        y.numpy()
    assert y.tolist() == expected


def test_the_error_names_the_op_that_was_wrong():
    x = pg.asarray(np.ones((4, 5), np.float32))
    pg.gather(x, pg.asarray([3]))
    bad = pg.gather(x, pg.asarray([-6], dtype="int64"), axis=1)
    pg.gather(x, pg.asarray([0]))
    with pytest.raises(IndexError, match="index -6 is out of range for axis 1 with"):
        bad.numpy()


@pytest.mark.parametrize("finite", [True, False])
@pytest.mark.parametrize("x", [[1.0, 2.0], [1, 2]], ids=str)
def test_under_debug_a_bad_index_is_an_error_at_once(x, finite):
    with pg.debug(finite=finite), pytest.raises(IndexError, match="index 9"):
        pg.gather(x, pg.asarray([9]))


def test_a_bad_index_is_reported_although_other_threads_wait(device):
    """Another thread may wait before the launch, or before the check is registered."""
    with device.check("here: {} is bad") as (flag, number):
        device.synchronize()
        device.write(flag, np.array([number, 9, 0, 0]))
        device.synchronize()  # launched, but the check is not registered
    with pytest.raises(IndexError, match="here: index 9 is bad"):
        device.synchronize()
    device.synchronize()


def test_bad_indices_are_reported_before_checks_pile_up(monkeypatch):
    from plugrad_opencl import runtime

    monkeypatch.setattr(runtime, "MAX_PENDING_CHECKS", 3)
    x = pg.asarray([1.0, 2.0])
    with pytest.raises(IndexError, match="index 7"):
        [pg.gather(x, pg.asarray([7])) for _ in range(4)]
    assert x.tolist() == [1.0, 2.0]


def test_nothing_to_gather_from():
    with pytest.raises(IndexError, match="with size 0"):
        pg.gather(pg.zeros((0, 3)), pg.asarray([0]))


def test_memory_is_counted_and_returned(device):
    gc.collect()
    before = pg.memory().backends["opencl"].bytes
    x = pg.zeros(BIG)
    y = pg.reshape(x, (2, BIG // 2))  # shares the memory
    now = pg.memory().backends["opencl"]
    assert now.bytes == before + BIG * 4
    assert now.peak >= now.bytes
    idle = device.pool.idle()
    del x
    assert device.pool.idle() == idle
    del y
    assert device.pool.idle() >= idle + BIG * 4


def test_too_much_memory_is_a_memory_error(device):
    with pytest.raises(MemoryError, match=r"opencl: .* bytes"):
        pg.zeros(device.pool.largest // 4 + 1024)
    assert pg.ones(3).tolist() == [1, 1, 1]


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
def test_empty_and_scalar(shape):
    x = pg.asarray(np.ones(shape, np.float32))
    assert pg.exp(x + x).numpy().shape == shape
    assert pg.sum(x).item() == np.ones(shape).sum()


def test_a_kernel_that_does_not_compile(device):
    launch = device.kernel("__kernel void wrong( {", "wrong", [])
    with pytest.raises(pg.BackendError, match="does not compile"):
        launch(1, 1)


# --- finalizers that run ops --------------------------------------------------------


@pytest.fixture
def interrupt(device, monkeypatch):
    """Return a function that arranges a call, before or after Exp is enqueued.

    At these points, the arguments are set, and finalizers may run ops.
    """

    def prepare(before=None, after=None):
        works = {"before": before, "after": after}
        original = device.enqueue

        def enqueue(queue, kernel, items, group):
            is_exp = kernel.function_name == "Exp"
            for when in ("before", "after"):
                if when == "after":
                    event = original(queue, kernel, items, group)
                if is_exp and (work := works.pop(when, None)):
                    work()
            return event

        monkeypatch.setattr(device, "enqueue", enqueue)

    return prepare


@pytest.mark.parametrize("size", [8, BIG])
def test_a_launch_within_a_launch_has_its_own_arguments(size, interrupt):
    x = pg.zeros(size)
    other = pg.ones(size)
    found = []
    pg.exp(other * 2.0)  # memory that y may reuse has other values
    interrupt(before=lambda: found.append(pg.exp(other)))
    y = pg.exp(x)
    assert (y.numpy() == 1).all()
    np.testing.assert_allclose(found[0].numpy(), np.e, rtol=1e-6)


def test_work_from_a_launch_within_a_launch_is_waited_for(interrupt):
    """Small work uses its own queue as soon as the queue for large work seems idle."""
    x = pg.ones(BIG)
    large = pg.ones(1 << 22)
    found = []

    def work():
        y = large
        for _ in range(30):
            y = pg.tanh(y)
        found.append(y)

    work()
    expected = found.pop().numpy()[:8]
    pg.exp(x)
    interrupt(after=work)
    pg.exp(x)
    time.sleep(0.02)  # enough for the outer launch, not for the inner ones
    np.testing.assert_array_equal((found[0][:8] * 1.0).numpy(), expected)


def test_no_kernel_gets_memory_that_is_back_in_the_pool(device, monkeypatch):
    """Only a cache keeps tables alive, and another thread may empty it at any time."""
    from plugrad_opencl import windows
    from plugrad_opencl.runtime import Launch

    returned, original = [], Launch.__call__

    def launch(self, size, items, *args):
        assert not any(a is buffer for a in args for buffer in returned), self._name
        original(self, size, items, *args)

    x = pg.asarray(np.arange(96, dtype=np.float32).reshape(1, 4, 6, 4))
    filters = pg.ones((3, 3, 4, 1))
    conv = lambda x, f: pg.sum(pg.depthwise_conv2d(x, f, strides=1, pad="same"))
    pool = lambda x: pg.sum(pg.max_pool(x, 2, strides=1, pad="same"))
    monkeypatch.setattr(windows, "table", windows.table.__wrapped__)
    lend = device.pool.lend
    monkeypatch.setattr(device.pool, "lend", lambda n: (lend(n)[0], returned.append))
    monkeypatch.setattr(Launch, "__call__", launch)
    pg.grad(lambda both: conv(*both))((x, filters))
    pg.grad(pool)(x)
    monkeypatch.undo()
    assert returned
    for buffer in returned:
        device.pool.give(buffer)


# --- in separate processes -----------------------------------------------------------

FORK = """
import os, plugrad as pg
pg.set_backend("opencl")
x = pg.zeros(1 << 18) + 1.0
pid = os.fork()
if not pid:
    try:
        x + x
    except pg.BackendError as error:
        with pg.use_backend("cpu"), pg.profile() as p:
            assert (pg.ones(2) + 1.0).tolist() == [2, 2]
        assert [r.kernel for r in p.records] == ["Fill", "Add"]
        os._exit(7 if "forked" in str(error) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
print((x + x).numpy()[-1])
"""


def test_fork():
    assert output(FORK) == "2.0\n"


def test_exit_with_pending_work():
    code = """
import plugrad as pg
pg.set_backend("opencl")
x = pg.zeros(1 << 22)
for _ in range(20):
    x = pg.exp(-x)
"""
    python(code)  # compiles
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")


STYLE = """
import numpy as np, plugrad as pg
pg.set_backend("opencl")
rng = np.random.default_rng(0)
for shape in ((3,), (7, 300), (2, 3, 5), (40, 1000), (1000, 40)):
    x = rng.normal(size=shape).astype(np.float32)
    y = pg.asarray(x)
    close = lambda a, b: np.testing.assert_allclose(a.numpy(), b, 1e-5, 1e-4)
    close(pg.tanh(y * y + y[..., :1]), np.tanh(x * x + x[..., :1]))
    close(pg.permute_dims(y, tuple(range(x.ndim))[::-1]), x.T)
    for axis in (None, 0, -1):
        close(pg.sum(y, axis=axis), x.sum(axis))
        close(pg.max(y, axis=axis), x.max(axis))
    close(pg.argmax(y, axis=-1), x.argmax(-1))
    close(pg.take(y, np.array([1, 0, 1]), axis=0), x[[1, 0, 1]])
    close(pg.concat([y, y], axis=-1), np.concatenate([x, x], -1))
    close(pg.top_k(y, 2)[0], np.sort(x, -1)[..., :-3:-1])
    if x.ndim == 2:
        close(pg.matmul(y, pg.permute_dims(y, (1, 0))), x @ x.T)
print("same")
"""


def test_the_kernels_for_gpus():
    assert output(STYLE, PLUGRAD_OPENCL_STYLE="gpu") == "same\n"
