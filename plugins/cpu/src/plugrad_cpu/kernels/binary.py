"""Binary kernels: a ufunc each; NumPy broadcasts."""

import numpy as np
from plugrad.plugin import KernelTable

kernels = KernelTable(
    Add=np.add,
    Multiply=np.multiply,
    RealDiv=np.true_divide,
    Sub=np.subtract,
)
