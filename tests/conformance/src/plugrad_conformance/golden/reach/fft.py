"""How the golden cases reach the ops of ``fft``."""

import plugrad as pg

KERNELS = {
    "FFT": lambda input: pg.fft.fft(input),
    "IFFT": lambda input: pg.fft.ifft(input),
}

OPS = {}
