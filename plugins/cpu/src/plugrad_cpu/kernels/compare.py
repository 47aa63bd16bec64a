"""Comparison and logic: a ufunc each; NumPy broadcasts."""

import numpy as np
from plugrad.plugin import KernelTable

kernels = KernelTable(
    Equal=np.equal,
    Greater=np.greater,
)
