"""Right calls of angles and hyperbolic functions."""

from .. import call, floats

NAMES = (
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh"),
    *("Cos", "Cosh", "Sin", "Sinh", "Tan", "Tanh"),
)
CALLS = {name: call(floats(2, 3)) for name in NAMES}
