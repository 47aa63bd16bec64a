"""plugrad as an array API standard namespace: dtypes, constants, inspection.

No kernels. ``Tensor.__array_namespace__`` returns ``plugrad`` itself.

Contents: dtypes and constants; dtype functions; ``__array_namespace_info__``.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from plugrad._src.engine.control import backends
from plugrad._src.engine.dispatch import active
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.arguments import choice
from plugrad._src.tensor.dtypes import (
    DTYPES,
    STRING,
    DType,
    canonical,
    dtype_kind,
    floating_info,
    named,
    promote,
    weak,
)
from plugrad._src.tensor.tensor import Tensor

from .basis import _convert
from .basis.variable import Variable

__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "bfloat16",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "e",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

__array_api_version__ = "2025.12"

# --- dtypes and constants --------------------------------------------------------

bool: DType = DTYPES["bool"]
int8: DType = DTYPES["int8"]
int16: DType = DTYPES["int16"]
int32: DType = DTYPES["int32"]
int64: DType = DTYPES["int64"]
uint8: DType = DTYPES["uint8"]
uint16: DType = DTYPES["uint16"]
uint32: DType = DTYPES["uint32"]
uint64: DType = DTYPES["uint64"]
float16: DType = DTYPES["float16"]
bfloat16: DType = DTYPES["bfloat16"]
float32: DType = DTYPES["float32"]
float64: DType = DTYPES["float64"]
complex64: DType = DTYPES["complex64"]
complex128: DType = DTYPES["complex128"]

e: float = math.e
pi: float = math.pi
inf: float = math.inf
nan: float = math.nan
newaxis = None

# --- functions of dtypes ---------------------------------------------------------


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Return whether a dtype is of the given kind.

    Args:
        dtype: A dtype, or its name.
        kind: A dtype; or one of "bool", "signed integer", "unsigned integer",
            "integral", "real floating", "complex floating", "numeric"; or a tuple of
            kinds, at least one of which must match.

    Returns:
        True or False. The dtype ``string`` belongs to none of the named kinds.

    Raises:
        TypeError: The dtype is unknown.
        ValueError: The kind is unknown.

    Example:
        >>> pg.isdtype(pg.float32, "real floating")
        True
        >>> pg.isdtype(pg.int32, ("bool", "unsigned integer"))
        False

    Source:
        The array API standard.

    """
    dtype = canonical(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if not isinstance(kind, str) or kind in DTYPES:
        return dtype is canonical(kind)
    kinds = {
        "bool": "b",
        "signed integer": "i",
        "unsigned integer": "u",
        "integral": "iu",
        "real floating": "f",
        "complex floating": "c",
        "numeric": "iufc",
    }
    return dtype_kind(dtype) in kinds[choice("isdtype", "kind", kind, *kinds)]


class Limits(NamedTuple):
    """The limits of a floating dtype, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


def finfo(type: Any, /) -> Limits:
    """Return the limits of a floating dtype.

    Args:
        type: A floating or complex dtype, or a tensor.

    Returns:
        An object with ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal`` and
        ``dtype``; for a complex dtype, the limits of its real and imaginary parts.

    Raises:
        TypeError: The dtype is not floating.

    Example:
        >>> pg.finfo(pg.float32).bits
        32

    Source:
        The array API standard.

    """
    dtype = _dtype(type)
    if dtype_kind(dtype) not in "fc":
        raise TypeError(
            f"finfo: {named(dtype)} is not floating; use iinfo for integers"
        )
    info = floating_info(dtype)
    numbers = (info.eps, info.max, info.min, info.smallest_normal)
    eps, high, low, normal = map(float, numbers)
    return Limits(info.bits, eps, high, low, normal, canonical(info.dtype))


def iinfo(type: Any, /) -> np.iinfo[Any]:
    """Return the limits of an integer dtype, as ``numpy.iinfo`` does.

    Args:
        type: An integer dtype, or a tensor.

    Returns:
        An object with ``bits``, ``max``, ``min`` and ``dtype``.

    Raises:
        TypeError: The dtype is not an integer dtype.

    Example:
        >>> pg.iinfo(pg.int32).max
        2147483647

    Source:
        The array API standard.

    """
    dtype = _dtype(type)
    if dtype_kind(dtype) not in "iu":
        raise TypeError(f"iinfo: {named(dtype)} is not an integer dtype; use finfo")
    return np.iinfo(dtype)


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Return whether type promotion can convert one dtype to another.

    Args:
        from_: A dtype, or a tensor.
        to: A dtype.

    Returns:
        True if ``result_type(from_, to)`` is ``to``.

    Raises:
        TypeError: A dtype is unknown.

    Example:
        >>> pg.can_cast(pg.int32, pg.int64), pg.can_cast(pg.float64, pg.float32)
        (True, False)

    Source:
        The array API standard.

    """
    source = _dtype(from_)
    target = canonical(to)
    try:
        return promote("can_cast", source, target) is target
    except TypeError:
        return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype to which tensors, dtypes and numbers promote.

    Args:
        arrays_and_dtypes: Tensors, dtypes and Python numbers. Numbers are weakly typed:
            they adopt the dtype of the tensors and dtypes, as in an operation.

    Returns:
        A dtype.

    Raises:
        TypeError: No dtype can represent all of them, or there is no argument.

    Example:
        >>> pg.result_type(pg.int32, pg.float32)
        dtype('float32')
        >>> pg.result_type(pg.zeros(2, dtype="int32"), 1.5)
        dtype('float32')

    Source:
        The array API standard.

    """
    numbers = [x for x in arrays_and_dtypes if _is_number(x)]
    dtypes = [_dtype(x) for x in arrays_and_dtypes if not _is_number(x)]
    if not arrays_and_dtypes:
        raise TypeError("result_type: expected tensors or dtypes, got none")
    if not dtypes:
        dtypes = [_convert.asarray(numbers[0]).dtype]
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = promote("result_type", found, dtype)
    for x in numbers:
        found = promote("result_type", found, weak("result_type", x, found))
    return found


def _is_number(x: object) -> builtins.bool:
    return isinstance(x, builtins.bool | int | float | complex)


def _dtype(given: Any) -> DType:
    """Return ``given`` as a dtype, or the dtype of a tensor."""
    return given.dtype if isinstance(given, Tensor | Variable) else canonical(given)


# --- inspection ------------------------------------------------------------------


class Info:
    """A description of the namespace; ``__array_namespace_info__`` returns it."""

    def capabilities(self) -> dict[str, Any]:
        """Return the optional features: masks, data-dependent shapes, maximum rank."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> str:
        """Return the device of new tensors: the active backend."""
        return active().name

    def devices(self) -> tuple[str, ...]:
        """Return the available devices: the usable backends."""
        return tuple(backends())

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the default dtypes of Python numbers and of indices."""
        _open_backend(device)
        return {
            "real floating": float32,
            "complex floating": complex64,
            "integral": int32,
            "indexing": int32,
        }

    def dtypes(
        self, *, device: str | None = None, kind: str | Sequence[str] | None = None
    ) -> dict[str, DType]:
        """Return a dict of a device's dtypes, limited to those of ``kind`` if given."""
        backend = _open_backend(device)
        kinds = tuple(kind) if isinstance(kind, list | tuple) else kind
        not_in_the_standard = (float16, bfloat16, STRING)
        return {
            name: dtype
            for name, dtype in DTYPES.items()
            if dtype in backend.dtypes and dtype not in not_in_the_standard
            if kinds is None or isdtype(dtype, kinds)
        }


def _open_backend(device: str | None) -> Any:
    return active() if device is None else registry.open(device, "device")


def __array_namespace_info__() -> Info:
    """Return an object that describes the namespace: capabilities, devices and dtypes.

    Returns:
        An object with the methods ``capabilities``, ``default_device``, ``devices``,
        ``default_dtypes`` and ``dtypes``.

    Example:
        >>> pg.__array_namespace_info__().default_dtypes()["integral"]
        dtype('int32')

    Source:
        The array API standard.

    """
    return Info()
