"""Compiles regions that end in reductions, without storing the reductions' inputs.

A float32 reduction reads each element once, so it can compute the element instead of
reading it. The order of summation is the same as in the separate kernel, so the results
are bit-identical. On a GPU, where a launch costs more than most kernels, several
reductions over the same axes form one kernel. This kernel also stores the values of the
region that later steps read.

Contents: ``fusable``; ``compiled``; ``_fused``, one kernel; ``_reads``, its C code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from plugrad.plugin import Graph, Step

from . import reductions, regions, source
from .arrays import ClOwner, Shape
from .kernels import KERNELS
from .runtime import Device

FOLDS = ("Sum", "Mean", "Max", "Min")
FLOAT32 = np.dtype("float32")
MAX_FOLDS = 4  # reductions per kernel: with 1024 items, 16 KiB of local memory
MAX_ARGUMENTS = 100  # 8 bytes each; every device accepts 1024 bytes


def fusable(step: Step, graph: Graph) -> bool:
    """Return whether a step can be in a region.

    A reduction must have fewer output elements than input elements: then no other step
    of its region can read its output.
    """
    if step.kernel.name in FOLDS:
        x = graph.specs[_read(step)]
        y = graph.specs[step.outputs[0]]
        return x.dtype == FLOAT32 and prod(x.shape) > prod(y.shape)
    return regions.fusable(step, graph)


def compiled(device: Device, graph: Graph) -> Callable[..., Any] | None:
    """Return a function of a region's inputs; None if separate kernels should run."""
    folds = [step for step in graph.steps if step.kernel.name in FOLDS]
    if not folds:
        return regions.compiled(device, graph)
    steps = tuple([step for step in graph.steps if step not in folds])
    made = {y for step in steps for y in step.outputs}
    read = [_read(step) for step in folds]
    wanted = dict.fromkeys([y for y in (*graph.outputs, *read) if y in made])
    part = graph._replace(steps=steps, outputs=(*wanted,))
    if not steps:
        return None
    if run := _fused(device, graph, part, folds):
        return run
    first = regions.compiled(device, part)
    return first and _one_by_one(graph, part, folds, first)


def _read(step: Step) -> int:
    """Return the value that a reduction reads."""
    (x,) = step.inputs
    assert x is not None
    return x


def _one_by_one(
    graph: Graph, part: Graph, folds: Sequence[Step], first: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that runs the region, and then the reductions."""

    def run(*xs: Any) -> Any:
        made = first(*xs)
        ys = made if len(part.outputs) > 1 else (made,)
        values = dict(zip(part.outputs, ys, strict=True))
        for step in folds:
            x = values[_read(step)]
            kernel = KERNELS[step.kernel.name]
            values[step.outputs[0]] = kernel(x, **step.attrs)
        found = tuple([values[y] for y in graph.outputs])
        return found if len(found) > 1 else found[0]

    return run


def _fused(
    device: Device, graph: Graph, part: Graph, folds: Sequence[Step]
) -> Callable[..., Any] | None:
    """Return a function that runs one kernel; None if several are necessary."""
    code = regions.Code(part)
    stores = [y for y in graph.outputs if y in part.outputs]
    reads = _reads(device, code, part, folds, stores)
    if reads is None or not code.lines or len(code.libraries) > 1:
        return None
    sizes, arguments, strides, loads = reads
    shape = part.specs[part.outputs[0]].shape
    dtypes = [part.specs[y].dtype for y in stores]
    names = tuple([step.kernel.name for step in folds])
    results = [step.outputs[0] for step in folds]
    shapes = [graph.specs[y].shape for y in results]
    constants = [*part.constants.values()]
    n = prod(shape)
    stages = reductions.staged(
        device, names, FLOAT32, sizes, (arguments, loads), sizes[1]
    )

    def run(*xs: Any) -> Any:
        stored = [ClOwner(device, shape, dtype, n) for dtype in dtypes]
        given = [x.buffer for x in (*xs, *constants)]
        given += [*code.numbers, *strides, *[y.buffer for y in stored]]
        ys = reductions.reduced(device, stages, FLOAT32, given)
        ys = [y.view(result_shape) for y, result_shape in zip(ys, shapes, strict=True)]
        values = dict(zip((*results, *stores), (*ys, *stored), strict=True))
        found = tuple([values[y] for y in graph.outputs])
        return found if len(found) > 1 else found[0]

    return run


def _reads(
    device: Device,
    code: regions.Code,
    part: Graph,
    folds: Sequence[Step],
    stores: Sequence[int],
) -> tuple[Shape, str, list[int], str] | None:
    """Return how one kernel reads its inputs; None if several are necessary.

    The result consists of [a, n, m], the parameters of the kernel, the strides among
    its arguments, and C code that computes the elements.
    """
    shape, axes = part.specs[part.outputs[0]].shape, folds[0].attrs["axis"]
    begin = min(axes, default=0)
    end = max(axes, default=-1) + 1
    sizes = prod(shape[:begin]), prod(shape[begin:end]), prod(shape[end:])
    apart = len(axes) != end - begin or sizes[1] < 2
    if apart or any({*step.attrs["axis"]} != {*axes} for step in folds):
        return None
    shapes = [part.specs[x].shape for x in code.inputs]
    if device.style == "cpu":
        whole = [own == shape for own in shapes]
        fits = all(own == shape or prod(own) == 1 for own in shapes)
        if stores or len(folds) > 1 or not fits:
            return None
        if len(shapes) + len(code.numbers) > MAX_ARGUMENTS:
            return None
        return sizes, *_vectors(code, part, whole)
    strides = [_strides(own, shape, begin, end) for own in shapes]
    found = [own for own in strides if own is not None]
    arguments = 4 * len(shapes) + len(code.numbers) + len(stores) + len(folds)
    if len(found) < len(strides) or len(folds) > MAX_FOLDS or arguments > MAX_ARGUMENTS:
        return None
    return sizes, *_elements(code, part, found, [_read(step) for step in folds], stores)


def _vectors(
    code: regions.Code, part: Graph, whole: Sequence[bool]
) -> tuple[str, list[int], str]:
    """Return parameters, strides and C code of a CPU kernel with one reduction."""
    cs = [source.C[part.specs[x].dtype] for x in code.inputs]
    given, names = _arguments(code, cs)
    functions = []
    for one in (False, True):
        lines = []
        for i, (c, full) in enumerate(zip(cs, whole, strict=True)):
            vector = f"const V_{c} v{i} ="
            if full and not one:
                lines.append(f"{vector} *(__global const V_{c} *)(x{i} + at);")
            else:
                lines.append(f"{vector} x{i}[{'at' if full else 0}];")
        result = code.variables[part.outputs[0]]
        head = f"static inline V_{source.C[FLOAT32]} {'scalar' if one else 'vector'}_at"
        body = " ".join([*lines, *code.lines, f"return {result};"])
        functions.append(f"{head}({', '.join([*given, 'long at'])}) {{ {body} }}")
    called = ", ".join(names)
    functions += [f"#define VECTOR_AT(i) vector_at({called}, i)"]
    functions += [f"#define SCALAR_AT(i) FIRST(scalar_at({called}, i))"]
    loads = "\n".join([*code.definitions(FLOAT32), *functions])
    return ", ".join(given), [], loads


def _arguments(code: regions.Code, cs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the declarations of inputs and numbers, and their names."""
    given = [f"__global const {c} *restrict x{i}" for i, c in enumerate(cs)]
    given += [f"{c} a{i}" for i, c in enumerate(code.types)]
    names = [f"x{i}" for i in range(len(cs))]
    return given, names + [f"a{i}" for i in range(len(code.types))]


def _strides(own: Shape, shape: Shape, begin: int, end: int) -> list[int] | None:
    """Return the strides of an input along a, n and m; [] if it does not broadcast.

    None if it broadcasts along some of the axes that are merged into a, n or m.
    """
    if own == shape:
        return []
    own = (*[1] * (len(shape) - len(own)), *own)
    found, stride = [], 1
    for start, stop in ((end, len(shape)), (begin, end), (0, begin)):
        n = prod(own[start:stop])
        full = prod(shape[start:stop])
        if n not in (1, full):
            return None
        found.append(stride if n > 1 else 0)
        stride *= n
    return found[::-1]


def _elements(
    code: regions.Code,
    part: Graph,
    strides: Sequence[Sequence[int]],
    read: Sequence[int],
    stores: Sequence[int],
) -> tuple[str, list[int], str]:
    """Return parameters, strides and C code of a GPU kernel.

    An element consists of one value for each reduction. The code that computes it also
    stores the values in ``stores``.
    """
    cs = [source.C[part.specs[x].dtype] for x in code.inputs]
    given, names = _arguments(code, cs)
    lines = []
    for i, (c, own) in enumerate(zip(cs, strides, strict=True)):
        by = [f"s{i}_{k}" for k in range(len(own))]
        given += [f"long {name}" for name in by]
        names += by
        pairs = zip(("row", "i", "j"), by, strict=False)
        place = " + ".join([f"{at} * {name}" for at, name in pairs])
        lines.append(f"const V_{c} v{i} = x{i}[{place or 'at'}];")
    lines += code.lines
    for o, y in enumerate(stores):
        given.append(f"__global {source.C[part.specs[y].dtype]} *restrict w{o}")
        names.append(f"w{o}")
        lines.append(f"w{o}[at] = {code.variables[y]};")
    lines += [f"g.v{k} = {code.variables[y]};" for k, y in enumerate(read)]
    places = "long row, long i, long j, long at"
    head = f"static inline G element({', '.join([*given, places])})"
    called = f"element({', '.join(names)}, row, i, j, AT(row, i, j))"
    functions = [
        f"{head} {{ G g; {' '.join(lines)} return g; }}",
        f"#define ELEMENT(row, i, j) {called}",
    ]
    flat = [stride for own in strides for stride in own]
    loads = "\n".join([*code.definitions(FLOAT32), *functions])
    return ", ".join(given), flat, loads
