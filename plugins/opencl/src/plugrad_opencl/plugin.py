"""The entry-point module: it declares the backends without importing pyopencl.

The priority is higher than cpu's only if the file system shows a GPU and a driver for
it. With PoCL alone, cpu stays the default.
"""

from __future__ import annotations

import functools
import glob
import os
import sys

from plugrad.plugin import Backend, Runtime, backward_kernels, hookimpl

BACKWARD_KERNELS = backward_kernels("plugrad_opencl")
NODES = ("/dev/nvidia[0-9]*", "/dev/dri/renderD*", "/dev/kfd")  # device files of GPUs
DRIVERS = "/etc/OpenCL/vendors/*.icd"


def open_opencl(number: int) -> Runtime:
    """Return the backend of a device, by its number in ``PLUGRAD_OPENCL_DEVICE``."""
    from .environment import prepare

    prepare()  # before anything imports pyopencl
    from .backend import runtime

    return runtime(_wanted()[number], BACKWARD_KERNELS)


def _wanted() -> list[str]:
    """Return the entries of the user's device list; "" leaves the choice to plugrad."""
    return os.environ.get("PLUGRAD_OPENCL_DEVICE", "").split(",")


def _has_gpu() -> bool:
    """Return whether the file system shows a GPU and a driver for it."""
    if sys.platform != "linux":
        return sys.platform == "darwin"
    drivers = [os.path.basename(path) for path in glob.glob(DRIVERS)]
    return any(map(glob.glob, NODES)) and any("pocl" not in name for name in drivers)


@hookimpl
def plugrad_backends() -> list[Backend]:
    """Return ``opencl``, and ``opencl-1`` and so on for further listed devices."""
    priority = 10 if _has_gpu() else -1
    return [
        Backend(
            f"opencl-{number}" if number else "opencl",
            open=functools.partial(open_opencl, number),
            priority=priority - number,
            contracts=[*BACKWARD_KERNELS.values()],
        )
        for number in range(len(_wanted()))
    ]
