"""Valid calls of kernels for complex numbers and their parts."""

from .. import call, complexes, floats

CALLS = {
    **{name: call(complexes(2, 3)) for name in ("ComplexAbs", "Imag", "Real")},
    "Complex": call(floats(2, 3), floats(2, 3)),
}
