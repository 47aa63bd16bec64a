"""Kernels by family, under the same file names as the ops of the core."""

from plugrad.plugin import KernelTable

KERNELS = KernelTable.collect(__name__)
