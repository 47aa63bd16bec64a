"""How the golden cases reach the ops of ``complexes``, and ``abs`` of ``unary``."""

import plugrad as pg

KERNELS = {
    "Complex": lambda real, imag: pg.complex(real, imag),
    "ComplexAbs": lambda x: pg.abs(x),
    "Imag": lambda input: pg.imag(input),
    "Real": lambda input: pg.real(input),
}

OPS = {}
