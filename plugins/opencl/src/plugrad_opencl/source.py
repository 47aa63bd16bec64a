"""OpenCL C from templates: ``cl/*.cl``, with types and names filled in.

Map: what dtypes are in C; ``template`` and ``prelude``.
"""

from __future__ import annotations

import functools
import string
from importlib import resources

import numpy as np

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
# Elements that are only moved, by their bytes.
RAW = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong", 16: "uint4"}
SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}

BLOCK = 1 << 14  # elements that an item on a CPU does
GROUP = {"cpu": 1, "gpu": 256}  # items in a work group


@functools.cache
def text(name: str) -> str:
    """Return a file of ``cl/``."""
    return resources.files(__package__).joinpath("cl", f"{name}.cl").read_text()


def template(file: str, /, **values: object) -> str:
    """Return ``cl/<file>.cl`` with ``$names`` replaced."""
    return string.Template(text(file)).substitute(values)


def prelude(style: str, width: int = 1) -> str:
    """Return what every program starts with; ``width`` is of the vectors on a CPU."""
    cpu = style == "cpu"
    return (
        f"#define CPU {int(cpu)}\n"
        f"#define WIDTH {width if cpu else 1}\n"
        f"#define BLOCK {BLOCK}\n"
        f"#define GROUP {GROUP[style]}\n" + text("prelude")
    )
