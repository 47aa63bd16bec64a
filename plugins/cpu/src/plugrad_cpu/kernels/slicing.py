"""Parts of tensors, padding, and indexing."""

from plugrad.plugin import KernelTable

kernels = KernelTable()
