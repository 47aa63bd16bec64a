"""The entry-point module; it imports Numba only when the backend opens."""

from __future__ import annotations

from plugrad.plugin import Backend, Runtime, hookimpl

WHOLE = ("bool", "uint8", "int32", "int64")
FRACTIONS = ("float32", "float64", "complex64", "complex128")

# Kernels that are not compositions of primitives run on the host. So do the calls that
# kernel functions of this backend decline by returning NotImplemented.
DECLINED = ("Cast", "FloorDiv", "GatherV2", "Log1p", "Pow")
FACTORIZATIONS = ("Cholesky", "Eigh", "Qr", "Slogdet", "Solve", "Svd")
LOOPS = ("NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5")
RAGGED = ("RaggedGather", "RaggedRange", "RaggedTensorToTensor")
SHAPED_BY_VALUES = ("SparseFillEmptyRows", "Unique")
TEXT = ("StaticRegexReplace", "StringNGrams", "StringSplit", "StringToHashBucketFast")
HOST_KERNELS = FACTORIZATIONS + LOOPS + RAGGED + SHAPED_BY_VALUES + TEXT


def open_numba() -> Runtime:
    """Import the kernels and return the open backend."""
    import numpy as np

    from .compiled import kernels as compiled
    from .moving import Arrays
    from .moving import kernels as moving

    return Runtime(
        arrays=Arrays(),
        kernels=compiled | moving,
        dtypes=WHOLE + FRACTIONS,
        host="cpu",
        host_kernels=DECLINED + HOST_KERNELS,
        wrap=np.errstate(all="ignore"),  # floating-point exceptions never warn
    )


@hookimpl
def plugrad_backends() -> list[Backend]:
    """Return the backend of this plugin."""
    return [Backend("numba", open=open_numba, priority=-1)]
