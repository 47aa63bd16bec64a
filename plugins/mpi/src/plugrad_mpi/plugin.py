"""The entry-point module: the contracts and their kernels for each plugrad backend.

Backends that are not in ``BACKENDS`` get the same kernels when a collective first runs
on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from plugrad.plugin import KernelPack, hookimpl

from .contracts import CONTRACTS

BACKENDS = ("cpu", "wasm", "opencl")


def open_kernels(backend: str) -> Mapping[str, Callable[..., Any]]:
    """Return the kernels for a backend."""
    from .kernels import kernels_for

    return kernels_for(backend)


@hookimpl
def plugrad_kernels() -> list[KernelPack]:
    """Return one kernel pack for each backend."""
    return [
        KernelPack(name, open=partial(open_kernels, name), contracts=CONTRACTS)
        for name in BACKENDS
    ]
