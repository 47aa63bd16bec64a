"""Methods other than LRP: common guarantees, and methods that only use gradients."""

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest

from tests.attribution.networks import difference, network, precision
from tests.attribution.reference import TARGET, examples
from tests.attribution.reference_methods import STEPS, baselines, recorded

RECORDED = recorded()
RANDOM = np.random.default_rng(4)
W1 = RANDOM.normal(size=(4, 5)).astype(np.float32)
W2 = RANDOM.normal(size=(5, 3)).astype(np.float32)
X = RANDOM.normal(size=(3, 4)).astype(np.float32)
X0 = RANDOM.normal(size=(3, 4)).astype(np.float32)


def model(x):
    with pg.name_scope("layer"):
        h = pg.tanh(pg.relu(x @ pg.asarray(W1)))
    return h @ pg.asarray(W2)


def smooth(x):
    with pg.name_scope("layer"):
        h = pg.tanh(x @ pg.asarray(W1.astype(x.dtype)))
    return pg.softmax(h @ pg.asarray(W2.astype(x.dtype)))


def cam(f, x, target=None, **options):
    """Return Grad-CAM of a layer of vectors, as if they were images of one pixel."""

    def image(x):
        with pg.name_scope("image"):
            x = pg.exp(x[:, None])
        return f(x[:, 0])

    return attr.grad_cam(image, x, target, at="image", **options)


# Each method as a function of f, x and target that returns one tensor.
METHODS = {
    "deconvnet": lambda *a, **k: attr.deconvnet(*a, **k).input,
    "deep_lift": lambda f, x, t=None, **k: attr.deep_lift(f, x, 0.5, t, **k).input,
    "deep_shap": lambda f, x, t=None, **k: attr.deep_shap(f, x, X0, t, **k).input,
    "grad_cam": cam,
    "guided_backprop": lambda *a, **k: attr.guided_backprop(*a, **k).input,
    "integrated_gradients": lambda f, x, t=None, **k: (
        attr.integrated_gradients(f, x, 0.5, t, steps=5, **k).input
    ),
    "patching": lambda f, x, t=None, **k: attr.patching(
        f, x, pg.asarray(x) * 0.5, t, at="layer", **k
    ).effects["layer"],
    "smooth_grad": lambda *a, **k: attr.smooth_grad(*a, samples=3, **k).input,
}
CHECKED = {"deep_lift", "deep_shap"}  # read values, unless tolerance=None


# --- guarantees of all methods ---------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_targets_are_those_of_attribute(name, backend):
    method = METHODS[name]
    rows = [method(model, X, number).numpy() for number in range(3)]
    each = method(model, X, [2, 0, 1]).numpy()
    expected = [rows[2][0], rows[0][1], rows[1][2]]
    np.testing.assert_allclose(each, expected, rtol=1e-4, atol=1e-6)
    best = method(model, X, lambda y: y[:, 1]).numpy()
    np.testing.assert_allclose(best, rows[1], rtol=1e-4, atol=1e-6)
    assert method(model, X).shape == rows[0].shape


@pytest.mark.parametrize("name", METHODS)
def test_chunks_change_nothing(name, backend):
    method = METHODS[name]
    whole = method(model, X, [2, 0, 1]).numpy()
    for chunk in (1, 2, 9):
        found = method(model, X, [2, 0, 1], chunk=chunk).numpy()
        np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-6)
    if name not in {"deep_shap", "grad_cam"}:  # these need at least one example
        assert method(model, X[:0], 1, chunk=2).shape[0] == 0


@pytest.mark.parametrize("name", METHODS)
def test_jit_gives_the_same_bits(name, backend):
    method, options = METHODS[name], {}
    if name in CHECKED:
        options = {"tolerance": None}
    explain = lambda x: method(model, x, 1, **options)
    jitted = pg.jit(explain)
    for seed in range(4):
        x = pg.random.normal((3, 4), seed=seed)
        assert jitted(x).tolist() == explain(x).tolist()
    assert not jitted.explain(x).reason


@pytest.mark.parametrize("name", sorted({*METHODS} - {"smooth_grad", "deep_shap"}))
def test_vmap_gives_the_results_of_each_example(name, backend):
    method, options = METHODS[name], {}
    if name in CHECKED:
        options = {"tolerance": None}
    one = lambda x: method(model, x[None], 1, **options)[0]
    found = pg.vmap(one)(pg.asarray(X)).numpy()
    expected = method(model, X, 1).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_results_have_true_derivatives(name, backend):
    """Gradients of the result are true derivatives; no rule is applied twice."""
    dtype = "float32" if backend == "opencl" else "float64"
    step, limit = (1e-2, 0.05) if dtype == "float32" else (1e-6, 1e-5)
    method, options = METHODS[name], {}
    if name in CHECKED:
        options = {"tolerance": None}
    total = lambda x: pg.sum(method(smooth, x, 1, **options) ** 2)
    x = pg.asarray(X.astype(dtype))
    direction = pg.asarray(X0.astype(dtype))
    found = pg.sum(pg.grad(total)(x) * direction).item()
    ahead, behind = total(x + step * direction), total(x - step * direction)
    expected = ((ahead - behind) / (2 * step)).item()
    assert found == pytest.approx(expected, rel=limit)


@pytest.mark.parametrize("name", METHODS)
def test_bad_arguments_of_all_methods_are_refused(name):
    method = METHODS[name]
    if name != "grad_cam":  # its entry calls the model in a lambda
        with pytest.raises(TypeError, match=rf"{name}: expected a function, got 3"):
            method(3, X)
    with pytest.raises(TypeError, match=rf"{name}: x must be floats, got int32"):
        method(model, pg.asarray([[1, 2, 3, 4]]))
    with pytest.raises(ValueError, match="chunk must be a positive number, got 0"):
        method(model, X, 1, chunk=0)
    with pytest.raises(ValueError, match="target=7 is out of range for 3 outputs"):
        method(model, X, 7)
    with pytest.raises(ValueError, match=f"{name}: x must have an example axis"):
        method(model, 1.0)


# --- integrated gradients --------------------------------------------------------


def test_integrated_gradients_are_those_of_captum(backend):
    dtype, limit = precision(backend)
    found = attr.integrated_gradients(
        network("relu", dtype),
        examples().astype(dtype),
        baselines()[0],
        TARGET,
        steps=STEPS,
    )
    assert found.input.dtype == dtype
    assert difference(found.input, RECORDED["integrated_gradients"]) < limit


@pytest.mark.parametrize("method", ["gausslegendre", "riemann_middle"])
def test_the_gap_becomes_smaller_with_more_steps(method, backend):
    f = lambda x: pg.sum(pg.exp(x), axis=1)
    gaps = []
    for steps in (2, 8):
        found = attr.integrated_gradients(f, X, X0, steps=steps, method=method)
        total = pg.sum(found.input, axis=1).numpy()
        expected = total - (f(pg.asarray(X)) - f(pg.asarray(X0))).numpy()
        np.testing.assert_allclose(found.gap.numpy(), expected, atol=1e-5)
        gaps.append(np.abs(expected).max())
    assert gaps[1] < gaps[0] / 8


def test_sums_that_stand_for_the_integral(backend):
    slope = lambda x: pg.sum(x * x, axis=1)  # the gradient is 2 x
    rows = {}
    for method in ("left", "middle", "right", "trapezoid"):
        found = attr.integrated_gradients(
            slope, [[1.0]], steps=4, method=f"riemann_{method}"
        )
        rows[method] = found.input.item()
    assert rows == pytest.approx(
        {"left": 0.75, "middle": 1.0, "right": 1.25, "trapezoid": 1.0}
    )
    one = attr.integrated_gradients(slope, [[1.0]], steps=1, method="riemann_trapezoid")
    assert one.input.item() == 0.0


# --- SmoothGrad ------------------------------------------------------------------


def test_without_noise_it_is_the_gradient(backend):
    found = attr.smooth_grad(model, X, 1, sigma=0.0)
    gradient = pg.grad(lambda x: pg.sum(model(x)[:, 1]))(pg.asarray(X))
    np.testing.assert_allclose(found.input.numpy(), gradient.numpy(), rtol=1e-5)
    np.testing.assert_allclose(
        found.value.numpy(), model(pg.asarray(X)).numpy()[:, 1], rtol=1e-5
    )


def test_the_seed_fixes_the_noise(backend):
    first, again = (attr.smooth_grad(model, X, 1, seed=3).input for _ in range(2))
    assert first.tolist() == again.tolist()
    key = attr.smooth_grad(model, X, 1, seed=pg.random.key(3)).input
    assert first.tolist() == key.tolist()
    assert first.tolist() != attr.smooth_grad(model, X, 1, seed=4).input.tolist()


def test_the_noise_has_the_standard_deviation(backend):
    square = lambda x: pg.sum(0.5 * x * x, axis=1)  # the gradient is x
    x = pg.zeros((1, 4000))
    found = attr.smooth_grad(square, x, samples=1, sigma=0.3).input.numpy()
    assert abs(found.std() - 0.3) < 0.02


# --- ReLU ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["guided_backprop", "deconvnet"])
def test_gradients_of_relu_are_those_of_captum(name, backend):
    dtype, limit = precision(backend)
    method = getattr(attr, name)
    found = method(network("relu", dtype), examples().astype(dtype), TARGET)
    assert difference(found.input, RECORDED[name]) < limit


@pytest.mark.parametrize("name", ["guided_backprop", "deconvnet"])
def test_a_reused_relu_has_the_rule_each_time(name, backend):
    twice = lambda x: (
        pg.relu(pg.relu(x) * pg.asarray([-1.0, 1.0, 2.0]))
        @ [
            [1.0],
            [1.0],
            [-1.0],
        ]
    )
    found = getattr(attr, name)(twice, [[2.0, -1.0, 3.0]], 0).input
    expected = {"guided_backprop": [[0, 0, 0]], "deconvnet": [[0, 1, 0]]}
    assert found.tolist() == expected[name]


@pytest.mark.parametrize("name", ["guided_backprop", "deconvnet"])
def test_relu6_has_the_rule_of_relu(name, backend):
    model = lambda x: pg.relu6(x) @ [[1.0], [1.0], [-1.0], [1.0]]
    found = getattr(attr, name)(model, [[-1.0, 2.0, 3.0, 7.0]], 0).input
    expected = {"guided_backprop": [[0, 1, 0, 0]], "deconvnet": [[1, 1, 0, 1]]}
    assert found.tolist() == expected[name]


# --- bad input -------------------------------------------------------------------

BAD = {
    "no such integral": (
        lambda: attr.integrated_gradients(model, X, method="simpson"),
        "integrated_gradients: method must be one of gausslegendre, riemann_left",
    ),
    "no steps": (
        lambda: attr.integrated_gradients(model, X, steps=0),
        "integrated_gradients: steps must be a positive number, got 0",
    ),
    "a baseline of another shape": (
        lambda: attr.integrated_gradients(model, X, pg.zeros(5)),
        r"baseline of shape \(5,\) cannot be broadcast to that of x, \(3, 4\)",
    ),
    "no samples": (
        lambda: attr.smooth_grad(model, X, samples=0),
        "smooth_grad: samples must be a positive number, got 0",
    ),
    "a negative sigma": (
        lambda: attr.smooth_grad(model, X, sigma=-1.0),
        "smooth_grad: sigma must be finite and 0 or more, got -1.0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    function, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        function()
