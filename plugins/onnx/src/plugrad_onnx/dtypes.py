"""Maps ONNX dtypes to plugrad dtypes, with substitutes for the missing ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

__all__ = ["MAX_EXPANDED_ELEMENTS", "SUB_BYTE_BOUNDS", "domain_of", "dtype_of"]

# The largest number of elements in an array that is smaller in the file than in memory,
# such as a sparse tensor: a guard against decompression bombs.
MAX_EXPANDED_ELEMENTS = 2**24

_SHARED_DTYPES = (
    "FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 BOOL FLOAT16 DOUBLE UINT32 UINT64 "
    "COMPLEX64 COMPLEX128"
)
_DTYPES: dict[int, np.dtype[Any]] = {
    getattr(TensorProto, name): onnx.helper.tensor_dtype_to_np_dtype(
        getattr(TensorProto, name)
    )
    for name in _SHARED_DTYPES.split()
}
# Substitutes for the dtypes that plugrad lacks.
_DTYPES |= {
    TensorProto.BFLOAT16: np.dtype("float32"),
    TensorProto.STRING: np.dtype(object),
    TensorProto.INT4: np.dtype("int8"),
    TensorProto.UINT4: np.dtype("uint8"),
    TensorProto.INT2: np.dtype("int8"),
    TensorProto.UINT2: np.dtype("uint8"),
}
# The smallest and largest integers of dtypes narrower than a byte.
SUB_BYTE_BOUNDS: dict[int, tuple[int, int]] = {
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT4: (0, 15),
    TensorProto.INT2: (-2, 1),
    TensorProto.UINT2: (0, 3),
}


def dtype_of(elem_type: int) -> np.dtype[Any]:
    """Return the plugrad dtype for an ONNX elem_type, or raise TypeError."""
    try:
        return _DTYPES[elem_type]
    except KeyError:
        raise TypeError(
            f"plugrad has no dtype {type_name(elem_type)}: convert the model to "
            "float32 or int8"
        ) from None


def domain_of(name: str) -> str:
    """Return the canonical name of a domain: "" for "ai.onnx"."""
    return "" if name == "ai.onnx" else name


def type_name(elem_type: int) -> str:
    """Return the ONNX name of a dtype."""
    names = {number: name for name, number in TensorProto.DataType.items()}
    return names.get(elem_type, f"number {elem_type}")
