"""The cases of ``gpu.py``: arrays, work, and the calls of each library.

Contents: a case and the tables of cases; the calls in plugrad and in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

Call = Callable[[], Any]
Make = Callable[..., Call]  # the arrays of a case -> its call
Shape = tuple[int, ...]


class GpuCase(NamedTuple):
    """One row of a table.

    Attributes:
        call: The key of the calls in ``plugrad_calls`` and ``torch_calls``.
        arrays: The shape and the dtype of each input; an integer array contains row
            numbers of the first input.
        work: Bytes that have to be moved, or floating-point operations.

    """

    call: str
    arrays: list[tuple[Shape, str]]
    work: float


# --- the tables ------------------------------------------------------------------


def bandwidth_cases(quick: bool) -> dict[str, GpuCase]:
    """Return memory-bound cases; ``work`` is in bytes."""
    n = 1 << (16 if quick else 27)
    rows = (n // 1024, 1024)
    images = (n // 1024 // 64, 1024, 64)
    line = (n,)
    row = ((1024,), "float32")
    both = {name: 8 * n for name in ("exp", "gelu", "softmax", "log_softmax")}
    found = {"copy": GpuCase("copy", [(rows, "float32")], 8 * n)}
    found["add"] = GpuCase("add", [(rows, "float32")] * 2, 12 * n)
    found |= {k: GpuCase(k, [(rows, "float32")], work) for k, work in both.items()}
    found["layer_norm"] = GpuCase("layer_norm", [(rows, "float32"), row, row], 8 * n)
    found["transpose"] = GpuCase("transpose", [(rows, "float32")], 8 * n)
    found["permute (2, 0, 1)"] = GpuCase("permute", [(images, "float32")], 8 * n)
    indices = (rows[:1], "int32")
    found["gather rows"] = GpuCase("gather", [(rows, "float32"), indices], 8 * n)
    for axis in (0, 1):
        name = f"sum over axis {axis}"
        found[name] = GpuCase(f"sum_{axis}", [(rows, "float32")], 4 * n)
    found["sum of all"] = GpuCase("sum_all", [(line, "float32")], 4 * n)
    return found


# Batch, rows, inner size, columns; which operand is transposed ("" for none); dtype.
PRODUCTS: list[tuple[int, int, int, int, str, str]] = [
    *((1, n, n, n, "", "float32") for n in (100, 512, 1000, 1023, 1024, 2048, 4096)),
    *((1, 2048, 2048, 2048, which, "float32") for which in ("a", "b", "ab")),
    (1, 1, 4096, 4096, "", "float32"),
    (1, 1, 4096, 4096, "b", "float32"),
    (1, 8, 4096, 4096, "", "float32"),
    (1, 8, 4096, 4096, "b", "float32"),
    (16, 128, 64, 128, "", "float32"),
    (16, 128, 64, 128, "b", "float32"),
    (64, 512, 64, 512, "b", "float32"),
    (1, 1024, 1024, 1024, "", "float16"),
    (1, 4096, 4096, 4096, "", "float16"),
    (1, 1024, 1024, 1024, "", "bfloat16"),
    (1, 4096, 4096, 4096, "", "bfloat16"),
    (1, 4096, 4096, 4096, "b", "bfloat16"),
]
# Number of images, side, input channels, output channels, side of the window.
CONVOLUTIONS = [
    (1, 56, 64, 64, 3),
    (32, 56, 64, 64, 3),
    (32, 28, 128, 128, 3),
    (32, 14, 256, 256, 3),
    (1, 56, 64, 256, 1),
    (32, 56, 64, 256, 1),
    (32, 14, 1024, 256, 1),
]
HALF_CONVOLUTIONS = [(32, 56, 64, 64, 3), (32, 14, 1024, 256, 1)]  # of bfloat16
# Convolutions whose gradients are measured.
GRADIENTS = [(32, 56, 64, 64, 3), (32, 14, 1024, 256, 1)]
# Batch, heads, length, size of a head; each query attends to the keys before it.
ATTENTIONS = [(8, 16, 1024, 64), (1, 16, 4096, 64), (64, 8, 128, 32)]
# What is computed, and the number of its products: attention; its gradient; its
# gradient as separate kernels, which an override needs.
ATTENTION_CALLS = {"": 2, ", gradient": 5, ", gradient of parts": 5}
QUICK_DIVISOR = 32  # a quick run divides the sizes by it


def product_cases(quick: bool) -> dict[str, GpuCase]:
    """Return compute-bound cases; ``work`` is in floating-point operations."""
    divisor = QUICK_DIVISOR if quick else 1
    found = {}
    for batch, m, k, n, transposed, dtype in PRODUCTS:
        name = f"{m} x {k} x {n}"
        name = name if batch == 1 else f"{batch} of {name}"
        name += f", {' and '.join(transposed)} transposed" if transposed else ""
        name += "" if dtype == "float32" else f", {dtype}"
        m, k, n = (max(size // divisor, 1) for size in (m, k, n))
        lead = () if batch == 1 else (batch,)
        a = (k, m) if "a" in transposed else (m, k)
        b = (n, k) if "b" in transposed else (k, n)
        arrays = [((*lead, *a), dtype), ((*lead, *b), dtype)]
        found[name] = GpuCase(f"matmul_{transposed}", arrays, 2.0 * batch * m * k * n)
    return found | convolution_cases(quick) | attention_cases(quick)


def convolution_cases(quick: bool) -> dict[str, GpuCase]:
    """Return convolutions and their gradients; ``work`` is in operations."""
    divisor = QUICK_DIVISOR if quick else 1
    found = {}
    calls = [("conv", given, "float32") for given in CONVOLUTIONS]
    calls += [("conv", given, "bfloat16") for given in HALF_CONVOLUTIONS]
    calls += [(f"conv_grad_{x}", given, "float32") for given in GRADIENTS for x in "xw"]
    for call, (batch, side, channels, out, window), dtype in calls:
        what = {"x": ", gradient of x", "w": ", gradient of w"}.get(call[-1], "")
        what += "" if dtype == "float32" else f", {dtype}"
        name = f"conv{window}x{window} {batch} x {side}^2 x {channels} to {out}{what}"
        x = (batch, *[max(side * 4 // divisor, 4) if quick else side] * 2, channels)
        w = (window, window, channels, out)
        dy = (*x[:3], out)
        arrays = [(shape, dtype) for shape in (x, w, dy)]
        work = 2.0 * math.prod(dy) * channels * window**2
        found[name] = GpuCase(call, arrays, work)
    return found


def attention_cases(quick: bool) -> dict[str, GpuCase]:
    """Return causal attention; ``work`` is in floating-point operations."""
    divisor = QUICK_DIVISOR if quick else 1
    found = {}
    for batch, heads, length, size in ATTENTIONS:
        n = max(length // divisor, 1)
        arrays = [((batch, heads, n, size), "float32")] * 4
        for what, count in ATTENTION_CALLS.items():
            name = f"attention {batch} x {heads} x {length} x {size}{what}"
            work = 2.0 * count * batch * heads * n * (n + 1) / 2 * size
            found[name] = GpuCase(f"attention{what}", arrays, work)
    return found


LATENCIES = {
    "launch": "host time of a + a, in many calls without a wait",
    "launch + wait": "a + a, and a wait until it ends",
    "launch + read": "a + a of 4 numbers, and a copy of the result to the host",
}


def latency_cases() -> dict[str, GpuCase]:
    """Return the cases that measure a single kernel; their ``work`` is not used."""
    return {name: GpuCase(name, [((4,), "float32")], 0) for name in LATENCIES}


def cases(part: str, quick: bool) -> dict[str, GpuCase]:
    """Return the cases of a part of ``gpu.py``."""
    match part:
        case "device":
            return latency_cases()
        case "bandwidth":
            return bandwidth_cases(quick)
        case "products":
            return product_cases(quick)
    raise ValueError(f"no cases of {part!r}; use device, bandwidth or products")


# --- the libraries ---------------------------------------------------------------


def plugrad_products() -> dict[str, Make]:
    """Return the products and convolutions in plugrad."""
    import plugrad as pg

    def matmul(**transposed: bool) -> Make:
        return lambda a, b: lambda: pg.matmul(a, b, **transposed)

    def gradient(which: int) -> Make:
        def make(*xs: Any) -> Call:
            x, w, dy = xs
            functions = (
                lambda x: pg.conv2d(x, w, pad="same"),
                lambda w: pg.conv2d(x, w, pad="same"),
            )
            _, pullback = pg.vjp(functions[which], xs[which])
            return lambda: pullback(dy)

        return make

    return {
        "matmul_": matmul(),
        "matmul_a": matmul(transpose_a=True),
        "matmul_b": matmul(transpose_b=True),
        "matmul_ab": matmul(transpose_a=True, transpose_b=True),
        "conv": lambda x, w, dy: lambda: pg.conv2d(x, w, pad="same"),
        "conv_grad_x": gradient(0),
        "conv_grad_w": gradient(1),
    }


def plugrad_attention() -> dict[str, Make]:
    """Return attention and its gradients in plugrad."""
    import plugrad as pg

    def attend(*xs: Any) -> Any:
        return pg.scaled_dot_product_attention(*xs, is_causal=True)

    def gradient(q: Any, k: Any, v: Any, dy: Any) -> Call:
        _, pullback = pg.vjp(attend, q, k, v)
        return lambda: pullback(dy)

    def gradient_of_parts(*xs: Any) -> Call:
        same = lambda dy, original: original(dy)
        with pg.override_gradient("Softmax", logits=same):
            return gradient(*xs)

    return {
        "attention": lambda q, k, v, dy: lambda: attend(q, k, v),
        "attention, gradient": gradient,
        "attention, gradient of parts": gradient_of_parts,
    }


def plugrad_calls(wait: Call) -> dict[str, Make]:
    """Return the calls in plugrad; ``wait`` waits for the device."""
    import plugrad as pg

    return (
        plugrad_products()
        | plugrad_attention()
        | {
            "launch": lambda a: lambda: a + a,
            "launch + wait": lambda a: lambda: (a + a, wait()),
            "launch + read": lambda a: lambda: (a + a).numpy(),
            "add": lambda a, b: lambda: a + b,
            "exp": lambda x: lambda: pg.exp(x),
            "gelu": lambda x: lambda: pg.gelu(x),
            "softmax": lambda x: lambda: pg.softmax(x),
            "log_softmax": lambda x: lambda: pg.log_softmax(x),
            "layer_norm": lambda x, g, b: lambda: pg.layer_norm(x, g, b),
            "transpose": lambda x: lambda: pg.permute_dims(x, (1, 0)),
            "permute": lambda x: lambda: pg.permute_dims(x, (2, 0, 1)),
            "gather": lambda x, i: lambda: pg.gather(x, i),
            "sum_0": lambda x: lambda: pg.sum(x, axis=0),
            "sum_1": lambda x: lambda: pg.sum(x, axis=1),
            "sum_all": lambda x: lambda: pg.sum(x),
        }
    )


def torch_products() -> dict[str, Make]:
    """Return the products and convolutions in PyTorch.

    Images are converted to PyTorch's layout, NCHW, before the calls start.
    """
    import torch
    import torch.nn.functional as F

    def convolution(call: Callable[..., Any]) -> Make:
        def make(x: Any, w: Any, dy: Any) -> Call:
            x, dy = (z.permute(0, 3, 1, 2).contiguous() for z in (x, dy))
            w = w.permute(3, 2, 0, 1).contiguous()
            return lambda: call(x, w, dy, w.shape[-1] // 2)

        return make

    grad = torch.nn.grad
    return {
        "matmul_": lambda a, b: lambda: a @ b,
        "matmul_a": lambda a, b: lambda: a.mT @ b,
        "matmul_b": lambda a, b: lambda: a @ b.mT,
        "matmul_ab": lambda a, b: lambda: a.mT @ b.mT,
        "conv": convolution(lambda x, w, dy, pad: F.conv2d(x, w, padding=pad)),
        "conv_grad_x": convolution(
            lambda x, w, dy, pad: grad.conv2d_input(x.shape, w, dy, padding=pad)
        ),
        "conv_grad_w": convolution(
            lambda x, w, dy, pad: grad.conv2d_weight(x, w.shape, dy, padding=pad)
        ),
    }


def torch_attention() -> dict[str, Make]:
    """Return attention and its gradient in PyTorch."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend(*xs: Any) -> Any:
        return F.scaled_dot_product_attention(*xs, is_causal=True)

    def gradient(q: Any, k: Any, v: Any, dy: Any) -> Call:
        xs = [x.detach().requires_grad_() for x in (q, k, v)]
        with torch.enable_grad():
            y = attend(*xs)
        return lambda: torch.autograd.grad(y, xs, dy, retain_graph=True)

    def gradient_of_parts(*xs: Any) -> Call:
        with sdpa_kernel(SDPBackend.MATH):
            return gradient(*xs)

    return {
        "attention": lambda q, k, v, dy: lambda: attend(q, k, v),
        "attention, gradient": gradient,
        "attention, gradient of parts": gradient_of_parts,
    }


def torch_calls(wait: Call) -> dict[str, Make]:
    """Return the calls in PyTorch; ``wait`` waits for the device."""
    import torch
    import torch.nn.functional as F

    return (
        torch_products()
        | torch_attention()
        | {
            "launch": lambda a: lambda: a + a,
            "launch + wait": lambda a: lambda: (a + a, wait()),
            "launch + read": lambda a: lambda: (a + a).cpu(),
            "copy": lambda x: lambda: x.clone(),
            "add": lambda a, b: lambda: a + b,
            "exp": lambda x: lambda: torch.exp(x),
            "gelu": lambda x: lambda: F.gelu(x),
            "softmax": lambda x: lambda: torch.softmax(x, -1),
            "log_softmax": lambda x: lambda: torch.log_softmax(x, -1),
            "layer_norm": lambda x, g, b: lambda: F.layer_norm(x, g.shape, g, b),
            "transpose": lambda x: lambda: x.t().contiguous(),
            "permute": lambda x: lambda: x.permute(2, 0, 1).contiguous(),
            "gather": lambda x, i: lambda: torch.index_select(x, 0, i),
            "sum_0": lambda x: lambda: x.sum(0),
            "sum_1": lambda x: lambda: x.sum(1),
            "sum_all": lambda x: lambda: x.sum(),
        }
    )
