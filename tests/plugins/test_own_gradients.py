"""Gradients that backends bring: which, who is named, and what is refused."""

import json
from importlib import import_module

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.tools import cli
from plugrad.plugin import backward_gradients, backward_kernels, runtime

BROUGHT = {"Erf", "Gelu", "GeluTanh", "LogSoftmax"}
BROUGHT |= {"Relu", "Sigmoid", "Softmax", "Tanh"}
X = np.ones((2, 3), np.float32)
REFUSED = {  # kernel: inputs, the error, what it says
    "a row too few": ("SoftmaxGrad", [X, X[:1]], ValueError, r"\(2, 3\).* \(1, 3\)"),
    "another rank": ("LogSoftmaxGrad", [X, X[0]], ValueError, r"\(2, 3\).* \(3,\)"),
    "no axis": ("SoftmaxGrad", [X[0, 0], X[0, 0]], ValueError, "rank 0"),
    "a misfit": ("ReluGrad", [X, X.T], ValueError, r"\(2, 3\).* \(3, 2\)"),
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


def test_what_they_bring(on):
    assert {*runtime(on).gradients} == BROUGHT


@pytest.mark.parametrize("kernel", sorted(BROUGHT))
def test_why_names_the_plugin_and_the_file(kernel, on, capsys):
    name, *_ = runtime(on).gradients[kernel]
    origin = pg.get_gradient(kernel)[name].origin
    assert origin.startswith(f"plugrad-{on} ")
    assert "(plugrad._src.autodiff.backward_kernels:" in origin
    assert cli.main(["why", kernel, "--backend", on, "--grad", "--json"]) == 0
    own, core = json.loads(capsys.readouterr().out)["rules"]
    assert (own["layer"], own["distribution"]) == ("backend", f"plugrad-{on}")
    assert f"plugrad_{on}" in own["where"]  # the kernel function of the plugin
    assert (core["layer"], core["distribution"]) == ("core", "plugrad")


def test_a_part_of_the_backward_kernels_gives_a_part_of_the_gradients():
    kernels = backward_kernels("mylib")
    assert {*backward_gradients(kernels)} == BROUGHT
    tanh = {"TanhGrad": kernels["TanhGrad"]}
    assert {*backward_gradients(tanh)} == {"Tanh"}


@pytest.mark.parametrize(
    ("op", "parts"),
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
def test_which_kernels_a_gradient_runs(op, parts, on):
    _, pull_back = pg.vjp(op, pg.asarray(X))
    dy = pg.asarray(X)
    with pg.profile() as p:
        pull_back(dy)
    ran = [record.kernel for record in p.records]
    assert ran == [f"plugrad_{on}.{k}" if "Grad" in k else k for k in parts]


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_calls_of_their_kernels_are_refused(case, on):
    kernel, inputs, error, says = REFUSED[case]
    attrs = {"axis": 0} if case == "an attribute" else {}
    with pytest.raises(error, match=says):
        pg.run_kernel(f"plugrad_{on}.{kernel}", inputs, attrs)
