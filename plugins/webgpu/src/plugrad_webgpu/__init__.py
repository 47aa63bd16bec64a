"""plugrad's backend for WebGPU; ``pg.set_backend("webgpu")`` selects it."""

from __future__ import annotations

from typing import Any

__all__ = ["adapters"]


def adapters() -> list[str]:
    """Return the name, kind and driver of each adapter, in order of preference.

    ``PLUGRAD_WEBGPU_ADAPTER`` selects one by a part of its line.

    Returns:
        One line for each adapter that runs on Vulkan, Metal or Direct3D 12.

    """
    from .discovery import describe, find

    return [describe(adapter) for adapter in find()]


def __getattr__(name: str) -> Any:
    """Return the version from the metadata of the distribution."""
    if name == "__version__":
        from importlib.metadata import version

        return version("plugrad-webgpu")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
