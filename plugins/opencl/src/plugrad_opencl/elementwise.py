"""Kernels that do the same to each element, from an expression in OpenCL C.

``elementwise("Maximum", "a b", f="a > b ? a : b")`` is a kernel: its inputs, and for
each kind of dtype (NumPy's letters ``b i u f c``) what becomes of them. ``T`` is the
type of the first input that is not bool, ``I`` the signed integers of its size, ``Y``
the output's, ``X0``, ``X1``... those of the inputs. On a CPU they are vectors of
``S``, where comparing gives masks: ``TRUTH(a < b)`` makes bool of one, ``WHERE(mask, a,
b)`` chooses. ``cl/math.cl`` has more functions.

Map: ``elementwise``, the kernels; ``Programs``, their sources; ``walk``, which takes an
expression through arrays; how shapes broadcast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from plugrad.geometry import broadcast, broadcast_strides, collapse_axes

from . import source
from .arrays import ClArray, DType, Shape
from .moves import divided
from .runtime import Device, Launch

Function = Callable[..., Any]
BOOL = np.dtype(bool)


def elementwise(
    name: str,
    inputs: str,
    *,
    out: str = "",
    attrs: str = "",
    alone: str = "",
    **bodies: str,
) -> Function:
    """Return a kernel on native arrays.

    Args:
        name: Of the kernel.
        inputs: Names; they are variables in the bodies.
        out: The dtype of the result, if not that of the working input ("bool").
        attrs: Names of attributes: numbers of the working dtype, ``alpha_`` in bodies.
        alone: Kinds whose bodies have loops or branches, and work on one element at a
            time; complex numbers always do.
        bodies: Kinds of dtypes, ``iu``, to an expression, or to statements with
            ``return``. What no body is for is NotImplemented.

    """
    table = {kind: body for kinds, body in bodies.items() for kind in kinds}
    make = Programs(name, inputs.split(), out, attrs.split(), alone + "c", table)
    return _kernel(make, len(inputs.split()))


def _kernel(programs: Programs, count: int) -> Function:
    """Return the kernel of ``count`` inputs; those of one shape have the short way."""
    flat: dict[Any, Any] = {}
    ones = "1" * count

    def kernel(*xs: ClArray, **attrs: Any) -> Any:
        x = xs[0]
        shape = x.shape
        for other in xs:
            if other.shape != shape:
                return _broadcast(programs, xs, attrs)
        key = x.device, x.dtype if count == 1 else tuple([x.dtype for x in xs])
        found = flat.get(key)
        if found is None:
            found = programs.get(x.device, _dtypes(xs), ones, 0)
            if found is NotImplemented:
                return NotImplemented
            flat[key] = found
        launch, dtype = found
        n = x.size
        y = ClArray(x.device, shape, dtype, n)
        if n:
            numbers = programs.numbers(_dtypes(xs), attrs) if attrs else ()
            buffers = [x.buffer for x in xs]
            launch(n, launch.items(n), *buffers, *numbers, y.buffer, n)
        return y

    kernel.__qualname__ = kernel.__name__ = programs.name
    vars(kernel)["programs"] = programs
    return kernel


def _broadcast(
    programs: Programs, xs: tuple[ClArray, ...], attrs: dict[str, Any]
) -> Any:
    shape, pattern, rank, sizes = layout(*[x.shape for x in xs])
    device = xs[0].device
    found = programs.get(device, _dtypes(xs), pattern, rank)
    if found is NotImplemented:
        return NotImplemented
    launch, dtype = found
    n = prod(shape)
    y = ClArray(device, shape, dtype, n)
    if n:
        numbers = programs.numbers(_dtypes(xs), attrs) if attrs else ()
        buffers = [x.buffer for x in xs]
        launch(n, launch.items(n), *buffers, *numbers, y.buffer, n, *sizes)
    return y


def _dtypes(xs: tuple[ClArray, ...]) -> tuple[DType, ...]:
    return tuple([x.dtype for x in xs])


class Ready(NamedTuple):
    """A compiled kernel and the dtype of its result."""

    launch: Launch
    dtype: DType


class Programs:
    """The programs of one kernel, by dtypes and layout."""

    def __init__(
        self,
        name: str,
        inputs: list[str],
        out: str,
        attrs: list[str],
        alone: str,
        bodies: dict[str, str],
    ) -> None:
        self.name, self.inputs, self.out, self.attrs = name, inputs, out, attrs
        self.alone, self.bodies = alone, bodies
        self._ready: dict[Any, Ready] = {}

    def get(
        self, device: Device, dtypes: tuple[DType, ...], pattern: str, rank: int
    ) -> Any:
        """Return a ``Ready``, or NotImplemented for dtypes without a body."""
        key = (device, dtypes, pattern, rank)
        found = self._ready.get(key)
        if found is None:
            out = self.result(dtypes)
            if out is None:
                return NotImplemented
            launch = self._launch(device, dtypes, out, pattern, rank)
            found = self._ready[key] = Ready(launch, out)
        return found

    def numbers(self, dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> list[Any]:
        """Return attributes as numbers of the working dtype, or of its real part."""
        number = _real(_work(dtypes)).type
        return [number(attrs[name]).item() for name in self.attrs]

    def result(self, dtypes: tuple[DType, ...]) -> DType | None:
        """Return the dtype of the result; None for dtypes without a body."""
        work = _work(dtypes)
        if work.kind not in self.bodies or any(d not in source.C for d in dtypes):
            return None
        return np.dtype(self.out) if self.out else work

    def is_vector(self, dtypes: tuple[DType, ...]) -> bool:
        """Tell whether the body is one of vectors: without loops and branches."""
        out = self.result(dtypes)
        return out is not None and not {_work(dtypes).kind, out.kind} & {*self.alone}

    def parts(self, dtypes: tuple[DType, ...]) -> Parts:
        """Return the function of elements in C; its result is not None."""
        work = _work(dtypes)
        body, number = self.bodies[work.kind], source.C[_real(work)]
        code = body if "return" in body else f"return {body};"
        own = [f"X{i} {n}" for i, n in enumerate(self.inputs)]
        parameters = ", ".join(own + [f"{number} {n}_" for n in self.attrs])
        return Parts(work, number, parameters, code)

    def _launch(
        self,
        device: Device,
        dtypes: tuple[DType, ...],
        out: DType,
        pattern: str,
        rank: int,
    ) -> Launch:
        cs, values = [source.C[d] for d in dtypes], range(len(self.attrs))
        work, number, parameters, code = self.parts(dtypes)
        given = [f"v{i}" for i in range(len(cs))] + [f"a{i}" for i in values]
        definitions = [
            *_types(cs, work, out),
            source.functions(code, work),
            f"static inline Y op({parameters}) {{ {code} }}",
        ]
        return walk(
            device,
            self.name,
            width(*dtypes, out) if self.is_vector(dtypes) else 1,
            definitions,
            [Input(c, p) for c, p in zip(cs, pattern, strict=True)],
            [number] * len(self.attrs),
            f"const Y r0 = op({', '.join(given)});",
            [Output("Y", source.C[out], "r0")],
            rank,
        )


class Parts(NamedTuple):
    """The function of elements: the type of the work, of attributes, its C."""

    work: DType
    number: str
    parameters: str
    code: str


def _types(cs: list[str], work: DType, out: DType) -> list[str]:
    """Return the types that bodies know, in C."""
    types = {f"X{i}": c for i, c in enumerate(cs)}
    types |= {"T": source.C[work], "Y": source.C[out], "I": signed(work)}
    lines = [f"VECTOR({n}, {t});" for n, t in types.items()]
    return [*lines, f"typedef {types['T']} S; typedef {types['Y']} SY;"]


def signed(work: DType) -> str:
    """Return the signed integers of the size of the work, in C."""
    return source.SIGNED[min(work.itemsize, 8)]


def width(*dtypes: DType) -> int:
    """Return the elements of a vector on a CPU."""
    return 8 if max(d.itemsize for d in dtypes) < 8 else 4


def _work(dtypes: tuple[DType, ...]) -> DType:
    """Return the dtype that decides: the first that is not bool."""
    return next((d for d in dtypes if d.kind != "b"), dtypes[0])


def _real(dtype: DType) -> DType:
    """Return the dtype of the parts of complex numbers, or that of others."""
    return np.dtype(np.float32) if dtype.kind == "c" else dtype


# --- walking over arrays ---------------------------------------------------------


class Input(NamedTuple):
    """An input: its type in C, and how it advances in a row.

    That is "1", by one; "0", not at all; or "=": it has an element for each result.
    """

    c: str
    advances: str


class Output(NamedTuple):
    """An output: its types in C, as a vector and of an element; the variable."""

    vector: str
    c: str
    name: str


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
) -> Launch:
    """Return a kernel that does ``work`` for each element of its outputs.

    It takes the inputs, numbers of these types in C, the outputs, how many elements
    there are, and the sizes of ``layout`` for the inputs that are not "=".
    """
    given = [f"__global const {x.c} *restrict x{i}" for i, x in enumerate(inputs)]
    given += [f"{c} a{i}" for i, c in enumerate(numbers)]
    given += [f"__global {y.c} *restrict y{o}" for o, y in enumerate(outputs)]
    moves = [i for i, x in enumerate(inputs) if x.advances != "0"]
    stays = [i for i, x in enumerate(inputs) if x.advances == "0"]
    load = "const X{0} v{0} = *(__global const X{0} *)(p{0} + j);"
    tail = "X{0} v{0}; for (int k = 0; k < WIDTH; k++) v{0}[k] = "
    tail += "p{0}[min(j + k, count - 1)];"
    splat = "const X{0} v{0} = p{0}[0];"
    named = [*enumerate(outputs)]
    return source.kernel(
        device,
        "elementwise",
        name,
        width=width,
        name=name,
        definitions="\n".join(definitions),
        arguments=", ".join(given),
        sizes="".join([f", long {size}" for size in _sizes(inputs, rank)]),
        m="m" if rank else "n",
        offsets=_offsets(inputs, outputs, rank),
        splats=_joined(splat, stays),
        loads=_joined(load, moves),
        tails=_joined(tail, moves),
        work=work,
        stores=" ".join(
            [f"*(__global {y.vector} *)(to{o} + j) = {y.name};" for o, y in named]
        ),
        rests=" ".join([f"to{o}[j + k] = {y.name}[k];" for o, y in named]),
    )


def _joined(text: str, which: list[int]) -> str:
    return " ".join([text.format(i) for i in which])


def _sizes(inputs: list[Input], rank: int) -> list[str]:
    """Return the names of the sizes in C."""
    names = ["m"] * (rank > 0) + [f"d{k}" for k in range(1, rank)]
    own = [i for i, x in enumerate(inputs) if x.advances != "="]
    return names + [f"s{i}_{k}" for i in own for k in range(rank)]


def _offsets(inputs: list[Input], outputs: list[Output], rank: int) -> str:
    """Return C that points ``p0``, ``p1``... at the inputs' parts of this row."""
    lines = ["long rest = row;", *divided(rank)] if rank else []
    for i, (c, advances) in enumerate(inputs):
        terms = [f"at{k} * s{i}_{k}" for k in range(rank)] if advances != "=" else ["i"]
        terms += ["column"] if advances == "1" else []
        at = " + ".join([f"x{i}", *terms])
        lines.append(f"__global const {c} *restrict p{i} = {at};")
    for o, y in enumerate(outputs):
        lines.append(f"__global {y.c} *restrict to{o} = y{o} + i;")
    return " ".join(lines)


# --- shapes ----------------------------------------------------------------------


@functools.lru_cache(4096)
def layout(*shapes: Shape) -> tuple[Shape, str, int, tuple[int, ...]]:
    """Return how ``shapes`` broadcast: shape, pattern, rank and sizes.

    Axes that lie side by side in all of them are one. The last axis is a row, in which
    an input advances by one ("1" in the pattern) or stays ("0"); before it there are
    ``rank`` others. The sizes: of a row, of axes 1 and on of those before, and then for
    each input by how much each of these advances it.
    """
    shape = broadcast("opencl", *shapes)
    strides = [broadcast_strides(own, len(shape)) for own in shapes]
    *outer, (m, *last) = collapse_axes(shape, *strides)
    pattern, rank = "".join("1" if s else "0" for s in last), len(outer)
    sizes = [m] * (rank > 0) + [axis[0] for axis in outer[1:]]
    sizes += [axis[1 + i] for i in range(len(shapes)) for axis in outer]
    return shape, pattern, rank, tuple(sizes)
