"""Models as files have them, unchecked: what is wrong with them is to be found."""

import numpy as np
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT
X = helper.make_tensor_value_info("x", FLOAT, ["N"])
Y = helper.make_tensor_value_info("y", FLOAT, ["N"])


def graph(*nodes, initializers=(), opset=17, functions=(), more=()):
    """Return a model of ``x`` and ``y``, unchecked."""
    net = helper.make_graph(nodes, "net", [X], [Y], initializer=initializers)
    opsets = [helper.make_opsetid("", opset), *more]
    return helper.make_model(net, opset_imports=opsets, functions=functions)


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def tensor(name, dims, kind=FLOAT, raw=b""):
    return TensorProto(name=name, dims=dims, data_type=kind, raw_data=raw)


def external(name, dims, **entries):
    one = TensorProto(name=name, dims=dims, data_type=FLOAT)
    one.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        one.external_data.add(key=key, value=str(value))
    return one


def function(name, *nodes, domain="mine"):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    return helper.make_function(domain, name, ["a"], ["b"], nodes, opsets)


MINE = helper.make_opsetid("mine", 1)

ADD_W = node("Add", "x w", "y")


def write(folder, **entries):
    """Write a model whose parameter is in w.bin, or where the entries say."""
    proto = graph(ADD_W, initializers=[external("w", [2], **entries)])
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    (folder / "w.bin").write_bytes(np.float32([1.0, 2.0]).tobytes())
    return path
