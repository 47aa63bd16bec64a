"""LSTM, GRU and RNN: a loop over the steps, with products of all inputs before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import plugrad as pg

from ..registry import Value, op
from . import elementwise

Activation = Callable[[Value], Value]

_ACTIVATIONS: dict[str, tuple[Any, dict[str, float]]] = {
    "relu": (pg.relu, {}),
    "tanh": (pg.tanh, {}),
    "sigmoid": (pg.sigmoid, {}),
    "softsign": (elementwise.softsign, {}),
    "softplus": (pg.softplus, {}),
    "leakyrelu": (elementwise.leaky_relu, {"alpha": 0.01}),
    "thresholdedrelu": (elementwise.thresholded_relu, {"alpha": 1.0}),
    "elu": (elementwise.elu, {"alpha": 1.0}),
    "hardsigmoid": (elementwise.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "affine": (lambda x, alpha, beta: x * alpha + beta, {"alpha": 1.0, "beta": 0.0}),
    "scaledtanh": (lambda x, alpha, beta: alpha * pg.tanh(x * beta),
                   {"alpha": 1.0, "beta": 1.0}),
}  # fmt: skip


def _activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Activation]:
    """Return the functions; those with a parameter take the next one that is given."""
    found, rest = [], {"alpha": list(alphas), "beta": list(betas)}
    for name in names:
        function, defaults = _ACTIVATIONS[name.lower()]
        given = {k: rest[k].pop(0) if rest[k] else v for k, v in defaults.items()}
        found.append(_bound(function, given))
    return found


def _bound(function: Any, given: dict[str, float]) -> Activation:
    return lambda x: function(x, **given) if given else function(x)


def _directions(
    x: Value,
    lengths: Value,
    direction: str,
    layout: int,
    run: Callable[[int, Value, Value], tuple[Value, ...]],
) -> tuple[Value, ...]:
    """Run each direction; return all outputs of it, and the last states."""
    x = pg.permute_dims(x, (1, 0, 2)) if layout else x
    ways = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}[direction.lower()]
    found = []
    for number, backward in enumerate(ways):
        rows = _reversed(x, lengths) if backward else x
        mask = _mask(lengths, x)
        y, *states = run(number, rows, mask)
        found.append((_reversed(y, lengths) if backward else y, *states))
    y, *states = (list(parts) for parts in zip(*found, strict=True))
    outputs = [pg.stack(y, axis=1), *(pg.stack(one) for one in states)]
    if layout:
        outputs = [pg.permute_dims(outputs[0], (2, 0, 1, 3)), *(
            pg.permute_dims(one, (1, 0, 2)) for one in outputs[1:])]  # fmt: skip
    return tuple(outputs)


def _mask(lengths: Value, x: Value) -> Value:
    """Return which steps each row of the batch has, [steps, batch, 1]; None: all."""
    if lengths is None or (lengths == x.shape[0]).all():
        return None
    steps = pg.arange(x.shape[0], dtype="int64")
    lengths = pg.asarray(lengths.astype("int64"))
    return pg.less(pg.reshape(steps, (-1, 1, 1)), pg.reshape(lengths, (1, -1, 1)))


def _reversed(x: Value, lengths: Value) -> Value:
    if lengths is None or (lengths == x.shape[0]).all():
        return pg.flip(x, 0)
    from .indexing import reverse_sequence

    return reverse_sequence(x, lengths, batch_axis=1, time_axis=0)


def _loop(
    x: Value,
    states: tuple[Value, ...],
    mask: Value,
    step: Callable[[Value, tuple[Value, ...]], tuple[Value, ...]],
) -> tuple[Value, ...]:
    """Run the steps; rows that have ended keep their states, and their output is 0."""
    outputs = []
    for i in range(x.shape[0]):
        new = step(x[i], states)
        y = new[0]
        if mask is not None:
            new = tuple(
                pg.where(mask[i], a, b) for a, b in zip(new, states, strict=True)
            )
            y = pg.where(mask[i], y, pg.zeros_like(y))
        states = new
        outputs.append(y)
    empty = (0, *states[0].shape)
    all_outputs = pg.stack(outputs) if outputs else pg.zeros(empty, dtype=x.dtype)
    return all_outputs, *states


def _start(given: Value, number: int, x: Value, hidden: int, layout: int) -> Value:
    if given is None:
        return pg.zeros((x.shape[1], hidden), dtype=x.dtype)
    return given[:, number] if layout else given[number]


def _inputs(x: Value, w: Value, b: Value, count: int) -> Value:
    """Return the products of all steps with the weights, and the bias of inputs."""
    y = pg.matmul(x, w, transpose_b=True)
    return y if b is None else y + b[:count]


def _clipped(clip: float | None) -> Activation:
    return (lambda x: x) if clip is None else (lambda x: pg.clip(x, -clip, clip))


@op("RNN", since=7, reads=(4,))
def rnn(
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    layout: int = 0,
) -> Value:
    functions = _activations(activations, activation_alpha, activation_beta)
    bound, n = _clipped(clip), hidden_size

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        bias = None if b is None else b[number, :n] + b[number, n:]
        f, turn = functions[number], pg.matrix_transpose(r[number])
        step = lambda a, s: (f(bound(a + pg.matmul(s[0], turn))),)
        start = (_start(initial_h, number, x, n, layout),)
        return _loop(_inputs(x, w[number], bias, n), start, mask, step)

    return _directions(x, lengths, direction, layout, run)


@op("GRU", since=7, reads=(4,))
def gru(
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = ("Sigmoid", "Tanh") * 2,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> Value:
    functions = _activations(activations, activation_alpha, activation_beta)
    bound, n = _clipped(clip), hidden_size

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        f, g = functions[2 * number : 2 * number + 2]
        both, turn = r[number, : 2 * n], pg.matrix_transpose(r[number, 2 * n :])
        gates = pg.matrix_transpose(both)
        zero = pg.zeros((3 * n,), dtype=x.dtype)
        bias, of_state = (zero, zero) if b is None else (b[number, : 3 * n], b[number, 3 * n :])
        own, last = of_state[: 2 * n], of_state[2 * n :]

        def step(a: Value, s: tuple[Value, ...]) -> tuple[Value, ...]:
            h = s[0]
            zr = f(bound(a[:, : 2 * n] + pg.matmul(h, gates) + own))
            z, reset = zr[:, :n], zr[:, n:]
            if linear_before_reset:
                product = reset * (pg.matmul(h, turn) + last)
            else:
                product = pg.matmul(reset * h, turn) + last
            new = g(bound(a[:, 2 * n :] + product))
            return ((1 - z) * new + z * h,)

        start = (_start(initial_h, number, x, n, layout),)
        return _loop(_inputs(x, w[number], bias, 3 * n), start, mask, step)

    return _directions(x, lengths, direction, layout, run)


@op("LSTM", since=7, reads=(4,))
def lstm(
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    initial_c: Value = None,
    p: Value = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = ("Sigmoid", "Tanh", "Tanh") * 2,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    input_forget: int = 0,
    layout: int = 0,
) -> Value:
    functions = _activations(activations, activation_alpha, activation_beta)
    bound, n = _clipped(clip), hidden_size

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        f, g, h = functions[3 * number : 3 * number + 3]
        bias = None if b is None else b[number, : 4 * n] + b[number, 4 * n :]
        turn = pg.matrix_transpose(r[number])
        peep = None if p is None else pg.split(p[number], 3)

        def step(a: Value, s: tuple[Value, ...]) -> tuple[Value, ...]:
            state, cell = s
            gates = a + pg.matmul(state, turn)
            if peep is None and not input_forget and clip is None:
                iof, c = gates[:, : 3 * n], gates[:, 3 * n :]
                i, o, forget = pg.split(f(iof), 3, axis=1)
            else:
                i, o, forget, c = pg.split(gates, 4, axis=1)
                if peep is not None:
                    i, forget = i + peep[0] * cell, forget + peep[2] * cell
                i = f(bound(i))
                forget = 1 - i if input_forget else f(bound(forget))
            cell = forget * cell + i * g(bound(c))
            if peep is not None or input_forget or clip is not None:
                o = f(bound(o if peep is None else o + peep[1] * cell))
            return o * h(cell), cell

        start = tuple(_start(s, number, x, n, layout) for s in (initial_h, initial_c))
        return _loop(_inputs(x, w[number], bias, 4 * n), start, mask, step)

    return _directions(x, lengths, direction, layout, run)
