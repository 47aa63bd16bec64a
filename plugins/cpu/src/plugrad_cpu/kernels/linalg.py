"""Matrix products: BLAS, by way of ``np.matmul``."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("BatchMatMul")
def batch_matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Transposes are views, which BLAS takes as they are; float16 goes by float32."""
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    kind = a.dtype.kind
    if kind in "iu" and a.size and b.size:
        return _whole(a, b)
    if kind == "f" and a.itemsize == 2:
        wide = np.matmul(a.astype(np.float32), b.astype(np.float32))
        return wide.astype(np.float16)
    return np.matmul(a, b)


def _whole(a: Array, b: Array) -> Array:
    """BLAS has no integers; but float64 is exact while all sums are below 2**53."""
    if a.size + b.size < 256:
        return np.matmul(a, b)
    largest = max(int(a.max()), -int(a.min())) * max(int(b.max()), -int(b.min()))
    if largest * a.shape[-1] >= 2**53:
        return np.matmul(a, b)
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    return exact.astype(np.int64).astype(a.dtype)
