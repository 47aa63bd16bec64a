"""Element-wise kernels, built from expressions in OpenCL C.

``elementwise("Maximum", "a b", f="a > b ? a : b")`` returns a kernel with the inputs
``a`` and ``b`` and an expression for each kind of dtype (NumPy's letters ``b i u f
c``). These types can be used in an expression:

- ``T``: the working dtype: the dtype of the first input that is not bool.
- ``Y``: the dtype of the output; ``X0``, ``X1``, ...: the dtypes of the inputs.
- ``I``: the signed integer of the size of ``T``.
- ``S``: one element of ``T``. On a CPU, the types above are vectors.
- ``U``: the unsigned integer in which scalars wrap (``MODULAR(a) + MODULAR(b)``).

A comparison of vectors returns a mask: ``TRUTH(a < b)`` converts it to bool, and
``WHERE(mask, a, b)`` selects elements. ``cl/math.cl`` has more functions.

Contents: ``elementwise``, the kernels; ``Programs``, their programs by dtype and
layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from . import source
from .arrays import ClArray, ClOwner, DType
from .runtime import Device, Launch
from .walk import FLAT, Form, Input, Output, form, lanes, layout, walk

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
        name: The name of the kernel.
        inputs: The names of the inputs, which are variables in the bodies.
        out: The dtype of the result ("bool"), if it is not the working dtype.
        attrs: The names of attributes, which are numbers of the working dtype. In the
            bodies, ``alpha`` is called ``alpha_``.
        alone: The kinds whose bodies contain loops or branches, and therefore work on
            one element at a time; complex numbers always do.
        bodies: For kinds of dtypes, such as ``iu``: an expression, or statements with
            ``return``. For other kinds the kernel returns NotImplemented.

    """
    table = {kind: body for kinds, body in bodies.items() for kind in kinds}
    make = Programs(name, inputs.split(), out, attrs.split(), alone + "c", table)
    return _kernel(make, len(inputs.split()))


def _kernel(programs: Programs, count: int) -> Function:
    """Return the kernel for ``count`` inputs, with a shortcut for equal shapes."""
    cache: dict[Any, Any] = {}
    pattern = "1" * count

    def kernel(*xs: ClArray, **attrs: Any) -> Any:
        x = xs[0]
        shape = x.shape
        for other in xs:
            if other.shape != shape:
                return _broadcast(programs, xs, attrs)
        key = x.device, x.dtype if count == 1 else tuple([x.dtype for x in xs])
        found = cache.get(key)
        if found is None:
            found = programs.get(x.device, _dtypes(xs), pattern, 0)
            if found is NotImplemented:
                return NotImplemented
            cache[key] = found
        launch, dtype = found
        n = x.size
        y = ClOwner(x.device, shape, dtype, n)
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
    n = prod(shape)
    dtypes = _dtypes(xs)
    indexing = FLAT
    if rank and device.style == "gpu":
        indexing = form(n, pattern, rank, sizes, programs.lanes(dtypes))
    found = programs.get(device, dtypes, pattern, rank, indexing)
    if found is NotImplemented:
        return NotImplemented
    launch, dtype = found
    y = ClOwner(device, shape, dtype, n)
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
        self.name = name
        self.inputs = inputs
        self.out = out
        self.attrs = attrs
        self.alone, self.bodies = alone, bodies
        self._ready: dict[Any, Ready] = {}

    def get(
        self,
        device: Device,
        dtypes: tuple[DType, ...],
        pattern: str,
        rank: int,
        form: Form = FLAT,
    ) -> Any:
        """Return a ``Ready``, or NotImplemented for dtypes without a body."""
        key = (device, dtypes, pattern, rank, form)
        found = self._ready.get(key)
        if found is None:
            out = self.result(dtypes)
            if out is None:
                return NotImplemented
            launch = self._launch(device, dtypes, out, pattern, rank, form)
            found = self._ready[key] = Ready(launch, out)
        return found

    def numbers(self, dtypes: tuple[DType, ...], attrs: Mapping[str, Any]) -> list[Any]:
        """Return attributes as numbers of the working dtype, or of its real dtype."""
        number = _real(_work(dtypes)).type
        return [number(attrs[name]).item() for name in self.attrs]

    def result(self, dtypes: tuple[DType, ...]) -> DType | None:
        """Return the dtype of the result; None for dtypes without a body."""
        work = _work(dtypes)
        if work.kind not in self.bodies or any(d not in source.C for d in dtypes):
            return None
        return np.dtype(self.out) if self.out else work

    def lanes(self, dtypes: tuple[DType, ...]) -> int:
        """Return how many neighboring elements a work item of a GPU computes."""
        out = self.result(dtypes)
        return lanes(dtypes if out is None else (*dtypes, out))

    def is_vector(self, dtypes: tuple[DType, ...]) -> bool:
        """Return whether the body works on vectors, without loops and branches."""
        out = self.result(dtypes)
        return out is not None and not {_work(dtypes).kind, out.kind} & {*self.alone}

    def parts(self, dtypes: tuple[DType, ...]) -> Parts:
        """Return the parts of the C function; there must be a body for the dtypes."""
        work = _work(dtypes)
        body = self.bodies[work.kind]
        number = source.C[_real(work)]
        code = body if "return" in body else f"return {body};"
        declared = [f"X{i} {n}" for i, n in enumerate(self.inputs)]
        parameters = ", ".join(declared + [f"{number} {n}_" for n in self.attrs])
        return Parts(work, number, parameters, code)

    def _launch(
        self,
        device: Device,
        dtypes: tuple[DType, ...],
        out: DType,
        pattern: str,
        rank: int,
        form: Form,
    ) -> Launch:
        c_types = [source.C[d] for d in dtypes]
        values = range(len(self.attrs))
        work, number, parameters, code = self.parts(dtypes)
        operands = [f"v{i}" for i in range(len(c_types))] + [f"a{i}" for i in values]
        definitions = [
            *_types(c_types, work, out),
            source.functions(code, work),
            f"static inline Y op({parameters}) {{ {code} }}",
        ]
        return walk(
            device,
            self.name,
            width(*dtypes, out) if self.is_vector(dtypes) else 1,
            definitions,
            [Input(c, p) for c, p in zip(c_types, pattern, strict=True)],
            [number] * len(self.attrs),
            f"const Y r0 = op({', '.join(operands)});",
            [Output("Y", source.C[out], "r0")],
            rank,
            form,
            self.lanes(dtypes),
        )


class Parts(NamedTuple):
    """The C function for one element: working dtype, type of attributes, and code."""

    work: DType
    number: str
    parameters: str
    code: str


def _types(c_types: list[str], work: DType, out: DType) -> list[str]:
    """Return C code that defines the types for the bodies."""
    types = {f"X{i}": c for i, c in enumerate(c_types)}
    types |= {"T": source.C[work], "Y": source.C[out], "I": signed(work)}
    lines = [f"VECTOR({n}, {t});" for n, t in types.items()]
    lines.append(f"typedef {unsigned(work)} U;")
    return [*lines, f"typedef {types['T']} S; typedef {types['Y']} SY;"]


def signed(work: DType) -> str:
    """Return the C type of signed integers of the size of the working dtype."""
    return source.SIGNED[min(work.itemsize, 8)]


def unsigned(work: DType) -> str:
    """Return the C type of unsigned integers in which a scalar is computed."""
    return "ulong" if work.itemsize >= 8 else "uint"


def width(*dtypes: DType) -> int:
    """Return the vector width on a CPU, in elements."""
    return 8 if max(d.itemsize for d in dtypes) < 8 else 4


def _work(dtypes: tuple[DType, ...]) -> DType:
    """Return the working dtype: the first that is not bool."""
    return next((d for d in dtypes if d.kind != "b"), dtypes[0])


def _real(dtype: DType) -> DType:
    """Return the dtype of the real part of a number."""
    return np.dtype(np.float32) if dtype.kind == "c" else dtype
