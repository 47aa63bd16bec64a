"""Pooling."""

from plugrad.plugin import KernelTable

kernels = KernelTable()
