"""KL divergence, likelihood and CTC loss: values, infinities, gradients, errors."""

import itertools
import math

import numpy as np
import plugrad as pg
import pytest
from plugrad import losses

from ..check import check_gradients, require_dtypes

RNG = np.random.default_rng(0)
INF, NAN = np.inf, np.nan


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


# --- the divergence of distributions ---------------------------------------------

P = RNG.dirichlet(np.ones(4), (2, 3))
Q = np.log(RNG.dirichlet(np.ones(4), (2, 3)))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "sum_by_nonzero_weights"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_kl_divergence(dtype, reduction, backend):
    require_dtypes(backend, dtype)
    p = P.astype(dtype)
    q = Q.astype(dtype)
    expected = p * (np.log(p.astype(float)) - q.astype(float))
    expected = {"none": lambda x: x, "sum": np.sum}.get(reduction, np.mean)(expected)
    rtol = {"float16": 1e-2, "float64": 1e-12}.get(dtype, 1e-5)
    y = losses.kl_divergence(p, q, reduction=reduction)
    np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol)
    assert y.dtype == dtype
    y = losses.kl_divergence(np.log(p), q, log_labels=True, reduction=reduction)
    np.testing.assert_allclose(y.numpy(), expected, rtol=rtol * 4, atol=rtol * 4)


def test_labels_of_probability_zero(backend):
    q = [-INF, -INF, 0.0, -1.0]
    options = {"reduction": "none"}
    y = losses.kl_divergence([0.0, 0.5, 0.0, 1.0], q, **options)
    assert y.tolist() == [0, INF, 0, 1]
    y = losses.kl_divergence([-INF, 0.0, -INF, 0.0], q, log_labels=True, **options)
    assert y.tolist() == [0, INF, 0, 1]
    assert np.isnan(losses.kl_divergence([0.0], [NAN]).item())
    for log_labels, p in ((False, 0.0), (True, -INF)):
        f = lambda p, q, log=log_labels: losses.kl_divergence([p], [q], log_labels=log)
        assert [dx.item() for dx in pg.grads(f)(p, -INF)] == [0, 0]


def test_weights_of_divergences(backend):
    y = losses.kl_divergence(P, Q, [[[1.0]], [[0.0]]], reduction="mean")
    expected = (P * (np.log(P) - Q))[0].mean()
    np.testing.assert_allclose(y.item(), expected, rtol=1e-5)


def test_gradients_of_divergences(backend):
    check_gradients(losses.kl_divergence, P, Q)
    f = lambda p, q: losses.kl_divergence(p, q, log_labels=True)
    check_gradients(f, np.log(P), Q)


# --- the likelihood of classes ---------------------------------------------------

LOGS = log_softmax(RNG.normal(size=(5, 4)))
CLASSES = np.asarray([0, 3, 1, 1, 2])


def test_negative_log_likelihood(backend):
    logs = LOGS.astype(np.float32)
    expected = -logs[np.arange(5), CLASSES]
    y = losses.negative_log_likelihood(CLASSES, logs, reduction="none")
    np.testing.assert_array_equal(y.numpy(), expected)
    weights = np.asarray([1, 2, 0, 1, 1], np.float32)
    for reduction, total in (("mean", 5), ("sum_by_nonzero_weights", 4), ("sum", 1)):
        y = losses.negative_log_likelihood(CLASSES, logs, weights, reduction=reduction)
        np.testing.assert_allclose(
            y.item(), (expected * weights).sum() / total, rtol=1e-6
        )
    y = losses.negative_log_likelihood(CLASSES[0], logs[0])
    assert y.item() == expected[0]
    cross_entropy = losses.sparse_softmax_cross_entropy(CLASSES, logs)
    y = losses.negative_log_likelihood(CLASSES, pg.log_softmax(logs))
    np.testing.assert_allclose(y.item(), cross_entropy.item(), rtol=1e-6)


def test_gradients_of_likelihoods(backend):
    check_gradients(lambda x: losses.negative_log_likelihood(CLASSES, x) ** 2, LOGS)


# --- connectionist temporal classification ---------------------------------------


def collapse(path, blank):
    """Return the labels of a path: its classes without repetitions and blanks."""
    return [c for c, _ in itertools.groupby(path) if c != blank]


def ctc(labels, logits, blank=0):
    """Return the loss of a sequence, by adding up the probabilities of all paths."""
    logs = log_softmax(logits)
    total = 0.0
    for path in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        if collapse(path, blank) == list(labels):
            total += math.exp(sum(logs[t, c] for t, c in enumerate(path)))
    return -math.log(total) if total else INF


SEQUENCES = [  # labels, steps, classes, blank
    ([], 0, 3, 0),
    ([], 3, 3, 0),
    ([1], 0, 2, 0),
    ([1], 1, 2, 0),
    ([1], 4, 3, 0),
    ([1, 2], 4, 3, 0),
    ([1, 1], 3, 3, 0),
    ([1, 1], 2, 3, 0),
    ([2, 0, 0], 6, 3, 1),
    ([1, 2, 1], 5, 3, 0),
    ([0, 1], 5, 3, 2),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("labels", "steps", "classes", "blank"), SEQUENCES)
def test_ctc_loss(labels, steps, classes, blank, dtype, backend):
    require_dtypes(backend, dtype)
    logits = (RNG.normal(size=(steps, classes)) * 2).astype(dtype)
    expected = ctc(labels, logits.astype(float), blank)
    ids = np.asarray(labels, np.int32)[None]
    y = losses.ctc_loss(ids, logits[None], blank=blank, reduction="none")
    rtol = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(y.numpy(), [expected], rtol=rtol, atol=rtol)
    assert y.dtype == dtype
    y = losses.ctc_loss(ids, logits[None], blank=blank, zero_infinity=True)
    np.testing.assert_allclose(
        y.item(), 0 if expected == INF else expected, rtol=1e-4, atol=1e-6
    )


def batch():
    rows = SEQUENCES[3:8]
    labels = np.full((len(rows), 4), -7)
    logits = RNG.normal(size=(len(rows), 7, 3))
    for i, (row, *_) in enumerate(rows):
        labels[i, : len(row)] = row
    return rows, labels, logits


def test_lengths_of_sequences(backend):
    """Steps beyond the lengths do not count, and have no gradient."""
    rows, labels, logits = batch()
    logits = logits.astype(np.float32)
    logits[0, 6] = NAN
    lengths = {
        "label_lengths": [len(row[0]) for row in rows],
        "logit_lengths": pg.asarray([row[1] for row in rows]),
    }
    f = lambda x: losses.ctc_loss(labels, x, reduction="none", **lengths)
    expected = [
        ctc(row[0], x[: row[1]].astype(float))
        for row, x in zip(rows, logits, strict=True)
    ]
    np.testing.assert_allclose(f(logits).numpy(), expected, rtol=1e-5)
    dx = pg.grad(lambda x: pg.sum(f(x)))(pg.asarray(np.nan_to_num(logits))).numpy()
    for row, slope in zip(rows, dx, strict=True):
        assert not slope[row[1] :].any()
    assert not dx[-1].any()  # the loss of the last sequence is inf
    assert dx[:-1, 0].any()


def test_log_probabilities_are_valid_logits(backend):
    _, labels, logits = batch()
    options = {"label_lengths": [1] * 5, "reduction": "none"}
    y = losses.ctc_loss(abs(labels % 2) + 1, logits, **options)
    logs = losses.ctc_loss(abs(labels % 2) + 1, log_softmax(logits), **options)
    np.testing.assert_allclose(y.numpy(), logs.numpy(), rtol=1e-5)


def test_ctc_loss_of_a_label_that_is_the_blank(backend):
    # A label is told from a blank by its position; the value is that of optax.
    logits = (np.arange(24.0, dtype=np.float32).reshape(2, 4, 3) - 12) / 100
    labels = [[1, 2, 1, 0], [1, 2, 0, 2]]
    y = losses.ctc_loss(labels, logits, label_lengths=[3, 3], reduction="none")
    np.testing.assert_allclose(y.numpy().mean(), 2.448645, rtol=1e-5)


def test_reductions_of_ctc_loss(backend):
    logits = RNG.normal(size=(2, 4, 3))
    labels = [[1, 2], [2, 1]]
    each = losses.ctc_loss(labels, logits, reduction="none").numpy()
    np.testing.assert_allclose(
        losses.ctc_loss(labels, logits).item(), each.mean(), rtol=1e-5
    )
    y = losses.ctc_loss(labels, logits, [3.0, 0.0], reduction="sum")
    np.testing.assert_allclose(y.item(), 3 * each[0], rtol=1e-5)


def test_gradients_of_ctc_loss(backend):
    labels = [[1, 2, 2], [2, 1, 0]]
    f = lambda x: losses.ctc_loss(labels, x, label_lengths=[3, 2], reduction="none")
    check_gradients(f, RNG.normal(size=(2, 5, 3)))


def test_a_long_sequence(backend):
    """Probabilities of about 1e-434 underflow in float32."""
    y = losses.ctc_loss([[1]], pg.zeros((1, 1000, 3)))
    runs_of_the_label = 1000 * 1001 / 2
    np.testing.assert_allclose(
        y.item(), 1000 * math.log(3) - math.log(runs_of_the_label), rtol=1e-5
    )


def test_ctc_loss_under_jit_and_vmap(backend):
    logits = pg.asarray(RNG.normal(size=(3, 2, 4, 3)).astype(np.float32))
    labels = pg.asarray([[1, 2], [2, 1]])
    op = lambda x: losses.ctc_loss(labels, x)
    expected = [op(x).item() for x in logits]
    f = pg.jit(pg.value_and_grad(op))
    for _ in range(3):
        np.testing.assert_allclose(f(logits[0])[0].item(), expected[0], rtol=1e-6)
    np.testing.assert_allclose(pg.vmap(op)(logits).numpy(), expected, rtol=1e-6)


X = np.zeros((2, 3, 4), np.float32)
L = np.ones((2, 2), np.int32)
ERRORS = [
    (
        lambda: losses.kl_divergence([1.0], [1.0, 2.0]),
        ValueError,
        "kl_divergence: .*same",
    ),
    (lambda: losses.kl_divergence([1j], [1j]), TypeError, "kl_divergence: .*complex"),
    (
        lambda: losses.kl_divergence([1.0], [1.0], log_labels="x"),
        TypeError,
        "log_labels must be True or False",
    ),
    (
        lambda: losses.negative_log_likelihood([0.5], X[0, :1]),
        TypeError,
        "negative_log_likelihood: labels must be integers",
    ),
    (
        lambda: losses.negative_log_likelihood([0, 1], X[0]),
        ValueError,
        "one label for each row of log_probabilities; got shapes",
    ),
    (
        lambda: losses.ctc_loss(L[0], X),
        ValueError,
        r"takes labels \[batch, labels\] and",
    ),
    (lambda: losses.ctc_loss(L[:1], X), ValueError, "ctc_loss: takes labels"),
    (lambda: losses.ctc_loss(L / 2, X), TypeError, "ctc_loss: labels must be integers"),
    (lambda: losses.ctc_loss(L, X, blank=4), ValueError, "blank 4 is not a class; got"),
    (lambda: losses.ctc_loss(L, X, blank=-1), ValueError, "blank -1 must be 0 or more"),
    (lambda: losses.ctc_loss(L, X, label_lengths=[3, 1]), ValueError, "from 0 to 2"),
    (lambda: losses.ctc_loss(L, X, logit_lengths=[-1, 1]), ValueError, "from 0 to 3"),
    (lambda: losses.ctc_loss(L, X, logit_lengths=[1]), ValueError, r"shape \(2,\)"),
    (lambda: losses.ctc_loss(L, X, label_lengths=[1.0, 1]), TypeError, "be integers"),
    (lambda: losses.ctc_loss(L, 1j * X), TypeError, "ctc_loss: .*complex"),
    (lambda: losses.ctc_loss(L, X, reduction="all"), ValueError, "reduction 'all'"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()


def test_labels_that_are_not_classes(backend):
    with pytest.raises(IndexError, match="4"):
        losses.ctc_loss([[4, 1], [1, 1]], X).item()
    with pytest.raises(IndexError, match="4"):
        losses.negative_log_likelihood([4, 1, 1], X[0]).item()
