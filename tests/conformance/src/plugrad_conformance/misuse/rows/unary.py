"""Right calls of element-wise kernels of one argument."""

from .. import call, complexes, floats

NAMES = (
    *("Abs", "Ceil", "Erf", "Exp", "Expm1", "Floor", "IsFinite", "IsInf", "IsNan"),
    *("Log", "Log1p", "Neg", "Reciprocal", "Rsqrt", "Sqrt", "Square"),
)
CALLS = {
    **{name: call(floats(2, 3)) for name in NAMES},
    "Round": call(complexes(2, 3)),
    "Sign": call(complexes(2, 3)),
}
