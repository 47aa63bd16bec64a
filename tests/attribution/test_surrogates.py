"""Surrogate gradients as packs and tables, compared with snntorch."""

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest
from plugrad_attribution import plugin, surrogates

from tests.attribution.reference_surrogates import (
    BATCH,
    BETA,
    HIDDEN,
    OUTPUTS,
    SURROGATES,
    TRAINED,
    inputs,
    points,
    recorded,
    recorded_training,
    weights,
)
from tests.processes import output

RECORDED = recorded()
# Gradients without an exponential are the same in every library, to the bit.
EXACT = ("atan", "fast_sigmoid", "straight_through", "triangular")


def gradient(gradients, dtype):
    """Return the gradient of a step at the recorded points."""
    x, dy = points()
    with pg.use_gradients(gradients):
        _, pull_back = pg.vjp(pg.step, x.astype(dtype))
    return pull_back(pg.asarray(dy.astype(dtype)))[0].numpy()


# --- one spike -------------------------------------------------------------------


@pytest.mark.parametrize("name", SURROGATES)
def test_gradients_are_those_of_snntorch(name, backend):
    dtype = "float32" if backend == "opencl" else "float64"
    found = gradient(f"surrogate.{name}", dtype)
    assert found.dtype == dtype
    if dtype == "float32":
        np.testing.assert_allclose(found, RECORDED[name], rtol=1e-4, atol=1e-30)
    elif name in EXACT:
        np.testing.assert_array_equal(found, RECORDED[name])
    else:
        np.testing.assert_allclose(found, RECORDED[name], rtol=1e-14)


@pytest.mark.parametrize("name", SURROGATES)
def test_tables_have_the_gradients_of_packs(name):
    table = getattr(attr.surrogates, name)()
    np.testing.assert_array_equal(
        gradient(table, "float64"), gradient(f"surrogate.{name}", "float64")
    )


PARAMETERS = {  # a table of gradients, a point, and the gradient at this point
    "fast_sigmoid": (surrogates.fast_sigmoid(slope=10), 0.1, 0.25),
    "atan": (surrogates.atan(alpha=4.0), 0.0, 2.0),
    "sigmoid": (surrogates.sigmoid(slope=8), 0.0, 2.0),
    "triangular": (surrogates.triangular(threshold=3), -0.5, 3.0),
    "spike_rate_escape": (surrogates.spike_rate_escape(beta=2, slope=3), 1.0, 3.0),
    "beta": (surrogates.spike_rate_escape(beta=2.0), 0.5, 25 * np.exp(-1.0)),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name, backend):
    table, x, expected = PARAMETERS[name]
    with pg.use_gradients(table):
        assert pg.grad(pg.step)(x).item() == pytest.approx(expected, rel=1e-6)


def test_the_sigmoid_does_not_overflow(backend):
    x = pg.asarray([-1e4, -100.0, -4.0, 4.0, 1e4])
    with pg.use_gradients("surrogate.sigmoid"):
        found = pg.grad(lambda x: pg.sum(pg.step(x)))(x).numpy()
    assert (found >= 0).all()
    assert (found < 1e-40).all()


# --- straight-through estimators -------------------------------------------------


@pytest.mark.parametrize("op", [pg.round, pg.floor, pg.ceil, pg.trunc])
@pytest.mark.parametrize("pack", ["ste.identity", "ste.clipped"])
def test_rounding_passes_cotangents_through(pack, op, backend):
    with pg.use_gradients(pack):
        found = pg.grad(lambda x: pg.sum(op(x) * [2.0, -3.0]))(pg.asarray([0.3, -7.6]))
    assert found.tolist() == [2.0, -3.0]


@pytest.mark.parametrize("op", [pg.sign, pg.step])
def test_signs_and_steps_pass_cotangents_through(op, backend):
    slopes = pg.grad(lambda x: pg.sum(op(x)))
    x = pg.asarray([-3.0, -0.5, 0.0, 1.0, 1.5])
    with pg.use_gradients("ste.identity"):
        assert slopes(x).tolist() == [1.0, 1.0, 1.0, 1.0, 1.0]
    with pg.use_gradients("ste.clipped"):
        assert slopes(x).tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    with pg.use_gradients(attr.surrogates.clipped_estimator(limit=2)):
        assert slopes(x).tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]


# --- a spiking network -----------------------------------------------------------


def fire(current, potential):
    """Return spikes and potentials of leaky integrate-and-fire neurons after a step."""
    reset = pg.stop_gradient(pg.step(potential - 1.0))
    potential = BETA * potential + current - reset
    return pg.step(potential - 1.0), potential


def loss(first, second):
    """Return the mean squared number of spikes."""
    hidden, output = pg.zeros((BATCH, HIDDEN)), pg.zeros((BATCH, OUTPUTS))
    total = pg.zeros((BATCH, OUTPUTS))
    for current in inputs():
        spikes, hidden = fire(pg.asarray(current) @ first, hidden)
        spikes, output = fire(spikes @ second, output)
        total = total + spikes
    return pg.mean(total * total)


@pytest.mark.parametrize("name", TRAINED)
def test_a_network_has_the_loss_and_the_gradients_of_snntorch(name, backend):
    expected_loss, expected = recorded_training(name)
    with pg.use_gradients(f"surrogate.{name}"):
        value, found = pg.value_and_grads(loss)(*map(pg.asarray, weights()))
    assert value.item() == expected_loss  # equal if the spikes are
    for w, expected_w in zip(found, expected, strict=True):
        limit = 2e-6 * np.abs(expected_w).max()
        np.testing.assert_allclose(w.numpy(), expected_w, atol=limit)


def test_the_sigmoid_is_finite_in_the_network(backend):
    with pg.use_gradients("surrogate.sigmoid"):
        found = pg.grads(loss)(*map(pg.asarray, weights()))
    assert all(np.isfinite(w.numpy()).all() for w in found)


def test_jit_gives_the_same_bits(backend):
    jitted = pg.jit(pg.value_and_grads(loss))
    first, second = map(pg.asarray, weights())
    for scale in (1.0, 0.75, 1.25, 1.5):
        ws = first * scale, second
        # Each call makes a new table, which contains the same functions.
        with pg.use_gradients(attr.surrogates.fast_sigmoid(slope=10.0)):
            value, found = jitted(*ws)
            eager_value, eager = pg.value_and_grads(loss)(*ws)
            assert not jitted.explain(*ws).reason
        assert value.tolist() == eager_value.tolist()
        assert [w.tolist() for w in found] == [w.tolist() for w in eager]
    _, outside = jitted(*ws)  # without the table, the derivative of a step is 0
    assert not outside[0].numpy().any()


# --- packs -----------------------------------------------------------------------


def test_the_entry_point_names_all_packs():
    assert {*plugin.PACKS} == {*surrogates.PACKS}
    installed = {pack.name: pack for pack in pg.gradient_packs()}
    for name in plugin.PACKS:
        assert installed[name].owner.startswith("plugrad-attribution ")


def test_an_op_does_not_import_the_package():
    """Programs that use no pack import only the entry-point module of the package."""
    code = """
import sys, plugrad as pg
pg.relu(1.0)
print(*sorted(m for m in sys.modules if m.startswith("plugrad_attribution")))
with pg.use_gradients("surrogate.atan"):
    print(pg.grad(pg.step)(0.0).item())
print("plugrad_attribution.composites" in sys.modules)
"""
    assert output(code).splitlines() == [
        "plugrad_attribution plugrad_attribution.plugin",
        "1.0",
        "False",
    ]


# --- bad input -------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan"), "25", True])
@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("fast_sigmoid", "slope"),
        ("atan", "alpha"),
        ("sigmoid", "slope"),
        ("triangular", "threshold"),
        ("spike_rate_escape", "beta"),
        ("spike_rate_escape", "slope"),
        ("clipped_estimator", "limit"),
    ],
)
def test_parameters_must_be_positive(name, parameter, value):
    message = f"surrogates.{name}: {parameter} must be a positive number, got"
    with pytest.raises(ValueError, match=message):
        getattr(attr.surrogates, name)(**{parameter: value})
