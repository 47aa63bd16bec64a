"""Calls under tapes, observers and vmap; threads, memory and the environment."""

import concurrent.futures
import contextvars
import gc
import json
import os
import subprocess
import sys
import threading
import warnings
import weakref

import plugrad as pg
import pytest

from .compiling import Compiler, compiling
from .helpers import floats, look, reason, runs

X = floats(3)


@pg.jit
def f(x):
    return pg.tanh(x * x)


plain = f.__wrapped__
# Transformations run a jitted function without replays.
TRANSFORMATIONS = {
    "grad": lambda f: pg.grad(lambda x: pg.sum(f(x))),
    "second order": lambda f: pg.grad(
        lambda x: pg.sum(pg.grad(lambda x: pg.sum(f(x)))(x))
    ),
    "third order": lambda f: pg.grad(
        lambda x: pg.sum(pg.hessian(lambda x: pg.sum(f(x)))(x))
    ),
    "vjp": lambda f: lambda x: pg.vjp(f, x)[1](x),
    "jvp": lambda f: lambda x: pg.jvp(f, [x], [x]),
    "vmap": lambda f: pg.vmap(f),
    "vmap of grad": lambda f: pg.vmap(pg.grad(f)),
    "grad of vmap": lambda f: pg.grad(lambda x: pg.sum(pg.vmap(f)(x))),
    "jit": lambda f: pg.jit(lambda x: f(f(x))),
    "jit of grad": lambda f: pg.jit(pg.grad(lambda x: pg.sum(f(x)))),
    "grad of jit of grad": lambda f: pg.grad(
        lambda x: pg.sum(pg.jit(pg.grad(lambda x: pg.sum(f(x))))(x))
    ),
    "jit of vmap": lambda f: pg.jit(pg.vmap(pg.jit(f))),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations(name):
    f(X)
    g = TRANSFORMATIONS[name](f)
    expected = look(TRANSFORMATIONS[name](plain)(X))
    assert [look(g(X)) for _ in range(3)] == [expected] * 3


def test_variable_grads():
    v = pg.Variable(X)
    g = pg.jit(lambda: pg.sum(v * v))
    g()
    _, gradients = pg.variable_grads(g)
    assert look(gradients[v]) == look(X * 2)


def test_observers_see_every_kernel():
    f(X)
    with pg.debug(), pytest.raises(FloatingPointError, match="Sqrt"):
        pg.jit(pg.sqrt)(-pg.abs(X))
    with pg.tidy():
        assert look(f(X)) == look(plain(X))


@pytest.mark.parametrize("decline", [False, True])
def test_profile_shows_regions(tmp_path, decline):
    """Profiles show kernels in the first two calls, and regions in later calls."""
    path = tmp_path / "trace.json"
    compiler = Compiler(decline=lambda: decline)
    with compiling(compiler, ["Neg", "Exp", "Multiply"]):
        v = pg.Variable(1.0)
        x = pg.ones((2, 4))

        @pg.jit
        def step(x):
            v.assign(v + 1.0)
            return pg.sum(pg.exp(-x) * x, axis=1)

        kernels = ["Add", "Neg", "Exp", "Multiply", "Sum"]
        expected = step(x)
        titles = ["Add", "region 1 of step", "Sum"]
        step.clear()
        for found in (kernels, kernels, titles, titles):
            with pg.profile() as p:
                y = step(x)
            assert look(y) == look(expected)
            assert [r.title for r in p.records] == found
        assert compiler.ran == 2
    assert (v.value.item(), p.peak, len(p.transfers)) == (6.0, 44, 0)
    region, kernels = p.records[1], "1 Neg, 1 Exp, 1 Multiply"
    assert (region.kernel, region.op, region.how) == ("plugrad.Region", "jit", "region")
    inside = {"kernels": kernels, "by": "user", "saved": 64}
    assert region.attrs == {"region": "region 1 of step"} | inside
    assert (region.bytes, [spec.shape for spec in region.outputs]) == (32, [(2, 4)])
    table = str(p).splitlines()
    row = next(line for line in table if line.startswith("region 1 of step  "))
    assert row.split()[4:7] == ["compiling", "region", "1"]
    assert (
        "region 1 of step, by user: 1 Neg, 1 Exp, 1 Multiply; 64 bytes of "
        "intermediate results are not written"
    ) in table
    p.to_chrome_trace(path)
    events = json.loads(path.read_text())["traceEvents"]
    (span,) = [e for e in events if e.get("cat") == "region"]
    assert span["name"] == "region 1 of step"
    assert span["args"]["kernels"] == "'1 Neg, 1 Exp, 1 Multiply'"


def test_profile_with_another_observer_shows_kernels():
    """Tapes, vmap and other observers see every kernel, also inside ``profile``."""
    f(X)
    for call in (lambda x: pg.grad(lambda x: pg.sum(f(x)))(x), pg.vmap(f), debugged):
        with pg.profile() as p:
            call(X)
        assert {"Multiply", "Tanh"} <= {r.kernel for r in p.records}
        assert "region" not in {r.how for r in p.records}


def debugged(x):
    with pg.debug():
        return f(x)


def test_explain_under_observers():
    with pg.profile():
        assert f.explain(X).reason == ""
    with pg.debug():
        assert f.explain(X).reason == "under a tape, an observer or vmap"


def test_calls_in_several_threads():
    g = pg.jit(lambda x: pg.sum(pg.tanh(x * 3)))
    barrier = threading.Barrier(4)

    def work(seed):
        barrier.wait()
        found = []
        for i in range(60):
            x = floats(3 + i % 2, scale=seed + 1.0)
            found.append(look(g(x)) == look(pg.sum(pg.tanh(x * 3))))
        return all(found)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        tasks = [
            pool.submit(contextvars.copy_context().run, work, seed) for seed in range(4)
        ]
        assert all(task.result() for task in tasks)


def test_another_thread_may_read_while_a_call_is_recorded():
    stop = threading.Event()
    x = floats(3)

    def read():
        while not stop.is_set():
            x.numpy()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(20):
            assert reason(pg.jit(lambda x: pg.exp(x)), x) == ""
    finally:
        stop.set()
        thread.join()


def test_a_call_that_runs_kernels_in_other_threads_stays_eager():
    """Without a copy of the context, jit does not see the kernels of a thread."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # the thread starts outside of all calls

        def g(x):
            with_context = contextvars.copy_context().run
            return pool.submit(with_context, pg.exp, x).result()

        def on_cpu(x):
            with pg.use_backend("cpu"):
                return pg.exp(x)

        without_context = pg.jit(lambda x: pool.submit(on_cpu, x).result())
        for jitted in (pg.jit(g), without_context):
            for y in (X, X, X * 2, X):
                with pg.use_backend("cpu"):
                    assert look(jitted(y)) == look(pg.exp(y))
        with pytest.warns(RuntimeWarning, match="what it does changes"):
            [without_context(X) for _ in range(8)]
        assert "comes from a place that jit does not see" in reason(without_context, X)
        assert reason(pg.jit(g), X) == "kernels run in another thread"


FACTOR = 1.0


def _scaled(x):
    return x * FACTOR


def test_a_call_whose_threads_read_state_stays_eager(monkeypatch):
    """The code in a thread, run in a copy of the context, reads state that changes."""

    @pg.jit
    def g(x):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            run = contextvars.copy_context().run
            return pool.submit(run, _scaled, x).result()

    for n in range(1, 6):
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", float(n))
        assert look(g(X)) == look(X * float(n))
    assert reason(g, X) == "kernels run in another thread"


# --- what is stored --------------------------------------------------------------


def test_at_most_64_recordings_are_stored():
    @pg.jit(static="n")
    def g(x, n):
        runs()
        return x + n

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(140):
            g(X, n // 2)
    assert len(g._entries) == 64
    before = runs()
    g(X, 69)
    g(X, 6)
    assert runs() == before + 1
    g(X, 5)  # its recording was discarded
    assert runs() == before + 3
    g.clear()
    g(X, 69)
    assert runs() == before + 5


def test_one_warning_names_what_differs():
    g = pg.jit(lambda x, rate: x * rate)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(20):
            assert look(g(X, i / 10)) == look(X * (i / 10))
    (warning,) = caught
    assert warning.category is RuntimeWarning
    assert warning.filename == __file__
    text = str(warning.message)
    assert "recorded 10 times" in text
    assert "argument 1: float 0.8, float 0.9" in text
    assert "pass pg.asarray(x) in place of a Python float x" in text


RETRACES = {
    "shape": (
        (X,),
        (floats(4),),
        "argument 0: float32 of shape (3,) on cpu, float32 of",
    ),
    "dtype": ((X,), (pg.asarray([1, 2, 3]),), "int32 of shape (3,) on cpu"),
    "backend": ((X,), lambda: (X.to("toy"),), "shape (3,) on toy"),
    "structure": (([X],), ((X,),), "the structure of the arguments: "),
    "value": ((X, 1), (X, 2), "argument 1: int 1, int 2"),
    "kind of value": ((X, 1), (X, True), "argument 1: int 1, bool True"),
    "in a tree": (({"a": X, "b": 1},), ({"a": X, "b": 2},), "argument 0['b']: int"),
}


@pytest.mark.parametrize("name", RETRACES)
def test_retraces(name, toy):
    first, second, expected = RETRACES[name]
    second = second() if callable(second) else second
    g = pg.jit(lambda *args: [x * 2 for x in pg.tree.leaves(args)])
    for args in (first, second, first, second):
        assert look(g(*args)) == look(g.__wrapped__(*args))
    (found,) = g.explain(*first).retraces
    assert expected in found


def test_tensors_of_a_call_are_freed_at_once():
    """Arguments, results and intermediate values need no garbage collector."""
    x = floats(300)
    v = pg.Variable(floats(300))

    @pg.jit
    def g(x):
        v.assign(v + 1.0)
        return pg.exp(x) * 2

    gc.collect()
    gc.disable()
    try:
        references = [weakref.ref(v._value), weakref.ref(x), weakref.ref(x._data)]
        references.append(weakref.ref(g(x)))
        for _ in range(2):
            g(x)
        del x
        assert [ref() for ref in references] == [None] * 4
    finally:
        gc.enable()


# --- explain ---------------------------------------------------------------------


def test_explain():
    f.clear()
    lines = repr(f.explain(X)).splitlines()
    assert lines[0] == "f replays 2 of 2 kernels once a second call does the same"
    assert not f.explain(X).confirmed
    for _ in range(2):
        f(X)
    found = f.explain(X)
    assert found.confirmed
    assert repr(found).splitlines()[0] == "f replays 2 of 2 kernels"
    assert "Tanh(%1) on cpu, " in repr(found)  # a region, or plugrad-cpu
    as_dict = json.loads(json.dumps(found.to_dict()))
    assert [step["kernel"] for step in as_dict["graph"]] == ["Multiply", "Tanh"]
    assert as_dict["reason"] == ""
    eager = pg.jit(lambda x: x * x[0].item()).explain(X)
    assert "runs as it is: the values of a tensor" in repr(eager)
    assert json.loads(json.dumps(eager.to_dict()))["graph"] == []


def test_a_jitted_function_looks_like_the_function():
    assert f.__name__ == "f"
    assert f.__wrapped__ is plain
    assert type(f).__name__ == "Jitted"


def test_a_callable_object_keeps_its_attributes():
    class Model:
        def __init__(self):
            self.clear = self.explain = 2.0

        def __call__(self, x):
            return x * self.clear

    jitted = pg.jit(Model())
    assert look(jitted(X)) == look(jitted(X)) == look(X * 2.0)
    assert reason(jitted, X) == ""


# --- the environment -------------------------------------------------------------


def run(code, **environment):
    """Return the output of a new process."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


COUNT_CALLS = """
import plugrad as pg
calls = []
f = pg.jit(lambda x: calls.append(x) or x + 1)
print(*[f(1.0) is not None for _ in range(3)], len(calls), f.explain(1.0).reason)
"""


def test_it_can_be_switched_off():
    assert run(COUNT_CALLS, PLUGRAD_JIT="0")[-2:] == ["3", "PLUGRAD_JIT=0"]


IMPORT_ON_FIRST_USE = """
import sys, plugrad
print(*[name for name in sys.modules if name.startswith("plugrad._src.tracing.")])
plugrad.jit
import plugrad.plugin, plugrad._src.tracing.jit
print(callable(plugrad.jit))
"""


def test_jit_is_imported_on_first_use():
    assert run(IMPORT_ON_FIRST_USE) == ["True"]
