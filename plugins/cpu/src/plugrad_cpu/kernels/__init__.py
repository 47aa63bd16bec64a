"""Kernels by family, under the same file names as the ops of the core."""

from plugrad.plugin import KernelTable

from . import shape, slicing

KERNELS = KernelTable.collect(__name__)
# These compute nothing, and so have no floating-point warnings to turn off.
MOVERS = {*shape.kernels.values(), *slicing.kernels.values()}
