"""Functions that read values while they are differentiated warn or raise."""

import re
import warnings

import numpy as np
import plugrad as pg
import pytest

T = pg.asarray([1.0, 2.0])
V = pg.Variable([1.0, 2.0])


def constant(x):
    """Return a scalar that no tape tracks."""
    return pg.sum(pg.asarray(x, dtype="float32"))


READS = {
    "numpy()": lambda x: constant(np.sin(x.numpy())),
    "item()": lambda x: constant(x[0].item()) * 2.0,
    "tolist()": lambda x: constant(x.tolist()),
    "float()": lambda x: constant(float((x * x)[0])),
    "int()": lambda x: constant(int(x[0])),
    "complex()": lambda x: constant(complex(x[0]).real),
    "DLPack": lambda x: constant(np.from_dlpack(x)),
}
GRADIENTS = {
    "grad": lambda f: pg.grad(f)(T),
    "value_and_grad": lambda f: pg.value_and_grad(f)(T)[1],
    "grads": lambda f: pg.grads(f)(T)[0],
    "vjp": lambda f: pg.vjp(f, T)[1](pg.asarray(1.0))[0],
    "jvp": lambda f: pg.jvp(f, [T], [T])[1],
    "jacobian": lambda f: pg.jacobian(f)(T),
    "of a dict": lambda f: pg.grad(lambda p: f(p["w"]))({"w": T})["w"],
}


@pytest.mark.parametrize("name", READS)
def test_a_gradient_that_is_lost_by_a_read_warns_once(name):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        dx = pg.grad(READS[name])(T)
    assert dx.tolist() == [0, 0]
    (warning,) = found
    assert warning.filename == __file__
    place = f"values were read by {name} at {__file__}:"
    assert place in str(warning.message)
    for cure in ("the ops of plugrad", "custom_grad", "stop_gradient(x)"):
        assert cure in str(warning.message)


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_every_kind_of_gradient_warns(gradient):
    with pytest.warns(UserWarning, match=r"read by numpy\(\) at .*test_reads"):
        dx = GRADIENTS[gradient](READS["numpy()"])
    assert not dx.numpy().any()


def test_the_warning_comes_once_for_each_place():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            pg.grad(READS["item()"])(T)
    assert len(found) == 1


def test_np_asarray_warns_at_once_and_not_again():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        pg.grad(lambda x: constant(np.asarray(x)))(T)
    (warning,) = found
    assert "no gradient through NumPy" in str(warning.message)


def test_reading_a_variable_warns():
    with pytest.warns(UserWarning, match=r"read by numpy\(\)"):
        _, found = pg.variable_grads(lambda: constant(V.numpy()), [V])
    assert found[V].tolist() == [0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, found = pg.variable_grads(lambda: pg.sum(V * V) + V.numpy().sum(), [V])
    assert found[V].tolist() == [2, 4]


def test_a_read_inside_a_second_order_gradient_warns():
    def slope(x):
        return constant(pg.grad(lambda x: pg.sum(x**3))(x).numpy())

    with pytest.warns(UserWarning, match=r"read by numpy\(\)"):
        assert pg.grad(slope)(T).tolist() == [0, 0]


def logged(x):
    """Read values for a log and for a decision."""
    loss = pg.sum(x * x)
    lines = [f"loss {loss.item():.3f}", x.tolist(), float(loss)]
    return loss * 2 if loss.item() > 3 and lines else loss


def printed(x):
    loss = pg.sum(x * x)
    text = f"{loss:.2f} {loss} {x!r} {loss._repr_html_()}"
    return loss if loss and bool(loss > 0) and text else -loss


def on_purpose(x):
    return pg.sum(x) * pg.stop_gradient(x).numpy().sum()


@pg.custom_grad
def sine(x):
    return pg.asarray(np.sin(x.numpy())), lambda dy: dy * pg.cos(x)


HARMLESS_READS = {
    "a log": (logged, [4, 8]),
    "printing": (printed, [2, 4]),
    "stop_gradient": (on_purpose, [3, 3]),
    "stop_gradient alone": (lambda x: constant(pg.stop_gradient(x).numpy()), [0, 0]),
    "custom_grad": (lambda x: pg.sum(sine(x)), np.cos([1, 2])),
    "reads inside plugrad": (
        lambda x: pg.sum(pg.linalg.svdvals(pg.reshape(x, (1, 2)))),
        np.asarray([1, 2]) / np.sqrt(5),
    ),
    "a tensor from outside": (lambda x: pg.sum(x * T) + T.numpy().sum(), [1, 2]),
    "after vmap": (lambda x: pg.sum(pg.vmap(lambda x: x * x)(x)), [2, 4]),
    "under jit": (pg.jit(lambda x: pg.sum(x * x)), [2, 4]),
}


@pytest.mark.parametrize("name", HARMLESS_READS)
def test_reads_that_lose_nothing_are_silent(name):
    f, expected = HARMLESS_READS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(pg.grad(f)(T).numpy(), expected, rtol=1e-6)


# --- debug -----------------------------------------------------------------------


def test_debug_raises_where_a_tensor_is_read():
    reads = READS | {"np.asarray()": lambda x: constant(np.asarray(x))}
    for name, f in reads.items():
        what = rf"debug: {re.escape(name)} of a tensor of shape \([^)]*\) reads values"
        with (
            pg.debug(),
            pytest.raises(AssertionError, match=f"{what}.*test_reads") as error,
        ):
            pg.grad(f)(T)
        for cure in ("the ops of plugrad", "custom_grad", "stop_gradient(x)"):
            assert cure in str(error.value)


def test_debug_raises_even_if_the_result_depends_on_the_argument():
    with pg.debug(), pytest.raises(AssertionError, match=r"item\(\) of a tensor"):
        pg.grad(logged)(T)
    with pg.debug(), pytest.raises(AssertionError, match=r"numpy\(\) of a tensor"):
        pg.variable_grads(lambda: pg.sum(V * V) + V.numpy().sum(), [V])


@pytest.mark.parametrize("name", [name for name in HARMLESS_READS if name != "a log"])
def test_debug_accepts_harmless_reads(name):
    f, expected = HARMLESS_READS[name]
    with pg.debug():
        np.testing.assert_allclose(pg.grad(f)(T).numpy(), expected, rtol=1e-6)


def test_debug_accepts_reads_outside_of_gradients():
    with pg.debug():
        loss, dx = pg.value_and_grad(lambda x: pg.sum(x * x))(T)
        assert (loss.item(), dx.tolist(), T.numpy().sum()) == (5.0, [2, 4], 3.0)
        y, pullback = pg.vjp(lambda x: x * x, T)
        assert y.numpy().tolist() == [1, 4]
        assert pullback(y)[0].tolist() == [2, 16]
