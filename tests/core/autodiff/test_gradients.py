"""Higher orders, the choice of a gradient, and the records of a tape."""

import gc
import threading
import weakref

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.engine import context
from plugrad._src.engine.context import taping
from plugrad._src.engine.tape import Tape
from plugrad.plugin import Kernel, run, same
from plugrad_conformance.toy import toy

# f = exp(x²) at 0.7: f'' = f·(2 + 4x²), f''' = f·(12x + 8x³)
SECOND_DERIVATIVE, THIRD_DERIVATIVE = 6.4640, 18.1905


def plain(x):
    return pg.exp(x * x)


@pg.custom_grad
def by_hand(x):
    y = pg.exp(x * x)
    return y, lambda dy: dy * y * (x * 2)  # captures an intermediate


@pytest.mark.parametrize("f", [plain, by_hand], ids=["plain", "custom_grad"])
def test_higher_orders(f, backend):
    second = pg.grad(pg.grad(f))
    assert second(0.7).item() == pytest.approx(SECOND_DERIVATIVE, rel=1e-5)
    assert pg.grad(second)(0.7).item() == pytest.approx(THIRD_DERIVATIVE, rel=1e-5)


def test_nested_functions_do_not_confuse_equal_arguments(backend):
    # d/dy (x·y) at y = x is x, although both are one tensor
    assert pg.grad(lambda x: pg.grad(lambda y: x * y)(x))(3.0).item() == 1.0


def test_jvp_is_two_vjps(backend):
    value, tangent = pg.jvp(lambda x, y: pg.sum(x * x * y), [3.0, 2.0], [1.0, 10.0])
    assert (value.item(), tangent.item()) == (18.0, 102.0)


def test_nested_arguments_and_integers(backend):
    model = {"w": [pg.asarray([1.0, 2.0])], "labels": pg.asarray([1, 2])}
    dx = pg.grad(lambda m: pg.sum(m["w"][0] * m["labels"]))(model)
    assert dx["w"][0].tolist() == [1.0, 2.0]
    assert dx["labels"] is None
    with pytest.raises(TypeError, match="at least one floating tensor"):
        pg.grad(pg.sum)(pg.asarray([1, 2]))


def test_the_gradient_of_an_empty_tree_is_empty(backend):
    f = lambda parameters, x: pg.sum(x * x)
    value, gradient = pg.value_and_grad(f)({"layers": []}, pg.asarray([3.0]))
    assert (value.item(), gradient) == (9.0, {"layers": []})
    with pytest.raises(TypeError, match="got nothing"):
        pg.grads(lambda: pg.asarray(1.0))()


def test_a_result_that_does_not_depend_on_a_source_gives_zeros(backend):
    _, dy = pg.grads(lambda x, y: pg.sum(x))(pg.asarray([1.0]), pg.asarray([2.0]))
    assert dy.tolist() == [0.0]
    assert pg.grad(lambda x: pg.stop_gradient(x) * x)(3.0).item() == 3.0


def test_a_non_scalar_needs_dy(backend):
    with pytest.raises(ValueError, match=r"must return a scalar, got shape \(2,\)"):
        pg.grad(pg.exp)(pg.asarray([1.0, 2.0]))


@pytest.fixture
def half(backend):
    """Yield an op with two inputs and a gradient only for the first."""
    kernel = Kernel("test.Half(a, b)", out=same)
    pg.register_kernel(kernel, backend, pg.get_kernel("Multiply", backend))
    pg.register_gradient("test.Half", a=lambda dy, b: dy * b)
    yield lambda a, b: run(kernel, a, b)
    pg.unregister_gradient("test.Half")
    pg.unregister_kernel("test.Half", backend)


def test_a_missing_gradient_is_never_zero(half):
    with pytest.raises(pg.GradientNotFound, match=r"test\.Half: .* for input 'b'"):
        pg.grads(half)(2.0, 3.0)
    assert pg.grad(lambda a: half(a, pg.asarray(3.0)))(2.0).item() == 3.0
    # recorded, but no cotangent arrives
    assert pg.grad(lambda b: b + pg.stop_gradient(half(b, b)))(2.0).item() == 1.0


def test_an_input_declared_without_derivative_gets_zero(half):
    with pg.override_gradient("test.Half", b=None):
        assert [d.item() for d in pg.grads(half)(2.0, 3.0)] == [3.0, 0.0]


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_precedence_is_scope_user_backend_core():
    toy_gradients = {"Exp": {"x": lambda dy: dy * 3}}
    with toy(gradients=toy_gradients), pg.use_backend("toy"):
        got = lambda: pg.grad(pg.exp)(0.0).item()
        assert got() == 3.0
        pg.register_gradient("Exp", x=lambda dy: dy * 2)
        assert got() == 2.0
        with pg.override_gradient("Exp", x=lambda dy: dy * 1):
            with pg.override_gradient("Exp", x=lambda dy: dy * 0):
                assert got() == 0.0
            assert got() == 1.0
        assert pg.get_gradient("Exp")["x"].origin.startswith(
            "user (tests.core.autodiff"
        )
        pg.unregister_gradient("Exp")
        assert got() == 3.0
        with pg.use_backend("cpu"):
            assert got() == 1.0


def test_the_gradient_is_chosen_when_the_node_is_recorded(backend):
    with pg.override_gradient("Exp", x=lambda dy: dy * 7):
        _, pullback = pg.vjp(pg.exp, 0.0)
    assert pullback(1.0)[0].item() == 7.0
    _, pullback = pg.vjp(pg.exp, 0.0)
    with pg.override_gradient("Exp", x=lambda dy: dy * 7):
        assert pullback(1.0)[0].item() == 1.0


def test_an_override_reaches_inside_a_fused_kernel(backend):
    x = np.ones((1, 2, 2, 1))
    f = np.ones((1, 1, 1, 1))
    loss = lambda x: pg.sum(pg.fused.conv2d(x, f, activation="relu"))
    with pg.override_gradient("Relu", x=lambda dy: dy * 5):
        assert pg.grad(loss)(x).numpy().max() == 5.0
    with pytest.raises(ValueError, match="a tape decomposes it"):
        pg.register_gradient("FusedConv2D", x=lambda dy: dy)


def test_a_cotangent_that_does_not_fit_names_its_origin(backend):
    with (
        pg.override_gradient("Exp", x=lambda dy: pg.sum(dy)),
        pytest.raises(ValueError, match=r"gradient of Exp .* user \(tests.core"),
    ):
        pg.grad(lambda x: pg.sum(pg.exp(x)))(pg.asarray([1.0, 2.0]))


def test_jvp_refuses_a_gradient_that_is_not_linear(backend):
    guided = {"x": lambda dy, y: dy * pg.astype(dy > 0, "float32"), "linear": False}
    with (
        pg.override_gradient("Relu", **guided),
        pytest.raises(TypeError, match="not linear in dy"),
    ):
        pg.jvp(pg.relu, [1.0], [1.0])


@pytest.mark.parametrize("wrong", [{"z": abs}, {"x": lambda dy, axis: dy}])
def test_a_gradient_names_only_values_of_its_kernel(wrong):
    with pytest.raises(ValueError, match="gradient of Exp"):
        pg.register_gradient("Exp", **wrong)


def test_a_tape_saves_only_values_that_gradients_name(backend):
    x = pg.ones((3,))
    tape = Tape()
    tape.watch(x)
    with taping((tape,)):
        y = pg.square(x)  # the gradient saves x, not y
        seen = weakref.ref(y._data)
        z = pg.exp(y) + y  # Exp saves its own output, Add nothing
        del y
        gc.collect()
        assert seen() is None
    assert z.shape == (3,)
    assert [node.plan.kernel.name for node in tape.nodes] == ["Square", "Exp", "Add"]


def test_a_tensor_that_a_tape_saved_may_be_disposed(backend):
    def f(x):
        y = pg.square(x)
        z = y * y
        y.dispose()
        with pytest.raises(ValueError, match="has been disposed"):
            y + 1
        return z

    assert pg.grad(f)(2.0).item() == 32.0


def test_a_pullback_runs_in_another_thread(backend):
    _, pullback = pg.vjp(plain, 0.7)
    found = []
    thread = threading.Thread(target=lambda: found.append(pullback(1.0)[0].item()))
    thread.start()
    thread.join()
    assert found == [pullback(1.0)[0].item()]


def test_operations_on_constants_are_not_recorded(backend):
    """docs/guide.md suggests ``stop_gradient`` in place of a no-gradient block."""
    tapes = []

    def net(params, x):
        tapes.append(context.tapes()[-1])
        return pg.sum(pg.tanh(params["w"] * x))

    def loss(params, x):
        target = net(pg.tree.map(pg.stop_gradient, params), x)
        nodes.append(len(tapes[-1].nodes))
        return (net(params, x) - target) ** 2 + target * params["w"]

    nodes = []
    gradient = pg.grad(loss)({"w": pg.asarray(0.5)}, pg.asarray(2.0))
    assert nodes == [0]
    assert gradient["w"].item() == pytest.approx(np.tanh(1.0), rel=1e-5)
