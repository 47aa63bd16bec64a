"""The passes of ``optimize=True``, each on a small graph, do not change answers."""

import numpy as np
import plugrad as pg
import pytest
from plugrad_onnx import load

from tests.onnx.networks import draw, model

WEIGHTS = {
    "w": (4, 3, 3, 3),
    "w2": (4, 4, 1, 1),
    "b": (4,),
    "scale": (4,),
    "shift": (4,),
    "mean": (4,),
    "var": (4,),
    "row": (4, 1, 1),
    "fc": (4, 5),
    "fb": (5,),
    "w2x": (4, 3, 1, 1),
    "columns": (8,),
}
CONV = "c = Conv <pads = [1, 1, 1, 1]> (x, w, b)\n"


def shuffled(wide, narrow, end):
    """Return a convolution, nodes that shuffle its channels, and the nodes ``end``."""
    perm = [0, 2, 1, *range(3, wide.count(",") + 1)]
    return f"""{CONV}
    wide = Constant <value_ints = [{wide}]> ()
    narrow = Constant <value_ints = [{narrow}]> ()
    image = Constant <value_ints = [1, 4, 8, 8]> ()
    g = Reshape (c, wide)
    t = Transpose <perm = {perm}> (g)
    s = Reshape (t, narrow)
    {end}
    """


AXES = "axes = Constant <value_ints = [2, 3]> ()\n"
# Nodes from the image x to y; expected counts of ops afterwards, and of changes.
PASSES = {
    "batch norm": (
        CONV + "y = BatchNormalization (c, scale, shift, mean, var)",
        {"Conv": 1, "Transpose": 2},
        {"batch norms folded": 1},
    ),
    "batch norm of a value that is used twice": (
        CONV + "n = BatchNormalization (c, scale, shift, mean, var) y = Add (n, c)",
        {"Add": 1, "BatchNormalization": 1, "Conv": 1, "Transpose": 2},
        {},
    ),
    "batch norm and relu": (
        CONV + "n = BatchNormalization (c, scale, shift, mean, var) y = Relu (n)",
        {"Conv": 1, "Transpose": 2},
        {"batch norms folded": 1, "biases and activations fused": 1},
    ),
    "factors and sums of channels, and relu": (
        CONV
        + """
        n = BatchNormalization (c, scale, shift, mean, var)
        m = Mul (row, n)
        axes = Constant <value_ints = [1, 2]> ()
        wide = Unsqueeze (shift, axes)
        a = Add (m, wide)
        half = Constant <value_float = 0.5> ()
        h = Mul (a, half)
        y = Relu (h)
        """,
        {"Conv": 1, "Transpose": 2},
        {
            "batch norms folded": 1,
            "factors and sums of channels folded": 3,
            "biases and activations fused": 1,
        },
    ),
    "a factor of a convolution without bias": (
        "d = Conv (x, w2x) y = Mul (d, row)",
        {"Conv": 1, "Transpose": 2},
        {"factors and sums of channels folded": 1},
    ),
    "a sum of channels in another shape, and relu": (
        """
        sizes = Constant <value_ints = [1, -1, 1, 1]> ()
        wide = Reshape (shift, sizes)
        d = Conv (x, w2x)
        s = Add (d, wide)
        y = Relu (s)
        """,
        {"Conv": 1, "Transpose": 2},
        {
            "factors and sums of channels folded": 1,
            "biases and activations fused": 1,
        },
    ),
    "a sum of rows in another shape": (
        """
        sizes = Constant <value_ints = [1, 1, -1, 1]> ()
        wide = Reshape (columns, sizes)
        d = Conv (x, w2x)
        y = Add (d, wide)
        """,
        {"Add": 1, "Conv": 1},
        {},
    ),
    "a sum of columns": (CONV + "y = Add (c, columns)", {"Add": 1, "Conv": 1}, {}),
    "a factor of a value that is used twice": (
        CONV + "q = Mul (c, row) y = Add (c, q)",
        {"Add": 1, "Conv": 1, "Mul": 1},
        {},
    ),
    "leaky relu": (
        CONV + "y = LeakyRelu <alpha = 0.3> (c)",
        {"Conv": 1, "Transpose": 2},
        {"biases and activations fused": 1},
    ),
    "relu of a value that is used twice": (
        CONV + "r = Relu (c) y = Add (r, c)",
        {"Add": 1, "Conv": 1, "Relu": 1, "Transpose": 2},
        {},
    ),
    "channels last through many ops": (
        CONV
        + """
        k = Constant <value_float = 2.0> ()
        m = Mul (c, k)
        a = Add (row, m)
        s = Sigmoid (a)
        h = Concat <axis = 1> (s, c)
        parts = Constant <value_ints = [4, 4]> ()
        p, q = Split <axis = 1> (h, parts)
        pads = Constant <value_ints = [0, 0, 0, 1, 0, 0, 1, 0]> ()
        e = Pad (q, pads)
        t = Softmax <axis = 1> (e)
        starts = Constant <value_ints = [1]> ()
        ends = Constant <value_ints = [9]> ()
        at = Constant <value_ints = [2]> ()
        u = Slice (t, starts, ends, at)
        v = ReduceMax <axes = [3], keepdims = 1> (u)
        y = Conv (v, w2)
        """,
        {"Transpose": 2, "Conv": 2},
        {},
    ),
    "an image of another rank": (
        CONV + "three = Squeeze (c, no) y = Add (c, three)",
        {"Transpose": 3, "plugrad.ChannelsLast": 1},
        {},
    ),
    "dropout and identities": (
        CONV
        + "d, m = Dropout (c) i = Identity (d) y = MaxPool <kernel_shape = [2, 2]> (i)",
        {"Dropout": 0, "Identity": 0, "Transpose": 2},
        {},
    ),
    "transposes in the file": (
        CONV
        + """
        l = Transpose <perm = [0, 2, 3, 1]> (c)
        d = MatMul (l, fc)
        f = Transpose <perm = [0, 3, 1, 2]> (d)
        y = MaxPool <kernel_shape = [2, 2]> (f)
        """,
        {"Transpose": 2},
        {"transposes cancelled": 2},
    ),
    "a pooled image is flattened without a transpose": (
        CONV + "g = GlobalAveragePool (c) f = Flatten (g) y = Gemm (f, fc, fb)",
        {"Transpose": 1, "Flatten": 1},
        {},
    ),
    "mean of an image": (
        CONV + "g = ReduceMean <axes = [2, 3], keepdims = 0> (c) y = MatMul (g, fc)",
        {"Transpose": 1},
        {},
    ),
    "product, bias and activation": (
        "f = ReduceMean <axes = [2, 3], keepdims = 0> (c) p = MatMul (f, fc) "
        "a = Add (fb, p) y = Relu (a)",
        {"plugrad.Dense": 1},
        {"biases and activations fused": 2},
    ),
    "constants": (
        CONV
        + """
        one = Constant <value_ints = [1, 2]> ()
        two = Constant <value_ints = [2, 2]> ()
        three = Add (one, two)
        last = Constant <value_ints = [1]> ()
        four = Gather (three, last)
        all = Constant <value_ints = [0]> ()
        shape = Concat <axis = 0> (all, four, all, all)
        y = Reshape (c, shape)
        """,
        {"Reshape": 1},
        {"constants folded": 3},
    ),
    "shuffle of channels": (
        shuffled("0, 2, 2, 8, -1", "-1, 4, 8, 8", "y = Conv (s, w2)"),
        {"Conv": 2, "Transpose": 2, "Reshape": 0},
        {"shuffles of channels fused": 1},
    ),
    "a shuffle of rows, which are not channels": (
        shuffled("1, 8, 4, 2, 4", "1, 4, 8, 8", "y = Conv (s, w2)"),
        {"Conv": 2, "Reshape": 0},
        {"shuffles of channels fused": 1},
    ),
    "a shuffle that splits an axis": (
        shuffled("1, 2, 2, 4, 2, 8", "1, 2, 2, 8, 8", "y = Reshape (s, image)"),
        {"Conv": 1, "plugrad.Shuffle": 1},
        {"shuffles of channels fused": 1},
    ),
    "a shuffle whose groups are used twice": (
        shuffled(
            "1, 2, 2, 8, 8", "1, 4, 8, 8", "z = Reshape (g, image) y = Add (s, z)"
        ),
        {"Reshape": 3},
        {},
    ),
    "branches": (
        CONV
        + """
        yes = Constant <value = bool {1}> ()
        no2 = Not (yes)
        y = If (no2) <
          then_branch = up () => (float[N, C, H, W] t) { t = Neg (c) },
          else_branch = down () => (float[N, C, H, W] t) {
            s = Constant <value_float = 3.0> () u = Mul (c, s) t = Abs (u) }>
        """,
        {"Abs": 1, "Mul": 0},
        {"branches chosen": 1, "factors and sums of channels folded": 1},
    ),
}


def network(text, batch="1"):
    if "three = Squeeze" in text:  # it removes the batch axis, whose size is 1
        text = text.replace("(c, no)", "(c, first)")
        text = "first = Constant <value_ints = [0]> ()\n" + text
    start = "" if "(x, w, b)" in text else CONV
    used = {name: shape for name, shape in WEIGHTS.items() if name in start + text}
    rank = 2 if "fc" in used and "Transpose" not in text else 4
    sizes = ", ".join(f"N{i}" for i in range(rank))
    return model(
        f"net (float[{batch}, 3, 8, 8] x) => (float[{sizes}] y) {{ {start}{text} }}",
        draw(11, used),
        opset=13,
    )


@pytest.mark.parametrize("name", PASSES)
def test_passes(name, backend):
    text, ops, changes = PASSES[name]
    proto = network(text)
    x = np.random.default_rng(2).normal(size=(1, 3, 8, 8)).astype(np.float32)
    plain = load(proto, optimize=False)
    fast = load(proto)
    f = lambda loaded: pg.value_and_grad(lambda x: pg.sum(pg.sin(loaded(x))))
    np.testing.assert_allclose(plain(x).numpy(), fast(x).numpy(), rtol=1e-5, atol=1e-5)
    for a, b in zip(f(plain)(x), f(fast)(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)
    found = fast.explain()
    assert {op: found.ops.get(op, 0) for op in ops} == ops, found
    assert {what: found.changes.get(what, 0) for what in changes} == changes, found
    if not changes:
        assert not found.changes.get("batch norms folded", 0)


def test_an_empty_batch_is_shuffled(backend):
    text = shuffled("0, 2, 2, 8, -1", "0, 4, 8, -1", "y = Conv (s, w2)")
    x = np.ones((0, 3, 8, 8), np.float32)
    for optimize in (False, True):
        assert load(network(text, "N"), optimize=optimize)(x).shape == (0, 4, 8, 8)


def test_filters_are_transposed_once(backend):
    loaded = load(network(CONV + "y = Relu (c)"))
    x = np.ones((1, 3, 8, 8), np.float32)
    loaded(x)
    with pg.profile() as p:
        loaded(x)
    assert [r.kernel for r in p.records if r.kernel == "Transpose"] == ["Transpose"] * 2
    assert loaded.explain().folded >= 1


def test_constants_of_loops_are_computed_once(backend):
    text = """
    net (float[2, 2] x, int64 n) => (float[2, 2] y) {
      yes = Constant <value = bool {1}> ()
      y = Loop (n, yes, x) <body = step
        (int64 i, bool go, float[2, 2] s) => (bool on, float[2, 2] t) {
          on = Identity (go)
          turned = Transpose <perm = [1, 0]> (w)
          e = Exp (turned)
          t = MatMul (s, e)
        }>
    }
    """
    loaded = load(model(text, draw(1, {"w": (2, 2)})))
    x = np.eye(2, dtype=np.float32)
    loaded(x, 3)
    with pg.profile() as p:
        y = loaded(x, 3)
    kernels = [record.kernel for record in p.records if not record.depth]
    assert kernels == ["BatchMatMul"] * 3
    w = np.exp(draw(1, {"w": (2, 2)})["w"].T)
    np.testing.assert_allclose(y.numpy(), w @ w @ w, rtol=1e-5)
