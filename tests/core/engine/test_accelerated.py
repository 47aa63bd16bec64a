"""The C accelerators run the fast paths and leave everything else to Python.

test_accelerated_abused.py runs them with kernels, gradients and finalizers that
misbehave.
"""

import copy
import gc
import pickle
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.autodiff import backward
from plugrad._src.engine import accelerated, context, dispatch
from plugrad._src.engine import tape as _tape
from plugrad._src.ops.basis import _convert, binary, reduce, shape, unary
from plugrad._src.ops.elementwise import trigonometry
from plugrad._src.ops.elementwise.error_functions import ERF
from plugrad._src.registry.contract import VJP, Kernel, same
from plugrad._src.tensor.tensor import Tensor

SOURCES = Path(__file__).parents[3] / "core/src_c"
PYTHON_FUNCTIONS = {
    "run": dispatch.run,
    "unary": _convert.unary,
    "floating_unary": _convert.floating_unary,
    "elementwise": _convert.elementwise,
    "reduction": _convert.reduction,
    "_backward_node": backward._backward_node,
}


class SlowPath(Exception):
    """Raised when an accelerator hands a call over to Python."""


@pytest.fixture(autouse=True)
def accelerators():  # replaces the folder's fixture: these tests compare C and Python
    if accelerated._speedups is None:
        pytest.skip("the core was built without its accelerators in C")
    accelerated.enable(True)
    with pg.use_backend("cpu"):
        pg.zeros(1)  # opens the backend
        yield


def accelerator(name):
    """Return an accelerator whose Python function raises SlowPath."""

    def python(*_, **__):
        raise SlowPath(name)

    python.__name__ = name
    return accelerated._speedups.Accelerated(python)


def f32(*sizes, dtype="float32"):
    count = np.prod(sizes, dtype=int)
    return pg.asarray(np.arange(1, 1 + count).reshape(sizes), dtype=dtype)


def taped(work, *xs):
    """Run ``work`` under a tape that watches ``xs``; return the result and the tape."""
    tape = _tape.Tape()
    for x in xs:
        tape.watch(x)
    with context.taping((tape,)):
        return work(), tape


# Calls that take the fast path, with and without a tape:
# (accelerator, arguments, attributes)
FAST_CALLS = {
    "run": ("run", lambda: (unary.EXP, f32(2, 3)), {}),
    "run, attributes": ("run", lambda: (shape.RESHAPE, f32(2, 3)), {"shape": (3, 2)}),
    "run, variadic": ("run", lambda: (shape.CONCAT, f32(2), f32(3)), {"axis": 0}),
    "run, int": ("run", lambda: (unary.NEG, f32(2, dtype="int32")), {}),
    "unary": ("unary", lambda: (unary.ABS, f32(2, dtype="int64")), {}),
    "floating": ("floating_unary", lambda: (trigonometry.TANH, f32(2, 3)), {}),
    "floating, kinds": (
        "floating_unary",
        lambda: (ERF, f32(2, dtype="float64"), "f"),
        {},
    ),
    "elementwise": ("elementwise", lambda: (binary.ADD, f32(2, 3), f32(2, 3)), {}),
    "elementwise, broadcast": (
        "elementwise",
        lambda: (binary.MULTIPLY, f32(4, 1, 3), f32(2, 1)),
        {},
    ),
    "elementwise, kinds": (
        "elementwise",
        lambda: (binary.ADD, f32(2, dtype="float64"), f32(2, dtype="float64"), "f"),
        {},
    ),
    "elementwise, scalar": ("elementwise", lambda: (binary.SUB, f32(2), 2.0), {}),
    "elementwise, int first": ("elementwise", lambda: (binary.SUB, 2, f32(2)), {}),
    "reduction": ("reduction", lambda: (reduce.SUM, f32(2, 3), (1,), False), {}),
}


@pytest.mark.parametrize("under_tape", [False, True])
@pytest.mark.parametrize("case", FAST_CALLS)
def test_the_fast_path_does_what_python_does(case, under_tape):
    name, make, attrs = FAST_CALLS[case]
    arguments = make()
    xs = [x for x in arguments if isinstance(x, Tensor)]
    python = PYTHON_FUNCTIONS[name].__wrapped__
    call = lambda f: lambda: f(*arguments, **attrs)
    if not under_tape:
        expected = python(*arguments, **attrs)  # scalars are cached from here on
        found = accelerator(name)(*arguments, **attrs)
    else:
        accelerated.enable(False)
        expected, python_tape = taped(call(python), *xs)
        taped(call(python), *xs)  # caches the plans that C uses
        accelerated.enable(True)
        found, c_tape = taped(call(accelerator(name)), *xs)
        assert len(c_tape.nodes) == len(python_tape.nodes)
        for node, python_node in zip(c_tape.nodes, python_tape.nodes, strict=True):
            assert type(node) is _tape.Node
            assert node[:3] == python_node[:3]
            assert [(t.shape, t.dtype) for t in node.outputs] == [
                (t.shape, t.dtype) for t in python_node.outputs
            ]
            assert _saved(node) == _saved(python_node)
            assert node.outputs == [found._tape_id]
            assert found._tape_id in c_tape.tracked
    assert type(found) is Tensor
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def _saved(node):
    """Return comparable forms of the values that a node has saved."""

    def comparable(value):
        if isinstance(value, Tensor):
            source = value._tape_id if value._tape_id in node.inputs else "the output"
            return source, value._home, value.numpy().tolist()
        if isinstance(value, _tape.TapeId):
            return value.shape, value.dtype
        return value

    return [comparable(value) for value in node.saved]


def _tensor_without_dtype():
    x = f32(2)
    del x._dtype
    return x


def _disposed_tensor():
    x = f32(2)
    x.dispose()
    return x


SLOW_CALLS = {
    "no input": ("run", lambda: (unary.EXP,)),
    "no kernel": ("run", lambda: ("Exp", f32(2))),
    "a kernel without implementation": ("run", lambda: (Kernel("t.Nobody(x)"), f32(2))),
    "an empty kernel": ("run", lambda: (Kernel.__new__(Kernel), f32(2))),
    "an array": ("run", lambda: (unary.EXP, np.ones(2, np.float32))),
    "many inputs": ("run", lambda: (shape.CONCAT, *[f32(1)] * 17)),
    "an empty tensor object": ("run", lambda: (unary.EXP, Tensor.__new__(Tensor))),
    "a deleted slot": ("run", lambda: (unary.EXP, _tensor_without_dtype())),
    "integers, where floats belong": (
        "floating_unary",
        lambda: (unary.EXP, f32(2, dtype="int32")),
    ),
    "a kind that is refused": (
        "floating_unary",
        lambda: (ERF, pg.asarray([1j]), "f"),
    ),
    "kinds that are no text": ("floating_unary", lambda: (ERF, f32(1), 1)),
    "two dtypes": ("elementwise", lambda: (binary.ADD, f32(2), f32(2, dtype="int32"))),
    "shapes that differ": ("elementwise", lambda: (binary.ADD, f32(2), f32(3))),
    "a new scalar": ("elementwise", lambda: (binary.ADD, f32(2), 0.123456)),
    "NaN": ("elementwise", lambda: (binary.ADD, f32(2), float("nan"))),
    "-0.0": ("elementwise", lambda: (binary.ADD, f32(2), -0.0)),
    "a bool": ("elementwise", lambda: (binary.ADD, f32(2), True)),
    "strings": (
        "elementwise",
        lambda: (binary.ADD, pg.asarray(["a"]), pg.asarray(["b"])),
    ),
    "an empty list": ("elementwise", lambda: (binary.ADD, [], [])),
    "too few": ("elementwise", lambda: (binary.ADD, f32(2))),
    "an axis too few": ("reduction", lambda: (reduce.SUM, f32(2), (0,))),
    "no node": ("_backward_node", lambda: (None, set(), {}, [], None, False)),
}


@pytest.mark.parametrize("case", SLOW_CALLS)
def test_unusual_calls_are_left_to_python(case):
    name, make = SLOW_CALLS[case]
    arguments = make()
    with pytest.raises(SlowPath):
        accelerator(name)(*arguments)
    with pytest.raises(SlowPath):
        taped(lambda: accelerator(name)(*arguments), f32(1))


def test_an_error_while_moving_an_input_is_raised():
    with pytest.raises(ValueError, match="has been disposed"):
        accelerator("run")(unary.EXP, _disposed_tensor())


def test_observed_runs_are_left_to_python():
    x = f32(2)
    with context.Scope(observer=lambda *_: None), pytest.raises(SlowPath):
        accelerator("run")(unary.EXP, x)
    two = _tape.Tape(), _tape.Tape()
    with context.taping(two), pytest.raises(SlowPath):
        accelerator("run")(unary.EXP, x)


def test_disabled_accelerators_leave_everything_to_python():
    accelerated.enable(False)
    assert accelerated.fast_path_language() == "Python"
    with pytest.raises(SlowPath):
        accelerator("run")(unary.EXP, f32(2))


def test_an_accelerator_is_found_by_the_name_of_its_function():
    with pytest.raises(ValueError, match="there is no accelerator of 'nothing'"):
        accelerator("nothing")
    assert dispatch.run.__doc__ == dispatch.run.__wrapped__.__doc__
    with pytest.raises(AttributeError, match="__name__"):
        accelerated._speedups.Accelerated(object())
    for name in (1.5, b"run", None):
        with pytest.raises(ValueError, match="there is no accelerator of"):
            accelerated._speedups.Accelerated(SimpleNamespace(__name__=name))
    with pytest.raises(TypeError):
        accelerated._speedups.Accelerated()


def test_an_accelerator_is_pickled_and_copied_like_a_function():
    for duplicate in (
        copy.copy,
        copy.deepcopy,
        lambda f: pickle.loads(pickle.dumps(f)),
    ):
        assert duplicate(dispatch.run) is dispatch.run


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_nothing_is_moved_to_a_backend_that_lacks_the_kernel():
    x = f32(2)
    runtime = pg.plugin.Runtime(arrays=dispatch.active().runtime.arrays, kernels={})
    pg.register_backend(pg.plugin.Backend("bare", open=lambda: runtime))
    try:
        with pg.use_backend("bare"), pytest.raises(SlowPath):
            accelerator("run")(unary.EXP, x)
    finally:
        pg.remove_backend("bare")
    assert x._cached_copies is None


# --- memory -----------------------------------------------------------------------


def _work_for_all_accelerators():
    """Return a function that runs every accelerator."""
    x = f32(2, 3)
    f = lambda x: pg.sum(pg.tanh(x * x + x + 1.0) * pg.concat([x, x])[:2])
    double = pg.custom_grad(lambda x: (x * 2, lambda dy: dy * 2))
    return lambda: (pg.grad(f)(x), pg.grad(lambda x: pg.sum(double(x)))(x), x + x)


def test_reference_counts_stay_the_same():
    work = _work_for_all_accelerators()
    for _ in range(50):
        work()
    shared = [unary.EXP, binary.ADD, np.dtype("float32"), Tensor, _tape.TapeId]
    shared += [_tape.Node, dispatch.active(), context.current(), context.PROCESS]
    gc.collect()
    counts = [sys.getrefcount(x) for x in shared]
    objects = len(gc.get_objects())
    for _ in range(2000):
        work()
    gc.collect()
    after = [sys.getrefcount(x) for x in shared]
    assert max(abs(a - b) for a, b in zip(counts, after, strict=True)) < 50
    assert len(gc.get_objects()) - objects < 50


def _count_memory_errors(call):
    """Run ``call`` with more and more memory; return how many runs failed.

    Only accelerators are tested in this way, because not all of Python's own code
    survives a lack of memory.
    """
    testcapi = pytest.importorskip("_testcapi", reason="this Python has no _testcapi")
    failed = 0
    for allocations in range(300):
        testcapi.set_nomemory(allocations)
        try:
            call()
        except MemoryError:
            failed += 1
        finally:
            testcapi.remove_mem_hooks()
    return failed


@pytest.mark.parametrize("case", FAST_CALLS)
def test_running_out_of_memory_leaves_no_incomplete_node(case):
    name, make, attrs = FAST_CALLS[case]
    arguments = make()
    run_in_c = accelerator(name)
    call = lambda: run_in_c(*arguments, **attrs)
    PYTHON_FUNCTIONS[name](*arguments, **attrs)
    assert _count_memory_errors(call)
    xs = [x for x in arguments if isinstance(x, Tensor)]
    taped(call_python := lambda: PYTHON_FUNCTIONS[name](*arguments, **attrs), *xs)
    _, tape = taped(lambda: _count_memory_errors(call), *xs)
    expected, python_tape = taped(call_python, *xs)
    assert bool(tape.nodes) == bool(python_tape.nodes)
    for node in tape.nodes:  # failed calls leave no node, and all nodes are complete
        assert len(node) == len(_tape.Node._fields)
        assert len(node.saved) == len(python_tape.nodes[0].saved)
    np.testing.assert_array_equal(call().numpy(), expected.numpy())


def test_running_out_of_memory_in_a_backward_pass_is_an_error():
    x = f32(2)
    y, tape = taped(lambda: binary.multiply(x, x), x)
    (node,) = tape.nodes
    dy = f32(2)
    backward_in_c = accelerator("_backward_node")
    cotangents = {}

    def call():
        cotangents.clear()
        cotangents[y._tape_id] = dy
        backward_in_c(node, tape.tracked, cotangents, (), node.backend, False)

    call()
    assert _count_memory_errors(call)
    call()
    np.testing.assert_array_equal(cotangents[x._tape_id].numpy(), [2.0, 8.0])


# --- aliases and recording by hand ------------------------------------------------


def recorded(record, tape, x, y):
    """Record a run of the kernel test.Slope by hand; return its node."""
    rule = VJP(lambda dy, *_: dy, ("x", "y", "x_spec", "slope"), "test")
    contract = Kernel("test.Slope(x; slope)", out=same)
    plan = _tape.make_plan(contract, {"x": rule}, 1, 1)
    record((tape,), plan, dispatch.active(), (x,), {"slope": 0.5}, (y,), "a/b")
    return tape.nodes[-1]


def test_record_in_c_records_the_same_as_in_python():
    c_tape = _tape.Tape()
    python_tape = _tape.Tape()
    x = f32(2)
    assert c_tape.watch(x) is python_tape.watch(x)
    for record, tape in (
        (accelerator("record"), c_tape),
        (_tape.record.__wrapped__, python_tape),
    ):
        y = f32(2)
        node = recorded(record, tape, x, y)
        assert node.inputs == [x._tape_id]
        assert node.outputs == [y._tape_id]
        assert node.scope == "a/b"
        assert tape.tracked == {x._tape_id, y._tape_id}
        saved_x, saved_y, spec, slope = node.saved
        assert (saved_x._tape_id, saved_y._tape_id) == (x._tape_id, y._tape_id)
        assert (spec, slope) == (x._tape_id, 0.5)
    assert (
        c_tape.nodes[0].plan.steps[0].saved == python_tape.nodes[0].plan.steps[0].saved
    )


def test_an_alias_has_the_same_values_and_another_identity():
    x = f32(3)
    tape_id = _tape.Tape().watch(x)
    for alias in (accelerator("alias"), _tape.alias.__wrapped__):
        for args, expected in (((x,), None), ((x, tape_id), tape_id)):
            y = alias(*args)
            assert y is not x
            assert y._tape_id is expected
            assert y._data is x._data
            assert y._cached_copies is x._cached_copies is not None


def test_aliases_and_records_on_the_slow_path_are_left_to_python():
    x = f32(2)
    y = f32(2)
    tape = _tape.Tape()
    disposed = f32(2)
    disposed.dispose()
    for args in ((disposed,), (1,), (), (x, None, None)):
        with pytest.raises(SlowPath):
            accelerator("alias")(*args)
    tape.watch(x)
    with pytest.raises(SlowPath):
        recorded(accelerator("record"), _tape.Guard(tape, "f"), x, y)
    with pytest.raises(SlowPath):
        recorded(accelerator("record"), tape, 1, y)
    with pytest.raises(SlowPath):
        recorded(accelerator("record"), tape, x, None)
    assert tape.nodes == []
    assert y._tape_id is None


def test_aliases_and_records_out_of_memory_are_errors():
    x = f32(2)
    tape = _tape.Tape()
    tape.watch(x)
    alias = accelerator("alias")
    record = accelerator("record")
    assert _count_memory_errors(lambda: alias(x))
    recorded(record, tape, x, f32(2))
    node = tape.nodes.pop()
    y = f32(2)
    args = ((tape,), node.plan, node.backend, (x,), {"slope": 0.5}, (y,), "")
    assert _count_memory_errors(lambda: record(*args))
    for node in tape.nodes:  # failed calls leave no node, and all nodes are complete
        assert len(node) == len(_tape.Node._fields)
        assert len(node.saved) == 4


# --- the sources ------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(SOURCES.glob("*.c")), ids=lambda p: p.name)
def test_the_sources_compile_without_warnings(file):
    if shutil.which("cc") is None:
        pytest.skip("there is no cc")
    include = sysconfig.get_path("include")
    flags = "-std=c11 -fsyntax-only -Wall -Wextra -Wshadow -Wconversion -Werror"
    command = ["cc", *flags.split(), "-isystem", include, str(file)]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
