"""Losses, one row each: all weights and reductions, gradients, extreme values."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad import losses

from ..check import check_gradients, require_dtypes

RNG = np.random.default_rng(0)
LABELS = RNG.uniform(0.1, 0.9, size=(4, 3))
PREDICTIONS = RNG.uniform(0.1, 0.9, size=(4, 3))


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def huber(a, b, delta=1.0):
    error = np.abs(a - b)
    return np.where(error <= delta, error**2 / 2, delta * (error - delta / 2))


def log_loss(a, p, epsilon=1e-7):
    return -a * np.log(p + epsilon) - (1 - a) * np.log(1 - p + epsilon)


def sigmoid_cross_entropy(a, x):
    return -a * np.log(1 / (1 + np.exp(-x))) - (1 - a) * np.log(1 / (1 + np.exp(x)))


@dataclass(frozen=True)
class Loss:
    op: Callable[..., pg.Tensor]
    reference: Callable[..., np.ndarray]
    options: dict[str, Any] = field(default_factory=dict)


CASES = [
    Loss(losses.absolute_difference, lambda a, b: np.abs(a - b)),
    Loss(losses.mean_squared_error, lambda a, b: (a - b) ** 2),
    Loss(losses.huber_loss, huber),
    Loss(losses.huber_loss, lambda a, b: huber(a, b, 0.2), {"delta": 0.2}),
    Loss(losses.hinge_loss, lambda a, b: np.maximum(0, 1 - (2 * a - 1) * b)),
    Loss(losses.log_loss, log_loss),
    Loss(losses.log_loss, lambda a, b: log_loss(a, b, 0.1), {"epsilon": 0.1}),
    Loss(
        losses.cosine_distance,
        lambda a, b: 1 - (a * b).sum(1, keepdims=True),
        {"axis": 1},
    ),
    Loss(
        losses.cosine_distance,
        lambda a, b: 1 - (a * b).sum(0, keepdims=True),
        {"axis": -2},
    ),
    Loss(losses.sigmoid_cross_entropy, sigmoid_cross_entropy),
    Loss(
        losses.sigmoid_cross_entropy,
        lambda a, x: sigmoid_cross_entropy(a * 0.8 + 0.1, x),
        {"label_smoothing": 0.2},
    ),
    Loss(
        losses.softmax_cross_entropy,
        lambda a, x: -(a * log_softmax(x)).sum(-1),
    ),
    Loss(
        losses.softmax_cross_entropy,
        lambda a, x: -((a * 0.7 + 0.1) * log_softmax(x)).sum(-1),
        {"label_smoothing": 0.3},
    ),
]
REDUCTIONS = ["none", "sum", "mean", "sum_by_nonzero_weights"]


def reduced(values, weights, reduction):
    all_weights = np.broadcast_to(1.0 if weights is None else weights, values.shape)
    weighted = values * all_weights
    if reduction == "none":
        return weighted
    divisor = {
        "sum": 1,
        "mean": all_weights.sum(),
        "sum_by_nonzero_weights": np.count_nonzero(all_weights),
    }
    return weighted.sum() / divisor[reduction]


@pytest.fixture(
    params=CASES, ids=lambda case: f"{case.op.__name__}{case.options or ''}"
)
def case(request):
    return request.param


def weightings(shape):
    """Yield weights of all shapes that broadcast to the losses."""
    yield None
    yield np.asarray(0.7)
    yield RNG.uniform(0.5, 2, size=shape)
    yield RNG.uniform(0.5, 2, size=shape) * (np.arange(shape[-1]) != 1)  # with zeros
    yield RNG.uniform(0.5, 2, size=shape[-1:])
    yield RNG.uniform(0.5, 2, size=(*shape[:-1], 1))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_values_and_gradients(case, reduction, backend):
    require_dtypes(backend, "float64")
    values = case.reference(LABELS, PREDICTIONS)
    for weights in weightings(values.shape):
        optional_weights = () if weights is None else (weights,)
        op = lambda a, b, *w: case.op(a, b, *w, reduction=reduction, **case.options)
        y = op(
            pg.asarray(LABELS),
            pg.asarray(PREDICTIONS),
            *map(pg.asarray, optional_weights),
        )
        expected = reduced(values, weights, reduction)
        assert y.shape == np.shape(expected)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-10)
    check_gradients(op, LABELS, PREDICTIONS, *optional_weights)


def test_weighted_loss_and_the_default(case, backend):
    values = case.reference(LABELS, PREDICTIONS)
    y = case.op(LABELS, PREDICTIONS, **case.options)
    np.testing.assert_allclose(y.numpy(), values.mean(), rtol=1e-5)
    np.testing.assert_allclose(
        losses.compute_weighted_loss(values.astype(np.float32)).numpy(),
        values.mean(),
        rtol=1e-5,
    )


def test_dtypes(case, backend):
    y = case.op([[0, 1], [1, 0]], [[1, 0], [1, 0]], 2, reduction="none", **case.options)
    assert y.dtype == np.float32
    plain = case.op(
        [[0, 1], [1, 0]], [[1, 0], [1, 0]], reduction="none", **case.options
    )
    np.testing.assert_allclose(y.numpy(), 2 * plain.numpy(), rtol=1e-6)
    require_dtypes(backend, "float64")
    y = case.op(LABELS, PREDICTIONS, 0.1, reduction="none", **case.options)
    assert y.dtype == np.float64  # the weight 0.1 was not rounded to float32
    expected = case.reference(LABELS, PREDICTIONS) * 0.1
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("reduction", REDUCTIONS[1:])
def test_a_zero_divisor_gives_zero(case, reduction, backend):
    f = lambda b: case.op(LABELS, b, pg.zeros(()), reduction=reduction, **case.options)
    value, dx = pg.value_and_grad(f)(pg.asarray(PREDICTIONS.astype(np.float32)))
    assert value.item() == 0
    assert not dx.numpy().any()
    if case.op is not losses.softmax_cross_entropy and "axis" not in case.options:
        empty = np.empty((0, 3), np.float32)
        assert case.op(empty, empty, reduction=reduction, **case.options).item() == 0


def test_float16_losses_count_elements_in_float32(backend):
    require_dtypes(backend, "float16")
    x = pg.ones((70_000,), dtype="float16")  # more than the largest float16
    for weights in (None, x, 1.0):
        for reduction in ("mean", "sum_by_nonzero_weights"):
            y = losses.mean_squared_error(x, x * 0, weights, reduction=reduction)
            assert (y.item(), y.dtype) == (1, np.float16)


# --- from logits -----------------------------------------------------------------

EXTREMES = [(1.0, 1000.0, 0.0), (1.0, -1000.0, 1000.0), (0.0, 1000.0, 1000.0)]
EXTREMES += [(0.0, -1000.0, 0.0), (1.0, 20.0, 2.0611537e-9), (0.5, 0.0, np.log(2))]


@pytest.mark.parametrize(("label", "logit", "expected"), EXTREMES)
def test_sigmoid_cross_entropy_of_extreme_logits(label, logit, expected, backend):
    f = lambda x: losses.sigmoid_cross_entropy(label, x)
    value, dx = pg.value_and_grad(f)(logit)
    np.testing.assert_allclose(value.item(), expected, rtol=1e-5)
    slope = (1 + np.tanh(logit / 2)) / 2 - label
    np.testing.assert_allclose(dx.item(), slope, rtol=1e-5, atol=1e-7)


def test_softmax_cross_entropy_of_extreme_logits(backend):
    labels = np.asarray([[1, 0, 0], [1, 0, 0], [1, 0, 0]], np.float32)
    logits = np.asarray([[1e4, 0, -1e4], [-1e4, 0, 1e4], [0, 0, -np.inf]], np.float32)
    f = lambda x: losses.softmax_cross_entropy(labels, x, reduction="none")
    np.testing.assert_allclose(f(logits).numpy(), [0, 2e4, np.log(2)], rtol=1e-6)
    dx = pg.grad(lambda x: pg.sum(f(x)))(pg.asarray(logits))
    expected = [[0, 0, 0], [-1, 0, 1], [-0.5, 0.5, 0]]
    np.testing.assert_allclose(dx.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("weights", [None, [1.0, 0.0], 2.0])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_labels_that_are_class_indices(weights, reduction, backend):
    require_dtypes(backend, "float64")
    logits = RNG.normal(size=(3, 2, 4))
    labels = np.asarray([[0, 3], [1, 1], [2, 0]])
    one_hot = np.eye(4)[labels]
    args = () if weights is None else (weights,)
    dense = losses.softmax_cross_entropy(one_hot, logits, *args, reduction=reduction)
    op = lambda x: losses.sparse_softmax_cross_entropy(
        labels.astype(np.int32), x, *args, reduction=reduction
    )
    np.testing.assert_allclose(op(logits).numpy(), dense.numpy(), rtol=1e-12)
    check_gradients(op, logits)


def test_sparse_softmax_cross_entropy_of_extreme_logits(backend):
    logits = pg.asarray([[1e4, 0.0, -np.inf]])
    value, dx = pg.value_and_grad(
        lambda x: losses.sparse_softmax_cross_entropy([1], x)
    )(logits)
    assert value.item() == 1e4
    assert dx.tolist() == [[1, -1, 0]]
    one = losses.sparse_softmax_cross_entropy(1, pg.asarray([0.0, 0.0]))
    np.testing.assert_allclose(one.item(), np.log(2), rtol=1e-6)


def test_huber_loss_of_infinite_errors(backend):
    y = losses.huber_loss([0.0, 0.0], [np.inf, np.nan], reduction="none")
    np.testing.assert_array_equal(y.numpy(), [np.inf, np.nan])
    dx = pg.grad(lambda x: losses.huber_loss([0.0], x))(pg.asarray([np.inf]))
    assert dx.tolist() == [1.0]


# --- errors ----------------------------------------------------------------------

A = np.ones((2, 3), np.float32)
B = np.ones((3, 3), np.float32)


def test_arguments_that_every_loss_rejects(case, backend):
    name = case.op.__name__
    message = rf"{name}: labels and predictions .* got shapes \(2, 3\) and \(3, 3\)"
    with pytest.raises(ValueError, match=message):
        case.op(A, B, **case.options)
    with pytest.raises(ValueError, match=f"{name}: .* broadcast"):
        case.op(A, A, pg.ones((5, 2, 3)), **case.options)
    with pytest.raises(ValueError, match=f"{name}: reduction 'average': use"):
        case.op(A, A, reduction="average", **case.options)
    with pytest.raises(TypeError, match=f"{name}: there is no {name} of complex"):
        case.op(A * 1j, A, **case.options)
    with pytest.raises(TypeError, match=f"{name}: there is no {name} of complex"):
        case.op(A, A, 1j, **case.options)


ERRORS = [
    (
        lambda: losses.compute_weighted_loss(A, B),
        ValueError,
        r"compute_weighted_loss: shapes \(3, 3\) and \(2, 3\) do not broadcast",
    ),
    (
        lambda: losses.cosine_distance(A, A, axis=2),
        ValueError,
        "cosine_distance: axis 2 is out of range",
    ),
    (
        lambda: losses.softmax_cross_entropy(1.0, 1.0),
        ValueError,
        "softmax_cross_entropy: .* has no classes",
    ),
    (
        lambda: losses.sparse_softmax_cross_entropy(A[:, 0], A),
        TypeError,
        "labels must be integers, got float32",
    ),
    (
        lambda: losses.sparse_softmax_cross_entropy([1], A),
        ValueError,
        "there must be one label for each row",
    ),
    (
        lambda: losses.sparse_softmax_cross_entropy([1, 3], A),
        IndexError,
        "3",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call().numpy()  # an asynchronous backend raises IndexError here
