"""Regions of a single kernel: its arguments are prepared once, at compilation.

All arguments but the arrays are known at compilation: sizes, the geometry of windows,
and constants. A call checks that its arrays are contiguous, allocates the results and a
workspace, and runs the kernel.

Contents: ``bound``; products and rows; windows; ``SINGLE``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from plugrad.geometry import contiguous_strides
from plugrad.plugin import Graph, Spec, Step, prepared

from ..kernels import conv, depthwise, fused, linalg, pool, quantized
from ..native import MAX_ELEMENTS, as_contiguous, describe_windows, sizes_around
from ..pool import native
from .operands import bytes_of, operands
from .rows import values

MEMORY = (-1,)  # stands for the workspace among the arguments of a kernel
Argument = Any  # a number, None, an array, or (value,) for a value of the graph


def bound(graph: Graph, name: str, *arguments: Argument, memory: int = 0) -> Any:
    """Return a C kernel with its numbers and constants filled in.

    Args:
        graph: A graph of one step.
        name: The name of the C kernel.
        arguments: Its arguments; ``(value,)`` stands for the array of a value.
        memory: The size of its workspace, in float32 elements. In ``arguments``,
            ``MEMORY`` stands for the workspace.

    """
    slots = {v: n for n, v in enumerate((*graph.inputs, *graph.outputs))}
    slots[MEMORY[0]] = len(slots)
    inputs, outputs = operands(graph, slots)
    if memory:
        outputs.append((slots[MEMORY[0]], linalg.FLOAT32.num, bytes_of((memory,))))

    def placed(x: Argument) -> Any:
        if not isinstance(x, tuple):
            return x
        constant = graph.constants.get(x[0])
        return (slots[x[0]],) if constant is None else as_contiguous(constant)

    kept = tuple([placed(x) for x in arguments])
    return native.bound(name, kept, inputs, outputs, int(memory > 0))  # type: ignore[union-attr]


def _specs(graph: Graph) -> list[Spec | None] | None:
    """Return the specs of the inputs; None unless all are float32 and sizes fit."""
    (step,) = graph.steps
    specs = [None if x is None else graph.specs[x] for x in step.inputs]
    given = [spec for spec in (*specs, graph.specs[step.outputs[0]]) if spec]
    fits = all(
        x.dtype == np.float32 and 0 < prod(x.shape) < MAX_ELEMENTS for x in given
    )
    return specs if fits else None


# --- products and rows -----------------------------------------------------------


def _epilogue(step: Step, specs: list[Spec | None], c: int) -> linalg.End | None:
    """Return the epilogue arguments of a fused kernel for ``bound``."""
    if "activation" not in step.attrs:
        return linalg.NOTHING
    if any(spec is not None and spec.shape != (c,) for spec in specs[2:]):
        return None
    activation = fused.ACTIVATIONS.index(step.attrs["activation"])
    more = [None if x is None else (x,) for x in step.inputs[2:]]
    return (*more, activation, float(step.attrs["leaky_relu_alpha"]))


def _product(step: Step, specs: list[Spec | None], graph: Graph) -> Any:
    views: list[Any] = []
    for spec, turned in zip(specs[:2], ("transpose_a", "transpose_b"), strict=True):
        shape = spec.shape  # type: ignore[union-attr]
        strides = tuple([4 * step for step in contiguous_strides(shape)])
        if step.attrs[turned]:
            shape = (*shape[:-2], shape[-1], shape[-2])
            strides = (*strides[:-2], strides[-1], strides[-2])
        views += [shape, strides]
    plan = linalg.plan(*views)
    end = _epilogue(step, specs, views[2][-1])
    if plan is None or end is None:
        return None
    a, b, (y,) = *step.inputs[:2], step.outputs
    return bound(graph, "product_f32", plan[1], (a,), (b,), (y,), *end)


def _softmax(log: int, step: Step, specs: Any, graph: Graph) -> Any:
    sizes = sizes_around(specs[0].shape, step.attrs["axis"])
    (x,), (y,) = step.inputs, step.outputs
    return bound(graph, "softmax_f32", (x,), (y,), *sizes, log)


def _softmax_grad(log: int, step: Step, specs: Any, graph: Graph) -> Any:
    if specs[0] != specs[1]:
        return None
    sizes = sizes_around(specs[0].shape, len(specs[0].shape) - 1)[:2]
    arrays = [(v,) for v in (*step.inputs, *step.outputs)]
    return bound(graph, "softmax_grad_f32", *arrays, *sizes, log)


# --- windows ---------------------------------------------------------------------


def _convolution(step: Step, specs: list[Spec | None], graph: Graph) -> Any:
    windows = step.attrs["geometry"]
    end = _epilogue(step, specs, windows.out_shape[-1])
    plan = None if windows.depthwise else conv.plan(windows, False)
    if plan is None or end is None:
        return None
    how, _, space, tiles, lanes = plan
    x, filter, (y,) = *step.inputs[:2], step.outputs
    arrays = (x,), (filter,), (y,), None, MEMORY
    return bound(graph, "conv_f32", how, *arrays, tiles, lanes, *end, memory=space)


def _depthwise(step: Step, specs: Any, graph: Graph) -> Any:
    windows = step.attrs["geometry"]
    end = _epilogue(step, specs, windows.out_shape[-1])
    how = describe_windows(windows)
    if how is None or end is None or not depthwise.is_quick(specs[0].dtype, windows):
        return None
    x, filter, (y,) = *step.inputs[:2], step.outputs
    return bound(graph, "depthwise_single_f32", how, (x,), (filter,), (y,), *end)


def _pool(name: str, step: Step, specs: Any, graph: Graph) -> Any:
    how = describe_windows(step.attrs["geometry"])
    if how is None or not pool.is_worth(specs[0].shape):
        return None
    return bound(graph, name, how, (step.inputs[0],), (step.outputs[0],))


def _quantized(graph: Graph) -> Any:
    """Return an int8 product or convolution with constant weights; None otherwise."""
    (step,), (y,) = graph.steps, graph.steps[0].outputs
    specs: list[Any] = [None if x is None else graph.specs[x] for x in step.inputs]
    w = graph.constants.get(values(step)[1])
    shape, dtype = graph.specs[y]
    how, name, more, (words, rows) = _quantized_sizes(step, specs)
    sizes = [prod(x.shape) for x in specs if x]
    fits = 0 < min(*sizes, prod(shape)) <= max(*sizes, words) < MAX_ELEMENTS
    if w is None or how is None or not fits:
        return None
    x, _, *end = [None if x is None else (x,) for x in step.inputs]
    scales = prod(specs[4].shape) if specs[4] else 0
    numbers = int(specs[0].dtype == np.int8), scales, quantized.RESULTS.index(dtype)
    weights = prepared(w, quantized.panels, reused=True)
    arrays = x, *weights, *end, (y,), MEMORY
    return bound(graph, name, *how, *arrays, *numbers, rows, *more, memory=words)


def _quantized_sizes(step: Step, specs: list[Any]) -> Any:
    """Return the windows, the C kernel's name, and the matrix and workspace sizes."""
    if step.kernel.name == "QuantizedMatMul":
        m = prod(specs[0].shape[:-1])
        k, n = specs[1].shape
        return (), "quantized_matmul_i8", (m, n, k), linalg.packing_sizes(m, n, k)
    windows = step.attrs["geometry"]
    how = describe_windows(windows)
    found = None if how is None else (how,)
    return found, "quantized_conv_i8", (), quantized.workspace_sizes(windows)


def _compiler_of(make: Callable[[Step, Any, Graph], Any]) -> Callable[[Graph], Any]:
    """Return a function that compiles a one-step graph if ``_specs`` accepts it."""

    def compiled(graph: Graph) -> Any:
        specs = _specs(graph)
        return None if specs is None else make(graph.steps[0], specs, graph)

    return compiled


MAKERS: dict[str, Callable[[Step, Any, Graph], Any]] = {
    "BatchMatMul": _product,
    "_FusedMatMul": _product,
    "Softmax": partial(_softmax, 0),
    "LogSoftmax": partial(_softmax, 1),
    "plugrad_cpu.SoftmaxGrad": partial(_softmax_grad, 0),
    "plugrad_cpu.LogSoftmaxGrad": partial(_softmax_grad, 1),
    "AvgPool": partial(_pool, "avg_pool_f32"),
    "MaxPool": partial(_pool, "max_pool_f32"),
    **dict.fromkeys(("Conv2D", "Conv3D", "FusedConv2D"), _convolution),
    **dict.fromkeys(("DepthwiseConv2dNative", "FusedDepthwiseConv2D"), _depthwise),
}
SINGLE = {name: _compiler_of(make) for name, make in MAKERS.items()}
SINGLE |= dict.fromkeys(("QuantizedConv2D", "QuantizedMatMul"), _quantized)
