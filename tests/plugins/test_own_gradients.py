"""Gradients that backends provide: which ones, their origins, and refused calls."""

import json
from importlib import import_module

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.tools import cli
from plugrad.plugin import backward_gradients, backward_kernels, runtime

PROVIDED = {"Erf", "Gelu", "GeluTanh", "LogSoftmax"}
PROVIDED |= {"Relu", "Sigmoid", "Softmax", "Tanh"}
X = np.ones((2, 3), np.float32)
REFUSED = {  # the kernel, its inputs, the error, and its message
    "a missing row": ("SoftmaxGrad", [X, X[:1]], ValueError, r"\(2, 3\).* \(1, 3\)"),
    "another rank": ("LogSoftmaxGrad", [X, X[0]], ValueError, r"\(2, 3\).* \(3,\)"),
    "no axis": ("SoftmaxGrad", [X[0, 0], X[0, 0]], ValueError, "rank 0"),
    "different shapes": ("ReluGrad", [X, X.T], ValueError, r"\(2, 3\).* \(3, 2\)"),
    "what would broadcast": ("TanhGrad", [X, X[:, :1]], ValueError, r"\(2, 1\)"),
    "integers": ("SigmoidGrad", [X.astype("int32")] * 2, TypeError, "'dy' must be flo"),
    "two dtypes": ("ErfGrad", [X, X.astype("float64")], TypeError, "'x' must be float"),
    "complex": ("ReluGrad", [X.astype("complex64")] * 2, TypeError, "'dy' must be flo"),
    "one input": ("SoftmaxGrad", [X], TypeError, "inputs"),
    "an attribute": ("SoftmaxGrad", [X, X], TypeError, "axis"),
}


@pytest.fixture(params=["cpu", "wasm", "opencl"])
def on(request):
    if request.param not in pg.backends():
        pytest.skip(f"plugrad-{request.param} is not installed")
    if request.param == "cpu" and not import_module("plugrad_cpu.native").LOADED:
        pytest.skip("plugrad-cpu has these kernels only in C, which is not in use")
    with pg.use_backend(request.param):
        yield request.param


def test_backends_provide_these_gradients(on):
    assert {*runtime(on).gradients} == PROVIDED


@pytest.mark.parametrize("kernel", sorted(PROVIDED))
def test_why_names_the_plugin_and_the_file(kernel, on, capsys):
    name, *_ = runtime(on).gradients[kernel]
    origin = pg.get_gradient(kernel)[name].origin
    assert origin.startswith(f"plugrad-{on} ")
    assert "(plugrad._src.autodiff.backward_kernels:" in origin
    assert cli.main(["why", kernel, "--backend", on, "--grad", "--json"]) == 0
    from_backend, from_core = json.loads(capsys.readouterr().out)["rules"]
    assert (from_backend["layer"], from_backend["distribution"]) == (
        "backend",
        f"plugrad-{on}",
    )
    assert f"plugrad_{on}" in from_backend["where"]  # the kernel function of the plugin
    assert (from_core["layer"], from_core["distribution"]) == ("core", "plugrad")


def test_some_backward_kernels_give_some_gradients():
    kernels = backward_kernels("mylib")
    assert {*backward_gradients(kernels)} == PROVIDED
    tanh = {"TanhGrad": kernels["TanhGrad"]}
    assert {*backward_gradients(tanh)} == {"Tanh"}


@pytest.mark.parametrize(
    ("op", "kernels"),
    [
        (pg.relu, ["ReluGrad"]),
        (pg.softmax, ["SoftmaxGrad"]),
        (pg.log_softmax, ["LogSoftmaxGrad"]),
        (
            lambda x: pg.softmax(x, axis=0),
            [
                "Multiply",
                "Sum",
                "Multiply",
                "Sub",
                "Greater",
                "Select",
                "Sum",
                "Neg",
                "Select",
            ],
        ),
    ],
)
def test_which_kernels_a_gradient_runs(op, kernels, on):
    _, pull_back = pg.vjp(op, pg.asarray(X))
    dy = pg.asarray(X)
    with pg.profile() as p:
        pull_back(dy)
    ran = [record.kernel for record in p.records]
    assert ran == [f"plugrad_{on}.{k}" if "Grad" in k else k for k in kernels]


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_calls_of_backward_kernels_are_refused(case, on):
    kernel, inputs, error, message = REFUSED[case]
    attrs = {"axis": 0} if case == "an attribute" else {}
    with pytest.raises(error, match=message):
        pg.run_kernel(f"plugrad_{on}.{kernel}", inputs, attrs)
