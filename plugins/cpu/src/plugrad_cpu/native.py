"""The kernels in C: those of plugrad-wasm, compiled for the processor.

Where they are missing (no compiler at the installation, another system), and for dtypes
that they do not have, kernels run on NumPy. ``PLUGRAD_CPU_NATIVE=0`` turns them off.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from plugrad.geometry import Windows

from .pool import native

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]
NAMES = {np.dtype(name): f"{name[0]}{name[-2:]}" for name in ("float32", "float64")}
LEVELS = ["x86_64_v4", "x86_64_v3", "x86_64_v2"]  # a processor has those that follow
MOST = 2**31  # elements: the kernels count in 32 bits


def _library() -> str:
    """Open the library for this processor; return its level, or why there is none."""
    if native is None or not hasattr(native, "load"):
        return "plugrad-cpu was installed without a C compiler"
    if os.environ.get("PLUGRAD_CPU_NATIVE", "1") == "0":
        return "PLUGRAD_CPU_NATIVE=0"
    best = native.level()
    levels = LEVELS[LEVELS.index(best) :] if best in LEVELS else [best]
    for level in levels:
        path = Path(__file__).parent / "lib" / f"{level}.so"
        if path.exists():
            native.load(str(path))
            return level
    return f"there is no library for {best}"


def threads() -> int:
    """Return how many threads the kernels use.

    Raises:
        ValueError: PLUGRAD_CPU_THREADS is not a number.

    """
    for name in ("PLUGRAD_CPU_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text):
            return int(text)
        if text and name.startswith("PLUGRAD"):
            raise ValueError(f"{name}={text}: use a number of threads, 1 or more")
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


LIBRARY = _library()
LOADED = LIBRARY in (*LEVELS, "aarch64")
if LOADED:
    native.get("set_threads")(threads())  # type: ignore[union-attr]


def kernels(name: str) -> dict[Any, Callable[..., None]]:
    """Return the kernels ``<name>_f32`` and ``<name>_f64`` by dtype, if there are."""
    found = {}
    for dtype, suffix in NAMES.items() if LOADED else ():
        try:
            found[dtype] = native.get(f"{name}_{suffix}")  # type: ignore[union-attr]
        except KeyError:
            continue
    return found


def strided(name: str) -> Callable[..., None] | None:
    """Return a kernel that is told the strides of arrays, if there is one."""
    return native.get_strided(name) if LOADED else None  # type: ignore[union-attr]


def elementwise(name: str, types: str = "f->f") -> Callable[[Kernel], Kernel]:
    """Return a decorator: a kernel on NumPy becomes one that runs in C where it can.

    Args:
        name: That of the kernel in C.
        types: The dtypes that it takes and gives: ``f`` is float32, ``?`` bool.

    """
    if not LOADED:
        return lambda function: function
    return functools.partial(native.elementwise, name, types)  # type: ignore[union-attr]


def contiguous(*xs: Array | None) -> list[Any] | None:
    """Return the arrays as kernels in C take them; None if one is too large."""
    if any(x is not None and x.size >= MOST for x in xs):
        return None
    return [None if x is None else np.ascontiguousarray(x) for x in xs]


@functools.lru_cache(maxsize=1024)
def described(windows: Windows, back: bool = False) -> Array | None:
    """Return the description of windows for kernels in C; None if they cannot count it.

    The distance of kernel positions may be huge where there is one.
    """
    numbers = windows.numbers(back=back)
    if max(map(abs, numbers)) >= MOST:
        return None
    return np.array(numbers, np.int32)


def around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the numbers of elements before, along and after an axis."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def remarks() -> list[str]:
    """Return what ``python -m plugrad doctor`` tells the user."""
    found = []
    if not native:
        found.append(
            "the memory pool is not in use, because plugrad-cpu was installed without "
            "a C compiler: large arrays take more time"
        )
    if not LOADED:
        found.append(f"the kernels in C are not in use ({LIBRARY}): all run on NumPy")
    return found
