"""Gradient packs: which gradient applies in which scope, backend and thread.

The packs are those of ``examples/gradient_packs``, installed like any other plugin.
"""

import subprocess
import sys
import threading

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Backend, Runtime
from plugrad_conformance.toy import toy

X = np.array([[-1.0, 2.0, 3.0]], np.float32)
W = np.array([1.0, 1.0, -1.0], np.float32)  # the last element lowers the score
EYE = np.eye(3, dtype=np.float32)


def score(x):
    return pg.sum(pg.relu(x) * W)


PLAIN = [[0, 1, -1]]
GUIDED = [[0, 1, 0]]
DECONVNET = [[1, 1, 0]]


def test_installed_is_not_active(backend):
    assert pg.grad(score)(X).tolist() == PLAIN


def test_the_inner_scope_wins_and_the_outer_is_restored(backend):
    with pg.use_gradients("deconvnet"):
        with pg.use_gradients("guided"):
            assert pg.grad(score)(X).tolist() == GUIDED
            with pg.override_gradient("Relu", x=lambda dy: dy * 5):
                assert pg.grad(score)(X).tolist() == [[5, 5, -5]]
        assert pg.grad(score)(X).tolist() == DECONVNET
        with pg.use_gradients("straight_through"):  # has no gradient of Relu
            assert pg.grad(score)(X).tolist() == DECONVNET
    assert pg.grad(score)(X).tolist() == PLAIN


def test_a_scope_overrides_registered_gradients(backend):
    pg.register_gradient("Relu", x=lambda dy: dy * 7)
    try:
        assert pg.grad(score)(X).tolist() == [[7, 7, -7]]
        with pg.use_gradients("guided"):
            assert pg.grad(score)(X).tolist() == GUIDED
    finally:
        pg.unregister_gradient("Relu")


def test_a_scope_can_use_only_some_kernels_of_a_pack(backend):
    f = lambda x: pg.sum(pg.round(x) + pg.sign(x / 8))
    x = np.array([1.25, -2.5], np.float32)
    with pg.use_gradients("straight_through", kernels=["Round"]):
        assert pg.grad(f)(x).tolist() == [1.0, 1.0]
    with pg.use_gradients("straight_through", kernels="Sign"):
        assert pg.grad(f)(x).tolist() == [0.125, 0.125]
    with pg.use_gradients("straight_through"):
        assert pg.grad(f)(x).tolist() == [1.125, 1.125]


def test_a_scope_can_apply_to_only_one_backend(backend):
    scope = lambda name: pg.use_gradients("guided", backend=name)
    with toy("elsewhere"):
        with scope("elsewhere"):
            assert pg.grad(score)(X).tolist() == PLAIN
            with pg.use_backend("elsewhere"):
                assert pg.grad(score)(X).tolist() == GUIDED
        with scope(backend):
            assert pg.grad(score)(X).tolist() == GUIDED
        with pg.override_gradient("Relu", backend="elsewhere", x=lambda dy: dy):
            assert pg.grad(score)(X).tolist() == PLAIN


FUSED = {
    "matmul": lambda x: pg.fused.matmul(x, EYE, activation="relu"),
    "conv2d": lambda x: pg.fused.conv2d(
        pg.reshape(x, (1, 1, 1, 3)), EYE.reshape(1, 1, 3, 3), activation="relu"
    ),
    "depthwise_conv2d": lambda x: pg.fused.depthwise_conv2d(
        pg.reshape(x, (1, 1, 1, 3)),
        np.ones((1, 1, 3, 1), np.float32),
        activation="relu",
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_a_pack_applies_to_activations_in_fused_kernels(name, backend):
    f = lambda x: pg.sum(FUSED[name](x) * W)
    assert pg.grad(f)(X).tolist() == PLAIN
    with pg.use_gradients("guided"):
        assert pg.grad(f)(X).tolist() == GUIDED
    with pg.use_gradients("deconvnet"):
        assert pg.grad(f)(X).tolist() == DECONVNET


def test_the_gradient_is_chosen_in_the_forward_pass(backend):
    with pg.use_gradients("guided"):
        y, pull_back = pg.vjp(score, X)
    _, plain = pg.vjp(score, X)
    with pg.use_gradients("deconvnet"):
        assert pull_back(1.0)[0].tolist() == GUIDED
        assert plain(1.0)[0].tolist() == PLAIN
    del y


def test_a_gradient_has_an_origin(backend):
    with pg.use_gradients("guided"):
        origin = str(pg.get_gradient("Relu")["x"].origin)
    assert "plugrad-gradient-packs 0.1.0, pack 'guided'" in origin
    assert "plugrad_gradient_packs.rules:" in origin


def test_a_scope_does_not_affect_other_threads(backend):
    found = []

    def differentiate():
        with pg.use_backend(backend):
            found.append(pg.grad(score)(X).tolist())

    with pg.use_gradients("guided"):
        thread = threading.Thread(target=differentiate)
        thread.start()
        thread.join()
        assert pg.grad(score)(X).tolist() == GUIDED
    assert found == [PLAIN]


def test_gradients_of_a_backend_apply_only_to_it():
    with pg.use_backend("cpu"):
        arrays = pg.get_kernels_for_backend("cpu")
    runtime = Runtime(
        arrays=NumpyLike(),
        kernels=arrays,
        gradients={"Relu": {"x": lambda dy, y: (y > 0) * dy * 2}},
    )
    pg.register_backend(Backend("doubling", open=lambda: runtime, priority=-9))
    try:
        with pg.use_backend("doubling"):
            assert pg.grad(score)(X).tolist() == [[0, 2, -2]]
            with pg.use_gradients("guided"):
                assert pg.grad(score)(X).tolist() == GUIDED
            # Operations recorded here use the gradients of this backend.
            _, pull_back = pg.vjp(score, X)
        with pg.use_backend("cpu"):
            assert pg.grad(score)(X).tolist() == PLAIN
            assert pull_back(1.0)[0].tolist() == [[0, 2, -2]]
    finally:
        pg.remove_backend("doubling")


class NumpyLike:
    def upload(self, values):
        return values.copy()

    def download(self, native):
        return np.array(native)

    def nbytes(self, native):
        return native.nbytes


WRONG = [
    (lambda: pg.use_gradients("guidd"), "unknown pack 'guidd'; did you mean 'guided'"),
    (
        lambda: pg.use_gradients("guided", kernels=["Rely"]),
        "pack 'guided' has no gradient of 'Rely'; did you mean 'Relu'.*Relu, Relu6",
    ),
]


@pytest.mark.parametrize(("scope", "message"), WRONG)
def test_wrong_names_are_refused(scope, message):
    with pytest.raises(ValueError, match=message):
        scope()


def test_an_unknown_backend_is_an_error_at_once():
    with pytest.raises(pg.BackendUnavailable, match="use_gradients: unknown"):
        pg.use_gradients("guided", backend="nowhere")


def test_nothing_of_a_pack_is_imported_before_it_is_used():
    code = """
import sys, plugrad as pg
rules = lambda: "plugrad_gradient_packs.rules" in sys.modules
pg.grad(pg.square)(1.0)
print(rules())
with pg.use_gradients("guided"):
    print(rules())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


# --- opening: a plugin of two packs, which records when they are opened ------------

COUNTED = """
import time
from plugrad.plugin import GradientPack, hookimpl

opened, errors = [], []  # an error is raised by the next opening

def pack(name, factor):
    def open_pack():
        opened.append(name)
        time.sleep(0.05)
        if errors:
            raise errors.pop()
        return {"Exp": {"x": lambda dy: dy * factor}}
    return GradientPack(name, open=open_pack)

@hookimpl
def plugrad_gradients():
    return [pack("double", 2), pack("triple", 3)]
"""
SLOPE = """
import plugrad as pg
import plugrad_counted as counted

pg.set_backend("cpu")

def slope(name, **how):
    with pg.use_gradients(name, **how):
        return pg.grad(pg.exp)(0.0).item()
"""


def test_a_pack_is_opened_once(site, python):
    site("plugrad-counted", COUNTED)
    out = python(
        SLOPE
        + """
print([slope(name) for name in ("double", "triple", "double", "triple")])
print([slope("double", kernels="Exp"), slope("double", backend="cpu")])
print(counted.opened)
"""
    )
    assert out.splitlines() == [
        "[2.0, 3.0, 2.0, 3.0]",
        "[2.0, 2.0]",
        "['double', 'triple']",
    ]


def test_threads_open_a_pack_once(site, python):
    site("plugrad-counted", COUNTED)
    out = python(
        SLOPE
        + """
import threading
slopes = []
use = lambda: slopes.append(slope("double"))
threads = [threading.Thread(target=use) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(slopes == 8 * [2.0], counted.opened)
"""
    )
    assert out == "True ['double']"


def test_a_failed_pack_is_not_opened_again_but_an_interrupted_one_is(site, python):
    site("plugrad-counted", COUNTED)
    out = python(
        SLOPE
        + """
counted.errors += [KeyboardInterrupt(), OSError("no rules")]
for name in ("double", "double", "triple", "triple", "double"):
    try:
        print(slope(name))
    except (ValueError, KeyboardInterrupt) as error:
        print(type(error).__name__, error)
print(counted.opened)
"""
    )
    failed = (
        "ValueError pack 'double' of plugrad-counted 1.0 has failed: OSError: no rules"
    )
    assert out.splitlines() == [
        failed,
        failed,
        "KeyboardInterrupt ",
        "3.0",
        failed,
        "['double', 'triple', 'triple']",
    ]


def test_a_new_owner_of_a_pack_name_opens_its_own_pack(site, python):
    site("plugrad-counted", COUNTED)
    out = python(
        SLOPE
        + """
from plugrad._src.registry.plugins import Phase, Plugin
from plugrad._src.registry.registry import registry

print(slope("double"))
with pg.use_gradients("double"):
    _, pull_back = pg.vjp(pg.exp, 0.0)
pg.remove_plugin("counted")
try:
    slope("double")
except ValueError as error:
    print(error)
owner = Plugin("plugrad-double", phase=Phase.REGISTERED)
registry.plugins.append(owner)
registry.register(owner, packs=[counted.pack("double", 5)])
registry.settle()
print(slope("double"), slope("double"), pull_back(1.0)[0].item(), counted.opened)
"""
    )
    assert out.splitlines() == [
        "2.0",
        "pack 'double' of plugrad-counted 1.0 is blocked: removed with remove_plugin",
        "5.0 5.0 2.0 ['double', 'double']",
    ]
