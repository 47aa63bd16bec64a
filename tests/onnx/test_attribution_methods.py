"""plugrad-attribution methods find the nodes of an ONNX model by their names."""

import numpy as np
import onnx
import plugrad_onnx
import pytest
from onnx import TensorProto, helper

attr = pytest.importorskip("plugrad_attribution", reason="needs plugrad-attribution")
RANDOM = np.random.default_rng(2)
X = RANDOM.normal(size=(1, 3, 8, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    """Return a network with a batch of one, as in many ONNX files."""
    shapes = {"w1": (4, 3, 3, 3), "b1": (4,), "w2": (64, 5), "b2": (5,)}
    arrays = [
        onnx.numpy_helper.from_array(RANDOM.normal(size=s).astype(np.float32), n)
        for n, s in shapes.items()
    ]
    arrays.append(onnx.numpy_helper.from_array(np.asarray([1, 64]), "shape"))
    relu = helper.make_node("Relu", ["a"], ["b"], name="/1/Relu")
    pool = helper.make_node(
        "MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]
    )
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
            relu,
            pool,
            helper.make_node("HardSwish", ["c"], ["d"], name="/3/HardSwish"),
            helper.make_node("Reshape", ["d", "shape"], ["e"]),
            helper.make_node("Gemm", ["e", "w2", "b2"], ["f"]),
            helper.make_node("Softmax", ["f"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        arrays,
    )
    opset = [helper.make_opsetid("", 20)]
    proto = helper.make_model(graph, opset_imports=opset)
    return plugrad_onnx.load(proto, optimize=False)


def test_a_node_is_the_result_of_its_scope(model):
    for name, size in (("/1/Relu", 8), ("/3/HardSwish", 4), ("/1/*", 8)):
        found = attr.grad_cam(model, X, 2, at=name, channel_axis=1)
        assert found.shape == (1, size, size)
    found = attr.patching(model, X, X + np.float32(1e-3), 2, at="/1/Relu")
    effect = found.effects["/1/Relu"].numpy().sum()
    change = (found.corrupted - found.clean).item()
    assert effect == pytest.approx(change, rel=0.05)


def test_contributions_of_a_model_with_a_fixed_batch_add_up(model):
    found = attr.deep_lift(model, X, 0.0, 2)
    change = (found.value - found.start).item()
    assert abs(found.gap.item()) < 1e-4 * abs(change)
