"""DLPack capsules of bfloat16, which NumPy neither makes nor reads.

NumPy shares the memory as uint16. The functions change the dtype that the capsule
declares, which is all that differs.

Contents: the structures of DLPack; ``capsule``, to export; ``host_array``, to import.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .dtypes import BFLOAT16, DType

UINT16 = np.dtype("uint16")
UINT, BFLOAT = 1, 4  # codes of DLPack


class _Array(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """``DLManagedTensor``."""

    _fields_ = (
        ("array", _Array),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``, since DLPack 1.0."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("array", _Array),
    )


_NAMES: tuple[tuple[bytes, Any], ...] = (
    (b"dltensor", _Managed),
    (b"dltensor_versioned", _Versioned),
)


def _declare(capsule: Any, old: int, new: int) -> None:
    """Change the code of the dtype in a capsule of 16-bit numbers.

    Raises:
        BufferError: The capsule does not contain an array with the old code.

    """
    python = ctypes.pythonapi
    python.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
    python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    for name, structure in _NAMES:
        if not python.PyCapsule_IsValid(capsule, name):
            continue
        pointer = python.PyCapsule_GetPointer(capsule, name)
        array = structure.from_address(pointer).array
        if (array.code, array.bits, array.lanes) == (old, 16, 1):
            array.code = new
            return
    raise BufferError("from_dlpack: the capsule does not contain bfloat16 numbers")


def capsule(values: np.ndarray[Any, DType], **how: Any) -> Any:
    """Return a capsule of a bfloat16 array; ``how`` is passed to ``__dlpack__``."""
    found = values.view(UINT16).__dlpack__(**how)
    _declare(found, UINT, BFLOAT)
    return found


def is_bfloat16(x: Any) -> bool:
    """Return whether an array of any library has the dtype bfloat16."""
    return str(getattr(x, "dtype", "")).rpartition(".")[2] == "bfloat16"


class _AsUint16:
    """An exporter of bfloat16 that declares uint16, for NumPy."""

    def __init__(self, x: Any) -> None:
        self._x = x

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._x.__dlpack_device__()
        return device

    def __dlpack__(self, **how: Any) -> Any:
        """Return a capsule of uint16 numbers with the same bits."""
        found = self._x.__dlpack__(**how)
        _declare(found, BFLOAT, UINT)
        return found


def host_array(x: Any, device: Any) -> np.ndarray[Any, DType]:
    """Return the bfloat16 array of another library; shares its memory if it can.

    Args:
        x: The array, with ``__dlpack__``.
        device: As for ``numpy.from_dlpack``.

    """
    if isinstance(x, np.ndarray):
        return x
    return np.from_dlpack(_AsUint16(x), device=device).view(BFLOAT16)
