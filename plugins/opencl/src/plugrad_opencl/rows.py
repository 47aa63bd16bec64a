"""Compiles a row kernel and the element-wise steps around it into one GPU kernel.

A work item holds its elements of a row in registers. The steps before the row kernel
are the prologue, which computes these elements. The steps after it are the epilogue,
which reads the result from the registers. Values of the prologue that the epilogue also
needs are computed again, because that costs less than keeping them in registers.
Each step runs the function of its kernel, so the results have the same bits as those of
the separate kernels.

Contents: ``is_row``, which kernels are row kernels; ``compiled``, a region as one
kernel; ``_RegionCode``, its C code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from plugrad.geometry import broadcast_strides, collapse_axes
from plugrad.plugin import Graph, Step

from . import regions, source
from .arrays import ClArray, ClOwner, Shape
from .kernels.norm import Layout, row_kernel, row_layout, row_size
from .moves import divided
from .runtime import Device, Launch
from .walk import SLOTS, VECTORS

FLOAT32 = np.dtype("float32")
MAX_ARGUMENTS = 100  # 8 bytes each; every device accepts 1024 bytes
ROW_KERNEL_STEPS = 4  # the work of a row kernel, in element-wise steps


class Row(NamedTuple):
    """A row kernel: C name and flags, and the registers of its inputs and result."""

    name: str
    flags: dict[str, bool]
    registers: str
    result: str


_SOFTMAX = Row("softmax", {"LOG": False}, "e", "e")
_SOFTMAX_GRAD = Row("softmax_grad", {"LOG": False}, "de", "d")
ROWS = {
    "Softmax": _SOFTMAX,
    "LogSoftmax": _SOFTMAX._replace(flags={"LOG": True}),
    "plugrad_opencl.SoftmaxGrad": _SOFTMAX_GRAD,
    "plugrad_opencl.LogSoftmaxGrad": _SOFTMAX_GRAD._replace(flags={"LOG": True}),
    "LayerNorm": Row("layer_norm", {"BACK": False}, "eso", "e"),
    "LayerNormGrad": Row("layer_norm_grad", {"BACK": True}, "des", "d"),
}


def is_row(step: Step, graph: Graph) -> bool:
    """Return whether a step is a float32 row kernel along the last axes."""
    return step.kernel.name in ROWS and _row_length(step, graph) is not None


def _row_length(step: Step, graph: Graph) -> int | None:
    """Return the length of the float32 rows of a step; None if it has none."""
    specs = [x if x is None else graph.specs[x] for x in step.inputs]
    result = graph.specs[step.outputs[0]]
    rows = specs[:1] if len(step.inputs) == 1 else specs[:2]
    others: list[Any] = specs[len(rows) :]
    if step.kernel.name == "LayerNorm":
        rows, others = specs[:1], specs[1:]
    given = [spec for spec in (*rows, *others) if spec is not None]
    if any(spec.dtype != FLOAT32 for spec in given):
        return None
    if not result.shape or any(x is None or x.shape != result.shape for x in rows):
        return None
    if "epsilon" in step.attrs:
        return row_size(result, step.attrs["axis"], *others)
    last = len(result.shape) - 1
    return result.shape[-1] if step.attrs.get("axis", last) == last else None


def dependents(graph: Graph, row: Step) -> set[int]:
    """Return the outputs of a step, and the values that depend on them."""
    found = {*row.outputs}
    for step in graph.steps:
        if not found.isdisjoint(step.inputs):
            found.update(step.outputs)
    return found


def compiled(device: Device, graph: Graph, row: Step) -> Callable[..., Any] | None:
    """Return a function that runs a region in one launch; None if that is impossible.

    The region contains one row kernel; all other steps are element-wise.
    """
    shape = graph.specs[row.outputs[0]].shape
    n = _row_length(row, graph)
    if device.style == "cpu" or n is None:
        return None
    layout = row_layout(device, FLOAT32.itemsize, n)
    begin = len(shape) - len(row.attrs["axis"] if "epsilon" in row.attrs else "1")
    shapes = [graph.specs[x].shape for x in (*graph.inputs, *graph.constants)]
    strides = [_strides(own, shape, begin) for own in shapes]
    known = [own for own in strides if own is not None]
    if not layout.held or len(known) < len(strides):
        return None
    region = _RegionCode(graph, row, layout.vector, known)
    axes = collapse_axes(shape[:begin], *[own.outer for own in known if not own.whole])
    numbers = [*region.code.numbers]
    numbers += [row.attrs[name] for name in row.attrs if name == "epsilon"]
    numbers += [size for size, *_ in axes[1:]]
    numbers += [step for _, *steps in axes for step in steps]
    count = len(shapes) + len(numbers) + len(graph.outputs) + 2
    if count > MAX_ARGUMENTS or not region.fits:
        return None
    launch = region.launch(device, layout, len(axes))
    return _launcher(layout, launch, graph, (shape, n), numbers)


def _launcher(
    layout: Layout,
    launch: Launch,
    graph: Graph,
    sizes: tuple[Shape, int],
    numbers: Sequence[float],
) -> Callable[..., Any]:
    """Return a function that launches the kernel; ``sizes``: shape and row length."""
    (shape, n), device = sizes, launch.device
    size = prod(shape)
    rows = prod(shape) // n
    items = -(-rows // (layout.group // layout.lanes)) * layout.group
    work = size * (ROW_KERNEL_STEPS + len(graph.steps))
    dtypes = [graph.specs[y].dtype for y in graph.outputs]
    constants = [*graph.constants.values()]

    def run(*xs: ClArray) -> Any:
        ys = [ClOwner(device, shape, dtype, size) for dtype in dtypes]
        buffers = [x.buffer for x in (*xs, *constants)]
        launch(work, items, *buffers, *numbers, *[y.buffer for y in ys], rows, n)
        return tuple(ys) if len(ys) > 1 else ys[0]

    return run


class _Strides(NamedTuple):
    """The strides of an input: along the axes before the row, and within the row."""

    whole: bool
    outer: tuple[int, ...]
    inner: int


def _strides(own: Shape, shape: Shape, begin: int) -> _Strides | None:
    """Return the strides of an input; None if it broadcasts along a part of a row.

    The axes from ``begin`` on are a row.
    """
    strides = broadcast_strides(own, len(shape))
    row_axes = collapse_axes(shape[begin:], strides[begin:])
    if len(row_axes) > 1 or row_axes[0][1] not in (0, 1):
        return None
    return _Strides(own == shape, tuple(strides[:begin]), row_axes[0][1])


class _Value(NamedTuple):
    """A value in C: its variable, and its type."""

    variable: str
    c: str


class _RegionCode:
    """The C code of a region around a row kernel.

    Attributes:
        code: The element-wise steps, which have the row kernel's result as an input.
        inputs: The inputs and the constants of the region.
        operands: The variables that are the inputs of the row kernel, by register.
        fits: Whether one kernel can contain the region.

    """

    def __init__(
        self, graph: Graph, row: Step, wide: int, strides: Sequence[_Strides]
    ) -> None:
        self.row, self.kernel = row, ROWS[row.kernel.name]
        self.wide, self.strides = wide, strides
        (self.result,) = row.outputs
        steps = tuple([step for step in graph.steps if step is not row])
        inputs = (self.result, *graph.inputs)
        self.code = code = regions.Code(graph._replace(inputs=inputs, steps=steps))
        types = {x: source.C[spec.dtype] for x, spec in graph.specs.items()}
        self.inputs = [_Value(code.variables[x], types[x]) for x in code.inputs[1:]]
        self.outputs = [_Value(code.variables[y], types[y]) for y in graph.outputs]
        registers = zip(self.kernel.registers, row.inputs, strict=False)
        self.operands = {
            register: code.variables[x] for register, x in registers if x is not None
        }
        late = dependents(graph, row)
        self.late = [o for o, y in enumerate(graph.outputs) if y in late]
        self.fits = (
            bool(code.lines)
            and {*types.values()} <= VECTORS
            and {*code.libraries} <= {FLOAT32}
        )

    def launch(self, device: Device, layout: Layout, rank: int) -> Launch:
        """Return the kernel, for inputs that broadcast along ``rank`` axes of rows."""
        flags = dict(self.kernel.flags)
        code = self.code
        if "epsilon" in self.row.attrs:
            flags |= {"SCALE": "s" in self.operands, "OFFSET": "o" in self.operands}
        code.libraries.clear()  # the row kernel includes the library
        functions = [source.mathematics(FLOAT32), *code.definitions(FLOAT32)]
        early = [o for o in range(len(self.outputs)) if o not in self.late]
        steps = [
            f"#define PROLOGUE {self._row_setup(rank)} "
            f"{self._element_loop(self.operands, early)}",
            f"#define EPILOGUE(r) {self._element_loop({}, self.late)}",
        ]
        return row_kernel(
            device,
            FLOAT32,
            layout,
            self.kernel.name,
            flags,
            "\n".join(functions),
            ", ".join(self._arguments(rank)),
            "\n".join(steps),
        )

    def _arguments(self, rank: int) -> list[str]:
        """Return the declarations of the arguments, in the order of the launch."""
        moved = [i for i, own in enumerate(self.strides) if not own.whole]
        given = [
            f"__global const {x.c} *restrict x{i}" for i, x in enumerate(self.inputs)
        ]
        given += [f"{c} a{i}" for i, c in enumerate(self.code.types)]
        given += ["float epsilon"] * ("epsilon" in self.row.attrs)
        given += [f"long d{k}" for k in range(1, rank)]
        given += [f"long s{i}_{k}" for k in range(rank) for i in moved]
        given += [f"__global {y.c} *restrict y{o}" for o, y in enumerate(self.outputs)]
        return [*given, "long rows", "long n"]

    def _row_setup(self, rank: int) -> str:
        """Return C code that sets a pointer to each array's row, and the registers."""
        lines = ["long rest = row;", *divided(rank, "long")]
        for i, own in enumerate(self.strides):
            terms = [f"at{k} * s{i}_{k}" for k in range(rank)]
            offset = "row * n" if own.whole else " + ".join(terms)
            c = self.inputs[i].c
            lines.append(f"__global const {c} *restrict p{i} = x{i} + ({offset});")
        for o, y in enumerate(self.outputs):
            lines.append(f"__global {y.c} *restrict to{o} = y{o} + row * n;")
        lines += [f"S {register}[PER];" for register in self.operands]
        zeros = " ".join([f"{register}[k] = 0;" for register in self.operands])
        return " ".join([*lines, f"UNROLLED(k, 1) {{ {zeros} }}"])

    def _element_loop(self, kept: Mapping[str, str], outputs: Sequence[int]) -> str:
        """Return C code that computes the elements of a work item, ``wide`` at a time.

        This code stores the variables of ``kept`` in registers, and writes ``outputs``.
        """
        writes = [(o, *self.outputs[o]) for o in outputs]
        wanted = {*kept.values(), *[variable for _, variable, _ in writes]}
        lines = self._lines(wanted)  # adds to ``wanted``
        reads, parts = self._reads(wanted)
        wide = f"{self.wide}" if self.wide > 1 else ""
        starts = [f"{c}{wide} t{o};" for o, _, c in writes]
        ends = [
            f"{register}[k + $j] = {variable};" for register, variable in kept.items()
        ]
        ends += [f"t{o}$slot = {variable};" for o, variable, _ in writes]
        stores = [f"*(__global {c}{wide} *)(to{o} + i) = t{o};" for o, _, c in writes]
        body = " ".join(["{", *parts, *lines, *ends, "}"])
        slots = [f".{slot}" for slot in SLOTS[: self.wide]] if wide else [""]
        pairs = enumerate(slots)
        bodies = [body.replace("$slot", s).replace("$j", f"{j}") for j, s in pairs]
        inside = " ".join([*reads, *starts, *bodies, *stores])
        loop = "UNROLLED(k, VEC) { const int i = ELEMENT(k); if (i < count)"
        return f"{loop} {{ {inside} }} }}"

    def _lines(self, wanted: set[str]) -> list[str]:
        """Return the lines that compute ``wanted``; add the variables that they use."""
        first = len(self.code.inputs)
        found = list[str]()
        for i, line in reversed([*enumerate(self.code.lines)]):
            if f"v{first + i}" in wanted:
                wanted.update(re.findall(r"\bv\d+\b", line.partition("=")[2]))
                found.append(line)
        return found[::-1]

    def _reads(self, wanted: set[str]) -> tuple[list[str], list[str]]:
        """Return C code that loads vectors, and code that unpacks their elements."""
        reads, parts = [], []
        wide = f"{self.wide}" if self.wide > 1 else ""
        for i, (variable, c) in enumerate(self.inputs):
            if variable not in wanted:
                continue
            value = f"p{i}[0]"
            if self.strides[i].inner:
                vector = f"{c}{wide}"
                value = f"w{i}$slot"
                address = f"*(__global const {vector} *)(p{i} + i)"
                reads.append(f"const {vector} w{i} = {address};")
            parts.append(f"const {c} {variable} = {value};")
        result = self.code.variables[self.result]
        if result in wanted:
            parts.append(f"const S {result} = r[k + $j];")
        return reads, parts
