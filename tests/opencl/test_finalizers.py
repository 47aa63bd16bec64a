"""Dropping an array runs no Python code, in which an interrupt would be lost."""

import gc
import signal
import sys
import threading

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

SIZES = [1, 5000, 1 << 20]


def calls(work):
    """Return the Python functions of the backend that run while ``work`` does."""
    found = []

    def event(frame, what, value):
        if what == "call" and "plugrad_opencl" in frame.f_code.co_filename:
            found.append(frame.f_code.co_name)

    sys.setprofile(event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("size", SIZES)
def test_a_dropped_array_runs_no_python_code(size, device):
    held = [runtime("opencl").arrays.upload(np.ones(size, np.float32))]
    held.append(held[0].view((size, 1)))
    idle = device.pool.idle()
    assert calls(held.clear) == []
    assert device.pool.idle() > idle


@pytest.mark.parametrize("size", SIZES)
def test_nor_does_one_that_the_collector_finds(size, device):
    cycle = [runtime("opencl").arrays.upload(np.ones(size, np.float32))]
    cycle.append(cycle)
    gc.collect()
    idle = device.pool.idle()
    del cycle
    assert calls(gc.collect) == []
    assert device.pool.idle() > idle


def test_the_buffer_is_used_again(device):
    upload = runtime("opencl").arrays.upload
    x = upload(np.ones(5000, np.float32))
    held = device.pool.held
    for i in range(50):
        x = None
        x = upload(np.full(5000, i, np.float32))
        assert runtime("opencl").arrays.download(x)[0] == i
    assert device.pool.held == held


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
@pytest.mark.thread_unsafe(reason="signals and sys.unraisablehook")
def test_no_interrupt_is_lost(monkeypatch, device):
    """Most of the time goes into dropping arrays, and each interrupt arrives."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are handled in the main thread")
    upload = runtime("opencl").arrays.upload
    ignored = []
    raised = []
    seen = 0
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    values = np.ones(4, np.float32)

    def interrupt(*_):
        raised.append(1)
        raise KeyboardInterrupt

    def drop_arrays():
        """Run until a timer interrupts, at whichever place that is."""
        while True:
            held = [upload(values) for _ in range(200)]
            signal.setitimer(signal.ITIMER_REAL, 5e-6 * (seen % 20 + 1))
            held.clear()
            for _ in range(1000):
                pass

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while seen < 100:
            try:
                drop_arrays()
            except KeyboardInterrupt:  # the timer has gone off: no other one is set
                seen += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not ignored
    assert len(raised) == seen
    assert pg.exp(pg.zeros(2)).tolist() == [1, 1]
