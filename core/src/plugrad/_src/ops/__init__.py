"""Every op, by family; the core's contracts are collected from here."""

from importlib import import_module

from plugrad._src.registry.contract import Kernel
from plugrad._src.registry.registry import registry

from . import _processes, operators

NAMES = """
    activation adaptive alignments binary blocks boxes compare complexes conv
    creation cumulative depthwise determinants dilation dropout eigenvalues einsum
    error_functions extremes fft fused gather gelu grids image integers linalg
    losses matrix matrix_factors matrix_functions namespace nans norm pool products
    quantized ragged random ranges rearrange reduce resize samples scatter search
    sequence shape signal signs slicing sorting sparse special statistics strings
    trigonometry unary
"""
FAMILIES = tuple(import_module(f"{__name__}.{name}") for name in NAMES.split())

registry.declare(
    [
        value
        for family in FAMILIES
        for value in vars(family).values()
        if type(value) is Kernel
    ],
    registry.core,
)

__all__ = ["FAMILIES", "_processes", "operators"]
