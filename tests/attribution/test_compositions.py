"""Norms, activations and attention get equal relevance written out and as ops."""

import math

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest

RANDOM = np.random.default_rng(8)
X = RANDOM.normal(size=(2, 3, 6)).astype(np.float32)
W = RANDOM.normal(size=(6, 4)).astype(np.float32)
SCALE = RANDOM.uniform(0.5, 1.5, size=(6,)).astype(np.float32)
OFFSET = RANDOM.normal(size=(6,)).astype(np.float32)
TARGET = RANDOM.normal(size=(2, 3, 4)).astype(np.float32)
EPSILON = 1e-3
COMPOSITES = {"AttnLRP": attr.AttnLRP(), "Composite": attr.Composite()}


def mean(x):
    return pg.mean(x, axis=-1, keepdims=True)


def relevance(f, rules, x=X):
    """Return the relevance of the input of a network: ``f`` between linear layers."""
    target = lambda y: pg.sum(y * TARGET, axis=(1, 2))
    network = lambda x: f(x * 1.5 + 0.25) @ W
    return attr.attribute(network, x, rules, target).input.numpy()


def assert_same(one, other, rules, x=X):
    """Check that two ways to write a function get the same relevance."""
    expected = relevance(other, rules, x)
    found = relevance(one, rules, x)
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


# --- norms -----------------------------------------------------------------------

RMS_NORMS = {
    "rsqrt": lambda x: x * pg.rsqrt(mean(x * x) + EPSILON) * SCALE,
    "scale first": lambda x: SCALE * (pg.rsqrt(mean(x * x) + EPSILON) * x),
    "square": lambda x: x * pg.rsqrt(mean(pg.square(x)) + EPSILON) * SCALE,
    "power": lambda x: x * (mean(x**2) + EPSILON) ** -0.5 * SCALE,
    "division": lambda x: x / pg.sqrt(mean(x**2) + EPSILON) * SCALE,
    "inverse": lambda x: x * (1.0 / pg.sqrt(mean(x**2) + EPSILON)) * SCALE,
    "reciprocal": lambda x: x * pg.reciprocal(pg.sqrt(mean(x * x) + EPSILON)) * SCALE,
    "sum": lambda x: (
        x * pg.rsqrt(pg.sum(x * x, axis=-1, keepdims=True) / 6 + EPSILON) * SCALE
    ),
}


@pytest.mark.parametrize("rules", COMPOSITES)
@pytest.mark.parametrize("name", RMS_NORMS)
def test_rms_norms(name, rules, backend):
    op = lambda x: pg.rms_norm(x, SCALE, epsilon=EPSILON)
    assert_same(RMS_NORMS[name], op, COMPOSITES[rules])


def test_an_rms_norm_passes_its_relevance_on(backend):
    f = lambda x: pg.rms_norm(x, SCALE, epsilon=EPSILON)
    found = attr.attribute(f, X, attr.AttnLRP())
    np.testing.assert_allclose(found.input.numpy(), f(X).numpy(), rtol=1e-4, atol=1e-6)


def centered(x):
    return x - mean(x)


LAYER_NORMS = {
    "division": lambda x: (
        centered(x) / pg.sqrt(mean(centered(x) ** 2) + EPSILON) * SCALE + OFFSET
    ),
    "rsqrt": lambda x: (
        centered(x) * pg.rsqrt(pg.var(x, axis=-1, keepdims=True) + EPSILON) * SCALE
        + OFFSET
    ),
    "folded": lambda x: (
        x * (r := pg.rsqrt(mean(pg.square(centered(x))) + EPSILON)) * SCALE
        + (OFFSET - mean(x) * r * SCALE)
    ),
}


@pytest.mark.parametrize("name", LAYER_NORMS)
def test_layer_norms(name, backend):
    op = lambda x: pg.layer_norm(x, SCALE, OFFSET, epsilon=EPSILON)
    rules = attr.AttnLRP(norm=0.0, stabilizer=0.0)
    assert_same(LAYER_NORMS[name], op, rules)


def test_a_product_with_an_inverse_root_of_the_same_shape_is_no_norm(backend):
    """The root is not that of a mean over an axis, so it is an ordinary factor."""
    f = lambda x: x[:, :1] * pg.rsqrt(pg.square(x) + 1.0)
    found = attr.attribute(f, X[0], attr.Composite()).input.numpy()
    assert np.abs(found[:, 1:]).min() > 0


# --- activations -----------------------------------------------------------------

ROOT = math.sqrt(2)
SLOPE = math.sqrt(2 / math.pi)
GELUS = {
    "half first": lambda x: 0.5 * x * (1.0 + pg.erf(x / ROOT)),
    "half last": lambda x: x * (1.0 + pg.erf(x / ROOT)) * 0.5,
    "halved": lambda x: x * (pg.erf(x * (1 / ROOT)) + 1.0) / 2.0,
    "distribution": lambda x: x * (0.5 * (1.0 + pg.erf(x / ROOT))),
    "two halves": lambda x: x * (0.5 + 0.5 * pg.erf(x / ROOT)),
    "erfc": lambda x: x * pg.erfc(-x / ROOT) * 0.5,
}
TANH_GELUS = {
    "power": lambda x: 0.5 * x * (1.0 + pg.tanh(SLOPE * (x + 0.044715 * x**3))),
    "products": lambda x: 0.5 * x * (1.0 + pg.tanh(SLOPE * (x + 0.044715 * x * x * x))),
    "factored": lambda x: (
        x * 0.5 * (1.0 + pg.tanh(x * SLOPE * (1.0 + 0.044715 * x * x)))
    ),
    "squared": lambda x: (
        x * 0.5 * (1.0 + pg.tanh(x * SLOPE * (1.0 + 0.044715 * pg.square(x))))
    ),
    "second power": lambda x: (
        x * 0.5 * (1.0 + pg.tanh(SLOPE * x * (1.0 + 0.044715 * x**2)))
    ),
    "grouped": lambda x: (
        x * 0.5 * (1.0 + pg.tanh(SLOPE * (x * (1.0 + 0.044715 * (x * x)))))
    ),
    "distribution": lambda x: (
        x * (0.5 + 0.5 * pg.tanh(SLOPE * (x + 0.044715 * pg.pow(x, 3))))
    ),
    "sigmoid": lambda x: x * pg.sigmoid(2 * SLOPE * (x + 0.044715 * x**3)),
}
SILUS = {
    "sigmoid": lambda x: x * pg.sigmoid(x),
    "division": lambda x: x / (1.0 + pg.exp(-x)),
    "written sigmoid": lambda x: x * (1.0 / (1.0 + pg.exp(-x))),
    "tanh": lambda x: 0.5 * x * (1.0 + pg.tanh(0.5 * x)),
}


@pytest.mark.parametrize("rules", COMPOSITES)
@pytest.mark.parametrize("name", GELUS)
def test_gelu(name, rules, backend):
    assert_same(GELUS[name], pg.gelu, COMPOSITES[rules])


@pytest.mark.parametrize("rules", COMPOSITES)
@pytest.mark.parametrize("name", TANH_GELUS)
def test_gelu_by_tanh(name, rules, backend):
    op = lambda x: pg.gelu(x, approximate=True)
    assert_same(TANH_GELUS[name], op, COMPOSITES[rules])


@pytest.mark.parametrize("rules", COMPOSITES)
@pytest.mark.parametrize("name", SILUS)
def test_silu(name, rules, backend):
    assert_same(SILUS[name], pg.silu, COMPOSITES[rules])


# --- softmax and attention -------------------------------------------------------


def written_softmax(x):
    powers = pg.exp(x - pg.max(x, axis=-1, keepdims=True))
    return powers / pg.sum(powers, axis=-1, keepdims=True)


def softmax_of_first_axis(x):
    powers = pg.exp(x)
    return powers / pg.sum(powers, axis=0)


def attention(x, softmax=pg.softmax):
    return softmax(x @ pg.matrix_transpose(x) / math.sqrt(6)) @ x


@pytest.mark.parametrize("rules", [attr.AttnLRP(), attr.CPLRP(), attr.RelP()])
def test_softmax(rules, backend):
    assert_same(written_softmax, pg.softmax, rules)
    assert_same(softmax_of_first_axis, lambda x: pg.softmax(x, axis=0), rules)


@pytest.mark.parametrize("rules", [attr.AttnLRP(), attr.CPLRP(), attr.RelP()])
def test_attention(rules, backend):
    op = lambda x: pg.scaled_dot_product_attention(x, x, x)
    assert_same(attention, op, rules)
    assert_same(lambda x: attention(x, written_softmax), op, rules)
    einsum = lambda x: pg.einsum(
        "bqk,bkd->bqd", pg.softmax(pg.einsum("bqd,bkd->bqk", x, x) / math.sqrt(6)), x
    )
    assert_same(einsum, op, rules)


POOLINGS = {
    "matmul": lambda x, s: pg.matmul(s[:, None], x)[:, 0],
    "index": lambda x, s: pg.sum(s[..., None] * x, axis=1),
    "expand_dims": lambda x, s: pg.sum(x * pg.expand_dims(s, -1), axis=1),
    "moved": lambda x, s: pg.sum(pg.permute_dims(x, (2, 0, 1)) * s, axis=-1).T,
}


@pytest.mark.parametrize("rules", [attr.CPLRP(), attr.RelP()])
@pytest.mark.parametrize("name", POOLINGS)
def test_constant_weights_lose_nothing(name, rules, backend):
    """Attention may be written as a matrix product or as a weighted sum of tokens."""
    query = RANDOM.normal(size=(6,)).astype(np.float32)
    for softmax in (pg.softmax, written_softmax):
        f = lambda x, g=softmax: POOLINGS[name](x, g(x @ query)) @ W
        found = attr.attribute(f, X, rules, 1)
        weights = softmax(pg.asarray(X) @ query).numpy()[..., None]
        expected = weights * X * W[:, 1]
        np.testing.assert_allclose(found.input.numpy(), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("rules", [attr.CPLRP(), attr.RelP()])
def test_masked_attention_loses_nothing(rules, backend):
    mask = np.tri(3, dtype=bool)
    f = lambda x: pg.scaled_dot_product_attention(x, x, x, mask=mask)
    causal = lambda x: pg.scaled_dot_product_attention(x, x, x, is_causal=True)
    assert_same(f, causal, rules)
    found = attr.attribute(f, X, rules)
    total = pg.sum(found.input, axis=(1, 2)).numpy()
    np.testing.assert_allclose(total, found.value.numpy(), rtol=1e-4)
