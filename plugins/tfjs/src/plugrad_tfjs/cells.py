"""Recurrent cells with the TensorFlow.js interface: ``tf.basicLSTMCell``.

plugrad itself provides ``lstm`` and ``gru``, which run a whole sequence in one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import plugrad as pg
from plugrad import Tensor
from plugrad.plugin import TensorLike

__all__ = ["basic_lstm_cell", "multi_rnn_cell"]

Cell = Callable[[Tensor, Tensor, Tensor], Sequence[Tensor]]
NUMBER = bool | int | float | complex


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

    ``i, j, f, o`` are the four parts of ``concat(data, h) · lstm_kernel + lstm_bias``::

        c' = σ(i) · tanh(j) + σ(f + forget_bias) · c
        h' = σ(o) · tanh(c')

    Args:
        forget_bias: A scalar; 1 makes the cell keep its state at the start of training.
        lstm_kernel: The weights, ``[inputs + units, 4 · units]``.
        lstm_bias: The bias, ``[4 · units]``.
        data: The input of this step, ``[batch, inputs]``.
        c: The last state, ``[batch, units]``.
        h: The last output, ``[batch, units]``.

    Returns:
        The next state and output, ``[batch, units]`` each, of the floating dtype to
        which all arguments are promoted.

    Raises:
        ValueError: The shapes do not match.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> import plugrad as pg
        >>> from plugrad_tfjs import basic_lstm_cell
        >>> kernel, bias = pg.zeros((3, 4)), pg.zeros((4,))
        >>> c, h = basic_lstm_cell(1.0, kernel, bias, [[1.0, 2.0]], [[1.0]], [[0.0]])
        >>> round(c.item(), 4)
        0.7311

    Source:
        S. Hochreiter and J. Schmidhuber, "Long Short-Term Memory", 1997; W. Zaremba, I.
        Sutskever and O. Vinyals, "Recurrent Neural Network Regularization", 2014.

    """
    tensors = _floating(
        "basic_lstm_cell", forget_bias, lstm_kernel, lstm_bias, data, c, h
    )
    _check_shapes("basic_lstm_cell", *tensors)
    forget, kernel, bias, data, c, h = tensors
    y = pg.matmul(pg.concat([data, h], axis=1), kernel) + bias
    i, j, f, o = pg.split(y, 4, axis=1)
    state = pg.sigmoid(i) * pg.tanh(j) + pg.sigmoid(f + forget) * c
    return state, pg.sigmoid(o) * pg.tanh(state)


def _floating(op: str, *values: TensorLike) -> list[Tensor]:
    """Return the arguments as tensors of the floating dtype they are promoted to."""
    operands: list[Any] = [
        x if isinstance(x, NUMBER) else pg.asarray(x) for x in values
    ]
    if any(x.dtype.kind == "O" for x in operands if isinstance(x, Tensor)):
        raise TypeError(f"{op}: strings are not supported")
    try:
        dtype = pg.result_type(*operands)
    except TypeError as error:
        reason = str(error).removeprefix("result_type: ")
        raise TypeError(f"{op}: {reason}") from None
    if dtype.kind == "c":
        raise TypeError(f"{op}: complex numbers ({dtype}) are not supported")
    floating = dtype if dtype.kind == "f" else pg.float32
    return [
        pg.astype(x, floating)
        if isinstance(x, Tensor)
        else pg.asarray(x, dtype=floating)
        for x in operands
    ]


def _check_shapes(
    op: str, forget: Tensor, kernel: Tensor, bias: Tensor, data: Tensor, *cell: Tensor
) -> None:
    """Raise if the shapes of the arguments do not match; ``cell`` is (c, h)."""
    c, _ = cell
    given_shapes = f"{data.shape} and {c.shape}"
    if data.ndim != 2 or c.ndim != 2:
        rule = "data must be [batch, inputs], c [batch, units]"
        raise ValueError(f"{op}: {rule}; got shapes {given_shapes}")
    (batch, inputs), units = data.shape, c.shape[1]
    expected = {"forget_bias": (), "lstm_kernel": (inputs + units, 4 * units)}
    expected |= {"lstm_bias": (4 * units,), "c": (batch, units), "h": (batch, units)}
    for (name, shape), x in zip(
        expected.items(), (forget, kernel, bias, *cell), strict=True
    ):
        if x.shape != shape:
            raise ValueError(
                f"{op}: {name} must have shape {shape} to fit data and c; got shapes "
                f"{x.shape} and {given_shapes}"
            )


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
        The list of the next states and the list of the next outputs.

    Raises:
        ValueError: The number of ``c`` or ``h`` differs from the number of cells, or a
            cell is not a function.
        TypeError: ``lstm_cells``, ``c`` or ``h`` is not a sequence.

    Example:
        >>> from plugrad_tfjs import multi_rnn_cell
        >>> cell = lambda data, c, h: (c + data, c * data)
        >>> states, outputs = multi_rnn_cell([cell], 2.0, [3.0], [0.0])
        >>> outputs
        [Tensor(6., dtype=float32, backend='cpu')]

    """
    given = {"lstm_cells": lstm_cells, "c": c, "h": h}
    cells, last_states, last_outputs = (
        _as_list("multi_rnn_cell", *one) for one in given.items()
    )
    if not len(cells) == len(last_states) == len(last_outputs) or not all(
        map(callable, cells)
    ):
        counts = f"{len(last_states)} and {len(last_outputs)}"
        rule = f"c and h need an entry for each of {len(cells)} cells, got {counts}"
        raise ValueError(f"multi_rnn_cell: {rule}; each cell must be a function")
    x = pg.asarray(data)
    states = list[Tensor]()
    outputs = list[Tensor]()
    for cell, state, output in zip(cells, last_states, last_outputs, strict=True):
        state, x = cell(x, pg.asarray(state), pg.asarray(output))
        states.append(state)
        outputs.append(x)
    return states, outputs


def _as_list(op: str, name: str, given: Any) -> list[Any]:
    """Return the elements of a sequence or of another ordered iterable."""
    is_unordered = isinstance(given, str | bytes | Mapping | Set) or not np.iterable(
        given
    )
    if is_unordered or getattr(given, "shape", None) == ():
        raise TypeError(f"{op}: {name} must be a sequence, got {given!r}")
    return list(given)
