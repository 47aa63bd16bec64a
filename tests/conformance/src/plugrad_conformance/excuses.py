"""Decides which failures are not faults of a backend: undeclared dtypes, a missing cpu.

A missing dtype excuses a test only if the test asks for this dtype: a parameter of the
test names the dtype or a kernel with such results, or an argument of the failed call
has the dtype. If an op produces the dtype from others, the op is wrong and the test
fails.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.plugin import runtime

SUMMED_IN_UINT32 = ("uint8", "uint16")
PACKAGE = str(Path(__file__).parent)
COMPLEX_OF_REAL = ("Eig", "Eigvals")
_NO_DTYPE_MESSAGE = re.compile(r"backend '([^']+)' has no (\w+)")
_VARIADIC = 4 | 8  # CO_VARARGS, CO_VARKEYWORDS


def excuse(error: BaseException, backend: str, parameters: object) -> str:
    """Return why a test that raised ``error`` cannot run on ``backend``, or ""."""
    for cause in _causes(error):
        dtype = _missing_dtype(cause, backend)
        sources = (parameters, _arguments(cause))
        if dtype and (
            any(mentions_dtype(a, dtype) for a in sources)
            or makes_complex(parameters, dtype)
        ):
            return f"{backend} has no {dtype}"
        if isinstance(cause, MemoryError) and f"{backend!r} holds at most" in str(
            cause
        ):
            return f"{backend} holds no array of this size: max_nbytes"
        if _asked_for_cpu(cause) and runtime(backend).host != "cpu":
            return "needs plugrad-cpu, the reference"
    return ""


def mentions_dtype(value: object, dtype: str) -> bool:
    """Return whether a value, or an element of it, has a dtype or names it.

    Text stands for ``string``, Python complex numbers for complex64, and integers of
    more than 32 bits for int64. Small unsigned integers also stand for uint32, the
    dtype of their sums.
    """
    match value:
        case np.ndarray() | np.generic() | pg.Tensor() | np.dtype():
            known = value if isinstance(value, np.dtype) else value.dtype
            name = "string" if known.kind in "OSUT" else known.name
            return dtype == name or (name in SUMMED_IN_UINT32 and dtype == "uint32")
        case str():
            return (
                dtype in ("string", value) or np.dtype(_dtype_name(dtype)).char == value
            )
        case bytes():
            return dtype == "string"
        case bool():
            return False
        case int():
            return dtype == "int64" and value.bit_length() > 31
        case complex():
            return dtype == "complex64"
        case type():
            return value is np.dtype(_dtype_name(dtype)).type
        case dict():
            return mentions_dtype([*value, *value.values()], dtype)
        case list() | tuple() | set():
            return any(mentions_dtype(part, dtype) for part in value)
    if dataclasses.is_dataclass(value):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return mentions_dtype(fields, dtype)
    return hasattr(value, "__array__") and mentions_dtype(np.asarray(value), dtype)


def makes_complex(parameters: object, dtype: str) -> bool:
    """Return whether a parameter is a kernel with complex results for real inputs."""
    given = parameters.values() if isinstance(parameters, dict) else ()
    return dtype.startswith("complex") and any(
        isinstance(value, str) and value in COMPLEX_OF_REAL for value in given
    )


def _dtype_name(dtype: str) -> str:
    return "object" if dtype == "string" else dtype


def _missing_dtype(error: BaseException, backend: str) -> str:
    """Return the dtype whose lack a TypeError reports, or ""."""
    found = (
        _NO_DTYPE_MESSAGE.search(str(error)) if isinstance(error, TypeError) else None
    )
    if found is None or found[1] != backend:
        return ""
    dtype = found[2].replace("strings", "string")
    return "" if dtype in runtime(backend).dtypes else dtype


def _arguments(error: BaseException) -> list[Any]:
    """Return the arguments of the failed call from this package to another one."""
    frames = [*_frames(error)]
    files = [frame.f_code.co_filename for frame in frames]
    own_frames = [
        i for i, p in enumerate(files) if p == "<string>" or p.startswith(PACKAGE)
    ]
    if not own_frames or own_frames[-1] + 1 == len(frames):
        return []
    frame = frames[own_frames[-1] + 1]
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += (code.co_flags & _VARIADIC).bit_count()
    return [frame.f_locals.get(name) for name in code.co_varnames[:count]]


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _asked_for_cpu(error: BaseException) -> bool:
    """Return whether the error says that cpu, the reference, is not installed."""
    missing = isinstance(error, pg.BackendUnavailable) and "'cpu'" in str(error)
    return missing and "cpu" not in pg.backends()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
