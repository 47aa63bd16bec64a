"""Dropping an array runs no Python code, because it would swallow interrupts."""

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
    """Return the names of the backend's Python functions that ``work`` calls."""
    found = []

    def record_call(frame, event, value):
        if event == "call" and "plugrad_opencl" in frame.f_code.co_filename:
            found.append(frame.f_code.co_name)

    sys.setprofile(record_call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("size", SIZES)
def test_a_dropped_array_runs_no_python_code(size, device):
    arrays = [runtime("opencl").arrays.upload(np.ones(size, np.float32))]
    arrays.append(arrays[0].view((size, 1)))
    idle = device.pool.idle()
    assert calls(arrays.clear) == []
    assert device.pool.idle() > idle


@pytest.mark.parametrize("size", SIZES)
def test_a_collected_cycle_runs_no_python_code(size, device):
    cycle = [runtime("opencl").arrays.upload(np.ones(size, np.float32))]
    cycle.append(cycle)
    gc.collect()
    idle = device.pool.idle()
    del cycle
    assert calls(gc.collect) == []
    assert device.pool.idle() > idle


def test_the_buffer_of_a_dropped_array_is_reused(device):
    upload = runtime("opencl").arrays.upload
    x = upload(np.ones(5000, np.float32))
    held_bytes = device.pool.held
    for i in range(50):
        x = None
        x = upload(np.full(5000, i, np.float32))
        assert runtime("opencl").arrays.download(x)[0] == i
    assert device.pool.held == held_bytes


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
@pytest.mark.thread_unsafe(reason="signals and sys.unraisablehook")
def test_no_interrupt_is_lost(monkeypatch, device):
    """Most of the time is spent dropping arrays, and every interrupt arrives."""
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
        """Drop arrays until a timer interrupts, wherever that is."""
        while True:
            arrays = [upload(values) for _ in range(200)]
            signal.setitimer(signal.ITIMER_REAL, 5e-6 * (seen % 20 + 1))
            arrays.clear()
            for _ in range(1000):
                pass

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while seen < 100:
            try:
                drop_arrays()
            except KeyboardInterrupt:  # the timer has fired and is not set again
                seen += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not ignored
    assert len(raised) == seen
    assert pg.exp(pg.zeros(2)).tolist() == [1, 1]
