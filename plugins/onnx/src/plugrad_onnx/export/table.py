"""The table of ``save``: the ONNX ops for each plugrad kernel.

Each row is a function of the writer, the input names, the attributes and the output
specs. It returns the name or the names of the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from plugrad.geometry import Windows
from plugrad.plugin import Spec

from ..dtypes import is_floating
from .writer import Writer

__all__ = ["EXPORTS"]

Names = list[str]
Attrs = Mapping[str, Any]
Export = Callable[[Writer, Names, Attrs, list[Spec]], Any]
EXPORTS: dict[str, Export] = {}

# Kernels that are equivalent to one ONNX op with the same inputs. Each row is
# kernel:op:attributes; the op defaults to the name of the kernel.
SAME_OPS = """
Abs Acos Acosh Add Asin Asinh Atan Atanh BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil
Cos Cosh Det Elu Equal Erf Exp Floor Greater Identity IsInf Less Log Neg Pow Reciprocal
Relu Round Sigmoid Sign Sin Sinh Softplus Sqrt Sub Tan Tanh
AddN:Sum GreaterEqual:GreaterOrEqual IsNan:IsNaN LessEqual:LessOrEqual LogicalAnd:And
LogicalNot:Not LogicalOr:Or LogicalXor:Xor Maximum:Max Minimum:Min Multiply:Mul
Prelu:PRelu RealDiv:Div Select:Where LeakyRelu:LeakyRelu:alpha Softmax:Softmax:axis
LogSoftmax:LogSoftmax:axis Concat:Concat:axis Einsum:Einsum:equation Selu
"""


def _same_op(op: str, attrs: Sequence[str]) -> Export:
    return lambda w, x, a, _: w.emit(op, *x, **{name: a[name] for name in attrs})


for _row in SAME_OPS.split():
    _kernel, *_rest = _row.split(":")
    EXPORTS[_kernel] = _same_op(_rest[0] if _rest else _kernel, _rest[1:])


def export(*kernels: str) -> Callable[[Export], Export]:
    """Return a decorator that adds a row for each of the kernels."""

    def register(row: Export) -> Export:
        EXPORTS.update(dict.fromkeys(kernels, row))
        return row

    return register


# --- elements --------------------------------------------------------------------


def _times_half(w: Writer, x: str, y: str) -> str:
    half = w.like(0.5, x)
    return w.emit("Mul", x, w.emit("Add", w.emit("Mul", y, half), half))


def _gelu_tanh(w: Writer, x: str) -> str:
    clipped = w.emit("Clip", x, w.like(-10, x), w.like(10, x))
    square = w.emit("Mul", w.emit("Mul", clipped, clipped), w.like(0.044715, x))
    cubic = w.emit("Mul", clipped, w.emit("Add", square, w.like(1, x)))
    return w.emit("Tanh", w.emit("Mul", cubic, w.like((2 / np.pi) ** 0.5, x)))


EXPORTS |= {
    "Cast": lambda w, x, a, _: w.emit("Cast", x[0], to=_elem_type(a["dtype"])),
    "Exp2": lambda w, x, a, _: w.emit("Pow", w.like(2, x[0]), x[0]),
    "Expm1": lambda w, x, a, _: w.emit("Sub", w.emit("Exp", x[0]), w.like(1, x[0])),
    "Log1p": lambda w, x, a, _: w.emit("Log", w.emit("Add", x[0], w.like(1, x[0]))),
    "NotEqual": lambda w, x, a, _: w.emit("Not", w.emit("Equal", *x)),
    "Relu6": lambda w, x, a, _: w.emit("Clip", x[0], w.like(0, x[0]), w.like(6, x[0])),
    "Rsqrt": lambda w, x, a, _: w.emit("Reciprocal", w.emit("Sqrt", x[0])),
    "Square": lambda w, x, a, _: w.emit("Mul", x[0], x[0]),
    "Trunc": lambda w, x, a, _: w.emit(
        "Where",
        w.emit("Less", x[0], w.like(0, x[0])),
        w.emit("Ceil", x[0]),
        w.emit("Floor", x[0]),
    ),
    "ClipByValue": lambda w, x, a, _: w.emit(
        "Clip", x[0], w.like(a["min"], x[0]), w.like(a["max"], x[0])
    ),
    "Step": lambda w, x, a, _: w.emit(
        "Where",
        w.emit("Greater", x[0], w.like(0, x[0])),
        w.like(1, x[0]),
        w.like(a["alpha"], x[0]),
    ),
    "Gelu": lambda w, x, a, _: _times_half(
        w, x[0], w.emit("Erf", w.emit("Mul", x[0], w.like(0.5**0.5, x[0])))
    ),
    "GeluTanh": lambda w, x, a, _: _times_half(w, x[0], _gelu_tanh(w, x[0])),
    "IsFinite": lambda w, x, a, _: w.emit(
        "Not", w.emit("Or", w.emit("IsNaN", x[0]), w.emit("IsInf", x[0]))
    ),
}


def _elem_type(dtype: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


@export("SquaredDifference")
def _squared_difference(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    d = w.emit("Sub", *x)
    return w.emit("Mul", d, d)


@export("CopySign")
def _copy_sign(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    zero = w.like(0, x[1])
    one = w.like(1, x[1])
    inverse = w.emit("Reciprocal", x[1])
    b = w.emit("Where", w.emit("Equal", x[1], zero), inverse, x[1])  # 1 / -0.0 = -inf
    # A product, because ONNX Runtime's Where turns -0.0 into 0.0.
    sign = w.emit("Where", w.emit("Less", b, zero), w.emit("Neg", one), one)
    return w.emit("Mul", w.emit("Abs", x[0]), sign)


@export("Hypot")
def _hypot(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    sizes = [w.emit("Abs", name) for name in x]
    inf = w.like(np.inf, x[0])
    scale = w.emit("Max", *sizes)
    finite_nonzero = w.emit(
        "And", w.emit("Greater", scale, w.like(0, x[0])), w.emit("Less", scale, inf)
    )
    scale = w.emit("Where", finite_nonzero, scale, w.like(1, x[0]))
    parts = [w.emit("Div", size, scale) for size in sizes]
    squares = w.emit("Add", *[w.emit("Mul", part, part) for part in parts])
    length = w.emit("Mul", w.emit("Sqrt", squares), scale)
    infinite = w.emit("Or", *[w.emit("Equal", size, inf) for size in sizes])
    return w.emit("Where", infinite, inf, length)


def _floor_divide(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    if is_floating(y[0].dtype):
        return w.emit("Floor", w.emit("Div", *x))
    return w.emit("Div", w.emit("Sub", x[0], w.emit("Mod", *x)), x[1])


def _mod(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    if not is_floating(y[0].dtype):
        return w.emit("Mod", *x)
    return w.emit("Sub", x[0], w.emit("Mul", _floor_divide(w, x, a, y), x[1]))


EXPORTS |= {"FloorDiv": _floor_divide, "Mod": _mod}


def _filled(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    return w.constant(np.full(y[0].shape, a["value"], y[0].dtype))


EXPORTS |= {
    "Fill": _filled,
    "ZerosLike": lambda w, x, a, y: w.constant(np.zeros(y[0].shape, y[0].dtype)),
    "OnesLike": lambda w, x, a, y: w.constant(np.ones(y[0].shape, y[0].dtype)),
    "Range": lambda w, x, a, y: w.constant(
        a["start"] + np.arange(a["size"]) * a["step"], y[0].dtype
    ),
    "LinSpace": lambda w, x, a, y: w.constant(
        np.linspace(a["start"], a["stop"], a["num"], endpoint=a["endpoint"]), y[0].dtype
    ),
}


# --- reductions ------------------------------------------------------------------


def _reduction(op: str) -> Export:
    return lambda w, x, a, _: w.emit(
        op,
        x[0],
        w.ints(*a["axis"]),
        keepdims=int(a["keepdims"]),
        noop_with_empty_axes=1,
    )


for _name in ("Max", "Mean", "Min", "Prod", "Sum"):
    EXPORTS[_name] = _reduction(f"Reduce{_name}")


def _bool_reduction(op: str) -> Export:
    def row(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
        number = w.emit("Cast", x[0], to=TensorProto.INT32)
        reduced = _reduction(op)(w, [number], a, y)
        return w.emit("Cast", reduced, to=TensorProto.BOOL)

    return row


EXPORTS |= {"All": _bool_reduction("ReduceMin"), "Any": _bool_reduction("ReduceMax")}


def _arg_reduction(op: str) -> Export:
    return lambda w, x, a, _: w.emit(
        "Cast", w.emit(op, x[0], axis=a["axis"], keepdims=0), to=TensorProto.INT32
    )


EXPORTS |= {"ArgMax": _arg_reduction("ArgMax"), "ArgMin": _arg_reduction("ArgMin")}


@export("Cumsum")
def _cumulative_sum(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    flags: Any = {name: int(a[name]) for name in ("exclusive", "reverse")}
    return w.emit("CumSum", x[0], w.constant(a["axis"], np.int64), **flags)


@export("TopK")
def _top_k(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> Names:
    values, indices = (f"v{next(w.count)}" for _ in range(2))
    node = helper.make_node("TopK", [x[0], w.ints(a["k"])], [values, indices])
    w.nodes.append(node)
    w.specs[indices] = Spec((), np.dtype("int64"))
    return [values, w.emit("Cast", indices, to=TensorProto.INT32)]


# --- shapes ----------------------------------------------------------------------


def _reshape_to_output(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    return w.reshape(x[0], y[0].shape)


EXPORTS |= {
    "Reshape": _reshape_to_output,
    "ExpandDims": _reshape_to_output,
    "BroadcastTo": lambda w, x, a, y: w.emit("Expand", x[0], w.ints(*y[0].shape)),
    "Tile": lambda w, x, a, _: w.emit("Tile", x[0], w.ints(*a["repetitions"])),
    "Transpose": lambda w, x, a, _: w.transpose(x[0], a["axes"]),
}


@export("Slice", "StridedSlice")
def _slice(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    begin, size = a["begin"], a["size"]
    steps = a.get("strides", (1,) * len(begin))
    before_start = -(2**31)
    ends = []
    for b, n, s in zip(begin, size, steps, strict=True):
        end = b + (n - 1) * s + (1 if s > 0 else -1) if n else b
        ends.append(before_start if end < 0 else end)
    axes = range(len(begin))
    return w.emit("Slice", x[0], *(w.ints(*v) for v in (begin, ends, axes, steps)))


@export("Reverse")
def _reverse(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    n = len(a["axis"])
    rows = ((-1,) * n, (-(2**31),) * n, a["axis"], (-1,) * n)
    return w.emit("Slice", x[0], *(w.ints(*v) for v in rows))


@export("SplitV", "Unpack")
def _split(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> Names:
    axis = a["axis"]
    sizes = a.get("sizes", (1,) * len(y))
    names = [f"v{next(w.count)}" for _ in y]
    w.nodes.append(helper.make_node("Split", [x[0], w.ints(*sizes)], names, axis=axis))
    for name in names:
        w.specs[name] = w.specs[x[0]]
    if "sizes" in a:
        return names
    return [w.reshape(n, spec.shape) for n, spec in zip(names, y, strict=True)]


@export("Pack")
def _stack(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    shape = [1 if i == a["axis"] else n for i, n in enumerate(y[0].shape)]
    return w.emit("Concat", *(w.reshape(one, shape) for one in x), axis=a["axis"])


@export("PadV2")
def _pad(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    pads = [pair[k] for k in (0, 1) for pair in a["paddings"]]
    return w.emit("Pad", x[0], w.ints(*pads), w.like(a["constant_values"], x[0]))


@export("GatherV2")
@export("Take")  # ONNX counts negative indices from the end, as Take does
def _gather(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    if a["batch_dims"]:
        raise ValueError("save: ONNX has no gather with batch_dims")
    return w.emit("Gather", x[0], _int64(w, x[1]), axis=a["axis"])


def _int64(w: Writer, x: str) -> str:
    return w.emit("Cast", x, to=TensorProto.INT64)


EXPORTS |= {
    "GatherNd": lambda w, x, a, _: w.emit("GatherND", x[0], _int64(w, x[1])),
    "TensorScatterUpdate": lambda w, x, a, _: w.emit(
        "ScatterND", x[0], _int64(w, x[1]), x[2]
    ),
    "ScatterNd": lambda w, x, a, y: w.emit(
        "ScatterND",
        w.constant(np.zeros(y[0].shape, y[0].dtype)),
        _int64(w, x[0]),
        x[1],
        reduction="add",
    ),
    "OneHot": lambda w, x, a, y: w.emit(
        "OneHot",
        _int64(w, x[0]),
        w.constant(a["depth"], np.int64),
        w.constant([a["off_value"], a["on_value"]], y[0].dtype),
        axis=a["axis"],
    ),
}


# --- products, windows, norms ----------------------------------------------------


@export("BatchMatMul", "_FusedMatMul")
def _matmul(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    a_, b_ = (
        _swap_last_axes(w, name) if a[flag] else name
        for name, flag in zip(x[:2], ("transpose_a", "transpose_b"), strict=True)
    )
    return _with_bias(w, w.emit("MatMul", a_, b_), x, a)


def _swap_last_axes(w: Writer, x: str) -> str:
    axes = [*range(len(w.specs[x].shape))]
    return w.transpose(x, [*axes[:-2], axes[-1], axes[-2]])


def _with_bias(w: Writer, y: str, x: Names, a: Attrs) -> str:
    """Append the bias and activation of a fused kernel."""
    y = w.emit("Add", y, x[2]) if len(x) > 2 and x[2] else y
    activation = a.get("activation", "linear")
    if activation == "linear":
        return y
    names = {"relu": "Relu", "relu6": "Relu6", "elu": "Elu", "sigmoid": "Sigmoid"}
    names |= {"leaky_relu": "LeakyRelu", "prelu": "Prelu"}
    inputs = [y, x[3]] if activation == "prelu" else [y]
    attrs = {"alpha": a["leaky_relu_alpha"]} if activation == "leaky_relu" else {}
    return EXPORTS[names[activation]](w, inputs, attrs, [])


def _axes(rank: int) -> tuple[list[int], list[int]]:
    """Return the permutations to channels-first and back to channels-last."""
    return [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]


def _window(g: Windows) -> dict[str, Any]:
    return {
        "kernel_shape": g.window,
        "strides": g.strides,
        "dilations": g.dilations,
        "pads": [pair[k] for k in (0, 1) for pair in g.padding],
    }


@export("Conv2D", "Conv3D", "FusedConv2D")
def _conv(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    g: Windows = a["geometry"]
    n = len(g.in_shape)
    to, back = _axes(n)
    filters = w.transpose(x[1], [n - 1, n - 2, *range(n - 2)])
    image = w.transpose(x[0], to)
    convolved = w.emit("Conv", image, filters, group=g.groups, **_window(g))
    return _with_bias(w, w.transpose(convolved, back), x, a)


@export("DepthwiseConv2dNative", "FusedDepthwiseConv2D")
def _depthwise(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    g: Windows = a["geometry"]
    to, back = _axes(4)
    height, width, channels, multiplier = w.specs[x[1]].shape
    flat = w.transpose(x[1], [2, 3, 0, 1])
    filters = w.reshape(flat, (channels * multiplier, 1, height, width))
    image = w.transpose(x[0], to)
    convolved = w.emit("Conv", image, filters, group=channels, **_window(g))
    return _with_bias(w, w.transpose(convolved, back), x, a)


@export("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def _conv_transpose(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    g: Windows = a["geometry"]
    n = len(g.in_shape)
    to, back = _axes(n)
    filters = w.transpose(x[1], [n - 1, n - 2, *range(n - 2)])
    output_padding = [
        g.in_shape[i + 1]
        - (g.out_shape[i + 1] - 1) * g.strides[i]
        - e
        + sum(g.padding[i])
        for i, e in enumerate(g.extents)
    ]
    image = w.transpose(x[0], to)
    options = {"group": g.groups, "output_padding": output_padding, **_window(g)}
    return w.transpose(w.emit("ConvTranspose", image, filters, **options), back)


def _pool(op: str) -> Export:
    def row(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
        g: Windows = a["geometry"]
        to, back = _axes(len(g.in_shape))
        options = _window(g)
        if op == "AveragePool" and set(g.dilations) == {1}:
            del options["dilations"]  # AveragePool has no dilations in opset 18
        return w.transpose(w.emit(op, w.transpose(x[0], to), **options), back)

    return row


EXPORTS |= dict.fromkeys(("MaxPool", "MaxPool3D"), _pool("MaxPool"))
EXPORTS |= dict.fromkeys(("AvgPool", "AvgPool3D"), _pool("AveragePool"))


@export("FusedBatchNorm")
def _batch_norm(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    image, mean, variance, scale, offset = [*x, "", ""][:5]
    root = w.emit("Sqrt", w.emit("Add", variance, w.like(a["epsilon"], variance)))
    y = w.emit("Div", w.emit("Sub", image, mean), root)
    y = w.emit("Mul", y, scale) if scale else y
    return w.emit("Add", y, offset) if offset else y


@export("LayerNorm")
def _layer_norm(w: Writer, x: Names, a: Attrs, y: list[Spec]) -> str:
    axes = w.ints(*a["axis"])
    centered = w.emit("Sub", x[0], w.emit("ReduceMean", x[0], axes))
    variance = w.emit("ReduceMean", w.emit("Mul", centered, centered), axes)
    root = w.emit("Sqrt", w.emit("Add", variance, w.like(a["epsilon"], x[0])))
    y_name = w.emit("Div", centered, root)
    shape = [n if i in a["axis"] else 1 for i, n in enumerate(y[0].shape)]
    for op, name in zip(("Mul", "Add"), [*x[1:], "", ""], strict=False):
        y_name = w.emit(op, y_name, w.reshape(name, shape)) if name else y_name
    return y_name


@export("LRN")
def _lrn(w: Writer, x: Names, a: Attrs, _: list[Spec]) -> str:
    to, back = _axes(4)
    size = 2 * a["depth_radius"] + 1
    options = {"bias": a["bias"], "alpha": a["alpha"] * size, "beta": a["beta"]}
    return w.transpose(w.emit("LRN", w.transpose(x[0], to), size=size, **options), back)
