"""Batching rules of kernels, and kernels without a rule."""

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin
from plugrad._src.batching import rules

RNG = np.random.default_rng(5)
X = RNG.normal(size=(5, 4)).astype("float32")
W = RNG.normal(size=(4, 3)).astype("float32")


@pytest.mark.parametrize("op", [pg.tanh, pg.sigmoid, pg.elu])
def test_a_recorded_gradient_with_an_unbatched_cotangent(op):
    """Gradient kernels need inputs of equal shapes, which a recording checks."""
    slope = pg.grad(lambda x: pg.sum(op(x)))
    x = pg.asarray([-1.0, 0.5, 2.0])
    jitted = pg.jit(pg.vmap(slope))
    expected = [slope(value).item() for value in x.numpy()]
    for _ in range(3):
        np.testing.assert_allclose(jitted(x).numpy(), expected, rtol=2e-5)


def test_only_kernels_that_broadcast_are_batched_without_equal_shapes():
    names = rules.RULES[rules.elementwise].split()
    several = [k for k in map(plugin.contracts().get, names) if len(k.inputs) > 1]
    assert several
    assert [k.name for k in several if not k.broadcasts] == []


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_a_kernel_without_a_rule_is_refused_until_it_gets_one():
    without_rule = plugin.Kernel("test.Bare(x: floating)", out=plugin.same)
    pg.register_kernel(without_rule, pg.get_backend(), lambda x: x)
    # the contract that the first run of this test has declared
    without_rule = plugin.contracts()["test.Bare"]
    without_rule.batching = None
    try:
        f = lambda x: plugin.run(without_rule, x)
        with pytest.raises(
            NotImplementedError, match=r"vmap: test\.Bare.*plugin\.batching"
        ):
            pg.vmap(f)(X)
        constant = pg.asarray(W)
        y = pg.vmap(lambda x: f(constant)[0, 0] * x)(X)
        np.testing.assert_allclose(y.numpy(), W[0, 0] * X, rtol=2e-5)
        plugin.batching(without_rule, "elementwise")
        assert pg.vmap(f)(X).shape == X.shape
        plugin.batching(without_rule)(lambda batched, x: pg.sum(x))
        with pytest.raises(ValueError, match=r"rule of test\.Bare returned shape \(\)"):
            pg.vmap(f)(X)
    finally:
        pg.unregister_kernel("test.Bare", pg.get_backend())
    with pytest.raises(
        ValueError, match="batching: rule 'nonsense': use 'elementwise'"
    ):
        plugin.batching(without_rule, "nonsense")
    with pytest.raises(TypeError, match="batching: expected a Kernel, got 'Relu'"):
        plugin.batching("Relu", "each")
