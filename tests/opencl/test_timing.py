"""Device time: which kernels it includes, and that it is measured only on request."""

import threading

import numpy as np
import plugrad as pg
import pyopencl as cl
import pytest
from plugrad_opencl import timing

PROFILING = cl.command_queue_properties.PROFILING_ENABLE


@pytest.fixture(autouse=True)
def opencl():
    with pg.use_backend("opencl"):
        yield


@pytest.fixture
def measures(device):
    """Return a function that returns whether queues, fills and launches are timed."""

    def measures():
        queues = {bool(queue.properties & PROFILING) for queue in device.queues}
        assert {device.wide, device.quick} == {*device.queues}
        works = [device._fill, device.enqueue]
        (measures,) = queues | {isinstance(work, timing.Timed) for work in works}
        return measures

    yield measures
    assert not measures()


def matmul_seconds(n):
    """Return the device time of some products; it must not exceed the total time."""
    x = pg.ones((n, n))
    x @ x
    with pg.profile() as p:
        for _ in range(5):
            y = x @ x
    assert (y.numpy() == n).all()
    assert all(0 < r.device <= r.seconds * 1.01 for r in p.records)  # two clocks differ
    assert p.device_seconds <= p.seconds * 1.01
    return p.device_seconds


def test_more_work_takes_longer(measures):
    assert matmul_seconds(1024) > matmul_seconds(64)


def test_ops_without_a_kernel_take_no_device_time():
    x = pg.ones((3, 4))
    with pg.profile() as p:
        pg.reshape(x, (12,))
        pg.zeros((1000, 1000))
        pg.asarray(np.ones(1000, np.float32)).numpy()
    device_times = {r.kernel: r.device for r in p.records}
    assert device_times == {"Reshape": 0.0, "Fill": p.device_seconds}
    assert p.device_seconds > 0


def test_time_is_measured_only_inside_the_block(measures):
    x = pg.ones((64, 64))
    assert not measures()
    with pg.profile():
        x @ x
        assert measures()
        with pg.profile():
            pg.sinh(x)
            assert measures()
        assert measures()
    x @ x


def test_nothing_is_measured_after_an_error(measures):
    x = pg.asarray([1.0, 2.0])
    with pytest.raises(IndexError, match="index 9"), pg.profile():
        pg.gather(x, np.array([9], np.int32))
    assert not measures()
    assert (x + x).tolist() == [2.0, 4.0]


def test_a_kernel_whose_first_launch_is_timed(device, measures):
    launch = device.kernel("__kernel void idle_(long n) {}", "idle_", [np.int64])
    device.time(True)
    try:
        launch(1, 1, 1)
        launch(1 << 20, 1, 1)
        assert device.seconds() > 0
        assert measures()
    finally:
        device.time(False)
    launch(1, 1, 1)
    assert device.seconds() == 0.0


def test_each_thread_has_its_own_time(device, measures):
    def work():
        with pg.use_backend("opencl"):
            x @ x
        found.append(device.seconds())

    x = pg.ones((256, 256))
    found = []
    with pg.profile() as p:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert device.seconds() == 0.0
        pg.reshape(x, (16, 4096))
    assert found[0] > 0
    assert p.device_seconds == 0.0


def test_another_thread_works_while_timing_starts_and_stops(measures):
    def work():
        with pg.use_backend("opencl"):
            y = pg.zeros((300, 300))
            while not done:
                y = y * 0.5 + 1.0
            found.append(y.numpy())

    found, done = [], []
    thread = threading.Thread(target=work)
    thread.start()
    x = pg.ones((8, 8))
    try:
        for _ in range(50):
            with pg.profile() as p:
                x + x
            assert 0 < p.device_seconds <= p.seconds * 1.01
    finally:
        done.append(True)
        thread.join()
    assert (found[0] <= 2).all()


def test_events_do_not_pile_up(device, monkeypatch):
    monkeypatch.setattr(timing, "MAX_PENDING_EVENTS", 8)
    x = pg.ones((8, 8))
    device.time(True)
    try:
        for _ in range(100):
            x + x
            assert len(device._timer._events) < 8
        assert device.seconds() > 0
        assert device._timer._events == []
    finally:
        device.time(False)
