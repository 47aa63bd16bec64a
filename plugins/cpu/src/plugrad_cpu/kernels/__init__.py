"""Kernels by family, under the same file names as ``plugrad.ops``."""

from . import (
    activation,
    binary,
    compare,
    conv,
    creation,
    depthwise,
    fused,
    gather,
    linalg,
    norm,
    pool,
    reduce,
    shape,
    slicing,
    unary,
)

KERNELS = (
    activation.kernels
    | binary.kernels
    | compare.kernels
    | conv.kernels
    | creation.kernels
    | depthwise.kernels
    | fused.kernels
    | gather.kernels
    | linalg.kernels
    | norm.kernels
    | pool.kernels
    | reduce.kernels
    | shape.kernels
    | slicing.kernels
    | unary.kernels
)

# These compute nothing, and so have no floating-point warnings to keep quiet about.
MOVERS = {*shape.kernels.values(), *slicing.kernels.values()}
