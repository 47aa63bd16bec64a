"""Binary kernels: NumPy ufuncs where they exist; most float32 kernels are in C."""

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ..native import by_float32, elementwise

kernels = KernelTable(
    Add=elementwise("add_f32", "ff->f")(np.add),
    Atan2=by_float32("ff->f")(np.arctan2),
    CopySign=elementwise("copysign_f16", "ee->e")(
        elementwise("copysign_f32", "ff->f")(np.copysign)
    ),
    Hypot=elementwise("hypot_f32", "ff->f")(np.hypot),
    Maximum=elementwise("max_f32", "ff->f")(np.maximum),
    Minimum=elementwise("min_f32", "ff->f")(np.minimum),
    Mod=elementwise("mod_f32", "ff->f")(np.remainder),
    Multiply=elementwise("mul_f32", "ff->f")(np.multiply),
    RealDiv=elementwise("div_f32", "ff->f")(np.true_divide),
    Sub=elementwise("sub_f32", "ff->f")(np.subtract),
)


@kernels("AddN")
def add_n(*xs: Array) -> Array:
    """Allocate the first sum, and add the other inputs in place."""
    if len(xs) == 1:
        return xs[0]
    y = xs[0] + xs[1]
    for x in xs[2:]:
        y += x
    return y


@kernels("SquaredDifference")
@elementwise("squared_difference_f32", "ff->f")
def squared_difference(a: Array, b: Array) -> Array:
    """Square the difference in place."""
    y = np.subtract(a, b)
    y *= y
    return y


@kernels("FloorDiv")
@elementwise("floor_div_f32", "ff->f")
def floor_divide(a: Array, b: Array) -> Array:
    """Divide like Python, except for infinities: 1 // -inf is -0, not -1."""
    y = np.floor_divide(a, b)
    if a.dtype.kind == "f":
        infinite = np.isinf(a) | np.isinf(b)
        if infinite.any():
            return np.where(infinite, np.floor(a / b), y)
    return y


@kernels("Pow")
@by_float32("ff->f")
def pow(a: Array, b: Array) -> Array:
    """Compute small integer powers as products, which is ten times faster."""
    if not b.ndim:
        n = b.item()
        if n in (1, 2, 3):
            return a if n == 1 else a * a if n == 2 else a * a * a
    if b.dtype.kind == "i" and b.size and b.min() < 0:
        return _integer_power(a, b)
    return np.power(a, b)


def _integer_power(a: Array, b: Array) -> Array:
    """Raise integers to powers; negative powers give ±1 for ±1, and otherwise 0."""
    inverse = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    y = np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))
    return y.astype(a.dtype)
