"""Reductions: axes that lie side by side go together, as the middle of [a, n, m].

Long ones are cut into parts that are reduced at the same time, and then those.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from . import source
from .arrays import ClArray, DType, Shape, empty, filled
from .runtime import Device, Launch

STRIP_COLUMNS = {"cpu": 256, "gpu": 32}  # per item on a CPU, per group on a GPU
SPLIT_MIN_ELEMENTS = 1 << 14  # below, a reduction is not split into parts
SUM_MAX_VECTORS = 1 << 12  # in a single sum; longer ones would lose digits

# The identity of each reduction, and how two elements combine, by kind of dtype.
_MAX_IDENTITY = {"f": "-INFINITY", "i": "$least", "u": "0", "b": "0"}
_MIN_IDENTITY = {"f": "INFINITY", "i": "$most", "u": "$most", "b": "1"}
_MAX = {"f": "((a > b) | (a != a)) ? a : b", "iub": "a > b ? a : b"}
_MIN = {"f": "((a < b) | (a != a)) ? a : b", "iub": "a < b ? a : b"}
_ADD = {"fiuc": "a + b"}
_MULTIPLY = {"fiu": "a * b", "c": "c_product(a, b)"}
_RULES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "Sum": ({"fiuc": "0"}, _ADD),
    "Prod": ({"fiu": "1", "c": "(float2)(1, -0.0f)"}, _MULTIPLY),
    "Max": (_MAX_IDENTITY, _MAX),
    "Min": (_MIN_IDENTITY, _MIN),
    "Any": ({"b": "0"}, {"b": "a | b"}),
    "All": ({"b": "1"}, {"b": "a & b"}),
}


def _of(rules: dict[str, str], kind: str) -> str | None:
    return next((rule for kinds, rule in rules.items() if kind in kinds), None)


ARGUMENT = "__global const S *restrict x"
READS = "#define MANY_AT(i) (*(__global const T *)(x + (i)))\n#define ONE_AT(i) x[i]"


@functools.cache
def reducer(device: Device, name: str, dtype: DType, rows: bool, *reads: str) -> Any:
    """Return a kernel, or NotImplemented for a dtype without a rule.

    ``reads`` are its arguments, and C that defines the elements that it reads of them;
    without, it reads an array.
    """
    arguments, loads = reads or (ARGUMENT, READS)
    zeros, joins = _RULES[name]
    zero, join = _of(zeros, dtype.kind), _of(joins, dtype.kind)
    if zero is None or join is None or dtype not in source.C:
        return NotImplemented
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        least = f"({limits.min + 1} - 1)" if limits.min else "0"
        zero = zero.replace("$least", least).replace("$most", str(limits.max))
    return source.kernel(
        device,
        "reduce",
        width=source.width(dtype),
        ROWS=rows,
        STRIP=STRIP_COLUMNS[device.style],
        type=source.C[dtype],
        functions=f"{source.functions(join, dtype)}\n{loads}",
        arguments=arguments,
        zero=f"({zero})",
        join=join,
    )


def reduced(
    launch: Launch, of: str, dtype: DType, sizes: Shape, *given: Any
) -> ClArray:
    """Reduce ``[a, n, m]`` to ``[a, m]``; no dimension is 0."""
    device, (a, n, m) = launch.device, sizes
    parts = _parts(device, a, n, m)
    y = empty(device, (a, parts, m), dtype)
    items = (
        a
        * parts
        * -(-m // STRIP_COLUMNS[device.style])
        * source.GROUP_ITEMS[device.style]
    )
    launch(a * n * m, items, *given, y.buffer, a, n, m, parts)
    if parts == 1:
        return y.view((a, m))
    launch = reducer(device, of, dtype, m == 1)
    return reduced(launch, of, dtype, (a, parts, m), y.buffer)


def _parts(device: Device, a: int, n: int, m: int) -> int:
    """Return into how many parts to split ``n``, so that all units have work."""
    if a * n * m <= SPLIT_MIN_ELEMENTS or n < 4:
        return 1
    items = a * -(-m // STRIP_COLUMNS[device.style])
    if device.style == "cpu":
        long = SUM_MAX_VECTORS * (8 if m == 1 else 1)
        parts = 1 if items >= 4 * device.units else min(8 * device.units, n // 2)
        return max(parts, n // long)
    want: int = max(1, 8 * device.units // items)
    return min(want, max(1, n // source.GROUP_ITEMS["gpu"]), 1024)


def along(name: str, x: ClArray, axis: Shape, keepdims: bool) -> Any:
    """Return a reduction over ``axis``; the identity element if that is empty."""
    if any(not 0 <= i < len(x.shape) for i in axis):
        raise ValueError(f"opencl: {axis} are not all axes of shape {x.shape}")
    kept = [1 if i in axis else n for i, n in enumerate(x.shape)]
    shape = tuple([n for i, n in enumerate(kept) if keepdims or i not in axis])
    if reducer(x.device, name, x.dtype, True) is NotImplemented:
        return NotImplemented
    if not x.size:
        return filled(x.device, shape, name in ("Prod", "All"), x.dtype)
    sizes, stop = list(x.shape), len(x.shape)
    while stop:
        start = stop
        while start and (start - 1 in axis) == (stop - 1 in axis):
            start -= 1
        if stop - 1 in axis:
            parts = sizes[:start], sizes[start:stop], sizes[stop:]
            a, n, m = map(math.prod, parts)
            if n > 1:
                launch = reducer(x.device, name, x.dtype, m == 1)
                x = reduced(launch, name, x.dtype, (a, n, m), x.buffer)
            sizes[start:stop] = [1] * (stop - start)
        stop = start
    return x.view(shape)
