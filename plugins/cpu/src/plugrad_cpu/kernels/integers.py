"""Divisors of integers."""

import numpy as np
from plugrad.plugin import KernelTable

kernels = KernelTable(Gcd=np.gcd)
