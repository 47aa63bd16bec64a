"""Kernels of float32 that also take bfloat16, for NVIDIA's matrix units."""

from __future__ import annotations

import functools
from typing import Any

from plugrad.plugin import takes_bfloat16

from .. import tiles
from ..arrays import ClArray
from ..elementwise import Function
from ..products import BFLOAT16
from .creation import FLOAT32, cast


def from_halves(kernel: Function) -> Function:
    """Let a kernel take bfloat16 if matrix units multiply it without rounding.

    They read float32 numbers, so the inputs are converted. ``halves`` tells the kernel
    that its inputs come from bfloat16.
    """

    @takes_bfloat16
    @functools.wraps(kernel)
    def call(a: ClArray, *others: ClArray | None, **attrs: Any) -> Any:
        if a.dtype != BFLOAT16:
            return kernel(a, *others, **attrs)
        if not tiles.multiplies_halves(a.device):
            return NotImplemented
        wide = [None if x is None else cast(x, dtype=FLOAT32) for x in (a, *others)]
        y = kernel(*wide, **attrs, halves=True)
        return y if y is NotImplemented else cast(y, dtype=BFLOAT16)

    return call
