"""Softmax and normalization."""

from plugrad.plugin import KernelTable

kernels = KernelTable()
