"""Quantized nodes give exactly the integers of ONNX Runtime or ONNX's evaluator."""

import numpy as np
import plugrad as pg
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator
from plugrad_onnx import load

RNG = np.random.default_rng(4)
TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
NODES = {
    "ConvInteger": "x w x_zero w_zero",
    "MatMulInteger": "x w x_zero w_zero",
    "QLinearConv": "x x_scale x_zero w w_scale w_zero y_scale y_zero b",
    "QLinearMatMul": "x x_scale x_zero w w_scale w_zero y_scale y_zero",
}
# For these dtypes, ONNX Runtime without VNNI saturates sums of two products to 16 bits.
SATURATING = "uint8", "int8"
# The op; dtype and shape of x and of w; the zero point of w (None: one for each column;
# not used in the first row); attributes.
ROWS = {
    # with Winograd's tiles, float32 could not represent these sums exactly
    "large numbers": (
        "ConvInteger",
        "uint8",
        (1, 56, 32, 32),
        "int8",
        (32, 56, 3, 3),
        0,
        {},
    ),
    "uint8 weights": (
        "ConvInteger",
        "uint8",
        (2, 5, 6, 7),
        "uint8",
        (4, 5, 3, 2),
        128,
        {},
    ),
    "a zero point that is not 128": (
        *("QLinearConv", "uint8", (2, 5, 6, 7), "uint8", (4, 5, 3, 3), 100),
        {"pads": [1, 1, 1, 1]},
    ),
    "depthwise": (
        *("QLinearConv", "int8", (1, 6, 5, 5), "int8", (6, 1, 3, 3), 0),
        {"group": 6, "strides": [2, 1]},
    ),
    "depthwise with a zero point that is not 128": (
        *("QLinearConv", "uint8", (1, 6, 5, 5), "uint8", (12, 1, 3, 3), 9),
        {"group": 6, "pads": [1, 0, 0, 1]},
    ),
    "groups": (
        "QLinearConv",
        "uint8",
        (1, 6, 5, 5),
        "int8",
        (4, 3, 2, 2),
        0,
        {"group": 2},
    ),
    "one axis": (
        *("QLinearConv", "uint8", (2, 3, 9), "uint8", (4, 3, 3), 120),
        {"pads": [2, 1], "dilations": [2]},
    ),
    "three axes": (
        "ConvInteger",
        "uint8",
        (1, 2, 3, 4, 5),
        "uint8",
        (3, 2, 2, 2, 2),
        7,
        {},
    ),
    "product": ("QLinearMatMul", "uint8", (2, 3, 40), "int8", (40, 9), 0, {}),
    "product, zero points of columns": (
        *("MatMulInteger", "uint8", (3, 40), "uint8", (40, 9), None, {}),
    ),
    "products of a batch": (
        "MatMulInteger",
        "int8",
        (2, 3, 40),
        "int8",
        (2, 40, 9),
        0,
        {},
    ),
}


def draw(dtype, shape, low=None):
    limits = np.iinfo(dtype)
    low = limits.min if low is None else low
    return RNG.integers(low, limits.max + 1, shape).astype(dtype)


def model(row, constant):
    """Return the model of a row, and its inputs."""
    op, x_dtype, x_shape, w_dtype, w_shape, zero, attrs = ROWS[row]
    large = row == "large numbers"
    columns = w_shape[-1] if "MatMul" in op else w_shape[0]
    x = draw(x_dtype, x_shape, 253 if large else None)
    w = draw(w_dtype, w_shape, 126 if large else None)
    arrays = {
        "w": w,
        "x_zero": np.zeros((), x_dtype) if large else draw(x_dtype, ()),
        "w_zero": draw(w_dtype, columns) if zero is None else np.array(zero, w_dtype),
        "x_scale": np.float32(0.02),
        "w_scale": np.float32(0.003)
        if "MatMul" in op
        else RNG.uniform(0.001, 0.01, columns).astype(np.float32),
        "y_scale": np.float32(0.05),
        "y_zero": draw(x_dtype, ()),
        "b": RNG.integers(-500, 500, columns).astype(np.int32),
    }
    names = NODES[op].split()[: 3 if large else None]
    inputs = {"x": x} if constant else {"x": x, "w": w}
    infos = [
        helper.make_tensor_value_info(k, TYPES[str(v.dtype)], v.shape)
        for k, v in inputs.items()
    ]
    out = TYPES[x_dtype] if op.startswith("Q") else TensorProto.INT32
    y = helper.make_tensor_value_info("y", out, None)
    rest = [name for name in names if name not in inputs]
    values = [numpy_helper.from_array(np.asarray(arrays[k]), k) for k in rest]
    node = helper.make_node(op, names, ["y"], **attrs)
    graph = helper.make_graph([node], "quantized", infos, [y], values)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), inputs


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "computed"])
@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("row", ROWS)
def test_answers_are_exact(row, optimize, constant, backend):
    proto, inputs = model(row, constant)
    if ROWS[row][1:5:2] == SATURATING:
        session = ReferenceEvaluator(proto)
    else:
        ort = pytest.importorskip("onnxruntime", reason="no wheel for this Python")
        session = ort.InferenceSession(proto.SerializeToString())
    (expected,) = session.run(None, inputs)
    loaded = load(proto, optimize=optimize)
    np.testing.assert_array_equal(loaded(**inputs).numpy(), expected)
    assert ("plugrad.Weights" in loaded.explain().ops) is False


def test_a_quantized_image_keeps_its_channels_last(backend):
    """Channels stay last up to DequantizeLinear, which has a scale per channel."""
    w = numpy_helper.from_array(draw("int8", (4, 3, 3, 3)), "w")
    numbers = {
        "s": np.float32(0.05),
        "z": np.uint8(9),
        "wz": np.int8(0),
        "scales": np.float32([0.1, 0.2, 0.3, 0.4]),
        "zeros": draw("uint8", 4),
    }
    text = """
    <ir_version: 9, opset_import: ["": 17]>
    net (float[2, 3, 6, 7] x) => (float[2, 4, 3, 3] y) {
      a = QuantizeLinear (x, s, z)
      b = QLinearConv <pads = [1, 1, 1, 1]> (a, s, z, w, s, wz, s, z)
      c = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (b)
      y = DequantizeLinear <axis = 1> (c, scales, zeros)
    }
    """
    proto = parse_model(text)
    arrays = [numpy_helper.from_array(np.asarray(v), k) for k, v in numbers.items()]
    proto.graph.initializer.extend([w, *arrays])
    x = RNG.normal(size=(2, 3, 6, 7)).astype(np.float32)
    loaded = load(proto)
    plain = load(proto, optimize=False)
    assert loaded.explain().transposes == 2
    np.testing.assert_array_equal(loaded(x).numpy(), plain(x).numpy())
    assert pg.get_backend() == backend


def test_weights_between_float32_and_bytes_are_converted_once(backend):
    """DequantizeLinear, Conv and QuantizeLinear stay three nodes."""
    text = """
    <ir_version: 9, opset_import: ["": 17]>
    net (uint8[2, 3, 6, 7] x) => (uint8[2, 4, 6, 7] y) {
      a = DequantizeLinear (x, s, z)
      f = DequantizeLinear <axis = 0> (w, ws, wz)
      b = Conv <pads = [1, 1, 1, 1]> (a, f)
      c = Relu (b)
      y = QuantizeLinear (c, s, z)
    }
    """
    proto = parse_model(text)
    arrays = {
        "w": draw("int8", (4, 3, 3, 3)),
        "ws": np.float32([0.01, 0.02, 0.03, 0.04]),
        "wz": np.zeros(4, np.int8),
        "s": np.float32(0.05),
        "z": np.uint8(9),
    }
    values = [numpy_helper.from_array(np.asarray(v), k) for k, v in arrays.items()]
    proto.graph.initializer.extend(values)
    x = draw("uint8", (2, 3, 6, 7))
    loaded = load(proto)
    plain = load(proto, optimize=False)
    found = loaded.explain()
    expected = {"Conv": 1, "DequantizeLinear": 1, "QuantizeLinear": 1, "Transpose": 2}
    assert found.ops == expected
    difference = loaded(x).numpy().astype(int) - plain(x).numpy()
    assert np.abs(difference).max() <= 1  # a different order of ops rounds differently


LSTM = """
<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>
net (float[6, 2, 5] x) => (float[6, N, 2, 8] y, float[N, 2, 8] h, float[N, 2, 8] c) {
  y, h, c = com.microsoft.DynamicQuantizeLSTM <HOW, hidden_size = 8>
    (x, w, r, b, , , , , ws, wz, rs, rz)
}
"""


@pytest.mark.parametrize("each_column", [False, True], ids=["one", "each_column"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_an_lstm_of_onnx_runtime(direction, each_column, backend):
    """The weights have 7 bits, for which ONNX Runtime is exact: see SATURATING.

    ONNX Runtime uses one thread; with several, it quantizes each batch row separately.
    """
    ort = pytest.importorskip("onnxruntime", reason="no wheel for this Python")
    count = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(1)
    wide = (count, 32) if each_column else (count,)
    arrays = {
        "w": rng.integers(-64, 64, (count, 5, 32)).astype(np.int8),
        "r": rng.integers(-64, 64, (count, 8, 32)).astype(np.int8),
        "b": rng.normal(size=(count, 64)).astype(np.float32),
        "ws": rng.uniform(0.005, 0.02, wide).astype(np.float32),
        "wz": np.zeros(wide, np.int8),
        "rs": rng.uniform(0.005, 0.02, wide).astype(np.float32),
        "rz": np.zeros(wide, np.int8),
    }
    proto = parse_model(LSTM.replace("HOW", f'direction = "{direction}"'))
    values = [numpy_helper.from_array(v, k) for k, v in arrays.items()]
    proto.graph.initializer.extend(values)
    x = rng.normal(size=(6, 2, 5)).astype(np.float32)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options)
    expected = session.run(None, {"x": x})
    for optimize in (False, True):
        loaded = load(proto, optimize=optimize)
        for found, wanted in zip(loaded(x), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert loaded.explain().changes["gates put into order"] == 1
    assert "plugrad.QuantizedGates" not in loaded.explain().ops


# --- quantization and dequantization -------------------------------------------------

PAIR = """
<ir_version: 9, opset_import: ["": 21]>
net (float[2, 3, 6, 7] x) => (float[2, 4, 6, 7] y) {
  a = QuantizeLinear <axis = AXIS> (x, s, z)
  b = DequantizeLinear <axis = AXIS> (a, s, z)
  c = Conv <pads = [1, 1, 1, 1]> (b, w)
  y = Relu (c)
}
"""
GRIDS = {
    "one scale": (0, np.float32(0.02), np.uint8(120)),
    "one scale per channel": (1, np.float32([0.01, 0.02, 0.03]), np.int8([-9, 0, 9])),
    "16 bits": (1, np.float32(1e-4), np.int16(7)),
    "no zero point": (1, np.float32(0.02), None),
}


def with_pair(axis, scale, zero):
    text = PAIR.replace("AXIS", str(axis))
    proto = parse_model(text if zero is not None else text.replace(", z)", ")"))
    w = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)
    arrays = {"w": w, "s": scale, "z": zero}
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in arrays.items()
        if array is not None
    )
    return proto


@pytest.mark.parametrize("grid", GRIDS)
def test_a_quantization_and_a_dequantization_run_as_one_op(grid, backend):
    proto = with_pair(*GRIDS[grid])
    x = RNG.normal(size=(2, 3, 6, 7)).astype(np.float32) * 3
    loaded = load(proto)
    found = loaded.explain()
    assert found.changes["quantizations fused with dequantizations"] == 1
    assert not {"QuantizeLinear", "DequantizeLinear"} & found.ops.keys()
    assert found.transposes == 2
    expected = load(proto, optimize=False)(x).numpy()
    np.testing.assert_allclose(loaded(x).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_gradients_pass_a_fused_pair_by_straight_through_estimators(backend):
    pytest.importorskip("plugrad_attribution", reason="its packs are not installed")
    model = load(with_pair(*GRIDS["one scale"]))
    total = lambda x: pg.sum(model(x) * weights)
    weights = RNG.normal(size=(2, 4, 6, 7)).astype(np.float32)
    x = 0.5 * RNG.normal(size=(2, 3, 6, 7)).astype(np.float32)
    x[0, 0, 0, 0] = 100.0  # above the largest value of the grid
    assert not pg.grad(total)(x).numpy().any()
    with pg.use_gradients("ste.identity"):
        slopes = pg.grad(total)(x).numpy()
    assert slopes[0, 0, 0, 0] == 0
    assert np.count_nonzero(slopes) > slopes.size / 2


def test_integers_that_another_node_reads_are_computed_as_well(backend):
    proto = with_pair(*GRIDS["one scale"])
    proto.graph.output.append(helper.make_tensor_value_info("a", 2, (2, 3, 6, 7)))
    x = RNG.normal(size=(2, 3, 6, 7)).astype(np.float32)
    for found, expected in zip(
        load(proto)(x), load(proto, optimize=False)(x), strict=True
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(
            found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4
        )


def test_different_grids_are_not_fused(backend):
    proto = with_pair(*GRIDS["one scale"])
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "s2"))
    proto.graph.node[1].input[1] = "s2"
    assert "plugrad.FakeQuantize" not in load(proto).explain().ops
