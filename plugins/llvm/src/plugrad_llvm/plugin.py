"""The entry-point module: it declares the compiler without importing llvmlite."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from plugrad.plugin import Graph, KernelPack, Step, hookimpl


def open_pack() -> dict[str, Callable[..., Any]]:
    """Return no kernels: the pack contains only a compiler.

    Raises:
        ImportError: llvmlite is missing.

    """
    if importlib.util.find_spec("llvmlite") is None:
        raise ImportError("plugrad-llvm needs llvmlite: pip install llvmlite")
    return {}


def fusable(step: Step, graph: Graph) -> bool:
    """Return whether a step may be part of a region."""
    from .worth import may_pay

    if not may_pay(step, graph):
        return False
    from .steps import is_fusable

    return is_fusable(step, graph)


def compile_region(graph: Graph) -> Callable[..., Any] | None:
    """Return a function that runs a region; None if plugrad-cpu should run it."""
    from .worth import pays

    if not pays(graph):
        return None
    from .compile import compiled

    return compiled(graph)


@hookimpl
def plugrad_kernels() -> list[KernelPack]:
    """Return the compiler for cpu."""
    return [KernelPack("cpu", open=open_pack, fusable=fusable, compile=compile_region)]
