"""Weights of few bits: MatMulNBits, GatherBlockQuantized, 8-bit floats."""

import numpy as np
import onnx
import plugrad as pg
import plugrad_onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model
from plugrad_conformance.check import require_dtypes
from plugrad_onnx import load

RNG = np.random.default_rng(9)
HEAD = """<ir_version: 9, opset_import: ["": 21, "com.microsoft": 1]>
net (INPUTS) => (OUTPUTS) { NODE }
"""


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


# --- products --------------------------------------------------------------------


def packed(codes, bits):
    """Pack codes along the last axis into bytes, the first one into the lowest bits."""
    per_byte = 8 // bits
    missing = -codes.shape[-1] % per_byte
    padded = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, missing)])
    parts = padded.reshape(*codes.shape[:-1], -1, per_byte).astype(np.uint8)
    return sum(parts[..., i] << (i * bits) for i in range(per_byte)).astype(np.uint8)


def few_bits(bits, inner, columns, block, zeros):
    """Return a model with a MatMulNBits, and its weights in float64."""
    blocks = -(-inner // block)
    codes = RNG.integers(0, 1 << bits, (columns, blocks, block))
    scales = RNG.uniform(0.01, 0.1, (columns, blocks)).astype(np.float32)
    offsets = RNG.integers(0, 1 << bits, (columns, blocks))
    arrays = {"codes": packed(codes, bits), "scales": scales}
    if zeros == "packed":
        arrays["zeros"] = packed(offsets, bits)
    elif zeros == "floating":
        arrays["zeros"] = offsets.astype(np.float32)
    else:
        offsets = np.full_like(offsets, 1 << (bits - 1))
    attributes = f"K = {inner}, N = {columns}, bits = {bits}, block_size = {block}"
    names = "x, codes, scales" + (", zeros" if zeros else "")
    text = HEAD.replace("INPUTS", f"float[2, M, {inner}] x")
    text = text.replace("OUTPUTS", "float[2, M, n] y")
    node = f"y = com.microsoft.MatMulNBits <{attributes}> ({names})"
    proto = parse_model(text.replace("NODE", node))
    values = [numpy_helper.from_array(v, k) for k, v in arrays.items()]
    proto.graph.initializer.extend(values)
    w = (codes - offsets[..., None]) * scales[..., None].astype(np.float64)
    return proto, w.reshape(columns, -1)[:, :inner]


@pytest.mark.parametrize("zeros", ["", "packed", "floating"])
@pytest.mark.parametrize(
    "sizes", [(4, 64, 5, 32), (4, 70, 3, 16), (8, 48, 7, 16), (2, 64, 4, 32)], ids=str
)
def test_weights_of_few_bits(sizes, zeros, backend):
    bits, inner, *_ = sizes
    proto, w = few_bits(*sizes, zeros)
    x = normal(2, 3, inner)
    if bits == 4:  # every version of ONNX Runtime has a kernel for 4 bits
        ort = pytest.importorskip("onnxruntime", reason="no wheel for this Python")
        session = ort.InferenceSession(proto.SerializeToString())
        (found,) = session.run(None, {"x": x})
        np.testing.assert_allclose(found, x @ w.T, rtol=1e-4, atol=1e-4)
    for optimize in (False, True):
        loaded = load(proto, optimize=optimize)
        np.testing.assert_allclose(loaded(x).numpy(), x @ w.T, rtol=1e-4, atol=1e-4)
    stays_packed = bits != 2 and inner % sizes[3] == 0
    change = "weights kept packed" if stays_packed else "weights unpacked"
    assert loaded.explain().changes[change] == 1
    name = "plugrad.BlockDense" if stays_packed else "plugrad.Dense"
    assert loaded.explain().ops == {name: 1}
    gradient = pg.grad(lambda x: pg.sum(loaded(x)))(pg.asarray(x)).numpy()
    sums = np.broadcast_to(w.sum(0), x.shape)
    np.testing.assert_allclose(gradient, sums, rtol=1e-4, atol=1e-4)


# --- rows ------------------------------------------------------------------------

INT4 = {"uint4": onnx.TensorProto.UINT4, "int4": onnx.TensorProto.INT4}


def block_quantized(kind, zeros, sizes, axes, indices):
    """Return a model with a GatherBlockQuantized, and its result in float64."""
    gather_axis, axis = axes
    bits = 8 if kind == "8 bits" else 4
    least = -8 if kind == "int4" else 0
    blocks = [-(-n // 16) if i == axis else n for i, n in enumerate(sizes)]
    codes = RNG.integers(least, least + (1 << bits), sizes)
    offsets = RNG.integers(least, least + (1 << bits), blocks)
    scales = RNG.uniform(0.01, 0.1, blocks).astype(np.float32)
    if not zeros:
        offsets = np.full(blocks, 0 if kind in INT4 else 1 << (bits - 1))
    given = {"data": codes, "indices": indices, "scales": scales}
    given |= {"zeros": offsets} if zeros else {}
    attributes = f"gather_axis = {gather_axis}, quantize_axis = {axis}, bits = {bits}"
    names = ", ".join(given)
    node = f"y = com.microsoft.GatherBlockQuantized <{attributes}, block_size = 16>"
    text = HEAD.replace("INPUTS", "").replace("OUTPUTS", "float y")
    proto = parse_model(text.replace("NODE", f"{node} ({names})"))
    for name, values in given.items():
        if name in ("data", "zeros") and kind in INT4:
            made = onnx.helper.make_tensor(
                name, INT4[kind], values.shape, values.ravel().tolist()
            )
        elif name in ("data", "zeros"):
            made = numpy_helper.from_array(packed(values, bits), name)
        else:
            made = numpy_helper.from_array(values, name)
        proto.graph.initializer.append(made)
    steps = [np.repeat(v, 16, axis).astype(float) for v in (scales, offsets)]
    step, offset = [v.take(range(sizes[axis]), axis) for v in steps]
    return proto, np.take((codes - offset) * step, indices, gather_axis)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", ["4 bits", "8 bits", "uint4", "int4"])
def test_rows_of_weights_of_few_bits(kind, zeros, backend):
    indices = np.asarray([[3, 0, -1], [1, 1, 4]], np.int64)
    rows = [((5, 48), (0, 1)), ((5, 2, 40), (0, 2))]
    if kind in INT4:  # codes in bytes are packed along the last axis
        rows += [((48, 5), (1, 0)), ((2, 5, 24), (1, 0)), ((6, 48), (0, 0))]
    cases = [(*row, indices) for row in rows]
    cases.append((*rows[0], np.asarray(3, np.int64)))  # a single row
    for sizes, axes, which in cases:
        proto, expected = block_quantized(kind, zeros, sizes, axes, which)
        for optimize in (False, True):
            found = load(proto, optimize=optimize)().numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        if kind in INT4 or len(sizes) == 2:
            ort = pytest.importorskip("onnxruntime", reason="no wheel for this Python")
            session = ort.InferenceSession(proto.SerializeToString())
            np.testing.assert_allclose(
                session.run(None, {})[0], expected, rtol=1e-5, atol=1e-6
            )


@pytest.mark.parametrize(
    "kind", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"]
)
def test_stored_8_bit_floats_are_kept_exactly(kind, backend):
    """Each value of the dtype is an initializer that DequantizeLinear scales."""
    require_dtypes(backend, pg.bfloat16)
    elem_type = getattr(onnx.TensorProto, kind)
    codes = np.arange(256, dtype=np.uint8)
    proto = parse_model(
        HEAD.replace("INPUTS", "float scale")
        .replace("OUTPUTS", "float[256] y")
        .replace("NODE", "y = DequantizeLinear (w, scale)")
    )
    made = onnx.helper.make_tensor("w", elem_type, [256], codes.tobytes(), raw=True)
    proto.graph.initializer.append(made)
    loaded = load(proto)
    assert loaded.params["w"].dtype == pg.bfloat16
    expected = numpy_helper.to_array(made).astype(np.float32)
    found = loaded(np.asarray(0.5, np.float32)).numpy()
    np.testing.assert_array_equal(found, expected * np.float32(0.5))


# --- bfloat16 --------------------------------------------------------------------


def test_bfloat16_weights_are_kept(backend):
    require_dtypes(backend, pg.bfloat16)
    w = normal(4, 3).astype(pg.bfloat16)
    text = HEAD.replace("INPUTS", "bfloat16[2, 4] x").replace(
        "OUTPUTS", "bfloat16[2, 3] y"
    )
    proto = parse_model(text.replace("NODE", "y = MatMul (x, w)"))
    proto.graph.initializer.append(numpy_helper.from_array(w, "w"))
    model = load(proto)
    assert model.params["w"].dtype == pg.bfloat16
    x = normal(2, 4).astype(pg.bfloat16)
    expected = x.astype(np.float32) @ w.astype(np.float32)
    found = model(x)
    assert found.dtype == pg.bfloat16
    np.testing.assert_allclose(
        found.numpy().astype(np.float32), expected, rtol=2**-7, atol=2**-7
    )
    with pytest.raises(TypeError, match=r"must be x: bfloat16\[2, 4\], not float32"):
        model(x.astype(np.float32))


def test_functions_of_bfloat16_are_exported(tmp_path):
    w = pg.asarray(normal(4, 3).astype(pg.bfloat16))
    functions = {
        "gelu": lambda x: pg.gelu(pg.astype(x, pg.bfloat16)),
        "product": lambda x: pg.matmul(pg.astype(x, pg.bfloat16), w),
        "mixed product": lambda x: pg.matmul(x, w),
    }
    for name, function in functions.items():
        f = lambda x, function=function: pg.astype(function(x), pg.float32)
        path = tmp_path / f"{name}.onnx"
        with pg.use_backend("cpu"):
            x = pg.asarray(normal(2, 4))
            plugrad_onnx.save(f, [x], path)
            expected = f(x).numpy()
            found = [load(path)(x).numpy()]
        if name != "product":  # ONNX Runtime has no product of bfloat16 on a CPU
            ort = pytest.importorskip("onnxruntime", reason="no wheel for this Python")
            session = ort.InferenceSession(path)
            found.append(
                session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
            )
        for y in found:
            np.testing.assert_allclose(y, expected, rtol=2**-6, atol=2**-6)
