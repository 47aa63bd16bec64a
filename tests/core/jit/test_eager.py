"""Calls that cannot be replayed run eagerly and say why; ``strict`` raises."""

import itertools
import re
import warnings
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin

from .helpers import floats, look, reason

X = floats(3)
OPAQUE = itertools.cycle([pg.ones(3), pg.ones(3)])  # another tensor in each call
COUNTS = {"calls": 0}
MIXED = plugin.Kernel("jittest.Mixed(x)")


def branch(x):
    return x * 2 if pg.sum(x) > 0 else -x


def appends(xs):
    xs.append(xs[0] * 2)
    return xs[-1]


def counts(x):
    COUNTS["calls"] += 1
    return x * COUNTS["calls"]


def many_draws(x):
    return pg.random.multinomial(pg.zeros((1, 700)), 3000)[0, :3] + x


# Cases that jit notices only when a call differs from the one before.
NOTICED_LATER = ("changed global", "unseen tensor")
# name: (function, its reason)
EAGER_FUNCTIONS = {
    "item": (lambda x: x * pg.sum(x).item(), "the values of a tensor, float32 of"),
    "numpy": (lambda x: pg.asarray(np.sort(x.numpy())), "are read by Python"),
    "array": (lambda x: pg.asarray(np.asarray(x)), "are read by Python"),
    "if": (branch, "float32 of shape|bool of shape"),
    "float": (lambda x: x * float(x[0]), "are read by Python"),
    "int": (lambda x: x[: int(pg.argmax(x))], "int32 of shape .* are read by Python"),
    "tolist": (lambda x: pg.asarray(x.tolist()), "are read by Python"),
    "print": (lambda x: (str(x), x)[1], "are read by Python"),
    "mask": (lambda x: x[x > 0], "bool of shape .3,., are read by Python"),
    "nonzero": (lambda x: pg.nonzero(x)[0], "depends on values|are read by Python"),
    "unique": (pg.unique_values, "shape of what unique"),
    "inside vmap": (
        lambda x: pg.vmap(lambda y: y * WEIGHT.item())(x) * pg.sum(x).item(),
        "are read by Python",
    ),
    "changed global": (counts, "changes the global 'COUNTS'..calls.., which it"),
    "unseen tensor": (lambda x: x + next(OPAQUE), "from a place that jit|'OPAQUE'"),
    "no out": (lambda x: plugin.run(MIXED, x), "give its contract out="),
    "function": (lambda x: lambda: x, "a function is returned"),
    "pullback": (lambda x: pg.vjp(pg.exp, x), "a function is returned"),
    "numpy result": (lambda x: np.ones(3), "a ndarray is returned"),
    "variable": (lambda x: pg.Variable(x), "a Variable made in the call is returned"),
    "seed": (lambda x: (pg.random.seed(3), x)[1], "random.seed restarts"),
    "multinomial": (many_draws, "multinomial draws in several parts"),
    "fallback": (lambda x: pg.softmax(x), "softmax runs on a fallback"),
}
WEIGHT = pg.asarray(2.0)


@pytest.fixture(autouse=True)
def kernel_and_counter(monkeypatch):
    """Set up the kernel and the counter that functions in the table use."""
    COUNTS["calls"] = 0
    pg.register_kernel(MIXED, "cpu", lambda x: x + 1)
    yield
    pg.unregister_kernel("jittest.Mixed", "cpu")


@pytest.fixture
def fallback(toy, monkeypatch):
    """Run on a backend that leaves a kernel to another backend."""
    monkeypatch.setenv("PLUGRAD_FALLBACK", "allow")
    monkeypatch.setattr(plugin.contracts()["Softmax"], "decomposition", None)
    with pg.use_backend("toy"):
        yield


@pytest.fixture
def fixture_of_row(request):
    """Set up the fixture that one row needs."""
    if request.node.callspec.params["name"] == "fallback":
        request.getfixturevalue("fallback")


@pytest.mark.parametrize("name", EAGER_FUNCTIONS)
def test_it_stays_eager(name, fixture_of_row):
    f, expected = EAGER_FUNCTIONS[name]
    jitted = pg.jit(f)
    with warnings.catch_warnings():
        if name in NOTICED_LATER:
            warnings.simplefilter("ignore", RuntimeWarning)
        results = [outcome(jitted, floats(3)) for _ in range(9)]
    if name in ("multinomial", "seed", "function", "pullback", "variable"):
        assert len(results) == 9
    elif name == "changed global":
        assert results == [look((X, X * n)) for n in range(1, 10)]
    else:
        assert results == [outcome(f, floats(3))] * 9
    assert re.search(expected, why := reason(jitted, floats(3)))
    if name not in NOTICED_LATER:
        assert f"{Path(__file__).parent}" in why


def outcome(f, x):
    y = f(x)
    return look((x, y)) if isinstance(y, pg.Tensor) else y is None


@pytest.mark.parametrize("name", EAGER_FUNCTIONS)
def test_strict_raises(name, fixture_of_row):
    f, expected = EAGER_FUNCTIONS[name]
    jitted = pg.jit(f, strict=True)
    with pytest.raises(ValueError, match=rf"jit: strict=True, and .*({expected})"):
        [jitted(floats(3)) for _ in range(9 if name in NOTICED_LATER else 1)]


def test_strict_shows_the_line():
    with pytest.raises(ValueError, match="strict") as found:
        pg.jit(branch, strict=True)(X)
    lines = [entry.lineno + 1 for entry in found.traceback if entry.name == "branch"]
    assert lines == [branch.__code__.co_firstlineno + 1]
    assert f"{Path(__file__)}:{lines[0]}" in str(found.value)


def test_a_list_that_grows():
    jitted = pg.jit(appends)
    for _ in range(3):
        xs = [X]
        assert look(jitted(xs)) == look(X * 2)
        assert len(xs) == 2
    assert "a list or dict among the arguments is changed" in reason(jitted, [X])


def test_the_same_argument_twice_is_assigned():
    def f(x, y):
        x[0] = 5.0
        return x + y

    jitted = pg.jit(f)
    xs = [floats(3), floats(3)]
    for x in xs:
        y = floats(3)
        assert look(jitted(x, y)) == look(f(floats(3), y))
        assert x.tolist()[0] == 5.0


def test_values_that_depend_on_no_argument_may_be_read():
    """These values are either the same in each call or guarded."""

    @pg.jit
    def f(x):
        table = pg.arange(3)
        return x * WEIGHT.item() + float(pg.sum(table)) if table[1] > 0 else x

    assert look(f(X)) == look(f(X)) == look(X * 2.0 + 3.0)
    assert reason(f, X) == ""
    WEIGHT[...] = 3.0
    assert look(f(X)) == look(X * 3.0 + 3.0)
    WEIGHT[...] = 2.0


def test_an_error_leaves_nothing_behind():
    v = pg.Variable(X)
    fail = [True]

    @pg.jit
    def f(x):
        v.assign(v + x)
        if fail[0]:
            raise RuntimeError("no")
        return x + 1

    with pytest.raises(RuntimeError, match="no"):
        f(X)
    assert look(v.value) == look(X + X)  # as after an eager call
    fail[0] = False
    for _ in range(2):
        assert look(f(X)) == look(X + 1)
    assert f.explain(X).retraces == []
    assert reason(f, X) == ""


# --- arguments -------------------------------------------------------------------


class UnknownClass:
    pass


UNKNOWN_ARGUMENTS = {
    "object": (lambda: (UnknownClass(),), "argument 0 is a UnknownClass"),
    "set": (lambda: ([X, {1, UnknownClass()}],), r"argument 0\[1\] is a set"),
    "iterator": (lambda: (X, iter([])), "argument 1 is a list_iterator"),
}


@pytest.mark.parametrize("name", UNKNOWN_ARGUMENTS)
def test_unknown_arguments(name):
    make, message = UNKNOWN_ARGUMENTS[name]
    with pytest.raises(
        TypeError, match=f"jit: {message}.*whose changes jit cannot see"
    ):
        pg.jit(lambda *args: X)(*make())


def test_an_unknown_keyword_argument():
    with pytest.raises(TypeError, match="jit: argument 'how' is a UnknownClass"):
        pg.jit(lambda *, how: X)(how=UnknownClass())


def test_static_arguments():
    @pg.jit(static=("how", 0))
    def f(thing, x, how=None):
        return x * thing.scale

    one = UnknownClass()
    two = UnknownClass()
    one.scale, two.scale = 2.0, 3.0
    for thing in (one, two, one, two):
        assert look(f(thing, X, how=frozenset({thing}))) == look(X * thing.scale)
    assert len(f.explain(one, X, how=frozenset({one})).retraces) == 1
    one.scale = 5.0
    assert look(f(one, X, how=frozenset({one}))) == look(X * 5.0)


MISUSES = {
    "not a function": (lambda: pg.jit(3), "jit: .*3"),
    "coroutine": (lambda: pg.jit(coroutine), "jit: f must return its result"),
    "generator": (lambda: pg.jit(generator), "jit: f must return its result"),
    "static name": (lambda: pg.jit(branch, static="y"), "jit: static .*'y'"),
    "static number": (lambda: pg.jit(branch, static=4), "jit: static .*4"),
    "strict": (lambda: pg.jit(branch, strict="yes"), "strict"),
}


async def coroutine(x):
    return x


def generator(x):
    yield x


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_of_jit_is_an_error(name):
    call, message = MISUSES[name]
    with pytest.raises(TypeError, match=message):
        call()
