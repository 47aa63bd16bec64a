"""How the golden cases reach the ops of ``trigonometry``."""

import plugrad as pg

KERNELS = {
    "Acos": lambda x: pg.acos(x),
    "Acosh": lambda x: pg.acosh(x),
    "Asin": lambda x: pg.asin(x),
    "Asinh": lambda x: pg.asinh(x),
    "Atan": lambda x: pg.atan(x),
    "Atanh": lambda x: pg.atanh(x),
    "Cos": lambda x: pg.cos(x),
    "Cosh": lambda x: pg.cosh(x),
    "Sin": lambda x: pg.sin(x),
    "Sinh": lambda x: pg.sinh(x),
    "Tan": lambda x: pg.tan(x),
    "Tanh": lambda x: pg.tanh(x),
}

OPS = {
    "acos": pg.acos,
    "acosh": pg.acosh,
    "asin": pg.asin,
    "asinh": pg.asinh,
    "atan": pg.atan,
    "atanh": pg.atanh,
    "cos": pg.cos,
    "cosh": pg.cosh,
    "sin": pg.sin,
    "sinh": pg.sinh,
    "tan": pg.tan,
    "tanh": pg.tanh,
}
