"""The kernels in C: those of plugrad-wasm, compiled for the processor.

Where they are missing (no compiler at the installation, another system), and for dtypes
that they do not have, kernels run on NumPy. ``PLUGRAD_CPU_NATIVE=0`` turns them off.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from plugrad.geometry import Windows

from .pool import missing, native

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]
# What names of kernels end in, by dtype: each set of dtypes holds the one before.
NAMES = {np.dtype(name): f"_{name[0]}{name[-2:]}" for name in ("float32", "float64")}
FLOAT = {np.dtype("float32"): "_f32"}
NUMBERS = NAMES | {np.dtype(name): f"_i{name[-2:]}" for name in ("int32", "int64")}
BITS = NUMBERS | {np.dtype(f"u{t.name}"): NUMBERS[t] for t in [*NUMBERS][2:]}
LEVELS = ["x86_64_v4", "x86_64_v3", "x86_64_v2"]  # a processor has those that follow
MAX_ELEMENTS = 2**31  # exclusive: the kernels count elements in 32 bits
HALVES = "cast_f16_f32", "cast_f32_f16"
COPY_MIN_BYTES = 1 << 16  # from here on the kernels copy faster than NumPy
SUFFIX = ".dll" if sys.platform == "win32" else ".so"  # of libraries


def _library() -> str:
    """Open the library for this processor; return its level, or why there is none."""
    if native is None:
        return missing
    if os.environ.get("PLUGRAD_CPU_NATIVE", "1") == "0":
        return "PLUGRAD_CPU_NATIVE=0"
    best = native.level()
    levels = LEVELS[LEVELS.index(best) :] if best in LEVELS else [best]
    for level in levels:
        path = Path(__file__).parent / "lib" / f"{level}{SUFFIX}"
        if path.exists():
            try:
                native.load(str(path))
                native.get("set_threads")  # older builds have no entry points
            except (OSError, KeyError) as error:
                return f"{path.name} cannot be used: {error}"
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
PARALLEL_FOR: int | None = None
if native and LOADED:
    native.get("set_threads")(threads())
    PARALLEL_FOR = native.address("parallel_for")


def kernels(name: str, names: dict[Any, str] = NAMES) -> dict[Any, Callable[..., None]]:
    """Return the kernels ``<name>_f32`` and so on, by dtype, as far as they exist."""
    found = {}
    for dtype, suffix in names.items() if LOADED else ():
        with contextlib.suppress(KeyError):
            found[dtype] = native.get(f"{name}{suffix}")  # type: ignore[union-attr]
    return found


def strided(name: str) -> Callable[..., None] | None:
    """Return a kernel that takes the strides of its arrays, or None."""
    return native.get_strided(name) if LOADED else None  # type: ignore[union-attr]


def elementwise(name: str, types: str = "f->f") -> Callable[[Kernel], Kernel]:
    """Return a decorator that makes a NumPy kernel run in C where possible.

    Args:
        name: That of the kernel in C.
        types: The dtypes that it takes and gives, by NumPy's letters.

    """
    if not LOADED:
        return lambda function: function
    return functools.partial(native.elementwise, name, types)  # type: ignore[union-attr]


def by_float32(types: str = "f->f") -> Callable[[Kernel], Kernel]:
    """Return a decorator that converts float16 to float32 for a NumPy kernel.

    NumPy itself calculates in float16 one element at a time.

    Args:
        types: The dtypes that it takes and gives of float32, by NumPy's letters.

    """
    return elementwise("", types)


HALF = np.dtype("float16")
FLOAT32 = np.dtype("float32")
WIDEN, ROUND = (kernels(name, {None: ""}).get(None) for name in HALVES)


def widened(x: Array) -> Array:
    """Return an array of float16 as float32, and others as they are."""
    return _converted(x, FLOAT32, WIDEN) if x.dtype == HALF else x


def rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array in a dtype; from float32 to float16, rounded in C."""
    if x.dtype == FLOAT32 and dtype == HALF:
        return _converted(x, HALF, ROUND)
    return x.astype(dtype, copy=False)


def in_float32(kernel: Kernel, *xs: Array | None, **attrs: Any) -> Any:
    """Return the result of a kernel on float16 arrays, computed in float32."""
    y = kernel(*[None if x is None else widened(x) for x in xs], **attrs)
    return y if y is NotImplemented else rounded(y, HALF)


def _converted(x: Array, dtype: np.dtype[Any], function: Any) -> Array:
    """Return ``x.astype(dtype)``, by a function in C if there is one."""
    if function is None or not 0 < x.size < MAX_ELEMENTS:
        return x.astype(dtype)
    y = np.empty(x.shape, dtype)
    function(in_order(x), y, x.size)
    return y


COPY: Any = strided("copy_strided")


def contiguous(*xs: Array | None) -> list[Any] | None:
    """Return contiguous arrays for kernels in C; None if one is too large."""
    if any(x is not None and x.size >= MAX_ELEMENTS for x in xs):
        return None
    return [None if x is None else in_order(x) for x in xs]


def in_order(x: Array) -> Array:
    """Return an aligned, contiguous array in row-major order: ``x`` if it is one."""
    if type(x) is np.ndarray and x.flags.c_contiguous and x.flags.aligned:
        return x
    y = np.empty(x.shape, x.dtype)
    copy(y, x)
    return y


def copy(y: Array, x: Array) -> None:
    """Write ``y[...] = x``; large arrays of one dtype on all threads."""
    large = x.nbytes >= COPY_MIN_BYTES and x.size < MAX_ELEMENTS and LOADED
    alike = x.shape == y.shape and x.dtype is y.dtype and x.dtype.kind in "biufc"
    if large and alike and x.flags.aligned and y.flags.aligned:
        loop = np.array([x.ndim, *x.shape, *x.strides, *y.strides], np.int64)
        COPY(x, y, loop, x.itemsize)
    else:
        y[...] = x


@functools.lru_cache(maxsize=1024)
def described(windows: Windows, back: bool = False) -> Array | None:
    """Return the description of windows for kernels in C; None if they cannot count it.

    The distance of kernel positions may be huge where there is one.
    """
    numbers = windows.numbers(back=back)
    if max(map(abs, numbers)) >= MAX_ELEMENTS:
        return None
    return np.array(numbers, np.int32)


def around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the numbers of elements before, along and after an axis."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def remarks() -> list[str]:
    """Return the remarks for ``python -m plugrad doctor``."""
    found = []
    if not native:
        found.append(
            f"the memory pool is not in use ({missing}): large arrays take more time"
        )
    if not LOADED:
        found.append(f"the kernels in C are not in use ({LIBRARY}): all run on NumPy")
    return found
