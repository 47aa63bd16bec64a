"""Rules and composites, compared with zennit's relevances of a small network."""

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest
from plugrad_attribution.rules import stabilized

from tests.attribution.reference import (
    HIGH,
    LOW,
    TARGET,
    examples,
    recorded,
    weights,
)

RECORDED = recorded()
W = weights()
PLUS, EPSILON = attr.ZPlus(), attr.Epsilon()
NO_BIAS = attr.ZPlus(zero_bias=True)
COMPOSITES = {
    "Epsilon()": attr.Composite(),
    "Epsilon(0.25)": attr.Composite(attr.Epsilon(0.25), attr.Epsilon(0.25)),
    "ZPlus()": attr.Composite(PLUS, PLUS),
    "ZPlus(zero_bias)": attr.Composite(NO_BIAS, NO_BIAS),
    "Gamma()": attr.Composite(attr.Gamma(0.25), attr.Gamma(0.25)),
    "AlphaBeta()": attr.Composite(attr.AlphaBeta(), attr.AlphaBeta()),
    "AlphaBeta(1, 0)": attr.Composite(attr.AlphaBeta(1.0, 0.0)),
    "WSquare()": attr.Composite(PLUS, first=attr.WSquare()),
    "EpsilonPlus": attr.EpsilonPlus(),
    "EpsilonPlusFlat": attr.EpsilonPlusFlat(),
    "EpsilonGammaBox": attr.EpsilonGammaBox(LOW, HIGH),
    "EpsilonAlpha2Beta1": attr.EpsilonAlpha2Beta1(),
    "EpsilonAlpha2Beta1Flat": attr.EpsilonAlpha2Beta1Flat(),
    "ExcitationBackprop": attr.ExcitationBackprop(),
}


def network(dtype):
    """Return the recorded network as a function."""
    w = {name: pg.asarray(value.astype(dtype)) for name, value in W.items()}

    def f(x):
        h = pg.relu(pg.conv2d(x, w["w1"], pad="same") + w["b1"])
        h = pg.max_pool(h, 2, strides=2)
        h = pg.relu(pg.conv2d(h, w["w2"], pad="same") + w["b2"])
        h = pg.reshape(pg.avg_pool(h, 2, strides=2), (-1, 16))
        return pg.relu(h @ w["w3"] + w["b3"]) @ w["w4"] + w["b4"]

    return f


def difference(found, expected):
    """Return the largest difference divided by the largest value."""
    return np.abs(found - expected).max() / np.abs(expected).max()


def test_all_recorded_cases_are_compared():
    assert RECORDED.keys() == COMPOSITES.keys()


@pytest.mark.parametrize("name", COMPOSITES)
def test_relevances_are_those_of_zennit(name, backend):
    dtype = "float32" if backend == "opencl" else "float64"
    x = examples().astype(dtype)
    found = attr.attribute(network(dtype), x, COMPOSITES[name], TARGET).input
    limit = 1e-9 if dtype == "float64" else 1e-4  # rounding close to zero
    assert found.dtype == dtype
    assert difference(found.numpy(), RECORDED[name]) < limit


@pytest.mark.parametrize("name", ["EpsilonPlus", "EpsilonGammaBox"])
def test_jit_gives_the_same_bits(name, backend):
    rules, f = COMPOSITES[name], network("float32")
    explain = lambda x: attr.attribute(f, x, rules, TARGET).input
    jitted = pg.jit(explain)
    for seed in range(4):
        x = pg.random.normal((2, 8, 8, 2), seed=seed)
        assert jitted(x).tolist() == explain(x).tolist()
    assert not jitted.explain(x).reason


def test_vmap_gives_the_relevance_of_each_example(backend):
    rules, f = attr.EpsilonPlusFlat(), network("float32")
    x = pg.asarray(examples().astype("float32"))
    one = lambda x: attr.attribute(f, x[None], rules, TARGET).input[0]
    batch = attr.attribute(f, x, rules, TARGET).input
    np.testing.assert_allclose(pg.vmap(one)(x).numpy(), batch.numpy(), rtol=2e-4)


# --- guarantees of the rules -----------------------------------------------------


@pytest.mark.parametrize(
    "rule", [attr.Epsilon(0.0), PLUS, attr.Gamma(), attr.AlphaBeta(), attr.Flat()]
)
def test_relevance_is_conserved_without_biases(rule, backend):
    w = pg.asarray(W["w1"].astype("float32"))
    f = lambda x: pg.relu(pg.conv2d(x, w, pad="same"))
    x = examples().astype("float32")
    rules = attr.Composite(rule, first=rule)
    found = attr.attribute(f, x, rules)
    total = pg.sum(found.input, axis=(1, 2, 3)).numpy()
    np.testing.assert_allclose(total, found.value.numpy(), rtol=2e-3)


def test_zero_inputs_have_relevance_under_the_box_rule(backend):
    w = pg.asarray([[1.0], [1.0]])
    rules = attr.Composite(first=attr.Box(-1.0, 1.0))
    found = attr.attribute(lambda x: x @ w + [2.0], [[0.0, 0.0]], rules)
    np.testing.assert_allclose(found.input.numpy(), [[1.0, 1.0]], rtol=1e-5)


def test_stabilized_keeps_the_sign():
    assert stabilized(pg.asarray([-1.0, 0.0, 1.0]), 0.5).tolist() == [-1.5, 0.5, 1.5]


def test_rules_are_values():
    assert attr.Gamma(0.5) == attr.Gamma(0.5)
    assert hash(attr.Epsilon()) == hash(attr.Epsilon(1e-6))
    assert repr(attr.Flat()) == "Flat(stabilizer=1e-06)"


def test_alpha_and_beta_must_fit():
    with pytest.raises(ValueError, match="alpha - beta must be 1"):
        attr.AlphaBeta(2.0, 2.0)
    with pytest.raises(ValueError, match="neither may be negative"):
        attr.AlphaBeta(0.5, -0.5)


@pytest.mark.parametrize(
    "rules", [attr.AttnLRP(), attr.EpsilonPlus()], ids=["lrp", "+"]
)
def test_packed_weights_are_treated_like_others(rules, backend):
    rng = np.random.default_rng(0)
    blocks = pg.quantized.quantize_blocks(
        pg.asarray(rng.normal(size=(16, 32)), dtype="float32"), bits=8
    )
    w = pg.quantized.dequantize_blocks(*blocks, bits=8)
    x = pg.asarray(rng.normal(size=(2, 32)), dtype="float32")
    packed = lambda x: pg.relu(pg.quantized.block_matmul(x, *blocks, bits=8))
    plain = lambda x: pg.relu(pg.matmul(x, w, transpose_b=True))
    found, expected = (attr.attribute(f, x, rules, 3).input for f in (packed, plain))
    assert difference(found.numpy(), expected.numpy()) < 1e-5
    deep, wanted = (attr.deep_lift(f, x, 0.0 * x, 3).input for f in (packed, plain))
    assert difference(deep.numpy(), wanted.numpy()) < 1e-5
