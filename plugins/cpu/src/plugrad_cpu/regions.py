"""Regions of graphs of ``plugrad.jit``: element-wise kernels in C, in one pass.

The kernels run on one tile of elements after the other: what they make stays in the
first cache. A region is a program of the structures in ``region.h``; it is data, so it
takes no compiler.

Map: ``LOOPS``, what runs in the place of kernels; ``is_fusable``; ``compile_region``;
``Slots``, where values are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from plugrad.geometry import broadcast_strides, collapse_axes, contiguous_strides
from plugrad.plugin import Graph, Step

from .kernels import KERNELS, linalg
from .native import LOADED, MOST, around
from .pool import native

SLOT = np.dtype([("kind", "i4"), ("size", "i4"), ("place", "i4"), ("loop", "i4")])
STEP = np.dtype(
    [
        *[("run", "u8"), ("p", "f8"), ("q", "f8")],
        *[("count", "i4"), ("in", "i4", 3), ("to", "i4")],
    ],
    align=True,
)
ARRAY, SCALAR, BROADCAST, TILE = range(4)
MOST_SLOTS, MEMORY = 128, 16384  # REGION_SLOTS and REGION_MEMORY of region.h
MANY = 1 << 16  # elements, of which a kernel alone is as fast as a region
EITHER_ZERO = ("Maximum", "Minimum", "Prelu")
CACHE = 8192  # elements of float32: two thirds of the smallest first caches
BOOL = np.dtype(np.bool_)
NAMES = {"less": ("Less", "Greater"), "less_equal": ("LessEqual", "GreaterEqual")}


class Loop(NamedTuple):
    """What runs in the place of a kernel.

    Attributes:
        name: Of the function in C; empty for what changes no element.
        order: Which inputs it reads.
        numbers: The attributes that it takes.
        then: A further function, of its result.

    """

    name: str
    order: tuple[int, ...]
    numbers: tuple[str, ...] = ()
    then: str = ""


def _loops() -> dict[tuple[str, str], Loop]:
    """Return what there is, by the kernel and the dtypes of its inputs."""
    found = {}
    for kernel, function in KERNELS.items():
        symbol, count = getattr(function, "symbol", ""), getattr(function, "nin", 0)
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


def _loop(step: Step, specs: Any) -> Loop | None:
    """Return what runs in the place of a step; None if it has to run as it is."""
    if None in step.inputs:
        return None
    types = [specs[x].dtype.char for x in (*step.inputs, *step.outputs)]
    of = "".join(types[:-1]) if step.kernel.single else ""
    return LOOPS.get((step.kernel.name, of)) if types[-1] in "f?" else None


def is_fusable(step: Step, graph: Graph) -> Any:
    """Return what is equal for steps that may be in one region; a false value if none.

    NumPy broadcasts short rows, and may choose another of two zeros.
    """
    if step.kernel.name in ALONE:
        return step.outputs  # which are its own
    shapes = {graph.specs[x].shape for x in step.inputs if x is not None}
    if len(shapes) > 1 and step.kernel.name in EITHER_ZERO:
        return False
    return _loop(step, graph.specs) is not None


def compile_region(graph: Graph) -> Any:
    """Return a function of NumPy's arrays; None if the kernels are as fast."""
    specs = graph.specs
    if bind := ALONE.get(graph.steps[0].kernel.name):
        return bind(graph)
    shape = specs[graph.outputs[0]].shape
    views = {s.outputs[0] for s in graph.steps if s.kernel.name == "BroadcastTo"}
    few = len(graph.steps) < 2 and prod(shape) >= MANY
    if few or prod(shape) >= MOST or views & {*graph.outputs}:
        return None
    slots = Slots(graph, shape)
    rows: list[Any] = []
    for step in graph.steps:
        loop = _loop(step, specs)
        assert loop is not None  # all are fusable
        given = [slots.of[x] for x in step.inputs if x is not None]
        if not loop.name:  # its input has been broadcast
            slots.of[step.outputs[0]] = given[0]
            continue
        to = slots.of[step.outputs[0]] = slots.new(step.outputs[0])
        ends = [slots.tile(BOOL), to] if loop.then else [to]
        numbers = [float(step.attrs[name]) for name in loop.numbers]
        rows.append(_row(loop.name, [given[k] for k in loop.order], ends[0], *numbers))
        if loop.then:
            rows.append(_row(loop.then, ends[:1], to))
            slots.drop(ends[0])
        slots.drop_after(step)
    if len(slots.rows) > MOST_SLOTS:
        return None
    return native.region(  # type: ignore[union-attr]
        np.array(slots.rows, SLOT).tobytes(),
        np.array(rows, STEP).tobytes(),
        np.array(slots.loops, np.int32).tobytes(),
        slots.tile_size(),
        slots.constants,
        *_ends(graph, slots.of),
    )


def _ends(graph: Graph, of: Mapping[int, int]) -> Any:
    """Return inputs, outputs and shape of a function, by the numbers of arrays."""
    specs = graph.specs
    given = [(of[x], specs[x].dtype.num, prod(specs[x].shape)) for x in graph.inputs]
    made = [(of[y], specs[y].dtype.num) for y in graph.outputs]
    return given, made, specs[graph.outputs[0]].shape


def _row(name: str, given: list[int], to: int, p: float = 0, q: float = 0) -> Any:
    run = native.address(name)  # type: ignore[union-attr]
    return run, p, q, len(given), [*given, 0, 0][:3], to


class Slots:
    """Where the values of a region are: see region.h.

    Attributes:
        of: The slot of each value.
        rows: The slots.
        loops: How arrays are broadcast.
        constants: The arrays of slots that are not passed in a call.
        places: How many tiles of memory are in use at most.

    """

    def __init__(self, graph: Graph, shape: tuple[int, ...]) -> None:
        self.graph, self.shape, self.places = graph, shape, 0
        self.of: dict[int, int] = {}
        self.rows: list[tuple[int, int, int, int]] = []
        self.loops: list[int] = []
        self.constants: dict[int, np.ndarray[Any, Any]] = {}
        self._free: dict[int, list[int]] = {1: [], 4: []}  # by size
        self._last = {x: s for s in graph.steps for x in s.inputs}
        moved = {s.inputs[0] for s in graph.steps if s.kernel.name == "BroadcastTo"}
        for x in (*graph.inputs, *graph.constants):
            self.of[x] = self._input(x, x in moved)
        for x, native_array in graph.constants.items():
            self.constants[self.of[x]] = np.ascontiguousarray(native_array)

    def _input(self, x: int, moved: bool) -> int:
        """Return a slot for an input; one that is moved must be as large as others."""
        spec = self.graph.specs[x]
        size, count = spec.dtype.itemsize, prod(spec.shape)
        if count == prod(self.shape):
            return self._add(ARRAY, size)
        if count == 1 and not moved:
            return self._add(SCALAR, size)
        axes = collapse_axes(self.shape, broadcast_strides(spec.shape, len(self.shape)))
        loop, self.loops = len(self.loops), [*self.loops, len(axes)]
        self.loops += [n for n, _ in axes] + [step for _, step in axes]
        self.places += 1
        return self._add(BROADCAST, size, self.places - 1, loop)

    def _add(self, kind: int, size: int, place: int = 0, loop: int = 0) -> int:
        self.rows.append((kind, size, place, loop))
        return len(self.rows) - 1

    def new(self, y: int) -> int:
        """Return a slot for what a step makes."""
        dtype = self.graph.specs[y].dtype
        if y in self.graph.outputs:
            return self._add(ARRAY, dtype.itemsize)
        return self.tile(dtype)

    def tile_size(self) -> int:
        """Return how many elements a tile has, so that all tiles fit into the cache.

        Arrays often begin at the same place of a page, and then their tiles compete for
        the same lines of the cache.
        """
        arrays = sum(kind == ARRAY for kind, *_ in self.rows)
        best = 2048 if arrays < 4 else 512 if arrays < 6 else 256
        return min(best, CACHE // (arrays + self.places) // 64 * 64)

    def tile(self, dtype: np.dtype[Any]) -> int:
        """Return a slot in the memory; each has room for float32."""
        free = self._free[dtype.itemsize]
        if free:
            return free.pop()
        self.places += 1
        return self._add(TILE, dtype.itemsize, self.places - 1)

    def drop(self, slot: int) -> None:
        """Use a slot in the memory for others."""
        kind, size, *_ = self.rows[slot]
        if kind == TILE:
            self._free[size].append(slot)

    def drop_after(self, step: Step) -> None:
        """Drop what no later step reads."""
        for x in {*step.inputs, *step.outputs}:
            if x is not None and self._last.get(x, step) is step:
                self.drop(self.of[x])


# --- single kernels --------------------------------------------------------------


def _bound(graph: Graph, name: str, *arguments: Any) -> Any:
    """Return a kernel with its numbers; the last of its arrays is the output."""
    of = {v: n for n, v in enumerate((*graph.inputs, *graph.outputs))}
    return native.bound(name, arguments, *_ends(graph, of))  # type: ignore[union-attr]


def _specs(graph: Graph) -> list[Any] | None:
    """Return what a single step reads, if that is float32 and no constant."""
    (step,) = graph.steps
    specs = [graph.specs[x] for x in step.inputs if x is not None]
    fits = all(spec.dtype == np.float32 for spec in specs)
    same = (*graph.inputs,) == step.inputs  # each once
    return specs if fits and same and len(specs) == len(step.inputs) else None


def _product(graph: Graph) -> Any:
    specs = _specs(graph)
    if specs is None:
        return None
    attrs, views = graph.steps[0].attrs, []
    for spec, turned in zip(specs, ("transpose_a", "transpose_b"), strict=True):
        shape, strides = (
            spec.shape,
            tuple([4 * s for s in contiguous_strides(spec.shape)]),
        )
        if attrs[turned]:
            shape = (*shape[:-2], shape[-1], shape[-2])
            strides = (*strides[:-2], strides[-1], strides[-2])
        views += [shape, strides]
    plan = linalg.plan(*views)
    return plan and _bound(
        graph, "product_f32", plan[1], (0,), (1,), (2,), *linalg.NOTHING
    )


def _softmax(log: int, graph: Graph) -> Any:
    specs = _specs(graph)
    if specs is None or prod(specs[0].shape) >= MOST:
        return None
    sizes = around(specs[0].shape, graph.steps[0].attrs["axis"])
    return _bound(graph, "softmax_f32", (0,), (1,), *sizes, log)


def _softmax_grad(log: int, graph: Graph) -> Any:
    specs = _specs(graph)
    if specs is None or specs[0] != specs[1] or prod(specs[0].shape) >= MOST:
        return None
    sizes = around(specs[0].shape, len(specs[0].shape) - 1)[:2]
    return _bound(graph, "softmax_grad_f32", (0,), (1,), (2,), *sizes, log)


# Kernels that are called without looking at their arguments anew.
ALONE: dict[str, Callable[[Graph], Any]] = {
    "BatchMatMul": _product,
    "Softmax": partial(_softmax, 0),
    "LogSoftmax": partial(_softmax, 1),
    "plugrad_cpu.SoftmaxGrad": partial(_softmax_grad, 0),
    "plugrad_cpu.LogSoftmaxGrad": partial(_softmax_grad, 1),
}
