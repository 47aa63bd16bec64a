"""The entry-point module: it declares the backend without importing wgpu."""

from __future__ import annotations

from plugrad.plugin import Backend, Runtime, hookimpl


def open_webgpu() -> Runtime:
    """Open the device and return the backend."""
    from .backend import runtime

    return runtime()


@hookimpl
def plugrad_backends() -> list[Backend]:
    """Return ``webgpu``; its priority of -1 keeps plugrad-cpu the default."""
    return [Backend("webgpu", open=open_webgpu, priority=-1)]
