"""Bad input to the engine and to gradients raises clear errors and changes nothing."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Backend, Kernel, decomposition, gradients, run, same
from plugrad_conformance.toy import toy

BAD_GRAD = [
    (lambda x: x, ValueError, r"must return a scalar, got shape \(2,\)"),
    (lambda x: 1.0, TypeError, "f must return tensors, got float"),
    (lambda x: None, TypeError, "f must return tensors, got NoneType"),
    (lambda x: [x], TypeError, "f must return tensors, got list"),
    (lambda x: pg.sum(x).item(), TypeError, "f must return tensors, got float"),
    (lambda x: pg.sum(x) > 1, TypeError, "must return a floating scalar, got bool"),
]


@pytest.mark.parametrize(("f", "kind", "message"), BAD_GRAD)
def test_a_function_without_gradient_is_refused(f, kind, message, backend):
    with pytest.raises(kind, match=message):
        pg.grad(f)(pg.asarray([1.0, 2.0]))


BAD_DY = [
    (
        pg.ones((3,)),
        ValueError,
        r"dy must match .*shape \(2,\) float32, got shape \(3,\)",
    ),
    (
        pg.ones((2,), dtype="int32"),
        ValueError,
        "expected .* float32, got .* int32",
    ),
    (
        (pg.ones((2,)), pg.ones((2,))),
        ValueError,
        r"shape \(2,\) float32, got tuple of 2",
    ),
]


@pytest.mark.parametrize(("dy", "kind", "message"), BAD_DY)
def test_a_cotangent_that_does_not_fit(dy, kind, message, backend):
    with pytest.raises(kind, match=message):
        pg.grad(pg.exp)(pg.asarray([1.0, 2.0]), dy=dy)


def test_calls_with_nothing_to_differentiate_are_refused(backend):
    with pytest.raises(TypeError, match="one floating tensor among the arguments"):
        pg.grads(lambda *xs: pg.ones(()))(1, np.int64(2))
    with pytest.raises(TypeError, match="nothing; cast"):
        pg.vjp(lambda: pg.ones(()))
    with pytest.raises(TypeError, match="vjp: expected a function, got 3"):
        pg.vjp(3, 1.0)
    with pytest.raises(ValueError, match=r"one shape, got \(\), \(2,\); use concat"):
        pg.asarray([pg.ones(()), pg.ones(2)])


WRONG_GRADIENTS = [
    (lambda dy: pg.ones((3,)), r"Exp for 'x', from user.*got shape \(3,\)"),
    (lambda dy: pg.astype(dy, "float64"), "got shape .* float64"),
    (lambda dy: 1.0, "expected shape .*got float"),
    (lambda dy: None, "expected shape .*got NoneType"),
]


@pytest.mark.parametrize(("function", "message"), WRONG_GRADIENTS)
def test_a_gradient_of_the_wrong_kind_names_its_origin(function, message, backend):
    with (
        pg.override_gradient("Exp", x=function),
        pytest.raises(ValueError, match=message),
    ):
        pg.grad(lambda x: pg.sum(pg.exp(x)))(pg.asarray([1.0, 2.0]))


WRONG_CUSTOM = [
    (lambda x: x * 2, TypeError, r"must return \(value, grad_func\)"),
    (lambda x: (x, 1), TypeError, r"must return \(value, grad_func\)"),
    (lambda x: (1.0, lambda dy: dy), TypeError, "must return tensors, got float"),
    (
        lambda x: (x, lambda dy: (dy, dy)),
        ValueError,
        "needs one cotangent for each input: 1, got 2",
    ),
    (
        lambda x: (x, lambda dy: pg.ones((5,))),
        ValueError,
        r"custom_grad of .*<lambda>, tensor argument \[0\]: expected shape \(2,\)",
    ),
]


@pytest.mark.parametrize(("f", "kind", "message"), WRONG_CUSTOM)
def test_custom_gradients_that_do_not_fit(f, kind, message, backend):
    with pytest.raises(kind, match=message):
        pg.grad(lambda x: pg.sum(pg.custom_grad(f)(x)))(pg.asarray([1.0, 2.0]))


BAD_CALLS = [
    (
        lambda: pg.run_kernel("Add", [pg.ones(()), pg.asarray(1)], {}),
        TypeError,
        "Add: .*must be float32, .*got int32; the op add promotes",
    ),
    (lambda: pg.grad(3), TypeError, "grad: expected a function, got 3"),
    (lambda: pg.custom_grad(3), TypeError, "custom_grad: expected a function"),
    (lambda: pg.jvp(pg.exp, 1.0, [1.0]), TypeError, "xs must be a list of arguments"),
    (
        lambda: pg.jvp(pg.exp, [1.0], [1.0, 2.0]),
        ValueError,
        "jvp: vs must match xs: expected tuple of 1, got tuple of 2",
    ),
    (lambda: pg.set_backend(3), pg.BackendUnavailable, "set_backend: unknown .* 3"),
    (lambda: pg.register_backend("a"), TypeError, "expected a plugrad.plugin.Backend"),
    (lambda: pg.register_gradient("Add"), ValueError, "expected at least one gradient"),
    (lambda: pg.register_kernel("Add", "cpu", np.exp), ValueError, "takes 1 inputs"),
    (lambda: Kernel("test.A(*x, *y)"), ValueError, "only one input may be"),
    (lambda: pg.register_gradient("Expp", x=None), ValueError, "did you mean 'Exp'"),
    (lambda: pg.register_gradient("Exp", y=None), ValueError, "no input 'y'"),
    (lambda: pg.register_gradient("Exp", x=3), TypeError, "expected a function"),
    (
        lambda: pg.register_gradient("Exp", x=lambda dy, z: dy),
        ValueError,
        "'z' is not one of x, y",
    ),
    (
        lambda: pg.register_gradient("Exp", x=lambda x: x),
        ValueError,
        "take the cotangents, one for each output .1.; give them names",
    ),
    (
        lambda: pg.register_gradient("Exp", x=lambda: 0),
        ValueError,
        "take the cotangents",
    ),
    (
        lambda: pg.register_gradient("FusedConv2D", x=lambda dy: dy),
        ValueError,
        "a tape decomposes it",
    ),
    (
        lambda: pg.register_gradient("Exp", backend="gpu9", x=lambda dy: dy),
        pg.BackendUnavailable,
        "unknown backend 'gpu9'",
    ),
    (lambda: pg.unregister_gradient("Exp"), ValueError, "you have not registered"),
    (lambda: pg.unregister_gradient("Expp"), ValueError, "did you mean 'Exp'"),
    (lambda: pg.get_gradient("Expp"), ValueError, "did you mean 'Exp'"),
    (lambda: pg.register_kernel("Exp", "cpuu", np.exp), pg.BackendUnavailable, "'cpu'"),
    (lambda: pg.register_kernel("Exp", "cpu", 3), TypeError, "needs a function"),
    (lambda: pg.unregister_kernel("Expp", "cpu"), ValueError, "did you mean 'Exp'"),
    (lambda: pg.get_kernel("Expp", "cpu"), ValueError, "did you mean 'Exp'"),
    (lambda: pg.get_kernel("ReLU", "cpu"), ValueError, "did you mean 'Relu'"),
    (lambda: pg.use_backend("cpuu"), pg.BackendUnavailable, "did you mean 'cpu'"),
    (lambda: pg.remove_backend("cpuu"), pg.BackendUnavailable, "did you mean 'cpu'"),
    (lambda: pg.use_gradients("guidedd"), ValueError, "unknown pack 'guidedd'"),
    (lambda: run(Kernel("test.A(x)"), 1.0), TypeError, "'x' must be a Tensor, got fl"),
    (
        lambda: pg.run_kernel("Exp", {"y": 1.0}),
        TypeError,
        "lacks the input x and has n",
    ),
    (lambda: pg.run_kernel("Exp", 1.0), TypeError, "takes a list or a dict of inputs"),
    (lambda: pg.run_kernel("Exp", [], {}), TypeError, "got 0 inputs, expected Exp"),
    (
        lambda: pg.run_kernel("Exp", [pg.ones(())], {"axis": 1}),
        TypeError,
        "Exp: has no axis; it is Exp",
    ),
    (lambda: pg.set_backend(["cpu"]), pg.BackendUnavailable, r"unknown .* \['cpu'\]"),
    (lambda: pg.use_backend(np.ones(2)), pg.BackendUnavailable, r"array\(\[1., 1.\]\)"),
    (lambda: pg.remove_backend({}), pg.BackendUnavailable, r"unknown backend \{\}"),
    (lambda: pg.get_kernel("Exp", []), pg.BackendUnavailable, r"unknown backend \[\]"),
    (lambda: pg.ones(()).to([]), pg.BackendUnavailable, r"unknown backend \[\]"),
    (lambda: pg.remove_plugin(np.ones(2)), ValueError, "unknown plugin array"),
    (lambda: pg.use_gradients(["guided"]), ValueError, "unknown pack"),
    (
        lambda: pg.register_gradient("Exp", backend=[], x=lambda dy: dy),
        pg.BackendUnavailable,
        r"unknown backend \[\]",
    ),
    (
        lambda: pg.register_kernel("Exp", "cpu", np.exp, setup=3),
        TypeError,
        "setup must be a function or None, got 3",
    ),
    (
        lambda: pg.register_kernel("Exp", "cpu", np.exp, dispose="x"),
        TypeError,
        "dispose must be a function or None, got 'x'",
    ),
    (
        lambda: Kernel(["x", "y"]),
        TypeError,
        r"kernel \['x', 'y'\]: a signature is a str",
    ),
    (
        lambda: Kernel("test.A"),
        ValueError,
        r"'test.A': .* 'Name\(x, bias\?; axis: axis\) -> y'",
    ),
    (
        lambda: Kernel("test.A(x)", out=3),
        TypeError,
        "out and canonicalize: expected a func",
    ),
    (lambda: gradients("Exp", x=None), TypeError, "a Kernel, got 'Exp'; to replace"),
    (lambda: decomposition("Exp"), TypeError, "expected a Kernel, got 'Exp'"),
    (
        lambda: decomposition(Kernel("test.A(x)"))(3),
        TypeError,
        "a function with named parameters, got 3",
    ),
    (lambda: pg.jacobian(3), TypeError, "jacobian: expected a function, got 3"),
    (lambda: pg.jacobian(pg.exp, mode=[]), ValueError, r"jacobian: mode \[\]: use"),
    (lambda: pg.tidy(3), TypeError, "tidy: expected a function, got 3"),
    (lambda: pg.time(None), TypeError, "time: expected a function, got None"),
    (lambda: pg.time(dict, repeat=1.5), TypeError, "repeat must be an integer, got"),
    (lambda: pg.check_gradients(3, 1.0), TypeError, "expected a function, got 3"),
    (lambda: pg.check_gradients(pg.exp, "a"), TypeError, "xs must be numbers, got 'a'"),
    (
        lambda: pg.check_gradients(pg.exp, 1.0, eps="a"),
        TypeError,
        "check_gradients: eps must be a number, got 'a'",
    ),
    (
        lambda: pg.load(1),
        TypeError,
        "load: a path must be a str .* got 1",
    ),
    (lambda: pg.save(None, {}), TypeError, "save: a path must be a str .* got None"),
    (
        lambda: pg.profile().to_chrome_trace(1),
        TypeError,
        "to_chrome_trace: a path must be a str or an os.PathLike, got 1",
    ),
    (
        lambda: pg.from_dlpack(np.ones(2), copy="yes"),
        TypeError,
        "from_dlpack: copy must be True or False, got 'yes'",
    ),
    (
        lambda: pg.register_backend(Backend("Bad Name", open=dict)),
        ValueError,
        "invalid name 'Bad Name'",
    ),
    (
        lambda: pg.register_backend(Backend("nowhere", open=dict)),
        ValueError,
        "plugrad uses the name 'nowhere' itself; take another",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD_CALLS)
def test_bad_calls_have_clear_errors(call, kind, message, backend):
    with pytest.raises(kind, match=message):
        call()


def test_using_a_disposed_tensor_is_an_error(backend):
    x = pg.asarray([1.0])
    x.dispose()
    x.dispose()
    message = r"shape \(1,\) and dtype float32 has been disposed"
    for use in (x.numpy, lambda: x + x, lambda: pg.exp(x), lambda: 1.0 + x, x.item):
        with pytest.raises(ValueError, match=message):
            use()
    with pytest.raises(ValueError, match=message):
        pg.grad(lambda y: pg.sum(y * x))(pg.asarray([1.0]))
    assert repr(x) == "<disposed Tensor shape=(1,) dtype=float32>"


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_a_kernel_whose_backend_was_removed():
    with toy():
        scope = pg.use_backend("toy")
    with scope, pytest.raises(pg.KernelNotFound, match="'toy' has been removed"):
        pg.exp([1.0])


def test_a_failed_registration_leaves_nothing_behind(backend):
    contract = Kernel("test.Nothing(x)", out=same)
    with pytest.raises(ValueError, match="does not fit"):
        pg.register_kernel(contract, backend, lambda: 0)
    with pytest.raises(ZeroDivisionError):
        pg.register_kernel(contract, backend, np.exp, setup=lambda arrays: 1 / 0)
    with pytest.raises(pg.KernelNotFound, match=r"does not implement test\.Nothing"):
        run(contract, pg.ones(()))


def test_nothing_is_set_up_for_a_kernel_that_does_not_fit(backend):
    calls = []
    for name, function in (("Expp", np.exp), ("Exp", lambda: 0)):
        with pytest.raises(ValueError, match="register_kernel: "):
            pg.register_kernel(name, backend, function, setup=calls.append)
    assert not calls


def test_an_error_inside_f_leaves_no_tape_behind(backend):
    def f(x):
        pg.exp(x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pg.grad(f)(1.0)
    assert pg.exp(1.0)._tape_id is None


ASARRAY = [
    ([[1.0], [2.0, 3.0]], ValueError, "differ in length"),
    (["a", 1], TypeError, "cannot make a tensor of int; elements must be all str"),
    (object(), TypeError, "cannot make a tensor of object"),
    (2**31, OverflowError, "2147483648 does not fit into int32"),
    (1e300, OverflowError, "does not fit into float32"),
    (np.asarray(["2020-01-01"], "M8[D]"), TypeError, "is not supported"),
]


@pytest.mark.parametrize(("value", "kind", "message"), ASARRAY)
def test_values_that_cannot_become_tensors(value, kind, message, backend):
    with pytest.raises(kind, match=message):
        pg.asarray(value)


def test_only_a_tensor_with_one_element_converts_to_a_number(backend):
    x = pg.asarray([1.0, 2.0])
    for use in (bool, float, int, complex, pg.Tensor.item):
        with pytest.raises(ValueError, match=r"shape \(2,\)"):
            use(x)
    with pytest.raises(TypeError, match="only an integer tensor can be"):
        [1, 2][pg.asarray(1.0)]
    assert [1, 2][pg.asarray(1)] == 2
    assert (float(pg.asarray(1.5)), int(pg.asarray(3)), bool(pg.asarray(0))) == (
        1.5,
        3,
        False,
    )


@pytest.mark.parametrize("name", ["shape", "dtype"])
def test_shape_and_dtype_cannot_be_assigned(name, backend):
    x = pg.ones((2, 3))
    for change in (lambda: setattr(x, name, (3, 2)), lambda: delattr(x, name)):
        with pytest.raises(AttributeError, match=r"use reshape\(x, shape\) or astype"):
            change()
    assert (x.shape, x.dtype.name) == ((2, 3), "float32")


@pytest.mark.parametrize("transform", [lambda f: f, pg.grad], ids=["plain", "tape"])
@pytest.mark.parametrize("y", [None, 3.0, [1.0]])
def test_the_error_names_a_kernel_that_returns_no_array(y, transform, backend):
    kernel = lambda v: y
    pg.register_kernel("Relu", backend, kernel)
    try:
        with pytest.raises(
            TypeError, match=r"Relu.*from user.*test_bad_input.*returned"
        ):
            transform(pg.relu)(pg.asarray(1.0))
    finally:
        pg.unregister_kernel("Relu", backend)
