"""Graph models in the format that the TensorFlow.js converter writes."""

import base64

import numpy as np

from tests.tfjs.files import numbers

TYPES = {"float32": "DT_FLOAT", "int32": "DT_INT32", "bool": "DT_BOOL"}


def attribute(value):
    """Return a value as a GraphDef attribute in JSON."""
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": str(value)}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str) and value in TYPES:
        return {"type": TYPES[value]}
    if isinstance(value, str):
        return {"s": base64.b64encode(value.encode()).decode()}
    (kind,) = {next(iter(attribute(item))) for item in value} or {"i"}
    return {"list": {kind: [attribute(item)[kind] for item in value]}}


class Graph:
    """A graph that grows by calls: ``g.Relu("y", "x")``."""

    def __init__(self):
        self.nodes = []
        self.arrays = {}
        self.names = []

    def __getattr__(self, op):
        def add(name, *inputs, **attrs):
            inputs = [x if isinstance(x, str) else self.const(x) for x in inputs]
            attr = {key: attribute(value) for key, value in attrs.items()}
            self.nodes.append({"name": name, "op": op, "input": inputs, "attr": attr})
            return name

        return add

    def const(self, value):
        """Add a constant, and return its name."""
        array = np.asarray(value)
        kind = {"f": np.float32, "i": np.int32}.get(array.dtype.kind, array.dtype)
        array = array.astype(kind)
        name = f"const_{len(self.arrays)}"
        self.arrays[name] = array
        dtype = attribute(str(array.dtype))
        self.nodes.append({"name": name, "op": "Const", "attr": {"dtype": dtype}})
        return name

    def input(self, name, shape, dtype="float32"):
        """Add an input."""
        dims = {"dim": [{"size": str(n)} for n in shape]}
        attr = {"dtype": attribute(dtype), "shape": {"shape": dims}}
        self.nodes.append({"name": name, "op": "Placeholder", "attr": attr})
        return name

    @property
    def topology(self):
        """The topology as in a model.json."""
        return {"node": self.nodes, "versions": {"producer": 1}}


def w(i, *shape):
    """Return weight number ``i``."""
    return numbers(shape, i) / np.float32(np.sqrt(max(np.prod(shape[:-1]), 1)))


def mobilenet():
    """Return blocks of MobileNet v1 and v2, with the converter's fused ops."""
    g = Graph()
    x = g.input("image", (-1, 8, 8, 3))
    same = {"padding": "SAME", "data_format": "NHWC", "dilations": (1, 1, 1, 1)}
    relu6 = {"fused_ops": ("BiasAdd", "Relu6"), "num_args": 1, "epsilon": 0.0}
    stride_2 = {"strides": (1, 2, 2, 1)}
    stride_1 = {"strides": (1, 1, 1, 1)}
    x = g._FusedConv2D(
        "conv", x, w(1, 3, 3, 3, 8), w(2, 8), **same, **stride_2, **relu6
    )
    y = g.FusedDepthwiseConv2dNative(
        "deep", x, w(3, 3, 3, 8, 1), w(4, 8), **same, **stride_1, **relu6
    )
    y = g._FusedConv2D(
        "point",
        y,
        w(5, 1, 1, 8, 8),
        w(6, 8),
        **same,
        **stride_1,
        fused_ops=("BiasAdd",),
        num_args=1,
    )
    x = g.AddV2("skip", x, y, T="float32")
    x = g.Pad("padded", x, [[0, 0], [0, 1], [0, 1], [0, 0]])
    x = g.DepthwiseConv2dNative(
        "deep2", x, w(7, 3, 3, 8, 2), **(same | {"padding": "VALID"}), **stride_2
    )
    moments = abs(w(8, 16)) + 0.5, w(9, 16), w(10, 16), abs(w(11, 16)) + 0.5
    x = g.FusedBatchNormV3("norm", x, *moments, epsilon=0.001, is_training=False)
    x = g.Relu6("relu6", x)
    x = g.MaxPool("pool", x, ksize=(1, 2, 2, 1), strides=(1, 1, 1, 1), padding="SAME")
    x = g.Mean("mean", x, [1, 2], keep_dims=False)
    x = g._FusedMatMul(
        "logits", x, w(12, 16, 5), w(13, 5), fused_ops=("BiasAdd",), num_args=1
    )
    g.Softmax("probabilities", x)
    return g


def layer_norm(g, name, x, i):
    """Add a layer norm made of simple ops."""
    mean = g.Mean(f"{name}/mean", x, [2], keep_dims=True)
    square = g.SquaredDifference(f"{name}/square", x, mean)
    variance = g.Mean(f"{name}/variance", square, [2], keep_dims=True)
    root = g.Rsqrt(f"{name}/root", g.AddV2(f"{name}/eps", variance, 1e-6))
    scale = g.Mul(f"{name}/scale", root, abs(w(i, 8)) + 0.5)
    y = g.Mul(f"{name}/y", g.Sub(f"{name}/centered", x, mean), scale)
    return g.AddV2(f"{name}/out", y, w(i + 1, 8))


def dense(g, name, x, weight, bias):
    """Add a dense layer for rank 3, with the reshapes of a converted layer."""
    shape = g.Shape(f"{name}/shape", x)
    masks = {"begin_mask": 1, "end_mask": 0}
    front = g.StridedSlice(f"{name}/front", shape, [0], [2], [1], **masks)
    flat = g.Reshape(f"{name}/flat", x, [-1, weight.shape[0]])
    y = g.MatMul(f"{name}/matmul", flat, weight, transpose_a=False, transpose_b=False)
    y = g.BiasAdd(f"{name}/bias", y, bias)
    new_shape = g.ConcatV2(f"{name}/new", front, [weight.shape[1]], 0, N=2)
    return g.Reshape(f"{name}/out", y, new_shape)


def attention(g, x, mask, length):
    """Add self-attention, without the dense layer at its end."""
    heads = []
    for i, name in enumerate("qkv"):
        y = dense(g, name, x, w(5 + 2 * i, 8, 8), w(6 + 2 * i, 8))
        size = g.StridedSlice(
            f"{name}/batch", g.Shape(f"{name}/s", y), [0], [1], [1], shrink_axis_mask=1
        )
        shape = g.Pack(f"{name}/pack", size, length, 2, 4, axis=0, N=4)
        y = g.Reshape(f"{name}/heads", y, shape)
        heads.append(g.Transpose(f"{name}/t", y, [0, 2, 1, 3]))
    scores = g.BatchMatMulV2("scores", heads[0], heads[1], adj_x=False, adj_y=True)
    scores = g.RealDiv("scaled", scores, 2.0)
    unmasked = g.Greater("is_kept", mask, 0)
    unmasked = g.Cast("kept", unmasked, SrcT="bool", DstT="float32", Truncate=False)
    unmasked = g.ExpandDims("kept1", g.ExpandDims("kept2", unmasked, 1), 1)
    bias = g.Mul("masked", g.Sub("left_out", 1.0, unmasked), -1e4)
    weights = g.Softmax("weights", g.AddV2("biased", scores, bias))
    mixed = g.BatchMatMulV2("mixed", weights, heads[2], adj_x=False, adj_y=False)
    mixed = g.Transpose("back", mixed, [0, 2, 1, 3])
    size = g.StridedSlice(
        "batch", g.Shape("m", mixed), [0], [1], [1], shrink_axis_mask=1
    )
    return g.Reshape("joined", mixed, g.Pack("shape3", size, length, 8, axis=0, N=3))


def bert():
    """Return one encoder layer of BERT, with embeddings and pooler."""
    g = Graph()
    ids = g.input("input_ids", (-1, 4), "int32")
    mask = g.input("attention_mask", (-1, 4), "int32")
    x = g.GatherV2("words", w(1, 5, 8), ids, 0, batch_dims=0)
    length = g.StridedSlice(
        "length", g.Shape("ids_shape", ids), [1], [2], [1], shrink_axis_mask=1
    )
    places = g.Range("places", 0, length, 1)
    x = g.AddV2("embedded", x, g.GatherV2("position", w(2, 6, 8), places, 0))
    x = layer_norm(g, "norm0", x, 3)
    mixed = attention(g, x, mask, length)
    x = g.AddV2("skip1", x, dense(g, "out", mixed, w(11, 8, 8), w(12, 8)))
    x = layer_norm(g, "norm1", x, 13)
    y = dense(g, "up", x, w(15, 8, 16), w(16, 16))
    half = g.Mul("half", y, 0.5)
    erf = g.Erf("erf", g.Mul("root", y, float(np.sqrt(0.5))))
    y = g.Mul("gelu", half, g.AddV2("cdf", erf, 1.0))
    x = g.AddV2("skip2", x, dense(g, "down", y, w(17, 16, 8), w(18, 8)))
    x = layer_norm(g, "hidden", x, 19)
    first = g.StridedSlice(
        "first", x, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2
    )
    pooled = g._FusedMatMul(
        "pooler", first, w(21, 8, 8), w(22, 8), fused_ops=("BiasAdd",), num_args=1
    )
    g.Tanh("pooled", pooled)
    return g


def images():
    """Return image ops; each one is an output."""
    g = Graph()
    x = g.input("x", (2, 4, 4, 2))
    window = {"strides": (1, 1, 1, 1), "padding": "VALID", "data_format": "NHWC"}
    dilated = {**window, "dilations": (1, 2, 2, 1)}
    g.Conv2D("conv", x, w(1, 2, 2, 2, 3), **dilated)
    g.Conv2DBackpropInput(
        "conv_transpose",
        [2, 8, 8, 3],
        w(2, 3, 3, 3, 2),
        x,
        strides=(1, 2, 2, 1),
        padding="SAME",
        data_format="NHWC",
    )
    g.AvgPool("pool", x, **(window | {"ksize": (1, 2, 2, 1)}))
    window["dilations"] = (1, 1, 1, 1)
    fused = {"fused_ops": ("BiasAdd", "Prelu"), "num_args": 2}
    g._FusedConv2D("prelu", x, w(3, 1, 1, 2, 3), w(4, 3), w(5, 3), **window, **fused)
    leaky = {
        "fused_ops": ("BiasAdd", "LeakyRelu"),
        "leakyrelu_alpha": 0.3,
        "num_args": 1,
    }
    g._FusedConv2D("leaky", x, w(6, 1, 1, 2, 3), w(7, 3), **window, **leaky)
    g.ResizeBilinear("bilinear", x, [5, 3], half_pixel_centers=True)
    g.ResizeNearestNeighbor("nearest", x, [3, 6], align_corners=True)
    g.MirrorPad("mirror", x, [[0, 0], [1, 1], [2, 0], [0, 0]], mode="REFLECT")
    g.PadV2("pad", x, [[0, 0], [1, 0], [0, 2], [0, 0]], 0.5)
    g.SpaceToBatchND("to_batch", x, [2, 2], [[0, 0], [0, 0]])
    wide = g.Tile("wide", x, [1, 1, 1, 2])
    g.DepthToSpace("to_space", wide, block_size=2, data_format="NHWC")
    g.LRN("lrn", x, depth_radius=1, bias=1.0, alpha=0.5, beta=0.75)
    return g


def arrays():
    """Return reductions and ops that slice and join; each one is an output."""
    g = Graph()
    x = g.input("x", (2, 4, 4, 2))
    g.Max("max", x, [1], keep_dims=True)
    g.Sum("sum", x, [0, 3])
    g.Prod("prod", x, -1)
    g.ArgMax("argmax", x, 2)
    g.Cumsum("cumsum", x, 1, exclusive=True, reverse=True)
    g.Tile("tile", x, [1, 1, 2, 1])
    g.ReverseV2("reverse", x, [1])
    g.Slice("slice", x, [0, 1, 0, 0], [2, -1, 2, 1])
    g.StridedSlice(
        "strided", x, [0, 0, 3], [0, 4, 0], [1, 2, -1], begin_mask=1, end_mask=1
    )
    g.StridedSlice(
        "ellipsis", x, [0, 0, 1], [0, 0, 2], [1, 1, 1], ellipsis_mask=1, new_axis_mask=2
    )
    g.Split("split", 3, x, num_split=2)
    g.AddN("add_n", "split", "split:1", N=2)
    g.SplitV("split_v", x, [1, -1], 1, num_split=2)
    g.Mul("split_v_last", "split_v:1", 2.0)
    g.Unpack("unpack", x, num=4, axis=1)
    g.Maximum("unpacked", "unpack:1", "unpack:3")
    g.Pack("pack", "unpack", "unpack:2", axis=-1, N=2)
    g.Squeeze("squeeze", g.Min("min", x, [1, 2], keep_dims=True), squeeze_dims=(1, 2))
    return g


def selections():
    """Return ops that gather, select and compute; each one is an output."""
    g = Graph()
    x = g.input("x", (2, 4, 4, 2))
    g.GatherV2("gather", x, [[3, 0], [1, 1]], 2)
    g.GatherNd("gather_nd", x, [[0, 1], [1, 2]])
    g.OneHot("one_hot", [[0, 3], [2, 1]], 4, 2.0, -1.0, axis=-1)
    positive = g.Greater("positive", x, 0.0)
    g.SelectV2("select", positive, x, g.Neg("neg", x))
    g.Any("any", positive, [1, 2])
    g.Cast("cast", positive, SrcT="bool", DstT="int32")
    g.ClipByValue("clip", x, -0.5, 0.25)
    g.LeakyRelu("leaky_relu", x, alpha=0.1)
    g.Einsum("einsum", x, w(8, 2, 3), equation="bhwc,cd->bhwd")
    g.TopKV2("top_k", x, 1, sorted=True)
    g.FloorMod("floor_mod", x, 0.3)
    g.Pow("pow", g.Abs("abs", x), 1.5)
    g.DivNoNan("div_no_nan", x, g.Relu("relu", x))
    half = g.RealDiv("half", g.Size("size", x), 3)
    g.Fill("fill", g.Pack("sizes", half, 2, axis=0, N=2), 1.5)
    g.BroadcastTo("broadcast", w(9, 3, 1), [2, 3, 2])
    for op in ("Elu", "Softplus", "Selu", "Sigmoid", "Round", "Sign", "Reciprocal"):
        getattr(g, op)(op.lower(), x)
    return g


GRAPHS = {
    "mobilenet": mobilenet,
    "bert": bert,
    "image_ops": images,
    "array_ops": arrays,
    "selections": selections,
}
