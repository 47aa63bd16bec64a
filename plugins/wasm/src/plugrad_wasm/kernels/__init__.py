"""Kernels by family, under the same file names as ``plugrad.ops``."""

from . import (
    activation,
    binary,
    compare,
    complexes,
    conv,
    creation,
    cumulative,
    depthwise,
    fft,
    fused,
    gather,
    linalg,
    norm,
    pool,
    reduce,
    resize,
    shape,
    slicing,
    sorting,
    trigonometry,
    unary,
)

KERNELS = (
    activation.kernels
    | binary.kernels
    | compare.kernels
    | complexes.kernels
    | conv.kernels
    | creation.kernels
    | cumulative.kernels
    | depthwise.kernels
    | fft.kernels
    | fused.kernels
    | gather.kernels
    | linalg.kernels
    | norm.kernels
    | pool.kernels
    | reduce.kernels
    | resize.kernels
    | shape.kernels
    | slicing.kernels
    | sorting.kernels
    | trigonometry.kernels
    | unary.kernels
)

# What cpu runs for this backend, on the same memory; at most 25.
HOST_KERNELS = [
    # one box depends on the others
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
    # the shape of the result depends on the values
    "RaggedGather",
    "RaggedRange",
    "RaggedTensorToTensor",
    "SparseFillEmptyRows",
    "Unique",
    # strings
    "StaticRegexReplace",
    "StringNGrams",
    "StringSplit",
    "StringToHashBucketFast",
    # factorizations: LAPACK's
    "Cholesky",
    "Eigh",
    "Qr",
    "Slogdet",
    "Solve",
    "Svd",
]
