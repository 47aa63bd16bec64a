"""Assembles the runtime of the backend."""

from __future__ import annotations

from plugrad.plugin import Runtime

from .arrays import KINDS, STORED, arrays, enable_half
from .device import Device, device


def runtime() -> Runtime:
    """Open the device and return its runtime."""
    opened = device()
    stored = STORED.split()
    if opened.half:
        enable_half()
    else:
        stored.append("float16")
    from .kernels import KERNELS
    from .regions import compiled, fusable

    return Runtime(
        arrays=arrays(),
        kernels=KERNELS,
        dtypes=[*[dtype.name for dtype in KINDS], *stored],
        host="cpu",
        close=opened.close,
        self_test=lambda: remarks(opened),
        fusable=fusable,
        compile=compiled,
    )


def remarks(opened: Device) -> list[str]:
    """Return what ``python -m plugrad doctor`` says about the device."""
    half = "float16" if opened.half else "no float16"
    clock = "timestamps" if opened.timer is not None else "no timestamps"
    return [f"runs on {opened.name}: {half}, {clock}"]
