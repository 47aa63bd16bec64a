"""The light module: says what there is, and imports nothing until it is opened."""

from __future__ import annotations

from plugrad.plugin import Backend, Runtime, hookimpl

from .gradients import GRADIENTS, KERNELS


def open_wasm() -> Runtime:
    """Return the WebAssembly backend in working order."""
    from .arrays import DTYPES, WasmArrays
    from .kernels import HOST_KERNELS, KERNELS
    from .runtime import machine

    machine.open_again()
    return Runtime(
        arrays=WasmArrays(),
        kernels=KERNELS,
        gradients=GRADIENTS,
        dtypes=DTYPES,
        host="cpu",
        host_kernels=HOST_KERNELS,
        close=machine.close,
    )


@hookimpl
def plugrad_backends() -> list[Backend]:
    """Return the one backend."""
    return [Backend("wasm", open=open_wasm, priority=0, contracts=[*KERNELS.values()])]
