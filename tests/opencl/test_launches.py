"""Launches and uploads: what is sent to the device, and what has to wait for it."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from tests.processes import output

BIG = 1 << 18  # elements: goes to the queue for large work


@pytest.fixture(autouse=True)
def opencl():
    with pg.use_backend("opencl"):
        yield


# --- launches ----------------------------------------------------------------------

NUMBERS = """
__kernel void put_{0}(__global {0} *y, {0} a, {0} b) {{ y[0] = a; y[1] = b; }}
"""


@pytest.mark.parametrize(
    ("c", "dtype", "values"),
    [
        ("long", np.int64, [(1, 2), (1, 2), (1, 3), (1, 2), (-1, 2**40)]),
        ("float", np.float32, [(0.0, 1.0), (-0.0, 1.0), (0.0, 1.0), (np.nan, -0.0)]),
    ],
)
def test_arguments_of_consecutive_launches(device, c, dtype, values):
    """A number is set only if its bits change; 0.0 and -0.0 have different bits."""
    launch = device.kernel(NUMBERS.format(c), f"put_{c}", [None, dtype, dtype])
    for size in (1, BIG):
        for pair in values:
            native = runtime("opencl").arrays.upload(np.full(2, 7, dtype))
            launch(size, 1, native.buffer, *pair)
            found = runtime("opencl").arrays.download(native)
            np.testing.assert_array_equal(found, np.array(pair, dtype))
            assert (np.signbit(found) == np.signbit(pair)).all()


def test_arguments_after_a_refused_launch(device):
    launch = device.kernel(NUMBERS.format("int"), "put_int", [None, *[np.int32] * 2])
    native = runtime("opencl").arrays.upload(np.zeros(2, np.int32))
    launch(1, 1, native.buffer, 1, 2)
    with pytest.raises(RuntimeError, match="arg#3"):
        launch(1, 1, native.buffer, 5, "no number")
    launch(1, 1, native.buffer, 1, 2)
    found = runtime("opencl").arrays.download(native)
    np.testing.assert_array_equal(found, [1, 2])


ONE_QUEUE = """
import gc, weakref
import plugrad as pg
from plugrad.plugin import runtime
pg.set_backend("opencl")
device = runtime("opencl").arrays.device
assert len(device.queues) == 1 and not device.has_quick
x, y = pg.ones(8), pg.ones(1 << 18)
(x + x, y + y)
enqueue, events = device.enqueue, []

class Event:
    @property
    def command_execution_status(self):
        raise AssertionError("the status of an event is asked for")

def enqueue_recorded(*args):
    enqueue(*args)
    event = Event()
    events.append(weakref.ref(event))
    return event

device.enqueue = enqueue_recorded
for _ in range(3):
    small, large = x + x, y + y
assert [event() for event in events] == [None] * 6
assert device.pending is None
assert pg.zeros(5).tolist() == [0] * 5  # a fill
z = pg.asarray([1.0, 2.0])
assert len(device._staged) == 1
assert z.tolist() == [1.0, 2.0] and device._staged == []
print(small.tolist()[0], large.numpy().sum())
"""


@pytest.mark.parametrize("style", ["cpu", "gpu"])
def test_with_one_queue_no_event_is_kept_or_queried(style):
    """GPUs have one queue, and so does PoCL's device ``basic``."""
    found = output(ONE_QUEUE, POCL_DEVICES="basic", PLUGRAD_OPENCL_STYLE=style)
    assert found == "2.0 524288.0\n"


# --- uploads -----------------------------------------------------------------------


@pytest.fixture
def busy(device):
    """Return a function that enqueues work for many milliseconds."""

    def busy():
        y = pg.ones(1 << 22)
        for _ in range(30):
            y = pg.tanh(y)
        return y

    busy()  # compiles
    device.synchronize()
    return busy


@pytest.mark.parametrize("size", [1, 1000, BIG])
def test_an_upload_does_not_wait_for_kernels(size, device, busy):
    values = np.ones(size, np.float32)
    y = busy()
    x = pg.asarray(values)
    still_busy = device._busy()
    values[:] = 7
    assert still_busy
    z = x + 1.0  # small kernels also wait for the upload
    assert (z.numpy() == 2).all()
    assert y[:1].numpy() < 1
    assert device._staged == []


def test_large_and_many_uploads_are_waited_for(device, busy, monkeypatch):
    from plugrad_opencl import runtime

    monkeypatch.setattr(runtime, "MAX_STAGED_UPLOADS", 3)
    y = busy()
    found = []
    for i in range(4):
        assert len(device._staged) == i
        found.append(pg.asarray(np.full(5, i, np.float32)))
    assert device._staged == []  # the last upload has waited
    y = busy()
    found.append(pg.asarray(np.full(5, 4, np.float32)))
    found.append(pg.asarray(np.full(BIG + 1, 5, np.float32)))
    assert device._staged == []
    for i, x in enumerate(found):
        assert (x.numpy() == i).all()
    assert y[:1].numpy() < 1
