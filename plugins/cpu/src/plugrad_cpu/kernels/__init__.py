"""Kernels by family, under the same file names as ``plugrad.ops``."""

from . import (
    activation,
    binary,
    blocks,
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
    scatter,
    shape,
    slicing,
    trigonometry,
    unary,
)

KERNELS = (
    activation.kernels
    | binary.kernels
    | blocks.kernels
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
    | scatter.kernels
    | shape.kernels
    | slicing.kernels
    | trigonometry.kernels
    | unary.kernels
)

# These compute nothing, and so have no floating-point warnings to keep quiet about.
MOVERS = {*shape.kernels.values(), *slicing.kernels.values()}
