"""``debug`` and ``check_gradients`` find errors and say where they are."""

import inspect

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.engine import context
from plugrad.plugin import Kernel, broadcasted, gradients, run, same
from plugrad_conformance.check import require_dtypes
from plugrad_conformance.toy import toy

X = np.arange(1.0, 5.0, dtype=np.float32)
HERE = __file__


def line(offset=0):
    """Return the file and line of the caller, ``offset`` lines further on."""
    return f"{HERE}:{inspect.currentframe().f_back.f_lineno + offset} "


class WrongArray:
    """A native array that claims a given shape and dtype."""

    def __init__(self, values, shape=None, dtype=None):
        self.values = values
        self.shape = values.shape if shape is None else shape
        self.dtype = values.dtype if dtype is None else dtype


# Wrong implementations of the kernel Add, and the error message.
BROKEN = [
    (lambda a, b: (a + b)[:2], r"returned float32\[2\], but its contract says .*\[4\]"),
    (lambda a, b: (a + b) > 0, r"returned bool\[4\], but its contract says float32"),
    (lambda a, b: np.float64(1) * (a + b), "returned float64"),
    (
        lambda a, b: WrongArray(a, shape=[4]),
        r"shape \[4\], which is not a tuple of int",
    ),
    (lambda a, b: WrongArray(a, shape=(4.0,)), r"which is not a tuple of int"),
    (lambda a, b: WrongArray(a, dtype=np.dtype(">f4")), "dtype"),
    (
        lambda a, b: WrongArray(a, dtype=np.dtype("M8[s]")),
        "which plugrad does not support",
    ),
]


@pytest.mark.parametrize(("function", "message"), BROKEN)
def test_a_kernel_that_breaks_its_contract(function, message):
    def add(a, b):
        return function(a.astype(np.float64) if "64" in message else a, b)

    with toy(extra={"Add": add}), pg.use_backend("toy"), pg.debug():
        x = pg.asarray(X)
        location = line(2)
        with pytest.raises(AssertionError, match=message) as error:
            x + x
    text = str(error.value)
    assert text.startswith("add: Add on 'toy', the implementation of user (")
    assert "test_debug:" in text
    assert "inputs: float32[4], float32[4]" in text
    assert location + "`x + x`" in text


def test_right_kernels_pass(backend):
    with pg.debug(leaks=True) as d:
        x = pg.asarray(X)
        for f in (
            lambda x: pg.softmax(x),
            lambda x: pg.fused.matmul(
                pg.reshape(x, (2, 2)), pg.ones((2, 2)), activation="relu"
            ),
            lambda x: pg.top_k(x, k=2)[0],
            lambda x: pg.where(x > 2, pg.log(x), 0.0),
            lambda x: x[1:] * 2 - pg.mean(x),
        ):
            y, pull_back = pg.vjp(f, x)
            pull_back(pg.ones_like(y))
        pg.unique_values(x)
        x.to("cpu")
        del x, y, pull_back
        assert d.left() == []
    assert context.current().observers == ()


def test_a_decomposition_that_breaks_its_contract(backend):
    kernel = Kernel("test.Wrong(x)", out=same)
    kernel.decomposition = lambda x: x > 0
    with pg.debug():
        message = r"test.Wrong on .*, the decomposition of the contract \(.*test_debug"
        with pytest.raises(AssertionError, match=message):
            run(kernel, pg.asarray(X))


# --- finite values ---------------------------------------------------------------


def test_values_that_are_not_finite(backend):
    x = pg.asarray([1.0, 0.0, 2.0, -1.0])
    with pg.debug():
        location = line(2)
        with pytest.raises(FloatingPointError) as error:
            pg.log(x)
        with pytest.raises(FloatingPointError, match=r"returned inf at \(\)"):
            pg.exp(1000.0)
    text = str(error.value)
    assert text.startswith(f"log: Log on '{backend}', the implementation of ")
    assert "returned -inf at (1,) and 1 more values that are not finite" in text
    assert location in text


FROM_INPUTS = [
    lambda: pg.exp(pg.asarray([float("inf")])),
    lambda: pg.asarray([float("nan")]) * 2,
    lambda: pg.full((2,), float("inf")),
    lambda: pg.pad(pg.ones((2,)), [(1, 1)], constant_values=float("-inf")),
    lambda: pg.asarray([1, 2]) * 3,
]


@pytest.mark.parametrize("f", FROM_INPUTS)
def test_results_of_infinite_inputs_may_be_infinite(f, backend):
    with pg.debug():
        f()


def test_finite_values_are_an_option(backend):
    with pg.debug(finite=False):
        assert pg.log(0.0).item() == -np.inf


def test_infinities_inside_a_decomposition_are_allowed(backend):
    hidden = Kernel("test.Hidden(x)", out=same)
    hidden.decomposition = lambda x: pg.where(x > 0, pg.log(x), x)
    with pg.debug():
        x = pg.asarray([-1.0, 1.0])
        assert run(hidden, x).tolist() == [-1.0, 0.0]
        assert pg.grad(lambda x: pg.sum(pg.where(x > 0, x, 0.0)))(x).tolist() == [0, 1]


# --- gradients -------------------------------------------------------------------


def test_a_gradient_that_is_not_finite_names_the_forward_line(backend):
    lines = []

    def f(x):
        lines.append(line(1))
        return pg.sum(pg.sqrt(x))

    with pg.debug(), pytest.raises(FloatingPointError) as error:
        pg.grad(f)(pg.asarray([0.0, 1.0]))
    text = str(error.value)
    assert "in the gradient of Sqrt for 'x', from plugrad (plugrad._src.ops." in text
    assert f"of the run at {lines[0]}`return pg.sum(pg.sqrt(x))`" in text


def test_a_gradient_of_another_shape_names_the_forward_line(backend):
    def f(x):
        locations.append(line(1))
        return pg.sum(pg.exp(x))

    locations = []
    with (
        pytest.raises(ValueError, match="gradient of Exp for 'x', from user") as error,
        pg.debug(),
        pg.override_gradient("Exp", x=lambda dy: pg.ones((3,))),
    ):
        pg.grad(f)(pg.asarray(X))
    _link, note = error.value.__notes__
    assert note.startswith("debug: gradient of Exp for 'x'")
    assert f"of the run at {locations[0]}" in note


def test_an_error_inside_a_kernel_is_noted():
    def crash(x):
        raise ZeroDivisionError("in the kernel")

    with toy(extra={"Exp": crash}, without=["Softmax"]), pg.use_backend("toy"):
        location = line(2)
        with pytest.raises(ZeroDivisionError) as error, pg.debug():
            pg.softmax(pg.asarray(X))
    assert error.value.__notes__ == [
        f"debug: in Exp on 'toy', called at {location}`pg.softmax(pg.asarray(X))`"
    ]
    assert context.running() is None


# --- memory left behind ----------------------------------------------------------


def test_a_leak_is_reported_with_kernel_and_line(backend):
    x = pg.asarray(X)
    kept = []
    location = line(4)

    def f():
        for _ in range(2):
            kept.append(x + x)
        return pg.exp(x)

    message = "debug: 32 bytes that were made in the block are still held"
    with pytest.raises(AssertionError, match=message) as error, pg.debug(leaks=True):
        f()
    (row,) = str(error.value).splitlines()[1:]
    assert row == f"  2 x Add on '{backend}', 32 bytes, made at {location}" + (
        "`kept.append(x + x)`"
    )


def test_kept_and_disposed_tensors_and_variables_are_no_leaks(backend):
    x = pg.asarray(X)
    v = pg.Variable(x)
    with pg.debug(leaks=True) as d:
        y = pg.keep(x + x)
        v.assign(x * y)
        z = x - y
        assert [row[:2] for row in d.left()] == [("Sub", backend)]
        pg.dispose(z)
        tidied = []
        with pg.tidy():
            tidied.append(x / y)
    assert y.tolist() == (2 * X).tolist()


def test_tensors_that_a_tape_saved_are_leaks(backend):
    x = pg.asarray(X)
    pullbacks = []
    with pytest.raises(AssertionError, match="Exp on"), pg.debug(leaks=True):
        pullbacks.append(pg.vjp(lambda x: pg.exp(x) * 2.0, x)[1])


def test_views_of_earlier_tensors_are_no_leaks_on_cpu():
    with pg.use_backend("cpu"):
        x = pg.asarray(X)
        with pg.debug(leaks=True):
            view = pg.reshape(x, (2, 2))
    assert view.shape == (2, 2)


def test_an_error_is_raised_instead_of_leaks(backend):
    kept = []

    def fail():
        kept.append(pg.asarray(X) + 1.0)
        raise KeyError

    with pytest.raises(KeyError), pg.debug(leaks=True):
        fail()


# --- check_gradients -------------------------------------------------------------


def wrong_gradient(x, y):
    """Return x * y, with a gradient that is doubled in the second element of y."""
    f = pg.custom_grad(
        lambda x, y: (x * y, lambda dy: (dy * y, dy * x * pg.asarray([1.0, 2.0, 1.0])))
    )
    return f(x, y)


def wrong_second_gradient(x):
    """Return x**3, with a right first but wrong second gradient: ``x`` is constant."""
    return pg.custom_grad(
        lambda x: (x**3, lambda dy: dy * 3 * pg.stop_gradient(x) ** 2)
    )(x)


CUBE = Kernel("test.Cube(x, w)", out=broadcasted, broadcasts=True)
CUBE.decomposition = lambda x, w: x**3 * w
gradients(CUBE, x=lambda dy, x, w: dy * 3 * x**2 * w, w=lambda dy, x: dy * x**3)

RIGHT = [
    (pg.tanh, [[0.5, -1.0]]),
    (lambda x: pg.sum(x * x), [np.arange(6).reshape(2, 3)]),
    (lambda x, y: (x * y, [pg.exp(x)]), [[0.5, 1.0], 2.0]),
    (lambda x, y: run(CUBE, x, y), [np.ones((2, 3)) * 1.5, [1.0, 2.0, 3.0]]),
    (lambda z: z * z * pg.conj(z), [np.array([1 + 2j, -0.5j])]),
    (lambda x: pg.softmax(x), [pg.asarray(X)]),
    (lambda x: x * x, [pg.Variable(X)]),
]


@pytest.mark.parametrize(("f", "xs"), RIGHT)
def test_right_gradients_pass(f, xs, backend):
    if any(np.iscomplexobj(x) for x in xs if isinstance(x, np.ndarray)):
        require_dtypes(backend, "complex128")
    pg.check_gradients(f, *xs)


def test_a_wrong_gradient_is_reported_by_argument_and_element(backend):
    xs = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
    with pytest.raises(AssertionError) as error:
        pg.check_gradients(wrong_gradient, *xs)
    head, argument, element = str(error.value).splitlines()
    assert head.startswith("check_gradients: order 1: along a random direction the")
    assert "finite differences" in head
    assert "rtol=1e-05" in head
    assert argument.startswith("  argument 1: ")
    assert element.startswith("    its element (1,): ")
    got, expected = map(float, element.partition("): ")[2].split(" against "))
    np.testing.assert_allclose(got, 2 * expected, rtol=1e-6)


def test_a_wrong_second_gradient_is_found(backend):
    pg.check_gradients(wrong_second_gradient, [1.0, 2.0], order=1)
    with pytest.raises(AssertionError, match="order 2"):
        pg.check_gradients(wrong_second_gradient, [1.0, 2.0])


def test_tolerances_and_bad_arguments(backend):
    nearly = pg.custom_grad(lambda x: (x * x, lambda dy: dy * x * 2.001))
    with pytest.raises(AssertionError):
        pg.check_gradients(nearly, [1.0, 2.0], order=1)
    pg.check_gradients(nearly, [1.0, 2.0], order=1, rtol=1e-2, eps=1e-5)
    nan = pg.custom_grad(lambda x: (x * x, lambda dy: dy * float("nan")))
    with pytest.raises(AssertionError, match="give nan"):
        pg.check_gradients(nan, [1.0, 2.0])
    with pytest.raises(ValueError, match="check_gradients: order must be 1 or 2, got"):
        pg.check_gradients(pg.exp, [1.0], order=3)
    with pytest.raises(TypeError, match="must return tensors"):
        pg.check_gradients(lambda x: 1.0, [1.0])


def test_a_backend_without_float64():
    with toy(dtypes=("float32", "int32", "bool")), pg.use_backend("toy"):
        pg.check_gradients(lambda x: pg.tanh(x) * x, [0.5, -1.0, 2.0])
        with pytest.raises(AssertionError):
            pg.check_gradients(wrong_gradient, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0])


@pytest.mark.parametrize(
    ("f", "options", "error", "message"),
    [
        (pg.argmax, {}, TypeError, "f must return floating tensors, got int32"),
        (pg.exp, {"eps": 0}, ValueError, "eps 0 and rtol 1e-05 must be positive"),
        (pg.exp, {"rtol": -1.0}, ValueError, "rtol -1.0 must be positive"),
        (3, {}, TypeError, "expected a function, got 3"),
    ],
)
def test_what_check_gradients_cannot_check(f, options, error, message):
    with pg.use_backend("cpu"), pytest.raises(error, match=message):
        pg.check_gradients(f, [1.0, 2.0], **options)
