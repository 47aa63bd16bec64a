"""Kernel errors: a replay raises the same as eager mode, even for unused results."""

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin
from plugrad.plugin import contracts
from plugrad_conformance.misuse import outcome, right_calls, with_other_values
from plugrad_conformance.toy import only_primitives

from .compiling import Compiler, compiling

# Kernels that raise if LAPACK's iterations diverge. No matrix is known to cause this.
ALWAYS_CONVERGING = {"Eig", "Eigh", "Eigvals", "Eigvalsh", "Svd", "Svdvals"}
CHECKED_INPUTS = [
    (name, checked)
    for name, kernel in sorted(contracts().items())
    if name in right_calls() and name not in ALWAYS_CONVERGING
    for checked in kernel.checks
]


def error(f, *args):
    """Return the class and the message of the error of a call, or None."""
    try:
        pg.tree.map(lambda y: y.numpy(), f(*args))
    except Exception as error:
        return type(error), str(error)
    return None


def bad_inputs(name, checked):
    """Return inputs that the kernel refuses because of the values of one of them."""
    for key, wrong in with_other_values(name):
        if key == checked and outcome(name, wrong).error is not None:
            return wrong.inputs
    raise AssertionError(f"{name} accepts all values of {checked}")


def with_unused_result(name):
    """Return a function that runs a kernel and does not use its result."""
    attrs = right_calls()[name].attrs

    def f(*xs):
        pg.run_kernel(name, list(xs), attrs)
        return [pg.identity(x) for x in xs if x is not None]

    return f


def check_equal_errors(name, checked):
    """Check that a replay raises the same as eager mode; return the jitted function."""
    f = with_unused_result(name)
    jitted = pg.jit(f)
    good = right_calls()[name].inputs
    bad = bad_inputs(name, checked)
    good, bad = ([x if x is None else pg.asarray(x) for x in xs] for xs in (good, bad))
    for _ in range(4):
        jitted(*good)
    expected = error(f, *bad)
    assert expected is not None
    for _ in range(2):
        assert error(jitted, *bad) == expected
    assert error(jitted, *good) is None
    return jitted


@pytest.mark.parametrize(("name", "checked"), CHECKED_INPUTS)
def test_a_kernel_whose_result_is_not_used_raises(name, checked):
    check_equal_errors(name, checked)


@pytest.mark.parametrize(("name", "checked"), CHECKED_INPUTS)
def test_a_compiler_does_not_lose_the_error(name, checked):
    with compiling(Compiler()):
        check_equal_errors(name, checked)


@pytest.mark.parametrize("name", ["GatherNd", "ScatterNd", "TensorScatterUpdate"])
def test_a_decomposition_raises(name):
    """The message is that of a kernel in the decomposition."""
    good = right_calls()[name].inputs
    bad = bad_inputs(name, "indices")
    with only_primitives(), pg.use_backend("primitives"):
        jitted = pg.jit(with_unused_result(name))
        for _ in range(4):
            jitted(*map(pg.asarray, good))
        with pytest.raises(IndexError, match="out of range"):
            jitted(*map(pg.asarray, bad))


def test_a_checked_matrix_may_be_returned():
    def f(m):
        pg.linalg.cholesky(m)
        return m

    jitted = pg.jit(f)
    unit = pg.eye(3)
    for _ in range(4):
        np.testing.assert_array_equal(jitted(unit).numpy(), np.eye(3))
    with pytest.raises(ValueError, match="not positive definite"):
        jitted(-unit)
    (step,) = jitted.explain(unit).graph.steps
    assert step.kernel.name == "Cholesky"


def test_inputs_of_checks_are_computed():
    """An unused step is kept if a check reads its result, and otherwise removed."""

    def f(x, i):
        pg.gather(x, i * 2 + 1)
        pg.gather(x * 2, [0, 1])  # known indices need no check
        return x

    jitted = pg.jit(f)
    x = pg.ones(4)
    i = pg.asarray(np.array([0, 1], np.int32))
    for _ in range(4):
        jitted(x, i)
    names = [step.kernel.name for step in jitted.explain(x, i).graph.steps]
    assert [name for name in names if name in ("GatherV2", "Take")] == ["Take"]
    with pytest.raises(IndexError, match="gather: index 5 is out of range"):
        jitted(x, i + 1)


def test_equal_checks_run_once():
    def f(m):
        pg.linalg.cholesky(m)
        pg.linalg.cholesky(m)
        return pg.linalg.cholesky(m)

    assert len(pg.jit(f).explain(pg.eye(2)).graph.steps) == 1


def test_each_variadic_input_is_checked():
    out = lambda *xs: xs[0]
    kernel = plugin.Kernel("errors.Positive(*xs: number)", checks="xs", out=out)

    def positive(*xs):
        if any((x <= 0).any() for x in xs):
            raise ValueError("positive: got a number that is not")
        return xs[0].copy()

    def f(x, y):
        plugin.run(kernel, x, y)
        return x

    pg.register_kernel(kernel, "cpu", positive)
    try:
        jitted = pg.jit(f)
        x = pg.ones(3)
        for _ in range(4):
            jitted(x, x)
        with pytest.raises(ValueError, match="positive: got"):
            jitted(x, -x)
    finally:
        pg.unregister_kernel(kernel.name, "cpu")


def test_the_contract_names_the_checked_inputs():
    kernel = plugin.Kernel("errors.Many(a, b, c)", checks=("a", "c"))
    assert kernel.checks == ("a", "c")
    assert plugin.Kernel("errors.None(a)").checks == ()
    with pytest.raises(ValueError, match=r"must name inputs, got 'indexes'.*'indices'"):
        plugin.Kernel("errors.Wrong(x, indices)", checks="indexes")
