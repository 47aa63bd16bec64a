"""Small networks in ONNX's text format, with random weights."""

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.parser import parse_model

HEAD = '<ir_version: 9, opset_import: ["": {}]>\n'


def model(text, weights=(), opset=17):
    """Return the model of an ONNX text; ``weights`` are its initializers by name."""
    proto = parse_model(HEAD.format(opset) + text)
    for name, values in dict(weights).items():
        proto.graph.initializer.append(numpy_helper.from_array(values, name))
    onnx.checker.check_model(proto)
    return proto


def draw(seed, shapes):
    """Return random float32 arrays by name, positive if the name ends in ``var``."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in shapes.items():
        x = rng.normal(size=shape) / max(np.sqrt(np.prod(shape[1:])), 1)
        found[name] = np.abs(x) + 0.5 if name.endswith("var") else x
    return {name: np.asarray(x, np.float32) for name, x in found.items()}


IMAGE = """
image (float[N, 3, 17, 18] x) => (float[N, 5] y) {
  c1 = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1)
  n1 = BatchNormalization (c1, scale1, shift1, mean1, var)
  r1 = Relu (n1)
  p1 = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (r1)
  d1 = Conv <group = 8, pads = [1, 1, 1, 1]> (p1, wd, bd)
  zero = Constant <value_float = 0.0> ()
  six = Constant <value_float = 6.0> ()
  d2 = Clip (d1, zero, six)
  g1 = Conv <group = 2> (d2, wg)
  s0 = GlobalAveragePool (g1)
  s1 = Conv (s0, ws)
  s2 = HardSigmoid (s1)
  m1 = Mul (g1, s2)
  a1 = Add (m1, p1)
  l1 = PRelu (a1, slope)
  j1 = Concat <axis = 1> (l1, a1)
  t1 = ConvTranspose <strides = [2, 2]> (j1, wt)
  v1 = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1],
                    count_include_pad = 1> (t1)
  two = Constant <value = float[4] {1, 1, 2, 2}> ()
  u1 = Resize <mode = "linear"> (v1, , two)
  h1 = ReduceMean <axes = [2, 3], keepdims = 0> (u1)
  y = Gemm <transB = 1> (h1, fc, fb)
}
"""


def image():
    """Return an image classifier with many kinds of layers, from Conv to Resize."""
    weights = draw(
        1,
        {
            "w1": (8, 3, 3, 3),
            **{f"{name}1": (8,) for name in ("scale", "shift", "mean")},
            "var": (8,),
            "wd": (8, 1, 3, 3),
            "bd": (8,),
            "wg": (8, 4, 1, 1),
            "ws": (8, 8, 1, 1),
            "slope": (8, 1, 1),
            "wt": (16, 8, 2, 2),
            "fc": (5, 8),
            "fb": (5,),
        },
    )
    return model(IMAGE, weights)


def voice():
    """Return a bidirectional LSTM, a GRU with lengths, and shape computations."""
    weights = draw(
        2,
        {
            "wl": (2, 24, 5),
            "rl": (2, 24, 6),
            "bl": (2, 48),
            "wg": (1, 12, 12),
            "rg": (1, 12, 4),
            "out": (4, 2),
        },
    )
    text = """
    voice (float[T, 2, 5] x, int32[2] lengths) => (float[T, 2, 2] y, float[1, 2, 4] h) {
      l0 = LSTM <hidden_size = 6, direction = "bidirectional"> (x, wl, rl, bl)
      l1 = Transpose <perm = [0, 2, 1, 3]> (l0)
      shape = Shape (l1)
      start = Constant <value_ints = [0]> ()
      end = Constant <value_ints = [2]> ()
      front = Slice (shape, start, end)
      rest = Constant <value_ints = [-1]> ()
      wanted = Concat <axis = 0> (front, rest)
      flat = Reshape (l1, wanted)
      g0, h = GRU <hidden_size = 4, linear_before_reset = 1> (flat, wg, rg, , lengths)
      one = Constant <value_ints = [1]> ()
      g1 = Squeeze (g0, one)
      z = MatMul (g1, out)
      y = Softmax <axis = -1> (z)
    }
    """
    return model(text, weights)


def quantized():
    """Return an int8 image network that ends in a dynamically quantized product."""
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.integers(-127, 128, (6, 70, 3, 3)).astype(np.int8),
        "ws": rng.uniform(0.001, 0.01, 6).astype(np.float32),
        "wz": np.zeros(6, np.int8),
        "b": rng.integers(-1000, 1000, 6).astype(np.int32),
        "fc": rng.integers(-127, 128, (6, 4)).astype(np.int8),
        "xs": np.float32(0.02),
        "xz": np.uint8(110),
        "ys": np.float32(0.3),
        "yz": np.uint8(131),
        "fs": np.float32(0.01),
        "fz": np.int8(3),
    }
    text = """
    quantized (float[N, 70, 6, 6] x) => (uint8[N, 6, 6, 6] q, float[N, 4] y) {
      x8 = QuantizeLinear (x, xs, xz)
      q = QLinearConv <pads = [1, 1, 1, 1]> (x8, xs, xz, w, ws, wz, ys, yz, b)
      d = DequantizeLinear (q, ys, yz)
      p = GlobalAveragePool (d)
      f = Flatten (p)
      f8, s, z = DynamicQuantizeLinear (f)
      m = MatMulInteger (f8, fc, z, fz)
      mf = Cast <to = 1> (m)
      both = Mul (s, fs)
      y = Mul (mf, both)
    }
    """
    arrays = {name: np.asarray(x) for name, x in weights.items()}
    return model(text, arrays, opset=19)


def control():
    """Return a loop that uses outer values, and a branch that depends on its result."""
    text = """
    control (float[N, 4] x, int64 n) => (float[N, 4] y, float[M, N, 4] all) {
      yes = Constant <value = bool {1}> ()
      last, all = Loop (n, yes, x) <body = step
        (int64 i, bool go, float[N, 4] s) => (bool on, float[N, 4] t, float[N, 4] u) {
          on = Identity (go)
          m = MatMul (s, w)
          a = Add (m, x)
          t = Tanh (a)
          u = Mul (t, scale)
        }>
      total = ReduceSum <keepdims = 0> (last)
      zero = Constant <value_float = 0.0> ()
      positive = Greater (total, zero)
      y = If (positive) <
        then_branch = up () => (float[N, 4] a1) {
          b1 = Relu (last)
          a1 = MatMul (b1, w)
        },
        else_branch = down () => (float[N, 4] a2) {
          b2 = Neg (last)
          a2 = MatMul (b2, w)
        }>
    }
    """
    return model(text, draw(4, {"w": (4, 4), "scale": (4,)}))


ATTENTION = """
attention (int64[N, T] ids) => (float[N, T, 8] y) {
  e = Gather (table, ids)
  n1 = LayerNormalization <axis = -1> (e, g1, b1)
  p0 = MatMul (n1, qkv)
  p1 = Add (qkvb, p0)
  q0, k0, v0 = Split <axis = -1> (p1)
  heads = Constant <value_ints = [0, 0, 2, 4]> ()
  q1 = Reshape (q0, heads)
  k1 = Reshape (k0, heads)
  v1 = Reshape (v0, heads)
  q = Transpose <perm = [0, 2, 1, 3]> (q1)
  k = Transpose <perm = [0, 2, 3, 1]> (k1)
  v = Transpose <perm = [0, 2, 1, 3]> (v1)
  qk = MatMul (q, k)
  two = Constant <value_float = 2.0> ()
  scaled = Div (qk, two)
  w = Softmax <axis = -1> (scaled)
  h0 = MatMul (w, v)
  h1 = Transpose <perm = [0, 2, 1, 3]> (h0)
  joined = Constant <value_ints = [0, 0, 8]> ()
  h2 = Reshape (h1, joined)
  h3 = MatMul (h2, out)
  r = Add (h3, e)
  f0 = MatMul (r, up)
  f1 = Add (f0, upb)
  f2 = Relu (f1)
  f3 = MatMul (f2, down)
  y = Add (r, f3)
}
"""


def attention():
    """Return a transformer block in the form that exporters write."""
    weights = draw(
        5,
        {
            "table": (11, 8),
            "qkv": (8, 24),
            "qkvb": (24,),
            "out": (8, 8),
            "g1": (8,),
            "b1": (8,),
            "up": (8, 16),
            "upb": (16,),
            "down": (16, 8),
        },
    )
    return model(ATTENTION, weights)


RNG = np.random.default_rng(9)
IMAGES = RNG.normal(size=(2, 3, 17, 18)).astype(np.float32)
# The function that builds each network, and the inputs to run it with.
NETWORKS = {
    "image": (image, {"x": IMAGES}),
    "voice": (
        voice,
        {
            "x": RNG.normal(size=(7, 2, 5)).astype(np.float32),
            "lengths": np.array([7, 4], np.int32),
        },
    ),
    "quantized": (quantized, {"x": RNG.normal(size=(2, 70, 6, 6)).astype(np.float32)}),
    "control": (
        control,
        {"x": RNG.normal(size=(3, 4)).astype(np.float32), "n": np.array(3)},
    ),
    "attention": (attention, {"ids": RNG.integers(0, 11, (2, 5))}),
}
