"""Composites for transformers, compared with lxt's relevances of small networks."""

import functools

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest

from tests.attribution.reference_attn import (
    BATCH,
    EPSILON,
    HEADS,
    SHAPE,
    SIZE,
    TARGET,
    TOKENS,
    examples,
    recorded,
    weights,
)
from tests.attribution.test_rules import difference

RECORDED = recorded()
COMPOSITES = {"AttnLRP": attr.AttnLRP(), "CPLRP": attr.CPLRP(), "RelP": attr.RelP()}


# --- the networks ----------------------------------------------------------------


def parameters(dtype, has_biases=True):
    """Return the parameters of the blocks and of the head."""

    def moved(given):
        is_bias = lambda name: name.startswith(("b", "offset"))
        keep = lambda name: 1.0 if has_biases or not is_bias(name) else 0.0
        return {n: pg.asarray((w * keep(n)).astype(dtype)) for n, w in given.items()}

    blocks, head = weights()
    return [moved(block) for block in blocks], moved(head)


def heads(x):
    return pg.permute_dims(pg.reshape(x, (BATCH, TOKENS, HEADS, SIZE)), (0, 2, 1, 3))


def joined(x):
    return pg.reshape(pg.permute_dims(x, (0, 2, 1, 3)), SHAPE)


def gelu_network(given, x):
    """Return the logits of two blocks with layer norms, GELU and biases."""
    blocks, head = given
    for p in blocks:
        y = pg.layer_norm(x, p["scale1"], p["offset1"], epsilon=EPSILON)
        q, k, v = (heads(y @ p[f"w{name}"] + p[f"b{name}"]) for name in "qkv")
        y = joined(pg.scaled_dot_product_attention(q, k, v))
        x = x + (y @ p["wo"] + p["bo"])
        y = pg.layer_norm(x, p["scale2"], p["offset2"], epsilon=EPSILON)
        x = x + (pg.gelu(y @ p["up"] + p["b_up"]) @ p["down"] + p["b_down"])
    y = pg.layer_norm(x, head["scale"], head["offset"], epsilon=EPSILON)
    return y[:, 0] @ head["w"] + head["b"]


def gated_network(given, x):
    """Return the logits of two blocks as in LLaMA: RMS norms, SiLU gates, no biases."""
    norm = functools.partial(pg.rms_norm, epsilon=EPSILON)
    return gated_blocks(given, x, norm, causal_attention, gated_mlp)


def gated_blocks(given, x, norm, attention, mlp):
    """Return the logits of blocks built from the given functions."""
    blocks, head = given
    for p in blocks:
        y = norm(x, p["scale1"])
        q, k, v = (heads(y @ p[f"w{name}"]) for name in "qkv")
        x = x + joined(attention(q, k, v)) @ p["wo"]
        y = norm(x, p["scale2"])
        x = x + mlp(y @ p["gate"], y @ p["up"]) @ p["down"]
    return norm(x, head["scale"])[:, -1] @ head["w"]


def causal_attention(q, k, v):
    return pg.scaled_dot_product_attention(q, k, v, is_causal=True)


def gated_mlp(gate, y):
    return pg.silu(gate) * y


def written_norm(x, scale):
    return x * pg.rsqrt(pg.mean(x * x, axis=-1, keepdims=True) + EPSILON) * scale


def written_attention(q, k, v):
    scores = pg.einsum("bhqd,bhkd->bhqk", q, k) * SIZE**-0.5
    future = np.triu(np.full((TOKENS, TOKENS), -1e9), 1).astype(q.dtype)
    return pg.einsum("bhqk,bhkd->bhqd", pg.softmax(scores + future), v)


def written_mlp(gate, y):
    return gate * pg.sigmoid(gate) * y


def written_network(given, x):
    """Return the result of ``gated_network``, without ops for norms and gates."""
    return gated_blocks(given, x, written_norm, written_attention, written_mlp)


NETWORKS = {"": gelu_network, " gated": gated_network}


def relevance(network, rules, dtype, **options):
    """Return the relevance of the tokens."""
    f = functools.partial(network, parameters(dtype, **options))
    return attr.attribute(f, examples().astype(dtype), rules, TARGET)


def float_of(backend):
    return "float32" if backend == "opencl" else "float64"


# --- lxt -------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", ["AttnLRP", "CPLRP"])
def test_relevances_are_those_of_lxt(name, network, backend):
    dtype = float_of(backend)
    rules = COMPOSITES[name]
    found = relevance(NETWORKS[network], rules, dtype).input.numpy()
    limit = 1e-7 if dtype == "float64" else 1e-5
    assert difference(found, RECORDED[name + network]) < limit
    # lxt adds 1e-6 to every denominator, whatever its sign.
    published = RECORDED[f"{name}{network}, as published"]
    assert 1e-6 < difference(found, published) < 5e-5


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_network_that_is_written_out_gets_the_same_relevance(name, backend):
    dtype = float_of(backend)
    rules = COMPOSITES[name]
    found = relevance(written_network, rules, dtype).input.numpy()
    expected = relevance(gated_network, rules, dtype).input.numpy()
    limit = 1e-7 if dtype == "float64" else 1e-5
    assert difference(found, expected) < limit


# --- RelP ------------------------------------------------------------------------


def constant_norm(x, scale):
    size = pg.sqrt(pg.mean(x * x, axis=-1, keepdims=True) + EPSILON)
    return x / pg.stop_gradient(size) * scale


def constant_attention(q, k, v):
    future = np.triu(np.full((TOKENS, TOKENS), -1e9), 1).astype(q.dtype)
    weights = pg.softmax(q @ pg.matrix_transpose(k) * SIZE**-0.5 + future)
    return pg.stop_gradient(weights) @ v


def half_mlp(gate, y):
    product = gate * pg.stop_gradient(pg.sigmoid(gate)) * y
    return 0.5 * product + 0.5 * pg.stop_gradient(product)


def test_relp_is_the_gradient_with_constants(backend):
    """RelP is input times gradient, if the paper's constant parts get no gradient."""
    dtype = float_of(backend)
    given, x = parameters(dtype), pg.asarray(examples().astype(dtype))

    def total(x):
        y = gated_blocks(given, x, constant_norm, constant_attention, half_mlp)
        return pg.sum(y[:, TARGET])

    expected = (x * pg.grad(total)(x)).numpy()
    found = relevance(gated_network, COMPOSITES["RelP"], dtype).input.numpy()
    limit = 1e-12 if dtype == "float64" else 1e-5
    assert difference(found, expected) < limit


# --- guarantees of the composites ------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", ["CPLRP", "RelP"])
def test_without_biases_relevance_is_conserved(name, network, backend):
    dtype = float_of(backend)
    rules = COMPOSITES[name]
    found = relevance(NETWORKS[network], rules, dtype, has_biases=False)
    total = pg.sum(found.input, axis=(1, 2)).numpy()
    stabilizers = 1e-4 if name == "CPLRP" else 1e-12
    limit = max(stabilizers, 1e-5 if dtype == "float32" else 0.0)
    np.testing.assert_allclose(total, found.value.numpy(), rtol=limit)


def test_attnlrp_loses_only_what_softmax_takes(backend):
    """The Taylor expansion of softmax has a constant term, which absorbs relevance."""
    dtype = float_of(backend)
    average = lambda q, k, v: pg.mean(v, axis=-2, keepdims=True) + 0.0 * v
    network = lambda given, x: gated_blocks(
        given, x, written_norm, average, written_mlp
    )
    found = relevance(network, COMPOSITES["AttnLRP"], dtype)
    total = pg.sum(found.input, axis=(1, 2)).numpy()
    np.testing.assert_allclose(total, found.value.numpy(), rtol=1e-4)
    found = relevance(gated_network, COMPOSITES["AttnLRP"], dtype)
    total = pg.sum(found.input, axis=(1, 2)).numpy()
    assert (np.abs(total - found.value.numpy()) > 1e-2).all()


def test_queries_and_keys_are_constants_of_cplrp(backend):
    """Other weights of queries and keys change attention, but get no relevance."""
    x = examples().astype("float32")
    constant = pg.asarray(x)

    def cross(x):  # the queries depend on x, keys and values do not
        return pg.scaled_dot_product_attention(x, constant, constant)

    assert not attr.attribute(cross, x, COMPOSITES["CPLRP"]).input.numpy().any()
    assert attr.attribute(cross, x, COMPOSITES["AttnLRP"]).input.numpy().any()


def test_zeros_without_stabilizers_are_finite(backend):
    """A token of zeros leads to denominators that are zero."""
    x = examples().astype("float32")
    x[:, 2] = 0.0
    f = functools.partial(gelu_network, parameters("float32", has_biases=False))
    for rules in COMPOSITES.values():
        assert np.isfinite(attr.attribute(f, x, rules, TARGET).input.numpy()).all()
    rules = attr.Composite(attr.Epsilon(0.0), attr.Epsilon(0.0), stabilizer=0.0)
    assert np.isfinite(attr.attribute(f, x, rules, TARGET).input.numpy()).all()


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", COMPOSITES)
def test_jit_gives_the_same_bits(name, network, backend):
    rules = COMPOSITES[name]
    f = functools.partial(NETWORKS[network], parameters("float32"))
    explain = lambda x: attr.attribute(f, x, rules, TARGET).input
    jitted = pg.jit(explain)
    for seed in range(4):
        x = pg.random.normal(SHAPE, seed=seed)
        assert jitted(x).tolist() == explain(x).tolist()
    assert not jitted.explain(x).reason


@pytest.mark.parametrize("name", COMPOSITES)
def test_vmap_gives_the_relevance_of_each_sequence(name, backend):
    rules, (blocks, head) = COMPOSITES[name], parameters("float32")
    x = pg.asarray(examples().astype("float32"))

    def f(x):  # a part of the network that does not depend on the size of the batch
        h = written_norm(x, blocks[0]["scale1"])
        h = h + pg.scaled_dot_product_attention(h @ blocks[0]["wq"], h, h)
        h = pg.gelu(h @ blocks[0]["up"]) @ blocks[0]["down"]
        return h[:, 0] @ head["w"]

    one = lambda x: attr.attribute(f, x[None], rules, TARGET).input[0]
    batch = attr.attribute(f, x, rules, TARGET).input.numpy()
    assert difference(pg.vmap(one)(x).numpy(), batch) < 1e-5
