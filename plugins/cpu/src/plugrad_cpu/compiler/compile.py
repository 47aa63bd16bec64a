"""Select the steps of ``plugrad.jit`` regions, and compile the regions.

Contents: ``LOOPS``, the C loops that replace kernels; ``is_fusable``;
``compile_region``.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Step

from ..kernels import KERNELS
from ..native import LOADED, MAX_ELEMENTS
from ..pool import native
from ..regions import SHORT_TILE, Loop, Slots, Tables, program, tables
from . import blocks
from .operands import operands
from .rows import CALLS, FOLDS, call_of, values
from .single import SINGLE

REGION_MAX_ELEMENTS = 1 << 16  # above, a single kernel is as fast as a region
EITHER_ZERO = ("Maximum", "Minimum", "Prelu")
SQUARE = Loop("square_f32_piece")  # replaces Pow with the exponent 2
NAMES = {"less": ("Less", "Greater"), "less_equal": ("LessEqual", "GreaterEqual")}


def _loops() -> dict[tuple[str, str], Loop]:
    """Return the loops by the kernel and the dtypes of its inputs."""
    found = {}
    function: Any
    for kernel, function in KERNELS.items():
        if getattr(function, "symbol", "").endswith("_f16"):
            function = function.__wrapped__
        symbol = getattr(function, "symbol", "")
        count = getattr(function, "nin", 0)
        if symbol:
            suffix = "_piece" if count == 1 else "_row"
            types = "?ff" if kernel == "Select" else "f" * count
            found[kernel, types] = Loop(symbol + suffix, (*range(count),))
    found["ClipByValue", "f"] = Loop("clip_f32_piece", (0,), ("min", "max"))
    found["LeakyRelu", "f"] = Loop("leaky_relu_f32_piece", (0,), ("alpha",))
    found["Step", "f"] = Loop("step_f32_piece", (0,), ("alpha",))
    found["Equal", "ff"] = Loop("equal_f32_row", (0, 1))
    for name in ("less", "less_equal"):
        found[NAMES[name][0], "ff"] = Loop(f"{name}_f32_row", (0, 1))
        found[NAMES[name][1], "ff"] = Loop(f"{name}_f32_row", (1, 0))
    found["NotEqual", "ff"] = Loop("equal_f32_row", (0, 1), (), "not_b8_piece")
    for name in ("And", "Or", "Xor"):
        found[f"Logical{name}", "??"] = Loop(f"{name.lower()}_b8_row", (0, 1))
    found["LogicalNot", "?"] = Loop("not_b8_piece", (0,))
    found["Cast", "?"] = Loop("cast_u8_f32_piece", (0,))
    found["BroadcastTo", "f"] = found["BroadcastTo", "?"] = Loop("", (0,))
    return found


LOOPS = _loops() if LOADED else {}


def _loop(step: Step, graph: Graph) -> Loop | None:
    """Return the loop that replaces a step; None if its kernel has to run."""
    if None in step.inputs:
        return None
    specs = [graph.specs[x] for x in (*step.inputs, *step.outputs) if x is not None]
    types = [spec.dtype.char for spec in specs]
    if step.kernel.name == "Pow":
        power = graph.constants.get(values(step)[1])
        square = types[0] == "f" and power is not None and power.ndim == 0
        return SQUARE if square and power == 2 else None
    of = "".join(types[:-1]) if step.kernel.single else ""
    return LOOPS.get((step.kernel.name, of)) if types[-1] in "f?" else None


def is_fusable(step: Step, graph: Graph) -> Any:
    """Return a key, or a false value for a step that cannot be in a region.

    Steps with equal keys may share a region.

    Kernels that choose between 0 and -0 are not fused if they broadcast: outside of a
    region, NumPy computes short rows and may choose the other zero.
    """
    if call_of(step, graph):
        return True
    if step.kernel.name in SINGLE:
        return step.outputs  # a key that no other step has
    shapes = {graph.specs[x].shape for x in step.inputs if x is not None}
    if len(shapes) > 1 and step.kernel.name in EITHER_ZERO:
        return False
    return _loop(step, graph) is not None


def compile_region(graph: Graph) -> Any:
    """Return a function of NumPy arrays; None if separate kernels are as fast."""
    specs = graph.specs
    alone = len(graph.steps) == 1
    if bind := alone and SINGLE.get(graph.steps[0].kernel.name):
        return bind(graph)
    count = max([prod(spec.shape) for spec in specs.values()])
    as_fast = alone and (
        count >= REGION_MAX_ELEMENTS or graph.steps[0].kernel.name in FOLDS
    )
    if as_fast or count >= MAX_ELEMENTS:
        return None
    if any(step.kernel.name in CALLS for step in graph.steps):
        return blocks.compiled(graph, _write_program)
    written = _write_program(graph)
    if written is None:
        return None
    slots, arrays = written
    kept = slots.constants.items()
    constants = {at: np.ascontiguousarray(graph.constants[x]) for x, at in kept}
    return native.region(  # type: ignore[union-attr]
        *[array.tobytes() for array in arrays],
        slots.tile_size(SHORT_TILE),
        constants,
        *operands(graph, slots.of),
        count,
    )


def _write_program(graph: Graph) -> tuple[Slots, Tables] | None:
    """Return the slots of element-wise steps and the tables of their program."""
    found = program(graph, lambda step: _loop(step, graph))
    if found is None:
        return None
    address = native.address  # type: ignore[union-attr]
    return found[0], tables(*found, address, pointer="u8")
