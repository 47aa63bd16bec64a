"""Invalid models: the error lists every problem, and loading takes little memory."""

import json
import random

import numpy as np
import plugrad as pg
import pytest
from plugrad_tfjs import ModelError, load

from tests.tfjs.files import write
from tests.tfjs.graphs import Graph, w
from tests.tfjs.peer import recorded
from tests.tfjs.test_models import graph_model, layers_model

DENSE = {"name": "dense", "units": 2, "batch_input_shape": [None, 3]}
WEIGHTS = {"dense/kernel": w(1, 3, 2), "dense/bias": w(2, 2)}


def layer(kind, name=None, inbound=None, **config):
    found = {"class_name": kind, "config": {"name": name or kind.lower(), **config}}
    if inbound is not None:
        found |= {"name": name, "inbound_nodes": [[[*call, {}] for call in inbound]]}
    return found


def sequential(*layers):
    return {"class_name": "Sequential", "config": {"layers": list(layers)}}


def functional(*layers, outputs=(("dense", 0, 0),), inputs=(("x", 0, 0),)):
    source = layer("InputLayer", "x", (), batch_input_shape=[None, 3])
    source["inbound_nodes"] = []
    config = {"layers": [source, *layers], "input_layers": [*map(list, inputs)]}
    return {
        "class_name": "Functional",
        "config": {**config, "output_layers": [*map(list, outputs)]},
    }


def dense(**config):
    return layer("Dense", **{**DENSE, **config})


def nested(depth):
    model = sequential(dense())
    for _ in range(depth):
        model = sequential({**model, "config": {**model["config"], "name": "m"}})
    return model


def graph(build):
    g = Graph()
    g.input("x", (-1, 3))
    build(g)
    return g.topology


UNCONNECTED = {"name": "in", "inbound_nodes": []}
WRONG = {
    "no class": ({}, WEIGHTS, ["the topology: class_name must be a str, not None"]),
    "another class": (
        {"class_name": "Net", "config": {}},
        {},
        ["the topology is of class 'Net'"],
    ),
    "no layers": (sequential(), {}, ["it has no layers"]),
    "all at once": (
        sequential(
            dense(activation="steep", units="two"),
            layer("Frobnicate"),
            layer("Conv2D", filters=2, padding="wide"),
            layer("GRU", units=2, reset_after=True),
            layer("Lambda"),
        ),
        WEIGHTS,
        [
            "layer 'dense' (Dense): units must be an integer, not 'two'",
            "layer 'dense' (Dense): there is no activation 'steep'; use one of lin",
            "layer 'frobnicate' (Frobnicate): this layer is not supported; supported a",
            "layer 'conv2d' (Conv2D): kernel_size is missing",
            "layer 'conv2d' (Conv2D): padding must be one of valid, same, causal, ex",
            "layer 'gru' (GRU): reset_after=True is not supported",
            "layer 'lambda' (Lambda): this layer is not supported",
        ],
    ),
    "weight missing": (
        sequential(dense()),
        {"dense/kernel": w(1, 3, 2)},
        ["layer 'dense' (Dense): its weight 'dense/bias' is not in the manifest"],
    ),
    "weight without a layer": (
        sequential(dense(use_bias=False)),
        WEIGHTS,
        ["the weights ['dense/bias'] do not belong to any layer"],
    ),
    "shape of a weight": (
        sequential(dense(units=3)),
        WEIGHTS,
        ["the weight 'dense/kernel' has the shape (3, 2), not (?, 3)", "(2,), not (3)"],
    ),
    "two layers with one name": (
        sequential(dense(), dense()),
        WEIGHTS,
        ["'dense' is not a name, or occurs twice"],
    ),
    "shared by accident": (
        sequential(dense(), {**sequential(dense()), "name": "inner"}),
        WEIGHTS,
        ["layer 'dense' (Dense): the weight 'dense/kernel' also belongs to another"],
    ),
    "cycle": (
        functional(
            layer("Dense", **{**DENSE, "name": "dense"}, inbound=[("add", 0, 0)]),
            layer("Add", "add", [("dense", 0, 0), ("x", 0, 0)]),
        ),
        WEIGHTS,
        ["the model: layers in a cycle: dense -> add -> dense"],
    ),
    "no such layer": (
        functional(layer("Dense", **DENSE, inbound=[("y", 0, 0)])),
        WEIGHTS,
        ["layer 'dense': ['y', 0, 0, {}] is not an output of a layer"],
    ),
    "no such call": (
        functional(layer("Dense", **DENSE, inbound=[("x", 3, 0)])),
        WEIGHTS,
        ["layer 'x': it has no call 3"],
    ),
    "no such output": (
        functional(layer("Dense", **DENSE, inbound=[("x", 0, 2)])),
        WEIGHTS,
        ["layer 'x': it has no output 2"],
    ),
    "Keras 3": (
        functional({**dense(), "name": "dense", "inbound_nodes": [{"args": []}]}),
        WEIGHTS,
        ["its inbound_nodes have the format of Keras 3"],
    ),
    "too deep": (
        nested(110),
        WEIGHTS,
        ["101 nested levels of functions, branches or models, but"],
    ),
    "an InputLayer that is not the first": (
        sequential(dense(), layer("InputLayer", "second", batch_input_shape=[None, 2])),
        WEIGHTS,
        ["the model: the InputLayer 'second' is not its first layer"],
    ),
    "an InputLayer that takes an input": (
        functional(
            layer("InputLayer", "in", [("x", 0, 0)], batch_input_shape=[None, 3]),
            layer("Dense", **DENSE, inbound=[("in", 0, 0)]),
        ),
        WEIGHTS,
        ["the model: the InputLayer 'in' has an input"],
    ),
    "an input that is not connected": (
        functional(
            {**layer("InputLayer", "in", batch_input_shape=[None, 3]), **UNCONNECTED},
            layer("Dense", **DENSE, inbound=[("in", 0, 0)]),
        ),
        WEIGHTS,
        ["the model: 'in' is not among its inputs"],
    ),
    "an input twice": (
        functional(
            layer("Dense", **DENSE, inbound=[("x", 0, 0)]),
            inputs=[("x", 0, 0), ("x", 0, 0)],
        ),
        WEIGHTS,
        ["the model: its inputs ['x', 'x'] repeat a name"],
    ),
    "no outputs": (functional(outputs=[]), {}, ["the model: it has no outputs"]),
    "numbers that fit into no float or integer": (
        sequential(
            layer("LeakyReLU", alpha=10**400),
            layer("Dense", units=10**30),
        ),
        WEIGHTS,
        [
            "alpha must be a number that fits into a float",
            "units must be a 64-bit integer",
        ],
    ),
    "names with control sequences of a terminal": (
        sequential(layer("\x1b[2J\nBell\a")),
        {},
        [r"layer '\x1b[2j\nbell\x07' (\x1b[2J\nBell\x07): this layer is not"],
    ),
    "mask at a merge": (
        functional(
            layer("Masking", "mask", [("x", 0, 0)]),
            layer("Add", "add", [("mask", 0, 0), ("mask", 0, 0)]),
            outputs=[("add", 0, 0)],
        ),
        {},
        [
            "layer 'add' (Add): its input has a mask of time steps, which is not "
            "supported"
        ],
    ),
    "graph with many problems": (
        graph(
            lambda g: (
                g.While("loop", "x"),
                g.Conv2D("conv", "x", strides=(1, 1, 1, 1), padding="SAME"),
                g._FusedMatMul("fused", "x", "x", fused_ops=("BiasAdd", "Tan")),
                g.Softmax("y", "fused", "conv", "loop"),
            )
        ),
        {},
        [
            "node 'loop', op While: this op is not supported",
            "node 'conv', op Conv2D: takes 2 inputs, got 1",
            "node 'fused', op _FusedMatMul: the fused ops ('BiasAdd', 'Tan') are not",
            "node 'y', op Softmax: takes 1 input, got 3",
        ],
    ),
    "graph without its weights": (
        graph(lambda g: g.Add("y", "x", 1.0)),
        {},
        ["node 'const_0': it is not in the manifest"],
    ),
    "graph with a cycle": (
        graph(lambda g: (g.Add("a", "x", "b"), g.Neg("b", "a"), g.Neg("y", "b"))),
        {},
        ["nodes in a cycle"],
    ),
    "graph that is one cycle": (
        graph(lambda g: (g.Add("a", "x", "b"), g.Neg("b", "a"))),
        {},
        ["nodes in a cycle: a -> b -> a"],
    ),
    "graph without nodes": ({"node": []}, {}, ["the graph has no outputs"]),
    "batch norm that trains": (
        graph(
            lambda g: g.FusedBatchNormV3("y", "x", "x", "x", "x", "x", is_training=True)
        ),
        {},
        [
            "is_training must be false, because a loaded model does not use batch "
            "statistics"
        ],
    ),
    "graph with an undefined input": (
        graph(lambda g: g.Neg("y", "z")),
        {},
        ["node 'y': 'z' is not an output of a node"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_every_problem_is_reported(name, tmp_path):
    topology, arrays, messages = WRONG[name]
    path = write(tmp_path, topology, arrays)
    with pytest.raises(ModelError) as caught:
        load(path)
    text = str(caught.value)
    assert [message for message in messages if message not in text] == [], text
    assert len(caught.value.problems) >= len(messages)
    assert text.startswith("load: the model has ")


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "model.json")


def test_exponentially_nested_models_are_refused(tmp_path):
    """Each model calls its inner model twice: a few kilobytes make 2 ** 30 layers."""
    inner = layer("ReLU", "relu", [("x", 0, 0)])
    model = functional(inner, outputs=[("relu", 0, 0)])
    for i in range(30):
        calls = [[["x", 0, 0, {}]], [[f"m{i}", 1, 0, {}]]]
        row = {**model, "name": f"m{i}", "inbound_nodes": calls}
        model = functional(row, outputs=[(f"m{i}", 2, 0)])
    with pytest.raises(
        ModelError, match=r"nodes or more, .* but the budget allows 100000;"
    ):
        load(write(tmp_path, model, {}))


def test_exponentially_nested_models_without_layers_are_refused(tmp_path):
    """Each model calls its inner model twice, and the innermost one has no layers."""
    model = functional(outputs=[("x", 0, 0)])
    for i in range(30):
        calls = [[["x", 0, 0, {}]], [[f"m{i}", 1, 0, {}]]]
        row = {**model, "name": f"m{i}", "inbound_nodes": calls}
        model = functional(row, outputs=[(f"m{i}", 2, 0)])
    with pytest.raises(ModelError, match=r"nodes or more, .* budget allows 100000;"):
        load(write(tmp_path, model, {}))


def test_nonexistent_outputs_are_charged(tmp_path):
    graph = Graph()
    x = graph.input("x", (3,))
    for i in range(500):
        graph.Neg(f"y{i}", x)
        graph.Neg(f"z{i}", f"y{i}:9999")
    path = write(tmp_path, graph.topology, {})
    with pytest.raises(ModelError, match="bytes are needed, but the budget allows"):
        load(path)


def test_the_caller_sets_the_budget(tmp_path):
    path = write(tmp_path, sequential(dense()), WEIGHTS)
    for limit, message in {
        "bytes": "bytes are needed, but the budget allows 0;",
        "nodes": "nodes or more, with functions expanded, but the budget allows 0;",
        "seconds": "seconds of processor time, but the budget allows 0;",
        "depth": "levels of JSON, 4 of which count as one, but the budget allows 0;",
    }.items():
        with pytest.raises(ModelError, match=message):
            load(path, budget=pg.Budget(**{limit: 0}))
    path = write(tmp_path / "deep", nested(110), WEIGHTS)
    model = load(path, budget=pg.Budget(depth=120))
    assert model([[0.0, 0.0, 0.0]]).shape == (1, 2)


def test_calls_that_do_not_fit(tmp_path):
    path = write(tmp_path, sequential(dense()), WEIGHTS)
    with pytest.raises(pg.BackendUnavailable, match=r"^load: unknown backend 'gpu'"):
        load(path, backend="gpu")
    model = load(path)
    with pytest.raises(pg.BackendUnavailable, match=r"^to: unknown backend 'gpu'"):
        model.to("gpu")
    with pytest.raises(ValueError, match=r"must be dense_input: float32\[\?, 3\], not"):
        model([[1.0, 2.0]])
    with pytest.raises(
        TypeError, match=r"must be dense_input: .*, not complex64\[1, 3"
    ):
        model(np.ones((1, 3), "complex64"))


def paths(value, path=()):
    """Yield the path to each part of a JSON value."""
    rows = value.items() if isinstance(value, dict) else ()
    rows = enumerate(value) if isinstance(value, list) else rows
    for key, part in rows:
        yield (*path, key)
        yield from paths(part, (*path, key))


DAMAGED = ["lstm_states", "nested", "bidirectional", "masked", "masking", "bert"]
JUNK = [None, -1, 0, 2**70, 1.5, "", "x", [], {}, [[]], [None], True, {"name": 3}]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_models_raise_model_errors(name, seed, tmp_path):
    """Put junk at random places: the model loads or raises a ModelError."""
    make = graph_model if name == "bert" else layers_model
    path, _ = make(tmp_path, name)
    original = path.read_text()
    rng = random.Random(seed)
    refused = 0
    for _ in range(150):
        model = json.loads(original)
        *parents, last = rng.choice([*paths(model)])
        part = model
        for key in parents:
            part = part[key]
        part[last] = rng.choice(JUNK)
        path.write_text(json.dumps(model))
        try:
            load(path)
        except ModelError:
            refused += 1
    assert refused > 20


def test_every_layer_of_the_table_is_tested():
    from plugrad_tfjs.layers.table import names

    tested = {kind for case in recorded()["layers"] for kind in kinds(case["topology"])}
    others = {"Subtract", "SpatialDropout1D", "SpatialDropout2D", "GaussianNoise"}
    others |= {"GaussianDropout", "AlphaDropout", "ActivityRegularization"}
    others |= {"ZeroPadding1D", "Cropping1D", "UpSampling1D"}  # in test_models.py
    others |= {"ZeroPadding3D", "Cropping3D", "AveragePooling3D"}
    others |= {"GlobalMaxPooling3D", "GlobalAveragePooling3D", "GlobalMaxPooling2D"}
    assert {*names()} - tested == others


def kinds(value):
    """Yield the classes of the layers in a topology."""
    rows = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict) and isinstance(value.get("class_name"), str):
        yield value["class_name"]
    if isinstance(value, dict | list):
        for part in rows:
            yield from kinds(part)


def test_dtypes_of_weights(tmp_path):
    graph = Graph()
    x = graph.input("x", (3,))
    y = graph.Add("y", x, 1.5)
    graph.SelectV2("z", np.array([True, False, True]), x, y)
    model = load(write(tmp_path, graph.topology, graph.arrays))
    assert [*model.params] == ["const_0"]
    assert model([1.0, 2.0, 3.0]).tolist() == [1.0, 3.5, 3.0]
