"""The entry-point module: it declares the backend and imports the rest on opening."""

from __future__ import annotations

import functools

from plugrad.plugin import (
    Backend,
    Runtime,
    backward_gradients,
    backward_kernels,
    hookimpl,
    with_strings,
)

BACKWARD_KERNELS = backward_kernels("plugrad_wasm")


def open_wasm() -> Runtime:
    """Open the WebAssembly backend."""
    from .arrays import DTYPES, WasmArrays
    from .kernels import KERNELS
    from .regions import compiled, fusable
    from .runtime import Machine

    machine = Machine()
    arrays = WasmArrays(machine)
    return Runtime(
        arrays=arrays,
        kernels=with_strings(KERNELS, arrays, host="cpu"),
        gradients=backward_gradients(BACKWARD_KERNELS),
        dtypes=DTYPES,
        host="cpu",
        close=machine.close,
        fusable=fusable,
        compile=functools.partial(compiled, machine),
    )


@hookimpl
def plugrad_backends() -> list[Backend]:
    """Return the backend ``wasm``."""
    contracts = [*BACKWARD_KERNELS.values()]
    return [Backend("wasm", open=open_wasm, priority=0, contracts=contracts)]
