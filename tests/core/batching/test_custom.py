"""``custom_grad`` inside ``vmap``, with ``grad`` inside and outside of the ``vmap``."""

import numpy as np
import plugrad as pg
import pytest

RNG = np.random.default_rng(5)
X = RNG.normal(size=(5, 4)).astype("float32")


def close(y, expected):
    np.testing.assert_allclose(y.numpy(), expected, rtol=2e-5, atol=1e-5)


@pg.custom_grad
def clipped(x, scale):
    y = pg.tanh(x) * scale

    def grad_func(dy):
        slope = pg.clip(dy * (1.0 - pg.tanh(x) ** 2) * scale, -0.1, 0.1)
        return slope * x, pg.sum(dy * pg.tanh(x)) * 2.0

    return y, grad_func


def per_example(x, scale):
    return pg.sum(clipped(x, scale) ** 2)


def with_loop(f):
    """Return a function that adds up ``f(x) ** 2`` example by example."""
    return lambda xs, scale: sum(
        (pg.sum(f(xs[i], scale) ** 2) for i in range(len(X))), start=pg.asarray(0.0)
    )


def with_vmap(f):
    return lambda xs, scale: pg.sum(pg.vmap(f, in_axes=(0, None))(xs, scale) ** 2)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_custom_gradients(order):
    inner = per_example if order == 1 else pg.grad(per_example)
    mapped = with_vmap(inner)
    looped = with_loop(inner)
    if order == 3:
        mapped = squared_gradient(mapped)
        looped = squared_gradient(looped)
    expected = pg.grads(looped)(X, 1.5)
    for got, wanted in zip(pg.grads(mapped)(X, 1.5), expected, strict=True):
        close(got, wanted.numpy())
    assert np.abs(expected[0].numpy()).max() > 1e-3


def squared_gradient(f):
    return lambda xs, scale: pg.sum(pg.grad(f)(xs, scale) ** 2)


def test_custom_gradient_under_two_vmaps():
    f = lambda xs, scale: pg.sum(
        pg.vmap(lambda x: pg.vmap(lambda y: per_example(x * y, scale))(xs))(xs)
    )
    g = lambda xs, scale: sum(
        (per_example(xs[i] * xs[j], scale) for i in range(5) for j in range(5)),
        start=pg.asarray(0.0),
    )
    for got, wanted in zip(pg.grads(f)(X, 1.5), pg.grads(g)(X, 1.5), strict=True):
        close(got, wanted.numpy())


def test_custom_gradient_refuses_captured_tensors():
    def f(w):
        bad = pg.custom_grad(lambda x: (x * w, lambda dy: dy))
        return pg.sum(pg.vmap(bad)(X))

    with pytest.raises(TypeError, match=r"custom_grad: .* is not an argument"):
        pg.grad(f)(2.0)
