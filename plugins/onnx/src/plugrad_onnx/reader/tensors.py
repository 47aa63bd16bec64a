"""Reads tensors, types and external data, and checks each of them first.

Allocations are charged to the budget of ``load``.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import plugrad as pg
from onnx import TensorProto, TypeProto, numpy_helper
from plugrad.importing import ValueInfo

from ..dtypes import (
    BFLOAT16,
    MAX_EXPANDED_ELEMENTS,
    NARROW_FLOATS,
    dtype_of,
    stored_dtype_of,
)

__all__ = ["described", "to_array", "to_dense"]

STRING_BYTES = 64  # memory of a short str in an array
Array = np.ndarray[Any, Any]
_BITS: dict[int, int] = {TensorProto.INT4: 4, TensorProto.UINT4: 4}
_BITS |= {TensorProto.INT2: 2, TensorProto.UINT2: 2} | NARROW_FLOATS


def described(name: str, kind: TypeProto) -> ValueInfo:
    """Return the ``ValueInfo`` of a value; raise TypeError for an unsupported dtype."""
    while kind.WhichOneof("value") == "optional_type":
        kind = kind.optional_type.elem_type
    tensor = kind.tensor_type
    if kind.WhichOneof("value") != "tensor_type" or not tensor.elem_type:
        return ValueInfo(name)
    shape: tuple[int | str | None, ...] | None = None
    if tensor.HasField("shape"):
        shape = tuple(_size(dim) for dim in tensor.shape.dim)
    return ValueInfo(name, dtype_of(tensor.elem_type), shape)


def _size(dim: Any) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value >= 0:  # -1: dynamic
        return int(dim.dim_value)
    return str(dim.dim_param) or None


def to_array(
    tensor: TensorProto, folder: Path | None = None, budget: pg.Budget | None = None
) -> Array:
    """Return the values of a tensor after checking that their count fits its shape.

    Args:
        tensor: The protobuf message.
        folder: The folder of external data; None: external data is refused.
        budget: The budget to which the values are charged.

    """
    budget = pg.Budget() if budget is None else budget
    shape = tuple(tensor.dims)
    kind = tensor.data_type
    dtype = stored_dtype_of(kind)
    if any(n < 0 for n in shape):
        raise ValueError(f"its shape {shape} has a negative size")
    count = math.prod(shape)
    bits = _BITS.get(kind, 8 * dtype.itemsize)
    if tensor.data_location == TensorProto.EXTERNAL:
        return _from_file(tensor, folder, budget, (count * bits + 7) // 8)
    if kind == TensorProto.STRING:
        given = len(tensor.string_data)
        if given != count:
            raise ValueError(f"its shape {shape} needs {count} strings, not {given}")
        budget.allocate(STRING_BYTES * count + sum(map(len, tensor.string_data)))
        values = [one.decode("utf-8", "surrogateescape") for one in tensor.string_data]
        return np.array(values, object).reshape(shape)
    if tensor.HasField("raw_data"):
        given = len(tensor.raw_data)
        needed = (count * bits + 7) // 8
    else:
        fields = (
            "float_data",
            "int32_data",
            "int64_data",
            "double_data",
            "uint64_data",
        )
        given = sum(len(getattr(tensor, name)) for name in fields)
        packed = 8 // bits if bits < 8 else 1
        needed = -(-count // packed) * (2 if dtype.kind == "c" else 1)
    if given != needed:
        raise ValueError(
            f"its shape {shape} needs {needed} values or bytes, not {given}"
        )
    budget.allocate(count * dtype.itemsize)
    return _copy_as(numpy_helper.to_array(tensor), dtype)


def _copy_as(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return a copy of the values in a plugrad dtype."""
    if dtype == BFLOAT16 and values.dtype != dtype:  # a narrower floating dtype
        return values.astype(np.float32).astype(dtype)
    return np.array(values.astype(dtype) if values.dtype != dtype else values)


def _from_file(
    tensor: TensorProto, folder: Path | None, budget: pg.Budget, needs: int
) -> Array:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ValueError(
            f"its data is in the file {location!r}: load the model by its path"
        )
    offset = _number(entries.get("offset", "0"))
    length = _number(entries.get("length", str(needs)))
    try:
        file = budget.open(location, folder)
    except (FileNotFoundError, IsADirectoryError):
        message = (
            f"its data is in the file {location!r}, which does not exist or is a folder"
        )
        raise ValueError(message) from None
    except OSError as error:
        raise ValueError(f"its data is in the file {location!r}: {error}") from None
    with file:
        size = os.fstat(file.fileno()).st_size
        if length != needs or offset + length > size:
            raise ValueError(
                f"its shape {tuple(tensor.dims)} needs {needs} bytes; the file "
                f"{location!r} of {size} bytes provides {length} bytes at {offset}"
            )
        budget.allocate(needs)
        file.seek(offset)
        inline = TensorProto(data_type=tensor.data_type, dims=tensor.dims)
        inline.raw_data = file.read(length)
    return to_array(inline, None, budget)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError(
            f"the offset or length of its external data is {text!r}; expected up to 18 "
            "digits"
        )
    return int(text)


def to_dense(
    sparse: onnx.SparseTensorProto, folder: Path | None, budget: pg.Budget
) -> Array:
    """Return a sparse tensor as a dense array of limited size."""
    shape = tuple(sparse.dims)
    if any(n < 0 for n in shape) or math.prod(shape) > MAX_EXPANDED_ELEMENTS:
        raise ValueError(
            f"its shape {shape} has a negative size, or more than "
            f"{MAX_EXPANDED_ELEMENTS} elements"
        )
    values = to_array(sparse.values, folder, budget)
    indices = to_array(sparse.indices, folder, budget)
    if indices.dtype != np.int64:
        raise TypeError(f"its indices are {indices.dtype}, not int64")
    budget.allocate(math.prod(shape) * values.itemsize)
    y = np.zeros(shape, values.dtype)
    if indices.ndim == 1:
        y.reshape(-1)[indices] = values
    else:
        y[tuple(indices.T)] = values
    return y
