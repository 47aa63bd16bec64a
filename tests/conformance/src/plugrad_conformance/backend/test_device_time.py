"""The working time of a device, as ``time_device`` and ``device_seconds`` report it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

CLOCK_RATIO_LIMIT = 1.02  # two clocks may differ by 2 % ...
CLOCK_TOLERANCE_S = 1e-3  # ... plus a millisecond


@pytest.fixture
def arrays(backend: str) -> Iterator[Any]:
    """Yield arrays that measure the device; skip backends that cannot."""
    found: Any = runtime(backend).arrays
    if not hasattr(found, "time_device"):
        pytest.skip(f"{backend} does not measure its device")
    found.time_device(True)
    yield found
    found.time_device(False)


def work(count: int = 20) -> float:
    """Run matrix products, wait for them, and return the elapsed time."""
    start = time.perf_counter()
    x = pg.asarray(np.full((256, 256), 1 / 256, np.float32))
    y = x
    for _ in range(count):
        y = pg.matmul(x, y)
    y.numpy()
    return time.perf_counter() - start


def test_there_are_both_methods_or_neither(backend: str) -> None:
    arrays = runtime(backend).arrays
    present = [
        callable(getattr(arrays, n, None)) for n in ("time_device", "device_seconds")
    ]
    assert present in ([True, True], [False, False])


def test_it_is_a_running_total_no_faster_than_the_clock(arrays: Any) -> None:
    """The total never decreases, and grows with work, but no faster than the clock."""
    work(1)  # this may compile
    first = arrays.device_seconds()
    assert first >= 0
    elapsed = 0.0
    last = first
    for _ in range(3):
        start = time.perf_counter()
        work()
        now = arrays.device_seconds()
        elapsed = time.perf_counter() - start
        assert now > last, "matrix products took no time, or the total restarted"
        assert now - last <= elapsed * CLOCK_RATIO_LIMIT + CLOCK_TOLERANCE_S, (
            "more than the elapsed time"
        )
        last = now


def test_asking_again_gives_the_same_total(arrays: Any) -> None:
    """The total counts from ``time_device(True)``, not from the last call."""
    work()
    total = arrays.device_seconds()
    time.sleep(0.05)  # the device is idle
    assert arrays.device_seconds() == pytest.approx(total, abs=1e-6)


def test_the_time_while_nothing_measures_does_not_count(arrays: Any) -> None:
    work(1)
    before = arrays.device_seconds()
    arrays.time_device(False)
    elapsed = work(40)
    arrays.time_device(True)
    after = arrays.device_seconds()
    assert after - before <= elapsed / 10 + CLOCK_TOLERANCE_S


def test_a_profile_reports_at_most_the_time_of_its_block(
    arrays: Any, backend: str
) -> None:
    arrays.time_device(False)  # the profile switches it on
    work(1)
    start = time.perf_counter()
    with pg.profile() as outer:
        work()
        with pg.profile() as inner:
            work()
    elapsed = time.perf_counter() - start
    arrays.time_device(True)
    assert inner.device_seconds is not None
    assert outer.device_seconds is not None
    assert (
        0
        < inner.device_seconds
        < outer.device_seconds
        <= elapsed * CLOCK_RATIO_LIMIT + CLOCK_TOLERANCE_S
    )
