"""Ops from ONNX Runtime's domain ``com.microsoft`` that transformer models use.

The semantics are those of ONNX Runtime's ContribOperators.md. ``DynamicQuantizeLSTM``
is in ``recurrent``.

Contents: activations; products; normalizations; rotary embeddings; low-bit weights.
"""

from __future__ import annotations

import functools

import numpy as np
import plugrad as pg

from ..dtypes import SUB_BYTE_BOUNDS
from ..registry import Value, op
from .elementwise import swish
from .linear import dense
from .normalization import by_root_mean_square
from .quantized import dequantize_linear

microsoft = functools.partial(op, domain="com.microsoft")

# --- activations -----------------------------------------------------------------


@microsoft("Gelu")
def gelu(x: Value) -> Value:
    return pg.gelu(x)


@microsoft("BiasGelu")
def bias_gelu(x: Value, bias: Value) -> Value:
    return pg.gelu(x + bias)


@microsoft("FastGelu")
def fast_gelu(x: Value, bias: Value = None) -> Value:
    return pg.gelu(x if bias is None else x + bias, approximate=True)


@microsoft("QuickGelu")
def quick_gelu(x: Value, *, alpha: float = 1.702) -> Value:
    return swish(x, alpha=alpha)


# --- products --------------------------------------------------------------------


@microsoft("FusedMatMul")
def fused_matmul(
    a: Value,
    b: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """Multiply matrices.

    ``transBatchA`` and ``transBatchB`` say that an operand is ``[m, batch..., k]``.
    """
    a = _with_batch_first(a) if transBatchA else a
    b = _with_batch_first(b) if transBatchB else b
    flips = {"transpose_a": bool(transA), "transpose_b": bool(transB)}
    y = pg.matmul(a, b, **flips)
    return y if alpha == 1 else y * alpha


def _with_batch_first(x: Value) -> Value:
    """Return ``[m, batch..., k]`` as ``[batch..., m, k]``."""
    return pg.moveaxis(x, 0, -2)


# --- normalizations --------------------------------------------------------------


@op("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    x: Value,
    scale: Value,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    """Divide by the root mean square; ONNX Runtime keeps the op in ONNX's domain."""
    y, inverse = by_root_mean_square(x, axis, epsilon, stash_type)
    return pg.astype(y, x.dtype) * scale, inverse


@microsoft("SkipLayerNormalization")
def skip_layer_normalization(
    x: Value,
    skip: Value,
    scale: Value,
    offset: Value = None,
    bias: Value = None,
    *,
    epsilon: float = 1e-12,
) -> Value:
    """Normalize ``x + skip + bias``, and return this sum as the last result.

    The second and third results are for training; ONNX Runtime omits them on a CPU.
    """
    total = _total(x, skip, bias)
    return pg.layer_norm(total, scale, offset, epsilon=epsilon), None, None, total


@microsoft("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(
    x: Value,
    skip: Value,
    scale: Value,
    bias: Value = None,
    *,
    epsilon: float = 1e-12,
) -> Value:
    """Divide ``x + skip + bias`` by its root mean square."""
    total = _total(x, skip, bias)
    return pg.rms_norm(total, scale, epsilon=epsilon), None, None, total


def _total(x: Value, skip: Value, bias: Value) -> Value:
    """Return the sum of the inputs; ``skip`` may lack the batch axis."""
    total = x + skip
    return total if bias is None else total + bias


# --- rotary embeddings -----------------------------------------------------------


@microsoft("RotaryEmbedding")
def rotary_embedding(
    x: Value,
    positions: Value,
    cosines: Value,
    sines: Value,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """Rotate pairs of features by angles that depend on the position.

    ``x`` is ``[batch, length, features]`` or ``[batch, heads, length, size]``. If
    ``positions`` has one element, it is the position of the first token; otherwise,
    it contains one for each token.
    """
    if is_packed_batching:
        raise NotImplementedError("RotaryEmbedding: is_packed_batching=1")
    if x.ndim == 3:
        size = x.shape[2] // num_heads if num_heads else 2 * cosines.shape[-1]
        heads = pg.reshape(x, (*x.shape[:2], -1, size))
    else:
        heads = pg.permute_dims(x, (0, 2, 1, 3))
    if positions.size == 1:
        positions = pg.reshape(positions, (1, 1)) + pg.arange(heads.shape[1])
    tables = (cosines * scale, sines * scale) if scale != 1 else (cosines, sines)
    turned = rotated(heads, positions, *tables, bool(interleaved))
    if x.ndim == 3:
        return pg.reshape(turned, x.shape)
    return pg.permute_dims(turned, (0, 2, 1, 3))


def rotated(
    heads: Value, positions: Value, cosines: Value, sines: Value, interleaved: bool
) -> Value:
    """Rotate ``[batch, length, heads, size]`` by the angles of the positions.

    Features beyond the width of the tables stay as they are.
    """
    cosines, sines = (
        pg.expand_dims(pg.take(table, positions, axis=0), 2)
        for table in (cosines, sines)
    )
    return pg.rotary_embedding(heads, cosines, sines, interleaved=interleaved)


# --- low-bit weights -------------------------------------------------------------


@microsoft("MatMulNBits")
def matmul_n_bits(
    x: Value,
    codes: Value,
    scales: Value,
    zeros: Value = None,
    groups: Value = None,
    bias: Value = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Value:
    """Multiply by low-bit weights, in the dtype of ``x``.

    ``accuracy_level`` allows ONNX Runtime to round ``x``; here nothing is rounded.
    """
    if weight_prepacked:
        raise NotImplementedError("MatMulNBits: weight_prepacked=1")
    shape = {"K": K, "N": N, "block_size": block_size, "bits": bits}
    if groups is None and stays_packed(K, block_size, bits):
        packed, scales, offsets = block_weights(codes, scales, zeros, **shape)
        return block_dense(x, packed, scales, offsets, bias, bits=bits)
    return dense(x, unpacked_weights(codes, scales, zeros, groups, **shape), bias)


def stays_packed(K: int, block_size: int, bits: int) -> bool:
    """Return whether plugrad multiplies by these weights without unpacking them."""
    return bits in (4, 8) and K % block_size == 0


@op("BlockWeights", domain="plugrad")
def block_weights(
    codes: Value,
    scales: Value,
    zeros: Value = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int,
) -> Value:
    """Return codes, scales and offsets of ``MatMulNBits`` for ``block_matmul``.

    A pass inserts this op, which runs once.
    """
    scales = pg.reshape(scales, (N, K // block_size))
    zeros = _zeros(zeros, N, K // block_size, bits)
    offsets = -pg.astype(zeros, scales.dtype) * scales
    return pg.reshape(codes, (N, -1)), scales, offsets


def _zeros(zeros: Value, rows: int, blocks: int, bits: int) -> Value:
    """Return the codes that stand for 0, ``[rows, blocks]``."""
    if zeros is None:
        return pg.full((rows, blocks), float(1 << (bits - 1)))
    if zeros.dtype == np.uint8:
        zeros = _unpacked(pg.reshape(zeros, (rows, -1)), bits)[:, :blocks]
    return pg.reshape(zeros, (rows, blocks))


@op("BlockDense", domain="plugrad")
def block_dense(
    x: Value,
    codes: Value,
    scales: Value,
    offsets: Value,
    bias: Value = None,
    *,
    bits: int,
) -> Value:
    """Multiply by low-bit weights and add a bias; a pass inserts this op."""
    y = pg.quantized.block_matmul(x, codes, scales, offsets, bits=bits)
    return y if bias is None else y + bias


@op("UnpackedWeights", domain="plugrad")
def unpacked_weights(
    codes: Value,
    scales: Value,
    zeros: Value = None,
    groups: Value = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int,
) -> Value:
    """Return the weights ``[K, N]`` of ``MatMulNBits``: ``(code - zero) * scale``.

    A pass inserts this op, which runs once. Codes are packed into bytes, the first one
    into the lowest bits. Zero points are packed in the same way or are floating.
    """
    blocks = -(-K // block_size)
    values = pg.reshape(_unpacked(codes, bits), (N, blocks, block_size))
    scales = pg.reshape(scales, (N, blocks))
    zeros = pg.astype(_zeros(zeros, N, blocks, bits), scales.dtype)
    values = pg.astype(values, scales.dtype)
    if groups is None:
        w = (values - pg.expand_dims(zeros, 2)) * pg.expand_dims(scales, 2)
        return pg.matrix_transpose(pg.reshape(w, (N, -1))[:, :K])
    scales, zeros = (pg.take(v, groups, axis=1) for v in (scales, zeros))
    return pg.matrix_transpose((pg.reshape(values, (N, -1))[:, :K] - zeros) * scales)


@microsoft("GatherBlockQuantized")
def gather_block_quantized(
    data: Value,
    indices: Value,
    scales: Value,
    zeros: Value = None,
    *,
    gather_axis: int = 0,
    quantize_axis: int = 1,
    block_size: int = 128,
    bits: int = 4,
    elem_type: int = 0,
) -> Value:
    """Gather slices of low-bit weights and return them as ``(code - zero) * scale``.

    The reader sets ``elem_type`` if ``data`` has a dtype narrower than a byte; its
    elements then occupy a byte each. Codes in uint8 are packed along the last axis.
    """
    rank = data.ndim
    gather_axis, axis = gather_axis % rank, quantize_axis % rank
    is_packed = data.dtype == np.uint8 and elem_type not in SUB_BYTE_BOUNDS
    block_size = block_size or data.shape[axis]  # 0, for floats: a single block
    if is_packed and (gather_axis, axis) != (0, rank - 1):
        raise ValueError(
            f"GatherBlockQuantized: with uint8 codes, gather_axis {gather_axis} must "
            f"be 0 and quantize_axis {axis} the last axis, {rank - 1}"
        )
    bits = bits if is_packed else 0
    if gather_axis == axis:
        y = _from_blocks(data, scales, zeros, axis, block_size, bits)
        return pg.take(y, indices, axis=axis)
    data, scales = (pg.take(v, indices, axis=gather_axis) for v in (data, scales))
    if zeros is not None:
        zeros = pg.take(zeros, indices, axis=gather_axis)
    axis += indices.ndim - 1 if axis > gather_axis else 0
    return _from_blocks(data, scales, zeros, axis, block_size, bits)


def _from_blocks(
    codes: Value, scales: Value, zeros: Value, axis: int, block_size: int, bits: int
) -> Value:
    """Return low-bit weights in the dtype of ``scales``; bits=0: not packed."""
    if bits and zeros is None:
        zeros = pg.full(scales.shape, 1 << (bits - 1), dtype=pg.int32)
    elif bits:
        zeros = _unpacked(zeros, bits)[..., : scales.shape[-1]]
    codes = _unpacked(codes, bits) if bits else codes
    return dequantize_linear(codes, scales, zeros, axis=axis, block_size=block_size)


def _unpacked(packed: Value, bits: int) -> Value:
    """Return the numbers that are packed along the last axis, as int32."""
    wide = pg.astype(packed, "int32")
    parts = [
        pg.bitwise_and(pg.bitwise_right_shift(wide, shift), (1 << bits) - 1)
        for shift in range(0, 8, bits)
    ]
    return pg.reshape(pg.stack(parts, axis=-1), (*packed.shape[:-1], -1))
