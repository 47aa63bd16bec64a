"""Kernels, gradients and backends that users register, look up and remove."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Backend, Kernel, Runtime, run, same
from plugrad_conformance.toy import toy
from plugrad_cpu.arrays import NumpyArrays


def test_get_kernel_returns_the_kernel_in_force(backend):
    before = pg.get_kernel("Exp", backend)
    user_kernel = lambda x: x
    pg.register_kernel("Exp", backend, user_kernel)
    assert pg.get_kernel("Exp", backend) is user_kernel
    assert pg.get_kernels_for_backend(backend)["Exp"] is user_kernel
    pg.unregister_kernel("Exp", backend)
    assert pg.get_kernel("Exp", backend) is before


def test_setup_and_dispose_of_a_kernel(backend):
    seen = []
    pg.register_kernel(
        "Exp",
        backend,
        lambda x: x,
        setup=seen.append,
        dispose=lambda: seen.append("disposed"),
    )
    assert hasattr(seen[0], "upload")
    pg.unregister_kernel("Exp", backend)
    assert seen[1:] == ["disposed"]


def test_removing_a_backend_disposes_its_kernels_and_closes_it():
    seen = []
    runtime = Runtime(arrays=NumpyArrays(), kernels={}, close=lambda: seen.append("c"))
    pg.register_backend(Backend("brief", open=lambda: runtime, priority=-9))
    pg.register_kernel("Exp", "brief", np.exp, dispose=lambda: seen.append("k"))
    with pg.use_backend("brief"):
        assert pg.exp(0.0).item() == 1.0
    pg.remove_backend("brief")
    assert seen == ["k", "c"]
    assert "brief" not in pg.backends()


def test_kernels_registered_before_their_backend_opens():
    runtime = Runtime(arrays=NumpyArrays(), kernels={"Exp": np.exp})
    pg.register_backend(Backend("later", open=lambda: runtime, priority=-9))
    try:
        pg.register_kernel("Exp", "later", lambda x: x * 0)
        with pg.use_backend("later"):
            assert pg.exp(1.0).item() == 0.0
        pg.unregister_kernel("Exp", "later")
        with pg.use_backend("later"):
            assert pg.exp(0.0).item() == 1.0
    finally:
        pg.remove_backend("later")


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_copy_registered_kernels():
    kernels = len(pg.get_kernels_for_backend("cpu"))
    runtime = Runtime(arrays=NumpyArrays(), kernels={})
    pg.register_backend(Backend("copy_of_cpu", open=lambda: runtime, priority=-9))
    try:
        pg.copy_registered_kernels("cpu", "copy_of_cpu")
        assert len(pg.get_kernels_for_backend("copy_of_cpu")) == kernels
        with pg.use_backend("copy_of_cpu"):
            assert pg.exp([0.0]).backend == "copy_of_cpu"
    finally:
        pg.remove_backend("copy_of_cpu")


def test_precedence_of_registered_and_overridden_gradients(backend):
    x = pg.asarray(2.0)
    slope = lambda: pg.grad(pg.square)(x).item()
    assert slope() == 4.0
    pg.register_gradient("Square", x=lambda dy: dy * 10)
    pg.register_gradient("Square", backend=backend, x=lambda dy: dy * 100)
    assert slope() == 100.0
    assert "test_registering" in pg.get_gradient("Square")["x"].origin
    with pg.override_gradient("Square", x=lambda dy: dy * 1000):
        assert slope() == 1000.0
        with pg.override_gradient("Square", x=lambda dy: dy * 5):
            assert slope() == 5.0
        assert slope() == 1000.0
    pg.unregister_gradient("Square", backend=backend)
    assert slope() == 10.0
    pg.unregister_gradient("Square")
    assert slope() == 4.0


def test_a_gradient_registered_inside_a_scope_has_effect_in_it(backend):
    x = pg.asarray(2.0)
    with pg.override_gradient("Exp", x=lambda dy: dy):
        assert pg.grad(pg.square)(x).item() == 4.0
        pg.register_gradient("Square", x=lambda dy: dy * 10)
        assert pg.grad(pg.square)(x).item() == 10.0
        pg.unregister_gradient("Square")
        assert pg.grad(pg.square)(x).item() == 4.0


def test_keyword_only_parameters_and_partial_functions(backend):
    import functools

    def gradient(dy, *, y, x):
        return dy * y + 0 * x

    with pg.override_gradient("Exp", x=gradient):
        assert pg.grad(pg.exp)(0.0).item() == 1.0
    partial = functools.partial(lambda k, dy, x: dy * k * x, 3.0)
    with pg.override_gradient("Exp", x=partial):
        assert pg.grad(pg.exp)(2.0).item() == 6.0


def test_a_kernel_with_an_unused_output(backend):
    contract = Kernel("test.Two(x) -> a, b", out=lambda x: (x, x))
    add = pg.get_kernel("Add", backend)
    pg.register_kernel(contract, backend, lambda x: (add(x, x), add(add(x, x), x)))
    pg.register_gradient("test.Two", x=lambda da, db: da * 2 + db * 3)
    from plugrad.plugin import run_many

    try:
        assert pg.grad(lambda x: run_many(contract, x)[1])(1.0).item() == 3.0
        both = lambda x: run_many(contract, x)[0] + run_many(contract, x)[1]
        assert pg.grad(both)(1.0).item() == 5.0
    finally:
        pg.unregister_gradient("test.Two")
        pg.unregister_kernel("test.Two", backend)


def test_a_kernel_of_a_user_may_run_ops_and_does_not_warn(backend):
    contract = Kernel("test.Inner(x)", out=same)

    def kernel(x):
        np.log(np.zeros(1, np.float32))  # NumPy would warn here
        return (pg.exp(np.asarray([0.0], np.float32)) + 1.0).numpy() * x

    with toy(extra={}), pg.use_backend("cpu"):
        pg.register_kernel(contract, "cpu", kernel)
        try:
            assert run(contract, pg.asarray([3.0])).tolist() == [6.0]
        finally:
            pg.unregister_kernel("test.Inner", "cpu")


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_the_state_of_the_engine():
    with toy(without=["Softmax"]), pg.use_backend("toy"):
        pg.softmax([[1.0, 2.0]])
        state = pg.engine()
    assert state.backend == "toy"
    assert {"cpu", "toy"} <= set(state.opened)
    assert state.fallback_counts["Softmax", "toy", "decomposition"] >= 1
    assert any(str(plugin).startswith("plugrad-cpu") for plugin in state.plugins)


def test_a_broken_setup_registers_nothing(backend):
    with pytest.raises(ZeroDivisionError):
        pg.register_kernel("Exp", backend, lambda x: x, setup=lambda arrays: 1 / 0)
    with pytest.raises(ValueError, match="was not registered by you"):
        pg.unregister_kernel("Exp", backend)
