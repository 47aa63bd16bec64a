"""The entry-point module; it imports Numba only when the backend opens."""

from __future__ import annotations

from plugrad.plugin import Backend, Runtime, hookimpl

EXACT_DTYPES = ("bool", "uint8", "int32", "int64")
INEXACT_DTYPES = ("float32", "float64", "complex64", "complex128")


def open_numba() -> Runtime:
    """Import the kernels and return the open backend."""
    import numpy as np

    from .compiled import kernels as compiled
    from .moving import Arrays
    from .moving import kernels as moving

    return Runtime(
        arrays=Arrays(),
        kernels=compiled | moving,
        dtypes=EXACT_DTYPES + INEXACT_DTYPES,
        host="cpu",
        wrap=np.errstate(all="ignore"),  # floating-point exceptions never warn
    )


@hookimpl
def plugrad_backends() -> list[Backend]:
    """Return the backend of this plugin."""
    return [Backend("numba", open=open_numba, priority=-1)]
