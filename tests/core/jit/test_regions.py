"""Regions of a graph: what is joined, who is asked, and what runs in the end."""

import json
import sys
import tracemalloc

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.registry.plugins import Phase, Plugin
from plugrad._src.registry.registry import registry
from plugrad._src.tracing import program
from plugrad._src.tracing import regions as tracing
from plugrad.plugin import KernelPack, Runtime, runtime

from .compiling import Compiler, compiling
from .helpers import floats, look

NAMES = ["Add", "Exp", "Multiply", "Neg", "Sub", "Sum", "Tanh"]


def regions(jitted, *args):
    """Return the kernels of each region, sorted."""
    found = jitted.explain(*args)
    return [[step.kernel.name for step in region.steps] for region in found.regions]


def chain(count):
    def f(x):
        for _ in range(count):
            x = -x
        return x + x

    return f


def both_ways(x, y):
    """Return values of two groups that each would wait for the other.

    If both products and both sums were joined by what they read, one group of the two
    would have to run before the other, and after it.
    """
    a = pg.exp(x)
    b = pg.exp(y)
    return pg.tanh(b) * 2.0, a * pg.matmul(a, pg.tanh(b)), pg.matmul(b, pg.tanh(a)) + b


def between(x):
    a = x * x
    b = pg.matmul(a, a)  # it reads a, and the next line reads it
    return a + b


def reduced(x):
    y = pg.exp(x)
    return y - pg.sum(y)


def drawn(x):
    y = x * 2.0
    return pg.random.normal(x.shape) + y, pg.random.normal(x.shape) * y


RNG = np.random.default_rng(5)
VALUES = floats(4, 4).numpy()
# name: (function, the kernels of regions of two steps or more)
JOINED = {
    "one": (lambda x: pg.tanh(x * x) + x, [["Multiply", "Tanh", "Add"]]),
    "gradient": (
        pg.grad(lambda x: pg.sum(pg.exp(x) * x)),
        [["Exp", "Multiply", "Multiply", "Multiply", "Add"]],
    ),
    "two outputs": (lambda x: (x * x, -(x * x)), [["Multiply", "Neg"]]),
    "a sum ends it": (lambda x: pg.sum(pg.exp(-x)), [["Neg", "Exp", "Sum"]]),
    "a sum is not read inside": (reduced, [["Exp", "Sum"]]),
    "something between": (between, []),
    "other shapes": (lambda x: pg.exp(-x)[:2] * 2.0, [["Neg", "Exp"]]),
    "a row": (
        lambda x: pg.exp(-x) + pg.exp(x[0] * 2.0),
        [["Multiply", "Exp"], ["Neg", "Exp", "Add"]],
    ),
    "limit": (chain(100), [["Neg"] * 64, ["Neg"] * 36 + ["Add"]]),
    "draws": (drawn, [["Multiply", "Add", "Multiply"]]),
}


@pytest.mark.parametrize("name", JOINED)
def test_what_is_joined(name):
    f, expected = JOINED[name]
    with compiling(Compiler(lambda graph: len(graph.steps) < 2), NAMES) as compiler:
        jitted = pg.jit(f)
        x0 = pg.asarray(VALUES)
        for x in (x0, x0, x0 * 0.5, x0 * 0.25):
            pg.random.seed(1)
            found = look(jitted(x))
            pg.random.seed(1)
            assert found == look(f(x))
        found = regions(jitted, x0)
        assert [sorted(part) for part in found] == [sorted(part) for part in expected]
        assert compiler.ran == 2 * len(expected)


def test_groups_that_would_wait_for_each_other():
    with compiling(Compiler()) as compiler:
        jitted = pg.jit(both_ways)
        x0 = pg.asarray(VALUES)
        for x in (x0, x0, x0 * 2.0):
            assert look(jitted(x, x0.T)) == look(both_ways(x, x0.T))
        assert compiler.ran


@pytest.mark.parametrize("decline", [True, False])
def test_what_a_compiler_refuses_is_replayed(decline):
    f = pg.grad(lambda x: pg.sum(pg.tanh(x) * x))
    how = {"decline": lambda: True} if decline else {"refuse": lambda graph: True}
    with compiling(Compiler(**how), NAMES) as compiler:
        jitted = pg.jit(f)
        x0 = pg.asarray(VALUES)
        for x in (x0, x0, x0 * 0.5, x0 * 0.25):
            assert look(jitted(x)) == look(f(x))
        assert compiler.asked
        assert bool(regions(jitted, x0)) == bool(compiler.ran) == decline


FUSABLE = {
    "joined": lambda step, graph: True,
    "alone": lambda step, graph: step.outputs,
}


@pytest.mark.parametrize("name", FUSABLE)
def test_kernels_of_a_region_that_declines_are_looked_up_once(name, monkeypatch):
    """Steps have a constant among their inputs, and results that nothing reads."""
    f = lambda x: (*pg.top_k(pg.exp(-x) * pg.ones(4), 2), pg.top_k(x, 1)[0])
    found, function = [], program.function_of
    look_up = lambda step: found.append(step) or function(step)
    monkeypatch.setattr(program, "function_of", look_up)
    with compiling(Compiler(decline=lambda: True), FUSABLE[name]) as compiler:
        jitted = pg.jit(f)
        x = pg.asarray(VALUES)
        for _ in range(3):
            assert look(jitted(x)) == look(f(x))
        count = len(found)
        assert look(jitted(x * 0.5)) == look(f(x * 0.5))
        assert len(found) == count
        assert compiler.ran


def test_a_region_that_declines_frees_what_no_kernel_reads():
    with compiling(Compiler(decline=lambda: True)):
        jitted = pg.jit(chain(20))
        x = pg.ones(1 << 16)
        for _ in range(2):
            jitted(x)
        tracemalloc.start()
        try:
            jitted(x)
            assert tracemalloc.get_traced_memory()[1] < 4 * (4 << 16)
        finally:
            tracemalloc.stop()


def test_a_call_that_does_not_come_again_is_not_compiled():
    with compiling(Compiler(), ["Tanh"]) as compiler:
        jitted = pg.jit(lambda x: pg.tanh(x))
        for count in (1, 2, 3, 2):
            jitted(pg.ones(count))
        assert compiler.asked == []
        for _ in range(2):
            assert look(jitted(pg.ones(2))) == look(pg.tanh(pg.ones(2)))
        assert (compiler.asked, compiler.ran) == ([["Tanh"]], 2)


def test_an_error_of_a_compiler_is_told_and_survived():
    def broken(graph):
        raise KeyError("Tanh")

    with compiling(broken, ["Tanh"]):
        jitted = pg.jit(lambda x: pg.tanh(x) * 2.0)
        x0 = pg.asarray(VALUES)
        for _ in range(2):
            jitted(x0)
        with pytest.warns(RuntimeWarning, match=r"compile of .* KeyError: 'Tanh'"):
            assert look(jitted(x0)) == look(pg.tanh(x0) * 2.0)
        assert look(jitted(x0)) == look(pg.tanh(x0) * 2.0)
    with (
        compiling(lambda graph: "no function", ["Tanh"]),
        pytest.warns(RuntimeWarning, match="must return a function or None"),
    ):
        pg.jit(lambda x: pg.tanh(x)).explain(VALUES)


def test_an_error_of_fusable_is_told_and_survived():
    with compiling(Compiler(), lambda step, graph: step.attrs["axis"]):
        jitted = pg.jit(lambda x: pg.tanh(x))
        x0 = pg.asarray(VALUES)
        for _ in range(2):
            jitted(x0)
        with pytest.warns(RuntimeWarning, match=r"fusable of .* KeyError: 'axis'"):
            assert look(jitted(x0)) == look(pg.tanh(x0))
        assert look(jitted(x0)) == look(pg.tanh(x0))


def test_kernels_of_others_are_not_compiled():
    """The compiler knows the kernels of its backend, not those put over them."""
    with compiling(Compiler(), NAMES):
        jitted = pg.jit(lambda x: pg.exp(x * x) + x)
        x0 = pg.asarray(VALUES)
        jitted(x0)
        assert regions(jitted, x0) == [["Multiply", "Exp", "Add"]]
        pg.register_kernel("Exp", "compiling", lambda x: x * 0.0)
        assert look(jitted(x0)) == look(x0)
        assert regions(jitted, x0) == [["Multiply"], ["Add"]]
        pg.unregister_kernel("Exp", "compiling")
        assert look(jitted(x0)) == look(pg.exp(x0 * x0) + x0)


def test_empty_arrays_are_not_compiled():
    with compiling(Compiler(), NAMES) as compiler:
        x = pg.zeros((0, 3))
        jitted = pg.jit(lambda x: pg.sum(pg.exp(x) * x))
        assert [jitted(x).item() for _ in range(2)] == [0.0, 0.0]
        assert compiler.asked == []


@pytest.fixture
def pack():
    """Yield what registers a kernel pack with a compiler for a backend."""
    owner = Plugin("compiler-of-somebody", "1.0", phase=Phase.REGISTERED)
    packs = [*registry._kernel_packs]

    def add(backend, compiler, fusable):
        pack = KernelPack(backend, fusable=fusable, compile=compiler)
        registry.register(owner, kernel_packs=[pack])

    registry.plugins.append(owner)
    yield add
    registry.plugins.remove(owner)
    registry._kernel_packs = packs


def test_a_compiler_from_outside_is_asked_first(pack):
    outer = Compiler(refuse=lambda graph: len(graph.steps) < 2)
    with compiling(Compiler(), ["Exp", "Neg", "Multiply"]) as inner:
        pack("compiling", outer, ["Exp", "Neg", "Tanh"])
        f = lambda x: pg.exp(-x) * pg.tanh(x)
        jitted = pg.jit(f)
        x0 = pg.asarray(VALUES)
        for x in (x0, x0, x0 * 0.5):
            assert look(jitted(x)) == look(f(x))
        assert outer.asked == [["Neg", "Exp"], ["Tanh"]]
        assert inner.asked == [["Multiply"]]
        by = [region.by for region in jitted.explain(x0).regions]
        assert by == ["compiler-of-somebody 1.0", "user"]


def test_explain_tells_regions():
    with compiling(Compiler(), NAMES):
        found = pg.jit(lambda x: pg.exp(-x) * x).explain(pg.asarray(VALUES))
        assert "Exp(%1) on compiling, region 1" in repr(found)
        told = "region 1: 3 kernels, compiled by user; "
        assert f"{told}128 bytes are not written to memory" in repr(found)
        one = pg.jit(pg.exp).explain(pg.asarray(VALUES))
        assert repr(one).splitlines()[-1] == "region 1: 1 kernel, compiled by user"
        plain = json.loads(json.dumps(found.to_dict()))
        assert plain["regions"] == [{"by": "user", "kernels": 3, "saved": 128}]
        assert [row["by"] for row in plain["graph"]] == ["region 1"] * 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"fusable": "Exp"}, "fusable must be a list"),
        ({"compile": "Exp"}, "compile must be a function"),
    ],
)
def test_wrong_descriptors(wrong, message):
    with pytest.raises(TypeError, match=message):
        KernelPack("cpu", **wrong)
    with pytest.raises(TypeError, match=message):
        Runtime(arrays=runtime("cpu").arrays, kernels={}, **wrong)


def many_values(x, w):
    """Return a matrix product, and a function of it that reads what its parts read."""
    a = x * 2.0
    b = pg.exp(a)
    c = pg.tanh(b)
    d = a * b * c
    product = pg.matmul(d, w)
    return a + b * c * product, pg.sum(product)


@pytest.mark.parametrize(("n", "again"), [(300, True), (30, False)])
def test_what_is_computed_again(n, again):
    """A region reads its input twice rather than three arrays that another has made."""
    x, w = RNG.normal(size=(2, n, n)).astype("float32")
    with compiling(Compiler(), NAMES) as compiler:
        x = pg.asarray(x)
        w = pg.asarray(w)
        jitted = pg.jit(many_values)
        for y in (x, x, x * 0.5):
            assert look(jitted(y, w)) == look(many_values(y, w))
        found = jitted.explain(x, w)
        first, second = found.regions[:2]
        names = [step.kernel.name for step in second.steps]
        assert len(first.outputs) == (1 if again else 3)
        assert ("Tanh" in names) == again
        assert len(found.graph.steps) == len(
            {step.outputs for step in found.graph.steps}
        )
        assert compiler.ran


@pytest.mark.parametrize("refused", ["all", "the first", "the others"])
def test_what_is_refused_runs_once(refused, pack):
    """Also what two groups compute, which then is left to the next compiler."""
    refuse = {
        "all": lambda graph: True,
        "the first": lambda graph: len(outer.asked) == 1,
        "the others": lambda graph: len(outer.asked) > 1,
    }[refused]
    outer = Compiler(refuse=refuse)
    inner = Compiler(refuse=lambda graph: True)
    x, w = RNG.normal(size=(2, 300, 300)).astype("float32")
    with compiling(inner, NAMES):
        pack("compiling", outer, NAMES)
        x = pg.asarray(x)
        w = pg.asarray(w)
        jitted = pg.jit(many_values)
        for y in (x, x, x * 0.5):
            assert look(jitted(y, w)) == look(many_values(y, w))
        with pg.profile() as told:
            jitted(x, w)
        alone = [record.kernel for record in told.records]
        assert alone.count("Tanh") == 1


def test_what_is_not_read_after_all_runs_once():
    """Where all of a region is computed again, it is left out."""
    x = RNG.normal(size=(300, 300)).astype("float32")

    def f(x):
        y = pg.exp(x) * 2.0
        z = pg.matmul(x, x)
        return y + z

    with compiling(Compiler(), NAMES):
        x = pg.asarray(x)
        jitted = pg.jit(f)
        for y in (x, x, x * 0.5):
            assert look(jitted(y)) == look(f(y))
        assert regions(jitted, x) == [["Exp", "Multiply", "Add"]]


def lines_run(count):
    """Return how many lines of regions.py run as a graph of many chains is compiled."""
    jitted = pg.jit(lambda xs: [pg.tanh(x * 2.0) + pg.exp(x) for x in xs])
    lines = 0

    def line(frame, event, _):
        nonlocal lines
        lines += event == "line"
        return line

    def entered(frame, event, _):
        return line if frame.f_code.co_filename == tracing.__file__ else None

    xs = [floats(8) for _ in range(count)]
    for _ in range(2):
        jitted(xs)
    before = sys.gettrace()
    sys.settrace(entered)
    try:
        jitted(xs)
    finally:
        sys.settrace(before)
    assert jitted.explain(xs).regions
    return lines


def test_the_work_is_proportional_to_the_number_of_tensors():
    """With n² of it, an optimizer of 800 tensors was compiled for 40 s."""
    with compiling(Compiler(), NAMES):
        assert 0 < lines_run(160) < 2.5 * lines_run(80)
