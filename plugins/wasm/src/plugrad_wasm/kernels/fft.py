"""Fourier transforms."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array, DType, WasmArray, describe, empty, upload
from ..launch import TYPES
from ..runtime import Machine, cache_size
from .complexes import HALF

kernels = KernelTable()
MAX_RADIX = 31  # as in fft.c


class FftPlan(NamedTuple):
    """The tables that ``fft.c`` needs for rows of one size."""

    size: int
    factors: WasmArray
    table: WasmArray
    chirp: WasmArray | None
    spectrum: WasmArray | None


def _factors(n: int) -> list[int]:
    """Return radices whose product is ``n``, then 0; [] if a factor is too large."""
    found = []
    for p in (4, 2, *range(3, MAX_RADIX + 1, 2)):
        while n % p == 0:
            found.append(p)
            n //= p
    return [*found, 0] if n == 1 else []


@cache_size(16)
def _plan(machine: Machine, n: int, dtype: DType) -> FftPlan:
    factors = _factors(n)
    size = n
    chirp = spectrum = None
    if not factors:  # Bluestein
        turns = np.exp(-1j * np.pi / n * (np.arange(n, dtype=np.int64) ** 2 % (2 * n)))
        size = 1 << (2 * n - 2).bit_length()
        ring = np.zeros(size, complex)
        ring[:n] = turns.conj()
        ring[size - n + 1 :] = ring[n - 1 : 0 : -1]
        chirp = _upload_as(machine, turns, dtype)
        spectrum = _upload_as(machine, np.fft.fft(ring) / size, dtype)
        factors = _factors(size)
    roots = np.exp(-2j * np.pi / size * np.arange(size))
    parts = np.concatenate([roots.real, roots.imag]).astype(HALF[dtype])
    radices = describe(machine, tuple(factors))
    return FftPlan(size, radices, upload(machine, parts), chirp, spectrum)


def _upload_as(machine: Machine, z: Array, dtype: DType) -> WasmArray:
    native: WasmArray = upload(machine, z.astype(dtype))
    return native


def _transform(x: WasmArray, inverse: bool) -> Any:
    shape = x.shape
    dtype = HALF[x.dtype]
    machine = x.machine
    y = empty(machine, shape, x.dtype)
    n = shape[-1]
    if y.size:
        size, *tables = machine.cached[_plan](n, x.dtype)
        rows = prod(shape[:-1])
        threads = machine.threads
        workspace = empty(machine, (min(rows, threads), 4, size), dtype)
        pointers = [0 if t is None else t.pointer for t in tables]
        sizes = rows, n, size
        given = x.pointer, y.pointer, workspace.pointer, *sizes, *pointers
        machine.callers[f"fft_{TYPES[dtype]}"](*given, inverse, rows <= threads)
    return y


@kernels("FFT")
def fft(input: WasmArray) -> Any:
    """Transform along the last axis."""
    return _transform(input, False)


@kernels("IFFT")
def ifft(input: WasmArray) -> Any:
    """Transform back along the last axis, and divide by n."""
    return _transform(input, True)
