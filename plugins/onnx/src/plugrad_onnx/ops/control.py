"""If, Loop and Scan, whose branches are separate programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import namespace

from ..program import Branch, Session
from ..registry import Value, op

Ints = tuple[int, ...]


def _truth(x: Value) -> bool:
    return bool(x.item())


@op("If", reads=(0,))
def if_(
    session: Session,
    condition: Value,
    *captured: Value,
    then_branch: Branch,
    else_branch: Branch,
) -> Value:
    branch = then_branch if _truth(condition) else else_branch
    return tuple(branch(session, *captured))


def stack_values(values: Sequence[Value]) -> Value:
    """Stack the values of an output, one per step."""
    if not values:
        return np.zeros(0, np.float32)
    xp = namespace(*values)
    if xp is pg:
        return pg.stack([pg.asarray(v) for v in values])
    return np.stack(values)


@op("Loop", reads=(0, 1))
def loop(
    session: Session,
    max_trip_count: Value,
    condition: Value,
    *operands: Value,
    body: Branch,
) -> Value:
    count = body.count - 2
    states = list(operands[:count])
    captured = operands[count:]
    running = condition is None or _truth(condition)
    limit = None if max_trip_count is None else int(max_trip_count.item())
    scans: list[list[Value]] = [
        [] for _ in range(len(body.program.outputs) - 1 - count)
    ]
    i = 0
    while running and (limit is None or i < limit):
        step = np.array(i, np.int64)
        outputs = body(session, step, np.array(True), *states, *captured)
        running = _truth(outputs[0])
        states = outputs[1 : count + 1]
        for values, value in zip(scans, outputs[count + 1 :], strict=True):
            values.append(value)
        i += 1
    return (*states, *(_scan_output(body, scans, k, count) for k in range(len(scans))))


def _scan_output(body: Branch, scans: list[list[Value]], k: int, count: int) -> Value:
    """Stack the values of an output; without steps, return an empty array."""
    if scans[k]:
        return stack_values(scans[k])
    info = body.program.graph.outputs[k + count + 1]
    sizes = [n if isinstance(n, int) else 0 for n in info.shape or ()]
    return np.zeros((0, *sizes), info.dtype or np.float32)


@op("Scan", since=9)
def scan(
    session: Session,
    *operands: Value,
    body: Branch,
    num_scan_inputs: int,
    scan_input_axes: Ints | None = None,
    scan_input_directions: Ints | None = None,
    scan_output_axes: Ints | None = None,
    scan_output_directions: Ints | None = None,
) -> Value:
    count = body.count - num_scan_inputs
    states = list(operands[:count])
    inputs = operands[count : body.count]
    captured = operands[body.count :]
    axes = scan_input_axes or (0,) * num_scan_inputs
    directions = scan_input_directions or (0,) * num_scan_inputs
    steps = inputs[0].shape[axes[0]]
    scans: list[list[Value]] = [[] for _ in body.program.outputs[count:]]
    for i in range(steps):
        slices = [
            _slice_at(x, a, steps - 1 - i if backward else i)
            for x, a, backward in zip(inputs, axes, directions, strict=True)
        ]
        outputs = body(session, *states, *slices, *captured)
        states = outputs[:count]
        for values, value in zip(scans, outputs[count:], strict=True):
            values.append(value)
    output_axes = scan_output_axes or (0,) * len(scans)
    reversed_outputs = scan_output_directions or (0,) * len(scans)
    rows = zip(scans, output_axes, reversed_outputs, strict=True)
    return (*states, *(_stack_along(v[::-1] if t else v, a) for v, a, t in rows))


def _slice_at(x: Value, axis: int, i: int) -> Value:
    return x[(slice(None),) * (axis % x.ndim) + (i,)]


def _stack_along(values: Sequence[Value], axis: int) -> Value:
    y = stack_values(values)
    return namespace(y).moveaxis(y, 0, axis) if axis else y


@op("Scan", since=8, reads=(0,))
def scan_of_batches(
    session: Session,
    lengths: Value,
    *operands: Value,
    body: Branch,
    num_scan_inputs: int,
    directions: Ints | None = None,
) -> Value:
    """Scan each example of a batch separately, as opset 8 defines it."""
    count = body.count - num_scan_inputs
    outputs: list[Any] = []
    for i in range(operands[0].shape[0]):
        example = [x[i] for x in operands[: body.count]]
        steps = None if lengths is None else int(lengths[i])
        example[count:] = [x[:steps] for x in example[count:]]
        outputs.append(
            scan(
                session,
                *example,
                *operands[body.count :],
                body=body,
                num_scan_inputs=num_scan_inputs,
                scan_input_directions=directions,
            )
        )
    return tuple(stack_values(values) for values in zip(*outputs, strict=True))
