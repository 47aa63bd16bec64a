"""WebAssembly kernels for plugrad. The module its entry point names is ``plugin``.

Public are ``load_kernel``, for kernels from modules of your own, and ``get_include``.
Importing this opens nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plugrad.plugin import Kernel

__all__ = ["get_include", "load_kernel"]


def load_kernel(
    source: str | os.PathLike[str] | bytes | bytearray,
    kernel: str | Kernel,
    *,
    export: str | None = None,
    memory: int = 1 << 28,
    time_limit: float | None = None,
    module_size: int = 1 << 18,
) -> Callable[..., Any]:
    """Return a function of a WebAssembly module as a kernel for the backend ``wasm``.

    To be registered, or returned by an ``KernelPack``::

        pg.register_kernel(SWISH, "wasm", load_kernel("swish.wasm", SWISH))

    The module runs in a sandbox: it has a memory of its own, into which inputs are
    copied and out of which outputs are, and reaches nothing else. What it exports is
    said in ``plugrad_kernel.h``, see ``get_include``. One call runs at a time. After a
    trap, and in a forked child, the next call finds the module as it was loaded.

    Args:
        source: The file of the module, or its bytes.
        kernel: The contract, or the name of one that is known. It must have an ``out``
            rule, by which the outputs are made.
        export: The name of the function; it may be left out if there is one alone.
        memory: The most bytes that the module's memory may have, up to 4 GiB; inputs
            and outputs have to fit into it.
        time_limit: The most seconds that a call may take; it makes long loops up to
            twice as slow. Without it, even Ctrl-C waits for the end. It does not hold
            for compiling.
        module_size: The most bytes that the module itself may have. Nothing interrupts
            the compiler: of a module that is made to be slow it takes 10 s and 1.5 GB
            for each MiB.

    Raises:
        ValueError: The module is malformed, imports anything but a memory, exports no
            such function or one of other types, needs more memory or is too large; or
            the contract has no ``out`` rule. The message says which.
        TypeError: The kernel is neither a contract nor a name; or later an attribute is
            neither numbers nor text.
        OSError: The file cannot be read.
        BackendError: It trapped when it was loaded, and later when a call traps, runs
            out of time or memory, or returns a message.

    """
    from .sandbox import SandboxedKernel

    return SandboxedKernel(source, kernel, export, memory, time_limit, module_size)


def get_include() -> str:
    """Return the folder of ``plugrad_kernel.h``, for a compiler's option ``-I``."""
    return str(Path(__file__).parent / "include")


def __getattr__(name: str) -> str:
    """Read the version from the metadata, which takes too long for every import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("plugrad-wasm")
