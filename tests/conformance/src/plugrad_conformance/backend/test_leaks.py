"""Native arrays are freed with the last tensor that holds them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Kernel

from .formulae import ROWS, listed
from .processes import program
from .test_primitives import skip_unsupported

SPY = Kernel("conformance.Spy(x)", out=lambda x: x)


class Spy:
    """Keeps weak references to native arrays; NumPy scalars allow none."""

    def __init__(self) -> None:
        self.refs: list[weakref.ref[Any]] = []

    def __call__(self, x: Any) -> Any:
        """Record a native array; the kernel is the identity."""
        if not isinstance(x, np.generic):
            try:
                self.refs.append(weakref.ref(x))
            except TypeError:
                pytest.skip(f"{type(x).__name__} has no weak references")
        return x

    def alive(self) -> int:
        """Return the number of arrays that are still alive."""
        gc.collect()
        return sum(ref() is not None for ref in self.refs)


@pytest.fixture
def spy(backend: str) -> Iterator[Spy]:
    """Register a kernel that records the native arrays it is given."""
    seen = Spy()
    pg.register_kernel(SPY, backend, seen)
    yield seen
    pg.unregister_kernel(SPY.name, backend)


def record(y: pg.Tensor) -> None:
    pg.run_kernel(SPY.name, [y], {})


@pytest.mark.parametrize("kernel", ROWS)
def test_results_are_freed(kernel: str, spy: Spy, backend: str) -> None:
    dtype = {"Imag": "complex64", "Real": "complex64"}.get(kernel, "float32")
    dtype = "int32" if kernel == "BitwiseAnd" else dtype
    make = ROWS[kernel].inputs
    skip_unsupported(kernel, dtype, backend)
    arrays, attrs = make(np.random.default_rng(0), (4, 6), np.dtype(dtype))
    for _ in range(3):
        xs = [pg.asarray(x) for x in arrays]
        ys = listed(pg.run_kernel(kernel, xs, attrs))
        for tensor in (*xs, *ys):
            record(tensor)
        del xs, ys, tensor
    assert spy.refs
    assert spy.alive() == 0, f"{kernel}: native arrays outlive their tensors"


def test_arrays_saved_for_gradients_are_freed(spy: Spy, backend: str) -> None:
    def step() -> None:
        w = pg.asarray(np.ones((4, 4), np.float32))
        f = lambda w: pg.sum(pg.tanh(pg.matmul(w, w)))
        value, pullback = pg.vjp(f, w)
        for tensor in (w, value, *pullback(pg.ones(()))):
            record(tensor)

    for _ in range(3):
        step()
    assert spy.alive() == 0


def test_a_view_keeps_its_memory_alive(spy: Spy, backend: str) -> None:
    x = pg.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    view = pg.permute_dims(x, (1, 0))[1:, ::2]
    expected = np.arange(12).reshape(3, 4).T[1:, ::2]
    x.dispose()
    del x
    for _ in range(5):  # would overwrite the memory if it had been freed
        record(pg.zeros((3, 4)))
    np.testing.assert_array_equal(view.numpy(), expected)


def test_repeated_work_uses_constant_memory(backend: str) -> None:
    """After each round, plugrad counts as many tensors, buffers and bytes as before."""

    def one_round() -> None:
        x = pg.asarray(np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32))
        f = lambda x: pg.mean(pg.square(pg.softmax(pg.matmul(x, x))))
        pg.grad(lambda x: pg.sum(pg.square(pg.grad(f)(x))))(x).numpy()

    def count() -> tuple[int, ...]:
        gc.collect()
        memory = pg.memory()
        return memory.tensors, memory.buffers, memory.bytes

    one_round()
    before = count()
    for _ in range(20):
        one_round()
    assert count() == before


def test_the_process_does_not_grow(backend: str) -> None:
    """A process allocates two gigabytes in total, but its memory stays small."""
    result = program(
        backend,
        """
        import gc, os, resource, sys
        import numpy as np

        def resident():
            try:
                with open("/proc/self/statm") as file:
                    return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except OSError:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                return peak * (1 if sys.platform == "darwin" else 1024)

        block = np.ones((1 << 20,), np.float32)

        def work(count):
            for _ in range(count):
                x = pg.asarray(block)
                y = pg.exp(x + 1.0)
                del x
                assert y[0].item() > 7
                del y
            gc.collect()

        work(20)
        before = resident()
        work(180)
        print(resident() - before)
        """,
    )
    grown = int(result.stdout)
    assert grown < 200e6, f"the process has grown by {grown / 1e6:.0f} MB"
