"""Maps ONNX dtypes to plugrad dtypes, with substitutes for the missing ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import plugrad as pg
from onnx import TensorProto

__all__ = [
    "BFLOAT16",
    "HALVES",
    "MAX_EXPANDED_ELEMENTS",
    "NARROW_FLOATS",
    "SUB_BYTE_BOUNDS",
    "domain_of",
    "dtype_of",
    "is_floating",
    "stored_dtype_of",
]

# The largest number of elements in an array that is smaller in the file than in memory,
# such as a sparse tensor: a guard against decompression bombs.
MAX_EXPANDED_ELEMENTS = 2**24

_SHARED_DTYPES = (
    "FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 BOOL FLOAT16 DOUBLE UINT32 UINT64 "
    "COMPLEX64 COMPLEX128"
)
BFLOAT16: np.dtype[Any] = pg.bfloat16
_DTYPES: dict[int, np.dtype[Any]] = {
    getattr(TensorProto, name): onnx.helper.tensor_dtype_to_np_dtype(
        getattr(TensorProto, name)
    )
    for name in _SHARED_DTYPES.split()
}
_DTYPES[TensorProto.BFLOAT16] = BFLOAT16
HALVES = (np.dtype("float16"), BFLOAT16)  # 16 bits: sums and rounding are in float32
# Substitutes for the dtypes that plugrad lacks.
_DTYPES |= {
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


# Floats of 8 and 4 bits, with the number of bits. Stored values become bfloat16, which
# holds all of them exactly. plugrad does not round to these dtypes.
NARROW_FLOATS: dict[int, int] = {
    TensorProto.FLOAT8E4M3FN: 8,
    TensorProto.FLOAT8E4M3FNUZ: 8,
    TensorProto.FLOAT8E5M2: 8,
    TensorProto.FLOAT8E5M2FNUZ: 8,
    TensorProto.FLOAT4E2M1: 4,
}


def stored_dtype_of(elem_type: int) -> np.dtype[Any]:
    """Return the plugrad dtype for values in a file, or raise TypeError."""
    return BFLOAT16 if elem_type in NARROW_FLOATS else dtype_of(elem_type)


def dtype_of(elem_type: int) -> np.dtype[Any]:
    """Return the plugrad dtype for an ONNX elem_type, or raise TypeError."""
    try:
        return _DTYPES[elem_type]
    except KeyError:
        raise TypeError(
            f"plugrad has no dtype {type_name(elem_type)}: convert the model to "
            "float32 or int8"
        ) from None


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is real and floating; NumPy does not know bfloat16."""
    return pg.isdtype(dtype, "real floating")


def domain_of(name: str) -> str:
    """Return the canonical name of a domain: "" for "ai.onnx"."""
    return "" if name == "ai.onnx" else name


def type_name(elem_type: int) -> str:
    """Return the ONNX name of a dtype."""
    names = {number: name for name, number in TensorProto.DataType.items()}
    return names.get(elem_type, f"number {elem_type}")
