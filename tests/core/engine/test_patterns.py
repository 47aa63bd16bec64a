"""Overrides of ops that run several kernels, and of patterns."""

import gc
import math
import threading
import weakref

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin
from plugrad._src.engine.patterns import PREFIX
from plugrad._src.registry.registry import registry

X = [-1.0, 0.5, 2.0]
TRIPLE = {"x": lambda dy: 3.0 * dy}


def dense(x, w, b):
    return x @ w + b


def written_out_gelu(x):
    return x * 0.5 * (1.0 + pg.erf(x * math.sqrt(0.5)))


DENSE = plugin.Pattern(
    dense,
    ((2, 3), (3, 4), (4,)),
    ((2, 2, 3), (3, 4), (4,)),
    fits=lambda x, w, b: b.ndim,
)


@pg.custom_grad
def both(x):
    return (x, x), lambda dy, dz: dy + dz


GELU = plugin.Pattern(written_out_gelu, ((3,),))


def gradient(f, x=X):
    return pg.grad(lambda x: pg.sum(f(x)))(pg.asarray(x)).tolist()


# --- ops -------------------------------------------------------------------------


def test_an_op_of_several_kernels_is_one_run(backend):
    plain = gradient(pg.silu)
    with pg.override_gradient(pg.silu, **TRIPLE):
        assert gradient(pg.silu) == [3.0, 3.0, 3.0]
        assert gradient(lambda x: pg.silu(pg.silu(x))) == [9.0, 9.0, 9.0]
        gate = gradient(pg.sigmoid)
    assert gradient(pg.silu) == plain
    assert gate == gradient(pg.sigmoid)


def test_the_same_kernels_written_out_are_the_op(backend):
    with pg.override_gradient(pg.silu, **TRIPLE):
        assert gradient(lambda x: pg.sigmoid(x) * x) == [3.0, 3.0, 3.0]
        other = gradient(lambda x: pg.sigmoid(x) * pg.abs(x))
    assert other == gradient(lambda x: pg.sigmoid(x) * pg.abs(x))


def test_rules_read_operands_results_and_places(backend):
    seen = []

    def rule(dy, x, y, x_tracked, site):
        seen.append((x.tolist(), x_tracked, site))
        return dy * y / x

    with pg.override_gradient(pg.silu, x=rule), pg.name_scope("head"):
        found = gradient(pg.silu)
    np.testing.assert_allclose(found, 1.0 / (1.0 + np.exp(-np.asarray(X))), rtol=1e-5)
    assert seen == [(X, True, plugin.Site("plugrad.silu", "head", 0))]


def test_the_original_gradient_of_an_op(backend):
    plain = np.asarray(gradient(pg.silu))
    with pg.override_gradient(pg.silu, x=lambda dy, original: 2.0 * original(dy)):
        doubled = gradient(pg.silu)
        inside = gradient(lambda x: pg.silu(x) * pg.silu(x))
    np.testing.assert_allclose(doubled, 2.0 * plain, rtol=1e-5)
    squared = gradient(lambda x: pg.silu(x) * pg.silu(x))
    np.testing.assert_allclose(inside, 2.0 * np.asarray(squared), rtol=1e-5)


def test_parts_that_are_used_elsewhere_keep_their_gradient(backend):
    def f(x):
        gate = pg.sigmoid(x)
        return x * gate + gate

    with pg.override_gradient(pg.silu, **TRIPLE):
        found = gradient(f)
    plain = 3.0 + np.asarray(gradient(pg.sigmoid))
    np.testing.assert_allclose(found, plain, rtol=1e-6)


@pytest.mark.parametrize("op", [pg.silu, pg.std, pg.var, pg.log_sigmoid, pg.log2])
def test_composed_ops_can_be_overridden(op, backend):
    with pg.override_gradient(op, x=lambda dy, x: pg.ones_like(x) * 5.0):
        assert gradient(op, [1.0, 2.0, 4.0]) == [5.0, 5.0, 5.0]


HAND_WRITTEN = [pg.hard_swish, pg.hard_sigmoid, pg.logsumexp]


@pytest.mark.parametrize("op", HAND_WRITTEN)
def test_ops_with_a_gradient_of_custom_grad_can_be_overridden(op, backend):
    plain = np.asarray(gradient(op))
    with pg.override_gradient(op, x=lambda dy, x: pg.ones_like(x) * 5.0):
        assert gradient(op) == [5.0, 5.0, 5.0]
    with pg.override_gradient(op, x=lambda dy, original: 2.0 * original(dy)):
        found = gradient(op)
    np.testing.assert_allclose(found, 2.0 * plain, rtol=1e-5)


def test_an_op_of_several_operands(backend):
    q, k, v = (pg.random.normal((1, 5, 4), seed=n) for n in range(3))
    loss = lambda q, k, v: pg.sum(pg.scaled_dot_product_attention(q, k, v))
    rules = {"q": None, "k": None, "v": lambda dy: 2.0 * dy}
    with pg.override_gradient(pg.scaled_dot_product_attention, rules):
        dq, dv = pg.grad(loss, argnums=(0, 2))(q, k, v)
    assert pg.sum(pg.abs(dq)).item() == 0.0
    assert dv.tolist() == pg.full((1, 5, 4), 2.0).tolist()


# --- patterns --------------------------------------------------------------------


def test_a_pattern_gets_all_operands(backend):
    def rule(dy, x, w, b, y, w_tracked, b_tracked, transpose_b):
        assert (w_tracked, b_tracked, transpose_b) == (False, False, False)
        assert y.shape[-1] == b.shape[0]
        return dy @ w.T + pg.sum(b)

    w = pg.ones((3, 1))
    f = lambda x: x @ w + [5.0]
    with pg.override_gradient(DENSE, x=rule):
        assert gradient(f, [[0.0, 0.0, 0.0]]) == [[6.0, 6.0, 6.0]]
        assert gradient(f, [[[0.0, 0.0, 0.0]]]) == [[[6.0, 6.0, 6.0]]]
        bias_first = lambda x: pg.asarray([5.0]) + x @ w
        assert gradient(bias_first, [[0.0, 0.0, 0.0]]) == [[6.0, 6.0, 6.0]]


def test_operands_that_do_not_fit_are_left_alone(backend):
    w = pg.ones((3, 3))
    skip = lambda x: x @ w + pg.asarray(1.0)
    with pg.override_gradient(DENSE, x=lambda dy: dy * 100.0):
        assert gradient(skip, [[1.0, 2.0, 3.0]]) == [[3.0, 3.0, 3.0]]


def test_inputs_that_are_left_out_get_the_gradient_of_the_parts(backend):
    x, w, b = pg.ones((2, 3)), pg.ones((3, 4)), pg.ones((4,))
    loss = lambda x, w, b: pg.sum(dense(x, w, b) * 2.0)
    with pg.override_gradient(DENSE, x=lambda dy, x: x * 7.0):
        dx, dw, db = pg.grad(loss, argnums=(0, 1, 2))(x, w, b)
    assert dx.tolist() == pg.full((2, 3), 7.0).tolist()
    assert dw.tolist() == pg.full((3, 4), 4.0).tolist()
    assert db.tolist() == [4.0] * 4


def test_constants_are_compared(backend):
    other = lambda x: x * 0.5 * (1.0 + pg.erf(x * 0.7))
    with pg.override_gradient(GELU, **TRIPLE):
        assert gradient(written_out_gelu) == [3.0, 3.0, 3.0]
        assert (
            gradient(lambda x: 0.5 * x * (pg.erf(math.sqrt(0.5) * x) + 1.0))
            == [3.0] * 3
        )
        found = gradient(other)
    assert found == gradient(other)


def test_the_longest_pattern_wins(backend):
    def dense_relu(x, w, b):
        return pg.relu(x @ w + b)

    longer = plugin.Pattern(dense_relu, ((2, 3), (3, 4), (4,)))
    table = {
        DENSE: {"x": lambda dy, x: x * 0.0 + 1.0},
        longer: {"x": lambda dy, x: x * 0.0 + 2.0},
    }
    w, b = pg.ones((3, 3)), pg.ones((3,))
    with pg.use_gradients(table):
        assert gradient(lambda x: dense(x, w, b), [[1.0, 2.0, 3.0]]) == [[1.0] * 3]
        assert gradient(lambda x: dense_relu(x, w, b), [[1.0, 2.0, 3.0]]) == [[2.0] * 3]
        both = lambda x: dense_relu(dense(x, w, b), w, b)
        assert gradient(both, [[1.0, 2.0, 3.0]]) == [[1.0] * 3]


def test_where_selects_by_the_scope_of_the_first_part(backend):
    def f(x):
        with pg.name_scope("gate"):
            gate = pg.sigmoid(x)
        return x * gate

    plain = gradient(f)
    with pg.override_gradient(pg.silu, where="gate", **TRIPLE):
        assert gradient(f) == [3.0, 3.0, 3.0]
    with pg.override_gradient(pg.silu, where="other", **TRIPLE):
        assert gradient(f) == plain
    with pg.override_gradient(pg.silu, where=1, **TRIPLE):
        found = gradient(lambda x: pg.silu(x) + pg.silu(x))
    np.testing.assert_allclose(found, np.asarray(gradient(pg.silu)) + 3.0, rtol=1e-6)


def test_backends_are_selected():
    with pg.use_backend("cpu"):
        plain = gradient(pg.silu)
        with pg.override_gradient(pg.silu, backend="wasm", **TRIPLE):
            assert gradient(pg.silu) == plain
        with pg.override_gradient(pg.silu, backend="cpu", **TRIPLE):
            assert gradient(pg.silu) == [3.0, 3.0, 3.0]


# --- transformations -------------------------------------------------------------


def test_jit_replays_patterns(backend):
    def f(x):
        return pg.grad(lambda x: pg.sum(pg.silu(x)))(x)

    with pg.override_gradient(pg.silu, x=lambda dy, x: dy * x):
        jitted = pg.jit(f)
        for start in (1.0, 2.0, 3.0):
            assert jitted(pg.asarray([start])).tolist() == [start]
        assert not jitted.explain(pg.asarray([1.0])).reason
    np.testing.assert_allclose(jitted(pg.asarray([0.0])).tolist(), [0.5], rtol=1e-6)


def test_vmap_and_second_derivatives(backend):
    x = pg.asarray([[1.0, 2.0], [3.0, 4.0]])
    with pg.override_gradient(pg.silu, x=lambda dy, x: dy * x * x):
        rows = pg.vmap(pg.grad(lambda x: pg.sum(pg.silu(x))))(x)
        second = pg.grad(lambda x: pg.sum(pg.grad(lambda x: pg.sum(pg.silu(x)))(x)))(x)
    assert rows.tolist() == [[1.0, 4.0], [9.0, 16.0]]
    assert second.tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_innermost_hides_a_pattern_from_outer_tapes(backend):
    total = lambda x: pg.sum(pg.silu(x))
    x = pg.asarray([0.5])

    def inner_gradient(x):
        with pg.override_gradient(pg.silu, x=lambda dy, x, y: dy * y, innermost=True):
            return pg.sum(pg.grad(total)(x))

    true_slope = pg.grad(total)(x).item()
    np.testing.assert_allclose(pg.grad(inner_gradient)(x).item(), true_slope, rtol=1e-5)


def test_parts_on_other_tapes_are_not_claimed(backend):
    def f(x):
        gate = pg.sigmoid(x)
        return pg.sum(pg.grad(lambda gate: pg.sum(pg.stop_gradient(x) * gate))(gate))

    with pg.override_gradient(pg.silu, **TRIPLE):
        assert f(pg.asarray(X)).item() == sum(X)
        assert pg.grad(f)(pg.asarray(X)).tolist() == [0.0, 0.0, 0.0]


def test_jvp_takes_linear_rules(backend):
    with pg.override_gradient(pg.silu, **TRIPLE):
        _, slope = pg.jvp(pg.silu, (pg.asarray(X),), (pg.ones((3,)),))
    assert slope.tolist() == [3.0, 3.0, 3.0]


# --- where patterns are shown ----------------------------------------------------


def test_explain_shows_a_pattern():
    with pg.override_gradient(DENSE, **{"x": lambda dy, w: dy @ w.T}):
        y, pullback = pg.vjp(
            lambda x: x @ pg.ones((3, 2)) + [1.0, 2.0], pg.ones((1, 3))
        )
        rows = pg.explain(y).rows
    runs = {(row["kernel"], row["how"]) for row in rows}
    assert runs == {("pattern.dense", "pattern")}
    assert [row["gradient"] for row in rows] == ["user", "", ""]
    del pullback


def test_names_are_unique_while_patterns_live():
    one = plugin.Pattern(dense, ((2, 3), (3, 4), (4,)), name="twin")
    two = plugin.Pattern(dense, ((2, 3), (3, 4), (4,)), name="twin")
    assert (one.name, two.name) == (f"{PREFIX}twin", f"{PREFIX}twin_2")
    assert one.inputs == ("x", "w", "b")
    assert "transpose_b" in one.attributes
    assert repr(one).startswith("<Pattern pattern.twin(x, w, b; ")
    del one, two
    gc.collect()
    assert plugin.Pattern(dense, ((2, 3), (3, 4), (4,)), name="twin").name == (
        f"{PREFIX}twin"
    )


def test_names_of_plugins_are_dotted():
    pattern = plugin.Pattern(dense, ((2, 3), (3, 4), (4,)), name="mylib.dense")
    assert pattern.name == "mylib.dense"


def test_names_differ_from_those_of_kernels(monkeypatch):
    kernel = plugin.Kernel("mylib.Taken(x) -> y")
    monkeypatch.setitem(registry.contracts, kernel.name, kernel)
    pattern = plugin.Pattern(dense, ((2, 3), (3, 4), (4,)), name=kernel.name)
    assert pattern.name == "mylib.Taken_2"


def test_patterns_are_freed():
    reference = weakref.ref(plugin.Pattern(written_out_gelu, ((3,),), name="free"))
    gc.collect()
    assert reference() is None


def test_threads_share_a_pattern(backend):
    found = []

    def work():
        with pg.use_backend(backend), pg.override_gradient(pg.silu, **TRIPLE):
            found.append(gradient(pg.silu))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[3.0, 3.0, 3.0]] * 4


# --- bad input -------------------------------------------------------------------

SHAPES = ((2, 3), (3, 4), (4,))
BAD = {
    "no function": (
        lambda: plugin.Pattern(3, SHAPES),
        TypeError,
        "expected a function, got 3",
    ),
    "lambda": (lambda: plugin.Pattern(lambda x: x, ((2,),)), ValueError, "pass one"),
    "no example": (lambda: plugin.Pattern(dense), ValueError, "needs an example"),
    "shapes": (lambda: plugin.Pattern(dense, ((2, 3),)), ValueError, "has 1 shapes"),
    "no shape": (
        lambda: plugin.Pattern(dense, (1, 2, 3)),
        TypeError,
        "a shape for each",
    ),
    "one kernel": (lambda: plugin.Pattern(pg.exp, ((2,),)), ValueError, "at least two"),
    "unused": (
        lambda: plugin.Pattern(lambda x, y: pg.exp(pg.exp(x)), ((2,), (2,)), name="f"),
        ValueError,
        "on 1 of its 2 operands",
    ),
    "other tensors": (
        lambda: plugin.Pattern(lambda x: pg.exp(x * pg.ones((2,))), ((2,),), name="f"),
        ValueError,
        r"reads a tensor of shape \(2,\)",
    ),
    "custom_grad": (
        lambda: plugin.Pattern(lambda x: 2.0 * both(x)[0], ((2,),), name="f"),
        ValueError,
        "that returns several tensors",
    ),
    "several results": (
        lambda: plugin.Pattern(lambda x: (x, x), ((2,),), name="f"),
        TypeError,
        "must return a tensor, got tuple",
    ),
    "fits": (lambda: plugin.Pattern(dense, SHAPES, fits=1), TypeError, "fits"),
    "unknown input": (
        lambda: pg.override_gradient(DENSE, z=lambda dy: dy),
        ValueError,
        "no input 'z'; the inputs are x, w, b",
    ),
    "unknown parameter": (
        lambda: pg.override_gradient(DENSE, x=lambda dy, geometry: dy),
        ValueError,
        "'geometry' is not one of",
    ),
    "no rule": (
        lambda: pg.override_gradient(pg.silu),
        ValueError,
        "at least one gradient function",
    ),
    "decompose": (
        lambda: pg.override_gradient(DENSE, decompose=True),
        ValueError,
        "is for a kernel",
    ),
    "in the process": (
        lambda: pg.register_gradient(pg.silu, x=lambda dy: dy),
        ValueError,
        "name one of these kernels",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    function, error, message = BAD[case]
    with pytest.raises(error, match=message):
        function()
