"""Recurrent networks: gates are constants, in kernels and in written-out cells."""

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest

from tests.attribution.test_ledger import assert_closes, ledger_of, normal

RANDOM = np.random.default_rng(3)
N, INPUTS, STEPS = 3, 2, 6
EXACT = {"dense": attr.Epsilon(0.0), "stabilizer": 0.0}


def sigmoid_by_division(x):
    return 1.0 / (1.0 + pg.exp(-x))


def dtype_of(backend):
    return np.dtype("float32" if backend == "opencl" else "float64")


def weights_of(gates, dtype):
    shapes = (gates * N, INPUTS), (gates * N, N), (gates * N,), (gates * N,)
    return [RANDOM.normal(size=shape).astype(dtype) for shape in shapes]


def zeros_that_depend_on(x):
    """Return the first state; if it were a constant, its factors would be no gates."""
    return pg.zeros((x.shape[0], N), dtype=x.dtype) + 0.0 * x[:, 0, :1]


def lstm(x, weights, sigmoid=pg.sigmoid):
    w, u, b, b2 = map(pg.asarray, weights)
    h = c = zeros_that_depend_on(x)
    for step in range(x.shape[1]):
        i, f, g, o = pg.split(x[:, step] @ w.mT + b + (h @ u.mT + b2), 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * pg.tanh(g)
        h = sigmoid(o) * pg.tanh(c)
    return h


def gru(x, weights, sigmoid=pg.sigmoid):
    w, u, b, b2 = map(pg.asarray, weights)
    h = zeros_that_depend_on(x)
    for step in range(x.shape[1]):
        r, z, m = pg.split(x[:, step] @ w.mT + b, 3, axis=1)
        of_h = pg.split(h @ u.mT + b2, 3, axis=1)
        z = sigmoid(z + of_h[1])
        m = pg.tanh(m + sigmoid(r + of_h[0]) * of_h[2])
        h = (1.0 - z) * m + z * h
    return h


CELLS = {"lstm": (4, pg.lstm, lstm), "gru": (3, pg.gru, gru)}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sigmoid", [pg.sigmoid, sigmoid_by_division])
@pytest.mark.parametrize("cell", CELLS)
def test_a_kernel_and_its_parts_get_the_same_relevance(cell, sigmoid, reverse, backend):
    gates, op, written = CELLS[cell]
    dtype = dtype_of(backend)
    weights = weights_of(gates, dtype)
    x = RANDOM.normal(size=(2, STEPS, INPUTS)).astype(dtype)
    kernel = lambda x: op(pg.permute_dims(x, (1, 0, 2)), *weights, reverse=reverse)[1]
    parts = lambda x: written(pg.flip(x, axis=1) if reverse else x, weights, sigmoid)
    rules = attr.Composite(**EXACT, gates="constant")
    expected = attr.attribute(parts, x, rules, 1)
    found = attr.attribute(kernel, x, attr.Composite(**EXACT), 1)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(
        found.value.numpy(), expected.value.numpy(), rtol=tolerance
    )
    scale = np.abs(expected.input.numpy()).max()
    np.testing.assert_allclose(
        found.input.numpy() / scale, expected.input.numpy() / scale, atol=tolerance
    )


def test_without_biases_no_relevance_is_lost(backend):
    dtype = dtype_of(backend)
    w, u, _, _ = weights_of(4, dtype)
    x = RANDOM.normal(size=(2, STEPS, INPUTS)).astype(dtype)
    f = lambda x: pg.lstm(pg.permute_dims(x, (1, 0, 2)), w, u)[1]
    found = attr.attribute(f, x, attr.Composite(**EXACT), 1)
    total = pg.sum(found.input, axis=(1, 2)).numpy()
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(total, found.value.numpy(), rtol=tolerance)


def test_states_and_weights_that_depend_on_the_input_share(backend):
    dtype = dtype_of(backend)
    w, u, *_ = weights_of(4, dtype)
    x = RANDOM.normal(size=(1, 1, N)).astype(dtype)
    steps = np.zeros((1, 1, INPUTS), dtype)

    def f(x):  # both the first state and the weights scale with x
        weights = u * pg.sum(x)
        return pg.lstm(steps, w, weights, h0=x[0])[1]

    rules = attr.Composite(**EXACT)
    found = attr.attribute(f, x, rules, 1)
    np.testing.assert_allclose(
        pg.sum(found.input).item(), found.value.item(), rtol=1e-4
    )


def test_relevance_stays_finite_over_many_steps(backend):
    w = np.eye(4 * N, INPUTS, dtype=np.float32)
    u = RANDOM.normal(size=(4 * N, N)).astype(np.float32)
    x = RANDOM.normal(size=(1, 200, INPUTS)).astype(np.float32)
    f = lambda x: pg.mean(pg.lstm(pg.permute_dims(x, (1, 0, 2)), w, u)[0], axis=0)
    found = attr.attribute(f, x, attr.EpsilonPlus(), 1)
    relevance = found.input.numpy()
    assert np.isfinite(relevance).all()
    np.testing.assert_allclose(relevance.sum(), found.value.item(), rtol=0.05)


def test_a_gate_that_scales_channels_may_be_a_constant(backend):
    x = RANDOM.normal(size=(2, 3)).astype(np.float32)
    w = RANDOM.normal(size=(3, 3)).astype(np.float32)
    f = lambda x: pg.sigmoid(x @ pg.asarray(w)) * x
    constant = attr.attribute(f, x, attr.Composite(gates="constant"), 1).input.numpy()
    expected = np.zeros_like(x)
    expected[:, 1] = f(pg.asarray(x)).numpy()[:, 1]
    np.testing.assert_allclose(constant, expected, rtol=1e-5)
    half = attr.attribute(f, x, attr.Composite(), 1).input.numpy()
    assert np.abs(half[:, [0, 2]]).min() > 0


def test_a_sigmoid_that_scales_a_constant_is_no_gate(backend):
    x = RANDOM.normal(size=(2, 3)).astype(np.float32)
    w = RANDOM.normal(size=(1, 3)).astype(np.float32)
    for f in (lambda x: pg.sigmoid(x) * w, lambda x: pg.sigmoid(x[:, :1]) * w):
        found = attr.attribute(f, x, attr.Composite(gates="constant"), 1)
        total = pg.sum(found.input, axis=1).numpy()
        np.testing.assert_allclose(total, found.value.numpy(), rtol=1e-4)


def test_the_sigmoid_of_a_tensor_times_the_tensor_is_an_activation(backend):
    x = RANDOM.normal(size=(2, 3)).astype(np.float32)
    f = lambda x: x * pg.sigmoid(x)
    for gates in ("half", "constant"):
        found = attr.attribute(f, x, attr.Composite(gates=gates), 1).input.numpy()
        np.testing.assert_allclose(
            found[:, 1], f(pg.asarray(x)).numpy()[:, 1], rtol=1e-4
        )


def test_gates_must_be_known():
    with pytest.raises(ValueError, match="gates must be one of half, constant, got 3"):
        attr.Composite(gates=3)


@pytest.mark.parametrize("op", [pg.lstm, pg.gru])
def test_recurrent_kernels_have_rules(op, backend):
    dtype = dtype_of(backend).name
    parts = 4 if op is pg.lstm else 3
    w = normal(parts * 3, 2).astype(dtype), normal(parts * 3, 3).astype(dtype)
    bias = normal(parts * 3).astype(dtype)
    f = lambda x: op(pg.permute_dims(x, (1, 0, 2)), *w, bias)[1]
    x = normal(2, 4, 2).astype(dtype)
    ledger = ledger_of(f, x, attr.AttnLRP(), 1)
    assert_closes(ledger, dtype)
    names = {row.kernel for row in attr.coverage(f, x, attr.AttnLRP()).rows}
    assert not names.isdisjoint({"LSTM", "GRU"})
    composed = attr.AttnLRP(more={op.__name__.upper(): None})
    names = {row.kernel for row in attr.coverage(f, x, composed).rows}
    assert names > {"Sigmoid", "Tanh"}
    assert names.isdisjoint({"LSTM", "GRU"})
    if op is pg.lstm:  # the gradient function of LSTM has two cotangents
        own = {"LSTM": {"xs": lambda dy, dcells, original: original(dy, dcells)}}
    else:
        own = {"GRU": {"xs": lambda dy, original: original(dy)}}
    rules = attr.AttnLRP(more=own)
    names = {row.kernel for row in attr.coverage(f, x, rules).rows}
    assert not names.isdisjoint({"LSTM", "GRU"})
