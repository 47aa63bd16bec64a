"""Grad-CAM and attribution patching: captum, real patching, results of scopes."""

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest

from tests.attribution.networks import difference, network, precision
from tests.attribution.reference import TARGET, examples
from tests.attribution.reference_methods import recorded

RECORDED = recorded()
RANDOM = np.random.default_rng(9)
W1 = RANDOM.normal(size=(3, 3, 2, 4)).astype(np.float32)
W2 = RANDOM.normal(size=(4, 3)).astype(np.float32)
X = RANDOM.normal(size=(2, 5, 5, 2)).astype(np.float32)


def model(x, replaced=None):
    """Return the result of a network; ``replaced`` replaces results of scopes."""
    replaced = replaced or {}
    with pg.name_scope("conv"):
        h = pg.relu(pg.conv2d(x, W1) + 0.25)
    h = replaced.get("conv", h)
    with pg.name_scope("pool"):
        h = pg.mean(h, axis=(1, 2))
    h = replaced.get("pool", h)
    with pg.name_scope("head"), pg.name_scope("last"):
        return pg.tanh(h @ pg.asarray(W2))


def inner(x):
    """Return the inner results of the network by scope."""
    conv = pg.relu(pg.conv2d(x, W1) + 0.25)
    return {"conv": conv, "pool": pg.mean(conv, axis=(1, 2))}


# --- Grad-CAM --------------------------------------------------------------------


def test_grad_cam_is_that_of_captum(backend):
    dtype, limit = precision(backend)
    x = examples().astype(dtype)
    found = attr.grad_cam(network("relu", dtype), x, TARGET, at="conv2")
    assert found.shape == (2, 4, 4)
    assert found.dtype == dtype
    assert difference(found, RECORDED["grad_cam"]) < limit


def test_grad_cam_is_that_of_a_model_in_two_parts(backend):
    layer = inner(pg.asarray(X))["conv"]
    head = lambda h: pg.sum(model(pg.asarray(X), {"conv": h})[:, 1])
    weights = pg.mean(pg.grad(head)(layer), axis=(1, 2), keepdims=True)
    expected = pg.relu(pg.sum(weights * layer, axis=-1)).numpy()
    found = attr.grad_cam(model, X, 1, at="conv").numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_channels_may_be_at_another_axis(backend):
    def channels_first(x):
        with pg.name_scope("net"), pg.name_scope("moved"):
            h = pg.permute_dims(pg.relu(pg.conv2d(x, W1) + 0.25), (0, 3, 1, 2))
        return pg.tanh(pg.mean(h, axis=(2, 3)) @ pg.asarray(W2))

    expected = attr.grad_cam(model, X, 1, at="conv").numpy()
    for at in ("net", "net/moved", "*moved"):
        for axis in (1, -3):
            found = attr.grad_cam(channels_first, X, 1, at=at, channel_axis=axis)
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_the_result_of_a_scope_is_that_of_its_last_run(backend):
    @pg.name_scope("block")
    def block(x):
        return pg.relu(x) + 0.5 * x

    twice = lambda x: pg.mean(block(block(x)), axis=(1, 2)) @ [[1.0], [2.0]]
    h = block(block(pg.asarray(X)))
    expected = pg.relu(pg.sum(h * pg.asarray([1.0, 2.0]) / 25.0, axis=-1)).numpy()
    found = attr.grad_cam(twice, X, 0, at="block").numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("op", [pg.hard_swish, pg.hard_sigmoid, pg.silu, pg.gelu])
def test_the_last_op_may_be_a_composition(op, backend):
    @pg.name_scope("layer")
    def layer(x):
        return op(2.0 * x)

    f = lambda x: pg.mean(layer(x), axis=(1, 2)) @ [[1.0], [2.0]]
    h = op(2.0 * pg.asarray(X))
    expected = pg.relu(pg.sum(h * pg.asarray([1.0, 2.0]) / 25.0, axis=-1)).numpy()
    found = attr.grad_cam(f, X, 0, at="layer").numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


# --- patching --------------------------------------------------------------------


def test_effects_are_those_of_real_patching_for_small_differences(backend):
    dtype = "float32" if backend == "opencl" else "float64"
    clean = pg.asarray(X.astype(dtype))
    corrupted = clean + 1e-3 * pg.asarray(RANDOM.normal(size=X.shape).astype(dtype))
    metric = lambda y: y[:, 0] - y[:, 1]
    found = attr.patching(model, clean, corrupted, metric, at=["conv", "pool"])
    assert list(found.effects) == ["conv", "pool"]
    values = inner(corrupted)
    before = metric(model(clean))
    np.testing.assert_array_equal(found.clean.numpy(), before.numpy())
    np.testing.assert_array_equal(
        found.corrupted.numpy(), metric(model(corrupted)).numpy()
    )
    for scope, effects in found.effects.items():
        assert effects.shape == values[scope].shape
        real = metric(model(clean, {scope: values[scope]})) - before
        total = pg.sum(effects, axis=tuple(range(1, effects.ndim)))
        np.testing.assert_allclose(total.numpy(), real.numpy(), rtol=0.02, atol=1e-6)


def test_an_effect_is_that_of_one_channel(backend):
    clean, corrupted = pg.asarray(X), pg.asarray(X + np.float32(0.01))
    effects = attr.patching(model, clean, corrupted, 1, at="pool").effects["pool"]
    ours, theirs = (inner(x)["pool"].numpy() for x in (clean, corrupted))
    for channel in range(4):
        mixed = ours.copy()
        mixed[:, channel] = theirs[:, channel]
        real = model(clean, {"pool": pg.asarray(mixed)}) - model(clean)
        np.testing.assert_allclose(
            effects[:, channel].numpy(), real[:, 1].numpy(), rtol=0.05, atol=2e-6
        )


def test_no_difference_has_no_effect(backend):
    found = attr.patching(model, X, X, 1, at=["conv", "conv"])
    assert found.effects.keys() == {"conv"}
    assert not found.effects["conv"].numpy().any()


# --- bad input -------------------------------------------------------------------


def two(x):
    with pg.name_scope("two"):
        largest, _ = pg.top_k(x[:, :, 0, 0], 2)
    return largest


def transposed(x):
    with pg.name_scope("flat"):
        h = pg.reshape(x, (50, -1))
    return pg.reshape(h, (2, -1))


BAD = {
    "no such scope": (
        lambda: attr.grad_cam(model, X, 1, at="stem"),
        ValueError,
        "grad_cam: the value depends on no kernel in a scope 'stem'",
    ),
    "a scope that is not named in full": (
        lambda: attr.patching(model, X, X, 1, at=["conv", "last"]),
        ValueError,
        "patching: the value depends on no kernel in a scope 'last'",
    ),
    "no image": (
        lambda: attr.grad_cam(model, X, 1, at="pool"),
        ValueError,
        r"result of the scope 'pool' has the shape \(2, 4\); expected an example axis",
    ),
    "the axis of the examples": (
        lambda: attr.grad_cam(model, X, 1, at="conv", channel_axis=0),
        ValueError,
        "and channels at axis 0",
    ),
    "an axis that is not there": (
        lambda: attr.grad_cam(model, X, 1, at="conv", channel_axis=4),
        ValueError,
        "and channels at axis 4",
    ),
    "several results": (
        lambda: attr.patching(two, X, X, 1, at="two"),
        ValueError,
        "the scope 'two' ends with TopK, which has several results",
    ),
    "no axis of examples": (
        lambda: attr.patching(transposed, X, X, 1, at="flat"),
        ValueError,
        r"'flat' has the shape \(50, 2\); its first axis must be that of the 2",
    ),
    "no string": (
        lambda: attr.grad_cam(model, X, 1, at=3),
        TypeError,
        "grad_cam: at must be the name of a scope or a list of names, got 3",
    ),
    "an empty name": (
        lambda: attr.patching(model, X, X, 1, at=["conv", ""]),
        ValueError,
        r"patching: at=\['conv', ''\] contains an empty name",
    ),
    "two scopes": (
        lambda: attr.grad_cam(model, X, 1, at=["conv", "dense"]),
        ValueError,
        "grad_cam: at must be the name of one scope",
    ),
    "no scopes": (
        lambda: attr.patching(model, X, X, 1, at=[]),
        ValueError,
        "patching: at names no scope",
    ),
    "other shapes": (
        lambda: attr.patching(model, X, X[:1], 1, at="conv"),
        ValueError,
        r"must have the same shape, got \(2, 5, 5, 2\) and \(1, 5, 5, 2\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    function, error, message = BAD[case]
    with pytest.raises(error, match=message):
        function()
