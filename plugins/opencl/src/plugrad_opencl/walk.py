"""Builds kernels whose output elements depend on one element of each input.

Contents: ``walk``, the kernel around the code for an element; ``layout``, how shapes
broadcast.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from plugrad.geometry import broadcast, broadcast_strides, collapse_axes

from . import source
from .arrays import DType, Shape
from .moves import LARGE_ELEMENTS, divided, offset_types
from .runtime import Device, Launch

# C code that loads elements of input 0, of type X0, from pointer p0 into variable v0.
SPLAT = "const X{0} v{0} = p{0}[0];"
LOAD = "const X{0} v{0} = *(__global const X{0} *)(p{0} + j);"
STORE = "*(__global {} *)(to{} + j) = {};"
TAIL = "X{0} v{0}; for (int k = 0; k < WIDTH; k++) "
TAIL += "v{0}[k] = p{0}[min(j + k, count - 1)];"

# C code for several neighboring elements at once, on a GPU.
WIDE_LOAD = "const {c}{lanes} w{i} = *(__global const {c}{lanes} *)p{i};"
WIDE_PART = "const X{0} v{0} = w{0}.slot;"
VECTORS = {*source.C.values()} - {"float2"}  # types that have vectors
SLOTS = [f"s{k}" for k in range(8)]  # the names of the elements of a vector in C


class Input(NamedTuple):
    """An input: its type in C, and how it advances in a row.

    ``advances`` is "1" (by one element), "0" (not at all), or "=" if the input has the
    shape of the outputs.
    """

    c: str
    advances: str


class Output(NamedTuple):
    """An output: the C types of a vector and of an element, and the variable."""

    vector: str
    c: str
    name: str


class Form(NamedTuple):
    """How a GPU kernel computes offsets; CPU kernels have only one form.

    Attributes:
        small: Whether offsets have 32 bits.
        aligned: Whether neighboring elements are neighbors in every input that
            advances.

    """

    small: bool = False
    aligned: bool = False


FLAT = Form(aligned=True)  # without broadcasting: offsets need no division


@functools.lru_cache(4096)
def form(
    n: int,
    advances: Sequence[str],
    rank: int,
    sizes: tuple[int, ...],
    lanes: int,
) -> Form:
    """Return the form for ``n`` elements of this ``layout`` on a GPU.

    A work item computes ``lanes`` elements.
    """
    if not rank:
        return FLAT
    steps = iter(sizes[rank:])
    inputs = [(a, [next(steps) for _ in range(rank)]) for a in advances if a != "="]
    moved = [step for a, steps in inputs if a == "1" for step in steps]
    aligned = all(size % lanes == 0 for size in (sizes[0], *moved))
    return Form(n < LARGE_ELEMENTS, aligned)


def lanes(dtypes: Iterable[DType]) -> int:
    """Return how many neighboring elements a work item of a GPU computes."""
    return 8 if max(dtype.itemsize for dtype in dtypes) <= 2 else 4


def walk(
    device: Device,
    name: str,
    width: int,
    definitions: list[str],
    inputs: list[Input],
    numbers: list[str],
    work: str,
    outputs: list[Output],
    rank: int,
    form: Form,
    lanes: int,
) -> Launch:
    """Return a kernel that runs ``work`` for each element of its outputs.

    The arguments of the kernel are the inputs, a number for each C type in ``numbers``,
    the outputs, the number of elements, and the sizes of ``layout`` for the inputs that
    are not "=".
    """
    moves = [i for i, x in enumerate(inputs) if x.advances != "0"]
    stays = [i for i, x in enumerate(inputs) if x.advances == "0"]
    numbered = [*enumerate(outputs)]
    types = {x.c for x in inputs} | {y.c for y in outputs}
    return source.kernel(
        device,
        "elementwise",
        name,
        width=width,
        name=name,
        definitions="\n".join(definitions),
        arguments=", ".join(_arguments(inputs, numbers, outputs)),
        sizes="".join([f", Size {size}" for size in _sizes(inputs, rank)]),
        RANK=rank,
        WIDE=form.aligned and types <= VECTORS,
        each=lanes,
        offsets=_offsets(inputs, outputs, rank),
        splats=_joined(SPLAT, stays),
        loads=_joined(LOAD, moves),
        tails=_joined(TAIL, moves),
        work=work,
        stores=" ".join([STORE.format(y.vector, o, y.name) for o, y in numbered]),
        rests=" ".join([f"to{o}[j + k] = {y.name}[k];" for o, y in numbered]),
        **offset_types(device, form.small),
        **_wide(inputs, outputs, lanes),
    )


def _arguments(
    inputs: list[Input], numbers: list[str], outputs: list[Output]
) -> list[str]:
    given = [f"__global const {x.c} *restrict x{i}" for i, x in enumerate(inputs)]
    given += [f"{c} a{i}" for i, c in enumerate(numbers)]
    return given + [f"__global {y.c} *restrict y{o}" for o, y in enumerate(outputs)]


def _wide(inputs: list[Input], outputs: list[Output], lanes: int) -> dict[str, Any]:
    """Return C code that loads, unpacks, packs and stores vectors."""
    moves = [(i, x.c) for i, x in enumerate(inputs) if x.advances != "0"]
    ys = [*enumerate(outputs)]
    loads = [WIDE_LOAD.format(i=i, c=c, lanes=lanes) for i, c in moves]
    stores = [f"*(__global {y.c}{lanes} *)to{o} = t{o};" for o, y in ys]
    return {
        "wide_loads": " ".join([*loads, *[f"{y.c}{lanes} t{o};" for o, y in ys]]),
        "wide_parts": _joined(WIDE_PART, [i for i, _ in moves]),
        "wide_results": " ".join([f"t{o}.slot = {y.name};" for o, y in ys]),
        "wide_each": " ".join([f"ONE({slot})" for slot in SLOTS[:lanes]]),
        "wide_stores": " ".join(stores),
    }


def _joined(text: str, which: list[int]) -> str:
    return " ".join([text.format(i) for i in which])


def _sizes(inputs: list[Input], rank: int) -> list[str]:
    """Return the names of the sizes in C."""
    names = ["m"] * (rank > 0) + [f"d{k}" for k in range(1, rank)]
    broadcast_inputs = [i for i, x in enumerate(inputs) if x.advances != "="]
    return names + [f"s{i}_{k}" for i in broadcast_inputs for k in range(rank)]


def _offsets(inputs: list[Input], outputs: list[Output], rank: int) -> str:
    """Return C code that points ``p0``, ``p1``, ... at the inputs' parts of a row."""
    lines = ["Offset rest = row;", *divided(rank, "Offset")] if rank else []
    for i, (c, advances) in enumerate(inputs):
        steps = [f"at{k} * (Offset)s{i}_{k}" for k in range(rank)]
        terms = steps if advances != "=" else ["i"]
        terms += ["column"] if advances == "1" else []
        offset = " + ".join(terms) or "0"
        lines.append(f"__global const {c} *restrict p{i} = x{i} + ({offset});")
    for o, y in enumerate(outputs):
        lines.append(f"__global {y.c} *restrict to{o} = y{o} + i;")
    return " ".join(lines)


# --- shapes ----------------------------------------------------------------------


@functools.lru_cache(4096)
def layout(*shapes: Shape) -> tuple[Shape, str, int, tuple[int, ...]]:
    """Return how ``shapes`` broadcast: shape, pattern, rank and sizes.

    Axes that can be merged in all inputs are merged. The last axis is the row: in a
    row, an input advances by one element ("1" in the pattern) or not at all ("0").
    ``rank`` is the number of axes before the row. The sizes consist of the size of the
    row, the sizes of the other axes except the first, and then the strides of each
    input along these axes.
    """
    shape = broadcast("opencl", *shapes)
    strides = [broadcast_strides(own, len(shape)) for own in shapes]
    *outer, (m, *last) = collapse_axes(shape, *strides)
    pattern = "".join("1" if s else "0" for s in last)
    rank = len(outer)
    sizes = [m] * (rank > 0) + [axis[0] for axis in outer[1:]]
    sizes += [axis[1 + i] for i in range(len(shapes)) for axis in outer]
    return shape, pattern, rank, tuple(sizes)
