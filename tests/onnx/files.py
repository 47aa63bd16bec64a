"""Build ONNX models without checking them, so that tests can put errors into them."""

import numpy as np
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT
X = helper.make_tensor_value_info("x", FLOAT, ["N"])
Y = helper.make_tensor_value_info("y", FLOAT, ["N"])


def graph(*nodes, initializers=(), opset=17, functions=(), more_opsets=()):
    """Return an unchecked model with input ``x`` and output ``y``."""
    net = helper.make_graph(nodes, "net", [X], [Y], initializer=initializers)
    opsets = [helper.make_opsetid("", opset), *more_opsets]
    return helper.make_model(net, opset_imports=opsets, functions=functions)


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def tensor(name, dims, kind=FLOAT, raw=b""):
    return TensorProto(name=name, dims=dims, data_type=kind, raw_data=raw)


def external(name, dims, **entries):
    proto = TensorProto(name=name, dims=dims, data_type=FLOAT)
    proto.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        proto.external_data.add(key=key, value=str(value))
    return proto


def function(name, *nodes, domain="custom"):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("custom", 1)]
    return helper.make_function(domain, name, ["a"], ["b"], nodes, opsets)


CUSTOM_OPSET = helper.make_opsetid("custom", 1)

ADD_W = node("Add", "x w", "y")


def write(folder, **entries):
    """Write w.bin and a model; ``entries`` say where its parameter is stored."""
    proto = graph(ADD_W, initializers=[external("w", [2], **entries)])
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    (folder / "w.bin").write_bytes(np.float32([1.0, 2.0]).tobytes())
    return path
