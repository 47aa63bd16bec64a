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

COUNT_SOURCE = """
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
                for f in (getattr(arrays, n, None) for n in ("peak", "kept"))
            ]

        def fill_pool(x):
            tensors = [pg.asarray(x) for _ in range(16)]
            finish()
            del tensors
"""

PRIMITIVES_SOURCE = """
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


def describe_leak(before: list[int | None], after: list[int | None], limit: int) -> str:
    """Describe a lost buffer: a count that has grown by more than ``limit`` bytes.

    Return "" if the counts show no loss.

    Args:
        before: The counts ``peak()`` and ``kept()`` before the runs; None for a missing
            count.
        after: The counts after the runs.
        limit: Half of the bytes that the runs would lose if each lost its result.

    """
    (peak, kept), (later_peak, later_kept) = before, after
    if peak is not None and later_peak is not None and later_peak - peak > limit:
        return f"peak() has grown by {later_peak - peak:,} bytes: buffers are lost"
    if kept is None or later_kept is None:
        return ""
    if later_kept - kept > limit:
        return (
            f"kept() has grown by {later_kept - kept:,} bytes: buffers are not reused"
        )
    if kept > 0 and later_kept < kept / 2:
        return f"kept() fell from {kept:,} to {later_kept:,} bytes: buffers are lost"
    return ""


def skip_without_counts(backend: str) -> None:
    arrays = runtime(backend).arrays
    if not hasattr(arrays, "peak") and not hasattr(arrays, "kept"):
        pytest.skip(f"{backend} counts no memory: its Arrays lack peak() and kept()")


def test_a_thousand_runs_lose_no_buffer(backend: str) -> None:
    """Every result is dropped, so the device needs memory for only a few of them."""
    skip_without_counts(backend)
    result = program(
        backend,
        COUNT_SOURCE
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
    before, after, nbytes = json.loads(result.stdout)
    complaint = describe_leak(before, after, RUNS_PER_OP * nbytes // 2)
    assert not complaint, f"{RUNS_PER_OP} runs of Exp: {complaint}"


def test_no_primitive_loses_buffers(backend: str) -> None:
    """Neither results nor temporary buffers of a primitive are lost."""
    skip_without_counts(backend)
    result = program(backend, COUNT_SOURCE + PRIMITIVES_SOURCE)
    found = {}
    for kernel, (before, after, nbytes) in json.loads(result.stdout).items():
        complaint = describe_leak(
            before, after, max(RUNS_PER_PRIMITIVE * nbytes // 2, 1 << 16)
        )
        if complaint:
            found[kernel] = complaint
    assert not found, f"{RUNS_PER_PRIMITIVE} runs of each: {found}"


def test_native_arrays_in_cycles_are_freed(backend: str) -> None:
    """Python's garbage collector finalizes all objects of a reference cycle.

    A handle that has a finalizer is finalized together with its array. If the array
    then returned the handle to the pool, the pool would hand out a dead handle. So the
    pool must own the handles, and the array must know only the number of its handle.
    """
    result = program(
        backend,
        """
        import gc
        import numpy as np
        from plugrad.plugin import runtime

        arrays = runtime(name).arrays
        values = np.arange(5000, dtype=np.float32)

        class Node:
            pass

        def drop_cycles(count):
            for i in range(count):
                node = Node()
                node.itself = node
                node.native = arrays.upload(values + i)
                node.tensor = pg.asarray(values) + i
                node.view = pg.reshape(node.tensor, (50, 100))

        for turn in range(5):
            drop_cycles(20)
            gc.collect()
            ys = [pg.asarray(values) * k for k in range(40)]
            for k, y in enumerate(ys):
                assert (y.numpy() == values * k).all(), (turn, k)
        print("right")
        """,
    )
    assert result.stdout == "right\n", result.stdout
    assert "Exception ignored" not in result.stderr, result.stderr


def test_cycles_of_native_arrays_return_their_memory(backend: str) -> None:
    """When cycles are collected, their buffers return to the device."""
    skip_without_counts(backend)
    result = program(
        backend,
        COUNT_SOURCE
        + """
        x = np.ones((64, 256), np.float32)

        def drop_cycles(count):
            for i in range(count):
                node = [arrays.upload(x)]
                node.append(node)
                del node
                if i % 10 == 9:
                    gc.collect()

        drop_cycles(10)
        fill_pool(x)
        before = counted()
        drop_cycles(100)
        print(json.dumps([before, counted(), x.nbytes]))
        """,
    )
    before, after, nbytes = json.loads(result.stdout)
    complaint = describe_leak(before, after, 50 * nbytes)
    assert not complaint, f"100 arrays in cycles: {complaint}"
