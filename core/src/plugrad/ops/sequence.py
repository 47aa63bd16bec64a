"""Cells of recurrent networks, and attention: compositions of other ops; no kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from plugrad import geometry
from plugrad.tensor.arguments import flag, misfit, several
from plugrad.tensor.dtypes import BOOL, LIMITS
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, compare, creation, norm, products, shape

__all__ = ["basic_lstm_cell", "multi_rnn_cell", "scaled_dot_product_attention"]

# --- recurrent cells -------------------------------------------------------------


def basic_lstm_cell(
    forget_bias: TensorLike,
    lstm_kernel: TensorLike,
    lstm_bias: TensorLike,
    data: TensorLike,
    c: TensorLike,
    h: TensorLike,
    /,
) -> tuple[Tensor, Tensor]:
    """Return the next state ``c`` and output ``h`` of an LSTM cell.

    With ``i, j, f, o`` the parts of ``concat(data, h) · lstm_kernel + lstm_bias``::

        c' = σ(i) · tanh(j) + σ(f + forget_bias) · c
        h' = σ(o) · tanh(c')

    Args:
        forget_bias: A scalar; 1 lets the cell remember at first.
        lstm_kernel: ``[inputs + units, 4 · units]``.
        lstm_bias: ``[4 · units]``.
        data: ``[batch, inputs]``.
        c: ``[batch, units]``.
        h: ``[batch, units]``.

    Raises:
        ValueError: The shapes do not fit.

    """
    op = "basic_lstm_cell"
    given = _convert.promote_all(op, forget_bias, lstm_kernel, lstm_bias, data, c, h)
    forget, kernel, bias, data, c, h = (_convert.floating(op, x, "f") for x in given)
    if len(data.shape) != 2 or len(c.shape) != 2:
        raise misfit(op, "data is [batch, inputs], c [batch, units]", data, c)
    (batch, inputs), units = data.shape, c.shape[1]
    wanted = {"forget_bias": (), "lstm_kernel": (inputs + units, 4 * units)}
    wanted |= {"lstm_bias": (4 * units,), "c": (batch, units), "h": (batch, units)}
    weights = (forget, kernel, bias, c, h)
    for (name, sizes), x in zip(wanted.items(), weights, strict=True):
        if x.shape != sizes:
            rule = f"{name} must have shape {sizes} beside data and c"
            raise misfit(op, rule, x, data, c)
    y = products.matmul(shape.concat([data, h], axis=1), kernel) + bias
    i, j, f, o = shape.split(y, 4, axis=1)
    state = i.sigmoid() * j.tanh() + (f + forget).sigmoid() * c
    return state, o.sigmoid() * state.tanh()


Cell = Callable[[Tensor, Tensor, Tensor], Sequence[Tensor]]


def multi_rnn_cell(
    lstm_cells: Sequence[Cell],
    data: TensorLike,
    c: Sequence[TensorLike],
    h: Sequence[TensorLike],
    /,
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the next states and outputs of cells, each fed the output of the last.

    Args:
        lstm_cells: Functions of data, c and h that return the next c and h, such as
            ``functools.partial(basic_lstm_cell, forget_bias, lstm_kernel, lstm_bias)``.
        data: The input of the first cell.
        c: The state of each cell.
        h: The last output of each cell.

    Raises:
        ValueError: There are not as many ``c`` and ``h`` as cells.

    """
    given = (("lstm_cells", lstm_cells), ("c", c), ("h", h))
    cells, c, h = (several("multi_rnn_cell", *one) for one in given)
    if not len(cells) == len(c) == len(h) or not all(map(callable, cells)):
        rule = f"{len(cells)} cells need as many c and h, got {len(c)} and {len(h)}"
        raise ValueError(f"multi_rnn_cell: {rule}; cells are functions")
    x, states, outputs = _convert.asarray(data), [], []
    for cell, state, output in zip(cells, c, h, strict=True):
        state, x = cell(x, _convert.asarray(state), _convert.asarray(output))
        states.append(state)
        outputs.append(x)
    return states, outputs


# --- attention -------------------------------------------------------------------


def scaled_dot_product_attention(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    /,
    *,
    mask: TensorLike | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return ``softmax(q · kᵀ · scale) · v``: means of values by likeness of keys.

    Args:
        q: Queries, ``[..., queries, size]``.
        k: Keys, ``[..., keys, size]``.
        v: Values, ``[..., keys, width]``. All axes before the last two broadcast.
        mask: ``[..., queries, keys]``, or what broadcasts to it: bool, True where a
            query may look, or floating numbers to add to the scores; -inf is False.
        is_causal: Whether query ``i`` may look at keys 0 to ``i`` alone.
        scale: By default ``1 / √size``.

    Returns:
        ``[..., queries, width]``; zeros for a query that may not look at any key. q, k
        and v are promoted to one dtype; integers give float32.

    Raises:
        ValueError: The shapes do not fit.
        TypeError: A mask of integers, or complex numbers.

    """
    op = "scaled_dot_product_attention"
    q, k, v = (_convert.floating(op, x, "f") for x in _convert.promote_all(op, q, k, v))
    ranks = min(len(x.shape) for x in (q, k, v))
    if ranks < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        rule = "q is [..., queries, size], k [..., keys, size] and v [..., keys, width]"
        raise misfit(op, rule, q, k, v)
    geometry.broadcast(op, *[x.shape[:-2] for x in (q, k, v)])
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    scores = products.matmul(q * factor, k, transpose_b=True)
    allowed = None
    if mask is not None:
        scores, allowed = _masked(op, scores, mask)
    if flag(op, "is_causal", is_causal):
        past = _convert.asarray(np.tri(*scores.shape[-2:], dtype=bool), copy=False)
        allowed = past if allowed is None else compare.logical_and(allowed, past)
    if allowed is None:
        return products.matmul(norm.softmax(scores), v)
    # The least number, not -inf: a query without keys would give NaN, here and backward
    weights = norm.softmax(compare.where(allowed, scores, LIMITS[q.dtype][0]))
    if mask is not None:  # else each query may look at the first key
        weights = compare.where(allowed, weights, 0.0)
    return products.matmul(weights, v)


def _masked(op: str, scores: Tensor, mask: TensorLike) -> tuple[Tensor, Tensor]:
    """Return the scores, with what the mask adds, and where they are allowed."""
    mask, sizes = _convert.asarray(mask), scores.shape
    if mask.dtype.kind not in "bf":
        raise TypeError(
            f"{op}: mask must be bool or floating, got {mask.dtype}; say mask != 0"
        )
    if geometry.broadcast(op, sizes, mask.shape)[-2:] != sizes[-2:]:
        raise misfit(op, f"mask must broadcast to {sizes[-2:]}, queries and keys", mask)
    if mask.dtype is BOOL:
        return scores, mask
    allowed = compare.not_equal(mask, -math.inf)  # not of NaN, which is to be seen
    return scores + creation.cast(mask, scores.dtype), allowed
