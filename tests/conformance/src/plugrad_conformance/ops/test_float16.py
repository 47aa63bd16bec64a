"""Reductions of more than 65,504 float16 numbers; 65,504 is the largest float16.

Intermediate counts and sums, even those of gradients, are computed in float32.
"""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import require_dtypes

N = 70_000
HALF = np.dtype("float16")
SEGMENTS = np.zeros(N, np.int32)
ORDER = np.arange(N, dtype=np.int32)
losses = pg.losses

OPS = {
    "average of a loss": lambda x: losses.compute_weighted_loss(x, pg.ones_like(x)),
    "cosine_distance": lambda x: losses.cosine_distance(x / 512, x / 512, axis=0),
    "cumulative_prod": lambda x: pg.cumulative_prod(x)[-1],
    "cumulative_sum": lambda x: pg.mean(pg.cumulative_sum(x / 1024)),
    "huber_loss": lambda x: losses.huber_loss(x, pg.zeros_like(x)),
    "layer_norm": lambda x: pg.sum(pg.layer_norm(x)[::9000]),
    "log_softmax": lambda x: pg.sum(pg.log_softmax(x)[:3]),
    "logsumexp": pg.logsumexp,
    "max": pg.max,
    "max with initial": lambda x: pg.max(x, initial=0.5),
    "mean": pg.mean,
    "mean of log_softmax": lambda x: pg.mean(pg.log_softmax(x)),
    "mean_squared_error": lambda x: losses.mean_squared_error(x, pg.zeros_like(x)),
    "min": pg.min,
    "moments": lambda x: pg.moments(x * x)[0],
    "norm": pg.linalg.vector_norm,
    "norm of order 3": lambda x: pg.linalg.vector_norm(x, ord=3),
    "norm of order inf": lambda x: pg.linalg.vector_norm(x, ord=math.inf),
    "prod": pg.prod,
    "segment_mean": lambda x: pg.sum(pg.sparse.segment_mean(x, ORDER, SEGMENTS)),
    "softmax": lambda x: pg.sum(pg.softmax(x)[:3]),
    "std": lambda x: pg.std(x * ((pg.arange(N) % 2) * 2 + 1).astype(x.dtype)),
    "weighted mean": lambda x: losses.compute_weighted_loss(
        x, pg.ones_like(x), reduction="mean"
    ),
}


@pytest.mark.parametrize("name", OPS)
def test_counts_and_sums_are_computed_in_float32(name, backend):
    """Compare with float32; subnormal float16 numbers are 6e-8 apart."""
    require_dtypes(backend, HALF)
    wide = pg.ones((N,))
    expected, slope = pg.value_and_grad(OPS[name])(wide)
    y, dx = pg.value_and_grad(OPS[name])(wide.astype(HALF))
    assert (y.dtype, dx.dtype) == (HALF, HALF)
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=3e-3, atol=1e-6)
    assert slope.numpy().any() or name == "mean of log_softmax"
    np.testing.assert_allclose(dx.numpy(), slope.numpy(), rtol=5e-3, atol=2e-6)


@pytest.mark.parametrize("op", [pg.max, pg.min, pg.mean, pg.logsumexp])
def test_each_element_gets_its_share(op, backend):
    require_dtypes(backend, HALF)
    dx = pg.grad(op)(pg.zeros((N,), dtype=HALF)).numpy()
    np.testing.assert_array_equal(dx, np.full(N, 1 / N, HALF))


def test_pooling_of_a_large_window(backend):
    require_dtypes(backend, HALF)
    if backend != "cpu":
        pytest.skip("a decomposition makes a slice for each of the 70,000 places")
    total = lambda x: pg.sum(pg.avg_pool(x, (280, 250)))
    y, dx = pg.value_and_grad(total)(pg.ones((1, 280, 250, 1), dtype=HALF))
    assert y.item() == 1
    np.testing.assert_array_equal(dx.numpy(), np.full(dx.shape, 1 / N, HALF))
