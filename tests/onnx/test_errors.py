"""Invalid models: the error lists every problem, and loading takes little memory."""

import os
import random
import time
import tracemalloc
from collections import Counter

import numpy as np
import onnx
import plugrad as pg
import pytest
from onnx import TensorProto, helper, numpy_helper
from plugrad_onnx import ModelError, load

from tests.onnx.files import (
    ADD_W,
    CUSTOM_OPSET,
    FLOAT,
    X,
    Y,
    external,
    function,
    graph,
    node,
    tensor,
    write,
)
from tests.onnx.networks import attention, image, model

CALL_NEXT_TWICE = [
    function(
        f"f{i}",
        helper.make_node(f"f{i + 1}", ["a"], ["t"], domain="custom"),
        helper.make_node(f"f{i + 1}", ["t"], ["b"], domain="custom"),
    )
    for i in range(40)
]
CALL_NEXT = [
    function(f"f{i}", helper.make_node(f"f{i + 1}", ["a"], ["b"], domain="custom"))
    for i in range(3000)
]
CALL_EACH_OTHER = {
    "a": function("A", helper.make_node("B", ["a"], ["b"], domain="custom")),
    "b": function("B", helper.make_node("A", ["a"], ["b"], domain="custom")),
}
BRANCH = helper.make_graph(
    [node("Relu", "nothing", "t")],
    "branch",
    [],
    [helper.make_tensor_value_info("t", FLOAT, ["N"])],
)

NOT_UTF8 = graph(node("Relu", "x", "spoiled"), node("Neg", "spoiled", "y"))
NOT_UTF8 = NOT_UTF8.SerializeToString().replace(b"spoiled", b"spoile\xff")

WRONG = {
    "text that is not UTF-8": (NOT_UTF8, ["is not UTF-8"]),
    "no name": (
        graph(node("Relu", "x", "y"), initializers=[tensor("", [0])]),
        ["an initializer has no name"],
    ),
    "not an ONNX file": (b"\xff\xfe no protobuf", ["it is not an ONNX file"]),
    "cycle": (
        graph(node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b", "y")),
        ["nodes in a cycle: Add -> Relu -> Add"],
    ),
    "missing input": (
        graph(node("Add", "x z", "y")),
        ["node 'Add': its input 'z' is not defined"],
    ),
    "missing input of a branch": (
        graph(node("If", "x", "y", then_branch=BRANCH, else_branch=BRANCH)),
        ["its input 'nothing' is not defined"],
    ),
    "missing output": (graph(node("Relu", "x", "z")), ["output 'y': no node computes"]),
    "defined twice": (
        graph(node("Relu", "x", "y"), node("Neg", "x", "y")),
        ["value 'y' is defined twice"],
    ),
    "all at once": (
        graph(
            node("Relu", "x", "a"),
            node("Frobnicate", "a", "b"),
            node("Cast", "b", "c", to=TensorProto.FLOAT8E5M2),
            node("Softmax", "c", "d", temperature=2.0),
            node("Concat", "d", "e"),
            node("Add", "e", "f"),
            node("LeakyRelu", "f", "g", alpha="steep"),
            node("TreeEnsemble", "g", "y", domain="ai.onnx.ml"),
            more_opsets=[helper.make_opsetid("ai.onnx.ml", 5)],
        ),
        [
            "node 'Frobnicate', op Frobnicate of ONNX, opset 17: this op is not",
            "op Cast of ONNX, opset 17: plugrad has no dtype FLOAT8E5M2: convert",
            "op Softmax of ONNX, opset 17: the attributes temperature are not",
            "op Concat of ONNX, opset 17: attribute axis is missing",
            "op Add of ONNX, opset 17: takes 2 inputs, got 1",
            "op LeakyRelu of ONNX, opset 17: attribute alpha must be of type FLOAT",
            "op TreeEnsemble of ai.onnx.ml, opset 5: this op is not supported; "
            "register a function with plugrad_onnx.op('TreeEnsemble', domain='ai",
        ],
    ),
    "dtype of an input": (
        helper.make_model(
            helper.make_graph(
                [node("Cast", "x", "y", to=FLOAT)],
                "net",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT8E4M3FN, [2])],
                [Y],
            )
        ),
        ["value 'x': plugrad has no dtype FLOAT8E4M3FN"],
    ),
    "opset": (graph(node("Relu", "x", "y"), opset=5), ["ONNX opset 5 is not"]),
    "opset of the future": (graph(node("Relu", "x", "y"), opset=999), ["opset 999"]),
    "too many outputs": (
        graph(node("Relu", "x", "y z")),
        ["op Relu of ONNX, opset 17: has at most 1 outputs, got 2"],
    ),
    "huge initializer": (
        graph(ADD_W, initializers=[tensor("w", [2**40, 2**20])]),
        ["initializer 'w': its shape (1099511627776, 1048576) needs"],
    ),
    "negative size": (
        graph(ADD_W, initializers=[tensor("w", [-1])]),
        ["its shape (-1,) has a negative size"],
    ),
    "too little data": (
        graph(ADD_W, initializers=[tensor("w", [3], raw=b"1234")]),
        ["its shape (3,) needs 12 values or bytes, not 4"],
    ),
    "sparse bomb": (
        graph(
            node("Constant", "", "w", sparse_value=onnx.SparseTensorProto(
                values=numpy_helper.from_array(np.float32([1.0])),
                indices=numpy_helper.from_array(np.int64([0])),
                dims=[2**40])),
            ADD_W,
        ),
        ["has a negative size, or more than 16777216 elements"],
    ),
    "function that calls itself": (
        graph(
            helper.make_node("A", ["x"], ["y"], domain="custom"),
            functions=CALL_EACH_OTHER.values(),
            more_opsets=[CUSTOM_OPSET],
        ),
        ["a function calls itself: custom.A -> custom.B -> custom.A"],
    ),
    "functions that become 2^40 nodes": (
        graph(
            helper.make_node("f0", ["x"], ["y"], domain="custom"),
            functions=[*CALL_NEXT_TWICE, function("f40", node("Relu", "a", "b"))],
            more_opsets=[CUSTOM_OPSET],
        ),
        [
            "3298534883327 nodes or more, with functions expanded, but the budget "
            "allows 100000; if you trust the file, raise it: "
            "budget=plugrad.Budget(nodes=...)"
        ],
    ),
    "functions without nodes, 2^40 times": (
        graph(
            helper.make_node("f0", ["x"], ["y"], domain="custom"),
            functions=[*CALL_NEXT_TWICE, function("f40")],
            more_opsets=[CUSTOM_OPSET],
        ),
        ["2199023255551 nodes or more, with functions expanded, but the budget allows"],
    ),
    "2^18 nodes of 19 functions": (
        graph(
            helper.make_node("f21", ["x"], ["y"], domain="custom"),
            functions=[*CALL_NEXT_TWICE[21:], function("f40", node("Relu", "a", "b"))],
            more_opsets=[CUSTOM_OPSET],
        ),
        ["1572863 nodes or more, with functions expanded, but the budget allows"],
    ),
    "3,000 functions that call each other": (
        graph(
            helper.make_node("f0", ["x"], ["y"], domain="custom"),
            functions=[*CALL_NEXT, function("f3000", node("Relu", "a", "b"))],
            more_opsets=[CUSTOM_OPSET],
        ),
        ["3001 nested levels of functions, branches or models, but the budget"],
    ),
    "a function of ONNX that a function of the file calls": (
        graph(
            node("Celu", "x", "y"),
            functions=[function("Celu", node("Celu", "a", "b"), domain="")],
        ),
        ["a function calls itself: .Celu -> .Celu"],
    ),
    "names with control sequences of a terminal": (
        graph(node("\x1b[2J\nBell\a", "x", "y")),
        [r"node '\x1b[2J\nBell\x07', op \x1b[2J\nBell\x07 of ONNX"],
    ),
    "an empty file": (b"", ["the graph has no outputs"]),
    "no outputs": (
        helper.make_model(helper.make_graph([node("Relu", "x", "y")], "net", [X], [])),
        ["the graph has no outputs"],
    ),
    "a Constant without a name": (
        graph(
            node("Relu", "x", "z"),
            helper.make_node("Constant", [], [""], value_int=3),
        ),
        ["output 'y': no node computes it"],
    ),
    "a dtype of the future": (
        graph(node("Constant", "", "y", value=tensor("", [2], 99, b"12345678"))),
        ["plugrad has no dtype number 99"],
    ),
    "external data without a folder": (
        graph(ADD_W, initializers=[external("w", [1], location="w.bin")]),
        ["its data is in the file 'w.bin': load the model by its path"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_models(name):
    source, messages = WRONG[name]
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(ModelError) as error:
        load(source if isinstance(source, bytes) else source.SerializeToString())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - start < 5
    assert peak < 2**26
    assert len(error.value.problems) == len(messages), error.value
    for message in messages:
        assert message in str(error.value)


# The location of a parameter's data, and the message; the model is in a folder with
# w.bin, a file of 8 bytes.
PLACES = {
    "parent": (dict(location="../secret.bin"), "outside of the model's folder"),
    "hidden parent": (dict(location="a/../../secret.bin"), "outside of the model's"),
    "absolute": (dict(location="/etc/passwd"), "outside of the model's folder"),
    "link": (dict(location="link.bin"), "outside of the model's folder"),
    "nowhere": (dict(location="none.bin"), "which does not exist or is a folder"),
    "folder": (dict(location="."), "which does not exist or is a folder"),
    "no name": (dict(length=4), "outside of the model's folder"),
    "hard link": (dict(location="hard.bin"), "has hard links outside of the model"),
    "pipe": (dict(location="pipe"), "is a pipe, not a regular file"),
    "NUL": (dict(location="\0"), "cannot be found"),
    "long": (dict(location="w" * 5000), "its data is in the file 'wwww"),
    "far": (dict(location="w.bin", offset=10**30), "external data is '1000"),
    "past the end": (
        dict(location="w.bin", offset=4, length=8),
        "provides 8 bytes at 4",
    ),
    "another length": (dict(location="w.bin", length=4), "needs 8 bytes"),
    "negative": (dict(location="w.bin", offset=-4), "external data is '-4'"),
}


@pytest.mark.parametrize("name", PLACES)
def test_external_data_that_is_refused(name, tmp_path):
    entries, message = PLACES[name]
    (tmp_path / "secret.bin").write_bytes(b"12345678")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    os.link(tmp_path / "secret.bin", folder / "hard.bin")
    os.mkfifo(folder / "pipe")
    with pytest.raises(ModelError, match=message):
        load(write(folder, **entries))


def test_external_data_in_the_folder_is_read(tmp_path, backend):
    loaded = load(write(tmp_path, location="w.bin", offset=0, length=8))
    assert loaded([1.0, 1.0]).tolist() == [2.0, 3.0]


def test_a_backend_that_lacks_a_dtype_is_an_error_at_load():
    pytest.importorskip("plugrad_opencl", reason="plugrad-opencl is not installed")
    if "opencl" not in pg.backends():
        pytest.skip("there is no OpenCL device")
    text = "net (float16[N] x) => (float16[N] y) { y = Add (x, w) }"
    proto = model(text, {"w": np.float16([1.0])})
    with pytest.raises(ModelError, match="value 'x': backend 'opencl' has no float16"):
        load(proto, backend="opencl")
    assert load(proto, backend="cpu")(np.float16([1.0])).dtype == "float16"


def test_damaged_files_are_loaded_or_refused():
    data = (image().SerializeToString(), attention().SerializeToString())
    rng = random.Random(5)
    found = Counter()
    for _ in range(400):
        damaged = bytearray(rng.choice(data))
        for _ in range(rng.choice([1, 2, 8])):
            damaged[rng.randrange(min(len(damaged), 1500))] = rng.randrange(256)
        try:
            load(bytes(damaged))
            found["loaded"] += 1
        except ModelError:
            found["refused"] += 1
    assert min(found["loaded"], found["refused"]) > 20


def test_a_long_chain_in_reverse_order_is_loaded(backend):
    chain = [node("Neg", f"t{i}", f"t{i + 1}") for i in range(5000)]
    chain[0].input[0], chain[-1].output[0] = "x", "y"
    start = time.process_time()
    loaded = load(graph(*reversed(chain)))
    assert loaded([2.0]).tolist() == [2.0]
    assert time.process_time() - start < 20
