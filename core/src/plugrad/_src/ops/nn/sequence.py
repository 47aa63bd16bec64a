"""Recurrent networks. Kernels: ``GRU GRUGrad LSTM LSTMGrad``.

Contents: helpers of LSTM and GRU; LSTM; GRU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from plugrad import geometry
from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.array import slicing
from plugrad._src.ops.basis import _convert, creation, reduce, shape
from plugrad._src.ops.linalg import products
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import flag, misfit
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = [
    "gru",
    "lstm",
]

# --- helpers of LSTM and GRU -----------------------------------------------------


def _check_shapes(
    op: str,
    wanted: Mapping[str, geometry.Shape],
    given: Sequence[Tensor | Spec | None],
    others: str,
    *known: Tensor | Spec,
) -> None:
    """Raise unless tensors have the shapes that follow from the ``known`` ones."""
    for (name, sizes), x in zip(wanted.items(), given, strict=True):
        if x is not None and x.shape != sizes:
            raise misfit(
                op, f"{name} must have shape {sizes} to fit {others}", x, *known
            )


def _sizes(op: str, gates: int, x: Spec) -> geometry.Shape:
    """Return the shape of the states of all steps, from the spec of the gates."""
    if len(x.shape) != 3 or not x.shape[0] or x.shape[2] % gates:
        rule = f"gates must be [steps, batch, {gates} n] with at least one step"
        raise misfit(op, rule, x)
    return (*x.shape[:2], x.shape[2] // gates)


def _prepare(
    op: str,
    x: TensorLike,
    weights: Sequence[TensorLike],
    biases: Sequence[TensorLike | None],
    states: Sequence[TensorLike | None],
) -> tuple[Tensor, Tensor, list[Tensor | None], list[Tensor]]:
    """Check all arguments and convert them to one floating dtype.

    Return the products of x with its weights, the transposed weights of the state
    ``[n, m]``, the biases, and the states, which are 0 unless given.
    """
    optional = [*biases, *states]
    given = [x, *weights, *[t for t in optional if t is not None]]
    found = [_convert.floating(op, t, "f") for t in _convert.promote_all(op, *given)]
    inputs, of_x, of_h, *some = found
    rest = [None if t is None else some.pop(0) for t in optional]
    if len(inputs.shape) != 3 or not inputs.shape[0]:
        rule = "x must be [steps, batch, inputs] with at least one step"
        raise misfit(op, rule, inputs)
    _, batch, size = inputs.shape
    n = of_h.shape[-1] if of_h.shape else 0
    m = (4 if len(states) == 2 else 3) * n
    wanted: dict[str, geometry.Shape]
    wanted = {"weight_ih": (m, size), "weight_hh": (m, n), "bias_ih": (m,)}
    wanted |= {"bias_hh": (m,), "h0": (batch, n)}
    wanted |= {"c0": (batch, n)} if len(states) == 2 else {}
    _check_shapes(op, wanted, [of_x, of_h, *rest], "x and weight_hh", inputs, of_h)
    zeros = creation.zeros((batch, n), dtype=inputs.dtype)
    first = [zeros if state is None else state for state in rest[2:]]
    gates = products.matmul(inputs, of_x, transpose_b=True)
    return gates, products.matrix_transpose(of_h), rest[:2], first


def _steps(x: Tensor, reverse: bool) -> Sequence[Tensor]:
    """Return the steps in the order in which they run."""
    return shape.unstack(x)[:: -1 if reverse else 1]


def _all_steps(xs: list[Tensor], reverse: bool) -> Tensor:
    return shape.stack(xs[:: -1 if reverse else 1])


def _states_before(y: Tensor, first: Tensor, reverse: bool) -> Tensor:
    """Return the state before each step, starting with ``first``."""
    first = shape.expand_dims(first, 0)
    count = y.shape[0] - 1
    rest = slicing.along(y, 0, int(reverse), count)
    return shape.concat([rest, first] if reverse else [first, rest])


def _weight_gradient(states: Tensor, da: Tensor) -> Tensor:
    rows = math.prod(da.shape[:2])
    a, b = (shape.reshape(x, (rows, x.shape[2])) for x in (states, da))
    return products.matmul(a, b, transpose_a=True)


# --- LSTM ------------------------------------------------------------------------


def _lstm_out(*xs: Spec, reverse: bool) -> tuple[Spec, ...]:
    if len(xs) != 4:
        raise misfit("lstm", "xs must be the gates, h, c and the weights", *xs)
    sizes = _, batch, n = _sizes("lstm", 4, xs[0])
    wanted = {"h": (batch, n), "c": (batch, n), "weights": (n, 4 * n)}
    _check_shapes("lstm", wanted, xs[1:], "the gates", xs[0])
    return (Spec(sizes, xs[0].dtype),) * 2


LSTM = Kernel(
    "LSTM(*xs: floating; reverse: bool) -> y, cells",
    out=_lstm_out,
    op="lstm",
    doc="""The states ``y`` and the cells after each step, ``[steps, batch, n]``.

    xs are the contribution of the inputs to the gates, ``[steps, batch, 4 n]``, with at
    least one step; the first state h and cell c, ``[batch, n]``; and the weights of the
    state, ``[n, 4 n]``. ``i, f, g, o`` are the four parts of
    ``gates[step] + h · weights``; the next cell is ``σ(f) · c + σ(i) · tanh(g)``, and
    the next state is ``σ(o) · tanh(c)``. With ``reverse`` the last step is run
    first.""",
)


def lstm(
    x: TensorLike,
    weight_ih: TensorLike,
    weight_hh: TensorLike,
    /,
    bias_ih: TensorLike | None = None,
    bias_hh: TensorLike | None = None,
    h0: TensorLike | None = None,
    c0: TensorLike | None = None,
    *,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer of an LSTM over a sequence, in one direction.

    The weights are those of ``torch.nn.LSTM``. ``i, f, g, o`` are the four parts of
    ``weight_ih · x + bias_ih + weight_hh · h + bias_hh``, in this order::

        c' = σ(f) · c + σ(i) · tanh(g)
        h' = σ(o) · tanh(c')

    Args:
        x: ``[steps, batch, inputs]``, with at least one step.
        weight_ih: ``[4 n, inputs]``.
        weight_hh: ``[4 n, n]``.
        bias_ih: ``[4 n]``; None means 0.
        bias_hh: ``[4 n]``; None means 0.
        h0: The initial state, ``[batch, n]``; None means 0.
        c0: The initial cell state, ``[batch, n]``; None means 0.
        reverse: Whether to run from the last step to the first, like the second
            direction of a bidirectional network.

    Returns:
        The state after each step, ``[steps, batch, n]``, in the order of ``x``; the
        state and the cell state after the step that runs last. All arguments are
        promoted to one dtype; integers and bool give float32.

    Raises:
        ValueError: The shapes are incompatible, or there is no step.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> x = pg.ones((3, 1, 2))
        >>> y, h, c = pg.lstm(x, pg.ones((4, 2)), pg.ones((4, 1)))
        >>> h
        Tensor([[0.9353]], dtype=float32, backend='cpu')

    Source:
        S. Hochreiter and J. Schmidhuber, "Long Short-Term Memory", 1997.

    """
    reverse = flag("lstm", "reverse", reverse)
    weights = (weight_ih, weight_hh)
    states = (h0, c0)
    prepared = _prepare("lstm", x, weights, (bias_ih, bias_hh), states)
    gates, weight, biases, first = prepared
    if some := [bias for bias in biases if bias is not None]:
        gates = gates + (some[0] if len(some) == 1 else some[0] + some[1])
    y, cells = run_many(LSTM, gates, *first, weight, reverse=reverse)
    last = 0 if reverse else -1
    return y, y[last], cells[last]


@decomposition(LSTM)
def _(*xs: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    gates, h, c, weight = xs
    ys, cells = [], []
    for a in _steps(gates, reverse):
        i, f, g, o = shape.split(a + products.matmul(h, weight), 4, axis=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        ys.append(h)
        cells.append(c)
    return _all_steps(ys, reverse), _all_steps(cells, reverse)


def _lstm_grad_out(
    dy: Spec, dcells: Spec, a: Spec, before: Spec, weight: Spec, *, reverse: bool
) -> tuple[Spec, ...]:
    sizes = _, batch, n = _sizes("lstm", 4, a)
    wanted = {"dy": sizes, "dcells": sizes, "before": sizes, "weight": (n, 4 * n)}
    _check_shapes("lstm", wanted, (dy, dcells, before, weight), "the gates", a)
    return a, Spec((batch, n), a.dtype), Spec((batch, n), a.dtype)


LSTM_GRAD = Kernel(
    "LSTMGrad(dy: floating, dcells: dy, a: dy, before: dy, weight: dy; reverse: bool)"
    " -> da, dh, dc",
    out=_lstm_grad_out,
    op="lstm",
    doc="""The gradients of LSTM with respect to its gates, first state and first cell,
    from the cotangents of ``y`` and of the cells. ``a`` is ``gates[step] + h · weight``
    for all steps, where h is the state before each step; ``before`` are the cells
    before each step; ``reverse`` is that of LSTM.""",
)


@decomposition(LSTM_GRAD)
def _(
    dy: Tensor,
    dcells: Tensor,
    a: Tensor,
    before: Tensor,
    weight: Tensor,
    *,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    i, f, g, o = shape.split(a, 4, axis=2)
    i = i.sigmoid()
    f = f.sigmoid()
    g = g.tanh()
    o = o.sigmoid()
    t = (f * before + i * g).tanh()
    slopes = g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), t * o * (1 - o)
    parts = [_steps(x, not reverse) for x in (dy, dcells, o * (1 - t * t), f, *slopes)]
    found = []
    dh = dc = creation.zeros(before.shape[1:], dtype=a.dtype)
    for d, e, slope, f, *by in zip(*parts, strict=True):
        d = d + dh
        e = e + dc + d * slope
        cotangents = zip((e, e, e, d), by, strict=True)
        found.append(shape.concat([x * y for x, y in cotangents], axis=1))
        dh = products.matmul(found[-1], weight, transpose_b=True)
        dc = e * f
    return _all_steps(found, not reverse), dh, dc


def _lstm_gradient(
    dy: Tensor,
    dcells: Tensor,
    xs: Sequence[Tensor],
    y: Tensor,
    cells: Tensor,
    reverse: bool,
) -> list[Tensor]:
    """Return all gradients at once, so that common terms are computed only once."""
    gates, h, c, weight = xs
    states = _states_before(y, h, reverse)
    before = _states_before(cells, c, reverse)
    a = gates + products.matmul(states, weight)
    found = run_many(LSTM_GRAD, dy, dcells, a, before, weight, reverse=reverse)
    return [*found, _weight_gradient(states, found[0])]


gradients(LSTM, xs=_lstm_gradient)

# --- GRU -------------------------------------------------------------------------


def _gru_out(*xs: Spec, reverse: bool) -> Spec:
    if len(xs) != 4:
        raise misfit("gru", "xs must be the gates, h, the weights and the bias", *xs)
    sizes = _, batch, n = _sizes("gru", 3, xs[0])
    wanted = {"h": (batch, n), "weights": (n, 3 * n), "bias": (3 * n,)}
    _check_shapes("gru", wanted, xs[1:], "the gates", xs[0])
    return Spec(sizes, xs[0].dtype)


GRU = Kernel(
    "GRU(*xs: floating; reverse: bool) -> y",
    out=_gru_out,
    op="gru",
    doc="""The states after each step, ``[steps, batch, n]``.

    xs are the contribution of the inputs to the gates, ``[steps, batch, 3 n]``, with at
    least one step; the first state h, ``[batch, n]``; the weights of the state,
    ``[n, 3 n]``, and its bias, ``[3 n]``. ``r, z, m`` are the three parts of
    ``gates[step]``, ``r', z', m'`` those of ``h · weights + bias``; with
    ``z'' = σ(z + z')`` the next state is
    ``(1 - z'') · tanh(m + σ(r + r') · m') + z'' · h``. With ``reverse`` the last step
    is run first.""",
)


def gru(
    x: TensorLike,
    weight_ih: TensorLike,
    weight_hh: TensorLike,
    /,
    bias_ih: TensorLike | None = None,
    bias_hh: TensorLike | None = None,
    h0: TensorLike | None = None,
    *,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """Run one layer of a GRU over a sequence, in one direction.

    The weights are those of ``torch.nn.GRU``. ``r, z, m`` are the three parts of
    ``weight_ih · x + bias_ih``, and ``r', z', m'`` those of
    ``weight_hh · h + bias_hh``, in this order::

        z'' = σ(z + z')
        h'  = (1 - z'') · tanh(m + σ(r + r') · m') + z'' · h

    Args:
        x: ``[steps, batch, inputs]``, with at least one step.
        weight_ih: ``[3 n, inputs]``.
        weight_hh: ``[3 n, n]``.
        bias_ih: ``[3 n]``; None means 0.
        bias_hh: ``[3 n]``; None means 0.
        h0: The initial state, ``[batch, n]``; None means 0.
        reverse: Whether to run from the last step to the first, like the second
            direction of a bidirectional network.

    Returns:
        The state after each step, ``[steps, batch, n]``, in the order of ``x``; and the
        state after the step that runs last. All arguments are promoted to one dtype;
        integers and bool give float32.

    Raises:
        ValueError: The shapes are incompatible, or there is no step.
        TypeError: An argument is complex or contains strings.

    Example:
        >>> y, h = pg.gru(pg.ones((3, 1, 2)), pg.ones((3, 2)), pg.ones((3, 1)))
        >>> h
        Tensor([[0.2832]], dtype=float32, backend='cpu')

    Source:
        K. Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder for
        Statistical Machine Translation", 2014.

    """
    reverse = flag("gru", "reverse", reverse)
    gates, weight, (bias, of_h), first = _prepare(
        "gru", x, (weight_ih, weight_hh), (bias_ih, bias_hh), (h0,)
    )
    gates = gates if bias is None else gates + bias
    of_h = creation.zeros(weight.shape[1:], dtype=gates.dtype) if of_h is None else of_h
    y = run(GRU, gates, *first, weight, of_h, reverse=reverse)
    return y, y[0 if reverse else -1]


@decomposition(GRU)
def _(*xs: Tensor, reverse: bool) -> Tensor:
    gates, h, weight, bias = xs
    found = []
    for a in _steps(gates, reverse):
        b = products.matmul(h, weight) + bias
        r, z, m = shape.split(a, 3, axis=1)
        of_h = shape.split(b, 3, axis=1)
        z = (z + of_h[1]).sigmoid()
        m = (m + (r + of_h[0]).sigmoid() * of_h[2]).tanh()
        h = (1 - z) * m + z * h
        found.append(h)
    return _all_steps(found, reverse)


def _gru_grad_out(
    dy: Spec, a: Spec, b: Spec, before: Spec, weight: Spec, *, reverse: bool
) -> tuple[Spec, ...]:
    sizes = _, batch, n = _sizes("gru", 3, a)
    wanted = {"dy": sizes, "b": a.shape, "before": sizes, "weight": (n, 3 * n)}
    _check_shapes("gru", wanted, (dy, b, before, weight), "the gates", a)
    return a, a, Spec((batch, n), a.dtype)


GRU_GRAD = Kernel(
    "GRUGrad(dy: floating, a: dy, b: dy, before: dy, weight: dy; reverse: bool)"
    " -> da, db, dh",
    out=_gru_grad_out,
    op="gru",
    doc="""The gradients of GRU with respect to its gates, to ``h · weight + bias`` of
    all steps, and to the first state, from the cotangent of ``y``. ``a`` are the gates;
    ``before`` are the states h before each step; ``b`` is ``h · weight + bias`` for
    all steps; ``reverse`` is that of GRU.""",
)


@decomposition(GRU_GRAD)
def _(
    dy: Tensor, a: Tensor, b: Tensor, before: Tensor, weight: Tensor, *, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    r, z, m = shape.split(a, 3, axis=2)
    of_h = shape.split(b, 3, axis=2)
    r = (r + of_h[0]).sigmoid()
    z = (z + of_h[1]).sigmoid()
    m = (m + r * of_h[2]).tanh()
    slopes = of_h[2] * r * (1 - r), (before - m) * z * (1 - z), (1 - z) * (1 - m * m)
    parts = [_steps(x, not reverse) for x in (dy, r, z, *slopes)]
    das = []
    dbs = []
    dh = creation.zeros(before.shape[1:], dtype=a.dtype)
    for d, r, z, of_r, of_z, of_m in zip(*parts, strict=True):
        d = d + dh
        dm = d * of_m
        dz = d * of_z
        das.append(shape.concat([dm * of_r, dz, dm], axis=1))
        dbs.append(shape.concat([dm * of_r, dz, dm * r], axis=1))
        dh = d * z + products.matmul(dbs[-1], weight, transpose_b=True)
    return _all_steps(das, not reverse), _all_steps(dbs, not reverse), dh


def _gru_gradient(
    dy: Tensor, xs: Sequence[Tensor], y: Tensor, reverse: bool
) -> list[Tensor]:
    """Return all gradients at once, so that common terms are computed only once."""
    gates, h, weight, bias = xs
    before = _states_before(y, h, reverse)
    b = products.matmul(before, weight) + bias
    da, db, dh = run_many(GRU_GRAD, dy, gates, b, before, weight, reverse=reverse)
    return [da, dh, _weight_gradient(before, db), reduce.sum(db, axis=(0, 1))]


gradients(GRU, xs=_gru_gradient)
