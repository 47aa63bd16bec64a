"""How the golden cases reach the ops of ``binary``."""

import plugrad as pg

KERNELS = {
    "Add": lambda a, b: pg.add(a, b),
    "AddN": lambda xs: pg.add_n(xs),
    "Atan2": lambda a, b: pg.atan2(a, b),
    "FloorDiv": lambda a, b: pg.floor_divide(a, b),
    "Maximum": lambda a, b: pg.maximum(a, b),
    "Minimum": lambda a, b: pg.minimum(a, b),
    "Mod": lambda a, b: pg.remainder(a, b),
    "Multiply": lambda a, b: pg.multiply(a, b),
    "Pow": lambda a, b: pg.pow(a, b),
    "RealDiv": lambda a, b: pg.divide(a, b),
    "SquaredDifference": lambda a, b: pg.squared_difference(a, b),
    "Sub": lambda a, b: pg.subtract(a, b),
}

OPS = {
    "add": pg.add,
    "addN": pg.add_n,
    "atan2": pg.atan2,
    "div": pg.divide,
    "maximum": pg.maximum,
    "minimum": pg.minimum,
    "mod": pg.remainder,
    "pow": pg.pow,
    "squaredDifference": pg.squared_difference,
    "sub": pg.subtract,
}
