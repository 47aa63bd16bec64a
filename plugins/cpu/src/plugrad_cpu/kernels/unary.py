"""Unary kernels: a ufunc each, where NumPy has one."""

import numpy as np
from plugrad.plugin import KernelTable

kernels = KernelTable(
    Exp=np.exp,
    Neg=np.negative,
    Sqrt=np.sqrt,
    Square=np.square,
    Tanh=np.tanh,
)
