"""Backends made of cpu kernels, for testing the engine with several backends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.plugin import Backend, Runtime, runtime

from .primitives import PRIMITIVES

Array = np.ndarray[Any, Any]


class CountingArrays:
    """Arrays that copy and count every upload."""

    def __init__(self) -> None:
        self.uploads = 0

    def upload(self, values: Array) -> Array:
        self.uploads += 1
        return np.array(values)

    def download(self, native: Array) -> Array:
        return np.array(native)

    def nbytes(self, native: Array) -> int:
        return native.nbytes


@contextlib.contextmanager
def toy(
    name: str = "toy",
    *,
    without: Collection[str] = (),
    extra: Mapping[str, Callable[..., Any]] | None = None,
    **options: Any,
) -> Iterator[CountingArrays]:
    """Register a copy of cpu without some kernels; yield its arrays."""
    arrays = CountingArrays()
    cpu = pg.get_kernels_for_backend("cpu")
    wrap = runtime("cpu").wrap
    kernels = {k: wrap(f) for k, f in cpu.items() if k not in without}
    kernels.update(extra or {})
    open_runtime = lambda: Runtime(arrays=arrays, kernels=kernels, **options)
    pg.register_backend(Backend(name, open=open_runtime, priority=-1))
    try:
        yield arrays
    finally:
        pg.remove_backend(name)


def only_primitives() -> contextlib.AbstractContextManager[Any]:
    """Register only the primitives of cpu, under the name "primitives"."""
    return toy(
        "primitives",
        without=set(pg.get_kernels_for_backend("cpu")) - set(PRIMITIVES),
        dtypes=runtime("cpu").dtypes,
        host="cpu",
    )
