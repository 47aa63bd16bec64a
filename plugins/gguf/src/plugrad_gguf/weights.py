"""Stores weights in memory and multiplies by them.

Only this module and ``packed`` know how a weight is stored: packed or in bfloat16, as
in the file, if the backend can multiply by it, else as float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
import plugrad as pg
from plugrad.plugin import runtime

from .packed import PackedWeight, can_pack, is_packed_type, packed_bytes
from .reader import Array, GgufFile, TensorInfo

__all__ = ["Params", "Weight", "convert", "is_supported", "stored_bytes"]

# The number of elements converted at once; temporary arrays are a few times as large.
CHUNK_ELEMENTS = 2**20


@dataclass(frozen=True)
class Weight:
    """A matrix ``[outputs, inputs]`` of a model.

    Attributes:
        values: The elements: float32 or bfloat16.
        rounded: Whether inputs of products are rounded to the dtype of the elements.

    """

    values: pg.Tensor
    rounded: bool = False

    @classmethod
    def from_file(cls, info: TensorInfo, *, rounded: bool = False) -> Weight:
        """Return a matrix of a file on the active backend."""
        if not _is_read_in_bfloat16(info):
            return cls(pg.asarray(convert(info)))
        bits = info.data.view("<u2").astype(np.uint16)
        values = pg.asarray(bits.view(pg.bfloat16).reshape(info.shape))
        return cls(values, rounded)

    def product(self, x: pg.Tensor) -> pg.Tensor:
        """Return ``x @ w.T``, ``[..., outputs]``, for ``x`` of ``[..., inputs]``."""
        if not self.rounded:
            return pg.matmul(x, self.values, transpose_b=True)
        inputs = pg.astype(x, self.values.dtype)
        return pg.matmul(
            inputs, self.values, transpose_b=True, preferred_element_type=x.dtype
        )

    def rows(self, codes: pg.Tensor) -> pg.Tensor:
        """Return the rows with the given indices, ``[*codes.shape, inputs]``."""
        rows = pg.take(self.values, codes, axis=0)
        return pg.astype(rows, pg.float32, copy=False)


def _is_read_in_bfloat16(info: TensorInfo) -> bool:
    """Return whether the active backend multiplies by a matrix as it is in the file."""
    here = runtime(pg.get_backend())
    return info.kind == gguf.GGMLQuantizationType.BF16 and "MixedMatMul" in here.kernels


@dataclass(frozen=True)
class Params:
    """The weights of a model by name, on one backend.

    Attributes:
        matrices: Tensors with two axes.
        vectors: Tensors with one axis: scales of norms, biases.

    """

    matrices: Mapping[str, Weight | PackedWeight]
    vectors: Mapping[str, pg.Tensor]

    def __jit_state__(self) -> tuple[Any, ...]:
        """Return the state that may change between calls: none, so jit skips it."""
        return ()

    @classmethod
    def from_file(cls, file: GgufFile, *, rounded: bool = False) -> Params:
        """Return the tensors of a file on the active backend.

        Args:
            file: The file; its memory is released after each tensor.
            rounded: Whether inputs of products are rounded, to 8 bits or to bfloat16.

        """
        matrices: dict[str, Weight | PackedWeight] = {}
        vectors = {}
        for name, info in file.tensors.items():
            if can_pack(info):
                matrices[name] = PackedWeight.from_file(info, rounded=rounded)
            elif len(info.shape) == 2:
                matrices[name] = Weight.from_file(info, rounded=rounded)
            else:
                vectors[name] = pg.asarray(convert(info))
            file.release()
        return cls(matrices, vectors)


@functools.cache
def is_supported(kind: gguf.GGMLQuantizationType) -> bool:
    """Return whether tensors of a GGUF type are supported."""
    _, nbytes = gguf.GGML_QUANT_SIZES[kind]
    try:
        gguf.dequantize(np.zeros((1, nbytes), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def stored_bytes(tensors: Iterable[TensorInfo]) -> int:
    """Return the memory in bytes that the tensors of a file need on a backend."""
    return sum(
        packed_bytes(info) if is_packed_type(info) else 4 * math.prod(info.shape)
        for info in tensors
    )


def convert(info: TensorInfo) -> Array:
    """Return a tensor of a file as float32."""
    if info.kind == gguf.GGMLQuantizationType.F32:
        return info.data.view("<f4").reshape(info.shape)
    result = np.empty(info.shape, np.float32)
    rows = result.reshape(len(info.data), -1)
    step = max(1, CHUNK_ELEMENTS // max(1, rows.shape[1]))
    with np.errstate(all="ignore"):  # scales in a damaged file may be inf or nan
        for i in range(0, len(rows), step):
            rows[i : i + step] = gguf.dequantize(info.data[i : i + step], info.kind)
    return result
