"""Einstein summation: ``np.einsum``, which uses BLAS where it can."""

from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("Einsum")
def einsum(*tensors: Array, equation: str) -> Any:
    """Compute float16 in float32.

    Integers are decomposed, because BatchMatMul is faster for them. So are equations
    with more than 31 operands, NumPy's limit for contracting all of them at once.
    """
    dtype = tensors[0].dtype
    if dtype.kind in "iu" or len(tensors) > 31:
        return NotImplemented
    if dtype == np.float16:
        tensors = tuple([x.astype(np.float32) for x in tensors])
    y = np.einsum(equation, *tensors, optimize=True)
    return y if y.dtype == dtype else y.astype(dtype)
