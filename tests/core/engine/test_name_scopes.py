"""``name_scope``: paths of scopes, where they are shown, and scopes as blocks."""

import asyncio
import functools
import gc
import itertools
import json
import sys
import threading
import weakref

import plugrad as pg
import pytest
from plugrad._src.engine import sites

TRIPLE = {"x": lambda dy: 3.0 * dy}


def model(x):
    """Apply Relu three times, in two scopes and outside of them."""
    x = pg.relu(x)
    with pg.name_scope("block.1"):
        x = pg.relu(x)
        with pg.name_scope("head"):
            return pg.relu(x)


def slope(where, **functions):
    with pg.override_gradient(pg.relu, where=where, **(functions or TRIPLE)):
        return pg.grad(model)(2.0).item()


# --- paths -----------------------------------------------------------------------


def test_paths():
    assert sites.joined("", "a") == "a"
    assert sites.joined("a", "") == "a"
    assert sites.joined("a/b", "/c") == "a/b/c"
    assert sites.inside("a", "a/b/c") == "b/c"
    assert sites.inside("a", "ab/c") == "ab/c"
    assert sites.inside("a", "a") == ""
    assert sites.inside("", "a") == "a"
    assert sites.common(["a/b/c", "a/b", "a/b/d"]) == "a/b"
    assert sites.common(["a/b", "c"]) == ""


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a", True),
        ("a/b", True),
        ("a/b/c", True),
        ("b", False),
        ("*/b", True),
        ("a*", True),
        ("*c", True),
        ("A", False),
        ("a/b/c/d", False),
        ("[ax]/?", True),
    ],
)
def test_a_pattern_matches_a_scope_or_one_around_it(pattern, expected):
    assert sites.matches("a/b/c", (pattern,)) is expected
    assert not sites.matches("", (pattern,)) or pattern == "*"


# --- where scopes are shown ------------------------------------------------------


def test_explain_shows_scopes():
    y, pull_back = pg.vjp(model, pg.asarray(1.0))
    rows = pg.explain(y).rows
    assert [row["scope"] for row in rows] == ["", "block.1", "block.1/head"]
    assert "block.1/head" in str(pg.explain(y))
    del pull_back
    y, _pull_back = pg.vjp(pg.relu, pg.asarray(1.0))
    assert "scope" not in pg.explain(y).rows[0]


def test_explain_inside_the_function():
    found = []

    def f(x):
        y = model(x)
        found.extend(row["scope"] for row in pg.explain(y).rows)
        return y

    pg.grad(f)(1.0)
    assert found == ["", "block.1", "block.1/head"]


def test_profile_shows_scopes_forward_and_backward(tmp_path):
    with pg.profile() as p:
        pg.grad(model)(pg.asarray(1.0))
    head = [r.kernel for r in p.records if r.scope == "block.1/head"]
    assert head[0] == "Relu"
    assert len(head) > 1  # and kernels of the gradient
    assert "in block.1/head: " in str(p)
    p.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    scopes = {e["args"]["scope"] for e in events if e["name"] == "Relu"}
    assert scopes == {"", "block.1", "block.1/head"}


def test_jit_shows_scopes_and_profile_does_so_in_a_replay(backend):
    f = pg.jit(lambda x: model(x) + 1.0)
    x = pg.asarray([1.0, 2.0])
    with pg.use_backend(backend), pg.name_scope("outer"):
        for _ in range(3):
            f(x)
        steps = f.explain(x).graph.steps
        scopes = [scope for scope, _ in itertools.groupby(s.scope for s in steps)]
        assert scopes == ["", "block.1", "block.1/head", ""]
        assert ", in block.1/head" in str(f.explain(x))
        with pg.profile() as p:
            f(x)
    assert p.records
    assert {r.scope.partition("/")[0] for r in p.records} == {"outer"}


def test_jit_records_again_only_if_a_gradient_depends_on_the_scope():
    f = pg.jit(lambda x: pg.grad(lambda x: pg.relu(x))(x))
    x = pg.asarray(2.0)
    for name in ("a", "b", "a", "b"):
        with pg.name_scope(name):
            assert f(x).item() == 1.0
    assert f.explain(x).retraces == []
    with pg.override_gradient(pg.relu, where="a", **TRIPLE):
        for name, expected in (("a", 3.0), ("a", 3.0), ("a", 3.0), ("b", 1.0)) * 3:
            with pg.name_scope(name):
                assert f(x).item() == expected
        assert any("the scope" in why for why in f.explain(x).retraces)


def triple(dy, factor=3.0):
    return dy * factor


@pytest.mark.parametrize(
    "block",
    [
        lambda: pg.override_gradient(pg.relu, x=triple),
        lambda: pg.override_gradient(pg.relu, x=triple, where="*"),
        lambda: pg.override_gradient(pg.relu, x=triple, where=["a", "b"]),
        lambda: pg.use_gradients({"Relu": {"x": triple}}),
    ],
)
def test_jit_replays_where_a_block_with_the_same_functions_is_made_anew(block):
    f = pg.jit(lambda x: pg.grad(pg.relu)(x))
    x = pg.asarray(2.0)
    with pg.name_scope("a"):
        for _ in range(6):
            with block():
                assert f(x).item() == 3.0
        with block():
            assert f.explain(x).retraces == []
        with pg.override_gradient(pg.relu, x=lambda dy: dy * 4.0):
            assert f(x).item() == 4.0
        with block():
            assert f(x).item() == 3.0
    assert f(x).item() == 1.0


def test_functions_that_are_not_the_same_are_other_gradients():
    f = pg.jit(lambda x: pg.grad(pg.relu)(x))
    x = pg.asarray(2.0)
    for factor in (3.0, 3.0, 5.0, 5.0, 3.0):
        rule = functools.partial(triple, factor=factor)
        with pg.override_gradient(pg.relu, x=rule):
            assert f(x).item() == factor
    for backend in ("cpu", None):
        with pg.override_gradient(pg.relu, x=triple, backend=backend):
            assert f(x).item() == 3.0
    for linear in (True, False):
        with pg.override_gradient(pg.relu, x=triple, linear=linear):
            assert pg.grad(pg.relu)(2.0).item() == 3.0


def test_an_override_is_freed_with_its_block():
    rule = lambda dy: dy * 2.0
    seen = weakref.ref(rule)
    with pg.override_gradient(pg.relu, x=rule):
        pg.grad(pg.relu)(1.0)
    del rule
    gc.collect()
    assert seen() is None


def test_an_error_names_the_innermost_scope():
    with (
        pytest.raises(ValueError, match="matmul") as caught,
        pg.name_scope("a"),
        pg.name_scope("b"),
    ):
        pg.matmul(pg.ones((2, 3)), pg.ones((2, 3)))
    notes = [note for note in caught.value.__notes__ if note.startswith("in scope")]
    assert notes == ["in scope 'a/b'"]


def without_gradient(x):
    with pg.name_scope("odd"), pg.override_gradient(pg.exp, x=raising):
        return pg.exp(x)


def raising(dy):
    raise NotImplementedError("there is no gradient")


def test_a_gradient_that_fails_names_the_scope_of_its_run():
    with (
        pytest.raises(NotImplementedError, match="no gradient") as caught,
        pg.name_scope("outer"),
    ):
        pg.grad(without_gradient)(1.0)
    assert "in scope 'outer/odd'" in caught.value.__notes__


# --- scopes as blocks ------------------------------------------------------------


def test_it_is_a_decorator():
    @pg.name_scope("layer")
    def layer(x):
        return pg.relu(x)

    y, pull_back = pg.vjp(lambda x: layer(layer(x)), pg.asarray(1.0))
    assert [row["scope"] for row in pg.explain(y).rows] == ["layer", "layer"]
    del pull_back


def test_vmap_keeps_the_scope():
    with pg.override_gradient(pg.relu, where="*/head", **TRIPLE):
        assert pg.vmap(pg.grad(model))(pg.asarray([1.0, 2.0])).tolist() == [3.0, 3.0]


def test_custom_grad_is_recorded_in_its_scope():
    @pg.custom_grad
    def double(x):
        return 2.0 * x, lambda dy: 2.0 * dy

    def f(x):
        with pg.name_scope("doubled"):
            return double(x)

    y, pull_back = pg.vjp(f, pg.asarray(1.0))
    assert pg.explain(y).rows[0]["scope"] == "doubled"
    del pull_back


def test_other_threads_have_scopes_of_their_own():
    found = []
    with pg.name_scope("a"):
        worker = lambda: found.append(pg._src.engine.context.current().scope)
        thread = threading.Thread(target=worker)
        thread.start()
        thread.join()
    inherits = bool(getattr(sys.flags, "thread_inherit_context", 0))
    assert found == ["a" if inherits else ""]


@pytest.mark.parametrize(
    ("name", "error"), [(1, TypeError), ("", ValueError), ("/", ValueError)]
)
def test_wrong_names(name, error):
    with pytest.raises(error, match="name_scope: name must"):
        pg.name_scope(name)


def test_a_scope_is_entered_once_at_a_time():
    scope = pg.name_scope("a")
    for _ in range(2):
        with scope:
            with pytest.raises(RuntimeError, match="'a' has been entered already"):
                scope.__enter__()
            assert pg._src.engine.context.current().scope == "a"
    assert pg._src.engine.context.current().scope == ""


def test_scopes_may_be_left_in_any_order():
    outer = pg.name_scope("outer")
    inner = pg.name_scope("inner")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert pg._src.engine.context.current().scope == "inner"
    inner.__exit__(None, None, None)
    assert pg._src.engine.context.current().scope == ""


def test_a_decorator_of_generators_is_refused_and_coroutines_are_not():
    def generator():
        yield 1

    with pytest.raises(TypeError, match="name_scope: cannot decorate a generator"):
        pg.name_scope("a")(generator)

    @pg.name_scope("a")
    async def scope():
        return pg._src.engine.context.current().scope

    assert asyncio.run(scope()) == "a"
