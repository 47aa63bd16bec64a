"""Every op, by family; the core's contracts are collected from here."""

from types import ModuleType

from plugrad._kernel import Kernel
from plugrad._registry import registry

from . import (
    _processes,
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
    losses,
    matrix,
    matrix_factors,
    norm,
    operators,
    pool,
    ragged,
    random,
    reduce,
    resize,
    scatter,
    search,
    sequence,
    shape,
    signal,
    slicing,
    sorting,
    sparse,
    strings,
    trigonometry,
    unary,
)

FAMILIES: tuple[ModuleType, ...] = (
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
    losses,
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
    sequence,
    shape,
    signal,
    slicing,
    sorting,
    sparse,
    strings,
    trigonometry,
    unary,
)

registry.declare(
    [
        value
        for family in FAMILIES
        for value in vars(family).values()
        if isinstance(value, Kernel)
    ],
    registry.core,
)

__all__ = ["FAMILIES", "_processes", "operators"]
