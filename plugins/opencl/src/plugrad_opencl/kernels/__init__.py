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
    scatter,
    shape,
    slicing,
    sorting,
    trigonometry,
    unary,
)

FAMILIES = [activation, binary, compare, complexes, conv, creation, cumulative]
FAMILIES += [depthwise, fft, fused, gather, linalg, norm, pool, reduce, resize]
FAMILIES += [scatter, shape, slicing, sorting, trigonometry, unary]
KERNELS = {name: f for family in FAMILIES for name, f in family.kernels.items()}
