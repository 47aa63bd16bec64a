"""Device memory is freed, as counted by the device and not by Python.

Each program runs in a separate process, whose counts begin at zero.
"""

from __future__ import annotations

import json

import pytest
from plugrad.plugin import runtime

from .processes import program

RUNS_PER_OP = 1000
RUNS_PER_PRIMITIVE = 30

COUNT = """
        import gc, json
        import numpy as np
        from plugrad.plugin import runtime
        from plugrad_conformance.backend.formulae import ROWS, listed

        opened = runtime(name)
        arrays = opened.arrays

        def finish():
            if hasattr(arrays, "synchronize"):
                arrays.synchronize()

        def counted():
            gc.collect()
            finish()
            return [
                f() if f else None
                for f in (getattr(arrays, w, None) for w in ("peak", "kept"))
            ]

        def fill_pool(x):
            held = [pg.asarray(x) for _ in range(16)]
            finish()
            del held
"""

EACH = """
        from plugrad_conformance.backend.test_device_memory import RUNS_PER_PRIMITIVE
        from plugrad_conformance.primitives import PRIMITIVES

        dtypes = {"BitwiseAnd": "int32", "Imag": "complex64", "Real": "complex64"}
        needs = {"Complex": "complex64"}
        counts = {}
        for kernel in PRIMITIVES:
            dtype = dtypes.get(kernel, "float32")
            if {dtype, needs.get(kernel, dtype)} - {*opened.dtypes}:
                continue
            rng = np.random.default_rng(0)
            if kernel == "Cast":
                given = [np.ones((64, 256), dtype)]
                attrs = {"dtype": np.dtype("int32")}
            else:
                given, attrs = ROWS[kernel].inputs(rng, (64, 256), np.dtype(dtype))
            xs = [pg.asarray(x) for x in given]

            def run():
                ys = listed(pg.run_kernel(kernel, xs, attrs))
                finish()
                return sum(y.size * y.dtype.itemsize for y in ys)

            for _ in range(3):
                nbytes = run()
            before = counted()
            for _ in range(RUNS_PER_PRIMITIVE):
                run()
            counts[kernel] = before, counted(), nbytes
        print(json.dumps(counts))
        """


def complaints(before: list[int | None], after: list[int | None], leak: int) -> str:
    """Return complaints about counts that have grown by more than ``leak`` bytes.

    Args:
        before: The counts ``peak()`` and ``kept()`` before the runs; None for a missing
            count.
        after: The counts after the runs.
        leak: Half of the bytes that the runs would lose if each lost its result.

    """
    (peak, kept), (later_peak, later_kept) = before, after
    if peak is not None and later_peak is not None and later_peak - peak > leak:
        return f"peak() has grown by {later_peak - peak:,} bytes: buffers are lost"
    if kept is None or later_kept is None:
        return ""
    if later_kept - kept > leak:
        return f"kept() has grown by {later_kept - kept:,} bytes: none is used again"
    if kept > 0 and later_kept < kept / 2:
        return f"kept() fell from {kept:,} to {later_kept:,} bytes: buffers are lost"
    return ""


def counts_or_skip(backend: str) -> None:
    arrays = runtime(backend).arrays
    if not hasattr(arrays, "peak") and not hasattr(arrays, "kept"):
        pytest.skip(f"{backend} counts no memory: its Arrays lack peak() and kept()")


def test_a_thousand_runs_lose_no_buffer(backend: str) -> None:
    """The results are dropped, so the device needs only the memory of a few."""
    counts_or_skip(backend)
    told = program(
        backend,
        COUNT
        + f"""
        x = np.ones((64, 256), np.float32)
        tensor = pg.asarray(x)
        for _ in range(3):
            y = pg.exp(tensor)
            finish()
        fill_pool(x)
        del y
        before = counted()
        for _ in range({RUNS_PER_OP}):
            y = pg.exp(tensor)
            finish()
        del y
        print(json.dumps([before, counted(), x.nbytes]))
        """,
    )
    before, after, nbytes = json.loads(told.stdout)
    complaint = complaints(before, after, RUNS_PER_OP * nbytes // 2)
    assert not complaint, f"{RUNS_PER_OP} runs of Exp: {complaint}"


def test_no_primitive_loses_buffers(backend: str) -> None:
    """Temporary buffers are not lost."""
    counts_or_skip(backend)
    told = program(backend, COUNT + EACH)
    found = {}
    for kernel, (before, after, nbytes) in json.loads(told.stdout).items():
        complaint = complaints(
            before, after, max(RUNS_PER_PRIMITIVE * nbytes // 2, 1 << 16)
        )
        if complaint:
            found[kernel] = complaint
    assert not found, f"{RUNS_PER_PRIMITIVE} runs of each: {found}"


def test_native_arrays_in_cycles_are_freed(backend: str) -> None:
    """Python's garbage collector finalizes everything in their cycles.

    A handle with its own finalizer is finalized with the array, so a pool that gets the
    handle back from the array would hand out a dead one. The pool must own the handles,
    and the array must know only the number of its handle.
    """
    told = program(
        backend,
        """
        import gc
        import numpy as np
        from plugrad.plugin import runtime

        arrays = runtime(name).arrays
        values = np.arange(5000, dtype=np.float32)

        class Node:
            pass

        def dropped(count):
            for i in range(count):
                node = Node()
                node.itself = node
                node.native = arrays.upload(values + i)
                node.tensor = pg.asarray(values) + i
                node.view = pg.reshape(node.tensor, (50, 100))

        for turn in range(5):
            dropped(20)
            gc.collect()
            ys = [pg.asarray(values) * k for k in range(40)]
            for k, y in enumerate(ys):
                assert (y.numpy() == values * k).all(), (turn, k)
        print("right")
        """,
    )
    assert told.stdout == "right\n", told.stdout
    assert "Exception ignored" not in told.stderr, told.stderr


def test_cycles_of_native_arrays_take_no_memory(backend: str) -> None:
    """When cycles are collected, their buffers return to the device."""
    counts_or_skip(backend)
    told = program(
        backend,
        COUNT
        + """
        x = np.ones((64, 256), np.float32)

        def dropped(count):
            for i in range(count):
                node = [arrays.upload(x)]
                node.append(node)
                del node
                if i % 10 == 9:
                    gc.collect()

        dropped(10)
        fill_pool(x)
        before = counted()
        dropped(100)
        print(json.dumps([before, counted(), x.nbytes]))
        """,
    )
    before, after, nbytes = json.loads(told.stdout)
    complaint = complaints(before, after, 50 * nbytes)
    assert not complaint, f"100 arrays in cycles: {complaint}"
