"""Each rule against its formula, on every installed backend."""

import numpy as np
import plugrad as pg
import plugrad_gradient_packs as packs
import pytest
from plugrad_gradient_packs.rules import PACKS

X = np.array([-3.0, -0.5, 0.0, 0.4, 2.6, 7.0], np.float32)
DY = np.array([1.0, -2.0, 3.0, -4.0, 5.0, -6.0], np.float32)
COTANGENTS = [DY, -DY]  # each x is tested with both signs
ACTIVE = X > 0
WITHIN = np.abs(X) <= 1

# pack, op, gradient for a cotangent
TABLE = [
    ("guided", pg.relu, lambda dy: np.maximum(dy, 0) * ACTIVE),
    ("guided", pg.relu6, lambda dy: np.maximum(dy, 0) * (ACTIVE & (X < 6))),
    ("deconvnet", pg.relu, lambda dy: np.maximum(dy, 0)),
    ("deconvnet", pg.relu6, lambda dy: np.maximum(dy, 0)),
    ("straight_through", pg.round, lambda dy: dy),
    ("straight_through", pg.floor, lambda dy: dy),
    ("straight_through", pg.ceil, lambda dy: dy),
    ("straight_through", pg.sign, lambda dy: dy * WITHIN),
    ("clipped", pg.identity, lambda dy: np.clip(dy, -1, 1)),
    ("reversed", pg.identity, lambda dy: -dy),
]
NAMES = [f"{pack}-{op.__name__}" for pack, op, _ in TABLE]


@pytest.fixture(params=pg.backends(), autouse=True)
def backend(request):
    with pg.use_backend(request.param):
        yield request.param


@pytest.mark.parametrize("dy", COTANGENTS)
@pytest.mark.parametrize(("pack", "op", "formula"), TABLE, ids=NAMES)
def test_each_rule_equals_its_formula(pack, op, formula, dy):
    with pg.use_gradients(pack):
        y, pull_back = pg.vjp(op, X)
    np.testing.assert_array_equal(pull_back(dy)[0].numpy(), formula(dy))
    np.testing.assert_array_equal(y.numpy(), op(X).numpy())  # values do not change


def test_every_rule_is_in_the_table():
    existing = {(pack, kernel) for pack, kernels in PACKS.items() for kernel in kernels}
    tested = {(pack, op.__name__.title()) for pack, op, _ in TABLE}
    assert tested == existing


@pytest.mark.parametrize("pack", ["guided", "deconvnet", "clipped"])
def test_a_nonlinear_rule_has_no_jvp(pack):
    op = pg.identity if pack == "clipped" else pg.relu
    with pg.use_gradients(pack), pytest.raises(TypeError, match=f"pack '{pack}'"):
        pg.jvp(op, [X], [DY])


def test_clip_gradient_clips_at_one_position():
    f = lambda x: pg.sum(pg.square(packs.clip_gradient(x, limit=0.5)) * 10)
    x = np.array([-2.0, 0.01, 3.0], np.float32)
    assert pg.grad(f)(x).numpy() == pytest.approx([-0.5, 0.2, 0.5])
    assert f(x).item() == pytest.approx(130.001)


def test_reverse_gradient_reverses_at_one_position():
    f = lambda x: pg.sum(pg.square(packs.reverse_gradient(x, scale=0.5)))
    x = np.array([-2.0, 3.0], np.float32)
    assert pg.grad(f)(x).tolist() == [2.0, -3.0]
    sum_of_gradient = lambda x: pg.sum(pg.grad(f)(x))
    assert pg.grad(sum_of_gradient)(x).tolist() == [0.5, 0.5]  # reversed once more


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_a_limit_must_be_positive(limit):
    with pytest.raises(ValueError, match=r"clip_gradient: limit .* must be positive"):
        packs.clip_gradient(X, limit=limit)


def test_a_scale_must_be_finite():
    with pytest.raises(ValueError, match="reverse_gradient: scale inf must be finite"):
        packs.reverse_gradient(X, scale=float("inf"))
