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

FAMILIES = [activation, binary, blocks, boxes, compare, complexes, conv, creation]
FAMILIES += [cumulative, depthwise, dilation, einsum, fft, fused, gather, image, linalg]
FAMILIES += [matrix, matrix_factors, norm, pool, ragged, random, reduce, resize]
FAMILIES += [scatter, search, shape, slicing, sorting, sparse, strings, trigonometry]
FAMILIES += [unary]
KERNELS = {name: f for family in FAMILIES for name, f in family.kernels.items()}
# These compute nothing, and so have no floating-point warnings to keep quiet about.
MOVERS = {*shape.kernels.values(), *slicing.kernels.values()}
