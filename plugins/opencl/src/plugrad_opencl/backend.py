"""The backend in working order, for one device."""

from __future__ import annotations

import functools

from plugrad.plugin import Runtime

from ._devices import choose, remarks
from .arrays import ClArrays
from .gradients import GRADIENTS
from .kernels import KERNELS
from .runtime import Device
from .strings import with_strings

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 complex64"

# What the host does for good: each is a factorization, is about strings, or has a
# result whose shape depends on the values.
HOST_KERNELS = """
    Cholesky Eigh NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 Qr
    RaggedGather RaggedRange RaggedTensorToTensor Slogdet Solve
    SparseFillEmptyRows StaticRegexReplace StringNGrams StringSplit
    StringToHashBucketFast Svd Unique
"""


def runtime(wanted: str = "") -> Runtime:
    """Return the backend of a device; see ``choose`` for ``wanted``."""
    device = Device(choose(wanted))
    arrays = ClArrays(device)
    dtypes = [*DTYPES.split(), *(["float64"] if device.double else []), "string"]
    return Runtime(
        arrays=arrays,
        kernels=with_strings(KERNELS, arrays),
        gradients=GRADIENTS,
        dtypes=dtypes,
        host="cpu",
        host_kernels=HOST_KERNELS.split(),
        close=device.close,
        self_test=functools.partial(remarks, device.info),
    )
