"""Kernels by family, under the same file names as ``plugrad.ops``."""

from plugrad.plugin import KernelTable

KERNELS = KernelTable.collect(__name__)
