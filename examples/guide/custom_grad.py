"""``custom_grad``: a stable softmax cross-entropy with its own gradient."""

from collections.abc import Callable

import numpy as np
import plugrad as pg

Pair = tuple[None, pg.Tensor]


@pg.custom_grad
def cross_entropy(
    labels: pg.Tensor, logits: pg.Tensor
) -> tuple[pg.Tensor, Callable[[pg.Tensor], Pair]]:
    """Return ``-Σ labels · log softmax(logits)`` of each row."""
    shifted = logits - pg.max(logits, axis=-1, keepdims=True)  # so exp is at most 1
    exps = pg.exp(shifted)
    total = pg.sum(exps, axis=-1, keepdims=True)
    value = pg.sum(labels * (pg.log(total) - shifted), axis=-1)

    def pull_back(dy: pg.Tensor) -> Pair:
        """Return the cotangent of each argument; ``labels`` has none."""
        weight = pg.sum(labels, axis=-1, keepdims=True)
        return None, pg.expand_dims(dy, axis=-1) * (exps / total * weight - labels)

    return value, pull_back


def naive(labels: pg.Tensor, logits: pg.Tensor) -> pg.Tensor:
    """Return the same value, but NaN for large logits."""
    exps = pg.exp(logits)
    probabilities = exps / pg.sum(exps, axis=-1, keepdims=True)
    return -pg.sum(labels * pg.log(probabilities), axis=-1)


labels = pg.asarray([[1.0, 0.0]])
large = pg.asarray([[1000.0, 1001.0]])
print(naive(labels, large).tolist())  # [nan]
print(pg.round(cross_entropy(labels, large) * 1000).tolist())  # [1313.0]

loss = lambda logits: pg.sum(cross_entropy(labels, logits))
print(pg.round(pg.grad(loss)(large) * 1000).tolist())  # [[-731.0, 731.0]]


def check(f: Callable[[pg.Tensor], pg.Tensor], x: np.ndarray) -> float:
    """Return the largest error of the gradient of ``f`` against finite differences."""
    steps = 1e-6 * np.eye(x.size).reshape(x.size, *x.shape)
    slopes = [(f(x + h) - f(x - h)).item() / 2e-6 for h in steps]
    return float(np.abs(pg.grad(f)(x).numpy().ravel() - slopes).max())


# In float64: the gradient, and the gradient of the sum of its squares.
with pg.use_backend("cpu"):
    labels = pg.asarray(np.asarray([[0.2, 0.5, 0.3]]))
    x = np.asarray([[0.1, -1.0, 2.0]])
    steepness = lambda logits: pg.sum(pg.square(pg.grad(loss)(logits)))
    print(check(loss, x) < 1e-8, check(steepness, x) < 1e-8)  # True True
