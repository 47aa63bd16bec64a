"""Regions of a graph: which kernels are joined, who compiles them, and what runs."""

import json
import sys
import tracemalloc

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.registry.plugins import Phase, Plugin
from plugrad._src.registry.registry import registry
from plugrad._src.tracing import parts
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


def two_dependent_groups(x, y):
    """Return values of two groups of kernels that would wait for each other.

    If kernels were joined only because they read the same values, each of the two
    groups would have to run before the other one.
    """
    a = pg.exp(x)
    b = pg.exp(y)
    return pg.tanh(b) * 2.0, a * pg.matmul(a, pg.tanh(b)), pg.matmul(b, pg.tanh(a)) + b


def with_product_between(x):
    a = x * x
    b = pg.matmul(a, a)  # reads a, and the next line reads both
    return a + b


def with_sum_that_is_read(x):
    y = pg.exp(x)
    return y - pg.sum(y)


def with_random_draws(x):
    y = x * 2.0
    return pg.random.normal(x.shape) + y, pg.random.normal(x.shape) * y


RNG = np.random.default_rng(5)
VALUES = floats(4, 4).numpy()
# name: (function, the kernels of each region with at least two steps)
JOINED = {
    "one": (lambda x: pg.tanh(x * x) + x, [["Multiply", "Tanh", "Add"]]),
    "gradient": (
        pg.grad(lambda x: pg.sum(pg.exp(x) * x)),
        [["Exp", "Multiply", "Multiply", "Multiply", "Add"]],
    ),
    "two outputs": (lambda x: (x * x, -(x * x)), [["Multiply", "Neg"]]),
    "a sum ends it": (lambda x: pg.sum(pg.exp(-x)), [["Neg", "Exp", "Sum"]]),
    "a sum is not read inside": (with_sum_that_is_read, [["Exp", "Sum"]]),
    "something between": (with_product_between, []),
    "other shapes": (lambda x: pg.exp(-x)[:2] * 2.0, [["Neg", "Exp"]]),
    "a row": (
        lambda x: pg.exp(-x) + pg.exp(x[0] * 2.0),
        [["Multiply", "Exp"], ["Neg", "Exp", "Add"]],
    ),
    "limit": (chain(100), [["Neg"] * 64, ["Neg"] * 36 + ["Add"]]),
    "draws": (with_random_draws, [["Multiply", "Add", "Multiply"]]),
}


@pytest.mark.parametrize("name", JOINED)
def test_which_kernels_are_joined(name):
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
        jitted = pg.jit(two_dependent_groups)
        x0 = pg.asarray(VALUES)
        for x in (x0, x0, x0 * 2.0):
            assert look(jitted(x, x0.T)) == look(two_dependent_groups(x, x0.T))
        assert compiler.ran


@pytest.mark.parametrize("decline", [True, False])
def test_regions_that_a_compiler_refuses_are_replayed(decline):
    f = pg.grad(lambda x: pg.sum(pg.tanh(x) * x))
    options = {"decline": lambda: True} if decline else {"refuse": lambda graph: True}
    with compiling(Compiler(**options), NAMES) as compiler:
        jitted = pg.jit(f)
        x0 = pg.asarray(VALUES)
        for x in (x0, x0, x0 * 0.5, x0 * 0.25):
            assert look(jitted(x)) == look(f(x))
        assert compiler.requested
        assert bool(regions(jitted, x0)) == bool(compiler.ran) == decline


FUSABLE = {
    "joined": lambda step, graph: True,
    "alone": lambda step, graph: step.outputs,
}


@pytest.mark.parametrize("name", FUSABLE)
def test_kernels_of_a_region_that_declines_are_looked_up_once(name, monkeypatch):
    """The steps have constant inputs, and results that nothing reads."""
    f = lambda x: (*pg.top_k(pg.exp(-x) * pg.ones(4), 2), pg.top_k(x, 1)[0])
    found, function = [], parts.function_of
    look_up = lambda step: found.append(step) or function(step)
    monkeypatch.setattr(parts, "function_of", look_up)
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


def test_a_call_that_is_not_repeated_is_not_compiled():
    with compiling(Compiler(), ["Tanh"]) as compiler:
        jitted = pg.jit(lambda x: pg.tanh(x))
        for count in (1, 2, 3, 2):
            jitted(pg.ones(count))
        assert compiler.requested == []
        for _ in range(2):
            assert look(jitted(pg.ones(2))) == look(pg.tanh(pg.ones(2)))
        assert (compiler.requested, compiler.ran) == ([["Tanh"]], 2)


def test_an_error_in_a_compiler_is_only_a_warning():
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


def test_an_error_in_fusable_is_only_a_warning():
    with compiling(Compiler(), lambda step, graph: step.attrs["axis"]):
        jitted = pg.jit(lambda x: pg.tanh(x))
        x0 = pg.asarray(VALUES)
        for _ in range(2):
            jitted(x0)
        with pytest.warns(RuntimeWarning, match=r"fusable of .* KeyError: 'axis'"):
            assert look(jitted(x0)) == look(pg.tanh(x0))
        assert look(jitted(x0)) == look(pg.tanh(x0))


def test_kernels_of_users_are_not_compiled():
    """The compiler knows the kernels of its backend, not those that replace them."""
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
        assert compiler.requested == []


@pytest.fixture
def pack():
    """Yield a function that registers a kernel pack with a compiler for a backend."""
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
        assert outer.requested == [["Neg", "Exp"], ["Tanh"]]
        assert inner.requested == [["Multiply"]]
        by = [region.by for region in jitted.explain(x0).regions]
        assert by == ["compiler-of-somebody 1.0", "user"]


def test_explain_shows_regions():
    with compiling(Compiler(), NAMES):
        found = pg.jit(lambda x: pg.exp(-x) * x).explain(pg.asarray(VALUES))
        assert "Exp(%1) on compiling, region 1" in repr(found)
        region = "region 1: 3 kernels, compiled by user; "
        assert f"{region}128 bytes are not written to memory" in repr(found)
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
    """Return values computed before and after a matrix product from the same arrays."""
    a = x * 2.0
    b = pg.exp(a)
    c = pg.tanh(b)
    d = a * b * c
    product = pg.matmul(d, w)
    return a + b * c * product, pg.sum(product)


@pytest.mark.parametrize(("n", "recomputed"), [(300, True), (30, False)])
def test_values_are_recomputed_instead_of_written(n, recomputed):
    """The second region computes three large arrays again instead of reading them."""
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
        assert len(first.outputs) == (1 if recomputed else 3)
        assert ("Tanh" in names) == recomputed
        assert len(found.graph.steps) == len(
            {step.outputs for step in found.graph.steps}
        )
        assert compiler.ran


@pytest.mark.parametrize("refused", ["all", "the first", "the others"])
def test_kernels_of_refused_regions_run_once(refused, pack):
    """Kernels that two regions compute run once if the next compiler gets them."""
    refuse = {
        "all": lambda graph: True,
        "the first": lambda graph: len(outer.requested) == 1,
        "the others": lambda graph: len(outer.requested) > 1,
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
        with pg.profile() as profile:
            jitted(x, w)
        names = [record.kernel for record in profile.records]
        assert names.count("Tanh") == 1


def test_a_region_that_another_recomputes_is_left_out():
    """A region runs once if another region computes all of its results again."""
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
    """Return the number of lines of regions.py that run when chains are compiled."""
    jitted = pg.jit(lambda xs: [pg.tanh(x * 2.0) + pg.exp(x) for x in xs])
    lines = 0

    def count_line(frame, event, _):
        nonlocal lines
        lines += event == "line"
        return count_line

    def trace_call(frame, event, _):
        return count_line if frame.f_code.co_filename == tracing.__file__ else None

    xs = [floats(8) for _ in range(count)]
    for _ in range(2):
        jitted(xs)
    before = sys.gettrace()
    sys.settrace(trace_call)
    try:
        jitted(xs)
    finally:
        sys.settrace(before)
    assert jitted.explain(xs).regions
    return lines


def test_the_work_of_compiling_is_linear_in_the_number_of_tensors():
    """When it was quadratic, an optimizer step of 800 tensors took 40 s to compile."""
    with compiling(Compiler(), NAMES):
        assert 0 < lines_run(160) < 2.5 * lines_run(80)
