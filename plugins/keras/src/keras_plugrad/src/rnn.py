"""Recurrent networks: the loop over time steps, LSTM and GRU.

Contents: the loop; LSTM and GRU as one op; what there is only for other backends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import plugrad as pg
from plugrad import Tensor

from .keras_names import tree
from .ops.core.variables import convert_to_tensor

# --- the loop --------------------------------------------------------------------


def rnn(
    step_function: Callable[..., Any],
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: Any = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Any, Any, Any]:
    """Call a function for each time step, with the states that the last call returned.

    Args:
        step_function: ``step(inputs, states) -> output, states``; the states that it
            gets are followed by the constants.
        inputs: Tensors ``[batch, time, ...]``, possibly nested.
        initial_states: The states for the first step.
        go_backwards: Whether to begin with the last step. The outputs are in the order
            in which the steps run.
        mask: ``[batch, time]``; where it is False, a step leaves the states as they
            are, and repeats the previous output. None means True everywhere.
        constants: Further tensors for each step.
        unroll: Ignored: the loop always runs in Python.
        input_length: Ignored: the inputs tell the number of steps.
        time_major: Whether inputs, mask and outputs are ``[time, batch, ...]``.
        zero_output_for_mask: Whether the output is 0 where the mask is False.
        return_all_outputs: Whether the outputs of all steps are returned, or only that
            of the last step.

    Returns:
        The last output, the outputs ``[batch, time, ...]``, and the last states.

    """
    axis = 0 if time_major else 1
    columns = [_steps(x, axis, go_backwards) for x in tree.flatten(inputs)]
    if not columns[0]:
        raise ValueError(f"inputs must have at least one time step, got {inputs}")
    count = len(columns[0])
    masks = [None] * count if mask is None else _masks(mask, axis, go_backwards)
    states = tuple(initial_states)
    fixed = tuple(constants or ())
    output: Any = None
    outputs = []
    for parts, keep in zip(zip(*columns, strict=True), masks, strict=True):
        now = tree.pack_sequence_as(inputs, parts)
        new, new_states = step_function(now, (*states, *fixed))
        if keep is not None:
            before = None if zero_output_for_mask else output
            new = _where(keep, new, before)
            new_states = _where(keep, new_states, states)
        output = new
        states = new_states
        outputs.append(output)
    kept = outputs if return_all_outputs else outputs[-1:]
    return output, _joined(kept, axis), states


def _steps(x: Any, axis: int, go_backwards: bool) -> Sequence[Tensor]:
    """Return the time steps in the order in which they run."""
    return unstack(convert_to_tensor(x), axis)[:: -1 if go_backwards else 1]


def _masks(mask: Any, axis: int, go_backwards: bool) -> Sequence[Tensor]:
    """Return the masks of the time steps in the order in which they run.

    If there are several masks, one for each input, they must be equal.
    """
    first = convert_to_tensor(tree.flatten(mask)[0], dtype="bool")
    return _steps(first, axis, go_backwards)


def _where(mask: Tensor, new: Any, old: Any) -> Any:
    """Return nested tensors: ``new`` where the mask is True, else ``old`` or 0."""
    chosen = tree.flatten(new)
    others = [0] * len(chosen) if old is None else tree.flatten(old)
    found = []
    for x, y in zip(chosen, others, strict=True):
        missing = len(x.shape) - len(mask.shape)
        fits = pg.reshape(mask, (*mask.shape, *(1,) * missing))
        found.append(pg.where(fits, x, y))
    return tree.pack_sequence_as(new, found)


def _joined(outputs: list[Any], axis: int) -> Any:
    """Return the nested outputs of all steps, stacked along the axis of time."""
    return tree.map_structure(lambda *xs: pg.stack(xs, axis=axis), *outputs)


def unstack(x: Any, axis: int = 0) -> list[Tensor]:
    """Return the parts along an axis, without that axis."""
    return list(pg.unstack(x, axis=axis))


# --- LSTM and GRU as one op ------------------------------------------------------

TANH = (
    ("keras.src.activations.activations", "tanh"),
    ("keras.src.ops.numpy", "tanh"),
)
SIGMOID = (
    ("keras.src.activations.activations", "sigmoid"),
    ("keras.src.ops.nn", "sigmoid"),
)


def _is_one_of(function: Any, names: tuple[tuple[str, str], ...]) -> bool:
    """Return whether a function is known; importing it here would be circular."""
    module = getattr(function, "__module__", "")
    return (module, getattr(function, "__name__", "")) in names


def cudnn_ok(
    activation: Any,
    recurrent_activation: Any,
    unroll: bool,
    use_bias: bool = True,
    reset_after: bool = True,
) -> bool:
    """Return whether one op runs all steps: if the activations are the usual ones.

    ``unroll`` and ``use_bias`` make no difference.
    """
    usual = _is_one_of(activation, TANH) and _is_one_of(recurrent_activation, SIGMOID)
    return usual and reset_after


def _require_one_op(
    activation: Any, recurrent_activation: Any, mask: Any, reset_after: bool = True
) -> None:
    """Raise NotImplementedError, so that Keras calls ``rnn``, if no op fits."""
    if mask is not None:
        raise NotImplementedError("the ops of plugrad take no mask")
    if not cudnn_ok(activation, recurrent_activation, False, reset_after=reset_after):
        raise NotImplementedError("the ops of plugrad have tanh, sigmoid, reset_after")


def lstm(
    inputs: Any,
    initial_state_h: Any,
    initial_state_c: Any,
    mask: Any,
    kernel: Any,
    recurrent_kernel: Any,
    bias: Any,
    activation: Any,
    recurrent_activation: Any,
    return_sequences: bool = False,
    go_backwards: bool = False,
    unroll: bool = False,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return the last output, the outputs and the states of an LSTM.

    The outputs are those of all steps if ``return_sequences``, else of the last step.

    Raises:
        NotImplementedError: There is a mask, or an activation is not the usual one.

    """
    _require_one_op(activation, recurrent_activation, mask)
    y, h, c = pg.lstm(
        pg.moveaxis(convert_to_tensor(inputs), 1, 0),
        _transposed(kernel),
        _transposed(recurrent_kernel),
        None if bias is None else convert_to_tensor(bias),
        h0=convert_to_tensor(initial_state_h),
        c0=convert_to_tensor(initial_state_c),
        reverse=go_backwards,
    )
    return h, _outputs(y, h, return_sequences, go_backwards), [h, c]


def gru(
    inputs: Any,
    initial_state: Any,
    mask: Any,
    kernel: Any,
    recurrent_kernel: Any,
    bias: Any,
    activation: Any,
    recurrent_activation: Any,
    return_sequences: bool = False,
    go_backwards: bool = False,
    unroll: bool = False,
    reset_after: bool = True,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return the last output, the outputs and the state of a GRU, as ``lstm`` does.

    Raises:
        NotImplementedError: There is a mask, ``reset_after`` is False, or an activation
            is not the usual one.

    """
    _require_one_op(activation, recurrent_activation, mask, reset_after)
    of_x, of_h = (None, None) if bias is None else pg.unstack(_reset_first(bias))
    y, h = pg.gru(
        pg.moveaxis(convert_to_tensor(inputs), 1, 0),
        _transposed(_reset_first(kernel)),
        _transposed(_reset_first(recurrent_kernel)),
        of_x,
        of_h,
        h0=convert_to_tensor(initial_state),
        reverse=go_backwards,
    )
    return h, _outputs(y, h, return_sequences, go_backwards), [h]


def _transposed(x: Any) -> Tensor:
    return pg.matrix_transpose(convert_to_tensor(x))


def _reset_first(x: Any) -> Tensor:
    """Return the weights of a GRU with the reset gate before the update gate."""
    update, reset, rest = pg.split(convert_to_tensor(x), 3, axis=1)
    return pg.concat([reset, update, rest], axis=1)


def _outputs(y: Tensor, last: Tensor, all_steps: bool, go_backwards: bool) -> Tensor:
    """Return outputs ``[batch, time, n]`` in the order in which the steps run."""
    if not all_steps:
        return pg.expand_dims(last, axis=1)
    return pg.moveaxis(pg.flip(y, axis=0) if go_backwards else y, 0, 1)


# --- what there is only for other backends ---------------------------------------


def bidirectional_lstm(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError, so that Keras runs two layers."""
    raise NotImplementedError("plugrad has no bidirectional LSTM")


def bidirectional_gru(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError, so that Keras runs two layers."""
    raise NotImplementedError("plugrad has no bidirectional GRU")
