"""Einstein summation: ``np.einsum``, which turns to BLAS where it can."""

from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array

kernels = KernelTable()


@kernels("Einsum")
def einsum(*tensors: Array, equation: str) -> Any:
    """float16 goes by float32, integers by BatchMatMul, which is faster with them.

    NumPy may take all operands at once, and then takes 31 of them.
    """
    dtype = tensors[0].dtype
    if dtype.kind in "iu" or len(tensors) > 31:
        return NotImplemented
    if dtype == np.float16:
        tensors = tuple([x.astype(np.float32) for x in tensors])
    y = np.einsum(equation, *tensors, optimize=True)
    return y if y.dtype == dtype else y.astype(dtype)
