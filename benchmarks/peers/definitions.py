"""The workloads: the computation and the data of each, the same for all contestants.

Arrays are float32, drawn with seed 0; images are NHWC. This module draws all random
numbers once and writes them to a file that all contestants read, so that results are
comparable.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Inputs = dict[str, Array]
Layers = list[dict[str, Any]]


class Workload(NamedTuple):
    """One row of the table.

    Attributes:
        what: A description of the computation.
        inputs: Draws the data, by name.
        exact: Whether the workload only moves values, so that results must be equal.
        trains: Whether the result is the weights after the first step, in the order of
            the inputs whose names begin with ``w``.
        layers: The layers of a network, without their weights.

    """

    what: str
    inputs: Callable[[Draw], Inputs]
    exact: bool = False
    trains: bool = False
    layers: Layers | None = None


class Draw:
    """Draws random arrays: ``draw(2, 3, scale=0.1)``."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, *shape: int, scale: float = 1.0) -> Array:
        """Return normally distributed numbers."""
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def integers(self, end: int, count: int) -> Array:
        """Return ``count`` integers below ``end``."""
        return self.rng.integers(0, end, count).astype(np.int32)


# --- networks --------------------------------------------------------------------


def mlp(f: Draw, batch: int = 128, *sizes: int) -> Inputs:
    """Return a batch and the weights of a dense network, by default 784-256-128-10."""
    sizes = sizes or (784, 256, 128, 10)
    inputs = {"x": f(batch, sizes[0]), "labels": f.integers(sizes[-1], batch)}
    for i, (n, m) in enumerate(pairwise(sizes)):
        inputs |= {f"w{2 * i}": f(n, m, scale=0.05), f"w{2 * i + 1}": zeros(m)}
    return inputs


def cnn(f: Draw) -> Inputs:
    """Return a batch of 32 images, two filters and a dense layer."""
    inputs = {"x": f(32, 28, 28, 1), "labels": f.integers(10, 32)}
    weights = [f(3, 3, 1, 16, scale=0.2), zeros(16), f(3, 3, 16, 32, scale=0.1)]
    weights += [zeros(32), f(1568, 10, scale=0.03), zeros(10)]
    return inputs | {f"w{i}": w for i, w in enumerate(weights)}


# MobileNetV2 of width 1.0 (Sandler et al., 2018, table 2): the expansion factor,
# channels, repeats and the stride of the first repeat.
BLOCKS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
BLOCKS += [(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


def mobilenet_layers() -> Layers:
    """Return the layers in order, with the shapes of their weights.

    ``skip`` is "from" if a shortcut starts before the layer, and "to" if it ends after
    the layer. The last layer averages over each image.
    """
    layers: Layers = []

    def add(kind: str, *shape: int, stride: int = 1, relu6: bool = True) -> None:
        layer = {"kind": kind, "shape": shape, "stride": stride, "relu6": relu6}
        layers.append({**layer, "skip": ""})

    add("conv", 3, 3, 3, 32, stride=2)
    before = 32
    for factor, channels, repeats, first_stride in BLOCKS:
        for i in range(repeats):
            stride = 1 if i else first_stride
            hidden = before * factor
            begin = len(layers)
            if factor != 1:
                add("conv", 1, 1, before, hidden)
            add("depthwise", 3, 3, hidden, 1, stride=stride)
            add("conv", 1, 1, hidden, channels, relu6=False)
            if stride == 1 and before == channels:
                layers[begin]["skip"], layers[-1]["skip"] = "from", "to"
            before = channels
    add("conv", 1, 1, before, 1280)
    add("dense", 1280, 1000, relu6=False)
    return layers


def mobilenet(f: Draw) -> Inputs:
    """Return one image, and a weight ``w<i>`` and a bias ``b<i>`` for each layer."""
    inputs = {"x": f(1, 224, 224, 3)}
    for i, layer in enumerate(mobilenet_layers()):
        *window, n, m = layer["shape"]
        count = np.prod(window, dtype=int) * (1 if layer["kind"] == "depthwise" else n)
        inputs[f"w{i}"] = f(*layer["shape"], scale=float(1.5 / count) ** 0.5)
        inputs[f"b{i}"] = f(n if layer["kind"] == "depthwise" else m, scale=0.1)
    return inputs


def transformer(
    f: Draw, batch: int = 4, length: int = 128, d: int = 256, hidden: int = 1024
) -> Inputs:
    """Return a batch of sequences, and the weights of one block."""
    square = {f"w{name}": f(d, d, scale=0.06) for name in "qkvo"}
    first = {"g1": zeros(d) + 1, "b1": zeros(d), **square}
    second = {"g2": zeros(d) + 1, "b2": zeros(d), "w1": f(d, hidden, scale=0.06)}
    last = {"c1": zeros(hidden), "w2": f(hidden, d, scale=0.03), "c2": zeros(d)}
    return {"x": f(batch, length, d), **first, **second, **last}


def adam(f: Draw) -> Inputs:
    """Return weights, Adam's two moments and a gradient."""
    p, m, v, g = (f(1 << 20) for _ in "pmvg")
    return {"p": p, "m": m, "v": np.square(v), "g": g}


def zeros(n: int) -> Array:
    """Return ``n`` zeros."""
    return np.zeros(n, np.float32)


# --- the table -------------------------------------------------------------------

WORKLOADS = {
    "add_8": Workload("a + b, both 8x8", lambda f: {"a": f(8, 8), "b": f(8, 8)}),
    "grad_small": Workload(
        "the gradient of sum(tanh(x x + x)), x 8x8", lambda f: {"x": f(8, 8)}
    ),
    "custom_grad": Workload(
        "value and gradient of sum(op(x)), x 8x8, op with a custom gradient",
        lambda f: {"x": f(8, 8)},
    ),
    "exp_1m": Workload("exp of 1,000,000", lambda f: {"x": f(1_000_000)}),
    "gelu_1m": Workload(
        "the tanh form of gelu of 1,000,000, in basic ops",
        lambda f: {"x": f(1_000_000)},
    ),
    "adam_1m": Workload("a step of Adam of 2^20 weights, in basic ops", adam),
    "add_bcast": Workload(
        "(1024, 1024) + (1024,)", lambda f: {"a": f(1024, 1024), "b": f(1024)}
    ),
    "sum_rows": Workload("(1024, 1024) over axis 1", lambda f: {"x": f(1024, 1024)}),
    "sum_cols": Workload("(1024, 1024) over axis 0", lambda f: {"x": f(1024, 1024)}),
    "softmax": Workload("(1024, 1024), last axis", lambda f: {"x": f(1024, 1024)}),
    "layernorm": Workload(
        "(1024, 768), last axis, with scale and offset",
        lambda f: {"x": f(1024, 768), "scale": f(768), "offset": f(768)},
    ),
    "matmul_512": Workload("512^3", lambda f: {"a": f(512, 512), "b": f(512, 512)}),
    "matmul_1024": Workload(
        "1024^3", lambda f: {"a": f(1024, 1024), "b": f(1024, 1024)}
    ),
    "bmm": Workload(
        "(16, 128, 64) x (16, 64, 128)",
        lambda f: {"a": f(16, 128, 64), "b": f(16, 64, 128)},
    ),
    "conv3x3": Workload(
        "1x56x56x64 with 3x3x64x64, same",
        lambda f: {"x": f(1, 56, 56, 64), "w": f(3, 3, 64, 64)},
    ),
    "conv1x1": Workload(
        "1x56x56x64 with 1x1x64x256",
        lambda f: {"x": f(1, 56, 56, 64), "w": f(1, 1, 64, 256)},
    ),
    "dwconv3x3": Workload(
        "1x112x112x32 with 3x3x32x1, same",
        lambda f: {"x": f(1, 112, 112, 32), "w": f(3, 3, 32, 1)},
    ),
    "maxpool": Workload(
        "1x112x112x64, 2x2, stride 2",
        lambda f: {"x": f(1, 112, 112, 64)},
        exact=True,
    ),
    "transpose": Workload(
        "(256, 56, 64) to (64, 256, 56), in memory",
        lambda f: {"x": f(256, 56, 64)},
        exact=True,
    ),
    "concat": Workload(
        "4 of (256, 256, 4) on axis 2",
        lambda f: {name: f(256, 256, 4) for name in "abcd"},
        exact=True,
    ),
    "gather": Workload(
        "4096 rows of (10000, 64)",
        lambda f: {"x": f(10_000, 64), "indices": f.integers(10_000, 4096)},
        exact=True,
    ),
    "tiny_mlp_train": Workload(
        "a step of SGD: batch 32, 8-16-16-2, relu, softmax cross-entropy",
        lambda f: mlp(f, 32, 8, 16, 16, 2),
        trains=True,
    ),
    "tiny_transformer": Workload(
        "gradient of the mean square of a pre-norm block: batch 1, 16 x 32, 4 heads",
        lambda f: transformer(f, 1, 16, 32, 64),
    ),
    "mlp_train": Workload(
        "a step of SGD: batch 128, 784-256-128-10, relu, softmax cross-entropy",
        mlp,
        trains=True,
    ),
    "cnn_train": Workload(
        "a step of SGD: batch 32 of 28x28x1, two 3x3 convolutions, pooling, dense",
        cnn,
        trains=True,
    ),
    "mobilenet_v2": Workload(
        "forward, 1x224x224x3, batch norm folded, relu6",
        mobilenet,
        layers=mobilenet_layers(),
    ),
    "transformer": Workload(
        "gradient of the mean square of a pre-norm block: batch 4, 128 x 256, 4 heads",
        transformer,
    ),
}


# The axes of each input that grow with the size of a workload, in equal shares. Other
# inputs, such as weights and the table of ``gather``, do not grow.
_ROWS = {"x": (0,)}
_IMAGE = {"x": (1, 2)}
GROWING_AXES: dict[str, dict[str, tuple[int, ...]]] = {
    "add_8": {"a": (0, 1), "b": (0, 1)},
    "grad_small": {"x": (0, 1)},
    "custom_grad": {"x": (0, 1)},
    "adam_1m": dict.fromkeys("pmvg", (0,)),
    "add_bcast": {"a": (0,)},
    "matmul_512": {"a": (0,)},
    "matmul_1024": {"a": (0,)},
    "bmm": {"a": (0,), "b": (0,)},
    "concat": {name: (0,) for name in "abcd"},
    "gather": {"indices": (0,)},
    "mlp_train": _ROWS | {"labels": (0,)},
    "cnn_train": _ROWS | {"labels": (0,)},
    "tiny_mlp_train": _ROWS | {"labels": (0,)},
    "transformer": {"x": (0, 1)},
    "tiny_transformer": {"x": (1,)},
}
IMAGES = ("conv3x3", "conv1x1", "dwconv3x3", "maxpool", "mobilenet_v2")
GROWING_AXES |= dict.fromkeys(IMAGES, _IMAGE)
SIDE_MULTIPLES = {"mobilenet_v2": 32}  # pixels: PyTorch pads other sizes differently


def scaled_inputs(name: str, inputs: Inputs, factor: float) -> Inputs:
    """Return inputs of scaled size, each truncated or repeated."""
    found = dict(inputs)
    for key, axes in GROWING_AXES.get(name, _ROWS).items() if factor != 1 else ():
        for axis in axes:
            old = found[key].shape[axis]
            step = SIDE_MULTIPLES.get(name, 1)
            new = round(old * factor ** (1 / len(axes)) / step) * step
            found[key] = found[key].take(np.arange(new) % old, axis)
    return found


# --- files -----------------------------------------------------------------------


def write(name: str, folder: Path, factor: float = 1) -> Inputs:
    """Write the inputs of a workload: a file of numbers, and a JSON description.

    The inputs are ``factor`` times as large as those of the table.
    """
    workload = WORKLOADS[name]
    inputs = scaled_inputs(name, workload.inputs(Draw()), factor)
    description = [[key, str(x.dtype), x.shape] for key, x in inputs.items()]
    (folder / "inputs.json").write_text(
        json.dumps({"inputs": description, "layers": workload.layers})
    )
    with open(folder / "inputs.bin", "wb") as file:
        for x in inputs.values():
            file.write(x.tobytes())
    return inputs


def read(folder: Path) -> tuple[Inputs, Layers]:
    """Return the inputs and the layers of the last written workload."""
    description = json.loads((folder / "inputs.json").read_text())
    inputs, offset = {}, 0
    for key, dtype, shape in description["inputs"]:
        count = int(np.prod(shape, dtype=int))
        found = np.fromfile(folder / "inputs.bin", dtype, count, offset=offset)
        inputs[key] = found.reshape(shape)
        offset += found.nbytes
    return inputs, description["layers"]
