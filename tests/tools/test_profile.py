"""``profile``, its table and its trace, and ``time``."""

import contextlib
import json
import re
import threading
import time

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.engine.context import current, running
from plugrad._src.registry import backend as backends
from plugrad_conformance.toy import toy

X = np.arange(1.0, 5.0, dtype=np.float32)
WAYS = {"implementation", "decomposition", "host", "fallback"}


def summary(p):
    return [(r.kernel, r.backend, r.how, r.depth) for r in p.records]


def test_each_run_is_recorded(backend):
    x = pg.asarray(X)
    with pg.profile() as p:
        y = pg.reshape(x + x, (2, 2))
    assert y.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert summary(p) == [
        ("Add", backend, "implementation", 0),
        ("Reshape", backend, "implementation", 0),
    ]
    add, reshape = p.records
    assert add.op == "add"
    assert add.inputs == (((4,), np.dtype("float32")),) * 2
    assert reshape.outputs == (((2, 2), np.dtype("float32")),)
    assert reshape.attrs == {"shape": (2, 2)}
    assert add.bytes == reshape.bytes == 16
    assert 0 < add.own <= add.seconds <= reshape.start <= p.seconds
    assert add.moves == ()
    x + x  # after the block
    assert len(p.records) == 2
    assert current().observers == ()


def test_a_decomposition_contains_its_parts():
    with toy(without=["Softmax"]), pg.use_backend("toy"):
        with pg.profile() as p:
            pg.softmax(pg.asarray(X))
        *parts, whole = p.records
        assert summary(p)[-1] == ("Softmax", "toy", "decomposition", 0)
        assert len(parts) >= 3
        assert {r.depth for r in parts} == {1}
        assert whole.own <= whole.seconds - sum(r.seconds for r in parts)
        assert 0 < p.kernel_seconds <= p.seconds
        for r in parts:
            assert whole.start <= r.start
            assert r.start + r.seconds <= whole.start + whole.seconds


def test_a_composite_under_a_tape_is_recorded_with_its_parts(backend):
    with pg.profile() as p:
        pg.grad(lambda x: pg.sum(pg.fused.matmul(x, x, activation="relu")))(
            pg.ones((2, 2))
        )
    (whole,) = (r for r in p.records if r.kernel == "_FusedMatMul")
    assert (whole.how, whole.depth) == ("decomposition", 0)
    assert max(r.depth for r in p.records) >= 1
    assert {r.how for r in p.records} <= WAYS


def test_host_kernels_and_moves():
    host_options = {"host": "cpu", "host_kernels": ["Unique"]}
    with toy(without=["Unique"], **host_options), pg.use_backend("toy"):
        x = pg.asarray(X)
        with pg.profile() as p:
            pg.unique_values(x)
    (run,) = (r for r in p.records if r.kernel == "Unique")
    assert (run.backend, run.how) == ("cpu", "host")
    directions = [(m.source, m.target) for m in run.moves]
    assert directions[0] == ("toy", "cpu")
    assert set(directions[1:]) == {("cpu", "toy")}
    assert run.moves[0].bytes == 16
    assert p.moved == sum(m.bytes for m in run.moves) > 16


def test_fallback(monkeypatch):
    monkeypatch.setenv("PLUGRAD_FALLBACK", "allow")
    with toy(without=["Add"]), pg.use_backend("toy"):
        x = pg.asarray(X)
        with pg.profile() as p:
            x + x
    assert summary(p) == [("Add", "cpu", "fallback", 0)]
    assert "fallback" in str(p)


def test_cached_copies_and_to_are_moves():
    with toy():
        with pg.use_backend("cpu"):
            x = pg.asarray(X)
            other = pg.asarray(X)
        with pg.use_backend("toy"), pg.profile() as p:
            x + x
            x + x  # the cached copy is there
            other.to("toy")
    assert [len(r.moves) for r in p.records] == [1, 0, 1]
    assert [r.kernel for r in p.records] == ["Add", "Add", "plugrad.To"]
    assert p.moved == 32


def test_uploads_and_downloads(tmp_path, backend):
    x = pg.asarray(X)
    with pg.profile() as p:
        y = pg.asarray(np.ones((2, 3), np.float32))
        x.numpy()
        y.tolist()
        thread = threading.Thread(target=x.numpy)
        thread.start()
        thread.join()
    x.numpy()  # after the block
    summary = [(t.what, t.backend, t.values.shape, t.bytes) for t in p.transfers]
    assert summary == [
        ("upload", backend, (2, 3), 24),
        ("download", backend, (4,), 16),
        ("download", backend, (2, 3), 24),
    ]
    starts = [t.start for t in p.transfers]
    assert starts == sorted(starts)
    assert all(0 < t.seconds <= p.seconds for t in p.transfers)
    assert p.records == []
    *_, up, down = str(p).splitlines()
    assert re.fullmatch(r"1 uploads: 24 bytes in \d+\.\d+ ms", up)
    assert re.fullmatch(r"2 downloads: 40 bytes in \d+\.\d+ ms", down)
    p.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [(e["name"], e["cat"], e["args"]) for e in events if e["ph"] == "X"]
    assert spans[0] == (
        f"upload {backend}",
        "upload",
        {"values": "float32[2,3]", "bytes": 24},
    )
    assert len(spans) == 3
    assert backends.watchers == ()


def test_a_move_is_neither_an_upload_nor_a_download():
    host_options = {"host": "cpu", "host_kernels": ["Unique"]}
    with toy(without=["Unique"], **host_options), pg.use_backend("toy"):
        x = pg.asarray(X)
        with pg.profile() as p:
            pg.unique_values(x)
            x.to("cpu")
            pg.asarray(X)
    assert p.moved > 16
    assert [t.what for t in p.transfers] == ["upload"]


def test_the_peak_is_the_memory_of_simultaneous_results(backend):
    x = pg.asarray(np.ones(1000, np.float32))
    with pg.profile() as p:
        for _ in range(5):
            y = x + x
            del y
        y = x * x
        z = y - x
        del y, z
        x + x
    assert p.peak == 8000
    assert [r.alive for r in p.records][:2] == [4000, 4000]
    assert max(r.alive for r in p.records) == 8000
    assert p.records[-1].alive == 4000


def test_views_need_no_memory_on_cpu():
    with pg.use_backend("cpu"):
        x = pg.asarray(np.ones(1000, np.float32))
        with pg.profile() as p:
            y = x + x
            views = [pg.reshape(y, (10, 100)), y[10:], pg.broadcast_to(y, (9, 1000))]
        assert len(views) == 3
        assert p.peak == 4000


def test_profiling_continues_after_an_error_in_a_kernel(backend):
    with pg.profile() as p:
        with pytest.raises(ValueError, match="shapes"):
            pg.ones((2,)) + pg.ones((3,))
        with pytest.raises(IndexError):
            pg.gather(pg.asarray(X), pg.asarray([9]))
        pg.exp(1.0)
    assert running() is None
    assert (p.records[-1].kernel, p.records[-1].depth) == ("Exp", 0)


def test_other_threads_are_not_recorded(backend):
    with pg.profile() as p:
        thread = threading.Thread(target=lambda: pg.exp(1.0))
        thread.start()
        thread.join()
    assert p.records == []
    assert "0 runs" in str(p)


def test_blocks_nest_and_are_entered_once(backend):
    with pg.profile() as outer:
        pg.exp(1.0)
        with pg.profile() as inner:
            pg.exp(1.0)
    assert [len(p.records) for p in (outer, inner)] == [2, 1]
    with pytest.raises(
        RuntimeError, match="profile: this block has been entered already"
    ):
        outer.__enter__()


def test_the_table_is_sorted_by_cost():
    def slow(a, b):
        time.sleep(0.01)
        return a * b

    with toy(extra={"Multiply": slow}), pg.use_backend("toy"):
        x = pg.asarray(np.ones((2, 3), np.float32))
        with pg.profile() as p:
            (x + x) * x * x
    title, first, second, total = str(p).splitlines()
    assert title.split()[:4] == ["kernel", "backend", "how", "calls"]
    assert first.split()[:4] == ["Multiply", "toy", "implementation", "2"]
    assert first.endswith("float32[2,3] float32[2,3]")
    assert second.split()[:4] == ["Add", "toy", "implementation", "1"]
    assert float(first.split()[4]) >= 20.0
    assert re.match(
        r"3 runs: \d+\.\d{3} ms in kernels of \d+\.\d{3} ms, device time unknown; at",
        total,
    )


def test_the_trace(tmp_path, backend):
    path = tmp_path / "trace.json"
    with toy(without=["Softmax"]):
        x = pg.asarray(X)
        with pg.use_backend("toy"), pg.profile() as p:
            pg.pad(pg.softmax(x), [(1, 1)], constant_values=float("nan"))
    p.to_chrome_trace(path)
    refuse = lambda text: pytest.fail(f"{text} is not JSON")
    trace = json.loads(path.read_text(), parse_constant=refuse)
    events = trace["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert {e["ph"] for e in events} == {"M", "X", "C"}
    assert len({(e["pid"], e["tid"]) for e in events}) == 1
    runs = [e for e in spans if e["cat"] != "move"]
    assert sorted(e["name"] for e in runs) == sorted(r.kernel for r in p.records)
    starts = [e["ts"] for e in runs]
    assert starts == sorted(starts)
    assert starts[0] >= 0
    whole = next(e for e in runs if e["name"] == "Softmax")
    assert whole["args"]["inputs"] == "float32[4]"
    assert whole["args"]["axis"] in ("-1", "0")
    assert whole["cat"] == "decomposition"
    (move,) = (e for e in spans if e["cat"] == "move")
    assert move["name"] == f"{backend} to toy"
    assert move["args"] == {"bytes": 16}
    stack = []  # viewers require that spans of a thread are nested or disjoint
    for e in sorted(spans, key=lambda e: (e["ts"], -e["dur"])):
        while stack and stack[-1] <= e["ts"]:
            stack.pop()
        ends = e["ts"] + e["dur"]
        assert not stack or ends <= stack[-1] + 1e-6
        stack.append(ends)
    assert sum(e["ph"] == "C" for e in events) == len(p.records)


def test_asynchronous_backends_are_waited_for():
    waits = []
    with toy() as arrays, pg.use_backend("toy"):
        arrays.synchronize = lambda: (waits.append(1), time.sleep(0.002))
        x = pg.asarray(X)
        with pg.profile() as p:
            x + x
        assert len(waits) == 3
        assert p.records[0].seconds >= 0.002
        assert pg.time(lambda: x + x).seconds >= 0.002


# --- the time of a device ---------------------------------------------------------


class Device:
    """A device whose kernels take a second each; it records calls to its timer."""

    def __init__(self):
        self.calls, self.worked = [], 0.0

    def time_device(self, on):
        self.calls.append(on)
        self.worked = 0.0

    def device_seconds(self):
        assert self.calls[-1:] == [True]
        return self.worked

    def works(self, function):
        def kernel(*args):
            self.worked += 1.0
            return function(*args)

        return kernel


@contextlib.contextmanager
def toy_device(**more):
    """Return the device of a backend ``toy`` whose Add and Exp run on it."""
    device = Device()
    extra = {"Add": device.works(np.add), "Exp": device.works(np.exp)}
    with toy(extra=extra, **more) as arrays:
        arrays.time_device = device.time_device
        arrays.device_seconds = device.device_seconds
        yield device


def test_device_time(tmp_path, backend):
    x = pg.asarray(np.ones((300, 300), np.float32))
    with pg.profile() as p:
        x @ x
    p.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (shown,) = (e["args"]["device ms"] for e in events if e["name"] == "BatchMatMul")
    _, row, total = str(p).splitlines()
    if backend in ("opencl", "webgpu"):
        assert 0 < p.device_seconds <= p.seconds * 1.01  # from two clocks
        assert shown == p.device_seconds * 1e3 == p.records[0].device * 1e3
        assert row.split()[6] == f"{shown:.3f}"
        assert f" ms, {shown:.3f} ms on devices; at most " in total
    else:
        assert p.device_seconds is p.records[0].device is shown is None
        assert row.split()[6] == "-"
        assert " ms, device time unknown; at most " in total


def test_device_time_belongs_to_one_run():
    with toy_device(without=["Softmax"]) as device, pg.use_backend("toy"):
        x = pg.asarray(X)
        x + x  # not profiled
        with pg.profile() as p:
            x + x
            pg.softmax(x)
            x * x
    worked = {(r.kernel, r.depth): r.device for r in p.records}
    assert worked["Add", 0] == 1.0
    assert worked["Exp", 1] == 1.0
    assert worked["Softmax", 0] == worked["Multiply", 0] == 0.0
    assert p.device_seconds == 2.0
    assert device.calls == [True, False]


def test_a_host_kernel_has_no_time_on_the_device():
    host_options = {"host": "cpu", "host_kernels": ["Unique"]}
    with toy_device(without=["Unique"], **host_options), pg.use_backend("toy"):
        x = pg.asarray(X)
        with pg.profile() as p:
            pg.unique_values(x + x)
    worked = {r.kernel: r.device for r in p.records}
    assert (worked["Add"], worked["Unique"]) == (1.0, None)
    assert p.device_seconds == 1.0


def test_profiles_that_nest_share_the_timer():
    with toy_device() as device, pg.use_backend("toy"):
        x = pg.asarray(X)
        with pg.profile() as outer:
            x + x
            with pg.profile() as inner:
                x + x
            x + x
        assert device.calls == [True, False]
        with pg.profile() as again:
            x + x
    assert [p.device_seconds for p in (outer, inner, again)] == [3.0, 1.0, 1.0]
    assert device.calls == [True, False, True, False]


def test_threads_that_profile_share_the_timer():
    inside = threading.Barrier(2, timeout=60)
    profiles = []

    def work():
        with pg.use_backend("toy"):
            x = pg.asarray(X)
            with pg.profile() as p:
                inside.wait()
                x + x
                inside.wait()
            profiles.append(p)

    with toy_device() as device:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert device.calls == [True, False]
    # The toy does not distinguish threads: each may also count the other's second.
    assert [1.0 <= p.device_seconds <= 2.0 for p in profiles] == [True, True]


def test_the_timer_stops_after_an_error():
    with toy_device() as device, pg.use_backend("toy"):
        x = pg.asarray(X)
        with pytest.raises(IndexError), pg.profile() as p:
            pg.run_kernel("GatherV2", [x + x, [9]], {"axis": 0, "batch_dims": 0})
    assert p.device_seconds == 1.0
    assert device.calls == [True, False]


def test_a_device_that_fails_at_the_end_leaves_no_observer():
    def fail():
        raise pg.BackendError("toy: the device is gone")

    with toy() as arrays, pg.use_backend("toy"):
        p = pg.profile()
        with pytest.raises(pg.BackendError, match="is gone"), p:
            arrays.synchronize = fail
    assert current().observers == ()
    assert backends.watchers == ()


def test_a_backend_that_opens_in_the_block_is_timed_from_its_first_upload():
    with toy_device() as device:
        with pg.profile() as p, pg.use_backend("toy"):
            assert device.calls == []
            x = pg.asarray(X)
            assert device.calls == [True]
            x + x
        assert p.device_seconds == 1.0
        assert device.calls == [True, False]


def test_time(backend):
    calls = []

    def f():
        calls.append(current().observers)
        time.sleep(0.002)
        return pg.exp(pg.ones((100,)))

    t = pg.time(f, repeat=3)
    assert [len(observers) for observers in calls] == [1, 0, 0, 0]
    assert 0.002 <= t.seconds <= t.mean
    assert t.kernel_seconds > 0
    assert t.peak >= 400
    assert re.match(r"\d+\.\d{3} ms \(mean ", str(t))
    with pytest.raises(ValueError, match="time: repeat 0 must be 1 or more"):
        pg.time(f, repeat=0)
