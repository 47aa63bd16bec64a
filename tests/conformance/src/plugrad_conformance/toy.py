"""Backends made of cpu's kernels, to test the engine with several at once."""

import contextlib

import numpy as np
import plugrad as pg
from plugrad._registry import registry
from plugrad.plugin import Backend, Runtime

from .primitives import DATA_DEPENDENT, HOST, PRIMITIVES


class CountingArrays:
    """Every upload is a copy, and counted."""

    def __init__(self):
        self.uploads = 0

    def upload(self, values):
        self.uploads += 1
        return np.array(values)

    def download(self, native):
        return np.array(native)

    def nbytes(self, native):
        return native.nbytes


@contextlib.contextmanager
def toy(name="toy", *, without=(), extra=None, **more):
    """Register a copy of cpu under another name, less some kernels; give its arrays."""
    arrays = CountingArrays()
    cpu = registry.open("cpu").table
    kernels = {k: f for k, f in cpu.items() if k not in without} | (extra or {})
    runtime = lambda: Runtime(arrays=arrays, kernels=kernels, **more)
    pg.register_backend(Backend(name, open=runtime, priority=-1))
    try:
        yield arrays
    finally:
        pg.remove_backend(name)


def only_primitives():
    """Register cpu's primitives, and nothing else, under another name."""
    cpu = registry.open("cpu")
    return toy(
        "primitives",
        without=set(cpu.table) - set(PRIMITIVES),
        dtypes=cpu.runtime.dtypes,
        host="cpu",
        host_kernels=[*DATA_DEPENDENT, *HOST],
    )
