"""Where a kernel runs: decomposition, host, fallback, cached copies, threads."""

import contextlib
import threading

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.engine.dispatch import fallback_counts
from plugrad.plugin import Backend, Kernel, same
from plugrad_conformance.check import check_gradients
from plugrad_conformance.toy import toy

X = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_a_missing_kernel_is_decomposed():
    names = ("bool", "int32", "float32", "float64")
    with toy(without=["Softmax", "Square"], dtypes=names), pg.use_backend("toy"):
        before = fallback_counts["Softmax", "toy", "decomposition"]
        np.testing.assert_allclose(pg.softmax(X).numpy().sum(1), 1, rtol=1e-6)
        assert fallback_counts["Softmax", "toy", "decomposition"] == before + 1
        check_gradients(pg.softmax, X)
        check_gradients(pg.square, X)


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_a_decomposition_is_one_node_where_the_kernel_has_a_gradient():
    with toy(without=["Square"]), pg.use_backend("toy"):
        with pg.override_gradient("Multiply", a=lambda dy: dy * 99, b=None):
            assert pg.grad(lambda x: pg.sum(pg.square(x)))(
                pg.asarray([1.0])
            ).tolist() == [2.0]
        with pg.override_gradient("Square", x=lambda dy: dy * 7):
            assert pg.grad(pg.square)(1.0).item() == 7.0


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_not_implemented_goes_on_as_if_the_kernel_were_missing():
    decline = {"Softmax": lambda logits, axis: NotImplemented}
    with toy(extra=decline), pg.use_backend("toy"):
        assert pg.softmax(X).shape == X.shape


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_the_declared_host_runs_missing_kernels():
    host = {"host": "cpu", "host_kernels": ["Exp"]}
    with toy(without=["Exp"], **host), pg.use_backend("toy"):
        y = pg.exp(X)
        assert y.backend == "toy"
        assert pg.grad(lambda x: pg.sum(pg.exp(x)))(X).tolist() == y.tolist()


DECLINING_KERNELS = {"Unique": lambda x, axis, sorted: NotImplemented}
HOST_CPU = {"host": "cpu"}
HOST_CASES = {  # (options of the toy backend, whether the host runs Unique)
    "lacking": ({"without": ["Unique"], **HOST_CPU}, True),
    "declining": ({"extra": DECLINING_KERNELS, **HOST_CPU}, True),
    "no host": ({"without": ["Unique"]}, False),
    "listed": ({"without": ["Unique"], **HOST_CPU, "host_kernels": ["Unique"]}, True),
    "not listed": ({"without": ["Unique"], **HOST_CPU, "host_kernels": []}, False),
}


@pytest.mark.thread_unsafe(reason="it registers for the process")
@pytest.mark.parametrize("row", HOST_CASES)
def test_kernels_without_decomposition_run_on_the_host(row):
    options, hosted = HOST_CASES[row]
    with toy(**options), pg.use_backend("toy"):
        before = fallback_counts["Unique", "toy", "host"]
        if hosted:
            values, _ = pg.unique_inverse(pg.asarray([3, 1, 3]))
            assert values.tolist() == [1, 3]
        else:
            with pytest.raises(pg.KernelNotFound, match="Unique"):
                pg.unique_inverse(pg.asarray([3, 1, 3]))
        assert fallback_counts["Unique", "toy", "host"] == before + hosted


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_the_host_runs_neither_decomposable_kernels_nor_those_of_plugins():
    plugin_kernel = Kernel("seams.Alone(x: number)", out=same)
    double = lambda x: x * 2
    with toy(without=["Softmax"], host="cpu"):
        pg.register_kernel(plugin_kernel, "cpu", double)
        try:
            with pg.use_backend("toy"):
                before = fallback_counts["Softmax", "toy", "decomposition"]
                pg.softmax(X)
                counted = fallback_counts["Softmax", "toy", "decomposition"]
                assert counted == before + 1
                with pytest.raises(pg.KernelNotFound, match=r"seams\.Alone"):
                    pg.run_kernel("seams.Alone", [X])
        finally:
            pg.unregister_kernel("seams.Alone", "cpu")


def test_a_missing_kernel_without_host_needs_an_allowed_fallback(monkeypatch):
    with toy(without=["Exp"]), pg.use_backend("toy"):
        with pytest.raises(
            pg.KernelNotFound, match=r"'toy' does not .*implemented on .*cpu"
        ):
            pg.exp(X)
        monkeypatch.setenv("PLUGRAD_FALLBACK", "warn")
        message = "Exp is missing on 'toy' and runs on 'cpu'"
        with pytest.warns(UserWarning, match=message) as caught:
            assert pg.exp(X).backend == "toy"
        assert caught[0].filename == __file__  # not a line in plugrad


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_backward_runs_where_forward_ran():
    seen = []
    with toy(gradients={"Exp": {"x": lambda dy, y: seen.append(1) or dy * y}}):
        with pg.use_backend("toy"):
            _, pullback = pg.vjp(pg.exp, 0.0)
        (dx,) = pullback(1.0)  # cpu is active, toy's gradient runs on toy
        assert (dx.backend, dx.item(), seen) == ("toy", 1.0, [1])


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_a_copy_on_another_backend_is_the_same_tensor_and_made_once():
    with toy() as arrays:
        w = pg.asarray([2.0])

        def f(w):
            with pg.use_backend("toy"):
                part = pg.sum(w * w)
            return part + pg.sum(w * 3.0)

        assert pg.grad(f)(w).tolist() == [7.0]
        before = arrays.uploads
        pg.grad(f)(w)
        pg.grad(lambda w: pg.sum(w.to("toy") * w))(w)
        assert arrays.uploads - before <= 3  # cotangents move; w does not
        assert w.to("toy").backend == "toy"


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_a_dtype_the_backend_lacks_is_an_error():
    with toy(dtypes=["float32"]), pytest.raises(TypeError, match="has no float64"):
        pg.asarray(X.astype(np.float64)).to("toy")


@pytest.mark.thread_unsafe(reason="it registers for the process")
@pytest.mark.parametrize(
    ("kernel", "inputs", "attrs"),
    [
        ("Cast", [X], {}),
        ("Fill", [], {"shape": 2, "value": 0}),
        ("Range", [], {"start": 0, "step": 1, "size": 2}),
        ("LinSpace", [], {"start": 0, "stop": 1, "num": 2}),
    ],
)
def test_a_kernel_by_name_makes_no_dtype_that_the_backend_lacks(kernel, inputs, attrs):
    attrs |= {"dtype": "float64"}
    assert pg.run_kernel(kernel, inputs, attrs).dtype == "float64"  # fills caches
    refused = pytest.raises(TypeError, match=f"{kernel}: backend 'toy' has no float64")
    with toy(dtypes=["float32"]), pg.use_backend("toy"), refused:
        pg.run_kernel(kernel, inputs, attrs)


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_threads_have_their_own_backend_and_no_tapes():
    with toy():
        seen = {}

        def work(name):
            with pg.use_backend(name):
                barrier.wait(timeout=5)
                seen[name] = pg.exp([1.0]).backend

        barrier = threading.Barrier(2)
        threads = [threading.Thread(target=work, args=(n,)) for n in ("cpu", "toy")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == {"cpu": "cpu", "toy": "toy"}


def test_a_user_kernel_replaces_the_backend_kernel_until_unregistered(backend):
    x = pg.asarray([1.0])
    pg.register_kernel("Exp", backend, pg.get_kernel("Log", backend))
    assert pg.exp(x).item() == 0.0
    pg.unregister_kernel("Exp", backend)
    assert pg.exp(x).item() == pytest.approx(np.e)
    with pytest.raises(ValueError, match="was not registered by you"):
        pg.unregister_kernel("Exp", backend)


def test_misspelt_names_get_a_suggestion():
    with pytest.raises(ValueError, match="'Conv2d'; did you mean 'Conv2D'"):
        pg.register_kernel("Conv2d", "cpu", abs)
    with pytest.raises(ValueError, match=r"does not fit Exp\(x: inexact\) -> y"):
        pg.register_kernel("Exp", "cpu", lambda x, y: x)
    with pytest.raises(pg.BackendUnavailable, match="'cpuu'; did you mean 'cpu'"):
        pg.set_backend("cpuu")


@pytest.mark.thread_unsafe(reason="it registers for the process")
def test_a_backend_registers_all_or_nothing():
    with (
        pytest.raises(pg.BackendUnavailable, match="did you mean 'Exp'") as caught,
        toy("half-good", extra={"Expp": abs}),
    ):
        pg.set_backend("half-good")
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="already registered"):
        pg.register_backend(Backend("cpu", open=dict))


@pytest.mark.parametrize("under", ["nothing", "tape", "profile", "override"])
def test_a_kernel_that_declines_is_called_once(under, backend):
    calls = []

    def decline(*xs, **attrs):
        calls.append(xs)
        return NotImplemented

    runs = {
        "nothing": pg.relu6,
        "tape": pg.grad(pg.relu6),
        "profile": pg.relu6,
        "override": pg.override_gradient("Relu6", x=lambda dy: dy)(pg.grad(pg.relu6)),
    }
    pg.register_kernel("Relu6", backend, decline)
    try:
        with pg.profile() if under == "profile" else contextlib.nullcontext():
            runs[under](pg.asarray(2.0))
    finally:
        pg.unregister_kernel("Relu6", backend)
    assert len(calls) == 1
