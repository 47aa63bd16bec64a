"""``name_scope``, and gradients that apply only where ``where=`` says."""

import asyncio
import functools
import gc
import json
import sys
import threading
import weakref

import plugrad as pg
import pytest
from plugrad import plugin
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


# --- where -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, 27.0),
        ("block.*", 9.0),
        ("block.1/head", 3.0),
        ("*/head", 3.0),
        (["*/head", "block.1"], 9.0),
        ("other", 1.0),
        (0, 3.0),
        (2, 3.0),
        (3, 1.0),
        (lambda site: site.nth != 1, 9.0),
        (lambda site: site.scope == "block.1" and site.kernel == "Relu", 3.0),
    ],
)
def test_a_gradient_applies_where_it_is_said(where, expected, backend):
    with pg.use_backend(backend):
        assert slope(where) == expected
        assert pg.jit(lambda: slope(where))() == expected


def test_layers_with_and_without_a_place_stack():
    with pg.override_gradient(pg.relu, x=lambda dy: 2.0 * dy):
        assert slope("*/head", x=lambda dy, original: 5.0 * original(dy)) == 40.0
    with pg.override_gradient(pg.relu, where=0, x=lambda dy: 2.0 * dy):
        assert slope("block.1") == 18.0


def test_runs_are_counted_anew_for_each_tape():
    with pg.override_gradient(pg.relu, where=1, **TRIPLE):
        assert [pg.grad(model)(2.0).item() for _ in range(3)] == [3.0] * 3
        y, pull_back = pg.vjp(model, pg.asarray(2.0))
        assert pull_back(pg.ones_like(y))[0].item() == 3.0


def test_other_kernels_are_not_counted():
    f = lambda x: pg.relu(pg.exp(pg.relu(pg.exp(x))))
    plain = pg.grad(f)(0.5).item()
    with pg.override_gradient(pg.relu, where=1, **TRIPLE):
        assert pg.grad(f)(0.5).item() == pytest.approx(3 * plain)


def test_a_block_that_is_entered_in_a_scope():
    def f(x):
        with (
            pg.name_scope("a"),
            pg.override_gradient(pg.relu, where="a/b", **TRIPLE),
            pg.name_scope("b"),
        ):
            return pg.relu(x)

    assert pg.grad(f)(2.0).item() == 3.0


def test_a_table_of_gradients():
    table = {"Relu": TRIPLE, "Exp": {"x": lambda dy, y: dy * y * 0.5}}
    f = lambda x: pg.relu(pg.exp(x))
    with pg.use_gradients(table):
        assert pg.grad(f)(0.0).item() == 1.5
    with pg.use_gradients(table, kernels=["Exp"]):
        assert pg.grad(f)(0.0).item() == 0.5
    with pg.use_gradients(table, where="nowhere"):
        assert pg.grad(f)(0.0).item() == 1.0


def test_a_table_may_say_that_it_is_not_linear():
    table = {"Relu": {"x": lambda dy: pg.maximum(dy, 0.0)}}
    with (
        pg.use_gradients(table, linear=False),
        pytest.raises(TypeError, match="not linear in dy"),
    ):
        pg.jvp(pg.relu, [pg.asarray(1.0)], [pg.asarray(1.0)])
    with pytest.raises(ValueError, match="the pack 'guided' states itself"):
        pg.use_gradients("guided", linear=False)


def test_a_block_that_is_entered_again_keeps_its_plans():
    block = pg.use_gradients({"Relu": TRIPLE})
    with block:
        pg.grad(pg.relu)(1.0)
        overrides = pg._src.engine.context.current().overrides
        assert len(overrides.plans[1]) == 1
    with block:
        assert pg._src.engine.context.current().overrides is overrides


@pytest.mark.parametrize(
    ("where", "error", "text"),
    [
        ("", ValueError, "matches no scope"),
        ([], ValueError, "matches no scope"),
        (["a", ""], ValueError, "matches no scope"),
        (-1, ValueError, "=-1 must not be negative"),
        (True, TypeError, "got True"),
        (1.5, TypeError, "got 1.5"),
        ([1], TypeError, r"got \[1\]"),
    ],
)
def test_wrong_places(where, error, text):
    with pytest.raises(error, match=f"override_gradient: where.*{text}"):
        pg.override_gradient(pg.relu, where=where, **TRIPLE)
    with pytest.raises(error, match=f"use_gradients: where.*{text}"):
        pg.use_gradients({"Relu": TRIPLE}, where=where)


@pytest.mark.parametrize("pack", [{"Rellu": TRIPLE}, {"Relu": {"z": abs}}])
def test_wrong_tables(pack):
    with pytest.raises(ValueError, match=r"use_gradients|gradient of Relu"):
        pg.use_gradients(pack)
    with pytest.raises(ValueError, match="the table has no gradient of 'Exp'"):
        pg.use_gradients({"Relu": TRIPLE}, kernels=["Exp"])


# --- parameters of rules ---------------------------------------------------------


def test_a_rule_may_take_its_site():
    found = []

    def rule(dy, x, site):
        found.append(site)
        return dy

    assert slope(None, x=rule) == 1.0
    assert found[::-1] == [
        plugin.Site("Relu", "", 0),
        plugin.Site("Relu", "block.1", 1),
        plugin.Site("Relu", "block.1/head", 2),
    ]


def test_a_rule_may_ask_which_inputs_are_differentiated():
    found = []

    def rule(dy, b, a_tracked, b_tracked):
        found.append((a_tracked, b_tracked))
        return dy * b

    with pg.override_gradient("Multiply", a=rule):
        pg.grad(lambda x: x * 2.0)(1.0)
        pg.grad(lambda x: x * pg.exp(x))(1.0)
    assert found == [(True, False), (True, True)]


def test_a_variadic_input_has_an_answer_for_each_tensor():
    found = []

    def rule(dy, axis, xs_spec, xs_tracked):
        found.append(xs_tracked)
        return [pg.ones(x.shape) for x in xs_spec]

    constant = pg.ones(2)
    with pg.override_gradient("Concat", xs=rule):
        f = lambda x: pg.sum(pg.concat([constant, x, constant]))
        assert pg.grad(f)(pg.ones(3)).tolist() == [1.0] * 3
    assert found == [(False, True, False)]


def test_parameters_with_defaults_keep_them():
    def rule(dy, factor=2.0, x=None, *, shift=1.0):
        return dy * factor * x + shift

    assert slope("*/head", x=rule) == 5.0
    with pytest.raises(ValueError, match="'factor' is not one of x, y"):
        pg.override_gradient(pg.relu, x=lambda dy, factor: dy)


# --- what shows scopes -----------------------------------------------------------


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
    assert len(head) > 1  # the gradient
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
        assert [step.scope for step in steps] == ["", "block.1", "block.1/head", ""]
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
