"""The kernel functions by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from plugrad.plugin import KernelTable

from .. import expressions
from ..arrays import KINDS
from ..elementwise import elementwise
from ..plans import Plan, Planner, Slot, Use, planned
from . import conv, gather, pool, products, reduce, rows, shape, sorting

PLANNERS: dict[str, Planner] = {
    name: elementwise(name) for name in sorted(expressions.NAMES)
}
for _module in (conv, gather, pool, products, reduce, rows, shape, sorting):
    PLANNERS |= _module.PLANNERS


def sign_bit(plan: Plan, x: Slot) -> Slot | Sequence[Slot] | None:
    """Read the sign bits, also those of float64, which the device only stores."""
    if x.dtype != np.dtype("float64"):
        return PLANNERS["SignBit"](plan, x) if x.dtype in KINDS else None
    y = plan.new(x.shape, np.dtype("bool"))
    words = x.view((*x.shape, 2), np.dtype("uint32"))
    uses = {"x": Use(words), "y": Use(y, write=True)}
    plan.run("SignBit", uses, {}, "y[id] = x[2u * id + 1u] >> 31u;", y.size)
    return y


def on_host(*xs: Any, **attrs: Any) -> Any:
    """Leave a call to the host: complex numbers are only stored on the device."""
    return NotImplemented


KERNELS = KernelTable(
    {name: planned(planner) for name, planner in PLANNERS.items()}
    | {name: planned(view, every_dtype=True) for name, view in shape.VIEWS.items()}
    | {"SignBit": planned(sign_bit, every_dtype=True)}
    | dict.fromkeys(("Complex", "Imag", "Real"), on_host)
)
