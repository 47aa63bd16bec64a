"""Scopes of nodes: reports and errors name them, and overrides select by them."""

import numpy as np
import onnx
import plugrad as pg
import plugrad_onnx
import pytest
from onnx import TensorProto, helper

ADDED = np.array([1.0, -2.0, 3.0], np.float32)


@pytest.fixture(scope="module")
def model():
    """Return a model of two ReLUs; the second node has no name."""
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["a"], name="/features/0/Relu"),
            helper.make_node("Add", ["a", "c"], ["b"], name="/features/1/Add"),
            helper.make_node("Relu", ["b"], ["y"]),
        ],
        "scopes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
        [onnx.numpy_helper.from_array(ADDED, "c")],
    )
    opset = [helper.make_opsetid("", 20)]
    return plugrad_onnx.load(helper.make_model(graph, opset_imports=opset))


def loss(model):
    return lambda x: pg.sum(model(x))


X = [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("/features/*", [3.0, 0.0, 3.0]),
        ("/features/0/Relu", [3.0, 0.0, 3.0]),
        ("y", [3.0, 0.0, 3.0]),
        ("/features/1/*", [1.0, 0.0, 1.0]),
        (None, [9.0, 0.0, 9.0]),
    ],
)
def test_an_override_selects_nodes_by_name(model, backend, where, expected):
    rule = lambda dy, x: 3.0 * dy * (x > 0)
    with (
        pg.use_backend(backend),
        pg.override_gradient("Relu", where=where, x=rule),
    ):
        assert pg.grad(loss(model))(pg.asarray(X)).tolist() == expected
        fast = pg.jit(lambda x: pg.grad(loss(model))(x))
        for _ in range(3):
            assert fast(pg.asarray(X)).tolist() == expected


def test_explain_and_profile_name_nodes(model):
    with pg.profile() as p:
        y, pull_back = pg.vjp(lambda x: model(x), pg.asarray(X))
    scopes = [row["scope"] for row in pg.explain(y).rows if row["input"] in "xa"]
    assert scopes == ["/features/0/Relu", "/features/1/Add", "y"]
    assert {"/features/0/Relu", "/features/1/Add", "y"} <= {r.scope for r in p.records}
    del pull_back


def test_scopes_of_a_model_are_inside_those_of_the_caller(model):
    with pg.profile() as p, pg.name_scope("net"):
        model(pg.asarray(X))
    assert "net/features/0/Relu" in {record.scope for record in p.records}


def test_jit_names_nodes(model):
    f = pg.jit(lambda x: model(x))
    steps = f.explain(pg.asarray(X)).graph.steps
    assert "/features/0/Relu" in {step.scope for step in steps}


def test_an_error_names_the_node(model):
    with pytest.raises(ValueError, match="shape") as caught:
        model(pg.asarray([1.0, 2.0]))
    assert "in scope '/features/1/Add'" in caught.value.__notes__
