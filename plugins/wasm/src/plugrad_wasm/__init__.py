"""WebAssembly kernels for plugrad. Its entry point names the module ``plugin``.

``load_kernel``, which loads kernels from your own modules, and ``get_include`` are
public. Importing this package opens nothing.
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

    Register the result, or return it from a ``KernelPack``::

        pg.register_kernel(SWISH, "wasm", load_kernel("swish.wasm", SWISH))

    The module runs in a sandbox: it can access only its own memory. Inputs are copied
    into this memory, and outputs are copied out of it. ``plugrad_kernel.h`` declares
    what the module must export: see ``get_include``. One call runs at a time. After a
    trap, and in a forked child, the next call starts with the module in its initial
    state.

    Args:
        source: The file of the module, or its bytes.
        kernel: The contract, or the name of a known contract. It must have an ``out``
            rule, which determines the outputs.
        export: The name of the function; optional if the module exports only one.
        memory: The maximum size of the module's memory in bytes, up to 4 GiB. Inputs
            and outputs must fit into it.
        time_limit: The maximum duration of a call in seconds. With a limit, long loops
            are up to twice as slow. Without a limit, even Ctrl-C waits for the end of
            the call. Compilation is not limited.
        module_size: The maximum size of the module itself in bytes. The compiler cannot
            be interrupted: a malicious module can take 10 s and 1.5 GB per MiB.

    Raises:
        ValueError: The module is malformed, imports anything but a memory, does not
            export the function or exports it with other types, needs more memory or is
            too large; or the contract has no ``out`` rule. The message says which.
        TypeError: The kernel is neither a contract nor a name. Calls raise it if an
            attribute is neither numbers nor text.
        OSError: The file cannot be read.
        BackendError: The module trapped while it was loaded. Calls raise it if they
            trap, run out of time or memory, or return a message.

    """
    from .sandbox import SandboxedKernel

    return SandboxedKernel(source, kernel, export, memory, time_limit, module_size)


def get_include() -> str:
    """Return the folder of ``plugrad_kernel.h``, for the compiler option ``-I``."""
    return str(Path(__file__).parent / "include")


def __getattr__(name: str) -> str:
    """Read the version from the metadata on demand: it is too slow for an import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("plugrad-wasm")
