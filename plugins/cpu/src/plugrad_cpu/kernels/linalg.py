"""Matrix products."""

from plugrad.plugin import KernelTable

kernels = KernelTable()
