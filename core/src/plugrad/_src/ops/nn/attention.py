"""Attention and rotary embeddings.

Kernels: ``Attention AttentionGrad RotaryEmbedding``. All are fused: tapes record the
ops that they consist of, or Attention with AttentionGrad as its gradient.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import ranges
from plugrad._src.ops.basis import (
    _convert,
    binary,
    compare,
    creation,
    reduce,
    shape,
)
from plugrad._src.ops.linalg import products
from plugrad._src.registry.contract import (
    Kernel,
    Spec,
    decomposition,
    joint_gradient,
)
from plugrad._src.tensor.arguments import finite, flag, misfit
from plugrad._src.tensor.dtypes import (
    BOOL,
    FLOAT32,
    INT32,
    LIMITS,
    check_range,
    dtype_kind,
)
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

from . import softmax

__all__ = ["rotary_embedding", "scaled_dot_product_attention"]

OP = "scaled_dot_product_attention"
Maybe = Tensor | None
MIN_CAUSAL_QUERIES = 128  # the fewest for which AttentionGrad leaves out many keys
MAX_STORED_SCORES = 1 << 24  # 64 MiB of float32
# Masks that others write contain the least number of a dtype, which excludes no key.
LEAST_SHARE = 0.9


# --- attention -------------------------------------------------------------------


def _attention_spec(
    q: Spec, k: Spec, v: Spec, mask: Spec | None, length: Spec | None, **_: Any
) -> Spec:
    rule = "q must be [batch, heads, queries, size], k [batch, groups, keys, size] and "
    rule += "v [batch, groups, keys, width], where groups divide heads"
    if {len(x.shape) for x in (q, k, v)} != {4}:
        raise misfit(OP, rule, q, k, v)
    batch, heads, queries, size = q.shape
    groups, keys = k.shape[1:3]
    fits = k.shape[::3] == (batch, size) and v.shape[:3] == (batch, groups, keys)
    if not fits or heads % max(groups, 1) or (heads and not groups):
        raise misfit(OP, rule, q, k, v)
    scores = (batch, heads, queries, keys)
    if mask is not None and (
        len(mask.shape) != 4 or geometry.broadcast(OP, mask.shape, scores) != scores
    ):
        raise misfit(OP, f"the mask must have rank 4 and broadcast to {scores}", mask)
    if length is not None and length.shape not in ((), (batch,)):
        raise misfit(OP, f"length must have shape () or {(batch,)}", length)
    return Spec((batch, heads, queries, v.shape[3]), q.dtype)


ATTENTION = Kernel(
    "Attention(q: floating, k: q, v: q, mask?: bool | floating, length?: int32; "
    "scale: float, causal: bool)",
    out=_attention_spec,
    fused=True,
    op=OP,
    doc="""``softmax(q · kᵀ · scale + mask) · v``, with the softmax over the keys.

    ``q`` is ``[batch, heads, queries, size]``, ``k`` is ``[batch, groups, keys, size]``
    and ``v`` is ``[batch, groups, keys, width]``. The number of groups divides that of
    heads: head h reads group ``h // (heads / groups)``. ``mask`` has rank 4 and
    broadcasts to ``[batch, heads, queries, keys]``. A bool mask is True where a query
    attends to a key; a floating mask is added to the scores, and -inf excludes a key.
    ``length``, of shape ``[]`` or ``[batch]``, is the number of filled keys, and
    excludes all keys after these; a negative number counts as 0, and a number above
    that of the keys excludes none. If ``causal``, query i attends to keys 0 to i, or,
    with ``length``, to keys 0 to ``length - queries + i``, so that the last query
    attends to all keys before ``length``. The result is 0 for a query that attends to
    no key.""",
)


def scaled_dot_product_attention(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    /,
    *,
    mask: TensorLike | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    length: TensorLike | None = None,
    enable_gqa: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``softmax(q · kᵀ · scale) · v``, attention-weighted averages of ``v``.

    Pass ``length`` if ``k`` and ``v`` are partly filled caches: keys and values from
    position ``length`` on are ignored. If ``is_causal`` is also True, the queries are
    those of the last filled positions.

    Args:
        q: Queries, ``[..., queries, size]``.
        k: Keys, ``[..., keys, size]``.
        v: Values, ``[..., keys, width]``. All axes before the last two broadcast.
        mask: A tensor that broadcasts to ``[..., queries, keys]``. A bool mask is True
            where a query attends to a key. A floating mask is added to the scores, so
            that -inf excludes a key.
        is_causal: Whether query ``i`` attends to keys 0 to ``i`` only; with ``length``,
            to keys 0 to ``length - queries + i``.
        scale: The factor that scales the scores; by default ``1 / √size``.
        length: How many keys are filled: an integer, or a tensor of integers whose
            shape is that of the axes before the heads.
        enable_gqa: Whether several heads of ``q`` may share one head of ``k`` and ``v``
            (grouped-query attention): the number of heads of ``q``, its third-to-last
            size, is then a multiple of that of ``k`` and ``v``.

    Returns:
        ``[..., queries, width]``; zeros for a query that attends to no key. q, k and v
        are promoted to one dtype; integers and bool give float32.

    Raises:
        ValueError: The shapes are incompatible, or ``scale`` is not finite.
        TypeError: The mask is neither bool nor floating, ``length`` is not an integer,
            or an argument is complex or contains strings.

    Example:
        >>> q = k = [[1.0, 0.0], [0.0, 1.0]]
        >>> pg.scaled_dot_product_attention(q, k, [[1.0], [2.0]], is_causal=True)
        Tensor([[1.    ],
                [1.6698]], dtype=float32, backend='cpu')
        >>> pg.scaled_dot_product_attention(q, k, [[1.0], [2.0]], length=1)
        Tensor([[1.],
                [1.]], dtype=float32, backend='cpu')

    Source:
        A. Vaswani et al., "Attention Is All You Need", 2017; for groups, J. Ainslie et
        al., "GQA: Training Generalized Multi-Query Transformer Models", 2023.

    """
    if unknown:
        raise unexpected(scaled_dot_product_attention, unknown)
    xs = [_convert.floating(OP, x, "f") for x in _convert.promote_all(OP, q, k, v)]
    _check_shapes(*xs)
    size = xs[0].shape[-1]
    factor: Any = 1 / math.sqrt(max(size, 1)) if scale is None else scale
    if isinstance(factor, _convert.SCALARS):
        factor = finite(OP, "scale", factor)
        check_range(OP, factor, xs[0].dtype)
    else:
        xs[0] = xs[0] * factor
        factor = 1.0
    queries, keys = xs[0].shape[-2], xs[1].shape[-2]
    given = None if mask is None else _mask(mask, queries, keys)
    groups = _groups(*xs) if flag(OP, "enable_gqa", enable_gqa) else 0
    lead = _leading_axes(xs, given, groups)
    optional = (
        None if given is None else _mask_as_rank_4(given, lead),
        None if length is None else _length(length, lead),
    )
    four = [_as_rank_4(x, lead, groups if n else 0) for n, x in enumerate(xs)]
    attributes = {"scale": factor, "causal": flag(OP, "is_causal", is_causal)}
    y = run(ATTENTION, *four, *optional, **attributes)
    sizes = (*lead, queries, xs[2].shape[-1])
    return y if y.shape == sizes else run(shape.RESHAPE, y, shape=sizes)


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    ranks = min(len(x.shape) for x in (q, k, v))
    if ranks < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        rule = "q is [..., queries, size], k [..., keys, size] and v [..., keys, width]"
        raise misfit(OP, rule, q, k, v)


def _mask(mask: TensorLike, queries: int, keys: int) -> Tensor:
    """Return the mask as a tensor; raise unless it fits queries and keys."""
    mask = _convert.asarray(mask)
    if dtype_kind(mask.dtype) not in "bf":
        raise TypeError(
            f"{OP}: mask must be bool or floating, got {mask.dtype}; pass mask != 0"
        )
    sizes = (queries, keys)
    if geometry.broadcast(OP, sizes, mask.shape)[-2:] != sizes:
        raise misfit(OP, f"mask must broadcast to {sizes}, queries and keys", mask)
    return mask


def _groups(q: Tensor, k: Tensor, v: Tensor) -> int:
    """Return the number of key heads, each of which serves several query heads."""
    heads, groups, others = (x.shape[-3] if len(x.shape) > 2 else 1 for x in (q, k, v))
    if groups != others or not groups or heads % groups:
        rule = f"{heads} query heads must be a multiple of {groups} key heads"
        raise misfit(OP, f"{rule} and {others} value heads", q, k, v)
    return groups


def _leading_axes(xs: list[Tensor], mask: Maybe, groups: int) -> Shape:
    """Return the sizes of the result before the last two."""
    if groups:
        batches = geometry.broadcast(OP, *[x.shape[:-3] for x in xs])
        given = [(*batches, *xs[0].shape[-3:-2])]
    else:
        given = [x.shape[:-2] for x in xs]
    given += [] if mask is None else [mask.shape[:-2]]
    return geometry.broadcast(OP, *given)


def _as_rank_4(x: Tensor, lead: Shape, groups: int) -> Tensor:
    """Return ``x`` as ``[batch, heads, ...]``, with ``groups`` heads if not 0."""
    wanted = (*lead[:-1], groups) if groups else lead
    if x.shape[:-2] != wanted:
        x = run(shape.BROADCAST_TO, x, shape=(*wanted, *x.shape[-2:]))
    sizes = (math.prod(wanted[:-1]), *(wanted[-1:] or (1,)), *x.shape[-2:])
    return x if x.shape == sizes else run(shape.RESHAPE, x, shape=sizes)


def _mask_as_rank_4(mask: Tensor, lead: Shape) -> Tensor:
    """Return a mask ``[batch or 1, heads or 1, queries or 1, keys or 1]``."""
    own = mask.shape[:-2]
    last = (1, 1, *mask.shape)[-2:]
    batch = own[:-1]
    if math.prod(batch) > 1 and batch != lead[:-1]:
        batch = lead[:-1]
        mask = run(shape.BROADCAST_TO, mask, shape=(*batch, own[-1], *last))
    sizes = (math.prod(batch), *(own[-1:] or (1,)), *last)
    return mask if mask.shape == sizes else run(shape.RESHAPE, mask, shape=sizes)


def _length(length: TensorLike, lead: Shape) -> Tensor:
    """Return the number of filled keys as int32: ``[]`` or ``[batch]``."""
    found = creation.cast(_convert.integer_tensor(OP, "length", length), INT32)
    if not found.shape:
        return found
    if found.shape != lead[:-1]:
        rule = f"length must be one integer, or have shape {lead[:-1]}"
        raise misfit(OP, rule, found)
    sizes = (found.size,)
    return found if found.shape == sizes else run(shape.RESHAPE, found, shape=sizes)


def _grouped(x: Tensor, groups: int) -> Tensor:
    """Return ``[batch, groups, rows, ...]``: the heads of each group as one matrix."""
    batch, heads, queries, size = x.shape
    if heads == groups:
        return x
    rows = heads // max(groups, 1) * queries
    return run(shape.RESHAPE, x, shape=(batch, groups, rows, size))


def _ungrouped(x: Tensor, heads: int) -> Tensor:
    """Return ``[batch, heads, queries, ...]``: the inverse of ``_grouped``."""
    batch, groups, rows, size = x.shape
    if heads == groups:
        return x
    queries = rows * groups // heads
    return run(shape.RESHAPE, x, shape=(batch, heads, queries, size))


def _weights(
    q: Tensor, k: Tensor, mask: Maybe, length: Maybe, scale: float, causal: bool
) -> Tensor:
    """Return how much each query attends to each key, ``[batch, heads, q, k]``."""
    groups, keys = k.shape[1:3]
    queries = q.shape[2]
    scores = products.matmul(_grouped(q, groups) * scale, k, transpose_b=True)
    scores = _ungrouped(scores, q.shape[1])
    if mask is not None and mask.dtype is not BOOL:
        added = creation.cast(mask, scores.dtype)
        least = LEAST_SHARE * LIMITS[q.dtype][0]  # above the score of excluded keys
        scores = scores + compare.where(added < least, least, added)
    allowed = _allowed(queries, keys, mask, length, causal)
    if allowed is None:
        return softmax.softmax(scores)
    # Not -inf: a query that attends to no key would give NaN, also in the gradient.
    weights = softmax.softmax(compare.where(allowed, scores, LIMITS[q.dtype][0]))
    if mask is not None or length is not None:  # a query may attend to no key
        weights = compare.where(allowed, weights, 0.0)
    return weights


@decomposition(ATTENTION)
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Maybe,
    length: Maybe,
    *,
    scale: float,
    causal: bool,
) -> Tensor:
    weights = _weights(q, k, mask, length, scale, causal)
    y = products.matmul(_grouped(weights, k.shape[1]), v)
    return _ungrouped(y, q.shape[1])


def _allowed(
    queries: int, keys: int, mask: Maybe, length: Maybe, causal: bool
) -> Maybe:
    """Return a mask of the keys that each query attends to; None stands for all."""
    found: list[Tensor] = []
    if mask is not None:
        is_bool = mask.dtype is BOOL
        # A NaN in the mask is not excluded, so that it reaches the result.
        found.append(mask if is_bool else compare.not_equal(mask, -math.inf))
    if length is not None:
        filled = run(shape.RESHAPE, length, shape=(length.size, 1, 1, 1))
        filled = binary.minimum(binary.maximum(filled, 0), keys)
        if causal:
            steps = np.arange(queries, dtype=np.int32)[:, None] + np.int32(1 - queries)
            filled = filled + _convert.asarray(steps, copy=False)
        found.append(compare.less(ranges.arange(keys), filled))
    elif causal:
        found.append(_convert.asarray(np.tri(queries, keys, dtype=bool), copy=False))
    if len(found) < 2:
        return found[0] if found else None
    return compare.logical_and(*found)


# --- the gradient of attention ---------------------------------------------------


def _attention_grad_spec(dy: Spec, *xs: Any, **attributes: Any) -> tuple[Spec, ...]:
    y = _attention_spec(*xs, **attributes)
    if dy.shape != y.shape:
        raise misfit(OP, f"dy must have the shape of the result, {y.shape}", dy)
    return xs[:3]


ATTENTION_GRAD = Kernel(
    "AttentionGrad(dy: floating, q: dy, k: dy, v: dy, mask?: bool | floating, "
    "length?: int32; scale: float, causal: bool) -> dq, dk, dv",
    out=_attention_grad_spec,
    fused=True,
    op=OP,
    doc="""The gradients of Attention with respect to ``q``, ``k`` and ``v``.

    ``p`` are the weights that Attention multiplies by ``v``, and 0 for keys that a
    query does not attend to. With ``dp = dy · vᵀ`` and
    ``ds = p · (dp - sum(p · dp)) · scale``, where the sum is over the keys, the
    results are ``dq = ds · k``, ``dk = dsᵀ · q`` and ``dv = pᵀ · dy``; the last two are
    summed over the heads of a group. The other arguments are those of
    Attention.""",
)


@decomposition(ATTENTION_GRAD)
def _(
    dy: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Maybe,
    length: Maybe,
    *,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    heads = q.shape[1]
    groups = k.shape[1]
    weights = _weights(q, k, mask, length, scale, causal)
    dy = _grouped(dy, groups)
    d = _ungrouped(products.matmul(dy, v, transpose_b=True), heads)
    part = run(reduce.SUM, weights * d, axis=(3,), keepdims=True)
    scores = _grouped(weights * (d - part) * scale, groups)
    weights = _grouped(weights, groups)
    dq = _ungrouped(products.matmul(scores, k), heads)
    dk = products.matmul(scores, _grouped(q, groups), transpose_a=True)
    return dq, dk, products.matmul(weights, dy, transpose_a=True)


def _attention_gradient(
    dy: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Maybe,
    length: Maybe,
    scale: float,
    causal: bool,
) -> tuple[Tensor, ...]:
    how = {"scale": scale, "causal": causal}
    return run_many(ATTENTION_GRAD, dy, q, k, v, mask, length, **how)


def _gradient_pays(
    q: Tensor,
    k: Tensor,
    _v: Tensor,
    _mask: Maybe,
    length: Maybe,
    *,
    causal: bool,
    **_attributes: Any,
) -> bool:
    """Return whether AttentionGrad is better than separate kernels.

    It computes the scores again, which takes a sixth more time. But it leaves out keys
    to which no query attends, and does not store the scores: see
    ``benchmarks/attention.py``. Other dtypes are decomposed, because no backend has a
    kernel for them.
    """
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    leaves_out = length is not None or (causal and queries >= MIN_CAUSAL_QUERIES)
    is_large = batch * heads * queries * keys > MAX_STORED_SCORES
    return q.dtype is FLOAT32 and (leaves_out or is_large)


joint_gradient(
    ATTENTION, ("q", "k", "v"), ATTENTION_GRAD, _attention_gradient, _gradient_pays
)


# --- rotary embeddings -----------------------------------------------------------


def _rotary_spec(x: Spec, cos: Spec, sin: Spec, *, interleaved: bool) -> Spec:
    _check_rotary(x, cos, sin)
    return x


def _check_rotary(x: Spec | Tensor, cos: Spec | Tensor, sin: Spec | Tensor) -> None:
    """Raise unless the shapes of ``cos`` and ``sin`` are compatible with ``x``."""
    op = "rotary_embedding"
    half = cos.shape[-1] if cos.shape else 0
    fits = x.shape and cos.shape == sin.shape and 2 * half <= x.shape[-1]
    lead = (*x.shape[:-1], half)
    if not fits or geometry.broadcast(op, cos.shape, lead) != lead:
        rule = "x must be [..., size], and cos and sin must have the same shape, "
        rule += "which broadcasts to [..., n], where n is at most size / 2"
        raise misfit(op, rule, x, cos, sin)


ROTARY_EMBEDDING = Kernel(
    "RotaryEmbedding(x: floating, cos: x, sin: x; interleaved: bool)",
    out=_rotary_spec,
    fused=True,
    op="rotary_embedding",
    doc="""``x`` with pairs of elements along the last axis rotated by angles.

    ``cos`` and ``sin`` broadcast to ``[..., n]``, where 2n is at most the last size of
    x. Pair i is the elements ``i`` and ``i + n``, or ``2i`` and ``2i + 1`` if
    ``interleaved``. A pair (a, b) becomes ``(a cos - b sin, b cos + a sin)``. Elements
    from index 2n on are unchanged.""",
)


def rotary_embedding(
    x: TensorLike,
    cos: TensorLike,
    sin: TensorLike,
    /,
    *,
    interleaved: bool = False,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x`` with pairs of elements along the last axis rotated by angles.

    A pair (a, b) becomes ``(a cos - b sin, b cos + a sin)``. Language models rotate
    queries and keys by their position times a frequency, which differs from pair to
    pair.

    Args:
        x: ``[..., size]``, real numbers.
        cos: The cosines of the angles. They broadcast to ``[..., n]``, where n is at
            most ``size / 2``. Elements of ``x`` from index 2n on are unchanged.
        sin: The sines of the angles, of the shape of ``cos``.
        interleaved: Whether pair ``i`` consists of elements ``2i`` and ``2i + 1``, as
            in Llama GGUF files, rather than ``i`` and ``i + n``, as in PyTorch models.

    Returns:
        A tensor of the shape of ``x``. dtypes are promoted; integers and bool give
        float32.

    Raises:
        ValueError: The shapes are incompatible.
        TypeError: A tensor is complex, or contains strings.

    Example:
        >>> pg.rotary_embedding([1.0, 2.0, 3.0], [0.0], [1.0])
        Tensor([-2.,  1.,  3.], dtype=float32, backend='cpu')

    Source:
        J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
        2021.

    """
    if unknown:
        raise unexpected(rotary_embedding, unknown)
    op = "rotary_embedding"
    given = _convert.promote_all(op, x, cos, sin)
    x, cos, sin = (_convert.floating(op, t, "f") for t in given)
    _check_rotary(x, cos, sin)
    interleaved = flag(op, "interleaved", interleaved)
    return run(ROTARY_EMBEDDING, x, cos, sin, interleaved=interleaved)


@decomposition(ROTARY_EMBEDDING)
def _(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    half = cos.shape[-1]
    rotated, rest = x[..., : 2 * half], x[..., 2 * half :]
    if interleaved:
        pairs = run(shape.RESHAPE, rotated, shape=(*x.shape[:-1], half, 2))
        a, b = pairs[..., 0], pairs[..., 1]
    else:
        a, b = rotated[..., :half], rotated[..., half:]
    new = [a * cos - b * sin, b * cos + a * sin]
    if interleaved:
        y = run(shape.RESHAPE, shape.stack(new, axis=-1), shape=rotated.shape)
    else:
        y = shape.concat(new, axis=-1)
    return y if not rest.shape[-1] else shape.concat([y, rest], axis=-1)
