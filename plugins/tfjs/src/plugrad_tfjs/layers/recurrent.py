"""SimpleRNN, GRU and LSTM.

A mask is [batch, steps]; where it is false, the state does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..activations import Activation
from .basic import with_bias
from .table import Shapes, layer

TANH: Any = "tanh"
HARD_SIGMOID: Any = "hard_sigmoid"
State = tuple[Any, ...]


def _weight_shapes(count: int) -> Shapes:
    def shapes(s: Mapping[str, Any]) -> dict[str, Any]:
        units = s["units"]
        width = count * s["units"]
        kernels = {"kernel": (None, width), "recurrent_kernel": (units, width)}
        return {**kernels, **with_bias(s, width)}

    return shapes


def _scan(
    step: Callable[[Any, State], State],
    gates: Any,
    state: State,
    mask: Any,
    order: tuple[bool, bool, bool],
) -> Any:
    """Run a cell over time.

    ``order`` is (go_backwards, return_sequences, return_state).
    """
    backwards, sequences, states = order
    rows = pg.unstack(gates, axis=1)
    masks: list[Any] = [None] * len(rows)
    if mask is not None:
        masks = [m[:, None] for m in pg.unstack(mask, axis=1)]
    outputs: list[Any] = []
    for t in range(len(rows))[:: -1 if backwards else 1]:
        new = step(rows[t], state)
        if masks[t] is not None:
            pairs = zip(new, state, strict=True)
            new = tuple(pg.where(masks[t], after, before) for after, before in pairs)
        state = new
        outputs.append(state[0])
    output = pg.stack(outputs, axis=1) if sequences else state[0]
    return (output, *state) if states else output


def _initial_states(x: Any, states: Sequence[Any], units: int, count: int) -> State:
    if states:
        return tuple(states)
    return (pg.zeros((x.shape[0], units), dtype=x.dtype),) * count


def _input_gates(x: Any, kernel: Any, bias: Any) -> Any:
    """Return the input projections of all steps, computed by one matrix product."""
    y = x @ kernel
    return y if bias is None else y + bias


@layer("SimpleRNN", shapes=_weight_shapes(1), masks="takes")
def simple_rnn(
    x: Any,
    *states: Any,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    units: int,
    activation: Activation = TANH,
    use_bias: bool = True,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
) -> Any:
    def step(gates: Any, state: State) -> State:
        return (activation(gates + state[0] @ recurrent_kernel),)

    start = _initial_states(x, states, units, 1)
    order = (go_backwards, return_sequences, return_state)
    return _scan(step, _input_gates(x, kernel, bias), start, mask, order)


@layer("GRU", shapes=_weight_shapes(3), masks="takes")
def gru(
    x: Any,
    *states: Any,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    units: int,
    activation: Activation = TANH,
    recurrent_activation: Activation = HARD_SIGMOID,
    use_bias: bool = True,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
) -> Any:
    inner, outer = pg.split(recurrent_kernel, [2 * units, units], axis=1)

    def step(gates: Any, state: State) -> State:
        (h,) = state
        update, new = pg.split(gates, [2 * units, units], axis=1)
        gates_zr = recurrent_activation(update + h @ inner)
        z = gates_zr[:, :units]
        r = gates_zr[:, units:]
        return (z * h + (1.0 - z) * activation(new + (r * h) @ outer),)

    start = _initial_states(x, states, units, 1)
    order = (go_backwards, return_sequences, return_state)
    return _scan(step, _input_gates(x, kernel, bias), start, mask, order)


@layer("LSTM", shapes=_weight_shapes(4), masks="takes")
def lstm(
    x: Any,
    *states: Any,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    units: int,
    activation: Activation = TANH,
    recurrent_activation: Activation = HARD_SIGMOID,
    use_bias: bool = True,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
) -> Any:
    def step(gates: Any, state: State) -> State:
        h, c = state
        i, f, new, o = pg.split(gates + h @ recurrent_kernel, [units] * 4, axis=1)
        c = recurrent_activation(f) * c + recurrent_activation(i) * activation(new)
        return recurrent_activation(o) * activation(c), c

    start = _initial_states(x, states, units, 2)
    order = (go_backwards, return_sequences, return_state)
    return _scan(step, _input_gates(x, kernel, bias), start, mask, order)
