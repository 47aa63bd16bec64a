"""The OpenCL backend of plugrad. Its entry-point module is ``plugin``.

The package also provides ``devices``, which lists the OpenCL devices, and two functions
that turn OpenCL C into an op: ``elementwise_kernel`` and ``source_kernel``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._devices import DeviceInfo
    from .custom import elementwise_kernel, source_kernel

__all__ = ["devices", "elementwise_kernel", "source_kernel"]


def devices() -> tuple[DeviceInfo, ...]:
    """Return the OpenCL devices of this machine, best first; queries all drivers."""
    from . import _devices

    return _devices.devices()


def __getattr__(name: str) -> Any:
    """Read the version, or import ``custom``, which imports pyopencl."""
    if name == "__version__":
        from importlib.metadata import version

        return version("plugrad-opencl")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .environment import prepare

    prepare()
    from . import custom

    return getattr(custom, name)
