"""The entry-point module: it names what the plugin brings, and imports nothing else."""

from __future__ import annotations

import importlib.util
import struct
import sysconfig
from collections.abc import Callable
from typing import Any

from plugrad.plugin import Graph, KernelPack, Step, hookimpl


def open_pack() -> dict[str, Callable[..., Any]]:
    """Return no kernels: the pack has a compiler only.

    Raises:
        ImportError: llvmlite is missing.
        RuntimeError: This Python is not one whose objects compiled code can read.

    """
    if importlib.util.find_spec("llvmlite") is None:
        raise ImportError("plugrad-llvm needs llvmlite: pip install llvmlite")
    if struct.calcsize("P") != 8 or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise RuntimeError("plugrad-llvm needs a 64-bit Python with the GIL")
    return {}


def fusable(step: Step, graph: Graph) -> bool:
    """Return whether a step may be part of a region."""
    from .regions import takes

    return takes(step, graph)


def compile_region(graph: Graph) -> Callable[..., Any] | None:
    """Return a function that runs a region; None if its kernels do it as fast."""
    from .regions import compiled

    return compiled(graph)


@hookimpl
def plugrad_kernels() -> list[KernelPack]:
    """Return the compiler for cpu."""
    return [KernelPack("cpu", open=open_pack, fusable=fusable, compile=compile_region)]
