"""The entry-point module: it declares the backend and imports the rest on opening."""

from __future__ import annotations

from plugrad.plugin import (
    Backend,
    Runtime,
    backward_gradients,
    backward_kernels,
    hookimpl,
)

BACKWARD_KERNELS = backward_kernels("plugrad_cpu")


def open_cpu() -> Runtime:
    """Open the NumPy backend."""
    from .arrays import DTYPES, NumpyArrays, kernel_context
    from .compiler.compile import compile_region, is_fusable
    from .kernels import KERNELS, MOVERS
    from .native import LOADED, PARALLEL_FOR, remarks

    return Runtime(
        arrays=NumpyArrays(),
        kernels=KERNELS,
        gradients=backward_gradients(BACKWARD_KERNELS if LOADED else {}),
        dtypes=DTYPES,
        self_test=remarks,
        fusable=is_fusable,
        compile=compile_region if LOADED else None,
        parallel_for=PARALLEL_FOR,
        wrap=lambda function: (
            function if function in MOVERS else kernel_context(function)
        ),
    )


@hookimpl
def plugrad_backends() -> list[Backend]:
    """Return the backend ``cpu``."""
    contracts = [*BACKWARD_KERNELS.values()]
    return [Backend("cpu", open=open_cpu, priority=1, contracts=contracts)]
