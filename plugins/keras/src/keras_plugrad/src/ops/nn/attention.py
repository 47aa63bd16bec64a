"""Attention of queries to keys."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import plugrad as pg
from plugrad import Tensor

from ..core.variables import convert_to_tensor, floating, promoted

NO_FLASH = (
    "keras-plugrad has no flash attention to select: plugrad's kernels choose how to "
    "compute. Use flash_attention=None or False, or keras.config"
    ".disable_flash_attention()."
)


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    scale: Any = None,
    is_causal: bool = False,
    flash_attention: bool | None = None,
    attn_logits_soft_cap: float | None = None,
) -> Tensor:
    """Return averages of values, weighted by the softmax of queries times keys.

    A query whose keys are all masked gives zeros, as with ``keras.layers.Softmax``.
    """
    if flash_attention:
        raise ValueError(f"flash_attention={flash_attention}: {NO_FLASH}")
    if attn_logits_soft_cap is not None:
        raise ValueError(
            f"attn_logits_soft_cap={attn_logits_soft_cap}: keras-plugrad does not "
            "limit the logits; use None"
        )
    xs = [floating(x) for x in promoted(query, key, value)]
    if any(len(x.shape) != 4 for x in xs):
        raise ValueError(
            "dot_product_attention: `query`, `key` and `value` must have 4 axes, "
            f"[batch, tokens, heads, size]. Received: query.shape={xs[0].shape}, "
            f"key.shape={xs[1].shape}, value.shape={xs[2].shape}"
        )
    q, k, v = [pg.permute_dims(x, (0, 2, 1, 3)) for x in xs]
    y = pg.scaled_dot_product_attention(
        q,
        k,
        v,
        mask=_mask(q, k, bias, mask),
        is_causal=bool(is_causal),
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return pg.permute_dims(y, (0, 2, 1, 3))


def _mask(q: Tensor, k: Tensor, bias: Any, mask: Any) -> Tensor | None:
    """Return a bool mask, or numbers to add to the scores, or None."""
    allowed = None if mask is None else convert_to_tensor(mask, dtype="bool")
    added = None if bias is None else convert_to_tensor(bias, dtype=q.dtype)
    scores = (*q.shape[:3], k.shape[2])
    for name, x in (("mask", allowed), ("bias", added)):
        if x is not None and pg.broadcast_shapes(x.shape, scores) != scores:
            raise ValueError(
                f"dot_product_attention: `{name}` must broadcast to {scores}, the "
                f"shape [batch, heads, queries, keys]. Received: "
                f"{name}.shape={x.shape}"
            )
    if allowed is None or added is None:
        return added if allowed is None else allowed
    return pg.where(allowed, added, -math.inf)


def wrap_flash_attention(
    query: Any,
    key: Any,
    value: Any,
    decoder_segment_ids: Any,
    custom_mask: Any = None,
    attn_logits_soft_cap: float | None = None,
    head_shards: int = 1,
    q_seq_shards: int = 1,
) -> NoReturn:
    """Raise an error: only Keras' JAX backend calls its kernels for TPUs."""
    raise NotImplementedError(NO_FLASH)
