"""LSTM, GRU and RNN: a plugrad op if there is one, else a loop over the steps."""

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

        An activation with a parameter uses the next one of the attribute.
        """
        found = []
        rest = {"alpha": [*self.activation_alpha], "beta": [*self.activation_beta]}
        for name in self.activations or names * 2:
            function, defaults = _ACTIVATIONS[name.lower()]
            given = {k: rest[k].pop(0) if rest[k] else v for k, v in defaults.items()}
            found.append(functools.partial(function, **given) if given else function)
        return found

    def default(self, *names: str) -> bool:
        """Return whether the activations are those of ``names``, without ``clip``."""
        given = zip(self.activations, names * 2, strict=False)
        return self.clip is None and all(a.lower() == b.lower() for a, b in given)

    def bound(self, x: Value) -> Value:
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
    """Run each direction; return the outputs of all steps and the last states."""
    x = pg.permute_dims(x, (1, 0, 2)) if cell.layout else x
    both = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}
    ways = both[cell.direction.lower()]
    found = []
    for number, backward in enumerate(ways):
        rows = _reversed(x, lengths) if backward else x
        mask = _mask(lengths, x)
        y, *states = run(number, rows, mask)
        found.append((_reversed(y, lengths) if backward else y, *states))
    y, *states = (list(parts) for parts in zip(*found, strict=True))
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
    """Run the steps; rows that have ended keep their states and output 0."""
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


# The ONNX gates in the order of plugrad's ops, which is that of PyTorch.
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


def _run_op(run: Any, own: Any, number: int, x: Value, start: Any) -> tuple[Value, ...]:
    """Run a plugrad op with the weights of a direction."""
    return tuple(run(x, *own[4 * number : 4 * number + 4], *start))


def _initial_state(
    given: Value, number: int, x: Value, hidden: int, layout: int
) -> Value:
    if given is None:
        return pg.zeros((x.shape[1], hidden), dtype=x.dtype)
    return given[:, number] if layout else given[number]


def _inputs(x: Value, w: Value, b: Value, count: int) -> Value:
    """Return the input projections of all steps, with the input bias."""
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
    bound = cell.bound
    n, layout = r.shape[-1], cell.layout

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        bias = None if b is None else b[number, :n] + b[number, n:]
        f = functions[number]
        turn = pg.matrix_transpose(r[number])
        step = lambda a, s: (f(bound(a + pg.matmul(s[0], turn))),)
        start = (_initial_state(initial_h, number, x, n, layout),)
        return _loop(_inputs(x, w[number], bias, n), start, mask, step)

    return _directions(x, lengths, cell, run)


@op("GRU", since=7, reads=(4,))
def gru(
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    lengths: Value = None,
    initial_h: Value = None,
    *own: Value,
    cell: Cell = CELL,
    linear_before_reset: int = 0,
) -> Value:
    """Run a GRU; ``own`` is the result of ``gates``, if a pass inserted it."""
    functions, bound = cell.functions("Sigmoid", "Tanh"), cell.bound
    n, layout = r.shape[-1], cell.layout
    plain = linear_before_reset and cell.default("Sigmoid", "Tanh") and x.size

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        start = (_initial_state(initial_h, number, x, n, layout),)
        if plain and mask is None:
            return _run_op(pg.gru, own or gates(w, r, b, kind="GRU"), number, x, start)
        f, g = functions[2 * number : 2 * number + 2]
        both, turn = r[number, : 2 * n], pg.matrix_transpose(r[number, 2 * n :])
        both = pg.matrix_transpose(both)
        both_biases = pg.zeros((6 * n,), dtype=x.dtype) if b is None else b[number]
        bias, of_state = pg.split(both_biases, 2)
        first, last = of_state[: 2 * n], of_state[2 * n :]

        def step(a: Value, s: tuple[Value, ...]) -> tuple[Value, ...]:
            h = s[0]
            zr = f(bound(a[:, : 2 * n] + pg.matmul(h, both) + first))
            z, reset = zr[:, :n], zr[:, n:]
            if linear_before_reset:
                product = reset * (pg.matmul(h, turn) + last)
            else:
                product = pg.matmul(reset * h, turn) + last
            new = g(bound(a[:, 2 * n :] + product))
            return ((1 - z) * new + z * h,)

        return _loop(_inputs(x, w[number], bias, 3 * n), start, mask, step)

    return _directions(x, lengths, cell, run)


def _general(
    gates: Value,
    memory: Value,
    peep: Value,
    input_forget: int,
    functions: Sequence[Activation],
    bound: Activation,
) -> tuple[Value, Value]:
    """Return a step of an LSTM with peepholes, coupled gates or ``clip``."""
    f, g, h = functions
    i, o, forget, c = pg.split(gates, 4, axis=1)
    if peep is not None:
        i = i + peep[0] * memory
        forget = forget + peep[2] * memory
    i = f(bound(i))
    forget = 1 - i if input_forget else f(bound(forget))
    memory = forget * memory + i * g(bound(c))
    o = f(bound(o if peep is None else o + peep[1] * memory))
    return o * h(memory), memory


@dataclass(frozen=True)
class _Steps:
    """The steps of an LSTM, without its products with weights."""

    cell: Cell
    hidden: int
    b: Value
    initial: tuple[Value, Value]
    p: Value
    input_forget: int

    @property
    def plain(self) -> bool:
        """Whether the plugrad op supports these steps."""
        names = "Sigmoid", "Tanh", "Tanh"
        return self.p is None and not self.input_forget and self.cell.default(*names)

    def start(self, number: int, x: Value) -> tuple[Value, ...]:
        """Return the initial states of a direction."""
        how = number, x, self.hidden, self.cell.layout
        return tuple(_initial_state(state, *how) for state in self.initial)

    def run(
        self,
        number: int,
        x: Value,
        mask: Value,
        of_input: Activation,
        of_state: Activation,
    ) -> tuple[Value, ...]:
        """Run the steps of a direction; the two functions multiply by the weights."""
        functions = self.cell.functions("Sigmoid", "Tanh", "Tanh")
        how = functions[3 * number : 3 * number + 3], self.cell.bound
        n, b = self.hidden, self.b
        peep = None if self.p is None else pg.split(self.p[number], 3)
        a = of_input(x)
        a = a if b is None else a + (b[number, : 4 * n] + b[number, 4 * n :])

        def step(a: Value, s: tuple[Value, ...]) -> tuple[Value, ...]:
            return _general(a + of_state(s[0]), s[1], peep, self.input_forget, *how)

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
    *own: Value,
    cell: Cell = CELL,
    input_forget: int = 0,
) -> Value:
    """Run an LSTM; ``own`` is the result of ``gates``, if a pass inserted it."""
    steps = _Steps(cell, r.shape[-1], b, (initial_h, initial_c), p, input_forget)

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        if steps.plain and mask is None and x.size:
            weights = own or gates(w, r, b, kind="LSTM")
            start = steps.start(number, x)
            return _run_op(pg.lstm, weights, number, x, start)
        turn = pg.matrix_transpose(r[number])
        of_input = lambda x: pg.matmul(x, w[number], transpose_b=True)
        return steps.run(number, x, mask, of_input, lambda h: pg.matmul(h, turn))

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
    *own: Value,
    cell: Cell = CELL,
    input_forget: int = 0,
) -> Value:
    """Run the ONNX Runtime LSTM that quantizes inputs and states dynamically.

    Weights are transposed; scales and zero points are per direction or per column.
    ``own`` is the result of ``gate_weights``, if a pass inserted it.
    """
    steps = _Steps(cell, r.shape[-2], b, (initial_h, initial_c), p, input_forget)
    own = own or gate_weights(w, r, w_zero, r_zero)

    def run(number: int, x: Value, mask: Value) -> tuple[Value, ...]:
        of_input, of_state = (
            functools.partial(quantized.dynamic_matmul, given=given, scale=scale)
            for given, scale in (
                (own[4 * number : 4 * number + 2], w_scale[number]),
                (own[4 * number + 2 : 4 * number + 4], r_scale[number]),
            )
        )
        return steps.run(number, x, mask, of_input, of_state)

    return _directions(x, lengths, cell, run)


@op("QuantizedGates", domain="plugrad", reads=(0, 1, 2, 3))
def gate_weights(w: Value, r: Value, w_zero: Value, r_zero: Value) -> Value:
    """Return int8 weights, four per direction; passes insert this op."""
    found: list[Value] = []
    for i in range(w.shape[0]):
        for v, zero in ((w, w_zero), (r, r_zero)):
            found += quantized.weights(v[i], zero[i], matrix=1)
    return tuple(found)
