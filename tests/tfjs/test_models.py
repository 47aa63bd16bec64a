"""TensorFlow.js models: the same answers, loading, saving, gradients."""

import json
import weakref

import numpy as np
import plugrad as pg
import pytest
from plugrad_tfjs import load

from tests.tfjs.files import inputs_of, layers_model, numbers, quantize, write
from tests.tfjs.graphs import GRAPHS, Graph, w
from tests.tfjs.peer import missing, peer, recorded

LAYERS = [case["name"] for case in recorded()["layers"]]
needs_peer = pytest.mark.skipif(missing() is not None, reason=str(missing()))
# For numbers of about 1; backends and TensorFlow.js add up in different orders.
FLOAT32_TOLERANCE = 1e-5


def graph_model(folder, name, **options):
    graph = GRAPHS[name]()
    path = write(folder / name, graph.topology, graph.arrays, **options)
    return path, recorded()["graphs"][name]


def outputs(found):
    return found if isinstance(found, tuple) else (found,)


def assert_answers(found, answers, bound=FLOAT32_TOLERANCE):
    found = outputs(found)
    assert len(found) == len(answers)
    for y, wanted in zip(found, answers, strict=True):
        assert [*y.shape] == wanted["shape"]
        values = np.float64([np.nan if v is None else v for v in wanted["values"]])
        close = {"rtol": bound, "atol": bound}
        np.testing.assert_allclose(y.numpy().reshape(-1), values, **close)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_answer_as_tensorflow_js(name, backend, tmp_path):
    path, answers = layers_model(tmp_path, name)
    model = load(path)
    found = model(*inputs_of(model))
    assert_answers(found, answers)
    assert {y.backend for y in outputs(found)} == {backend}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_answer_as_tensorflow_js(name, backend, tmp_path):
    path, answers = graph_model(tmp_path, name)
    model = load(path.parent)  # the folder is enough
    assert_answers(model(*inputs_of(model)), answers)


@needs_peer
def test_tensorflow_js_still_gives_the_recorded_answers():
    for old, new in zip(recorded()["layers"], peer("layers"), strict=True):
        assert old["topology"] == new["topology"]
        for one, other in zip(old["answers"], new["answers"], strict=True):
            np.testing.assert_allclose(one["values"], other["values"], rtol=1e-6)


@needs_peer
def test_tensorflow_js_loads_saved_models(tmp_path):
    """The parameters are changed before saving, so the old answers would be wrong."""
    folders, expected = [], []
    for make, names in ((layers_model, LAYERS), (graph_model, GRAPHS)):
        for name in names:
            model = load(make(tmp_path / "old", name)[0])
            tuned = {k: 0.75 * x for k, x in model.params.items() if x.ndim}
            folders.append(tmp_path / "new" / name)
            folders[-1].mkdir(parents=True)
            model.save(folders[-1] / "model.json", tuned)
            found = outputs(model.apply(tuned, *inputs_of(model)))
            expected.append([y.numpy() for y in found])
            reloaded = load(folders[-1] / "model.json")
            for x, y in zip(
                outputs(reloaded(*inputs_of(reloaded))), found, strict=True
            ):
                np.testing.assert_array_equal(x.numpy(), y.numpy())
    for wanted, found in zip(expected, peer("answer", *folders), strict=True):
        assert_answers(tuple(map(pg.asarray, wanted)), found)


@pytest.mark.parametrize("dtype", ["float16", "uint16", "uint8"])
def test_quantized_weights(dtype, tmp_path):
    path, _ = layers_model(tmp_path, "conv2d", quantized=dtype, shards=3)
    unquantized, _ = layers_model(tmp_path / "unquantized", "conv2d")
    params = load(path).params
    wanted = load(unquantized).params
    for name, x in params.items():
        rule, values = quantize(wanted[name].numpy(), dtype)
        expected = values.astype(np.float64)
        if dtype != "float16":
            expected = expected * rule["scale"] + rule["min"]
        np.testing.assert_array_equal(x.numpy(), expected.astype(np.float32))


@needs_peer
def test_tensorflow_js_dequantizes_to_the_same_values(tmp_path):
    kinds = ("float16", "uint16", "uint8")
    paths = [layers_model(tmp_path / k, "conv2d", quantized=k)[0] for k in kinds]
    for path, answers in zip(
        paths, peer("answer", *(path.parent for path in paths)), strict=True
    ):
        model = load(path)
        assert_answers(model(*inputs_of(model)), answers)


@pytest.mark.parametrize("name", ["conv2d", "lstm", "normalization", "separable"])
def test_gradients_of_layers(name, tmp_path):
    check_gradient(load(layers_model(tmp_path, name)[0], backend="cpu"))


@pytest.mark.parametrize("name", ["mobilenet", "bert"])
def test_gradients_of_graphs(name, tmp_path):
    check_gradient(load(graph_model(tmp_path, name)[0], backend="cpu"))


def check_gradient(model):
    """Compare with central differences in float64, along one direction."""
    inputs = inputs_of(model)
    params = {k: x.numpy().astype(np.float64) for k, x in model.params.items()}
    steps = {k: numbers(x.shape, 3) * (x.ndim > 0) for k, x in params.items()}

    def loss(params):
        found = outputs(model.apply(params, *inputs))
        return sum(pg.sum(pg.square(y)) for y in found if y.dtype.kind == "f")

    with pg.use_backend("cpu"):
        slopes = pg.grad(loss)({k: pg.asarray(x) for k, x in params.items()})
        eps = 1e-6
        moved = [
            loss({k: pg.asarray(x + sign * steps[k]) for k, x in params.items()}).item()
            for sign in (eps, -eps)
        ]
    found = sum(float((slopes[k].numpy() * steps[k]).sum()) for k in params)
    assert abs(found) > 1e-3
    assert found == pytest.approx((moved[0] - moved[1]) / (2 * eps), rel=1e-5)


def test_fine_tuning_of_trainable_parameters(backend, tmp_path):
    model = load(layers_model(tmp_path, "normalization")[0])
    frozen = [name for name in model.params if name not in model.trainable]
    assert [name.rpartition("_")[2] for name in frozen] == ["mean", "variance"]
    (x,) = inputs_of(model)
    params = {name: model.params[name] for name in model.trainable}

    def loss(params):
        return pg.mean(pg.square(model.apply(params, x) - 1.0))

    losses = []
    for _ in range(60):
        value, slopes = pg.value_and_grad(loss)(params)
        params = {name: params[name] - 0.1 * slopes[name] for name in params}
        losses.append(value.item())
    assert losses[-1] < 0.5 * losses[0]
    model.save(tmp_path / "tuned.json", params)
    y = load(tmp_path / "tuned.json")(x)
    np.testing.assert_array_equal(y.numpy(), model.apply(params, x).numpy())
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [
        "tuned.json",
        "tuned.weights.bin",
    ]


def test_trainable_parameters_of_graphs(tmp_path):
    model = load(graph_model(tmp_path, "mobilenet")[0])
    frozen = {*model.params} - {*model.trainable}
    assert {model.params[name].shape for name in frozen} == {(16,)}
    assert len(frozen) == 2  # mean and variance
    model = load(graph_model(tmp_path, "bert")[0])
    frozen = {*model.params} - {*model.trainable}
    assert len(frozen) == 9
    assert {model.params[name].shape for name in frozen} == {()}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, [0.0, 0.0, 1.0, 8.0]),
        ({"max_value": 6.0}, [0.0, 0.0, 1.0, 6.0]),
        ({"max_value": 4, "negative_slope": 0.5}, [-1.0, -0.5, 1.0, 4.0]),
        ({"threshold": 2.0, "negative_slope": 0.5}, [-2.0, -1.5, -0.5, 8.0]),
    ],
)
def test_settings_of_relu(config, expected, tmp_path):
    config = {"name": "relu", "batch_input_shape": [None, 4], **config}
    layers = [{"class_name": "ReLU", "config": config}]
    topology = {"class_name": "Sequential", "config": {"layers": layers}}
    model = load(write(tmp_path, topology, {}))
    assert model([[-2.0, -1.0, 1.0, 8.0]]).tolist() == [expected]


def test_a_layer_that_is_not_trainable_is_frozen(tmp_path):
    path, _ = layers_model(tmp_path, "dense")
    model = json.loads(path.read_text())
    first = model["modelTopology"]["config"]["layers"][1]["config"]
    first["trainable"] = False
    path.write_text(json.dumps(model))
    loaded = load(path)
    assert {name.partition("/")[0] for name in loaded.params} > {
        name.partition("/")[0] for name in loaded.trainable
    }
    assert first["name"] not in {name.partition("/")[0] for name in loaded.trainable}


def _in_vmap(model, x):
    pg.vmap(lambda x: model(pg.expand_dims(x, 0)))(x)


def _in_tidy(model, x):
    with pg.tidy():
        model(x)


def _in_jit(model, x):
    pg.jit(lambda x: model(x))(x)


def _in_a_gradient(model, x):
    pg.grad(lambda x: pg.sum(model(x)))(x)


@pytest.mark.parametrize("first", [_in_vmap, _in_tidy, _in_jit, _in_a_gradient])
def test_parameters_outlive_the_scope_of_the_first_call(first, backend, tmp_path):
    path, answers = layers_model(tmp_path, "conv2d")
    model = load(path)
    x = pg.asarray(inputs_of(model)[0])
    first(model, x)
    assert_answers(model(x), answers)
    assert {w.backend for w in model.params.values()} == {backend}


@pytest.mark.parametrize("name", ["conv2d", "gru"])
def test_jit_replays_a_model(name, backend, tmp_path):
    path, answers = layers_model(tmp_path, name)
    model = load(path)
    x = pg.asarray(inputs_of(model)[0])
    model(x)  # moves the parameters to the backend
    fast = pg.jit(lambda x: model(x))
    for _ in range(4):
        assert_answers(fast(x), answers)
    explained = fast.explain(x)
    assert explained.retraces == []
    assert " replays " in repr(explained).splitlines()[0]


def test_an_override_reaches_a_fused_activation(backend, tmp_path):
    path, _ = graph_model(tmp_path, "mobilenet")
    model = load(path)
    x = pg.asarray(inputs_of(model)[0])
    slope = lambda: pg.grad(lambda x: pg.max(model(x)))(x).numpy()
    before = slope()
    assert np.abs(before).max() > 0
    with pg.override_gradient("Relu6", x=lambda dy: pg.zeros_like(dy)):
        assert np.abs(slope()).max() == 0
    np.testing.assert_array_equal(slope(), before)


def test_batch_norm_of_another_axis(backend, tmp_path):
    """TensorFlow.js's cpu backend is wrong here: it always uses the last axis."""
    path, _ = layers_model(tmp_path, "normalization_parts")
    model = json.loads(path.read_text())
    layers = model["modelTopology"]["config"]["layers"]
    layers[1]["config"]["axis"] = 1
    layers[0]["config"]["batch_input_shape"] = [None, 2, 3, 4]
    path.write_text(json.dumps(model))
    loaded = load(path)
    (x,) = inputs_of(loaded)
    gamma, mean, variance = (v.numpy().reshape(2, 1, 1) for v in loaded.params.values())
    expected = (x - mean) / np.sqrt(variance + 0.1) * gamma
    np.testing.assert_allclose(loaded(x).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_1d_padding_and_causal_convolution(tmp_path):
    """These are Keras layers that TensorFlow.js lacks."""
    conv = {"filters": 1, "kernel_size": [2], "padding": "causal", "use_bias": False}
    layers = [
        {"class_name": "ZeroPadding1D", "config": {"name": "pad", "padding": [1, 0]}},
        {"class_name": "Conv1D", "config": {"name": "conv", **conv}},
        {"class_name": "UpSampling1D", "config": {"name": "up", "size": 2}},
        {"class_name": "Cropping1D", "config": {"name": "crop", "cropping": [1, 2]}},
    ]
    layers[0]["config"]["batch_input_shape"] = [None, None, 1]
    topology = {"class_name": "Sequential", "config": {"layers": layers}}
    kernel = np.float32([10.0, 1.0]).reshape(2, 1, 1)
    model = load(write(tmp_path, topology, {"conv/kernel": kernel}))
    y = model([[[1.0], [2.0], [3.0]]])  # 0 1 2 3 -> 0 1 12 23 -> twice each
    assert y[0, :, 0].tolist() == [0.0, 1.0, 1.0, 12.0, 12.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m: m(np.ones((2, 3))),
            r"must be input1: float32\[\?, 4\], not float64",
        ),
        (lambda m: m(), r"the inputs are \['input1'\]; missing: \['input1'\]"),
        (lambda m: m(1, 2), r"takes 1 input, \['input1'\], got 2"),
        (lambda m: m(np.ones((1, 4)), z=1), r"unknown: \['z'\]"),
        (lambda m: m.apply({"w": 1.0}, np.ones((1, 4))), "no parameter 'w'"),
        (
            lambda m: m.save("m.json", {m.trainable[0]: np.ones(2)}),
            r"has the shape \(4, 3\), not \(2,\)",
        ),
    ],
)
def test_wrong_calls(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = load(layers_model(tmp_path, "dense")[0])
    with pytest.raises((TypeError, ValueError), match=message):
        call(model)
    assert not (tmp_path / "m.json").exists()


def test_an_error_in_a_layer_names_the_layer(tmp_path):
    path, _ = layers_model(tmp_path, "dense")
    text = path.read_text().replace('"batch_input_shape": [null, 4]', '"x": null')
    path.write_text(text)
    with pytest.raises(ValueError, match="matmul") as caught:
        load(path)(np.ones((2, 5)))
    _link, _scope, note = caught.value.__notes__
    assert "(Dense) of the model" in note


def test_inputs_by_name_and_dtypes(tmp_path):
    model = load(layers_model(tmp_path, "embedding")[0])
    (info,) = model.inputs
    assert (info.dtype, info.shape) == ("int32", (None, 4))
    x = [[1, 2, 3, 4]]
    np.testing.assert_array_equal(model(x).numpy(), model(**{info.name: x}).numpy())
    with pytest.raises(TypeError, match="int32"):
        model([[1.5, 2.0, 3.0, 4.0]])
    dense = load(layers_model(tmp_path, "dense")[0])
    with pg.use_backend("cpu"):
        ones = [pg.ones((1, 4), dtype=d) for d in ("int32", "float64", "float32")]
    first, *rest = [dense(x).numpy() for x in ones]
    for other in rest:
        np.testing.assert_array_equal(other, first)


def test_moving_and_explaining_a_model(tmp_path):
    model = load(layers_model(tmp_path, "dense")[0], backend="cpu")
    assert str(model) == "<Model (input1: float32[?, 4])>"
    assert model.explain().ops == {"Dense": 2}
    assert str(model.explain()).splitlines() == ["2 steps, 21 parameters", "  Dense 2"]
    with pg.use_backend("wasm"):
        assert model.to(None)(np.ones((1, 4))).backend == "wasm"
        assert model(np.ones((1, 4))).backend == "cpu"


def test_values_are_freed_when_they_are_not_needed(tmp_path):
    graph = Graph()
    x = graph.input("x", (1000,))
    for i in range(40):
        x = graph.Neg(f"n{i}", x)
    model = load(write(tmp_path, graph.topology, {}), backend="cpu")
    alive: list[weakref.ref] = []
    counts = []

    def count(native):
        counts.append(sum(ref() is not None for ref in alive))
        y = np.negative(native)
        alive.append(weakref.ref(y))
        return y

    with pg.use_backend("cpu"):
        pg.register_kernel("Neg", "cpu", count)
        try:
            model(np.ones(1000))
        finally:
            pg.unregister_kernel("Neg", "cpu")
    assert len(counts) == 40
    assert max(counts) <= 2


def test_unused_nodes_are_left_out(tmp_path):
    graph = Graph()
    x = graph.input("x", (-1, 2))
    graph.MatMul("y", x, w(1, 2, 3))
    graph.Frobnicate("z", x)
    ends = {"y": {"name": "y:0", "dtype": "DT_FLOAT"}}
    start = {"dim": [{"size": "-1"}, {"size": "2"}]}
    given = {"image": {"name": "x:0", "dtype": "DT_FLOAT", "tensorShape": start}}
    signature = {"inputs": given, "outputs": ends}
    path = write(tmp_path, graph.topology, graph.arrays, signature=signature)
    model = load(path)
    assert str(model) == "<Model (image: float32[?, 2])>"
    np.testing.assert_allclose(model(image=[[1.0, 1.0]]).numpy()[0], w(1, 2, 3).sum(0))
