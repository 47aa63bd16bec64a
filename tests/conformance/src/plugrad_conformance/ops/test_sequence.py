"""Recurrent layers and attention, compared with NumPy; gradients, errors."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

RNG = np.random.default_rng(0)


# --- LSTM and GRU ----------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_reference(reverse, x, weight_ih, weight_hh, *biases_and_states):
    """Return the result of PyTorch's LSTM, with its order of gates."""
    *biases, h, c = biases_and_states
    found = {}
    order = range(len(x))
    for t in reversed(order) if reverse else order:
        gates = x[t] @ weight_ih.T + h @ weight_hh.T + sum(biases)
        i, f, g, o = np.split(gates, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        found[t] = h = sigmoid(o) * np.tanh(c)
    return np.stack([found[t] for t in order]), h, c


def gru_reference(reverse, x, weight_ih, weight_hh, bias_ih, bias_hh, h):
    """Return the result of PyTorch's GRU, with its order of gates."""
    found = {}
    order = range(len(x))
    for t in reversed(order) if reverse else order:
        r, z, m = np.split(x[t] @ weight_ih.T + bias_ih, 3, 1)
        hidden_r, hidden_z, hidden_m = np.split(h @ weight_hh.T + bias_hh, 3, 1)
        z = sigmoid(z + hidden_z)
        h = (1 - z) * np.tanh(m + sigmoid(r + hidden_r) * hidden_m) + z * h
        found[t] = h
    return np.stack([found[t] for t in order]), h


LAYERS = {"lstm": (pg.lstm, lstm_reference, 4, 2), "gru": (pg.gru, gru_reference, 3, 1)}
# Steps, batch, inputs and n: n is less or more than a vector; one batch has many rows,
# one has no rows.
SEQUENCES = [(1, 1, 1, 1), (5, 2, 3, 4), (3, 1, 7, 37), (2, 40, 3, 16), (2, 0, 3, 2)]
SEQUENCES += [(4, 3, 0, 2)]
every_layer = pytest.mark.parametrize("layer", LAYERS)
both_directions = pytest.mark.parametrize("reverse", [False, True])


def layer_arguments(layer, steps, batch, inputs, n, dtype="float32"):
    _, _, gates, states = LAYERS[layer]
    m = gates * n
    sizes = [(steps, batch, inputs), (m, inputs), (m, n), (m,), (m,)]
    sizes += [(batch, n)] * states
    return [RNG.normal(size=size, scale=0.4).astype(dtype) for size in sizes]


@every_layer
@both_directions
@pytest.mark.parametrize("sizes", SEQUENCES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_of_recurrent_layers(layer, reverse, sizes, dtype, backend):
    require_dtypes(backend, dtype)
    op, reference, *_ = LAYERS[layer]
    given = layer_arguments(layer, *sizes, dtype)
    expected = reference(reverse, *given)
    for y, wanted in zip(op(*given, reverse=reverse), expected, strict=True):
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_allclose(y.numpy(), wanted, rtol=2e-5, atol=2e-6)


@every_layer
@pytest.mark.parametrize(
    "left_out", [(3,), (4,), (3, 4), (5,), (3, 4, 5), (6,)], ids=str
)
def test_optional_arguments_of_recurrent_layers_default_to_0(layer, left_out, backend):
    op, reference, *_ = LAYERS[layer]
    given = layer_arguments(layer, 3, 2, 3, 4)
    partial = [None if i in left_out else x for i, x in enumerate(given)]
    zeros = [np.zeros_like(x) if i in left_out else x for i, x in enumerate(given)]
    expected = reference(False, *zeros)
    for y, wanted in zip(op(*partial), expected, strict=True):
        np.testing.assert_allclose(y.numpy(), wanted, rtol=2e-5, atol=2e-6)


@every_layer
@both_directions
@pytest.mark.parametrize("sizes", SEQUENCES, ids=str)
def test_gradients_of_recurrent_layers(layer, reverse, sizes, backend):
    """Compare gradients of the kernels in float32 with decompositions in float64."""
    op, *_ = LAYERS[layer]

    def gradients(given):
        ys, pull = pg.vjp(lambda *xs: op(*xs, reverse=reverse), *map(pg.asarray, given))
        rng = np.random.default_rng(1)
        dys = [rng.normal(size=y.shape).astype(given[0].dtype) for y in ys]
        return [dx.numpy() for dx in pull(tuple(dys))]

    given = layer_arguments(layer, *sizes)
    with pg.use_backend("cpu"):
        expected = gradients([x.astype(np.float64) for x in given])
    for dx, wanted in zip(gradients(given), expected, strict=True):
        scale = np.abs(wanted).max(initial=0)
        np.testing.assert_allclose(dx, wanted, rtol=1e-4, atol=2e-5 * scale)


@every_layer
def test_second_gradients_of_recurrent_layers(layer, backend):
    require_dtypes(backend, "float64")
    op, *_ = LAYERS[layer]
    check_gradients(lambda *xs: op(*xs)[0], *layer_arguments(layer, 3, 2, 1, 2))


@every_layer
def test_recurrent_layers_under_vmap(layer, backend):
    op, *_ = LAYERS[layer]
    given = layer_arguments(layer, 3, 2, 3, 4)
    x = np.stack([given[0], -given[0]])
    y = pg.vmap(lambda x: op(x, *given[1:])[0])(pg.asarray(x))
    expected = np.stack([op(example, *given[1:])[0].numpy() for example in x])
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


@every_layer
def test_recurrent_layers_do_not_overflow(layer, backend):
    op, *_ = LAYERS[layer]
    given = [np.full_like(x, 1e30) for x in layer_arguments(layer, 2, 1, 1, 1)]
    h, *dxs = op(*given)[1], *pg.grads(lambda *xs: pg.sum(op(*xs)[1]))(*given)
    assert np.isfinite(h.numpy()).all()
    assert layer == "gru" or all(np.isfinite(dx.numpy()).all() for dx in dxs[1:])


@every_layer
def test_dtypes_of_recurrent_layers(layer, backend):
    op, *_ = LAYERS[layer]
    x, *weights = layer_arguments(layer, 2, 1, 1, 1)
    assert op(np.int32(x * 9), *weights)[0].dtype == np.float32
    with pytest.raises(TypeError, match=rf"{layer}: .*complex"):
        op(x.astype("complex64"), *weights)


WRONG_SHAPES = [  # position of an argument, its size, message
    (0, (2, 3), r"x must be \[steps, batch, inputs\] with at least one step"),
    (0, (0, 2, 3), "with at least one step"),
    (0, (3, 2, 1), r"weight_ih must have shape \(\d+, 1\)"),
    (1, (8,), "weight_ih must have shape"),
    (2, (8, 3), "weight_ih must have shape"),
    (2, (), "weight_ih must have shape"),
    (3, (1,), "bias_ih must have shape"),
    (4, (2, 8), "bias_hh must have shape"),
    (5, (4,), r"h0 must have shape \(2, 4\)"),
]


@every_layer
@pytest.mark.parametrize(("at", "size", "message"), WRONG_SHAPES)
def test_argument_shapes_of_recurrent_layers_that_do_not_fit(
    layer, at, size, message, backend
):
    given = layer_arguments(layer, 3, 2, 3, 4)
    given[at] = np.zeros(size, np.float32)
    with pytest.raises(ValueError, match=f"{layer}: .*{message}"):
        LAYERS[layer][0](*given)


# --- attention -------------------------------------------------------------------


def attention(q, k, v, allowed=True, added=0, scale=None):
    scores = q @ np.swapaxes(k, -1, -2)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale) + added
    scores = np.where(allowed, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def qkv(q, k, v, dtype="float32"):
    return [RNG.normal(size=size).astype(dtype) for size in (q, k, v)]


SIZES = [
    ((3, 4), (5, 4), (5, 2)),
    ((2, 3, 4), (2, 5, 4), (2, 5, 2)),
    ((6, 2, 3, 4), (2, 5, 4), (6, 1, 5, 3)),
    ((1, 4), (1, 4), (1, 1)),
]
MASK = RNG.random((3, 5)) < 0.6
MASK[1] = False
KINDS = {
    "plain": ({}, {}),
    "scale": ({"scale": 0.25}, {"scale": 0.25}),
    "causal": ({"is_causal": True}, {"allowed": np.tri(3, 5, dtype=bool)}),
    "bool": ({"mask": MASK}, {"allowed": MASK}),
    "row": ({"mask": MASK[:1]}, {"allowed": MASK[:1]}),
    "both": (
        {"mask": MASK, "is_causal": True},
        {"allowed": MASK & np.tri(3, 5, dtype=bool)},
    ),
    "added": (
        {"mask": np.where(MASK, 0.5, -np.inf)},
        {"allowed": MASK, "added": 0.5},
    ),
}


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_attention(sizes, backend):
    q, k, v = qkv(*sizes)
    y = pg.scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(y.numpy(), attention(q, k, v), rtol=1e-5, atol=1e-6)
    causal = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
    y = pg.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected = attention(q, k, v, causal)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_and_gradients_of_attention(kind, backend):
    require_dtypes(backend, "float64")
    options, reference_options = KINDS[kind]
    q, k, v = qkv((2, 3, 4), (2, 5, 4), (5, 2), "float64")
    op = lambda q, k, v: pg.scaled_dot_product_attention(q, k, v, **options)
    expected = attention(q, k, v, **reference_options)
    np.testing.assert_allclose(op(q, k, v).numpy(), expected, rtol=1e-12, atol=1e-14)
    check_gradients(op, q, k, v)


def test_gradients_of_a_mask_that_is_added(backend):
    require_dtypes(backend, "float64")
    q, k, v = qkv((3, 4), (5, 4), (5, 2), "float64")
    op = lambda mask: pg.scaled_dot_product_attention(q, k, v, mask=mask)
    check_gradients(op, RNG.normal(size=(3, 5)))
    check_gradients(op, RNG.normal(size=(5,)))
    dmask = pg.grad(op)(np.where(MASK, 0.0, -np.inf), dy=np.ones((3, 2)))
    assert not dmask.numpy()[~MASK].any()
    assert np.isfinite(dmask.numpy()).all()


def test_a_query_that_may_not_attend_to_any_key_gives_zeros(backend):
    q, k, v = map(pg.asarray, qkv((2, 4), (3, 4), (3, 2)))
    for mask in (np.zeros((2, 3), bool), np.full((2, 3), -np.inf, np.float32)):
        op = lambda *xs, mask=mask: pg.scaled_dot_product_attention(*xs, mask=mask)
        assert not op(q, k, v).numpy().any()
        for dx in pg.grads(op)(q, k, v, dy=pg.ones((2, 2))):
            assert not dx.numpy().any()
    without_keys = pg.scaled_dot_product_attention(q, k[:0], v[:0])
    assert without_keys.tolist() == [[0, 0], [0, 0]]
    assert pg.scaled_dot_product_attention(q[:0], k, v).shape == (0, 2)


def test_nan_in_a_mask_gives_nan(backend):
    q, k, v = map(pg.asarray, qkv((2, 4), (3, 4), (3, 2)))
    mask = np.asarray([[0, np.nan, -np.inf], [0, 0, -np.inf]], np.float32)
    y = pg.scaled_dot_product_attention(q, k, v, mask=mask).numpy()
    assert np.isnan(y[0]).all()
    assert np.isfinite(y[1]).all()


def test_masks_may_have_more_axes(backend):
    q, k, v = qkv((3, 4), (5, 4), (5, 2))
    mask = np.stack([MASK, ~MASK])
    y = pg.scaled_dot_product_attention(q, k, v, mask=mask)
    np.testing.assert_allclose(y.numpy(), attention(q, k, v, mask), rtol=1e-5)


def test_dtypes_of_attention(backend):
    assert pg.scaled_dot_product_attention([[1]], [[2]], [[3]]).dtype == np.float32
    require_dtypes(backend, "float16")
    q, k, v = qkv((3, 4), (5, 4), (5, 2), "float16")
    for options in ({}, {"is_causal": True}, {"mask": np.zeros(5, np.float32)}):
        y = pg.scaled_dot_product_attention(q * 100, k, v, **options)
        assert y.dtype == np.float16
        assert np.isfinite(y.numpy()).all()


# --- errors ----------------------------------------------------------------------

Q, K, V = (pg.ones(s) for s in ((3, 4), (5, 4), (5, 2)))
attend = pg.scaled_dot_product_attention
ERRORS = [
    (
        lambda: attend(Q, pg.ones((5, 3)), V),
        ValueError,
        r"attention: q is \[..., queries, .* \(3, 4\) and \(5, 3\) and \(5, 2\)",
    ),
    (
        lambda: attend(Q, K, pg.ones((4, 2))),
        ValueError,
        r"v \[..., keys, .* and \(4, 2\)",
    ),
    (lambda: attend(Q[0], K, V), ValueError, r"q is \[.* shapes \(4,\) and"),
    (
        lambda: attend(pg.ones((2, 3, 4)), pg.ones((3, 5, 4)), V),
        ValueError,
        r"attention: shapes \(2,\) and \(3,\) and \(\) do not broadcast",
    ),
    (
        lambda: attend(Q, K, V * 1j),
        TypeError,
        "scaled_dot_product_attention of complex",
    ),
    (
        lambda: attend(Q, K, V, mask=np.ones((3, 5), np.int32)),
        TypeError,
        "attention: mask must be bool or floating, got int32; pass mask != 0",
    ),
    (
        lambda: attend(Q, K, V, mask=np.ones((3, 4), bool)),
        ValueError,
        r"attention: shapes \(3, 5\) and \(3, 4\) do not broadcast",
    ),
    (
        lambda: attend(Q, K[:1], V[:1], mask=np.ones((3, 4), bool)),
        ValueError,
        r"mask must broadcast to \(3, 1\), queries and keys; got shape \(3, 4\)",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
