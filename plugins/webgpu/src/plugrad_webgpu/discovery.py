"""Finds the adapters (GPUs, or a CPU that acts as one) and chooses one of them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import plugrad as pg
import wgpu

VARIABLE = "PLUGRAD_WEBGPU_ADAPTER"
APIS = ("Vulkan", "Metal", "D3D12")  # adapters of OpenGL lack what the kernels need
PREFERENCE = {"DiscreteGPU": 0, "IntegratedGPU": 1, "CPU": 3}  # all others: 2


def find() -> list[Any]:
    """Return the adapters that run compute kernels, the preferred one first."""
    with _without_wayland_errors():
        adapters = wgpu.gpu.enumerate_adapters_sync()
    found = [a for a in adapters if a.info["backend_type"] in APIS]
    return sorted(found, key=lambda a: PREFERENCE.get(a.info["adapter_type"], 2))


@contextlib.contextmanager
def _without_wayland_errors() -> Iterator[None]:
    """Set XDG_RUNTIME_DIR in the block if a headless Linux leaves it unset.

    Without it, Wayland's library prints an error for each driver.
    """
    if sys.platform != "linux" or "XDG_RUNTIME_DIR" in os.environ:
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = "/nonexistent"
    try:
        yield
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


def describe(adapter: Any) -> str:
    """Return the name, kind, interface and driver of an adapter as one line."""
    info = adapter.info
    parts = [info["adapter_type"], info["backend_type"], info.get("description", "")]
    return f"{info['device']} ({', '.join([part for part in parts if part])})"


def choose() -> Any:
    """Return the adapter that the user names, or the preferred one.

    Raises:
        plugrad.BackendError: There is no adapter, or none has the name.

    """
    found = find()
    if not found:
        raise pg.BackendError(
            "webgpu: found no adapter for Vulkan, Metal or Direct3D 12; install a GPU "
            "driver, or Mesa's lavapipe, which runs on the CPU (on Debian and Ubuntu: "
            "apt-get install mesa-vulkan-drivers libvulkan1)"
        )
    wanted = os.environ.get(VARIABLE, "").strip().lower()
    for adapter in found:
        if wanted in describe(adapter).lower():
            return adapter
    names = "; ".join(map(describe, found))
    raise pg.BackendError(
        f"webgpu: {VARIABLE}={wanted!r} is part of no adapter's description; "
        f"found: {names}"
    )
