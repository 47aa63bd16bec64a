"""DeepLIFT and DeepSHAP: captum's results, contributions that add up, bad input."""

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest
from plugrad_attribution.secants import over_step, summed_to

from tests.attribution.networks import difference, network, precision
from tests.attribution.reference import TARGET, examples
from tests.attribution.reference_methods import NETWORKS, baselines, recorded

RECORDED = recorded()
RANDOM = np.random.default_rng(8)
W = RANDOM.normal(size=(4, 6)).astype(np.float32)
X = RANDOM.normal(size=(3, 4)).astype(np.float32)
X0 = RANDOM.normal(size=(3, 4)).astype(np.float32)


def largest_gap(f, x=X, baseline=X0, target=None):
    """Return the largest gap, divided by the largest difference of outputs, if any."""
    found = attr.deep_lift(f, x, baseline, target, tolerance=None)
    total = (found.value - found.start).numpy()
    return np.abs(found.gap.numpy()).max() / (np.abs(total).max() or 1.0)


# --- captum ----------------------------------------------------------------------


def loosened(limit):
    """Raise float32 limits, because quotients of small differences lose digits."""
    return limit if limit < 1e-6 else 20 * limit


@pytest.mark.parametrize("name", NETWORKS)
def test_contributions_are_those_of_captum(name, backend):
    dtype, limit = precision(backend)
    found = attr.deep_lift(
        network(name, dtype), examples().astype(dtype), baselines()[0], TARGET
    )
    distance = difference(found.input, RECORDED[f"deep_lift {name}"])
    if np.abs(RECORDED[f"delta {name}"]).max() < 1e-6:
        assert distance < loosened(limit)
    else:  # captum's contributions do not add up
        assert name in {"relu", "adjacent"}
        assert distance > 0.01
    total = np.abs((found.value - found.start).numpy())
    assert (np.abs(found.gap.numpy()) < 100 * limit * total).all()


def test_mean_contributions_are_those_of_captum(backend):
    dtype, limit = precision(backend)
    f, x = network("smooth", dtype), examples().astype(dtype)
    found = attr.deep_shap(f, x, baselines(), TARGET)
    assert difference(found.input, RECORDED["deep_shap"]) < loosened(limit)
    values = f(pg.asarray(baselines().astype(dtype)))[:, TARGET]
    assert difference(found.start, [pg.mean(values).item()] * 2) < limit


# --- contributions add up --------------------------------------------------------

OPS = {
    "abs": pg.abs,
    "a choice": lambda x: pg.where(x > 0, x, 0.1 * x),
    "a choice of branches": lambda x: pg.where(x > 0, pg.tanh(x), x * x),
    "clip": lambda x: pg.clip(x, -0.5, 0.5),
    "cumulative product": lambda x: pg.cumulative_prod(x, axis=1),
    "einsum": lambda x: pg.einsum("bi,bj->bi", x, pg.sin(x)),
    "elu": pg.elu,
    "gelu": pg.gelu,
    "hard_sigmoid": pg.hard_sigmoid,
    "hard_swish": pg.hard_swish,
    "hypot": lambda x: pg.hypot(x, x + 1.0),
    "layer_norm": lambda x: pg.layer_norm(x)[:, :2],
    "log_softmax": lambda x: pg.log_softmax(x)[:, :2],
    "masked by a comparison": lambda x: x * (x > 0),
    "max": lambda x: pg.max(x, axis=1, keepdims=True),
    "maximum": lambda x: pg.maximum(x, pg.tanh(2.0 * x)),
    "min": lambda x: pg.min(x, axis=1, keepdims=True),
    "minimum": lambda x: pg.minimum(x, 1.0 - x),
    "power": lambda x: pg.exp2(x) ** x,
    "prelu": lambda x: pg.prelu(x, 0.3),
    "product": lambda x: pg.sigmoid(x) * pg.tanh(x),
    "product of matrices": lambda x: x[:, :, None] @ pg.tanh(x)[:, None],
    "quotient": lambda x: x / (1.0 + x * x),
    "relu of relu": lambda x: pg.relu(pg.relu(x) - 0.1),
    "rms_norm": pg.rms_norm,
    "round": pg.round,
    "silu": pg.silu,
    "softmax": lambda x: pg.softmax(x)[:, :2],
    "softmax of other logits": lambda x: pg.softmax(30.0 * x)[:, :2],
    "std": lambda x: pg.std(x, axis=1, keepdims=True),
    "square": pg.square,
}


@pytest.mark.parametrize("name", OPS)
def test_nothing_is_lost_in(name, backend):
    f = lambda x: pg.reshape(OPS[name](pg.sin(3.0 * x)), (x.shape[0], -1))
    assert largest_gap(f) < 2e-5
    assert largest_gap(OPS[name]) < 2e-5


def test_contributions_of_softmax_are_bounded(backend):
    logits = pg.asarray([[80.0, 0.0, -80.0]])
    found = attr.deep_lift(pg.softmax, logits, -logits, target=0).input.numpy()
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)


def test_masked_logits_have_no_contribution(backend):
    mask = pg.asarray([0.0, 0.0, -np.inf, 0.0])
    found = attr.deep_lift(lambda x: pg.softmax(x + mask), X, X0, target=0)
    assert found.input[:, 2].tolist() == [0.0, 0.0, 0.0]


def test_a_block_of_a_transformer(backend):
    w = [RANDOM.normal(size=(4, 4)).astype(np.float32) for _ in range(6)]

    def block(x):
        h = pg.layer_norm(x)
        q, k, v = [h @ pg.asarray(one) for one in w[:3]]
        x = x + pg.scaled_dot_product_attention(q, k, v)
        h = pg.rms_norm(x)
        x = x + (pg.silu(h @ pg.asarray(w[3])) * (h @ pg.asarray(w[4]))) @ w[5]
        return pg.softmax(pg.mean(x, axis=1))

    x, x0 = RANDOM.normal(size=(2, 2, 5, 4)).astype(np.float32)
    assert largest_gap(block, x, x0, 1) < 1e-4


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_recurrent_layers(cell, backend):
    gates = {"lstm": 4, "gru": 3}[cell]
    weight = RANDOM.normal(size=(gates * 3, 2)).astype(np.float32)
    recurrent = RANDOM.normal(size=(gates * 3, 3)).astype(np.float32)

    def f(x):  # time comes first
        steps = pg.permute_dims(x, (1, 0, 2))
        return getattr(pg, cell)(steps, weight, recurrent)[1]

    x, x0 = RANDOM.normal(size=(2, 2, 4, 2)).astype(np.float32)
    assert largest_gap(f, x, x0, 1) < 1e-4


def test_the_result_is_that_of_the_function_however_it_is_written(backend):
    layers = lambda relu, x: relu(relu(relu(x @ pg.asarray(W)) - 0.5) * 2.0)
    plain = attr.deep_lift(lambda x: layers(pg.relu, x), X, X0).input.numpy()
    others = {
        "maximum": lambda x: pg.maximum(x, 0.0),
        "choice": lambda x: pg.where(x > 0, x, 0.0),
        "mask": lambda x: x * pg.astype(x > 0, x.dtype),
        "clip": lambda x: pg.clip(x, 0.0, None),
    }
    for name, relu in others.items():
        found = attr.deep_lift(lambda x, relu=relu: layers(relu, x), X, X0).input
        np.testing.assert_allclose(
            found.numpy(), plain, rtol=1e-4, atol=1e-5, err_msg=name
        )


def test_the_model_may_have_a_fixed_batch_and_any_layout(backend):
    def f(x):  # the first axis of h is not the axis of the examples
        h = pg.tanh(pg.reshape(x, (3, 4)).T * 2.0)
        return pg.relu(h.T @ pg.asarray(W))

    assert largest_gap(f) < 2e-5


def test_the_gradient_is_used_where_nothing_changes(backend):
    found = attr.deep_lift(lambda x: pg.exp(x), X, X)
    assert not found.input.numpy().any()
    assert not found.gap.numpy().any()


# --- helpers ---------------------------------------------------------------------


def test_over_step_takes_the_gradient_where_the_step_is_rounding(backend):
    x = pg.asarray([2.0, 2.0, 0.0, np.inf])
    x0 = pg.asarray([1.0, 2.0 - 2.0**-22, 0.0, np.inf])
    found = over_step(pg.asarray([3.0, 1.0, 1.0, 1.0]), x, x0, pg.full((4,), 7.0))
    assert found.tolist() == [3.0, 7.0, 7.0, 7.0]


def test_summed_to_undoes_broadcasting(backend):
    value = pg.ones((2, 3, 4))
    assert summed_to(value, pg.ones((3, 1))).tolist() == [[8.0]] * 3
    assert summed_to(value, pg.ones(())).item() == 24.0
    assert summed_to(value, value) is value


# --- bad input -------------------------------------------------------------------


def test_contributions_that_do_not_add_up_are_refused(backend):
    twice = lambda x: (x + pg.stop_gradient(x))[:, 0]
    with pytest.raises(ValueError, match=r"example 1 add up to 3, but .* differ by 6"):
        attr.deep_lift(twice, [[0.0], [3.0]])
    found = attr.deep_lift(lambda x: pg.logsumexp(x, axis=1), X, X0, tolerance=None)
    assert np.abs(found.gap.numpy()).max() > 1e-3
    with pytest.raises(ValueError, match="functions with custom_grad or stop_gradient"):
        attr.deep_lift(lambda x: pg.logsumexp(x, axis=1), X, X0)
    with pytest.raises(ValueError, match="deep_shap: the contributions of example"):
        attr.deep_shap(lambda x: pg.logsumexp(x, axis=1), X, X0)


def test_kernels_without_a_rule_are_named(backend):
    @pg.name_scope("odd")
    def f(x):
        return pg.linalg.inv(pg.reshape(x, (-1, 2, 2)))[:, 0]

    with pytest.raises(ValueError, match=r"no rule for Inverse in scope 'odd'"):
        attr.deep_lift(f, X, X0)


def test_a_model_that_runs_other_kernels_for_the_baseline_is_refused(backend):
    def f(x):
        is_large = pg.max(pg.stop_gradient(x)).item() > 1.0
        return pg.exp(x) if is_large else pg.tanh(x)

    with pytest.raises(ValueError, match="runs Exp for x where it runs Tanh"):
        attr.deep_lift(f, [[2.0]])
    longer = lambda x: pg.exp(x) if pg.sum(pg.stop_gradient(x)).item() else -x
    with pytest.raises(ValueError, match="runs Exp for x where it runs nothing"):
        attr.deep_lift(longer, [[2.0]])
    with pytest.raises(ValueError, match="runs nothing for x where it runs Exp"):
        attr.deep_lift(longer, [[0.0]], [[2.0]])


BAD = {
    "a tolerance of zero": (
        lambda: attr.deep_lift(pg.exp, X, tolerance=0.0),
        "deep_lift: tolerance must be positive, or None to skip the check, got 0.0",
    ),
    "a baseline of another shape": (
        lambda: attr.deep_lift(pg.exp, X, X[:, :2]),
        r"deep_lift: baseline of shape \(3, 2\) cannot be broadcast",
    ),
    "baselines of another shape": (
        lambda: attr.deep_shap(pg.exp, X, X[:, :2]),
        r"deep_shap: baselines must have the shape \(n, 4\), that is, n examples",
    ),
    "one number as baselines": (
        lambda: attr.deep_shap(pg.exp, X, 0.0),
        r"baselines must have the shape \(n, 4\), .* like those of x; got \(\)",
    ),
    "no baselines": (
        lambda: attr.deep_shap(pg.exp, X, X[:0]),
        r"baselines must have the shape \(n, 4\), .* like those of x; got \(0, 4\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    function, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        function()


def test_complex_tensors_lose_nothing(backend):
    spectrum = (
        RANDOM.normal(size=(2, 5, 2)).astype(np.float32).view(np.complex64)[..., 0]
    )

    def f(x):  # x scales a spectrum
        spectra = pg.asarray(spectrum) * pg.astype(x, "complex64")
        shifted = pg.abs(spectra - pg.asarray(spectrum[::-1]))
        powers = pg.abs(pg.square(spectra) * spectra)
        sound = pg.fft.irfft(spectra)
        return pg.concat([shifted, powers, pg.relu(sound)], axis=1)

    x, x0 = RANDOM.normal(size=(2, 2, 5)).astype(np.float32)
    for target in (1, 7, 12):
        assert largest_gap(f, x, x0, target) < 2e-5
    assert largest_gap(f, x, np.zeros_like(x), 1) < 2e-5
