"""Losses, metrics and initializers, compared with formulas in float64 NumPy."""

import math

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest
from plugrad_train import initializers

L, M = pt.losses, pt.metrics
RNG = np.random.default_rng(0)
Y, Z, V = (RNG.normal(size=(6, 5)) for _ in range(3))
PROBABILITIES = np.abs(Y) / np.abs(Y).sum(-1, keepdims=True)
PROBABILITIES[0] = [1, 0, 0, 0, 0]
BITS = (Y > 0).astype(float)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def log_sigmoid(x):
    return -np.log1p(np.exp(-x))


def divergence():
    positive = np.where(PROBABILITIES > 0, PROBABILITIES, 1)
    return (PROBABILITIES * (np.log(positive) - log_softmax(Z))).sum(-1)


def focal():
    p = np.where(BITS == 1, 1 / (1 + np.exp(-Z)), 1 / (1 + np.exp(Z)))
    return -np.where(BITS == 1, 0.3, 0.7) * (1 - p) ** 1.5 * np.log(p)


def triplet():
    distance = lambda x: np.sqrt(((Y - x + 1e-6) ** 2).sum(-1))
    return np.maximum(0, distance(Z) - distance(V) + 0.5)


LOSSES = {  # a loss, its arguments and options, and its value for each element
    "kl_divergence": (L.kl_divergence, (PROBABILITIES, Z), {}, divergence()),
    "poisson_nll": (L.poisson_nll, (BITS, Z), {}, np.exp(Z) - BITS * Z),
    "gaussian_nll": (
        L.gaussian_nll,
        (Y, Z, V * V),
        {},
        0.5 * (np.log(V * V) + (Y - Z) ** 2 / (V * V)),
    ),
    "log_cosh": (L.log_cosh, (Y, Z), {}, np.log(np.cosh(Y - Z))),
    "quantile": (
        L.quantile_loss,
        (Y, Z, 0.9),
        {},
        np.where(Y > Z, 0.9 * (Y - Z), 0.1 * (Z - Y)),
    ),
    "focal": (L.focal_loss, (BITS, Z, 1.5), {"alpha": 0.3}, focal()),
    "triplet": (L.triplet_margin, (Y, Z, V, 0.5), {}, triplet()),
}


@pytest.mark.parametrize("row", LOSSES)
def test_a_loss_is_the_mean_of_its_formula(row, backend):
    loss, args, options, expected = LOSSES[row]
    args = [np.float32(x) if isinstance(x, np.ndarray) else x for x in args]
    assert loss(*args, **options).item() == pytest.approx(expected.mean(), rel=1e-5)
    mask = np.zeros(expected.shape, bool)
    mask[1:3] = True
    found = loss(*args, **options, weights=mask).item()
    assert found == pytest.approx(expected[1:3].mean(), rel=1e-5)
    slope = pg.grad(lambda x: loss(args[0], x, *args[2:], **options))(args[1])
    assert np.isfinite(slope.numpy()).all()


@pytest.mark.parametrize("row", ["log_cosh", "focal"])
def test_losses_of_large_numbers_are_finite(row, backend):
    loss = LOSSES[row][0]
    x = np.float32([-1000.0, 1000.0])
    value, slope = pg.value_and_grad(lambda x: loss(np.float32([1, 0]), x))(x)
    assert value.item() == pytest.approx(1000.0, rel=1e-2)
    assert np.isfinite(slope.numpy()).all()


LABELS = np.asarray([0, 1, 2, 1, 0, 2], np.int32)
LOGITS = np.eye(3)[[0, 2, 2, 1, 1, 0]] + np.asarray([0.01, 0.1, 0.0])
MASK = np.asarray([1, 1, 1, 0, 0, 0], bool)


def test_metrics(backend):
    logits = np.float32(LOGITS)
    assert M.accuracy(LABELS, logits).item() == pytest.approx(3 / 6)
    assert M.accuracy(LABELS, logits, weights=MASK).item() == pytest.approx(2 / 3)
    assert M.top_k_accuracy(LABELS, logits, 2).item() == pytest.approx(5 / 6)
    precision, recall, f1 = M.precision_recall_f1(LABELS, [0, 2, 2, 1, 1, 0], 3)
    np.testing.assert_allclose(precision.numpy(), [1 / 2, 1 / 2, 1 / 2])
    np.testing.assert_allclose(recall.numpy(), [1 / 2, 1 / 2, 1 / 2])
    assert f1.tolist() == [0.5, 0.5, 0.5]
    assert M.precision_recall_f1([0], [0], 2)[2].tolist() == [1.0, 0.0]
    y = np.float32(Y)
    z = np.float32(Z)
    assert M.mean_absolute_error(y, z).item() == pytest.approx(np.abs(Y - Z).mean())
    assert M.mean_absolute_error(y, z, weights=MASK).item() == pytest.approx(
        np.abs(Y - Z)[:3].mean()
    )
    r2 = 1 - ((Y - Z) ** 2).sum() / ((Y - Y.mean()) ** 2).sum()
    assert M.r2_score(y, z).item() == pytest.approx(r2, rel=1e-5)


@pytest.mark.parametrize("last", ["keep", "pad"])
def test_metrics_of_batches_are_weighted_by_their_examples(last, backend):
    batches = pt.Batches((np.float32(LOGITS), LABELS), 4, last=last)

    def metrics(params, batch):
        (logits, labels), mask = batch if last == "pad" else (batch, None)
        return {"accuracy": M.accuracy(labels, logits, weights=mask)}

    assert M.evaluate(metrics, None, batches) == {"accuracy": pytest.approx(0.5)}
    with pytest.raises(ValueError, match="there are no batches"):
        M.evaluate(metrics, None, [])


SHAPE = (3, 3, 20, 50)  # fan_in 180, fan_out 450
DEVIATIONS = {
    "he_normal": math.sqrt(2 / 180),
    "he_uniform": math.sqrt(2 / 180),
    "glorot_normal": math.sqrt(2 / 630),
    "glorot_uniform": math.sqrt(2 / 630),
    "lecun_normal": math.sqrt(1 / 180),
    "lecun_uniform": math.sqrt(1 / 180),
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_an_initializer_has_the_variance_of_its_paper(name):
    found = getattr(initializers, name)(SHAPE, seed=3)
    x = found.numpy().astype(float)
    assert (x.shape, found.dtype) == (SHAPE, pg.float32)
    assert x.mean() == pytest.approx(0, abs=0.02 * DEVIATIONS[name] * 2)
    assert x.std() == pytest.approx(DEVIATIONS[name], rel=0.02)
    bound = math.sqrt(3) if "uniform" in name else 2 / initializers.STDDEV
    assert 0.99 * bound < np.abs(x).max() / DEVIATIONS[name] <= bound * 1.0001
    assert getattr(initializers, name)(SHAPE, seed=3).tolist() == found.tolist()
    assert getattr(initializers, name)((4, 5), seed=pg.random.key(3)).shape == (4, 5)


@pytest.mark.parametrize("shape", [(6, 6), (8, 3), (3, 8), (2, 2, 3, 5)], ids=str)
def test_orthogonal_matrices(shape, backend):
    x = initializers.orthogonal(shape, 2.0, seed=1).numpy().reshape(-1, shape[-1])
    product = x.T @ x if x.shape[0] >= x.shape[1] else x @ x.T
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_orthogonal_matrices_are_uniformly_distributed():
    """Without the signs of R, all elements [0, 0] would have the same sign."""
    corners = [
        initializers.orthogonal((3, 3), seed=seed)[0, 0].item() for seed in range(200)
    ]
    assert np.mean(corners) == pytest.approx(0, abs=0.15)


WRONG = {
    "fan": lambda: initializers.he_normal((3,), seed=0),
    "mode": lambda: initializers.variance_scaling(1.0, "fan", "normal"),
    "distribution": lambda: initializers.variance_scaling(1.0, "fan_in", "cauchy"),
}


@pytest.mark.parametrize("row", WRONG)
def test_invalid_arguments_are_refused(row):
    with pytest.raises(ValueError, match=": "):
        WRONG[row]()
