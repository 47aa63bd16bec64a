"""The probability of labels, summed over alignments, for ``ctc_loss``. No kernels."""

from __future__ import annotations

import math

from plugrad._src.engine.dispatch import run
from plugrad._src.engine.tape import alias
from plugrad._src.ops.array import gather, ranges, slicing
from plugrad._src.ops.basis import (
    _convert,
    binary,
    compare,
    creation,
    reduce,
    shape,
    unary,
)
from plugrad._src.tensor.arguments import integer, misfit
from plugrad._src.tensor.dtypes import INT32
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import softmax

__all__: list[str] = []

OP = "ctc_loss"


def negative_log_probability(
    labels: TensorLike,
    logits: TensorLike,
    label_lengths: TensorLike | None,
    logit_lengths: TensorLike | None,
    blank: int,
) -> Tensor:
    """Return the negative logarithm of the probability of each sequence of labels.

    State ``2i`` is the blank before label i, and state ``2i + 1`` is the label. In each
    step the state stays the same, advances by one, or, if that leads to a label other
    than the previous label, advances by two.
    """
    x, ids, blank = _checked(labels, logits, blank)
    batch, steps, _ = x.shape
    size = ids.shape[1]
    counts = _lengths("label_lengths", label_lengths, batch, size)
    ends = _lengths("logit_lengths", logit_lengths, batch, steps)
    within = ranges.arange(size) < run(shape.RESHAPE, counts, shape=(batch, 1))
    ids = compare.where(within, ids, blank)
    states, may_skip = _states(ids, blank)
    logs = softmax.log_softmax(reduce.widened(x))
    logs = run(gather.GATHER_V2, logs, states, axis=2, batch_dims=1)
    ends = run(shape.RESHAPE, ends, shape=(batch, 1))
    before = creation.full((batch, 2 * size), -math.inf, dtype=logs.dtype)
    first = creation.zeros((batch, 1), dtype=logs.dtype)
    alpha = shape.concat([first, before], axis=1)
    for t, log in enumerate(shape.unstack(logs, axis=1)):
        alpha = compare.where(t < ends, _advance(alpha, may_skip) + log, alpha)
    last = run(shape.RESHAPE, counts * 2, shape=(batch, 1))
    positions = shape.concat([last, binary.maximum(last - 1, 0)], axis=1)
    final = run(gather.GATHER_V2, alpha, positions, axis=1, batch_dims=1)
    # Without labels, both positions refer to the only state: count it once.
    twice = compare.logical_and(compare.equal(last, 0), ranges.arange(2) > 0)
    final = compare.where(twice, -math.inf, final)
    return creation.cast(-_log_sum(shape.unstack(final, axis=1)), x.dtype)


def _checked(
    labels: TensorLike, logits: TensorLike, blank: int
) -> tuple[Tensor, Tensor, int]:
    x = _convert.floating(OP, logits, "f")
    ids = _convert.integer_tensor(OP, "labels", labels)
    if len(x.shape) != 3 or len(ids.shape) != 2 or ids.shape[0] != x.shape[0]:
        rule = "takes labels [batch, labels] and logits [batch, steps, classes]"
        raise misfit(OP, rule, ids, x)
    blank = integer(OP, "blank", blank, 0)
    if blank >= x.shape[2]:
        raise misfit(OP, f"blank {blank} is not a class", x)
    return x, ids, blank


def _lengths(name: str, given: TensorLike | None, batch: int, limit: int) -> Tensor:
    if given is None:
        return creation.full((batch,), limit, dtype=INT32)
    known = _convert.on_host(OP, name, given)
    lengths = creation.cast(_convert.integer_tensor(OP, name, given), INT32)
    if lengths.shape != (batch,):
        raise misfit(OP, f"{name} must have shape {(batch,)}", lengths)
    if (
        known is not None
        and known.size
        and not 0 <= known.min() <= known.max() <= limit
    ):
        raise ValueError(f"{OP}: {name} {known.tolist()} must be from 0 to {limit}")
    return lengths


def _states(ids: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """Return the class of each state, and whether advancing by two may lead to it.

    It may not between equal classes: between blanks, and between repeated labels.
    """
    batch, size = ids.shape
    blanks = creation.full((batch, size), blank, dtype=ids.dtype)
    pairs = shape.stack([blanks, ids], axis=2)
    pairs = run(shape.RESHAPE, pairs, shape=(batch, 2 * size))
    last = creation.full((batch, 1), blank, dtype=ids.dtype)
    states = shape.concat([pairs, last], axis=1)
    earlier = _shift_states(states, 2, blank)
    return states, compare.not_equal(states, earlier)


def _shift_states(x: Tensor, by: int, value: float) -> Tensor:
    """Shift states by ``by`` positions, filling the start with ``value``."""
    size = x.shape[1]
    x = slicing.pad(x, [(0, 0), (min(by, size), 0)], constant_values=value)
    return slicing.along(x, 1, 0, size)


def _advance(alpha: Tensor, may_skip: Tensor) -> Tensor:
    skipped = compare.where(may_skip, _shift_states(alpha, 2, -math.inf), -math.inf)
    return _log_sum((alpha, _shift_states(alpha, 1, -math.inf), skipped))


def _log_sum(xs: tuple[Tensor, ...]) -> Tensor:
    """Return ``log Σ exp(x)``, with derivatives of 0 where all ``xs`` are -inf."""
    top = xs[0]
    for x in xs[1:]:
        top = binary.maximum(top, x)
    top = alias(top)  # a constant for all tapes
    never = compare.equal(top, -math.inf)
    safe = compare.where(unary.isfinite(top), top, 0)
    total = unary.exp(xs[0] - safe)
    for x in xs[1:]:
        total = total + unary.exp(x - safe)
    logs = unary.log(compare.where(never, 1, total)) + safe
    return compare.where(never, -math.inf, logs)
