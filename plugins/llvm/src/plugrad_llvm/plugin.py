"""The entry-point module: it declares the compiler without importing llvmlite."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

from plugrad.plugin import Graph, KernelPack, Step, hookimpl


def open_pack() -> dict[str, Callable[..., Any]]:
    """Return no kernels: the pack contains only a compiler.

    Raises:
        ImportError: llvmlite is missing.
        RuntimeError: The objects of this Python have an unknown layout, or
            ``PLUGRAD_LLVM_PLAIN`` is set.

    """
    if os.environ.get("PLUGRAD_LLVM_PLAIN", "0") != "0":
        raise RuntimeError("PLUGRAD_LLVM_PLAIN is set: no machine code reads objects")
    if importlib.util.find_spec("llvmlite") is None:
        raise ImportError("plugrad-llvm needs llvmlite: pip install llvmlite")
    if not knows_objects():
        raise RuntimeError("plugrad-llvm needs CPython of 64 bits with the GIL")
    return {}


def knows_objects() -> bool:
    """Return whether arrays and bytes have the layout that ``entry`` reads."""
    import numpy as np

    if sys.implementation.name != "cpython" or sys.maxsize < 1 << 32:
        return False
    x = np.zeros((3, 2)).T
    text = b"01234567"
    read = ctypes.c_uint64.from_address
    flags = ctypes.c_uint32.from_address(id(x) + 64).value
    found = read(id(x) + 8).value, read(id(x) + 16).value, flags & 0xFFFF
    expected = id(np.ndarray), x.__array_interface__["data"][0], x.flags.num & 0xFFFF
    return found == expected and ctypes.string_at(id(text) + 32, 8) == text


def fusable(step: Step, graph: Graph) -> bool:
    """Return whether a step may be part of a region."""
    from .worth import may_pay

    if not may_pay(step, graph):
        return False
    from .steps import takes

    return takes(step, graph)


def compile_region(graph: Graph) -> Callable[..., Any] | None:
    """Return a function that runs a region; None if other code is as fast."""
    from .worth import pays

    if not pays(graph):
        return None
    from .compile import compiled

    return compiled(graph)


@hookimpl
def plugrad_kernels() -> list[KernelPack]:
    """Return the compiler for cpu."""
    return [KernelPack("cpu", open=open_pack, fusable=fusable, compile=compile_region)]
