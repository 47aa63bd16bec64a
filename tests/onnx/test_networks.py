"""Whole networks: ONNX Runtime's answers, gradients, overrides, work on the host."""

import numpy as np
import onnx
import plugrad as pg
import plugrad_onnx
import pytest
from onnx.reference import ReferenceEvaluator
from plugrad_onnx import load

from tests.onnx.networks import IMAGES, NETWORKS, draw, image, model, quantized, voice


def outputs(found):
    return found if isinstance(found, tuple) else (found,)


def runtime_answers(proto, inputs):
    ort = pytest.importorskip("onnxruntime", reason="it has no wheel for this Python")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, inputs)


def exact_answers(proto, inputs):
    """Return the answers of ONNX's own evaluator: see SATURATING in test_quantized."""
    return ReferenceEvaluator(proto).run(None, inputs)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_answers_are_those_of_onnx_runtime(name, optimize, backend):
    make, inputs = NETWORKS[name]
    proto = make()
    loaded = load(proto, optimize=optimize)
    answers = exact_answers if name == "quantized" else runtime_answers
    expected = answers(proto, inputs)
    for _ in range(2):  # the second call uses values that the first one cached
        found = outputs(loaded(**inputs))
        for x, wanted in zip(found, expected, strict=True):
            assert (x.backend, x.dtype, x.shape) == (
                backend,
                wanted.dtype,
                wanted.shape,
            )
            np.testing.assert_allclose(x.numpy(), wanted, rtol=1e-5, atol=1e-6)


def float64(proto):
    """Return a model with its floats in double precision, for finite differences."""
    single, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    copy = onnx.ModelProto.FromString(proto.SerializeToString())

    def change(graph):
        for info in [*graph.input, *graph.output]:
            kind = info.type.tensor_type
            if kind.elem_type == single:
                kind.elem_type = double
        for tensor in graph.initializer:
            tensor.CopyFrom(wide(tensor))
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name == "value" and node.op_type == "Constant":
                    attribute.t.CopyFrom(wide(attribute.t))
                elif attribute.name == "value_float":
                    value = np.array(attribute.f, np.float64)
                    attribute.CopyFrom(onnx.helper.make_attribute("value", wide(value)))
                elif attribute.HasField("g"):
                    change(attribute.g)

    def wide(tensor):
        is_array = isinstance(tensor, np.ndarray)
        x = tensor if is_array else onnx.numpy_helper.to_array(tensor)
        x = x.astype(np.float64) if x.dtype == np.float32 else x
        return onnx.numpy_helper.from_array(x, "" if is_array else tensor.name)

    change(copy.graph)
    return copy


DIFFERENTIABLE = ["image", "voice", "control", "attention"]


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_in_parameters_agree_with_finite_differences(name, optimize):
    make, inputs = NETWORKS[name]
    proto = float64(make())
    if name == "image":  # Resize has no float64 scales
        scales = [n for n in proto.graph.node if n.op_type == "Constant"]
        for node in scales:
            if node.output[0] == "two":
                value = np.array([1, 1, 2, 2], np.float32)
                tensor = onnx.numpy_helper.from_array(value)
                node.attribute[0].t.CopyFrom(tensor)
    inputs = {
        key: x.astype(np.float64) if x.dtype == np.float32 else x
        for key, x in inputs.items()
    }
    loaded = load(proto, backend="cpu", optimize=optimize)
    factors = [
        np.cos(np.arange(x.size)).reshape(x.shape) for x in outputs(loaded(**inputs))
    ]

    def loss(params):
        found = outputs(loaded.apply(params, **inputs))
        return sum(pg.sum(x * f) for x, f in zip(found, factors, strict=True))

    with pg.use_backend("cpu"):
        params = loaded.params
        gradient = pg.grad(loss)(params)
        rng = np.random.default_rng(0)
        for key, value in params.items():
            place = tuple(rng.integers(n) for n in value.shape)
            step = np.zeros(value.shape)
            step[place] = 1e-5
            ends = (loss({key: value + s * pg.asarray(step)}).item() for s in (1, -1))
            numeric = (next(ends) - next(ends)) / 2e-5
            found = gradient[key][place].item()
            assert found == pytest.approx(numeric, rel=1e-5, abs=1e-7), key


def test_gradients_in_inputs_and_of_jit(backend):
    loaded = load(image())
    f = lambda x: pg.sum(loaded(x)[:, 2])
    eager = pg.grad(f)(IMAGES)
    np.testing.assert_allclose(pg.jit(pg.grad(f))(IMAGES).numpy(), eager.numpy(), 1e-6)
    direction = np.sin(np.arange(IMAGES.size)).reshape(IMAGES.shape).astype(np.float32)
    ends = [f(pg.asarray(IMAGES + s * 1e-2 * direction)).item() for s in (1, -1)]
    slope = pg.sum(eager * direction).item()
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=0.02)


@pytest.mark.parametrize("optimize", [False, True])
def test_an_override_of_relu_changes_only_the_gradient(optimize, backend):
    weights = draw(6, {"w": (4, 2, 3, 3), "out": (4, 3)})
    proto = model(
        """
        net (float[N, 2, 6, 6] x) => (float[N, 3] y) {
          c = Conv (x, w)
          r = Relu (c)
          m = ReduceMean <axes = [2, 3], keepdims = 0> (r)
          y = MatMul (m, out)
        }
        """,
        weights,
    )
    loaded = load(proto, optimize=optimize)
    x = np.random.default_rng(1).normal(size=(1, 2, 6, 6)).astype(np.float32)
    f = pg.value_and_grad(lambda x: pg.sum(loaded(x)))
    value, plain = f(x)
    with pg.override_gradient("Relu", x=lambda dy, y: pg.zeros_like(dy)):
        same, zeros = f(x)
    assert same.item() == value.item()
    assert np.any(plain.numpy() != 0)
    assert not np.any(zeros.numpy())


def test_apply_takes_other_parameters_and_model_keeps_its_own(backend):
    proto = model(
        "net (float[N] x) => (float[N] y) { z = Mul (x, a) y = Add (z, b) }",
        {"a": np.float32([2.0]), "b": np.float32([1.0])},
    )
    loaded = load(proto)
    assert loaded([3.0]).tolist() == [7.0]
    assert loaded.apply({"a": [5.0]}, [3.0]).tolist() == [16.0]
    assert loaded(x=[3.0]).tolist() == [7.0]
    assert sorted(loaded.params) == ["a", "b"]
    with pytest.raises(ValueError, match=r"no parameters \['c'\]"):
        loaded.apply({"c": [5.0]}, [3.0])


def test_folded_batch_norms_can_still_be_trained():
    loaded = load(image(), backend="cpu")
    assert loaded.explain().changes["batch norms folded"] == 1
    loss = lambda p: pg.sum(loaded.apply(p, IMAGES) ** 2)
    gradient = pg.grad(loss)(loaded.params)
    plain = load(image(), backend="cpu", optimize=False)
    expected = pg.grad(lambda p: pg.sum(plain.apply(p, IMAGES) ** 2))(plain.params)
    assert gradient.keys() == expected.keys()
    for name in ("w1", "scale1", "shift1", "mean1", "var"):
        assert np.any(expected[name].numpy())
        np.testing.assert_allclose(
            gradient[name].numpy(), expected[name].numpy(), rtol=1e-3, atol=1e-6
        )


def test_shapes_are_computed_on_the_host(backend):
    make, inputs = NETWORKS["voice"]
    loaded = load(make())
    loaded(**inputs)
    with pg.profile() as p:
        loaded(**inputs)
    kernels = {record.kernel for record in p.records}
    assert not kernels & {"Gather", "GatherV2", "Cast"}
    assert {x.dtype.name for x in outputs(loaded(**inputs))} == {"float32"}


def test_models_run_within_tidy_and_on_another_backend():
    first = load(image(), backend="cpu")
    with pg.tidy():
        first(IMAGES)
    again = first(IMAGES)
    for name in pg.backends():
        other = first.to(name)(IMAGES)
        assert other.backend == name
        np.testing.assert_allclose(other.numpy(), again.numpy(), atol=1e-5)


def test_vmap_runs_a_model_for_each_example(backend):
    loaded = load(image())
    mapped = pg.vmap(lambda x: loaded(pg.expand_dims(x, 0)))(IMAGES)
    np.testing.assert_allclose(mapped.numpy()[:, 0], loaded(IMAGES).numpy(), atol=1e-6)


def test_repr_graph_and_explanation_of_a_model():
    loaded = load(image(), backend="cpu")
    assert (
        repr(loaded)
        == "<Model 'image' (x: float32[N, 3, 17, 18]) -> (y: float32[N, 5])>"
    )
    assert "input x: float32[N, 3, 17, 18]" in str(loaded.graph)
    explanation = loaded.explain()
    assert explanation.transposes == 1
    assert load(image(), optimize=False).explain().changes == {}
    assert "1 transposes are left" in str(explanation)
    assert "Conv 4" in str(explanation)
    assert isinstance(loaded, plugrad_onnx.Model)


CALLS = [
    ((), {}, "missing: \\['x'\\]"),
    ((IMAGES, IMAGES), {}, r"takes 1 input, \['x'\], got 2"),
    ((IMAGES,), {"x": IMAGES}, "given twice"),
    ((), {"x": IMAGES, "z": 1}, "unknown: \\['z'\\]"),
    ((IMAGES.astype(np.float64),), {}, "not float64"),
]


@pytest.mark.parametrize(("args", "named", "message"), CALLS)
def test_wrong_calls(args, named, message):
    with pytest.raises(TypeError, match=message):
        load(image(), backend="cpu")(*args, **named)


def test_a_wrong_shape_is_a_value_error():
    message = r"must be x: float32\[N, 3, 17, 18\], not float32\[2, 2"
    with pytest.raises(ValueError, match=message):
        load(image(), backend="cpu")(IMAGES[:, :2])


@pytest.mark.parametrize("name", ["load", "to"])
def test_the_error_of_an_unknown_backend_names_the_called_function(name):
    calls = {
        "load": lambda: load(image(), backend="gpu"),
        "to": lambda: load(image()).to("gpu"),
    }
    with pytest.raises(pg.BackendUnavailable, match=f"^{name}: unknown backend 'gpu'"):
        calls[name]()


def test_weights_of_constant_nodes_are_parameters(backend):
    """Weights in branches are parameters as well, but scalars stay constants."""
    branch = "w = Constant <value_floats = [SIGN2.0, SIGN3.0]> () b = Mul (h, w)"
    text = f"""
    net (float[2] x) => (float[2] y) {{
      half = Constant <value_float = 0.5> ()
      h = Mul (x, half)
      zero = Constant <value_ints = [0]> ()
      first = Gather (x, zero)
      floor = Constant <value_float = 0.0> ()
      positive = Greater (first, floor)
      y = If (positive) <
        then_branch = then () => (float[2] b) {{ {branch.replace("SIGN", "")} }},
        else_branch = otherwise () => (float[2] b) {{ {branch.replace("SIGN", "-")} }}
      >
    }}
    """
    for optimize in (False, True):
        loaded = load(model(text, {}), optimize=optimize)
        found = sorted(w.tolist() for w in loaded.params.values())
        assert found == [[-2.0, -3.0], [2.0, 3.0]]
        for x, expected in (([1.0, 4.0], [1.0, 6.0]), ([-1.0, 4.0], [1.0, -6.0])):
            assert loaded(x).tolist() == expected
            x = pg.asarray(x)
            loss = lambda params, m=loaded, x=x: pg.sum(m.apply(params, x))
            slopes = pg.grad(loss)(loaded.params)
            assert sorted(pg.sum(g).item() for g in slopes.values()) in (
                [0.0, 2.5],
                [0.0, 1.5],
            )


def test_a_size_of_minus_one_means_any_size(backend):
    """PaddlePaddle's converters write -1 for such sizes."""
    proto = model("net (float[N, 2] x) => (float[N, 2] y) { y = Relu (x) }", {})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    loaded = load(proto)
    assert loaded.inputs[0].shape == (None, 2)
    assert loaded(np.ones((3, 2), np.float32)).shape == (3, 2)


def test_quantized_models_answer_integers_exactly(backend):
    proto = quantized()
    inputs = NETWORKS["quantized"][1]
    expected, *_ = exact_answers(proto, inputs)
    found, *_ = load(proto)(**inputs)
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("name", ["image", "quantized", "attention"])
def test_jit_replays_a_model(name, backend):
    make, inputs = NETWORKS[name]
    loaded = load(make())
    given = {key: pg.asarray(x) for key, x in inputs.items()}
    loaded(**given)  # computes and caches constants
    replayed = pg.jit(loaded, strict=True)  # an error if it cannot be replayed
    for _ in range(4):
        found = zip(outputs(replayed(**given)), outputs(loaded(**given)), strict=True)
        for x, y in found:
            np.testing.assert_array_equal(x.numpy(), y.numpy())
    assert replayed.explain(**given).graph is not None


def test_jit_sees_parameters_of_a_training_step(backend):
    loaded = load(image())
    slope = pg.grad(lambda params, x: pg.sum(loaded.apply(params, x) ** 2))
    step = pg.jit(slope, strict=True)
    for factor in (1.0, 2.0):
        params = {name: x * factor for name, x in loaded.params.items()}
        expected = slope(params, IMAGES)
        found = step(params, IMAGES)
        np.testing.assert_array_equal(found["w1"].numpy(), expected["w1"].numpy())


def test_integer_weights_are_prepared_once():
    explanation = load(quantized(), backend="cpu").explain()
    assert explanation.folded == 3  # both weights, and a factor
    assert explanation.changes["weights made int8"] == 2
    assert "plugrad.Weights" not in explanation.ops
    assert load(quantized(), backend="cpu", optimize=False).explain().folded == 0


def test_gates_are_reordered_once(backend):
    """Gates of both nodes are reordered; gradients are those of the file's weights."""
    x = NETWORKS["voice"][1]["x"]
    inputs = {"x": x, "lengths": np.array([7, 7], np.int32)}
    loaded = load(voice())
    plain = load(voice(), optimize=False)
    explanation = loaded.explain()
    assert explanation.changes["gates put into order"] == 2
    assert explanation.folded == 2  # the gates of both nodes
    assert {"LSTM", "GRU"} <= explanation.ops.keys()
    assert "plugrad.Gates" not in explanation.ops

    def loss(params, model=loaded):
        return pg.sum(model.apply(params, **inputs)[0][..., 0])

    found = pg.grad(loss)(loaded.params)
    expected = pg.grad(lambda params: loss(params, plain))(plain.params)
    for name in ("wl", "rl", "bl", "wg", "rg"):
        difference = np.abs(found[name].numpy() - expected[name].numpy())
        assert difference.max() < 1e-6
