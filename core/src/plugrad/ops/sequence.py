"""Recurrent cells and attention, composed of other ops; no kernels."""

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
    """Return the next state ``c'`` and output ``h'`` of an LSTM cell.

    With ``i, j, f, o`` the four parts of
    ``concat(data, h) · lstm_kernel + lstm_bias``::

        c' = σ(i) · tanh(j) + σ(f + forget_bias) · c
        h' = σ(o) · tanh(c')

    Args:
        forget_bias: A scalar; 1 makes the cell keep its state at the start of training.
        lstm_kernel: ``[inputs + units, 4 · units]``.
        lstm_bias: ``[4 · units]``.
        data: ``[batch, inputs]``.
        c: The state, ``[batch, units]``.
        h: The last output, ``[batch, units]``.

    Returns:
        The next state and output, ``[batch, units]`` each, of the floating dtype to
        which all arguments are promoted.

    Raises:
        ValueError: The shapes do not fit.
        TypeError: An argument is complex or holds strings.

    Example:
        >>> kernel, bias = pg.zeros((3, 4)), pg.zeros((4,))
        >>> c, h = pg.basic_lstm_cell(1.0, kernel, bias, [[1.0, 2.0]], [[1.0]], [[0.0]])
        >>> c
        Tensor([[0.7311]], dtype=float32, backend='cpu')

    Source:
        S. Hochreiter and J. Schmidhuber, "Long Short-Term Memory", 1997; W. Zaremba, I.
        Sutskever and O. Vinyals, "Recurrent Neural Network Regularization", 2014.

    """
    op = "basic_lstm_cell"
    given = _convert.promote_all(op, forget_bias, lstm_kernel, lstm_bias, data, c, h)
    forget, kernel, bias, data, c, h = (_convert.floating(op, x, "f") for x in given)
    if len(data.shape) != 2 or len(c.shape) != 2:
        raise misfit(op, "data must be [batch, inputs], c [batch, units]", data, c)
    (batch, inputs), units = data.shape, c.shape[1]
    wanted = {"forget_bias": (), "lstm_kernel": (inputs + units, 4 * units)}
    wanted |= {"lstm_bias": (4 * units,), "c": (batch, units), "h": (batch, units)}
    weights = (forget, kernel, bias, c, h)
    for (name, sizes), x in zip(wanted.items(), weights, strict=True):
        if x.shape != sizes:
            rule = f"{name} must have shape {sizes} to fit data and c"
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
    """Return the next states and outputs of stacked cells.

    Each cell gets the output of the one before it as its data.

    Args:
        lstm_cells: Functions of data, c and h that return the next c and h, such as
            ``functools.partial(basic_lstm_cell, forget_bias, lstm_kernel, lstm_bias)``.
        data: The input of the first cell.
        c: The state of each cell.
        h: The last output of each cell.

    Returns:
        The list of the next states, and that of the next outputs.

    Raises:
        ValueError: There are not as many ``c`` and ``h`` as cells, or a cell is not a
            function.

    Example:
        >>> cell = lambda data, c, h: (c + data, c * data)
        >>> states, outputs = pg.multi_rnn_cell([cell], 2.0, [3.0], [0.0])
        >>> outputs
        [Tensor(6., dtype=float32, backend='cpu')]

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
    """Return ``softmax(q · kᵀ · scale) · v``, averages of values weighted by attention.

    Args:
        q: Queries, ``[..., queries, size]``.
        k: Keys, ``[..., keys, size]``.
        v: Values, ``[..., keys, width]``. All axes before the last two broadcast.
        mask: Which keys each query attends to; it broadcasts to
            ``[..., queries, keys]``. Bool: True where it does. Floating: added to the
            scores, so that -inf masks.
        is_causal: Whether query ``i`` attends to keys 0 to ``i`` only.
        scale: By default ``1 / √size``.

    Returns:
        ``[..., queries, width]``; zeros for a query that attends to no key. q, k and v
        are promoted to one dtype; integers and bool give float32.

    Raises:
        ValueError: The shapes do not fit.
        TypeError: The mask holds integers, or an argument is complex or holds strings.

    Example:
        >>> q = k = [[1.0, 0.0], [0.0, 1.0]]
        >>> pg.scaled_dot_product_attention(q, k, [[1.0], [2.0]], is_causal=True)
        Tensor([[1.    ],
                [1.6698]], dtype=float32, backend='cpu')

    Source:
        A. Vaswani et al., "Attention Is All You Need", 2017.

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
    # Not -inf: a query without keys would give NaN, here and in backward
    weights = norm.softmax(compare.where(allowed, scores, LIMITS[q.dtype][0]))
    if mask is not None:  # else each query attends to the first key
        weights = compare.where(allowed, weights, 0.0)
    return products.matmul(weights, v)


def _masked(op: str, scores: Tensor, mask: TensorLike) -> tuple[Tensor, Tensor]:
    """Return the scores plus a floating mask, and where attention is allowed."""
    mask, sizes = _convert.asarray(mask), scores.shape
    if mask.dtype.kind not in "bf":
        raise TypeError(
            f"{op}: mask must be bool or floating, got {mask.dtype}; pass mask != 0"
        )
    if geometry.broadcast(op, sizes, mask.shape)[-2:] != sizes[-2:]:
        raise misfit(op, f"mask must broadcast to {sizes[-2:]}, queries and keys", mask)
    if mask.dtype is BOOL:
        return scores, mask
    allowed = compare.not_equal(mask, -math.inf)  # NaN stays visible
    return scores + creation.cast(mask, scores.dtype), allowed
