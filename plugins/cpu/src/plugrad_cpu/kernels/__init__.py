"""Kernels by family, under the same file names as the ops of the core."""

from plugrad.plugin import KernelTable, takes_bfloat16

from . import shape, slicing

KERNELS = KernelTable.collect(__name__)
# These kernels compute nothing, so they can run without the context that suppresses
# warnings.
MOVERS = {*shape.kernels.values(), *slicing.kernels.values()}
for function in MOVERS:
    takes_bfloat16(function)
