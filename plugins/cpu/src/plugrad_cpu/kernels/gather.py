"""Gathering by indices."""

from plugrad.plugin import KernelTable

kernels = KernelTable()
