"""The kernels in C, compiled for the processor from sources that plugrad-wasm shares.

Kernels run on NumPy for dtypes that C does not support, and if the C kernels are
missing (installed without a compiler, or an unsupported system).
``PLUGRAD_CPU_NATIVE=0`` turns the C kernels off.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import plugrad
from plugrad.geometry import Windows

from .pool import missing, native

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]
# The suffixes of kernel names by dtype; each table extends the one before.
FLOAT_SUFFIXES = {
    np.dtype(name): f"_{name[0]}{name[-2:]}" for name in ("float32", "float64")
}
FLOAT32_SUFFIX = {np.dtype("float32"): "_f32"}
SIGNED_SUFFIXES = FLOAT_SUFFIXES | {
    np.dtype(name): f"_i{name[-2:]}" for name in ("int32", "int64")
}
NUMBER_SUFFIXES = SIGNED_SUFFIXES | {
    np.dtype(f"u{t.name}"): SIGNED_SUFFIXES[t] for t in [*SIGNED_SUFFIXES][2:]
}
LEVELS = ["x86_64_v4", "x86_64_v3", "x86_64_v2"]  # a level includes the levels after it
MAX_ELEMENTS = 2**31  # arrays must have fewer, because kernels count in 32 bits
HALVES = "cast_f16_f32", "cast_f32_f16"
COPY_MIN_BYTES = 1 << 16  # from this size on, C copies faster than NumPy
SUFFIX = ".dll" if sys.platform == "win32" else ".so"  # suffix of library names


def _open_library() -> str:
    """Open the library for this processor; return its level, or why it is missing."""
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
    """Return the number of threads that the kernels use.

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


LIBRARY = _open_library()
LOADED = LIBRARY in (*LEVELS, "aarch64")
PARALLEL_FOR: int | None = None
if native and LOADED:
    native.get("set_threads")(threads())
    PARALLEL_FOR = native.address("parallel_for")


def kernels(
    name: str, names: dict[Any, str] = FLOAT_SUFFIXES
) -> dict[Any, Callable[..., None]]:
    """Return the existing kernels of the form ``<name>_f32``, by dtype."""
    found = {}
    for dtype, suffix in names.items() if LOADED else ():
        with contextlib.suppress(KeyError):
            found[dtype] = native.get(f"{name}{suffix}")  # type: ignore[union-attr]
    return found


def strided(name: str) -> Callable[..., None] | None:
    """Return a kernel that accepts arrays of any strides; None without a library."""
    return native.get_strided(name) if LOADED else None  # type: ignore[union-attr]


def elementwise(name: str, types: str = "f->f") -> Callable[[Kernel], Kernel]:
    """Return a decorator that makes a NumPy kernel run in C where possible.

    Args:
        name: The name of the C kernel.
        types: The dtypes of inputs and result, as NumPy's type characters.

    """
    if not LOADED:
        return lambda function: function
    return functools.partial(native.elementwise, name, types)  # type: ignore[union-attr]


def by_float32(types: str = "f->f") -> Callable[[Kernel], Kernel]:
    """Return a decorator that makes a NumPy kernel compute float16 in float32.

    NumPy itself computes float16 one element at a time.

    Args:
        types: The dtypes of inputs and result for float32, as NumPy's type characters.

    """
    return elementwise("", types)


HALF = np.dtype("float16")
FLOAT32 = np.dtype("float32")
WIDEN, ROUND = (kernels(name, {None: ""}).get(None) for name in HALVES)


def widened(x: Array) -> Array:
    """Return a float16 array as float32; return other arrays unchanged."""
    return _convert(x, FLOAT32, WIDEN) if x.dtype == HALF else x


def rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array in another dtype; C rounds float32 to float16."""
    if x.dtype == FLOAT32 and dtype == HALF:
        return _convert(x, HALF, ROUND)
    return x.astype(dtype, copy=False)


def in_float32(kernel: Kernel, *xs: Array | None, **attrs: Any) -> Any:
    """Return the result of a kernel on float16 arrays, computed in float32."""
    y = kernel(*[None if x is None else widened(x) for x in xs], **attrs)
    return y if y is NotImplemented else rounded(y, HALF)


BFLOAT16: np.dtype[Any] = plugrad.bfloat16
FROM_BFLOAT16, TO_BFLOAT16 = (
    kernels(name, {None: ""}).get(None) for name in ("cast_bf16_f32", "cast_f32_bf16")
)


def from_bfloat16(x: Array) -> Array:
    """Return a bfloat16 array as float32."""
    return _convert(x, FLOAT32, FROM_BFLOAT16)


def to_bfloat16(x: Array) -> Array:
    """Return a float32 array as bfloat16: rounded to nearest, ties to even."""
    return _convert(x, BFLOAT16, TO_BFLOAT16)


def _convert(x: Array, dtype: np.dtype[Any], function: Any) -> Array:
    """Return ``x.astype(dtype)``, computed by a C function if there is one."""
    if function is None or not 0 < x.size < MAX_ELEMENTS:
        return x.astype(dtype)
    y = np.empty(x.shape, dtype)
    function(as_contiguous(x), y, x.size)
    return y


COPY: Any = strided("copy_strided")
ARE_READABLE: Any = native.are_readable if native else None


def contiguous(*xs: Array | None) -> Sequence[Any] | None:
    """Return the arrays, made contiguous for C kernels; None if one is too large."""
    if ARE_READABLE and ARE_READABLE(*xs):
        return xs
    found: list[Any] = []
    for x in xs:
        if x is not None and x.size >= MAX_ELEMENTS:
            return None
        found.append(None if x is None else as_contiguous(x))
    return found


def as_contiguous(x: Array) -> Array:
    """Return ``x`` as an aligned, row-major array: ``x`` itself if it is one."""
    if type(x) is np.ndarray and (flags := x.flags).c_contiguous and flags.aligned:
        return x
    y = np.empty(x.shape, x.dtype)
    copy(y, x)
    return y


def copy(y: Array, x: Array) -> None:
    """Copy ``x`` into ``y``; all threads copy large arrays of the same dtype."""
    large = x.nbytes >= COPY_MIN_BYTES and x.size < MAX_ELEMENTS and LOADED
    alike = x.shape == y.shape and x.dtype is y.dtype and x.dtype.kind in "biufc"
    if large and alike and x.flags.aligned and y.flags.aligned:
        loop = np.array([x.ndim, *x.shape, *x.strides, *y.strides], np.int64)
        COPY(x, y, loop, x.itemsize)
    else:
        y[...] = x


@functools.lru_cache(maxsize=1024)
def describe_windows(windows: Windows, back: bool = False) -> Array | None:
    """Return the description of windows for C; None if a number exceeds int32.

    Dilations and strides may be that large if an axis has a single position.
    """
    numbers = windows.numbers(back=back)
    if max(map(abs, numbers)) >= MAX_ELEMENTS:
        return None
    return np.array(numbers, np.int32)


def sizes_around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the products of the sizes before, at and after an axis."""
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
