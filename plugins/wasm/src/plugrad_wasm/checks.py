"""Checks the arguments of load_kernel, and sanitizes texts from untrusted modules.

Contents: ``contract``; ``limits``; ``compiled`` and ``checked``, for a module;
``printable`` and ``reason``, for texts from untrusted modules.
"""

from __future__ import annotations

import threading
from typing import Any

import wasmtime
from plugrad.plugin import Kernel, contracts

from .instance import on_large_stack

PAGE = 1 << 16
MAX_MEMORY_BYTES = 1 << 32  # the range of 32-bit addresses
MESSAGE_MAX_CHARACTERS = 1000  # longer texts are cut off


def contract(kernel: str | Kernel) -> Kernel:
    """Return the contract, if its outputs can be allocated."""
    if isinstance(kernel, str):
        known = contracts()
        if kernel not in known:
            raise ValueError(
                f"load_kernel: unknown kernel {kernel!r}; give its contract, a Kernel"
            )
        kernel = known[kernel]
    elif not isinstance(kernel, Kernel):
        raise TypeError(f"load_kernel: expected a Kernel or a name, got {kernel!r}")
    if kernel.out is None:
        raise ValueError(
            f"load_kernel: {kernel} has no out rule, which determines the outputs; "
            "give the contract out="
        )
    return kernel


def limits(memory: object, time_limit: float | None) -> None:
    """Check the memory and time limits for a module."""
    if not isinstance(memory, int) or not PAGE <= memory <= MAX_MEMORY_BYTES:
        raise ValueError(
            f"load_kernel: memory={memory!r}: give bytes from {PAGE} to "
            f"{MAX_MEMORY_BYTES}"
        )
    if time_limit is not None and not 0 < time_limit <= threading.TIMEOUT_MAX:
        raise ValueError(f"load_kernel: time_limit={time_limit}: give seconds or None")


def compiled(
    engine: wasmtime.Engine, data: bytes, name: str, max_bytes: int
) -> wasmtime.Module:
    """Return a compiled module.

    The compiler cannot be interrupted; only the size of the module limits its time.
    """
    if len(data) > max_bytes:
        raise ValueError(
            f"load_kernel: {name} has {len(data):,} bytes, more than module_size="
            f"{max_bytes:,}; if you trust it, give load_kernel a larger module_size"
        )
    try:
        return on_large_stack(lambda: wasmtime.Module(engine, data))
    except wasmtime.WasmtimeError as error:
        raise ValueError(
            f"load_kernel: {name} cannot be compiled: {reason(error)}"
        ) from error


def checked(module: wasmtime.Module, name: str, export: str | None) -> str:
    """Check imports and exports, and return the name of the kernel function."""
    for i in module.imports:
        if not isinstance(i.type, wasmtime.MemoryType):
            raise ValueError(
                f"load_kernel: {name} imports {printable(f'{i.module}.{i.name}')}; "
                "only a memory may be imported: link what it needs into the module"
            )
    exports = {e.name: e.type for e in module.exports}
    own = isinstance(exports.get("memory"), wasmtime.MemoryType)
    if not module.imports and not own:
        raise ValueError(
            f"load_kernel: {name} must import a memory, or export one as 'memory'"
        )
    begin = exports.get("_initialize")
    if begin is not None and _signature(begin) != "() -> ()":
        raise ValueError(
            f"load_kernel: {name}: _initialize is {_signature(begin)}; it is called "
            "when the module is loaded, and has to be () -> (): give it another name"
        )
    functions = {n: t for n, t in exports.items() if isinstance(t, wasmtime.FuncType)}
    names = [n for n in functions if not n.startswith("_")]
    if export is None and len(names) == 1:
        export = names[0]
    if export is None or export not in functions:
        asked = "export= is needed" if export is None else f"no function {export!r}"
        found = printable(", ".join(names)) or "none"
        raise ValueError(f"load_kernel: {name}: {asked}; it exports {found}")
    if _signature(functions[export]) != "(i32) -> (i32)":
        raise ValueError(
            f"load_kernel: {name}: {printable(export)} is "
            f"{_signature(functions[export])}; a kernel is (i32) -> (i32), see "
            "plugrad_kernel.h"
        )
    return export


def _signature(kind: Any) -> str:
    """Return the signature of a function, or the kind of another export."""
    if not isinstance(kind, wasmtime.FuncType):
        return f"a {type(kind).__name__.removesuffix('Type').lower()}"
    params = map(str, kind.params)
    results = map(str, kind.results)
    return f"({', '.join(params)}) -> ({', '.join(results)})"


def printable(text: str) -> str:
    r"""Return a text with control characters escaped: ESC becomes \\x1b."""
    shown = text[:MESSAGE_MAX_CHARACTERS] + "..." * (len(text) > MESSAGE_MAX_CHARACTERS)
    return "".join([c if c.isprintable() else ascii(c)[1:-1] for c in shown])


def reason(error: Exception) -> str:
    """Return the cause in a wasmtime message, or its first line."""
    lines = str(error).strip().splitlines()
    return printable(lines[-1 if "Caused by:" in lines else 0].strip())
