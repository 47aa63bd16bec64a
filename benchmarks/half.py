"""Compare the time of float16 or bfloat16 ops on cpu with that of PyTorch.

Tensors have a million elements. Each figure is the minimum of interleaved rounds, in
microseconds. The table marks ops that take more than three times as long as PyTorch's::

    python benchmarks/half.py [--dtype bfloat16] [--threads 1] [--only exp softmax]

``make peers`` installs PyTorch. Contents: inputs; the table; measuring; printing.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

MAX_RATIO = 3.0  # plugrad's time / PyTorch's; rows above it are marked as slow
SHAPE = (1024, 1024)
IMAGE_SHAPE = (4, 64, 64, 64)  # a million numbers, channels last


class Case(NamedTuple):
    """One op in both libraries.

    Attributes:
        name: The name of plugrad's op.
        ours: Calls plugrad's op on plugrad tensors.
        theirs: Calls PyTorch's op on PyTorch tensors.
        inputs: The names of the inputs, as in ``arrays``.

    """

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    inputs: tuple[str, ...] = ("x",)


# --- inputs ----------------------------------------------------------------------


def arrays() -> dict[str, Any]:
    """Return float32 arrays by name, and a condition."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal(SHAPE)
    found = {
        "x": x,
        "y": rng.standard_normal(SHAPE),
        "positive": np.abs(x) + 0.1,
        "unit": np.tanh(x),
        "above_one": np.abs(x) + 1,
        "row": rng.standard_normal(SHAPE[1:]),
        "one": rng.standard_normal(()),
        "images": rng.standard_normal(IMAGE_SHAPE),
        "filter": rng.standard_normal((3, 3, 64, 64)) / 24,
        "left": rng.standard_normal((256, 1024)) / 32,
        "one_row": rng.standard_normal((1, 1024)) / 32,
    }
    floats = {name: np.asarray(a, np.float32) for name, a in found.items()}
    return floats | {"condition": x > 0}


# --- the table -------------------------------------------------------------------

UNARY = """abs ceil cos cosh erf exp expm1 exp2 floor log log1p log10 log2 negative
reciprocal relu round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc atan asinh
isnan isfinite signbit"""
ACTIVATIONS = "elu selu gelu softplus softsign relu6 silu mish leaky_relu"
DOMAINS = {
    **dict.fromkeys(("log", "log1p", "log10", "log2", "rsqrt", "sqrt"), "positive"),
    **dict.fromkeys(("acos", "asin", "atanh"), "unit"),
    "acosh": "above_one",
}
BINARY = """add subtract multiply divide maximum minimum pow atan2 hypot remainder fmod
floor_divide equal less greater_equal logaddexp copysign"""
TORCH_NAMES = {"equal": "eq"}


def cases() -> list[Case]:
    """Return the rows of the table."""
    import plugrad as pg
    import torch

    found = []
    for name in (*UNARY.split(), *DOMAINS):
        if name not in [case.name for case in found]:
            inputs = (DOMAINS.get(name, "x"),)
            found.append(Case(name, getattr(pg, name), getattr(torch, name), inputs))
    for name in BINARY.split():
        theirs = getattr(torch, TORCH_NAMES.get(name, name))
        first = "positive" if name == "pow" else "x"
        found.append(Case(name, getattr(pg, name), theirs, (first, "y")))
    for name in ("add", "multiply"):
        for other in ("row", "one"):
            found.append(
                Case(
                    f"{name} by {other}",
                    getattr(pg, name),
                    getattr(torch, name),
                    ("x", other),
                )
            )
    return found + activations(pg, torch) + reductions(pg, torch) + other_ops(pg, torch)


def activations(pg: Any, torch: Any) -> list[Case]:
    """Return the rows of activation functions."""
    functional = torch.nn.functional
    found = [
        Case(name, getattr(pg, name), getattr(functional, name))
        for name in ACTIVATIONS.split()
    ]
    return [
        *found,
        Case("clip", lambda x: pg.clip(x, -1, 1), lambda x: x.clip(-1, 1)),
        Case("softmax", pg.softmax, lambda x: functional.softmax(x, -1)),
        Case("log_softmax", pg.log_softmax, lambda x: functional.log_softmax(x, -1)),
        Case("where", pg.where, torch.where, ("condition", "x", "y")),
    ]


def reductions(pg: Any, torch: Any) -> list[Case]:
    """Return the rows of reductions along the last axis, the first one and all axes."""
    found = []
    for name, theirs in {
        "sum": torch.sum,
        "mean": torch.mean,
        "max": torch.amax,
        "min": torch.amin,
        "argmax": torch.argmax,
        "logsumexp": torch.logsumexp,
        "cumulative_sum": torch.cumsum,
    }.items():
        ours = getattr(pg, name)
        for axis in (-1, 0):
            found.append(
                Case(
                    f"{name} along {axis}",
                    lambda x, ours=ours, axis=axis: ours(x, axis=axis),
                    lambda x, theirs=theirs, axis=axis: theirs(x, axis),
                )
            )
    return [
        *found,
        Case("sum of all", pg.sum, torch.sum),
        Case("mean of all", pg.mean, torch.mean),
        Case("max of all", pg.max, torch.max),
        Case("any", pg.any, torch.any),
        Case("sort", pg.sort, lambda x: torch.sort(x)[0]),
    ]


def other_ops(pg: Any, torch: Any) -> list[Case]:
    """Return the rows of ops that are neither element-wise nor reductions."""
    return [
        Case("matmul", pg.matmul, torch.matmul, ("left", "x")),
        Case("matmul of squares", pg.matmul, torch.matmul, ("x", "y")),
        Case("matmul of one row", pg.matmul, torch.matmul, ("one_row", "x")),
        Case(
            "linear of one row",
            lambda x, w: pg.matmul(x, w, transpose_b=True),
            torch.nn.functional.linear,
            ("one_row", "x"),
        ),
        *windows(pg, torch.nn.functional),
        *copies(pg, torch),
    ]


def windows(pg: Any, functional: Any) -> list[Case]:
    """Return the rows of convolutions and pools; PyTorch needs channels first."""

    def nchw(x: Any) -> Any:
        return x.permute(0, 3, 1, 2)

    return [
        Case(
            "conv2d",
            lambda x, w: pg.conv2d(x, w, pad="same"),
            lambda x, w: functional.conv2d(nchw(x), w.permute(3, 2, 0, 1), padding=1),
            ("images", "filter"),
        ),
        Case(
            "max_pool",
            lambda x: pg.max_pool(x, 2),
            lambda x: functional.max_pool2d(nchw(x), 2),
            ("images",),
        ),
        Case(
            "avg_pool",
            lambda x: pg.avg_pool(x, 2),
            lambda x: functional.avg_pool2d(nchw(x), 2),
            ("images",),
        ),
        Case(
            "layer_norm",
            lambda x: pg.layer_norm(x),
            lambda x: functional.layer_norm(x, x.shape[-1:]),
        ),
    ]


def copies(pg: Any, torch: Any) -> list[Case]:
    """Return the rows of casts and copies."""
    return [
        Case(
            "transpose",
            lambda x: pg.asarray(pg.permute_dims(x, (1, 0)), copy=True),
            lambda x: x.T.contiguous(),
        ),
        Case("to float32", lambda x: pg.astype(x, "float32"), lambda x: x.float()),
        Case("to int32", lambda x: pg.astype(x, "int32"), lambda x: x.int()),
        Case("concat", lambda x: pg.concat([x, x]), lambda x: torch.cat([x, x])),
    ]


# --- measuring -------------------------------------------------------------------


def measure(functions: list[Callable[[], Any]], seconds: float) -> list[float]:
    """Return the fastest time of each call in microseconds; the calls take turns."""
    fastest = [float("inf")] * len(functions)
    for function in functions:
        function()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for k, function in enumerate(functions):
            start = time.perf_counter()
            function()
            fastest[k] = min(fastest[k], time.perf_counter() - start)
    return [1e6 * t for t in fastest]


def halved(x: Any, dtype: str) -> Any:
    """Return a floating tensor of plugrad in 16 bits; keep other tensors."""
    return x.astype(dtype) if x.dtype.kind == "f" else x


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=("float16", "bfloat16"), default="float16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="names of ops")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each row")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)

    import plugrad as pg
    import torch

    torch.set_num_threads(options.threads)
    pg.set_backend("cpu")
    found = arrays()
    ours = {name: halved(pg.asarray(a), options.dtype) for name, a in found.items()}
    theirs = {name: torch.from_dlpack(x).clone() for name, x in ours.items()}
    print(f"{'op':20}{'plugrad':>10}{'PyTorch':>10}{'ratio':>8}   (us)")
    for case in cases():
        if options.only and not any(word in case.name for word in options.only):
            continue
        our_us, their_us = measure(
            [
                lambda case=case: case.ours(*[ours[name] for name in case.inputs]),
                lambda case=case: case.theirs(*[theirs[name] for name in case.inputs]),
            ],
            options.seconds,
        )
        mark = "  <- slow" if our_us > MAX_RATIO * their_us else ""
        ratio = our_us / their_us
        row = f"{case.name:20}{our_us:10.0f}{their_us:10.0f}{ratio:8.2f}{mark}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
