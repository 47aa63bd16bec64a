"""Every op, by family; the core's contracts are collected from here."""

from types import ModuleType

from plugrad._kernel import Kernel
from plugrad._registry import registry

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
    losses,
    norm,
    operators,
    pool,
    reduce,
    scatter,
    shape,
    slicing,
    trigonometry,
    unary,
)

FAMILIES: tuple[ModuleType, ...] = (
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
    losses,
    norm,
    pool,
    reduce,
    scatter,
    shape,
    slicing,
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

__all__ = ["FAMILIES", "operators"]
