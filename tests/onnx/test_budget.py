"""Small model files that would cost huge amounts of bytes, nodes, seconds or depth."""

import os
import resource
import time

import numpy as np
import onnx
import plugrad as pg
import pytest
from google.protobuf.internal import encoder
from onnx import TensorProto, helper
from plugrad_onnx import ModelError, load
from plugrad_onnx.reader.wire import MESSAGE_BYTES, charge

from tests.fuzz.mutations import messages
from tests.onnx.files import CUSTOM_OPSET, X, Y, external, graph, node
from tests.onnx.networks import image, model


def test_many_tensors_in_one_region_of_a_file_exceed_the_budget(tmp_path):
    size = 2**24
    tensors = [
        external(f"w{i}", [size // 4], location="big.bin", length=size)
        for i in range(200)
    ]
    proto = graph(node("Add", "x w0", "y"), initializers=tensors)
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(size)
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="bytes are needed, but the budget allows"):
        load(tmp_path / "model.onnx")


def test_one_file_under_many_names_exceeds_the_budget(tmp_path):
    size = 2**24
    tensors = [
        external(f"w{i}", [size // 4], location="./" * i + "d", length=size)
        for i in range(200)
    ]
    proto = graph(node("Add", "x w0", "y"), initializers=tensors)
    (tmp_path / "d").write_bytes(bytes(size))
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="bytes are needed, but the budget allows 40"):
        load(tmp_path / "model.onnx")


def test_the_caller_sets_the_budget(tmp_path):
    data = image().SerializeToString()
    with pytest.raises(ModelError, match=r"nodes or more, .* the budget allows 10;"):
        load(data, budget=pg.Budget(nodes=10))
    with pytest.raises(ModelError, match="seconds of processor time, but the budget"):
        load(data, budget=pg.Budget(seconds=0))
    with pytest.raises(ModelError, match="are needed, but the budget allows 100;"):
        load(data, budget=pg.Budget(bytes=100))
    nodes = [node("Neg", f"t{i}", f"t{i + 1}") for i in range(2000)]
    nodes[0].input[0], nodes[-1].output[0] = "x", "y"
    assert load(graph(*nodes), budget=pg.Budget(nodes=2000))([2.0]).tolist() == [2.0]


def field(number, content):
    """Return an encoded protobuf field with the given content."""
    return bytes([number << 3 | 2]) + encoder._VarintBytes(len(content)) + content


@pytest.mark.parametrize(
    ("wrap", "what"),
    [
        (lambda rows: rows(1), "nodes of a graph"),
        (lambda rows: field(1, rows(5)), "attributes of a node"),
        (lambda rows: field(11, field(2, field(1, field(2, rows(1))))), "sizes"),
        (lambda rows: field(15, rows(1)), "sparse tensors"),
    ],
)
def test_empty_messages_are_charged_before_they_are_parsed(wrap, what):
    """Two bytes of a file become several hundred bytes of memory."""
    data = field(7, wrap(lambda number: bytes([number << 3 | 2, 0]) * 2**18))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match="bytes are needed, but the budget allows"):
        load(data, budget=pg.Budget(bytes=2**25))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16  # KiB


def test_every_message_of_a_model_is_charged():
    """The number of charged messages equals the number that protobuf creates."""
    data = image().SerializeToString()
    budget = pg.Budget.started(pg.Budget(bytes=10**9), "load")
    charge(data, budget)
    count = len(messages(onnx.ModelProto.FromString(data))) - 1
    assert not budget.affords(10**9 - MESSAGE_BYTES * count)
    assert budget.affords(10**9 - MESSAGE_BYTES * count - 10**5)


def test_a_pipe_is_not_a_model(tmp_path):
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=r"model.onnx' is a pipe, not a regular file"):
        load(tmp_path / "model.onnx")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.onnx")


@pytest.mark.parametrize("place", ["graph", "function", "branch"])
def test_inference_does_not_trust_declared_sizes(place):
    """ONNX's inference makes an axis for each declared element of Expand's shape."""
    huge = helper.make_tensor_value_info("s", TensorProto.INT64, [10**8])
    expand = node("Expand", "x s", "y")
    functions = []
    if place == "function":
        opsets = [helper.make_opsetid("", 9)]
        inputs = ["a", "b"]
        nodes = [node("Expand", "a b", "c")]
        functions = [helper.make_function("custom", "F", inputs, ["c"], nodes, opsets)]
        expand = helper.make_node("F", ["x", "s"], ["y"], domain="custom")
    if place == "branch":
        branch = helper.make_graph([expand], "branch", [], [Y])
        test = helper.make_node("Cast", ["x"], ["c"], to=TensorProto.BOOL)
        expand = node("If", "c", "y", then_branch=branch, else_branch=branch)
    nodes = [test, expand] if place == "branch" else [expand]
    net = helper.make_graph(nodes, "net", [X, huge], [Y])
    opsets = [helper.make_opsetid("", 9), CUSTOM_OPSET]
    proto = helper.make_model(net, opset_imports=opsets, functions=functions)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    load(proto, backend="cpu")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # KiB


CHAINS = {
    "Mul": "Mul (c{i}, factor)",
    "Add": "Add (c{i}, factor)",
    "BatchNormalization": "BatchNormalization (c{i}, scale, scale, scale, scale)",
    "Relu": "Relu (c{i})",
}


def chain(op, count):
    rows = [
        f"c{i} = Conv (x{i}, w)\nx{i + 1} = {CHAINS[op].format(i=i)}\n"
        for i in range(count)
    ]
    weights = {"w": np.ones((2, 2, 1, 1), "float32"), "scale": np.ones(2, "float32")}
    weights["factor"] = np.ones((1, 2, 1, 1), "float32")
    text = f"net (float[1, 2, 4, 4] x0) => (float[1, 2, 4, 4] x{count}) "
    return model(text + "{" + "".join(rows) + "}", weights).SerializeToString()


@pytest.mark.parametrize("op", CHAINS)
def test_passes_are_linear_in_nodes(op):
    """4,000 pairs load in about a second; quadratic passes took 44 seconds."""
    load(chain(op, 2))
    data = chain(op, 4000)
    start = time.process_time()
    loaded = load(data)
    assert time.process_time() - start < 6
    assert [*loaded.explain().changes.values()] == [4000]


def doubling(count):
    """Return text that joins a constant with itself ``count`` times."""
    rows = [f"a{i + 1} = Concat <axis = 0> (a{i}, a{i})" for i in range(count)]
    return "a0 = Constant <value_ints = [1]> ()\n" + "\n".join(rows)


# Constants that take few bytes in a file, and terabytes if they are folded.
HUGE_CONSTANTS = {
    "ConstantOfShape": "s = Constant <value_ints = [1099511627776]> () "
    "b = ConstantOfShape (s)",
    "Range": "s = Constant <value_int = 0> () "
    "e = Constant <value_int = 1099511627776> () "
    "d = Constant <value_int = 1> () b = Range (s, e, d)",
    "Tile": "s = Constant <value_ints = [1]> () "
    "e = Constant <value_ints = [1099511627776]> () b = Tile (s, e)",
    "Expand": "s = Constant <value_ints = [1]> () "
    "e = Constant <value_ints = [1099511627776]> () b = Expand (s, e)",
    "Pad": "s = Constant <value_ints = [1]> () "
    "e = Constant <value_ints = [0, 1099511627776]> () b = Pad (s, e)",
    "Concat": doubling(40) + "\nb = Identity (a40)",
}


@pytest.mark.parametrize("name", HUGE_CONSTANTS)
def test_huge_constants_are_not_computed_at_load(name):
    text = f"net (float[N] x) => (float[N] y, int64[M] z) {{ {HUGE_CONSTANTS[name]} \n"
    text += "y = Relu (x) z = Shape (b) }"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = load(model(text), backend="cpu")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 2**20  # KiB
    assert loaded.inputs[0].name == "x"
