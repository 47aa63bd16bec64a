"""Writes WGSL: parameters, bindings, entry points, and library functions."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from .launching import Groups

GROUP_THREADS = 256  # threads of a workgroup: the maximum that every device allows
AXIS_GROUPS = 65535  # workgroups along an axis: the same
LOOP_TURNS = 32768  # llvmpipe ends the loops of a thread after 65,535 turns in all

STORAGE = {"f": "f32", "h": "f16", "i": "i32", "u": "u32", "b": "u32"}  # in buffers
VALUE = {"f": "f32", "h": "f32", "i": "i32", "u": "u32", "b": "bool"}  # in expressions
FORMATS = {"u32": "I", "i32": "i", "f32": "f"}
XYZW = "xyzw"

Number = int | float | np.int32 | np.uint32 | np.float32
Params = Mapping[str, Number]


class Buffer(NamedTuple):
    """A storage buffer as a kernel declares it."""

    type: str
    write: bool


@functools.cache
def library() -> dict[str, str]:
    """Return the functions of ``math.wgsl`` by name."""
    text = (resources.files(__package__) / "wgsl" / "math.wgsl").read_text("utf-8")
    parts = re.split(r"\n(?=fn )", text)[1:]
    return {re.findall(r"fn (\w+)", part)[0]: part.strip() for part in parts}


def completed(text: str) -> str:
    """Return WGSL with the library functions that it calls, directly or indirectly."""
    found: dict[str, str] = {}
    pending = [text]
    while pending:
        for name in sorted(set(re.findall(r"\b(\w+_)\(", pending.pop()))):
            if name in library() and name not in found:
                found[name] = library()[name]
                pending.append(found[name])
    whole = "\n".join([text, *found.values()])
    return "enable f16;\n" + whole if "f16" in whole else whole


def parameter_type(value: Number) -> str:
    """Return the WGSL type of a parameter."""
    if isinstance(value, float | np.floating):
        return "f32"
    return "i32" if isinstance(value, np.int32) else "u32"


def packed(params: Params) -> bytes:
    """Return the contents of the uniform buffer.

    Raises:
        ValueError: A number is negative, or does not fit into 32 bits.

    """
    formats = "".join([FORMATS[parameter_type(value)] for value in params.values()])
    numbers = [
        value.item() if isinstance(value, np.generic) else value
        for value in params.values()
    ]
    try:
        return struct.pack("<" + formats, *numbers)
    except struct.error:
        message = "webgpu: a size of a kernel does not fit into 32 bits: "
        raise ValueError(f"{message}{dict(params)}") from None


def kernel(
    params: Params,
    buffers: Mapping[str, Buffer],
    body: str,
    head: str,
    more: str = "",
) -> str:
    """Return the WGSL of a kernel.

    Args:
        params: The parameters; the body reads ``p.name``.
        buffers: The storage buffers by their names in the body.
        body: The statements of ``main``.
        head: The entry point: ``per_item`` or ``per_group``.
        more: Declarations: functions and workgroup memory.

    """
    fields = ", ".join([f"{k}: {parameter_type(v)}" for k, v in params.items()])
    lines = [
        f"struct Params {{ {fields} }}",
        "@group(0) @binding(0) var<uniform> p: Params;",
    ]
    for i, (name, buffer) in enumerate(buffers.items()):
        access = "read_write" if buffer.write else "read"
        declared = f"var<storage, {access}> {name}: array<{buffer.type}>;"
        lines.append(f"@group(0) @binding({i + 1}) {declared}")
    return completed("\n".join([*lines, more, head, body, "}"]))


def per_item(threads: int = GROUP_THREADS) -> str:
    """Return an entry point whose threads have the numbers ``id`` below ``p.count``."""
    return f"""@compute @workgroup_size({threads})
fn main(@builtin(global_invocation_id) gid: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>) {{
let id = gid.x + gid.y * groups.x * {threads}u;
if (id >= p.count) {{ return; }}"""


def per_group(threads: int) -> str:
    """Return an entry point for workgroups ``id`` with threads ``lid``."""
    return f"""@compute @workgroup_size({threads})
fn main(@builtin(workgroup_id) wid: vec3<u32>,
        @builtin(local_invocation_index) lid: u32,
        @builtin(num_workgroups) groups: vec3<u32>) {{
let id = wid.x + wid.y * groups.x;
if (id >= p.count) {{ return; }}"""


def grid(items: int, threads: int = GROUP_THREADS) -> Groups:
    """Return the workgroups for so many items, on two axes where one is too short."""
    groups = -(-items // threads)
    if groups <= AXIS_GROUPS:
        return groups, 1, 1
    return AXIS_GROUPS, -(-groups // AXIS_GROUPS), 1


def vector(kind: str, lanes: int, table: Mapping[str, str] = STORAGE) -> str:
    """Return the type of so many numbers."""
    return f"vec{lanes}<{table[kind]}>" if lanes > 1 else table[kind]


def loaded(kind: str, text: str, lanes: int = 1) -> str:
    """Return the value of stored numbers."""
    if kind == "b":
        return f"({text} != {vector('u', lanes)}(0u))"
    return f"{vector('f', lanes)}({text})" if kind == "h" else text


def stored(kind: str, text: str, lanes: int = 1) -> str:
    """Return a value as it is stored."""
    return f"{vector(kind, lanes)}({text})" if kind in "bh" else text


def bits(value: Any, kind: str) -> Number:
    """Return an attribute of a kernel as a parameter."""
    if kind in "fh":
        with np.errstate(over="ignore"):
            rounded = np.float16(value) if kind == "h" else value
            return np.float32(rounded)
    if kind == "b":
        return int(bool(value))
    return np.int32(value) if kind == "i" else np.uint32(value)


def offsets(
    sizes: Sequence[str], index: str, steps: Mapping[str, Sequence[str]]
) -> str:
    """Return code that adds to variables the offset of an element.

    Args:
        sizes: Expressions of the sizes of the axes, outermost first.
        index: The number of the element, row by row.
        steps: For each variable, expressions of its strides; "" where it is 0.

    """
    lines = [f"{{ var left = {index};"]
    for axis in range(len(sizes) - 1, -1, -1):
        if axis:
            lines.append(f"{{ let next = left / {sizes[axis]};")
            lines.append(f"let along = left - next * {sizes[axis]}; left = next;")
        else:
            lines.append("{ let along = left;")
        for variable, strides in steps.items():
            if strides[axis]:
                lines.append(f"{variable} += along * {strides[axis]};")
        lines.append("}")
    return "\n".join(lines) + "}\n"
