"""Builds OpenCL C from the templates ``cl/*.cl``, by filling in types and names.

Contents: the C types of dtypes; ``kernel``, which builds a kernel from a file; its
parts.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from plugrad.plugin import erf_polynomials, erfc_polynomial

if TYPE_CHECKING:
    from .runtime import Device, Launch

C = {
    np.dtype("bool"): "uchar",
    np.dtype("int8"): "char",
    np.dtype("int16"): "short",
    np.dtype("int32"): "int",
    np.dtype("int64"): "long",
    np.dtype("uint8"): "uchar",
    np.dtype("uint16"): "ushort",
    np.dtype("uint32"): "uint",
    np.dtype("uint64"): "ulong",
    np.dtype("float32"): "float",
    np.dtype("float64"): "double",
    np.dtype("complex64"): "float2",
}
DTYPES = {c: dtype for dtype, c in C.items()}  # uchar maps to uint8
# The types of elements that are only moved, and of signed integers, by size in bytes.
RAW = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong", 16: "uint4"}
SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}

BLOCK_ELEMENTS = 1 << 14  # elements per work item on a CPU
GROUP_ITEMS = {"cpu": 1, "gpu": 256}  # items in a work group


def kernel(
    device: Device,
    file: str,
    name: str = "",
    group: int = 0,
    /,
    *,
    width: int = 1,
    **values: Any,
) -> Launch:
    """Return a kernel from the template ``cl/<file>.cl``.

    Args:
        device: The device to run on.
        file: The name of the template.
        name: The name of the kernel function; by default the name of the file.
        group: Items in a work group, if not the ``GROUP_ITEMS`` of the style.
        width: The vector width on a CPU.
        values: Upper-case names are defined as integers (``#define``); others replace
            ``$names`` in the template.

    """
    defined = [f"#define {n} {int(v)}\n" for n, v in values.items() if n.isupper()]
    group = group or GROUP_ITEMS[device.style]
    start = "".join(defined) + prelude(device.style, width, group)
    code = start + template(file, **values)
    name = name or file
    return device.kernel(code, name, arguments(code, name), group=group)


def arguments(code: str, name: str) -> list[Any]:
    """Return the type of each argument: None for a buffer, else a NumPy type."""
    (listed,) = set(re.findall(rf"\bvoid {name}\(([^)]*)\)", code))
    types = {new: old for old, new in re.findall(r"\btypedef (\w+) (\w+);", code)}
    words = [parameter.split() for parameter in listed.split(",")]
    return [
        None if "__global" in word else DTYPES[types.get(word[0], word[0])].type
        for word in words
    ]


def functions(code: str, dtype: np.dtype[Any]) -> str:
    """Return the library for code that calls functions named ``f_...`` or ``c_...``."""
    if re.search(r"\bc_", code) and dtype.kind == "c":
        return text("complex")
    if not re.search(r"\bf_", code):
        return ""
    return mathematics(dtype)


@functools.cache
def mathematics(dtype: np.dtype[Any]) -> str:
    """Return ``cl/math.cl`` for a float dtype, with the polynomials of erf and erfc."""
    double = dtype.itemsize == 8
    near, far, end = erf_polynomials(dtype)
    tail, middle, offset, last = erfc_polynomial(dtype)

    def literal(number: float) -> str:
        return repr(number) if double else f"{number!r}f"

    def horner(coefficients: Sequence[float]) -> str:
        first, *rest = map(literal, coefficients)
        return functools.reduce(lambda y, c: f"MULTIPLY_ADD({y}, x, {c})", rest, first)

    return (
        f"#define DOUBLE {int(double)}\n"
        f"#define ERF_NEAR(x) {horner(near)}\n"
        f"#define ERF_FAR(x) {horner(far)}\n"
        f"#define ERF_END {literal(end)}\n"
        f"#define ERFC_TAIL(x) {horner(tail)}\n"
        f"#define ERFC_MIDDLE {literal(middle)}\n"
        f"#define ERFC_OFFSET {literal(offset)}\n"
        f"#define ERFC_END {literal(last)}\n" + text("math")
    )


def width(dtype: np.dtype[Any]) -> int:
    """Return the vector width on a CPU, in elements."""
    return 1 if dtype.kind == "c" else 4 if dtype.itemsize == 8 else 8


def share(device: Device, row: int) -> int:
    """Return how many rows of ``row`` elements an item computes, a power of two."""
    if device.style == "gpu":
        return 1
    return 1 << max(BLOCK_ELEMENTS // row, 1).bit_length() - 1


@functools.cache
def text(name: str) -> str:
    """Return the text of a file in ``cl/``."""
    return resources.files(__package__).joinpath("cl", f"{name}.cl").read_text()


def template(file: str, /, **values: object) -> str:
    """Return ``cl/<file>.cl`` with ``$names`` replaced."""
    return string.Template(text(file)).substitute(values)


def prelude(style: str, width: int = 1, group: int = 0) -> str:
    """Return the beginning of every program.

    ``width`` is the vector width on a CPU, ``group`` the number of items in a work
    group.
    """
    cpu = style == "cpu"
    return (
        f"#define CPU {int(cpu)}\n"
        f"#define WIDTH {width if cpu else 1}\n"
        f"#define BLOCK {BLOCK_ELEMENTS}\n"
        f"#define GROUP {group or GROUP_ITEMS[style]}\n" + text("prelude")
    )
