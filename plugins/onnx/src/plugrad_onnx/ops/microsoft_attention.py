"""Attention ops from ONNX Runtime's domain ``com.microsoft``, with key-value caches.

Heads are the second axis of keys and values: ``[batch, heads, length, size]``.

Contents: grouped-query attention; multi-head attention; shared helpers.
"""

from __future__ import annotations

from dataclasses import dataclass

import plugrad as pg

from ..registry import Value
from .microsoft import microsoft, rotated

# --- grouped-query attention -----------------------------------------------------


@dataclass(frozen=True)
class Grouped:
    """The optional attributes of ``GroupQueryAttention``.

    Attributes:
        scale: The factor of the scores; 0: ``1 / sqrt(head size)``.
        softcap: The limit of the scores; 0: no limit.
        do_rotary: Whether queries and keys are rotated.
        rotary_interleaved: Whether neighboring features are rotated together.
        local_window_size: The number of keys that a token attends to; -1: all.
        smooth_softmax: Whether 1 is added to the denominator of the softmax.

    """

    scale: float = 0.0
    softcap: float = 0.0
    do_rotary: int = 0
    rotary_interleaved: int = 0
    local_window_size: int = -1
    smooth_softmax: int = -1


GROUPED = Grouped()


@microsoft("GroupQueryAttention", reads=(6,))
def group_query_attention(
    query: Value,
    key: Value,
    value: Value,
    past_key: Value,
    past_value: Value,
    last_positions: Value,
    total_length: Value,
    cosines: Value = None,
    sines: Value = None,
    positions: Value = None,
    bias: Value = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    options: Grouped = GROUPED,
) -> Value:
    """Attend to the keys up to each token; groups of query heads share a key head.

    ``query`` is ``[batch, length, features]``; if ``key`` is omitted, the features of
    the keys and values follow those of the queries. ``last_positions`` contains the
    position of the last token of each sequence, and ``total_length`` is the length of
    the longest one. For a first prompt, only the first of the ``positions`` is used,
    as in ONNX Runtime. The results are the output of the attention and the new caches.
    """
    if options.smooth_softmax > 0:
        raise NotImplementedError("GroupQueryAttention: smooth_softmax=1")
    heads = (num_heads, kv_num_heads, kv_num_heads)
    q, k, v = _heads_last(query, key, value, heads)
    length = q.shape[1]
    start = pg.maximum(pg.reshape(last_positions, (-1, 1)) + (1 - length), 0)
    own = start + pg.arange(length)  # the position of each token
    if options.do_rotary:
        if positions is not None and length == int(total_length):
            positions = positions[:1, :1] + pg.arange(length)
        turns = own if positions is None else positions, cosines, sines
        q, k = (rotated(x, *turns, bool(options.rotary_interleaved)) for x in (q, k))
    q, k, v = (pg.permute_dims(x, (0, 2, 1, 3)) for x in (q, k, v))
    k = with_cache(past_key, k, start, int(total_length))
    v = with_cache(past_value, v, start, int(total_length))
    mask = joined_masks(visible_keys(own, k.shape[2], options.local_window_size), bias)
    return merged(attend(q, k, v, options.scale, mask, options.softcap)), k, v


def _heads_last(
    query: Value, key: Value, value: Value, heads: tuple[int, int, int]
) -> list[Value]:
    """Return queries, keys and values as ``[batch, length, heads, size]``."""
    if key is None:
        size = query.shape[2] // sum(heads)
        query, key, value = pg.split(query, [size * count for count in heads], axis=2)
    given = zip((query, key, value), heads, strict=True)
    return [pg.reshape(x, (*x.shape[:2], count, -1)) for x, count in given]


def visible_keys(own: Value, total: int, window: int) -> Value:
    """Return a mask of the keys that the tokens at the positions ``own`` attend to."""
    distance = pg.expand_dims(own, 2) - pg.arange(total)  # [batch, length, keys]
    visible = distance >= 0
    if window > 0:
        visible = pg.logical_and(visible, distance < window)
    return pg.expand_dims(visible, 1)


def with_cache(past: Value, new: Value, start: Value, total: int) -> Value:
    """Return the cache with the new rows written at ``start`` of each sequence.

    The result has ``total`` rows, or as many as the cache if it has more. Rows after
    the new ones are 0.
    """
    length = new.shape[2]
    size = max(total, 0 if past is None else past.shape[2])
    at = pg.arange(size) - start  # [batch, size]: the index in ``new``
    rows = pg.clip(at, 0, length - 1)
    index = pg.broadcast_to(rows[:, None, :, None], (*new.shape[:2], size, 1))
    placed = pg.take_along_axis(new, index, axis=2)
    if past is None:
        past = pg.zeros_like(placed)
    elif past.shape[2] < size:
        margins = [(0, 0), (0, 0), (0, size - past.shape[2]), (0, 0)]
        past = pg.pad(past, margins)
    is_old, is_behind = (mask[:, None, :, None] for mask in (at < 0, at >= length))
    return pg.where(is_old, past, pg.where(is_behind, 0.0, placed))


# --- multi-head attention --------------------------------------------------------


@microsoft("MultiHeadAttention")
def multi_head_attention(
    query: Value,
    key: Value = None,
    value: Value = None,
    bias: Value = None,
    mask: Value = None,
    scores_bias: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Value:
    """Attend to keys and values, which may be those of another sequence.

    ``query`` is ``[batch, length, features]``. Keys and values have the same layout or
    are caches ``[batch, heads, keys, size]``. ``bias`` is added to the features of all
    three, except caches. ``mask`` is 0 for padding keys, either once for all queries or
    separately for each query; or it contains the number of keys of each sequence. The
    results are the output of the attention, all keys, and all values.
    """
    if key is None or value is None:
        raise NotImplementedError("MultiHeadAttention: packed keys and values")
    inputs = [query, key, value]
    if bias is not None:
        inputs = _with_bias(inputs, bias)
    q, k, v = (split_heads(x, num_heads) for x in inputs)
    if past_key is not None:
        k = pg.concat([past_key, k], axis=2)
        v = pg.concat([past_value, v], axis=2)
    total = k.shape[2]
    masks = [scores_bias]
    if unidirectional:
        own = pg.arange(q.shape[2]) + (total - q.shape[2])
        masks.append(visible_keys(own[None], total, -1))
    if mask is not None:
        masks.append(padding_bias(mask, total, mask_filter_value))
    return merged(attend(q, k, v, scale, joined_masks(*masks))), k, v


def _with_bias(inputs: list[Value], bias: Value) -> list[Value]:
    """Add the parts of a bias; caches already include theirs."""
    width = inputs[0].shape[2]
    parts = pg.split(bias, [width, width, bias.shape[0] - 2 * width])
    pairs = zip(inputs, parts, strict=True)
    return [x + part if x.ndim == 3 else x for x, part in pairs]


def padding_bias(mask: Value, total: int, filler: float) -> Value:
    """Return a tensor to add to the scores: ``filler`` for padding keys, else 0."""
    if mask.ndim == 1:
        mask = pg.astype(pg.arange(total) < mask[:, None], "int32")
    if mask.ndim == 2:
        mask = mask[:, None]
    return pg.where(mask != 0, 0.0, filler)[:, None]


# --- shared helpers --------------------------------------------------------------


def joined_masks(*masks: Value) -> Value:
    """Return one mask that combines all given masks; None if there are none."""
    given = [mask for mask in masks if mask is not None]
    if len(given) < 2:
        return given[0] if given else None
    first, *others = [as_addend(mask) for mask in given]
    return sum(others, start=first)


def as_addend(mask: Value) -> Value:
    """Return a mask as numbers that are added to the scores."""
    return pg.where(mask, 0.0, -pg.inf) if mask.dtype == pg.bool else mask


def split_heads(x: Value, heads: int) -> Value:
    """Return ``[batch, length, features]`` as ``[batch, heads, length, size]``."""
    if x.ndim == 4:
        return x
    if x.ndim != 3:
        raise NotImplementedError("MultiHeadAttention: packed queries")
    parts = pg.reshape(x, (*x.shape[:2], heads, -1))
    return pg.permute_dims(parts, (0, 2, 1, 3))


def merged(y: Value) -> Value:
    """Return ``[batch, heads, length, size]`` as ``[batch, length, features]``."""
    batch, _, length, _ = y.shape
    return pg.reshape(pg.permute_dims(y, (0, 2, 1, 3)), (batch, length, -1))


def attend(
    q: Value, k: Value, v: Value, scale: float, mask: Value, softcap: float = 0.0
) -> Value:
    """Return the output of attention; groups of query heads may share a key head.

    Args:
        q: The queries.
        k: The keys.
        v: The values.
        scale: The factor of the scores; 0: ``1 / sqrt(head size)``.
        mask: As in ``scaled_dot_product_attention``, or None.
        softcap: The limit of the scores; 0: no limit.

    """
    if not softcap:
        factor = scale or None
        return pg.scaled_dot_product_attention(
            q, k, v, mask=mask, scale=factor, enable_gqa=True
        )
    shape = (*q.shape[:3], v.shape[3])
    heads = k.shape[1]
    if heads < q.shape[1]:
        k, v = pg.expand_dims(k, 2), pg.expand_dims(v, 2)
        q, mask = (_in_groups(x, heads) for x in (q, mask))
    scores = pg.matmul(q, k, transpose_b=True) * (scale or q.shape[-1] ** -0.5)
    scores = softcap * pg.tanh(scores / softcap)
    if mask is not None:
        scores = scores + as_addend(mask)
    return pg.reshape(pg.matmul(pg.softmax(scores, axis=-1), v), shape)


def _in_groups(x: Value, heads: int) -> Value:
    """Split the head axis into groups that share a key head; keep a size of 1."""
    if x is None:
        return None
    groups = (1, 1) if x.shape[1] == 1 else (heads, x.shape[1] // heads)
    return pg.reshape(x, (x.shape[0], *groups, *x.shape[2:]))
