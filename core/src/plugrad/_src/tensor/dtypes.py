"""dtypes, and their promotion: a table for tensors, and a rule for weak scalars.

dtypes are NumPy's, and bfloat16 is that of the package ml_dtypes. Within a kind
(integer, floating, complex) promotion follows the array API; across kinds the higher
kind determines the dtype: int64 with float32 gives float32. bfloat16 with float16 gives
float32, because neither holds the values of the other. A Python or NumPy *scalar* is
weak: it adopts the dtype of the other operand.

Strings have NumPy's object dtype, and all elements are ``bytes``. They stay on the host
and are promoted with strings only.
"""

from __future__ import annotations

import math
import re
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from .hints import DTYPE_NAMES, dtype_hint

DType = np.dtype[Any]

STRING: DType = np.dtype(object)
BFLOAT16: DType = np.dtype(ml_dtypes.bfloat16)
DTYPES: dict[str, DType] = {
    name: {"string": STRING, "bfloat16": BFLOAT16}.get(name) or np.dtype(name)
    for name in DTYPE_NAMES.split()
}
BOOL, INT32, FLOAT32 = (DTYPES[name] for name in ("bool", "int32", "float32"))
COMPLEX64 = DTYPES["complex64"]

_KIND = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3, "O": 4}
_WEAK: dict[type, DType] = {
    bool: BOOL,
    int: INT32,
    float: FLOAT32,
    complex: COMPLEX64,
}
# Every common spelling of a dtype -> the one object that represents it.
_SPELLINGS: dict[Any, DType] = {
    **DTYPES,
    **{dtype: dtype for dtype in DTYPES.values()},
    **{dtype.type: dtype for dtype in DTYPES.values()},
    **_WEAK,
    **{kind.__name__: dtype for kind, dtype in _WEAK.items()},  # "int" means int
    str: STRING,
    "str": STRING,
    bytes: STRING,
}


def named(dtype: DType) -> str:
    """Return the name of a dtype for messages."""
    return "string" if dtype is STRING else dtype.name


def dtype_kind(dtype: DType) -> str:
    """Return NumPy's letter for the kind of a dtype, with "f" for bfloat16.

    NumPy itself says "V", as for every dtype that it does not define.
    """
    return "f" if dtype is BFLOAT16 else dtype.kind


def floating_info(dtype: DType) -> Any:
    """Return ``numpy.finfo`` of a dtype; for bfloat16, the same of ml_dtypes."""
    library: Any = ml_dtypes if dtype is BFLOAT16 else np
    return library.finfo(dtype)


def _rank(dtype: DType) -> int:
    return _KIND[dtype_kind(dtype)]


def _promoted(a: DType, b: DType) -> DType | None:
    low, high = sorted((a, b), key=_rank)
    if high is STRING:
        return STRING if low is STRING else None
    if {a, b} == {BFLOAT16, DTYPES["float16"]}:
        return FLOAT32
    if _rank(low) == _rank(high) or (high.kind == "c" and dtype_kind(low) == "f"):
        joined = np.promote_types(a, b)
        return joined if _rank(joined) == _rank(high) else None
    return high


TABLE = {
    (a, b): joined
    for a in DTYPES.values()
    for b in DTYPES.values()
    if (joined := _promoted(a, b)) is not None
}


def promote(op: str, a: DType, b: DType) -> DType:
    """Return the dtype to which tensors of ``a`` and ``b`` are promoted."""
    try:
        return TABLE[a, b]
    except KeyError:
        raise TypeError(
            f"{op}: no dtype holds both {named(a)} and {named(b)}; cast one"
        ) from None


def dtype_of(value: object) -> DType:
    """Return the dtype that a Python number has by itself, such as float32 or int32."""
    for kind, dtype in _WEAK.items():
        if isinstance(value, kind):
            return dtype
    raise TypeError(f"expected a number, got {type(value).__name__}")


def weak(op: str, value: complex | np.generic, other: DType) -> DType:
    """Return the dtype of a scalar in an op with a tensor of dtype ``other``.

    A float with integers gives float32, a complex number with floats complex64.

    Raises:
        OverflowError: The dtype cannot hold the number.

    """
    plain = value.item() if isinstance(value, np.generic) else value
    own = dtype_of(plain)
    dtype = other if other is not STRING else promote(op, own, other)
    if _rank(own) > _rank(other):
        dtype = TABLE[own, other] if dtype_kind(other) == "f" else own
    check_range(op, plain, dtype)
    return dtype


def _limits(dtype: DType) -> tuple[float, float]:
    """Return the least and the greatest finite number of a dtype."""
    if dtype_kind(dtype) in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if dtype_kind(dtype) in "fc":
        return float(floating_info(dtype).min), float(floating_info(dtype).max)
    return -math.inf, math.inf  # bool accepts every number


LIMITS = {dtype: _limits(dtype) for dtype in DTYPES.values()}


def _rounding(dtype: DType) -> tuple[float, float]:
    """Return the least and the greatest number that do not round to infinity."""
    low, high = LIMITS[dtype]
    if dtype_kind(dtype) not in "fc":
        return low, high
    info = floating_info(dtype)
    half = math.ldexp(float(info.eps), info.maxexp - 2)  # half an ulp of ``high``
    high = math.nextafter(high + half, 0)
    return -high, high


_ROUNDING = {dtype: _rounding(dtype) for dtype in DTYPES.values()}


def check_range(op: str, value: complex, dtype: DType) -> None:
    """Raise OverflowError if ``dtype`` cannot hold a Python number.

    An integer dtype holds a floating number if its integer part fits, but neither NaN
    nor infinities; a floating dtype holds every number that does not round to infinity.
    """
    low, high = _ROUNDING[dtype]
    whole = dtype_kind(dtype) in "iu"
    for part in (value.real, value.imag):
        if part - part:  # true for NaN and infinities
            if whole:
                raise OverflowError(f"{op}: {dtype} cannot hold {part}")
        elif not low <= (int(part) if whole else part) <= high:
            raise OverflowError(
                f"{op}: {value} does not fit into {dtype}; ask for a wider dtype"
            )


def canonical(dtype: Any) -> DType:
    """Return plugrad's object for a dtype; ``float`` is float32, ``"int"`` is int32."""
    try:
        return _SPELLINGS[dtype]
    except (KeyError, TypeError):
        pass
    # NumPy knows other spellings, and the other byte order. But to NumPy, None means
    # float64, and a module means the value of its attribute ``dtype``.
    try:
        is_refused = dtype is None or isinstance(dtype, ModuleType)
        name = repr(dtype) if is_refused else np.dtype(dtype).name
    except (TypeError, ValueError):
        name = repr(dtype)
    if name not in DTYPES:
        words = re.findall(r"\w+", name)
        own = next((word for word in words if word in DTYPES), "")  # for torch.float32
        hint = f"write plugrad.{own}" if own else dtype_hint(name)
        hint = hint or f"use one of {DTYPE_NAMES}"
        raise TypeError(f"dtype {name} is not supported; {hint}")
    return DTYPES[name]


def differentiable(dtype: DType) -> bool:
    """Return whether tapes track tensors of this dtype."""
    return dtype_kind(dtype) in "fc"
