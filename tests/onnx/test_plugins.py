"""Ops of other domains, from ``plugrad_onnx.op`` or entry points, and functions."""

import sys
import types
from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import onnx
import plugrad as pg
import pytest
from onnx import helper
from onnx.parser import parse_model
from plugrad_onnx import ModelError, backend, load, op, registry

SWISH = """
<ir_version: 9, opset_import: ["": 17, "com.example": 1]>
net (float[N] x) => (float[N] y) { y = com.example.Swish <beta = 2.0> (x) }
"""
LOCAL = """
<ir_version: 9, opset_import: ["": 17, "local": 1]>
net (float[N] x) => (float[N] y) { y = local.Scaled <factor = 3.0> (x) }
<domain: "local", opset_import: ["": 17]>
Scaled <factor> (a) => (b) {
  f = Constant <value_float: float = @factor> ()
  t = Mul (a, f)
  b = Relu (t)
}
"""


@pytest.fixture
def table():
    """Restore the table of ops after the test."""
    before = {key: [*rows] for key, rows in registry._TABLE.items()}
    registry.load_plugins.cache_clear()
    yield
    registry._TABLE.clear()
    registry._TABLE.update(before)
    registry.load_plugins.cache_clear()


def test_an_op_of_another_domain(table):
    with pytest.raises(ModelError, match=r"Swish of com\.example, opset 1: this op"):
        load(parse_model(SWISH))

    @op("Swish", domain="com.example")
    def swish(x, *, beta=1.0):
        return x * pg.sigmoid(beta * x)

    loaded = load(parse_model(SWISH), backend="cpu")
    x = np.float32([1.0, -2.0])
    np.testing.assert_allclose(loaded(x).numpy(), x / (1 + np.exp(-2 * x)), rtol=1e-6)
    slope = pg.grad(lambda x: pg.sum(loaded(x)))(x).numpy()
    sigmoid = 1 / (1 + np.exp(-2 * x))
    np.testing.assert_allclose(
        slope, sigmoid + 2 * x * sigmoid * (1 - sigmoid), rtol=1e-5
    )


def test_an_entry_point_registers_ops(table, monkeypatch):
    module = types.ModuleType("plugrad_onnx_swish")
    source = """
import plugrad as pg
from plugrad_onnx import op

@op("Swish", domain="com.example")
def swish(x, *, beta=1.0):
    return x * pg.sigmoid(beta * x)
"""
    finder = types.SimpleNamespace(find_spec=lambda name, *_: spec(name, source))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    entries = EntryPoints([EntryPoint("swish", module.__name__, registry.GROUP)])
    chosen = lambda group: entries if group == "plugrad_onnx.ops" else EntryPoints()
    monkeypatch.setattr(registry, "entry_points", chosen)
    try:
        assert load(parse_model(SWISH))([0.0]).tolist() == [0.0]
    finally:
        sys.modules.pop(module.__name__, None)


def spec(name, source):
    """Return the spec of a module with this source text."""
    if name != "plugrad_onnx_swish":
        return None
    from importlib.machinery import ModuleSpec

    loader = types.SimpleNamespace(
        create_module=lambda spec: None,
        exec_module=lambda module: exec(source, module.__dict__),
    )
    return ModuleSpec(name, loader)


def test_the_newest_version_up_to_the_opset_runs(table):
    for since, sign in ((1, 1.0), (3, -1.0)):
        op("Signed", domain="d", since=since)(lambda x, *, s=sign: x * s)
    text = '<ir_version: 9, opset_import: ["": 17, "d": {}]> '
    text += "net (float[N] x) => (float[N] y) {{ y = d.Signed (x) }}"
    answers = [load(parse_model(text.format(v)))([2.0]).tolist() for v in (1, 2, 3, 4)]
    assert answers == [[2.0], [2.0], [-2.0], [-2.0]]


def test_local_functions_of_a_model():
    loaded = load(parse_model(LOCAL), backend="cpu")
    assert loaded([1.0, -1.0]).tolist() == [3.0, 0.0]


def test_the_backend_interface_of_onnx():
    node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    x = np.float32([-2.0, 4.0])
    for device in ("CPU", "wasm"):
        if backend.supports_device(device):
            (y,) = backend.run_node(node, [x], device)
            assert y.tolist() == [-1.0, 4.0]
    assert not backend.supports_device("CUDA")
    model = parse_model(LOCAL)
    assert backend.PlugradBackend.is_compatible(model)
    (y,) = backend.run_model(model, {"x": x})
    assert y.tolist() == [0.0, 12.0]
    assert isinstance(backend.prepare(model), onnx.backend.base.BackendRep)
