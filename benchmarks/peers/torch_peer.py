"""The workloads in eager PyTorch; the argument is the number of threads.

With the second argument ``compile``, only the workloads of ``cpu-jit`` run, compiled by
``torch.compile``, which gets the loss and compiles the gradient along with it, because
it cannot compile calls to ``backward``. With ``cuda``, all workloads run on the first
GPU.

Images and filters are converted to PyTorch's layouts, NCHW and OIHW, before timing
starts.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from serve import Case, Cases, serve

Tensor = torch.Tensor
cases = Cases()
forward = torch.inference_mode
COMPILED_WORKLOADS = (
    "grad_small",
    "gelu_1m",
    "tiny_mlp_train",
    "mlp_train",
    "cnn_train",
)
COMPILED_WORKLOADS += (
    "tiny_transformer",
    "transformer",
    "adam_1m",
    "softmax",
    "layernorm",
)
compiled: Callable[..., Any] = lambda f: f  # torch.compile, if the argument asks for it


def main(threads: str, option: str = "") -> None:
    """Serve; exit if ``torch.compile`` lacks a compiler."""
    global compiled
    torch.set_num_threads(int(threads))
    if option == "compile":
        compilers = [os.environ.get("CXX") or "g++", "clang++"]
        header = Path(sysconfig.get_path("include")) / "Python.h"
        if not (any(map(shutil.which, compilers)) and header.exists()):
            sys.exit("Error: torch.compile needs g++ or clang++, and Python.h")
        # Shapes are part of the signature, as with jit.
        compiled = partial(torch.compile, dynamic=False)
        for case in cases.keys() - {*COMPILED_WORKLOADS}:
            del cases[case]
    convert: Callable[[Any], Tensor] = torch.from_numpy
    wait = None
    if option == "cuda":
        if not torch.cuda.is_available():
            sys.exit("Error: torch-cuda needs an NVIDIA GPU and PyTorch with CUDA")
        convert = lambda x: torch.from_numpy(x).cuda()
        wait = torch.cuda.synchronize
        torch.backends.cudnn.allow_tf32 = False  # float32 like the others
    serve(cases, ["torch"], convert, lambda y: y.detach().cpu().numpy(), wait)


def nchw(x: Tensor) -> Tensor:
    """Convert images from NHWC to NCHW."""
    return x.permute(0, 3, 1, 2).contiguous()


def nhwc(x: Tensor) -> Any:
    """Convert images from NCHW to arrays in NHWC."""
    return x.permute(0, 2, 3, 1).cpu().numpy()


def oihw(w: Tensor) -> Tensor:
    """Convert a filter from HWIO to OIHW."""
    return w.permute(3, 2, 0, 1).contiguous()


def per_channel(w: Tensor) -> Tensor:
    """Convert a depthwise filter from HWC1 to C1HW."""
    return w.permute(2, 3, 0, 1).contiguous()


@cases("add_8")
@cases("add_bcast")
def _(a: Tensor, b: Tensor) -> Case:
    return lambda: a + b


@cases("adam_1m")
def _(p: Tensor, m: Tensor, v: Tensor, g: Tensor) -> Case:
    @compiled
    def step(p: Tensor, m: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
        first = 0.9 * m + 0.1 * g
        second = 0.999 * v + 0.001 * g * g
        return [p - 0.001 * first / (torch.sqrt(second) + 1e-8), first, second]

    return lambda: step(p, m, v, g)


@cases("grad_small")
def _(x: Tensor) -> Case:
    x.requires_grad_()
    loss = compiled(lambda x: torch.tanh(x * x + x).sum())

    def gradient() -> Any:
        x.grad = None
        loss(x).backward()
        return x.grad

    return gradient


class Square(torch.autograd.Function):
    """A custom op; ``torch.library.custom_op`` takes three times as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the square."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        """Return its gradient."""
        (x,) = ctx.saved_tensors
        return dy * 2 * x


@cases("custom_grad")
def _(x: Tensor) -> Case:
    x.requires_grad_()

    def value_and_gradient() -> Any:
        x.grad = None
        y = Square.apply(x).sum()
        y.backward()
        return y.detach(), x.grad

    return value_and_gradient


@cases("exp_1m")
def _(x: Tensor) -> Case:
    return lambda: torch.exp(x)


@cases("gelu_1m")
def _(x: Tensor) -> Case:
    gelu = compiled(
        lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    )
    return lambda: gelu(x)


@cases("sum_rows")
def _(x: Tensor) -> Case:
    return lambda: x.sum(1)


@cases("sum_cols")
def _(x: Tensor) -> Case:
    return lambda: x.sum(0)


@cases("softmax")
def _(x: Tensor) -> Case:
    softmax = compiled(lambda x: torch.softmax(x, -1))
    return lambda: softmax(x)


@cases("layernorm")
def _(x: Tensor, scale: Tensor, offset: Tensor) -> Case:
    norm = compiled(lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5))
    return lambda: norm(x, scale, offset)


@cases("matmul_512")
@cases("matmul_1024")
@cases("bmm")
def _(a: Tensor, b: Tensor) -> Case:
    return lambda: a @ b


@cases("conv3x3")
@cases("conv1x1")
def _(x: Tensor, w: Tensor) -> Any:
    x = nchw(x)
    w = oihw(w)
    return lambda: F.conv2d(x, w, padding=w.shape[-1] // 2), nhwc


@cases("dwconv3x3")
def _(x: Tensor, w: Tensor) -> Any:
    x = nchw(x)
    w = per_channel(w)
    return lambda: F.conv2d(x, w, padding=1, groups=x.shape[1]), nhwc


@cases("maxpool")
def _(x: Tensor) -> Any:
    x = nchw(x)
    return lambda: F.max_pool2d(x, 2), nhwc


@cases("transpose")
def _(x: Tensor) -> Case:
    return lambda: x.permute(2, 0, 1).contiguous()


@cases("concat")
def _(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Case:
    return lambda: torch.cat([a, b, c, d], 2)


@cases("gather")
def _(x: Tensor, indices: Tensor) -> Case:
    indices = indices.long()  # PyTorch's index type
    return lambda: x[indices]


def mlp(w: list[Tensor], x: Tensor) -> Tensor:
    """Return the logits of three dense layers."""
    h = F.relu(x @ w[0] + w[1])
    h = F.relu(h @ w[2] + w[3])
    return h @ w[4] + w[5]


def cnn(w: list[Tensor], x: Tensor) -> Tensor:
    """Return the logits of two convolutions and a dense layer."""
    h = F.max_pool2d(F.relu(F.conv2d(x, w[0], w[1], padding=1)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, w[2], w[3], padding=1)), 2)
    return h.flatten(1) @ w[4] + w[5]


def training(
    model: Callable[..., Tensor], w: list[Tensor], x: Tensor, labels: Tensor
) -> Case:
    """Return a step of gradient descent."""
    labels = labels.long()
    for v in w:
        v.requires_grad_()
    loss = compiled(lambda w, x, labels: F.cross_entropy(model(w, x), labels))

    @compiled
    def update(w: list[Tensor], gradients: tuple[Tensor, ...]) -> None:
        for v, dv in zip(w, gradients, strict=True):
            v.sub_(dv, alpha=0.01)

    def step() -> list[Tensor]:
        gradients = torch.autograd.grad(loss(w, x, labels), w)
        with torch.no_grad():
            update(w, gradients)
        return w

    return step


@cases("mlp_train")
@cases("tiny_mlp_train")
def _(x: Tensor, labels: Tensor, **weights: Tensor) -> Case:
    return training(mlp, list(weights.values()), x, labels)


@cases("cnn_train")
def _(x: Tensor, labels: Tensor, **weights: Tensor) -> Any:
    w = list(weights.values())
    w[0], w[2] = oihw(w[0]), oihw(w[2])
    rows = w[4].reshape(7, 7, 32, 10)  # for images that were flattened as NHWC
    w[4] = rows.permute(2, 0, 1, 3).reshape(1568, 10).contiguous()

    def to_array(v: Tensor) -> Any:
        v = v.detach()
        if v.ndim == 4:
            v = v.permute(2, 3, 1, 0)
        elif v.ndim == 2:
            v = v.reshape(32, 7, 7, 10).permute(1, 2, 0, 3)
        return v.cpu().numpy()

    return training(cnn, w, nchw(x), labels), to_array


@cases("mobilenet_v2")
def _(layers: Any, x: Tensor, **weights: Tensor) -> Case:
    image = nchw(x)
    to_layout = {"conv": oihw, "depthwise": per_channel, "dense": lambda w: w}
    stack = [
        (to_layout[layer["kind"]](weights[f"w{i}"]), weights[f"b{i}"], layer)
        for i, layer in enumerate(layers)
    ]

    @forward()
    def mobilenet() -> Tensor:
        x = skip = image
        for w, b, layer in stack:
            if layer["kind"] == "dense":
                x = x.mean((2, 3)) @ w + b
                continue
            if layer["skip"] == "from":
                skip = x
            stride = layer["stride"]
            pad = w.shape[-1] // 2
            if stride == 2:  # "same" adds one pixel at the end
                x = F.pad(x, (0, 1, 0, 1))
                pad = 0
            groups = x.shape[1] if layer["kind"] == "depthwise" else 1
            x = F.conv2d(x, w, b, stride, pad, groups=groups)
            if layer["relu6"]:
                x = F.relu6(x)
            if layer["skip"] == "to":
                x = x + skip
        return x

    return mobilenet


def block(p: dict[str, Tensor], x: Tensor) -> Tensor:
    """Return one pre-norm block."""
    n, length, d = x.shape
    split = lambda z: z.view(n, length, 4, d // 4).transpose(1, 2)
    h = F.layer_norm(x, (d,), p["g1"], p["b1"])
    q, k, v = (split(h @ p[name]) for name in ("wq", "wk", "wv"))
    scores = torch.softmax(q @ k.transpose(-1, -2) * (d // 4) ** -0.5, -1)
    mixed = (scores @ v).transpose(1, 2).reshape(n, length, d)
    x = x + mixed @ p["wo"]
    h = F.layer_norm(x, (d,), p["g2"], p["b2"])
    h = F.gelu(h @ p["w1"] + p["c1"], approximate="tanh")
    return x + h @ p["w2"] + p["c2"]


@cases("transformer")
@cases("tiny_transformer")
def _(x: Tensor, **weights: Tensor) -> Case:
    leaves = [w.requires_grad_() for w in weights.values()]
    loss = compiled(lambda weights, x: block(weights, x).square().mean())
    return lambda: torch.autograd.grad(loss(weights, x), leaves)


if __name__ == "__main__":
    main(*sys.argv[1:])
