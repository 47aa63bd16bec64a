"""LSTM, GRU and RNN: a plugrad op if one fits, else a loop over the steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import plugrad as pg

from ..registry import Value, op
from . import elementwise, quantized

Activation = Callable[[Value], Value]


@dataclass(frozen=True)
class Cell:
    """The attributes that LSTM, GRU and RNN share."""

    activation_alpha: Sequence[float] = ()
    activation_beta: Sequence[float] = ()
    activations: Sequence[str] = ()
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int = 0
    layout: int = 0

    def functions(self, *names: str) -> list[Activation]:
        """Return the activations; by default those of ``names``, in each direction.

        An activation with parameters takes the next values of ``activation_alpha`` and
        ``activation_beta``.
        """
        found = []
        rest = {"alpha": [*self.activation_alpha], "beta": [*self.activation_beta]}
        for name in self.activations or names * 2:
            function, defaults = _ACTIVATIONS[name.lower()]
            given = {k: rest[k].pop(0) if rest[k] else v for k, v in defaults.items()}
            found.append(functools.partial(function, **given) if given else function)
        return found

    def is_default(self, *names: str) -> bool:
        """Return whether the activations are those of ``names``, without clipping."""
        given = zip(self.activations, names * 2, strict=False)
        return self.clip is None and all(a.lower() == b.lower() for a, b in given)

    def clip_value(self, x: Value) -> Value:
        """Clip a value if ``clip`` is set."""
        return x if self.clip is None else pg.clip(x, -self.clip, self.clip)


_ACTIVATIONS: dict[str, tuple[Any, dict[str, float]]] = {
    "relu": (pg.relu, {}),
    "tanh": (pg.tanh, {}),
    "sigmoid": (pg.sigmoid, {}),
    "softsign": (pg.softsign, {}),
    "softplus": (pg.softplus, {}),
    "leakyrelu": (elementwise.leaky_relu, {"alpha": 0.01}),
    "thresholdedrelu": (elementwise.thresholded_relu, {"alpha": 1.0}),
    "elu": (elementwise.elu, {"alpha": 1.0}),
    "hardsigmoid": (elementwise.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "affine": (lambda x, alpha, beta: x * alpha + beta, {"alpha": 1.0, "beta": 0.0}),
    "scaledtanh": (lambda x, alpha, beta: alpha * pg.tanh(x * beta),
                   {"alpha": 1.0, "beta": 1.0}),
}  # fmt: skip


def _directions(
    x: Value,
    lengths: Value,
    cell: Cell,
    run: Callable[[int, Value, Value], tuple[Value, ...]],
) -> tuple[Value, ...]:
    """Run each direction; return the outputs of all steps and the final states."""
    x = pg.permute_dims(x, (1, 0, 2)) if cell.layout else x
    ways = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}
    results = []
    for number, backward in enumerate(ways[cell.direction.lower()]):
        rows = _reversed(x, lengths) if backward else x
        mask = _mask(lengths, x)
        y, *states = run(number, rows, mask)
        results.append((_reversed(y, lengths) if backward else y, *states))
    y, *states = (list(parts) for parts in zip(*results, strict=True))
    outputs = [pg.stack(y, axis=1), *(pg.stack(one) for one in states)]
    if cell.layout:
        outputs = [pg.permute_dims(outputs[0], (2, 0, 1, 3)), *(
            pg.permute_dims(one, (1, 0, 2)) for one in outputs[1:])]  # fmt: skip
    return tuple(outputs)


def _mask(lengths: Value, x: Value) -> Value:
    """Return a mask of valid steps, [steps, batch, 1]; None: all are valid."""
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
    """Run the steps; an ended sequence keeps its states, and its outputs are 0."""
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


# The ONNX index of each gate, in the gate order of plugrad, which is PyTorch's.
ORDERS = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}


@op("Gates", domain="plugrad")
def gates(w: Value, r: Value, b: Value = None, *, kind: str) -> Value:
    """Return four arrays per direction: weights and biases in the layout of plugrad.

    Passes insert this op, which runs once.
    """

    def reorder_gates(v: Value) -> Value:
        parts = pg.split(v, len(ORDERS[kind]))
        return pg.concat([parts[i] for i in ORDERS[kind]])

    found: list[Value] = []
    for i in range(w.shape[0]):
        biases = [None, None] if b is None else map(reorder_gates, pg.split(b[i], 2))
        found += [reorder_gates(w[i]), reorder_gates(r[i]), *biases]
    return tuple(found)


def _run_op(
    run: Any, weights: Any, number: int, x: Value, start: Any
) -> tuple[Value, ...]:
    """Run a plugrad op with the weights of a direction."""
    return tuple(run(x, *weights[4 * number : 4 * number + 4], *start))


def _initial_state(
    given: Value, number: int, x: Value, hidden: int, layout: int
) -> Value:
    if given is None:
        return pg.zeros((x.shape[1], hidden), dtype=x.dtype)
    return given[:, number] if layout else given[number]


def _project_inputs(x: Value, w: Value, b: Value, count: int) -> Value:
    """Return the input projections of all steps, including the input bias."""
    y = pg.matmul(x, w, transpose_b=True)
    return y if b is None else y + b[:count]


CELL = Cell()


@op("RNN", since=7, reads=(4,))
def rnn(
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    *,
    cell: Cell = CELL,
) -> Value:
    functions = cell.functions("Tanh")
    clip_value = cell.clip_value
    n, layout = r.shape[-1], cell.layout

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        bias = None if b is None else b[number, :n] + b[number, n:]
        f = functions[number]
        r_transposed = pg.matrix_transpose(r[number])
        step = lambda a, s: (f(clip_value(a + pg.matmul(s[0], r_transposed))),)
        start = (_initial_state(initial_h, number, x, n, layout),)
        return _loop(_project_inputs(x, w[number], bias, n), start, mask, step)

    return _directions(x, lengths, cell, run)


@op("GRU", since=7, reads=(4,))
def gru(
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    *prepared: Value,
    cell: Cell = CELL,
    linear_before_reset: int = 0,
) -> Value:
    """Run a GRU; ``prepared`` is the result of ``gates`` if a pass inserted that op."""
    functions, clip_value = cell.functions("Sigmoid", "Tanh"), cell.clip_value
    n, layout = r.shape[-1], cell.layout
    fits_op = linear_before_reset and cell.is_default("Sigmoid", "Tanh") and x.size

    def run(i: int, x: Value, mask: Value) -> tuple[Value, ...]:
        start = (_initial_state(initial_h, i, x, n, layout),)
        if fits_op and mask is None:
            return _run_op(pg.gru, prepared or gates(w, r, b, kind="GRU"), i, x, start)
        f, g = functions[2 * i : 2 * i + 2]
        r_gates, r_new = r[i, : 2 * n], pg.matrix_transpose(r[i, 2 * n :])
        r_gates = pg.matrix_transpose(r_gates)
        biases = pg.zeros((6 * n,), dtype=x.dtype) if b is None else b[i]
        bias, state_bias = pg.split(biases, 2)
        gate_bias, new_bias = state_bias[: 2 * n], state_bias[2 * n :]

        def step(a: Value, s: tuple[Value, ...]) -> tuple[Value, ...]:
            h = s[0]
            zr = f(clip_value(a[:, : 2 * n] + pg.matmul(h, r_gates) + gate_bias))
            z, reset = zr[:, :n], zr[:, n:]
            if linear_before_reset:
                product = reset * (pg.matmul(h, r_new) + new_bias)
            else:
                product = pg.matmul(reset * h, r_new) + new_bias
            new = g(clip_value(a[:, 2 * n :] + product))
            return ((1 - z) * new + z * h,)

        return _loop(_project_inputs(x, w[i], bias, 3 * n), start, mask, step)

    return _directions(x, lengths, cell, run)


def _lstm_step(
    gates: Value,
    memory: Value,
    peepholes: Value,
    input_forget: int,
    functions: Sequence[Activation],
    clip_value: Activation,
) -> tuple[Value, Value]:
    """Run one LSTM step; it supports peepholes, coupled gates and clipping."""
    f, g, h = functions
    i, o, forget, c = pg.split(gates, 4, axis=1)
    if peepholes is not None:
        i = i + peepholes[0] * memory
        forget = forget + peepholes[2] * memory
    i = f(clip_value(i))
    forget = 1 - i if input_forget else f(clip_value(forget))
    memory = forget * memory + i * g(clip_value(c))
    o = f(clip_value(o if peepholes is None else o + peepholes[1] * memory))
    return o * h(memory), memory


@dataclass(frozen=True)
class _Steps:
    """The steps of an LSTM, except for the products with its weights."""

    cell: Cell
    hidden: int
    b: Value
    initial: tuple[Value, Value]
    p: Value
    input_forget: int

    @property
    def fits_op(self) -> bool:
        """Whether the plugrad op supports these steps."""
        names = "Sigmoid", "Tanh", "Tanh"
        return self.p is None and not self.input_forget and self.cell.is_default(*names)

    def start(self, number: int, x: Value) -> tuple[Value, ...]:
        """Return the initial states of a direction."""
        options = number, x, self.hidden, self.cell.layout
        return tuple(_initial_state(state, *options) for state in self.initial)

    def run(
        self,
        number: int,
        x: Value,
        mask: Value,
        project_input: Activation,
        project_state: Activation,
    ) -> tuple[Value, ...]:
        """Run the steps of a direction; the two functions multiply by the weights."""
        functions = self.cell.functions("Sigmoid", "Tanh", "Tanh")
        options = functions[3 * number : 3 * number + 3], self.cell.clip_value
        n, b = self.hidden, self.b
        peepholes = None if self.p is None else pg.split(self.p[number], 3)
        a = project_input(x)
        a = a if b is None else a + (b[number, : 4 * n] + b[number, 4 * n :])

        def step(a: Value, s: tuple[Value, ...]) -> tuple[Value, ...]:
            return _lstm_step(
                a + project_state(s[0]), s[1], peepholes, self.input_forget, *options
            )

        return _loop(a, self.start(number, x), mask, step)


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
    *prepared: Value,
    cell: Cell = CELL,
    input_forget: int = 0,
) -> Value:
    """Run an LSTM; ``prepared`` is the result of ``gates`` if a pass inserted it."""
    steps = _Steps(cell, r.shape[-1], b, (initial_h, initial_c), p, input_forget)

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        if steps.fits_op and mask is None and x.size:
            weights = prepared or gates(w, r, b, kind="LSTM")
            start = steps.start(number, x)
            return _run_op(pg.lstm, weights, number, x, start)
        r_transposed = pg.matrix_transpose(r[number])
        project_input = lambda x: pg.matmul(x, w[number], transpose_b=True)
        return steps.run(
            number, x, mask, project_input, lambda h: pg.matmul(h, r_transposed)
        )

    return _directions(x, lengths, cell, run)


@op("DynamicQuantizeLSTM", domain="com.microsoft", reads=(4,))
def dynamic_quantize_lstm(
    x: Value,
    w: Value,
    r: Value,
    b: Value,
    lengths: Value,
    initial_h: Value,
    initial_c: Value,
    p: Value,
    w_scale: Value,
    w_zero: Value,
    r_scale: Value,
    r_zero: Value,
    *prepared: Value,
    cell: Cell = CELL,
    input_forget: int = 0,
) -> Value:
    """Run the ONNX Runtime LSTM that quantizes inputs and states dynamically.

    Weights are transposed; scales and zero points are per direction or per column.
    ``prepared`` is the result of ``gate_weights`` if a pass inserted that op.
    """
    steps = _Steps(cell, r.shape[-2], b, (initial_h, initial_c), p, input_forget)
    prepared = prepared or gate_weights(w, r, w_zero, r_zero)

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        project_input, project_state = (
            functools.partial(quantized.dynamic_matmul, given=given, scale=scale)
            for given, scale in (
                (prepared[4 * number : 4 * number + 2], w_scale[number]),
                (prepared[4 * number + 2 : 4 * number + 4], r_scale[number]),
            )
        )
        return steps.run(number, x, mask, project_input, project_state)

    return _directions(x, lengths, cell, run)


@op("QuantizedGates", domain="plugrad", reads=(0, 1, 2, 3))
def gate_weights(w: Value, r: Value, w_zero: Value, r_zero: Value) -> Value:
    """Return four arrays per direction: int8 weights and remaining zero points.

    A pass inserts this op, which runs once.
    """
    found: list[Value] = []
    for i in range(w.shape[0]):
        for v, zero in ((w, w_zero), (r, r_zero)):
            found += quantized.weights(v[i], zero[i], matrix=1)
    return tuple(found)
