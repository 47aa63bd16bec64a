"""4-bit and 8-bit weights with a scale for each block, in ``plugrad.quantized``.

Kernels: ``BlockQuantizedMatMul DequantizeBlocks``. A weight is ``scale · code +
offset``. Consecutive weights along the last axis form blocks; each block has one scale
and, optionally, one offset.

Contents: checks of both kernels; ``dequantize_blocks``; ``block_matmul``;
``quantize_blocks``.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import (
    _convert,
    compare,
    creation,
    reduce,
    shape,
    unary,
)
from plugrad._src.ops.linalg import products
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import flag, integer, misfit
from plugrad._src.tensor.dtypes import DTYPES, named
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = ["block_matmul", "dequantize_blocks", "quantize_blocks"]

Maybe = Tensor | None
INT8, UINT8 = DTYPES["int8"], DTYPES["uint8"]
CODES_IN_A_BYTE = {4: 2, 8: 1}
LARGEST_ROUNDED = 127  # the largest code of an input rounded to 8 bits


# --- checks of both kernels ------------------------------------------------------


def _check(
    op: str,
    codes: Spec | Tensor,
    scale: Spec | Tensor,
    offset: Spec | Tensor | None,
    bits: int,
) -> int:
    """Return the number of weights in a row; raise if the shapes are incompatible."""
    if bits not in CODES_IN_A_BYTE:
        raise ValueError(f"{op}: bits must be 4 or 8, got {bits}")
    if bits == 4 and codes.dtype is not UINT8:
        rule = "4-bit codes must be packed in pairs into uint8"
        raise TypeError(f"{op}: {rule}, got {named(codes.dtype)}")
    count = codes.shape[-1] * CODES_IN_A_BYTE[bits] if codes.shape else 0
    blocks = scale.shape[-1] if scale.shape else 0
    fits = codes.shape and scale.shape[:-1] == codes.shape[:-1]
    if not fits or not blocks or count % blocks:
        rule = "scale must be [..., blocks] with the leading axes of codes, where "
        rule += f"blocks divides the number of codes in a row, {count}"
        raise misfit(op, rule, codes, scale)
    if offset is not None and offset.shape != scale.shape:
        raise misfit(op, "offset must have the shape of scale", offset, scale)
    return count


# --- unpacking -------------------------------------------------------------------


def _dequantized_spec(
    codes: Spec, scale: Spec, offset: Spec | None, *, bits: int
) -> Spec:
    count = _check("quantized.dequantize_blocks", codes, scale, offset, bits)
    return Spec((*codes.shape[:-1], count), scale.dtype)


DEQUANTIZE_BLOCKS = Kernel(
    "DequantizeBlocks(codes: int8 | uint8, scale: floating, offset?: scale; "
    "bits: size)",
    out=_dequantized_spec,
    op="quantized.dequantize_blocks",
    doc="""``scale[..., k // block] · code[..., k] + offset[..., k // block]``.

    ``scale`` is ``[..., blocks]``, and a row has ``blocks · block`` codes. With 8
    ``bits``, each element of ``codes`` is a code. With 4 bits, ``codes`` is uint8, and
    element i holds code 2i in its low half and code 2i + 1 in its high half. A missing
    offset is 0.""",
)


def dequantize_blocks(
    codes: TensorLike,
    scale: TensorLike,
    /,
    offset: TensorLike | None = None,
    *,
    bits: int,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return weights ``scale · code + offset`` as floating numbers.

    To look up rows of an embedding, first take these rows of the codes, scales and
    offsets.

    Args:
        codes: ``[..., n]``, int8 or uint8 for 8-bit codes, uint8 for 4-bit codes: the
            low half of element ``i`` is then code ``2i``, and the high half is code
            ``2i + 1``.
        scale: ``[..., blocks]``, floating: one number for each block of consecutive
            codes along the last axis. The number of blocks divides the number of codes.
        offset: Like ``scale``; None means 0.
        bits: The number of bits of a code, 4 or 8.

    Returns:
        A tensor of the dtype of ``scale``, ``[..., codes]``.

    Raises:
        ValueError: The shapes are incompatible, or ``bits`` is neither 4 nor 8.
        TypeError: ``codes`` do not have the required dtype.

    Example:
        >>> codes = pg.asarray([[0x21, 0x43]], dtype="uint8")
        >>> pg.quantized.dequantize_blocks(codes, [[1.0, 0.5]], bits=4).tolist()
        [[1.0, 2.0, 1.5, 2.0]]

    """
    if unknown:
        raise unexpected(dequantize_blocks, unknown)
    op = "quantized.dequantize_blocks"
    given = _codes(op, codes)
    bits = integer(op, "bits", bits, 1)
    numbers = _convert.promote_all(op, *[x for x in (scale, offset) if x is not None])
    first, *rest = [_convert.floating(op, x, "f") for x in numbers]
    second = rest[0] if rest else None
    _check(op, given, first, second, bits)
    return run(DEQUANTIZE_BLOCKS, given, first, second, bits=bits)


def _codes(op: str, codes: TensorLike) -> Tensor:
    """Return codes as a tensor; raise unless they are int8 or uint8."""
    found = _convert.asarray(codes)
    if found.dtype not in (INT8, UINT8):
        raise TypeError(f"{op}: codes must be int8 or uint8, got {named(found.dtype)}")
    return found


@decomposition(DEQUANTIZE_BLOCKS)
def _(codes: Tensor, scale: Tensor, offset: Maybe, *, bits: int) -> Tensor:
    values = creation.cast(_unpacked(codes, bits), scale.dtype)
    sizes = (*scale.shape, values.shape[-1] // scale.shape[-1])
    grouped = run(shape.RESHAPE, values, shape=sizes)
    y = grouped * shape.expand_dims(scale, -1)
    if offset is not None:
        y = y + shape.expand_dims(offset, -1)
    return run(shape.RESHAPE, y, shape=values.shape)


def _unpacked(codes: Tensor, bits: int) -> Tensor:
    """Return the codes unpacked, one element for each code."""
    if bits == 8:
        return codes
    low = compare.bitwise_and(codes, 15)
    high = compare.bitwise_right_shift(codes, 4)
    pairs = shape.stack([low, high], axis=-1)
    sizes = (*codes.shape[:-1], 2 * codes.shape[-1])
    return run(shape.RESHAPE, pairs, shape=sizes)


def _sums_of_blocks(x: Tensor, blocks: int) -> Tensor:
    """Return the sum of each block along the last axis."""
    sizes = (*x.shape[:-1], blocks, x.shape[-1] // blocks)
    return run(
        reduce.SUM,
        run(shape.RESHAPE, x, shape=sizes),
        axis=(len(sizes) - 1,),
        keepdims=False,
    )


def _scale_slope(dy: Tensor, codes: Tensor, scale: Tensor, bits: int) -> Tensor:
    values = creation.cast(_unpacked(codes, bits), dy.dtype)
    return _sums_of_blocks(dy * values, scale.shape[-1])


gradients(
    DEQUANTIZE_BLOCKS,
    codes=None,
    scale=_scale_slope,
    offset=lambda dy, scale: _sums_of_blocks(dy, scale.shape[-1]),
)


# --- products --------------------------------------------------------------------


def _product_spec(
    x: Spec,
    codes: Spec,
    scale: Spec,
    offset: Spec | None,
    *,
    bits: int,
    rounded: bool,
) -> Spec:
    _check_product("quantized.block_matmul", x, codes, scale, offset, bits)
    return Spec((*x.shape[:-1], codes.shape[0]), x.dtype)


def _check_product(
    op: str,
    x: Spec | Tensor,
    codes: Spec | Tensor,
    scale: Spec | Tensor,
    offset: Spec | Tensor | None,
    bits: int,
) -> None:
    count = _check(op, codes, scale, offset, bits)
    if len(codes.shape) != 2 or not x.shape or x.shape[-1] != count:
        rule = f"x must be [..., {count}] and codes [outputs, {count} packed codes]"
        raise misfit(op, rule, x, codes)


BLOCK_QUANTIZED_MATMUL = Kernel(
    "BlockQuantizedMatMul(x: floating, codes: int8 | uint8, scale: x, offset?: x; "
    "bits: size, rounded: bool)",
    out=_product_spec,
    op="quantized.block_matmul",
    doc="""``y[..., n] = Σ x[..., k] w[n, k]`` over k, where w is ``DequantizeBlocks``
    of ``codes``, ``scale`` and ``offset``.

    If ``rounded``, each block of x that belongs to one scale is first rounded to 8
    bits: to ``round(x · 127 / m) · m / 127``, where m is the largest magnitude of the
    block, and halves round to even. A block of zeros is not changed.""",
)


def block_matmul(
    x: TensorLike,
    codes: TensorLike,
    scale: TensorLike,
    /,
    offset: TensorLike | None = None,
    *,
    bits: int,
    rounded: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x · wᵀ`` for 4-bit or 8-bit weights, which stay packed.

    The weights ``w``, ``[outputs, inputs]``, are ``dequantize_blocks(codes, scale,
    offset, bits=bits)``. The gradient with respect to ``x`` ignores the rounding.

    Args:
        x: ``[..., inputs]``, real numbers.
        codes: The codes, as in ``dequantize_blocks``, with a row for each output.
        scale: ``[outputs, blocks]``.
        offset: Like ``scale``; None means 0.
        bits: The number of bits of a code, 4 or 8.
        rounded: Whether to round each block of ``x`` to 8 bits, which is faster and
            changes the result by about 1 %.

    Returns:
        ``[..., outputs]``, of the promoted dtype of ``x``, ``scale`` and ``offset``.

    Raises:
        ValueError: The shapes are incompatible, or ``bits`` is neither 4 nor 8.
        TypeError: ``codes`` are not int8 or uint8.

    Example:
        >>> codes = pg.asarray([[1, 2, 3, 4]], dtype="int8")
        >>> pg.quantized.block_matmul(pg.ones(4), codes, [[1.0, 10.0]], bits=8)
        Tensor([73.], dtype=float32, backend='cpu')

    Source:
        The blocks are those of GGUF files, and of ``MatMulNBits`` in ONNX Runtime.

    """
    if unknown:
        raise unexpected(block_matmul, unknown)
    op = "quantized.block_matmul"
    given = _codes(op, codes)
    bits = integer(op, "bits", bits, 1)
    numbers = [t for t in (x, scale, offset) if t is not None]
    floating = [
        _convert.floating(op, t, "f") for t in _convert.promote_all(op, *numbers)
    ]
    first, second, *rest = floating
    third = rest[0] if rest else None
    _check_product(op, first, given, second, third, bits)
    attributes = {"bits": bits, "rounded": flag(op, "rounded", rounded)}
    return run(BLOCK_QUANTIZED_MATMUL, first, given, second, third, **attributes)


@decomposition(BLOCK_QUANTIZED_MATMUL)
def _(
    x: Tensor,
    codes: Tensor,
    scale: Tensor,
    offset: Maybe,
    *,
    bits: int,
    rounded: bool,
) -> Tensor:
    w = run(DEQUANTIZE_BLOCKS, codes, scale, offset, bits=bits)
    if rounded:
        x = _rounded(x, scale.shape[-1])
    return products.matmul(x, w, transpose_b=True)


def _rounded(x: Tensor, blocks: int) -> Tensor:
    """Return x with each block rounded to 8 bits."""
    sizes = (*x.shape[:-1], blocks, x.shape[-1] // blocks)
    grouped = run(shape.RESHAPE, x, shape=sizes)
    largest = reduce.max(unary.abs(grouped), axis=-1, keepdims=True)
    factor = compare.where(largest > 0, LARGEST_ROUNDED / largest, 0.0)
    y = unary.round(grouped * factor) * (largest * (1 / LARGEST_ROUNDED))
    return run(shape.RESHAPE, y, shape=x.shape)


def _weights_slope(dy: Tensor, x: Tensor) -> Tensor:
    """Return the gradient with respect to the weights ``[outputs, inputs]``."""
    rows = dy.size // max(dy.shape[-1], 1)
    flat = [run(shape.RESHAPE, t, shape=(rows, t.shape[-1])) for t in (dy, x)]
    return products.matmul(*flat, transpose_a=True)


def _x_slope(
    dy: Tensor, codes: Tensor, scale: Tensor, offset: Maybe, bits: int
) -> Tensor:
    w = run(DEQUANTIZE_BLOCKS, codes, scale, offset, bits=bits)
    return products.matmul(dy, w)


gradients(
    BLOCK_QUANTIZED_MATMUL,
    x=_x_slope,
    codes=None,
    scale=lambda dy, x, codes, scale, bits: _scale_slope(
        _weights_slope(dy, x), codes, scale, bits
    ),
    offset=lambda dy, x, scale: _sums_of_blocks(_weights_slope(dy, x), scale.shape[-1]),
)


# --- packing ---------------------------------------------------------------------


def quantize_blocks(
    w: TensorLike,
    /,
    *,
    bits: int,
    block: int = 32,
    symmetric: bool = False,
    **unknown: Unpack[Nothing],
) -> tuple[Tensor, Tensor, Maybe]:
    """Quantize weights: return the nearest codes, and their scales and offsets.

    The codes of a block cover the range from its smallest to its largest weight. They
    are computed on the host.

    Args:
        w: ``[..., inputs]``, real numbers.
        bits: The number of bits of a code, 4 or 8.
        block: How many consecutive weights along the last axis share a scale; it must
            divide the number of inputs. Backends are fastest with 32 and 128.
        symmetric: Whether the range is symmetric around 0. 8-bit weights are then
            ``scale · code`` with int8 codes, without an offset; 4-bit weights are
            ``scale · (code - 8)``, with the offset ``-8 · scale``.

    Returns:
        Codes, scales and offsets, as ``dequantize_blocks`` accepts them. Offsets are
        None for symmetric 8-bit weights.

    Raises:
        ValueError: ``block`` does not divide the number of inputs, ``bits`` is neither
            4 nor 8, or a weight is not finite.
        TypeError: ``w`` is complex, or contains strings.

    Example:
        >>> w = [[0.0, 1.0, 2.0, 15.0]]
        >>> codes, scale, offset = pg.quantized.quantize_blocks(w, bits=4, block=4)
        >>> pg.quantized.dequantize_blocks(codes, scale, offset, bits=4).tolist()
        [[0.0, 1.0, 2.0, 15.0]]

    """
    if unknown:
        raise unexpected(quantize_blocks, unknown)
    op = "quantized.quantize_blocks"
    bits = integer(op, "bits", bits, 1)
    if bits not in CODES_IN_A_BYTE:
        raise ValueError(f"{op}: bits must be 4 or 8, got {bits}")
    block = integer(op, "block", block, 2)
    x = _convert.floating(op, w, "f")
    if not x.shape or x.shape[-1] % block:
        raise misfit(op, f"the last axis must be a multiple of block, {block}", x)
    values = x._values().astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"{op}: the weights must be finite")
    blocks = values.reshape(*x.shape[:-1], -1, block)
    codes, scale, offset = _quantized(blocks, bits, flag(op, "symmetric", symmetric))
    packed = codes.reshape(x.shape)
    if bits == 4:
        packed = packed[..., ::2] | packed[..., 1::2] << 4
    found = [None if t is None else t.astype(x.dtype) for t in (scale, offset)]
    tensors = [None if t is None else _convert.asarray(t) for t in found]
    first = tensors[0]
    assert first is not None
    return _convert.asarray(packed), first, tensors[1]


def _quantized(blocks: Any, bits: int, symmetric: bool) -> tuple[Any, Any, Any]:
    """Return codes, scales and offsets of blocks along the last axis."""
    largest_code = (1 << bits) - 1
    if symmetric:
        half = 1 << (bits - 1)
        scale = np.abs(blocks).max(-1) / (half - 1)
        codes = np.round(_quotient(blocks, scale[..., None]))
        if bits == 8:
            return codes.astype(np.int8), scale, None
        return (codes + half).astype(np.uint8), scale, -half * scale
    low = blocks.min(-1)
    scale = (blocks.max(-1) - low) / largest_code
    codes = np.round(_quotient(blocks - low[..., None], scale[..., None]))
    return codes.astype(np.uint8), scale, low


def _quotient(x: Any, by: Any) -> Any:
    """Return ``x / by``, or 0 where ``by`` is 0."""
    return np.divide(x, by, out=np.zeros_like(x), where=by != 0)
