"""Fourier transforms along the last axis, with one pass for each factor of its length.

Lengths with a prime factor above ``MAX_RADIX`` are left to the decomposition.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import numpy as np
from plugrad.plugin import KernelTable

from .. import source
from ..arrays import ClArray, ClArrays, empty
from ..elementwise import Function
from ..runtime import Device, Launch

MAX_RADIX = 61  # a larger prime factor is left to the decomposition

kernels = KernelTable()


@functools.lru_cache(1024)
def _factors(n: int) -> tuple[int, ...]:
    """Return factors of ``n``: fours, then primes; nothing if a prime is too large."""
    found = []
    for radix in (4, *range(2, MAX_RADIX + 1)):
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else ()


@functools.lru_cache(256)
def _roots(device: Device, n: int) -> ClArray:
    angles = np.arange(n) * (-2 * np.pi / n)
    values = np.exp(1j * angles).astype(np.complex64)
    return cast("ClArray", ClArrays(device).upload(values))


@functools.cache
def _program(device: Device, radix: int, items: int) -> Launch:
    return source.kernel(device, "fft", RADIX=radix, ITEMS=items)


def _transform(inverse: bool) -> Function:
    def kernel(x: ClArray) -> Any:
        n = x.shape[-1] if x.shape else 0
        device = x.device
        if n == 1 and x.dtype == np.complex64:
            return x
        factors = _factors(n) if n > 1 else ()
        if x.dtype != np.complex64 or not (factors and x.size):
            return NotImplemented
        roots = _roots(device, n)
        length = 1
        for radix in factors:
            y = empty(device, x.shape, x.dtype)
            count = x.size // radix
            items = max(source.BLOCK_ELEMENTS // (4 * radix), 1)
            launch = _program(device, radix, items)
            cpu = device.style == "cpu"
            global_size = -(-count // items) if cpu else launch.items(count)
            last = inverse and length * radix == n
            numbers = (-1.0 if inverse else 1.0, 1 / n if last else 1.0)
            buffers = (x.buffer, y.buffer, roots.buffer)
            launch(x.size * radix, global_size, *buffers, count, n, length, *numbers)
            x = y
            length = length * radix
        return x

    kernel.__qualname__ = kernel.__name__ = "IFFT" if inverse else "FFT"
    return kernel


kernels["FFT"] = _transform(False)
kernels["IFFT"] = _transform(True)
