"""Kernels by family, under the same file names as ``plugrad.ops``."""

from . import (
    activation,
    binary,
    blocks,
    boxes,
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
    image,
    linalg,
    matrix,
    matrix_factors,
    norm,
    pool,
    ragged,
    random,
    reduce,
    resize,
    scatter,
    search,
    shape,
    slicing,
    sorting,
    sparse,
    strings,
    trigonometry,
    unary,
)

KERNELS = (
    activation.kernels
    | binary.kernels
    | blocks.kernels
    | boxes.kernels
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
    | image.kernels
    | linalg.kernels
    | matrix.kernels
    | matrix_factors.kernels
    | norm.kernels
    | pool.kernels
    | ragged.kernels
    | random.kernels
    | reduce.kernels
    | resize.kernels
    | scatter.kernels
    | search.kernels
    | shape.kernels
    | slicing.kernels
    | sorting.kernels
    | sparse.kernels
    | strings.kernels
    | trigonometry.kernels
    | unary.kernels
)

# These compute nothing, and so have no floating-point warnings to keep quiet about.
MOVERS = {*shape.kernels.values(), *slicing.kernels.values()}
