"""Depthwise convolution."""

from plugrad.plugin import KernelTable

kernels = KernelTable()
