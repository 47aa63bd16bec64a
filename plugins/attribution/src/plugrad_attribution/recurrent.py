"""The rules of LSTM and GRU: gates get nothing, signals get everything.

A cell of an LSTM multiplies gates, which are between 0 and 1, and signals::

    c' = f · c + i · tanh(g)
    h' = o · tanh(c')

Here the gates ``i, f, o`` count as constants. Otherwise they would get half of each
product, and pass it on through a sigmoid. At 0, a sigmoid is 1/2, a value that no input
explains, and over many steps the relevances of such values grow without limit.

Contents: helpers for sequences; LSTM; GRU; the table.

Source:
    L. Arras et al., "Explaining and Interpreting LSTMs", 2019 ("signal-take-all").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import plugrad as pg
from plugrad.plugin import Tensor

from .kernels import identity_rule
from .layers import Table
from .rules import damped

# --- helpers for sequences -------------------------------------------------------


def _before(states: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """Return the state before each step, beginning with ``first``."""
    first = pg.expand_dims(first, 0)
    parts = [states[1:], first] if reverse else [first, states[:-1]]
    return pg.concat(parts, axis=0)


def _backward(xs: Tensor, reverse: bool) -> Sequence[Tensor]:
    """Return the steps in the order of the backward pass, the last one first."""
    return pg.unstack(xs)[:: 1 if reverse else -1]


def _stacked(steps: list[Tensor], reverse: bool) -> Tensor:
    """Return steps that were collected backward, in the order of the sequence."""
    return pg.stack(steps[:: 1 if reverse else -1])


def _through_tanh(factor: Tensor, x: Tensor) -> Tensor:
    """Return ``factor · tanh(x) / x``, the identity rule of ``tanh``."""
    return identity_rule(factor, x, pg.tanh(x), lambda factor: factor)


def _among_gates(signal: Tensor, before: int, after: int) -> Tensor:
    """Return ``signal`` between the zeros of the gates, along the last axis."""
    none = pg.zeros_like(signal)
    return pg.concat([*[none] * before, signal, *[none] * after], axis=-1)


def _rows(x: Tensor) -> Tensor:
    """Return ``[steps, batch, n]`` as ``[steps · batch, n]``."""
    return pg.reshape(x, (-1, x.shape[2]))


def _shares(tracked: Sequence[bool], states: Tensor) -> tuple[float, float]:
    """Return the shares of state and weights in their product.

    Weights that do not depend on the input get nothing. If they do, and a state before
    a step does as well, each of them gets half.
    """
    signal, first, weight = tracked[0], tracked[1], tracked[-1]
    is_shared = weight and (signal or first or states.shape[0] > 1)
    return (0.5, 0.5) if is_shared else (1.0, 1.0)


# --- LSTM ------------------------------------------------------------------------


def _lstm(amount: float) -> Callable[..., list[Tensor]]:
    def rule(
        dy: Tensor,
        dcells: Tensor,
        xs: Sequence[Tensor],
        y: Tensor,
        cells: Tensor,
        reverse: bool,
        xs_tracked: Sequence[bool],
    ) -> list[Tensor]:
        gates, h, c, weight = xs
        states = _before(y, h, reverse)
        of_state, of_weight = _shares(xs_tracked, states)
        i, f, g, o = pg.split(gates + pg.matmul(states, weight), 4, axis=2)
        keep = pg.sigmoid(f)
        to_cell = _through_tanh(pg.sigmoid(o), cells)
        to_signal = damped(_through_tanh(pg.sigmoid(i), g), g, amount)
        w = pg.split(weight, 4, axis=1)[2]
        dh = dc = pg.zeros_like(c)
        found = []
        parts = (dy, dcells, to_cell, to_signal, keep)
        steps = [_backward(part, reverse) for part in parts]
        for d, e, cell, signal, kept in zip(*steps, strict=True):
            e = e + dc + (d + dh) * cell
            found.append(e * signal)
            dh = of_state * pg.matmul(found[-1], w, transpose_b=True)
            dc = e * kept
        dg = _stacked(found, reverse)
        dw = of_weight * pg.matmul(_rows(states), _rows(dg), transpose_a=True)
        return [_among_gates(dg, 2, 1), dh, dc, _among_gates(dw, 2, 1)]

    return rule


# --- GRU -------------------------------------------------------------------------


def _gru(amount: float) -> Callable[..., list[Tensor]]:
    """Return the rule for ``h' = (1 - z) · tanh(m + r · (h · w + b)) + z · h``.

    ``r`` and ``z`` are the gates.
    """

    def rule(
        dy: Tensor,
        xs: Sequence[Tensor],
        y: Tensor,
        reverse: bool,
        xs_tracked: Sequence[bool],
    ) -> list[Tensor]:
        gates, h, weight, bias = xs
        states = _before(y, h, reverse)
        of_state, of_weight = _shares(xs_tracked[:3], states)
        of_input = pg.split(gates, 3, axis=2)
        sums = pg.matmul(states, weight) + bias
        r, z, m = pg.split(sums, 3, axis=2)
        r, z = pg.sigmoid(r + of_input[0]), pg.sigmoid(z + of_input[1])
        u = of_input[2] + r * m
        to_signal = damped(_through_tanh(1 - z, u), u, amount)
        to_product = damped(r, m, amount)
        w = pg.split(weight, 3, axis=1)[2]
        dh = pg.zeros_like(h)
        found, products = [], []
        steps = [_backward(x, reverse) for x in (dy, to_signal, to_product, z)]
        for d, signal, product, kept in zip(*steps, strict=True):
            d = d + dh
            found.append(d * signal)
            products.append(found[-1] * product)
            dh = d * kept + of_state * pg.matmul(products[-1], w, transpose_b=True)
        dm, dp = _stacked(found, reverse), _stacked(products, reverse)
        dw = of_weight * pg.matmul(_rows(states), _rows(dp), transpose_a=True)
        signals = dm, dw, pg.sum(dp, axis=(0, 1))
        da, dw, db = [_among_gates(signal, 2, 0) for signal in signals]
        return [da, dh, dw, db]

    return rule


# --- the table -------------------------------------------------------------------


def recurrent(amount: float) -> Table:
    """Return the rules of LSTM and GRU.

    Args:
        amount: The stabilizer of the sums before ``tanh``.

    """
    return {"LSTM": {"xs": _lstm(amount)}, "GRU": {"xs": _gru(amount)}}


__all__ = ["recurrent"]
