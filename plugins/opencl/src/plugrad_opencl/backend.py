"""Assembles the runtime of the backend for one device."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from plugrad.plugin import Kernel, Runtime, backward_gradients, with_strings

from ._devices import choose, remarks
from .arrays import ClArrays
from .graphs import compiled, fusable
from .kernels import KERNELS
from .runtime import Device

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64"
DTYPES += " bfloat16 float32 complex64"


def runtime(wanted: str, backward: Mapping[str, Kernel]) -> Runtime:
    """Return the runtime for a device.

    Args:
        wanted: The user's choice of a device; see ``_devices.choose``.
        backward: The contracts of kernels that compute a whole gradient.

    """
    device = Device(choose(wanted))
    arrays = ClArrays(device)
    kernels = dict(KERNELS)
    if device.style == "cpu":  # its parts are faster than tiles
        del kernels["AttentionGrad"]
    dtypes = [*DTYPES.split(), *(["float64"] if device.double else []), "string"]
    return Runtime(
        arrays=arrays,
        kernels=with_strings(kernels, arrays, host="cpu"),
        gradients=backward_gradients(backward),
        dtypes=dtypes,
        host="cpu",
        close=device.close,
        self_test=functools.partial(remarks, device.info),
        fusable=functools.partial(fusable, device),
        compile=functools.partial(compiled, device),
    )
