"""Regions of ``plugrad.jit`` graphs: element-wise C kernels in one pass.

The WebAssembly module ``region`` contains copies of the kernels' loops. It runs them on
one tile of elements at a time, so that intermediate results stay in the first-level
cache. A region becomes a program in linear memory; no machine code is generated for it.
``plugrad_cpu.regions`` defines the format.

Contents: ``LOOPS``, the C loops that replace kernels; ``fusable``; ``compiled``.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Step
from plugrad_cpu.regions import Loop, Run, Slots, program, tables

from .arrays import WasmArray, empty, writable
from .launch import TYPES
from .runtime import Machine

# If every result is an output, separate kernels are as fast above this size.
REGION_MAX_ELEMENTS = 1 << 14
BYTES = np.dtype(np.uint8)
POINTER = np.dtype(np.uint32)
UNARY = "Abs Ceil Cos Elu Erf Erfc Exp Exp2 Expm1 Floor Log Log1p Neg Reciprocal Relu "
UNARY += "Relu6 Round Rsqrt Selu Sigmoid Sign Sin Softplus Sqrt Square Tanh Trunc "
UNARY += "Gelu IsFinite IsInf IsNan SignBit"
BINARY = {"Add": "add", "Sub": "sub", "Multiply": "mul", "RealDiv": "div"}
BINARY |= {"Maximum": "max", "Minimum": "min", "Pow": "pow", "Prelu": "prelu"}
BINARY |= {"CopySign": "copysign", "Hypot": "hypot"}
BINARY |= {"SquaredDifference": "squared_difference", "EluGrad": "elu_grad"}
for _name in ("Erf", "Gelu", "Relu", "Sigmoid", "Tanh"):
    BINARY[f"plugrad_wasm.{_name}Grad"] = f"{_name.lower()}_grad"
BINARY["plugrad_wasm.GeluTanhGrad"] = "gelu_tanh_grad"
BINARY |= {"SigmoidGrad": "sigmoid_grad", "TanhGrad": "tanh_grad"}
COMPARED = [("Less", "less", (0, 1)), ("Greater", "less", (1, 0))]
COMPARED += [
    ("LessEqual", "less_equal", (0, 1)),
    ("GreaterEqual", "less_equal", (1, 0)),
]
COMPARED += [("Equal", "equal", (0, 1))]
CASTS = ["u8_f32", "u8_i32", "i32_f32", "i32_b8", "f32_b8"]


def _loops() -> dict[tuple[str, str], Loop]:
    """Return the loops by the kernel and the types of its inputs.

    For Cast, the key contains the types of input and result.
    """
    found = {}
    for kernel in UNARY.split():
        found[kernel, "f32"] = Loop(f"{kernel.lower()}_f32_piece")
    for kernel, name in BINARY.items():
        found[kernel, "f32 f32"] = Loop(f"{name}_f32_row", (0, 1))
    for t in ("f32", "i32"):
        for kernel, name, order in COMPARED:
            found[kernel, f"{t} {t}"] = Loop(f"{name}_{t}_row", order)
        loop = Loop(f"equal_{t}_row", (0, 1), (), "not_b8_piece")
        found["NotEqual", f"{t} {t}"] = loop
    for kernel in ("Add", "Sub", "Multiply"):
        found[kernel, "i32 i32"] = Loop(f"{BINARY[kernel]}_i32_row", (0, 1))
    for name in ("And", "Or", "Xor"):
        found[f"Logical{name}", "b8 b8"] = Loop(f"{name.lower()}_b8_row", (0, 1))
    for t, size in (("f32", 4), ("i32", 4), ("b8", 1)):
        found["Select", f"b8 {t} {t}"] = Loop(f"select_{size}_row", (0, 1, 2))
        found["BroadcastTo", t] = Loop("")
    for name in CASTS:
        types = name.replace("_", " ").replace("u8", "b8")
        found["Cast", types] = Loop(f"cast_{name}_piece")
    found["LogicalNot", "b8"] = Loop("not_b8_piece")
    found["Neg", "i32"] = Loop("neg_i32_piece")
    found["Square", "i32"] = Loop("square_i32_piece")
    found["ClipByValue", "f32"] = Loop("clip_f32_piece", (0,), ("min", "max"))
    found["LeakyRelu", "f32"] = Loop("leaky_relu_f32_piece", (0,), ("alpha",))
    found["GeluTanh", "f32"] = Loop("gelu_tanh_f32_piece")
    found["Step", "f32"] = Loop("step_f32_piece", (0,), ("alpha",))
    return found


LOOPS = _loops()


def _loop(step: Step, graph: Graph) -> Loop | None:
    """Return the loop that replaces a step; None if its kernel has to run."""
    if None in step.inputs or not step.kernel.single:
        return None
    read = [x for x in step.inputs if x is not None]
    if step.kernel.name == "Cast":
        read += step.outputs
    types = " ".join([TYPES.get(graph.specs[x].dtype, "") for x in read])
    return LOOPS.get((step.kernel.name, types))


def fusable(step: Step, graph: Graph) -> bool:
    """Return whether a step can be in a region: there must be a loop for it."""
    return _loop(step, graph) is not None


def compiled(machine: Machine, graph: Graph) -> Callable[..., Any] | None:
    """Return a function of the inputs of a region; None if kernels are as fast."""
    specs = [graph.specs[y] for y in graph.outputs]
    shape = specs[0].shape
    dtypes = [spec.dtype for spec in specs]
    n = prod(shape)
    nothing_saved = len(specs) == len(graph.steps)
    if len(graph.steps) < 2 or (nothing_saved and n > REGION_MAX_ELEMENTS):
        return None
    found = program(graph, lambda step: _loop(step, graph))
    if found is None:
        return None
    slots, runs = found
    region = _write_region(machine, slots, runs)
    constants = [*graph.constants.values()]
    count = len(slots.rows)
    given = [slots.of[x] for x in (*graph.inputs, *graph.constants)]
    made = [slots.of[y] for y in graph.outputs]
    pack = struct.Struct(f"<{count}I").pack_into
    whole = machine.whole
    call = machine.callers

    def run(*xs: WasmArray) -> Any:
        pointers = [0] * count
        for slot, x in zip(given, (*xs, *constants), strict=True):
            pointers[slot] = x.pointer
        ys = [empty(machine, shape, dtype) for dtype in dtypes]
        for slot, y in zip(made, ys, strict=True):
            pointers[slot] = y.pointer
        arrays = empty(machine, (count,), POINTER)
        pack(whole, arrays.pointer, *pointers)
        call["run_region"](region.pointer, arrays.pointer, n)
        return tuple(ys) if len(ys) > 1 else ys[0]

    return run


def _write_region(machine: Machine, slots: Slots, runs: list[Run]) -> WasmArray:
    """Write a ``Region`` and its tables into linear memory, and return it."""
    names = machine.cached[_addresses]()
    found = tables(slots, runs, names.__getitem__, pointer="u4")
    parts = [table.tobytes() for table in found]
    head = 32  # bytes of the structure, which points to the parts
    ends = [head + sum(map(len, parts[:i])) for i in range(4)]
    region = empty(machine, (ends[-1],), BYTES)
    places = [region.pointer + end for end in ends[:3]]
    counts = len(slots.rows), len(runs), slots.tile_size()
    content = struct.pack("<6I", *counts, *places).ljust(head, b"\0") + b"".join(parts)
    writable(region)[...] = np.frombuffer(content, np.uint8)
    return region


def _addresses(machine: Machine) -> dict[str, int]:
    """Return the addresses of the loops by name."""
    found: dict[str, int] = {}
    at = machine.ask("region_loops")
    while True:
        name, run = machine.view((2,), POINTER, at).tolist()
        if not name:
            return found
        found[ctypes.string_at(machine.address + name).decode()] = run
        at += 8
