"""ONNX networks with random weights, for ``onnx_models.py``.

MobileNetV2 and InceptionV3, in float32 and quantized to 8 bits as exporters do, a
perceptron with dynamic quantization, and recurrent networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["NETWORKS"]

Sizes = tuple[int, int]


class Network:
    """A graph that grows node by node; images are float32, or uint8 if quantized.

    All images have the same scale, so that they can be concatenated. The zero point is
    0 after an activation whose results are not negative, else 128.
    """

    def __init__(self, quantized: bool = False) -> None:
        self.quantized, self.rng = quantized, np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.arrays: list[Any] = []
        self.zeros: dict[str, str] = {}
        self.channels: dict[str, int] = {}
        self.constant(np.float32(0.05), "scale")
        for zero in (0, 128):
            self.constant(np.uint8(zero), f"zero{zero}")

    def constant(self, values: Any, name: str = "") -> str:
        """Add an array; return its name."""
        name = name or f"c{len(self.arrays)}"
        self.arrays.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weights(self, *shape: int) -> Any:
        """Return random weights scaled so that outputs are about as large as inputs."""
        fan = max(int(np.prod(shape[1:])), 1)
        return (self.rng.normal(size=shape) * np.sqrt(2 / fan)).astype(np.float32)

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Add a node; return the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def same(self, op: str, x: str, *more: str, **attrs: Any) -> str:
        """Add a node whose output has the channels and the scale of its input."""
        y = self.node(op, x, *more, **attrs)
        self.zeros[y], self.channels[y] = self.zeros[x], self.channels[x]
        return y

    def image(self, x: str, channels: int) -> str:
        """Return the input as an image, quantized if the network is."""
        self.zeros[x], self.channels[x] = "zero128", channels
        return self.quantize(x, x) if self.quantized else x

    def quantize(self, x: str, like: str, zero: str = "zero128") -> str:
        """Add a node that quantizes to 8 bits."""
        y = self.node("QuantizeLinear", x, "scale", zero)
        self.zeros[y], self.channels[y] = zero, self.channels[like]
        return y

    def dequantize(self, x: str) -> str:
        """Add a node that dequantizes to float32, if the network is quantized."""
        if not self.quantized:
            return x
        return self.node("DequantizeLinear", x, "scale", self.zeros[x])

    def conv(
        self,
        x: str,
        out: int,
        kernel: Sizes = (1, 1),
        stride: int = 1,
        *,
        pad: bool = True,
        group: int = 1,
        relu: str = "Relu",
    ) -> str:
        """Add a convolution with a bias and an activation."""
        pads = [(n // 2) * pad for n in kernel] * 2
        attrs: Any = {"pads": pads, "strides": (stride, stride), "group": group}
        w = self.weights(out, self.channels[x] // group, *kernel)
        if self.quantized:
            step = np.abs(w).max((1, 2, 3)) / 127
            integers = np.round(w / step.reshape(-1, 1, 1, 1)).astype(np.int8)
            zero = "zero0" if relu else "zero128"
            arrays = integers, step, np.zeros(out, np.int8)
            names = [self.constant(array) for array in arrays]
            bias = self.constant(np.zeros(out, np.int32))
            output = "scale", zero, bias
            y = self.node(
                "QLinearConv", x, "scale", self.zeros[x], *names, *output, **attrs
            )
            self.zeros[y] = zero
        else:
            bias = self.constant(np.zeros(out, np.float32))
            y = self.node("Conv", x, self.constant(w), bias, **attrs)
            if relu == "Clip":
                six = self.constant(np.float32(6))
                y = self.node("Clip", y, self.constant(np.float32(0)), six)
            elif relu:
                y = self.node(relu, y)
            self.zeros[y] = ""
        self.channels[y] = out
        return y

    def add(self, a: str, b: str) -> str:
        """Add an addition, such as that of a shortcut."""
        y = self.node("Add", self.dequantize(a), self.dequantize(b))
        self.zeros[y], self.channels[y] = "", self.channels[a]
        return self.quantize(y, a) if self.quantized else y

    def join(self, *xs: str) -> str:
        """Add a concatenation of channels."""
        y = self.same("Concat", *xs, axis=1)
        self.channels[y] = sum(self.channels[x] for x in xs)
        return y

    def pool(self, op: str, x: str, stride: int, pad: int) -> str:
        """Add pooling of 3 x 3 windows; 8-bit images are averaged in float32."""
        attrs = {"kernel_shape": (3, 3), "strides": (stride,) * 2, "pads": (pad,) * 4}
        if op == "MaxPool" or not self.quantized:
            return self.same(op, x, **attrs)
        return self.quantize(
            self.node(op, self.dequantize(x), **attrs), x, self.zeros[x]
        )

    def model(self, x: str, shape: Sequence[int], classes: int = 1000) -> Any:
        """Return the model of an image classifier that ends with this network."""
        y = self.node("Flatten", self.node("GlobalAveragePool", self.dequantize(x)))
        w = self.constant(self.weights(classes, self.channels[x]))
        bias = self.constant(np.zeros(classes, np.float32))
        return self.finish(self.node("Gemm", y, w, bias, transB=1), shape)

    def finish(self, y: str, shape: Sequence[int]) -> Any:
        """Return the model from x to y."""
        infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, size)
            for name, size in (("x", shape), (y, None))
        ]
        graph = helper.make_graph(self.nodes, "net", infos[:1], infos[1:], self.arrays)
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def mobilenet_v2(quantized: bool = False) -> Any:
    """Return MobileNetV2 of width 1 for 224 x 224 pixels."""
    net = Network(quantized)
    six = {"relu": "Clip"}
    x = net.conv(net.image("x", 3), 32, (3, 3), 2, **six)
    rows = (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)
    for factor, out, count, stride in (
        *rows,
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for i in range(count):
            step = stride if i == 0 else 1
            before = net.channels[x]
            expanded = factor * before
            y = x if factor == 1 else net.conv(x, expanded, **six)
            y = net.conv(y, expanded, (3, 3), step, group=expanded, **six)
            y = net.conv(y, out, relu="")
            x = net.add(x, y) if step == 1 and out == before else y
    return net.model(net.conv(x, 1280, **six), (1, 3, 224, 224))


def inception_v3(quantized: bool = False) -> Any:
    """Return InceptionV3 for 299 x 299 pixels, without the auxiliary classifier."""
    net = Network(quantized)

    def chain(x: str, *rows: tuple[int, Sizes]) -> str:
        for out, kernel in rows:
            x = net.conv(x, out, kernel)
        return x

    x = net.conv(net.image("x", 3), 32, (3, 3), 2, pad=False)
    x = chain(net.conv(x, 32, (3, 3), pad=False), (64, (3, 3)))
    x = net.conv(net.pool("MaxPool", x, 2, 0), 80)
    x = net.pool("MaxPool", net.conv(x, 192, (3, 3), pad=False), 2, 0)
    for out in (32, 64, 64):
        parts = chain(x, (64, (1, 1))), chain(x, (48, (1, 1)), (64, (5, 5)))
        third = chain(x, (64, (1, 1)), (96, (3, 3)), (96, (3, 3)))
        mean = net.pool("AveragePool", x, 1, 1)
        x = net.join(*parts, third, net.conv(mean, out))
    branch = chain(x, (64, (1, 1)), (96, (3, 3)))
    parts = (
        net.conv(x, 384, (3, 3), 2, pad=False),
        net.conv(branch, 96, (3, 3), 2, pad=False),
    )
    x = net.join(*parts, net.pool("MaxPool", x, 2, 0))
    for c in (128, 160, 160, 192):
        wide, tall = (1, 7), (7, 1)
        second = chain(x, (c, (1, 1)), (c, wide), (192, tall))
        third = chain(x, (c, (1, 1)), (c, tall), (c, wide), (c, tall), (192, wide))
        mean = net.conv(net.pool("AveragePool", x, 1, 1), 192)
        x = net.join(net.conv(x, 192), second, third, mean)
    first = net.conv(net.conv(x, 192), 320, (3, 3), 2, pad=False)
    second = chain(x, (192, (1, 1)), (192, (1, 7)), (192, (7, 1)))
    second = net.conv(second, 192, (3, 3), 2, pad=False)
    x = net.join(first, second, net.pool("MaxPool", x, 2, 0))
    for _ in range(2):
        a = net.conv(x, 384)
        b = chain(x, (448, (1, 1)), (384, (3, 3)))
        pair = [chain(v, (384, kernel)) for v in (a, b) for kernel in ((1, 3), (3, 1))]
        mean = net.conv(net.pool("AveragePool", x, 1, 1), 192)
        x = net.join(net.conv(x, 320), *pair, mean)
    return net.model(x, (1, 3, 299, 299))


def perceptron(rows: int) -> Any:
    """Return three layers of width 1024 with dynamically quantized inputs."""
    net = Network()
    x = "x"
    for _ in range(3):
        w = net.weights(1024, 1024)
        step = np.float32(np.abs(w).max() / 127)
        names = [f"{kind} of {x}" for kind in ("bytes", "step", "zero")]
        net.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], names))
        integers = net.constant(np.round(w / step).astype(np.int8))
        y = net.node("MatMulInteger", names[0], integers, names[2])
        scale = net.node("Mul", names[1], net.constant(step))
        y = net.node("Mul", net.node("Cast", y, to=TensorProto.FLOAT), scale)
        x = net.node("Relu", net.node("Add", y, net.constant(net.weights(1024))))
    return net.finish(x, (rows, 1024))


def recurrent(op: str, gates: int) -> Any:
    """Return 100 steps of one layer with 64 inputs and 128 units."""
    net = Network()
    names = [net.constant(net.weights(1, gates * 128, n) * 0.5) for n in (64, 128)]
    bias = net.constant(net.weights(1, 2 * gates * 128))
    more = {"linear_before_reset": 1} if op == "GRU" else {}
    y = net.node(op, "x", *names, bias, hidden_size=128, **more)
    return net.finish(y, (100, 1, 64))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mobilenet_v2": mobilenet_v2,
    "inception_v3": inception_v3,
    "mobilenet_v2_int8": lambda: mobilenet_v2(quantized=True),
    "inception_v3_int8": lambda: inception_v3(quantized=True),
    "perceptron_int8": lambda: perceptron(1),
    "perceptron_int8_32": lambda: perceptron(32),
    "lstm": lambda: recurrent("LSTM", 4),
    "gru": lambda: recurrent("GRU", 3),
}
