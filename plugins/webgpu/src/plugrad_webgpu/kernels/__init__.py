"""The kernel functions by name."""

from __future__ import annotations

from typing import Any

from plugrad.plugin import KernelTable

from .. import expressions
from ..elementwise import elementwise
from ..plans import Planner, planned
from . import conv, gather, pool, products, reduce, rows, shape, sorting

PLANNERS: dict[str, Planner] = {
    name: elementwise(name) for name in sorted(expressions.NAMES)
}
for _module in (conv, gather, pool, products, reduce, rows, shape, sorting):
    PLANNERS |= _module.PLANNERS


def on_host(*xs: Any, **attrs: Any) -> Any:
    """Leave a call to the host: complex numbers are only stored on the device."""
    return NotImplemented


KERNELS = KernelTable(
    {name: planned(planner) for name, planner in PLANNERS.items()}
    | {name: planned(view, every_dtype=True) for name, view in shape.VIEWS.items()}
    | dict.fromkeys(("Complex", "Imag", "Real"), on_host)
)
