"""User-defined gradients: names of ops and inputs, the original gradient, packs."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.registry.plugins import Phase, Plugin
from plugrad._src.registry.registry import registry
from plugrad.plugin import GradientPack, Kernel, KernelPack, gradients, run, same
from plugrad_conformance.toy import toy


def slope(op=pg.relu, x=3.0):
    """Return the derivative of an op."""
    return pg.grad(op)(x).item()


# --- names of ops ----------------------------------------------------------------

NAMES = [
    ("relu", "the op relu runs the kernel Relu; name 'Relu'"),
    ("silu", "the op silu runs Sigmoid, Multiply; name one of these kernels"),
    ("max_pool", "the op max_pool runs the kernels MaxPool, MaxPool3D; name one"),
    ("image.resize_bilinear", "runs the kernel ResizeBilinear"),
    ("Reluu", "unknown kernel 'Reluu'; did you mean 'Relu'"),
    (pg.max_pool, "the op max_pool runs the kernels MaxPool, MaxPool3D"),
    ("logsumexp", "the op logsumexp has a gradient of its own, from custom_grad"),
    (print, "print is not an op of plugrad; give a function of your own a gradient"),
    (3, "unknown kernel 3"),
    (
        {"kernelName": "Square", "gradFunc": print},
        "expected the name of a kernel, got a dict; instead of kernelName and gradFunc",
    ),
]
CALLS = {
    "override_gradient": lambda name: pg.override_gradient(name, x=lambda dy: dy),
    "register_gradient": lambda name: pg.register_gradient(name, x=lambda dy: dy),
    "unregister_gradient": pg.unregister_gradient,
    "get_gradient": pg.get_gradient,
}


COMPOSED = [  # override_gradient takes them as patterns
    (pg.std, "the op std runs Mean, Sub, Square"),
    (pg.hard_swish, "the op hard_swish has a gradient of its own, from custom_grad"),
    (pg.hard_sigmoid, "the op hard_sigmoid runs Multiply, Add; name one of these"),
    (pg.logsumexp, "the op logsumexp has a gradient of its own, from custom_grad"),
]


@pytest.mark.parametrize("caller", [c for c in CALLS if c != "override_gradient"])
@pytest.mark.parametrize(("op", "message"), COMPOSED)
def test_composed_ops_are_for_blocks(op, message, caller):
    with pytest.raises(ValueError, match=f"{caller}: .*{message}"):
        CALLS[caller](op)


@pytest.mark.parametrize("op", [pg.layer_norm, pg.local_response_normalization])
def test_a_kernel_that_computes_a_gradient_is_not_meant(op):
    x = pg.asarray([[[[1.0, 2.0, 4.0]]]])
    with pg.override_gradient(op, x=lambda dy: dy * 3.0):
        assert pg.grad(lambda x: pg.sum(op(x)))(x).tolist() == [[[[3.0, 3.0, 3.0]]]]


@pytest.mark.parametrize("caller", CALLS)
@pytest.mark.parametrize(("name", "message"), NAMES)
def test_the_kernels_of_an_op_are_named(name, message, caller):
    with pytest.raises(ValueError, match=f"{caller}: .*{message}"):
        CALLS[caller](name)


def test_an_op_stands_for_its_one_kernel(backend):
    with pg.override_gradient(pg.relu, x=lambda dy: dy * 7.0):
        assert slope() == 7.0
        assert "test_overrides" in pg.get_gradient(pg.relu)["x"].origin
    pg.register_gradient(pg.image.resize_bilinear, images=None)
    pg.unregister_gradient(pg.image.resize_bilinear)


def test_a_kernel_may_be_given_itself(odd):
    with pg.override_gradient(ODD, {"kernel": lambda dy: dy * 7.0}):
        assert pg.grad(odd)(1.0, 2.0, 3.0).item() == 7.0
    with pg.use_gradients({ODD: {"kernel": lambda dy: dy * 8.0}}):
        assert pg.grad(odd)(1.0, 2.0, 3.0).item() == 8.0


# --- functions of the tangent ----------------------------------------------------


def forward(f, x, tangent=1.0):
    """Return the directional derivative of ``f``."""
    return pg.jvp(f, (pg.asarray(x),), (pg.asarray(tangent),))[1].tolist()


def test_jvp_uses_a_function_of_the_tangent(backend):
    positive = lambda dy: pg.maximum(dy, 0.0)
    tenfold = lambda tangent, y: tangent * y * 10.0
    with pg.override_gradient("Relu", x=positive, linear=False, jvp={"x": tenfold}):
        assert forward(pg.relu, [2.0, -1.0], [1.0, 1.0]) == [20.0, 0.0]
        assert forward(lambda x: pg.relu(pg.relu(x)), 3.0) == 900.0
        assert slope() == 1.0
        assert pg.jit(lambda x: forward(pg.relu, x))(2.0) == 20.0
    assert forward(pg.relu, 2.0) == 1.0


def test_the_gradient_may_stay_as_it_is(backend):
    square = lambda x: x * x
    with pg.override_gradient("Multiply", jvp={"a": lambda t, b: 10.0 * t * b}):
        assert forward(square, 3.0) == 33.0
        assert slope(square) == 6.0
    jvp = {"x": lambda tangent, site, x_tracked: tangent * (site.nth + 2.0 * x_tracked)}
    with pg.override_gradient("Relu", x=lambda dy, site: dy * site.nth, jvp=jvp):
        assert forward(lambda x: pg.relu(pg.relu(x)), 1.0) == 6.0
        assert slope(lambda x: pg.relu(pg.relu(x))) == 0.0
    with pg.override_gradient(pg.silu, jvp={"x": lambda t: 4.0 * t}):
        assert forward(pg.silu, 1.0) == 4.0


def test_jit_replays_functions_of_the_tangent(backend):
    doubled = lambda tangent: 2.0 * tangent

    def f(x):
        with pg.override_gradient("Relu", jvp={"x": doubled}):
            return pg.jvp(pg.relu, (x,), (pg.ones_like(x),))[1]

    jitted = pg.jit(f)
    for _ in range(4):
        assert jitted(pg.asarray([3.0])).tolist() == [2.0]
    assert not jitted.explain(pg.asarray([3.0])).reason


BAD_TANGENTS = {
    "unknown input": ("Relu", {"z": lambda t: t}, "no input 'z'"),
    "original": (
        "Relu",
        {"x": lambda t, original: t},
        "without a parameter 'original'",
    ),
    "none": ("Relu", {"x": None}, "got None"),
    "several outputs": ("TopK", {"x": lambda t: t}, "is for kernels with one output"),
    "variadic": ("Concat", {"xs": lambda t: t}, "cannot take the variadic input 'xs'"),
}


@pytest.mark.parametrize("case", BAD_TANGENTS)
def test_bad_functions_of_the_tangent(case):
    kernel, jvp, message = BAD_TANGENTS[case]
    with pytest.raises(ValueError, match=message):
        pg.override_gradient(kernel, jvp=jvp)


# --- inputs of any name ----------------------------------------------------------

ODD = Kernel("test.Odd(kernel, backend, linear)", out=same)


@pytest.fixture
def odd():
    """Yield an op whose inputs have the same names as options."""
    pg.register_kernel(ODD, "cpu", lambda a, b, c: a * b * c)
    with pg.use_backend("cpu"):
        yield lambda a, b, c: run(ODD, *map(pg.asarray, (a, b, c)))
    pg.unregister_kernel("test.Odd", "cpu")


FUNCTIONS = {
    "kernel": lambda dy, backend, linear: dy * backend * linear,
    "backend": lambda dy, kernel, linear: dy * kernel * linear,
    "linear": lambda dy, kernel, backend: dy * kernel * backend,
}


def test_inputs_with_names_of_options_have_gradients(odd):
    with pg.override_gradient("test.Odd", FUNCTIONS):
        assert [g.item() for g in pg.grads(odd)(2.0, 3.0, 5.0)] == [15.0, 10.0, 6.0]
    rest = {name: f for name, f in FUNCTIONS.items() if name != "kernel"}
    pg.register_gradient("test.Odd", rest, kernel=FUNCTIONS["kernel"], backend="cpu")
    assert [g.item() for g in pg.grads(odd)(2.0, 3.0, 5.0)] == [15.0, 10.0, 6.0]
    pg.unregister_gradient("test.Odd", backend="cpu")
    contract = Kernel("test.Other(kernel, backend, linear)", out=same)
    gradients(contract, FUNCTIONS)
    assert {*contract.gradient} == {"kernel", "backend", "linear"}


def test_a_function_is_never_taken_for_an_option(odd):
    f = FUNCTIONS["linear"]
    for give in (
        lambda: gradients(ODD, linear=f),
        lambda: pg.register_gradient("test.Odd", linear=f),
        lambda: pg.override_gradient("test.Odd", backend=f),
    ):
        with pytest.raises(
            TypeError, match=r"is an option, not an input, but got a function.*dict"
        ):
            give()
    with pytest.raises(ValueError, match="got two functions for kernel"):
        pg.override_gradient("test.Odd", FUNCTIONS, kernel=f)
    with pytest.raises(TypeError, match="linear must be True or False, got 3"):
        pg.override_gradient("Relu", x=lambda dy: dy, linear=3)
    assert ODD.gradient == {}


# --- the original gradient -------------------------------------------------------


def test_an_override_calls_the_gradient_that_it_replaces(backend):
    twice = lambda dy, original: 2 * original(dy)
    with pg.override_gradient("Relu", x=twice):
        assert (slope(x=3.0), slope(x=-3.0)) == (2.0, 0.0)
        with pg.override_gradient("Relu", x=lambda dy, x, original: original(dy) + x):
            assert slope(x=3.0) == 5.0  # twice the derivative, plus x
    with pg.use_gradients("guided"), pg.override_gradient("Relu", x=twice):
        assert pg.grad(lambda x: -pg.relu(x))(3.0).item() == 0.0
        with pytest.raises(TypeError, match="not linear in dy"):
            pg.jvp(pg.relu, [pg.asarray(1.0)], [pg.asarray(1.0)])
    with pg.override_gradient("Square", x=twice):
        assert pg.grad(pg.grad(pg.square))(3.0).item() == 4.0
        assert pg.jvp(pg.square, [3.0], [1.0])[1].item() == 12.0


def test_the_original_broadcasts_and_takes_several_cotangents(backend):
    twice = lambda dy, original: 2 * original(dy)
    with pg.override_gradient("Multiply", a=twice):
        da, db = pg.grads(lambda a, b: pg.sum(a * b))(np.float32([1, 2]), 3.0)
        assert (da.tolist(), db.item()) == ([6.0, 6.0], 3.0)
    both = lambda dvalues, dindices, original: 2 * original(dvalues, dindices)
    with pg.override_gradient("TopK", x=both):
        f = lambda x: pg.sum(pg.top_k(x, k=1)[0])
        assert pg.grad(f)(np.float32([1, 2])).tolist() == [0.0, 2.0]


def test_without_an_original_the_error_says_so(backend):
    with (
        pg.override_gradient("Prod", x=lambda dy, original: original(dy)),
        pytest.raises(pg.GradientNotFound, match="no earlier gradient for input 'x'"),
    ):
        pg.grad(pg.prod)(1.0)


# --- packs -----------------------------------------------------------------------


def test_packs_are_listed_with_what_they_override():
    found = {pack.name: pack for pack in pg.gradient_packs()}
    assert found["guided"].overrides["Relu"] == ("x",)
    assert found["guided"].owner.startswith("plugrad-gradient-packs ")
    assert found["guided"].reason == ""


def test_packs_apply_to_the_whole_process(backend):
    minus = lambda x: -pg.relu(x)
    pg.register_gradient("Relu", x=lambda dy: dy * 9)
    try:
        assert slope(minus) == -9.0
        pg.set_gradients("deconvnet", "guided")
        assert slope(minus) == 0.0
        with pg.override_gradient("Relu", x=lambda dy: dy * 3):
            assert slope(minus) == -3.0  # scopes take precedence
        pg.set_gradients("guided", kernels=["Relu6"])
        assert slope(minus) == -9.0
        with toy():
            pg.set_gradients("guided", backend="toy")
            assert slope(minus) == -9.0
            with pg.use_backend("toy"):
                assert slope(minus) == 0.0
    finally:
        pg.set_gradients()
        pg.unregister_gradient("Relu")
    assert slope(minus) == -1.0


def test_set_gradients_changes_nothing_if_it_raises():
    pg.set_gradients("guided")
    try:
        for wrong in (
            lambda: pg.set_gradients("deconvnet", "guidedd"),
            lambda: pg.set_gradients("guided", kernels=["Sign"]),
        ):
            with pytest.raises(ValueError, match="set_gradients: "):
                wrong()
        with pytest.raises(pg.BackendUnavailable, match="set_gradients: unknown"):
            pg.set_gradients("guided", backend="gpu9")
        assert slope(lambda x: -pg.relu(x)) == 0.0
    finally:
        pg.set_gradients()


def _run_child(variable):
    code = "import plugrad as pg; print(pg.grad(lambda x: -pg.relu(x))(3.0).item())"
    env = {"PLUGRAD_GRADIENTS": variable, "PLUGRAD_BACKEND": "cpu"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | env,
    )


def test_the_environment_turns_packs_on():
    assert _run_child("deconvnet, guided").stdout == "0.0\n"
    assert _run_child("").stdout == "-1.0\n"
    wrong = _run_child("guidedd")
    assert "PLUGRAD_GRADIENTS: unknown pack 'guidedd'" in wrong.stderr


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_a_pack_that_breaks_is_listed_with_the_reason():
    def broken():
        raise OSError("gone")

    owner = Plugin("plugrad-test", "1.0", phase=Phase.REGISTERED)
    registry.register(owner, packs=[GradientPack("test-broken", open=broken)])
    try:
        found = {pack.name: pack for pack in pg.gradient_packs()}["test-broken"]
        assert (found.overrides, "OSError: gone" in found.reason) == ({}, True)
    finally:
        del registry.gradients.packs.entries["test-broken"]


# --- kernel packs ----------------------------------------------------------------


@pytest.fixture
def add_kernel_pack():
    """Return a function that registers kernel packs of "toy", which opens later."""
    before = list(registry._kernel_packs)
    owners = []

    def extend(name, **gradients):
        owner = Plugin(f"plugrad-{name}", "1.0", phase=Phase.REGISTERED)
        gradients_of_pack = lambda: {k: {"x": f} for k, f in gradients.items()}
        kernel_pack = KernelPack("toy", open=dict, gradients=gradients_of_pack)
        registry.register(owner, kernel_packs=[kernel_pack])
        owners.append(owner)
        return owner

    yield extend
    registry._kernel_packs = before


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_an_extension_adds_gradients_to_another_plugins_backend(add_kernel_pack):
    add_kernel_pack("one", Relu=lambda dy, original: 2 * original(dy))
    with toy(), pg.use_backend("toy"):
        assert slope() == 2.0
        assert "plugrad-one 1.0" in pg.get_gradient("Relu")["x"].owner
    assert slope() == 1.0


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_two_extensions_that_add_the_same_gradient_are_blocked(add_kernel_pack):
    one = add_kernel_pack("one", Relu=lambda dy: 2 * dy)
    two = add_kernel_pack("two", Relu=lambda dy: 3 * dy, Relu6=lambda dy: 3 * dy)
    three = add_kernel_pack("three", Sign=lambda dy: dy)
    with toy(), pg.use_backend("toy"):
        assert (slope(), slope(pg.sign)) == (1.0, 1.0)
    assert [p.phase for p in (one, two, three)] == [
        Phase.BLOCKED,
        Phase.BLOCKED,
        Phase.OPENED,
    ]
    assert "Relu on 'toy' is also extended by plugrad-two 1.0" in one.reason


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_an_extension_whose_gradients_are_wrong_fails_alone(add_kernel_pack):
    bad = add_kernel_pack("bad", Relu=lambda dy, nothing: dy)
    with toy(), pg.use_backend("toy"):
        assert slope() == 1.0
    assert "'nothing' is not one of" in bad.reason


# --- functions bound to overrides ------------------------------------------------


def test_a_bound_function_runs_with_the_overrides_in_force_when_it_was_bound():
    outer = pg.override_gradient("Relu", x=lambda dy: 2 * dy)
    inner = pg.override_gradient("Relu", x=lambda dy, original: 3 * original(dy))
    with outer, inner:
        both = pg.bind_overrides(slope)
    none = pg.bind_overrides(slope)
    assert both() == 6.0
    with pg.override_gradient("Relu", x=lambda dy: 5 * dy):
        assert (both(), none(), slope()) == (6.0, 1.0, 5.0)
        with ThreadPoolExecutor() as pool:
            assert pool.submit(both).result() == 6.0
    assert slope() == 1.0


def test_only_functions_are_bound_to_overrides():
    with pytest.raises(TypeError, match="bind_overrides"):
        pg.bind_overrides(3)
