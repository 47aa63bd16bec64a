"""The C accelerators with kernels, gradients and finalizers that misbehave.

Whatever these do, an accelerator returns or raises the same as its Python function.
"""

import gc
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.engine import accelerated, context, dispatch
from plugrad._src.engine import tape as _tape
from plugrad._src.ops.basis import binary
from plugrad._src.registry.contract import Kernel, same
from plugrad._src.tensor.tensor import Tensor

from tests.core.engine.test_accelerated import (
    SlowPath,
    accelerator,
    accelerators,
    f32,
    taped,
)

__all__ = ["accelerators"]  # pytest finds this fixture


@contextmanager
def registered(contract, kernel, **gradient):
    """Register a kernel and its gradient inside the block."""
    pg.register_kernel(contract, "cpu", kernel)
    if gradient:
        pg.register_gradient(contract.name, **gradient)
    try:
        yield
    finally:
        if gradient:
            pg.unregister_gradient(contract.name)
        pg.unregister_kernel(contract.name, "cpu")


def in_c_and_python(work):
    """Return the result or the error of ``work``; check that C and Python agree."""
    found = []
    for on in (False, True, True):  # the Python run caches the plans
        accelerated.enable(on)
        try:
            found.append(work().numpy().tolist())
        except Exception as error:
            found.append((type(error), str(error)))
    in_python, *in_c = found
    assert in_c == [in_python] * 2
    return in_python


@pytest.mark.parametrize("inputs", ["a", "a, b", "a, b, c", "a, b, c, d, e"])
@pytest.mark.parametrize("given", [1, 2, 4])
def test_wrong_numbers_of_inputs_have_the_same_effect_as_in_python(inputs, given):
    contract = Kernel(f"t.Few{len(inputs)}({inputs}; p)", out=same)
    x = f32(2)
    other_inputs = [f32(2)] * (given - 1)
    with registered(contract, lambda *xs, p: 2 * xs[0], a=lambda dy, y, p: dy * y * p):
        f = lambda x: pg.sum(dispatch.run(contract, x, *other_inputs, p=3.0))
        found = in_c_and_python(lambda: pg.grad(f)(x))
    if given == len(inputs.split(", ")):
        assert found == [6.0, 12.0]


def test_a_tape_records_all_of_several_outputs():
    contract = Kernel("t.Two(x) -> y, z")
    with registered(contract, lambda x: (x, 3 * x), x=lambda dy, dz, z: dy * z + dz):
        f = lambda x: pg.sum(dispatch.run(contract, x))
        assert in_c_and_python(lambda: pg.grad(f)(f32(2))) == [3.0, 6.0]


@pytest.mark.parametrize(
    "spoil", [Tensor.dispose, lambda x: delattr(x, "_cached_copies")]
)
def test_an_input_that_its_kernel_spoils_is_an_error(spoil):
    contract = Kernel("t.Spoil(x)", out=same)
    victim = []

    def kernel(x):
        spoil(victim.pop())
        return 2 * x

    def work():
        victim.append(f32(2))
        return taped(lambda: dispatch.run(contract, victim[0]), victim[0])[0]

    with registered(contract, kernel, x=lambda dy, x: dy * x):
        error, _ = in_c_and_python(work)
    assert error in (ValueError, AttributeError)


def test_a_finalizer_that_disposes_an_input_does_no_harm():
    contract = Kernel("t.Garbage(x)", out=same)
    victim = []

    class Garbage:
        def __init__(self):
            self.me = self

        def __del__(self):
            victim[0].dispose()

    def kernel(x):
        gc.collect()
        Garbage()  # until Python 3.12, the collector runs in any allocation
        gc.set_threshold(next(limits))
        return 2 * x

    before = gc.get_threshold()
    limits = iter(range(1, 100))
    done = 0
    work = lambda: dispatch.run(contract, victim[0])
    with registered(contract, kernel, x=lambda dy, x: dy * x):
        for _ in range(60):
            victim[:] = [f32(2)]
            victim[0]._cached_copies = {}  # there is no other reference to it
            try:
                y, tape = taped(work, victim[0])
            except ValueError:
                continue  # a collection disposed of the tensor before it was saved
            finally:
                gc.set_threshold(*before)
            assert y.numpy().tolist() == [2.0, 4.0]
            saved = [node.saved[0]._cached_copies for node in tape.nodes]
            fresh = [{} for _ in range(100)]  # reuse memory of dicts freed too early
            assert not any(a is b for a in saved for b in fresh)
            done += 1
    assert done


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_endless_recursion_through_c_alone_is_an_error():
    contract = Kernel("t.Endless(x)", out=same)
    x = f32(2)
    cpu = dispatch.active()
    upload = lambda array: Tensor(array, cpu)
    nbytes = lambda x: 0
    arrays = SimpleNamespace(upload=upload, download=Tensor.numpy, nbytes=nbytes)
    runtime = pg.plugin.Runtime(arrays=arrays, kernels={})
    pg.register_backend(pg.plugin.Backend("endless", open=lambda: runtime))
    pg.register_kernel(contract, "endless", partial(dispatch.run, contract))
    try:
        with pg.use_backend("endless"), pytest.raises(RecursionError):
            dispatch.run(contract, x)
    finally:
        pg.remove_backend("endless")


class NonsenseArray:
    """A native array whose shape or dtype may be nonsense."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


class DtypeOfWrongKind:
    kind = 3


NONSENSE = {
    "nothing": (None, "does it lack a return"),
    "no dtype": (
        NonsenseArray((2,), None),
        "'NoneType' object has no attribute 'kind'",
    ),
    "a kind that is no text": (
        NonsenseArray((2,), DtypeOfWrongKind()),
        "requires string",
    ),
}


@pytest.mark.parametrize("case", NONSENSE)
@pytest.mark.parametrize("in_c", [True, False])
def test_a_kernel_that_returns_nonsense_under_a_tape_is_an_error(case, in_c):
    native, message = NONSENSE[case]
    contract = Kernel("t.Odd(x)", out=same)
    pg.register_kernel(contract, "cpu", lambda x: x)
    pg.register_gradient("t.Odd", x=lambda dy: dy)
    x = f32(2)
    try:
        taped(lambda: dispatch.run(contract, x), x)  # caches the plan
        pg.unregister_kernel("t.Odd", "cpu")
        pg.register_kernel(contract, "cpu", lambda x: native)
        accelerated.enable(in_c)
        with pytest.raises((AttributeError, TypeError), match=message):
            taped(lambda: dispatch.run(contract, x), x)
    finally:
        pg.unregister_gradient("t.Odd")
        pg.unregister_kernel("t.Odd", "cpu")


@pytest.mark.parametrize(
    "odd",
    [
        NonsenseArray([2], np.dtype("float32")),
        NonsenseArray((2.0,), np.dtype("float32")),
    ],
)
def test_shapes_other_than_tuples_of_int_are_left_to_python(odd):
    x = f32(2)
    y = Tensor(odd, x._home)
    y._dtype = x.dtype
    with pytest.raises(SlowPath):
        accelerator("elementwise")(binary.ADD, x, y)


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_an_error_in_a_kernel_is_raised_and_leaves_no_node():
    contract = Kernel("t.Fails(x)", out=same)
    fails = [False]

    def kernel(x):
        if fails[0]:
            raise ZeroDivisionError("on purpose")
        return x

    pg.register_kernel(contract, "cpu", kernel)
    pg.register_gradient("t.Fails", x=lambda dy: dy)
    x = f32(2)
    tape = _tape.Tape()
    tape.watch(x)
    try:
        taped(lambda: dispatch.run(contract, x), x)
        fails[0] = True
        with context.taping((tape,)):
            for _ in range(3):
                with pytest.raises(ZeroDivisionError, match="on purpose"):
                    accelerator("run")(contract, x)
    finally:
        pg.unregister_gradient("t.Fails")
        pg.unregister_kernel("t.Fails", "cpu")
    assert tape.nodes == []


def test_an_error_in_a_gradient_is_raised():
    def fails(dy):
        raise ZeroDivisionError("on purpose")

    with (
        pg.override_gradient("Exp", x=fails),
        pytest.raises(ZeroDivisionError, match="on purpose"),
    ):
        pg.grad(lambda x: pg.sum(pg.exp(x)))(f32(2))
