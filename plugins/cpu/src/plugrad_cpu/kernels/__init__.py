"""Kernels by family, under the same file names as ``plugrad.ops``."""

from . import (
    activation,
    binary,
    blocks,
    compare,
    complexes,
    conv,
    creation,
    cumulative,
    depthwise,
    dilation,
    einsum,
    fft,
    fused,
    gather,
    linalg,
    matrix,
    matrix_factors,
    norm,
    pool,
    random,
    reduce,
    scatter,
    search,
    shape,
    slicing,
    sorting,
    trigonometry,
    unary,
)

KERNELS = (
    activation.kernels
    | binary.kernels
    | blocks.kernels
    | compare.kernels
    | complexes.kernels
    | conv.kernels
    | creation.kernels
    | cumulative.kernels
    | depthwise.kernels
    | dilation.kernels
    | einsum.kernels
    | fft.kernels
    | fused.kernels
    | gather.kernels
    | linalg.kernels
    | matrix.kernels
    | matrix_factors.kernels
    | norm.kernels
    | pool.kernels
    | random.kernels
    | reduce.kernels
    | scatter.kernels
    | search.kernels
    | shape.kernels
    | slicing.kernels
    | sorting.kernels
    | trigonometry.kernels
    | unary.kernels
)

# These compute nothing, and so have no floating-point warnings to keep quiet about.
MOVERS = {*shape.kernels.values(), *slicing.kernels.values()}
