"""From a C function to a kernel: select it by dtype, broadcast, allocate the result.

C exports ``<name>_<type>`` for the most important types. Other dtypes are computed in a
wider type that can represent all of their values (int8 in int32, float16 in float32),
and cast back: the result wraps or rounds as if it had been computed in the dtype
itself. The cpu backend handles strings.

Contents: ``Exports`` (by dtype); ``unary``, ``binary``; descriptors:
``broadcast_operands`` and ``rows``; moving elements: ``take``, ``spread``, ``put``;
``cast``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from plugrad.geometry import broadcast, broadcast_strides, collapse_axes

from .arrays import (
    BFLOAT16,
    DType,
    Shape,
    WasmArray,
    check_axes,
    describe,
    empty,
)
from .instance import exported
from .runtime import Machine

Kernel = Callable[..., Any]

BOOL, INT32, INT64, FLOAT32, FLOAT64 = map(
    np.dtype, ("bool", "int32", "int64", "float32", "float64")
)
# The C names of the dtypes, in the order of their numbers in cast.c.
TYPES: dict[DType, str] = {
    np.dtype(dtype): name
    for dtype, name in {
        "bool": "b8",
        "int8": "i8",
        "int16": "i16",
        "int32": "i32",
        "int64": "i64",
        "uint8": "u8",
        "uint16": "u16",
        "uint32": "u32",
        "uint64": "u64",
        "float16": "f16",
        "float32": "f32",
        "float64": "f64",
        "complex64": "c64",
        "complex128": "c128",
    }.items()
}
NUMBERS = {dtype: i for i, dtype in enumerate(TYPES)}
WIDER = {np.dtype(t): INT32 for t in ("bool", "int8", "int16", "uint8", "uint16")}
WIDER[np.dtype("float16")] = FLOAT32
SIGNED = {np.dtype("uint32"): "i32", np.dtype("uint64"): "i64"}


class Exports(dict[DType, str | None]):
    """The exported names ``<name>_<type>`` by dtype; None if C exports none.

    With ``bits``, unsigned integers use the function for signed integers, which
    computes the same bits.
    """

    def __init__(self, name: str, bits: bool = False) -> None:
        self._name, self._bits = name, bits

    def __missing__(self, dtype: DType) -> str | None:
        name = f"{self._name}_{TYPES.get(dtype, '')}"
        if self._bits and name not in exported():
            name = f"{self._name}_{SIGNED.get(dtype, '')}"
        self[dtype] = found = name if name in exported() else None
        return found


def unary(name: str, *, to: DType | None = None, bits: bool = False) -> Kernel:
    """Return the kernel ``y = name(x)``; ``to`` is the dtype of y if not that of x."""
    exports = Exports(name, bits)

    def kernel(x: WasmArray, *numbers: float) -> WasmArray:
        export, machine = exports[x.dtype], x.machine
        if export is None:
            return wider(kernel, to, (x,), numbers)
        y = empty(machine, x.shape, to or x.dtype)
        machine.callers[export](x.pointer, y.pointer, y.size, *numbers)
        return y

    return kernel


def binary(name: str, *, to: DType | None = None, bits: bool = False) -> Kernel:
    """Return the kernel ``y = name(a, b)``, which broadcasts."""
    exports = Exports(name, bits)

    def kernel(a: WasmArray, b: WasmArray) -> WasmArray:
        dtype, machine = a.dtype, a.machine
        export = exports[dtype]
        if export is None or b.dtype is not dtype:
            return wider(kernel, to, (a, b))
        shape, rows = a.shape, None
        if shape != b.shape:
            shape, rows = machine.cached[broadcast_operands](shape, b.shape)
        y = empty(machine, shape, to or dtype)
        at = rows.pointer if rows else 0
        machine.callers[export](a.pointer, b.pointer, y.pointer, y.size, at)
        return y

    return kernel


def wider(
    kernel: Kernel, to: DType | None, xs: Sequence[Any], numbers: Sequence[float] = ()
) -> Any:
    """Run a kernel in a wider dtype, or in the common dtype of several inputs."""
    own = xs[0].dtype
    if any([x.dtype.hasobject for x in xs]):
        return NotImplemented
    if any([x.dtype is not own for x in xs]):
        own = np.result_type(*[x.dtype for x in xs])
        return kernel(*[cast(x, dtype=own) for x in xs], *numbers)
    if own not in WIDER:
        return NotImplemented
    y = kernel(*[cast(x, dtype=WIDER[own]) for x in xs], *numbers)
    return y if y is NotImplemented or to is not None else cast(y, dtype=own)


# --- descriptors -----------------------------------------------------------------


def broadcast_operands(machine: Machine, *shapes: Shape) -> tuple[Shape, WasmArray]:
    """Return the broadcast shape, and the descriptor for ``broadcast`` in C."""
    shape = broadcast("elementwise", *shapes)
    strides = [broadcast_strides(own, len(shape)) for own in shapes]
    return shape, describe(machine, rows(shape, *strides))


def rows(shape: Sequence[int], *strides: Sequence[int]) -> tuple[int, ...]:
    """Return rank, sizes and strides of a loop, with as few axes as possible."""
    check_axes(shape)
    axes = collapse_axes(shape, *strides)
    return (
        len(axes),
        *[number for column in zip(*axes, strict=True) for number in column],
    )


# --- moving elements -------------------------------------------------------------

_TAKE = {size: f"take_{size}" for size in (1, 2, 4, 8, 16)}
_PUT = {size: f"put_{size}" for size in (1, 2, 4, 8, 16)}
_TURN = {size: f"turn_{size}" for size in (1, 2, 4, 8)}


def take(
    x: WasmArray, shape: Shape, strides: Sequence[int], first: int = 0
) -> WasmArray:
    """Return elements of ``x`` by strides, from index ``first`` on."""
    y = empty(x.machine, shape, x.dtype)
    call = x.machine.callers
    size = x.dtype.itemsize
    if y.size:
        plan, how = x.machine.cached[_plan](shape, tuple(strides))
        start = x.pointer + first * size
        if plan[0] == 2 and plan[4] == 1:
            _, n, m, step, _ = plan
            call["copy_rows"](start, y.pointer, n, m * size, step * size, m * size)
        elif plan[-2] == 1 and 2 <= plan[0] <= 3 and size in _TURN:
            (outer, n, m), (far, _, step) = _as_three_axes(plan)
            call[_TURN[size]](start, y.pointer, outer, n, m, far, step)
        else:
            call[_TAKE[size]](start, y.pointer, y.size, how.pointer)
    return y


def spread(x: WasmArray, shape: Shape) -> WasmArray:
    """Return ``x`` broadcast to a shape."""
    y = empty(x.machine, shape, x.dtype)
    call = x.machine.callers
    if y.size:
        _, how = x.machine.cached[broadcast_operands](x.shape, shape)
        call[_TAKE[x.dtype.itemsize]](x.pointer, y.pointer, y.size, how.pointer)
    return y


def put(x: WasmArray, y: WasmArray, strides: Sequence[int], first: int = 0) -> None:
    """Write all elements of ``x`` into the new array ``y`` by strides."""
    size, call = x.dtype.itemsize, x.machine.callers
    if x.size:
        plan, how = x.machine.cached[_plan](x.shape, tuple(strides))
        start = y.pointer + first * size
        if plan[0] == 2 and plan[4] == 1:
            _, n, m, step, _ = plan
            call["copy_rows"](x.pointer, start, n, m * size, m * size, step * size)
        else:
            call[_PUT[size]](x.pointer, start, x.size, how.pointer)


def _plan(
    machine: Machine, shape: Shape, strides: tuple[int, ...]
) -> tuple[Shape, WasmArray]:
    """Return the result of ``rows`` as integers and as a descriptor for C."""
    plan = rows(shape, strides)
    return plan, describe(machine, plan)


def _as_three_axes(plan: Shape) -> tuple[Shape, Shape]:
    """Return sizes and strides of two or three axes, extended to three."""
    if plan[0] == 2:
        return (1, *plan[1:3]), (0, *plan[3:5])
    return plan[1:4], plan[4:7]


# --- dtypes ----------------------------------------------------------------------

_FAST = {
    (np.dtype(x), np.dtype(y)): f"cast_{name}"
    for x, y, name in (
        ("int32", "float32", "i32_f32"),
        ("bool", "float32", "u8_f32"),
        ("uint8", "float32", "u8_f32"),
        ("bool", "int32", "u8_i32"),
        ("uint8", "int32", "u8_i32"),
        ("float32", "float64", "f32_f64"),
        ("float64", "float32", "f64_f32"),
        ("int32", "uint8", "i32_u8"),
        ("int32", "bool", "i32_b8"),
        ("float32", "bool", "f32_b8"),
    )
}
_FAST |= {(BFLOAT16, FLOAT32): "cast_bf16_f32", (FLOAT32, BFLOAT16): "cast_f32_bf16"}


def cast(x: WasmArray, *, dtype: DType) -> WasmArray:
    """Return ``x`` in another dtype; integers wrap.

    bfloat16 is converted from and to float32.
    """
    old = x.dtype
    if old is dtype:
        return x
    if old.hasobject or dtype.hasobject:
        return NotImplemented
    y = empty(x.machine, x.shape, dtype)
    call = x.machine.callers
    fast = _FAST.get((old, dtype))
    if fast is not None:
        call[fast](x.pointer, y.pointer, y.size)
    elif BFLOAT16 in (old, dtype):
        return cast(cast(x, dtype=FLOAT32), dtype=dtype)
    else:
        call["cast"](x.pointer, y.pointer, y.size, NUMBERS[old], NUMBERS[dtype])
    return y
