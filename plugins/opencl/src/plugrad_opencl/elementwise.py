"""Kernels that do the same to each element, from an expression in OpenCL C.

``elementwise("Maximum", "a b", f="a > b ? a : b")`` is a kernel: its inputs, and for
each kind of dtype (NumPy's letters ``b i u f c``) what becomes of them. ``T`` is the
type of the first input that is not bool, ``I`` the signed integers of its size, ``Y``
the output's, ``X0``, ``X1``... those of the inputs. On a CPU they are vectors of
``S``, where comparing gives masks: ``TRUTH(a < b)`` makes bool of one, ``WHERE(mask, a,
b)`` chooses. ``cl/math.cl`` has more functions.

Map: ``elementwise``, the kernels; ``_Programs``, their sources; how shapes broadcast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
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
    make = _Programs(name, inputs.split(), out, attrs.split(), alone + "c", table)
    return _kernel(make, len(inputs.split()))


def _kernel(programs: _Programs, count: int) -> Function:
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
            found = programs.get(x.device, tuple([x.dtype for x in xs]), ones, 0)
            if found is NotImplemented:
                return NotImplemented
            flat[key] = found
        launch, dtype = found
        n = x.size
        y = ClArray(x.device, shape, dtype, n)
        if n:
            numbers = programs.numbers(xs, attrs) if attrs else ()
            buffers = [x.buffer for x in xs]
            launch(n, launch.items(n), *buffers, *numbers, y.buffer, n)
        return y

    kernel.__qualname__ = kernel.__name__ = programs.name
    return kernel


def _broadcast(
    programs: _Programs, xs: tuple[ClArray, ...], attrs: dict[str, Any]
) -> Any:
    shape, pattern, rank, sizes = layout(*[x.shape for x in xs])
    device = xs[0].device
    found = programs.get(device, tuple([x.dtype for x in xs]), pattern, rank)
    if found is NotImplemented:
        return NotImplemented
    launch, dtype = found
    n = prod(shape)
    y = ClArray(device, shape, dtype, n)
    if n:
        numbers = programs.numbers(xs, attrs) if attrs else ()
        buffers = [x.buffer for x in xs]
        launch(n, launch.items(n), *buffers, *numbers, y.buffer, n, *sizes)
    return y


class Ready(NamedTuple):
    """A compiled kernel and the dtype of its result."""

    launch: Launch
    dtype: DType


class _Programs:
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
            work = _work(dtypes)
            if work.kind not in self.bodies or any(d not in source.C for d in dtypes):
                return NotImplemented
            out = np.dtype(self.out) if self.out else work
            launch = self._launch(device, dtypes, out, pattern, rank)
            found = self._ready[key] = Ready(launch, out)
        return found

    def numbers(self, xs: tuple[ClArray, ...], attrs: dict[str, Any]) -> list[Any]:
        """Return attributes as numbers of the working dtype, or of its real part."""
        number = _real(_work(tuple([x.dtype for x in xs]))).type
        return [number(attrs[name]).item() for name in self.attrs]

    def _launch(
        self,
        device: Device,
        dtypes: tuple[DType, ...],
        out: DType,
        pattern: str,
        rank: int,
    ) -> Launch:
        work, cs = _work(dtypes), [source.C[d] for d in dtypes]
        body, number = self.bodies[work.kind], source.C[_real(work)]
        code = body if "return" in body else f"return {body};"
        alone = work.kind in self.alone or out.kind == "c"
        widest = max(d.itemsize for d in (*dtypes, out))
        own = [f"X{i} {n}" for i, n in enumerate(self.inputs)]
        given = [f"__global const {c} *restrict x{i}" for i, c in enumerate(cs)]
        values = [f"a{i}" for i in range(len(self.attrs))]
        return source.kernel(
            device,
            "elementwise",
            self.name,
            width=1 if alone else 8 if widest < 8 else 4,
            name=self.name,
            types=_types(cs, work, out),
            functions=source.functions(code, work),
            parameters=", ".join(own + [f"{number} {n}_" for n in self.attrs]),
            body=code,
            arguments=", ".join(given + [f"{number} {a}" for a in values]),
            operands=", ".join([f"v{i}" for i in range(len(cs))] + values),
            **_walk(cs, pattern, rank),
        )


def _types(cs: list[str], work: DType, out: DType) -> str:
    """Return the types that bodies know, in C."""
    types = {f"X{i}": c for i, c in enumerate(cs)}
    types |= {"T": source.C[work], "Y": source.C[out]}
    types["I"] = source.SIGNED[min(work.itemsize, 8)]
    lines = [f"VECTOR({n}, {t});" for n, t in types.items()]
    return "\n".join([*lines, f"typedef {types['T']} S; typedef {types['Y']} SY;"])


def _walk(cs: list[str], pattern: str, rank: int) -> dict[str, Any]:
    """Return C that takes the elements of inputs, where the result is in a row."""
    stays = [i for i, p in enumerate(pattern) if p == "0"]
    moves = [i for i, p in enumerate(pattern) if p == "1"]
    sizes = ["m"] * (rank > 0) + [f"d{k}" for k in range(1, rank)]
    sizes += [f"s{i}_{k}" for i in range(len(cs)) for k in range(rank)]
    loads = [f"const X{i} v{i} = *(__global const X{i} *)(p{i} + j);" for i in moves]
    tails = [
        f"X{i} v{i}; for (int k = 0; k < WIDTH; k++) "
        f"v{i}[k] = p{i}[min(j + k, count - 1)];"
        for i in moves
    ]
    return {
        "m": "m" if rank else "n",
        "sizes": "".join([f", long {size}" for size in sizes]),
        "offsets": _offsets(cs, moves, rank),
        "splats": " ".join([f"const X{i} v{i} = p{i}[0];" for i in stays]),
        "loads": " ".join(loads),
        "tails": " ".join(tails),
    }


def _offsets(cs: list[str], moves: list[int], rank: int) -> str:
    """Return C that points ``p0``, ``p1``... at the inputs' parts of this row."""
    lines = ["long rest = row;", *divided(rank)] if rank else []
    for i, c in enumerate(cs):
        terms = [f"x{i}", *[f"at{k} * s{i}_{k}" for k in range(rank)]]
        terms += ["column"] if i in moves else []
        lines.append(f"__global const {c} *restrict p{i} = {' + '.join(terms)};")
    return " ".join(lines)


def _work(dtypes: tuple[DType, ...]) -> DType:
    """Return the dtype that decides: the first that is not bool."""
    return next((d for d in dtypes if d.kind != "b"), dtypes[0])


def _real(dtype: DType) -> DType:
    """Return the dtype of the parts of complex numbers, or that of others."""
    return np.dtype(np.float32) if dtype.kind == "c" else dtype


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
