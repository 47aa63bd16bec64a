"""Gradients that apply only where ``where=`` says, and the arguments of rules."""

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin

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


# --- decompositions and fused kernels --------------------------------------------


def kernels(y):
    return [row["kernel"] for row in pg.explain(y).rows]


def test_a_kernel_may_be_decomposed(backend):
    x = pg.asarray([[1.0, 2.0, 4.0]])
    f = lambda x: pg.softmax(x)[0, 0]
    with pg.use_backend(backend):
        plain = pg.grad(f)(x).numpy()
        with pg.override_gradient("Softmax", decompose=True):
            y, pull_back = pg.vjp(f, x)
            assert "Softmax" not in kernels(y)
            assert "Exp" in kernels(y)
            found = pull_back(1.0)[0].numpy()
            assert found == pytest.approx(plain, abs=1e-6)
            with pg.override_gradient("Exp", x=lambda dy, original: 2 * original(dy)):
                assert pg.grad(f)(x).numpy() == pytest.approx(2 * plain, abs=1e-6)
            with pg.override_gradient("Softmax", logits=lambda dy, y: dy * y):
                assert pg.grad(f)(x).numpy()[0, 1:] == pytest.approx(0.0)
            assert dict(pg.get_gradient("Softmax")) == {}
        assert pg.grad(f)(x).numpy() == pytest.approx(plain, abs=1e-6)


def test_a_kernel_may_be_decomposed_in_a_scope():
    f = lambda x: pg.name_scope("a")(pg.gelu)(pg.gelu(x))
    with pg.override_gradient("Gelu", decompose=True, where="a"):
        y, pull_back = pg.vjp(f, pg.asarray(1.0))
    assert kernels(y)[0] == "Gelu"
    assert kernels(y).count("Gelu") == 1
    del pull_back


def test_none_in_a_table_decomposes_a_kernel(backend):
    x = pg.asarray([[1.0, 2.0]])
    f = lambda x: pg.sum(pg.softmax(x) * pg.asarray([1.0, 3.0]))
    halves = {"x": lambda dy, original: 0.5 * original(dy)}
    plain = pg.grad(f)(x).numpy()
    with pg.use_gradients({"Softmax": None, "Exp": halves}):
        y, pullback = pg.vjp(f, x)
        assert "Exp" in {row["kernel"] for row in pg.explain(y).rows}
        found = pg.grad(f)(x).numpy()
    assert abs(found - 0.5 * plain).max() < 1e-6
    with pytest.raises(ValueError, match="use_gradients: None, but Exp has no decomp"):
        pg.use_gradients({"Exp": None})
    with pytest.raises(ValueError, match="None cannot be combined with innermost"):
        pg.use_gradients({"Softmax": None}, innermost=True)
    del pullback


def test_what_cannot_be_decomposed_says_so():
    with pytest.raises(ValueError, match="Exp has no decomposition"):
        pg.override_gradient(pg.exp, decompose=True)
    with pytest.raises(ValueError, match="takes no functions, got one for logits"):
        pg.override_gradient("Softmax", decompose=True, logits=lambda dy: dy)


def dense(x, w, b):
    return pg.sum(pg.fused.matmul(x, w, bias=b, activation="relu"))


def test_a_fused_kernel_may_have_a_gradient_in_a_block(backend):
    x = pg.asarray([[1.0, -2.0]])
    w = pg.asarray([[1.0, 2.0], [3.0, -4.0]])
    bias = pg.asarray([7.0, 1.0])
    seen = []

    def rule(dy, original, bias, y):
        seen.append((bias.tolist(), y.tolist()))
        return 10.0 * original(dy)

    gradients = lambda *xs: pg.grad(dense, argnums=(0, 1, 2))(*xs)
    with pg.use_backend(backend):
        plain = [dx.numpy() for dx in gradients(x, w, bias)]
        with pg.override_gradient("_FusedMatMul", a=rule):
            y, pull_back = pg.vjp(dense, x, w, bias)
            assert "_FusedMatMul" in kernels(y)
            found = [dx.numpy() for dx in pull_back(1.0)]
            replayed = [dx.numpy() for dx in pg.jit(gradients)(x, w, bias)]
    assert seen[0] == ([7.0, 1.0], [[2.0, 11.0]])
    for one, other in zip(found, replayed, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found[0], 10.0 * plain[0])
    for one, other in zip(found[1:], plain[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fused_kernel_gets_no_gradient_for_the_process():
    with pytest.raises(ValueError, match="use override_gradient for a block"):
        pg.register_gradient("FusedConv2D", x=lambda dy: dy)


# --- the innermost tape ----------------------------------------------------------


def double(dy, y):
    return 2.0 * dy * y


def test_outer_derivatives_are_true_ones(backend):
    e = np.exp(0.5)
    first = pg.grad(pg.exp)
    with pg.use_backend(backend):
        x = pg.asarray(0.5)
        with pg.override_gradient(pg.exp, x=double):
            assert pg.grad(first)(x).item() == pytest.approx(4 * e)
        with pg.override_gradient(pg.exp, x=double, innermost=True):
            assert first(x).item() == pytest.approx(2 * e)
            assert pg.grad(first)(x).item() == pytest.approx(2 * e)
            assert pg.grad(pg.grad(first))(x).item() == pytest.approx(2 * e)
            assert pg.jit(pg.grad(first))(x).item() == pytest.approx(2 * e)
            rows = pg.vmap(pg.grad(first))(pg.asarray([0.5, 0.5]))
            assert rows.tolist() == pytest.approx([2 * e, 2 * e])
            outer = pg.grad(lambda x: pg.sum(pg.vmap(first)(pg.stack([x, x]))))
            assert outer(x).item() == pytest.approx(4 * e)
            _, slope = pg.jvp(first, [x], [pg.asarray(1.0)])
            assert slope.item() == pytest.approx(2 * e)


def test_a_relevance_has_the_gradient_of_finite_differences():
    """Relevance is differentiable like any function, but its rule is not a gradient."""
    rng = np.random.default_rng(3)
    w = pg.asarray(rng.normal(size=(4, 3)))
    x = pg.asarray(rng.normal(size=(2, 4)))

    def rule(dy, a, b):
        return pg.matmul(dy / (pg.matmul(a, b) + 0.3), b.mT) * a

    def relevance(x):
        return pg.sum(pg.grad(lambda x: pg.sum(pg.tanh(pg.matmul(x, w))))(x) ** 2)

    with pg.override_gradient("BatchMatMul", a=rule, innermost=True):
        pg.check_gradients(relevance, x)


def test_a_run_of_an_outer_variable_alone():
    """The innermost ``grad`` does not differentiate this run, so no rule applies."""

    def outer(x):
        return pg.exp(x) * pg.grad(pg.square)(x)

    with pg.override_gradient(pg.exp, x=double, innermost=True):
        inner = lambda x: pg.grad(lambda y: y * pg.exp(x))(pg.asarray(1.0))
        assert pg.grad(inner)(0.0).item() == pytest.approx(1.0)
        assert pg.grad(outer)(0.0).item() == pytest.approx(2.0)


def test_layers_for_all_tapes_and_for_one_stack():
    with (
        pg.override_gradient(pg.exp, x=lambda dy, y: 3.0 * dy * y),
        pg.override_gradient(
            pg.exp, x=lambda dy, original: 2.0 * original(dy), innermost=True
        ),
    ):
        assert pg.grad(pg.exp)(0.0).item() == pytest.approx(6.0)
        assert pg.grad(pg.grad(pg.exp))(0.0).item() == pytest.approx(18.0)


def test_a_fused_kernel_for_the_innermost_tape():
    x = pg.asarray([[1.0, -2.0]])
    w = pg.asarray([[1.0, 2.0], [3.0, -4.0]])
    b = pg.asarray([7.0, 1.0])
    square = lambda x: dense(x, w, b) ** 2
    plain = pg.grad(lambda x: pg.sum(pg.grad(square)(x)))(x).numpy()
    rule = {"a": lambda dy, original: 3.0 * original(dy)}
    with pg.override_gradient("_FusedMatMul", rule, innermost=True):
        found = pg.grad(lambda x: pg.sum(pg.grad(square)(x)))(x).numpy()
    np.testing.assert_allclose(found, 3.0 * plain)


def test_decompositions_are_for_all_tapes():
    with pytest.raises(ValueError, match=r"cannot be combined with innermost"):
        pg.override_gradient("Softmax", decompose=True, innermost=True)


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
