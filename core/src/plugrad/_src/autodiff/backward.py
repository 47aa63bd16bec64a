"""The backward pass: walk a tape backwards and accumulate cotangents.

Gradients are ops, so outer tapes record them and derivatives of any order work.

Contents: ``backward``; one node; one of its inputs; the cotangent of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Any

from plugrad._src.engine import context, dispatch
from plugrad._src.engine.accelerated import accelerated
from plugrad._src.engine.names import note_scope
from plugrad._src.engine.tape import Node, Tape, VJPStep
from plugrad._src.ops.basis import creation, reduce
from plugrad._src.ops.custom import CUSTOM
from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.contract import Kernel
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tensor import TapeId, Tensor

from .mistakes import gradient_text, spec_text

Cotangents = dict[TapeId, Tensor]


def backward(
    tape: Tape,
    cotangents: Cotangents,
    wanted: Collection[TapeId | None],
    linear_only: bool = False,
) -> Cotangents:
    """Return the cotangents of the wanted tape_ids, given those of the results."""
    overrides = context.current().overrides
    if overrides is not None and overrides.innermost:  # outer tapes record what follows
        with context.Scope(overrides=overrides.for_others()):
            return backward(tape, cotangents, wanted, linear_only)
    backend = dispatch.active()
    tracked = tape.tracked
    node = None
    try:
        for node in reversed(tape.nodes):
            _backward_node(node, tracked, cotangents, wanted, backend, linear_only)
    except Exception as error:
        if node is not None:
            note_scope(error, node.scope)
        raise
    return cotangents


@accelerated
def _backward_node(
    node: Node,
    tracked: set[TapeId | None],
    cotangents: Cotangents,
    wanted: Collection[TapeId | None],
    backend: OpenBackend,
    linear_only: bool,
) -> None:
    """Propagate cotangents through one node, on the backend that ran it."""
    outputs = node.outputs
    if cotangents.keys().isdisjoint(outputs):
        return
    dys = tuple([result(y, cotangents) for y in outputs])
    for y in outputs:
        if y not in wanted:
            cotangents.pop(y, None)
    if node.backend is backend:
        _apply_vjps(node, tracked, dys, cotangents, linear_only)
    else:
        with context.Scope(backend=context.lifted(node.backend)):
            _apply_vjps(node, tracked, dys, cotangents, linear_only)


def _apply_vjps(
    node: Node,
    tracked: set[TapeId | None],
    dys: tuple[Any, ...],
    cotangents: Cotangents,
    linear_only: bool,
) -> None:
    """Propagate the cotangents of one node's outputs to its inputs.

    Each step runs inside the context managers that the ``gradient`` methods of the
    observers return and, if there are observers, in the scope of the node.
    """
    if node.plan.kernel.variadic_outputs:
        dys = (list(dys),)
    observers = context.current().observers
    blocks = [getattr(observer, "gradient", None) for observer in observers]
    for step in node.plan.steps:
        with ExitStack() as stack:
            if observers and node.scope:
                stack.enter_context(context.Scope(scope=node.scope))
            for block in blocks:
                if block is not None:
                    what = gradient_text(node.plan.kernel, step)
                    stack.enter_context(block(what, node.outputs[0]))
            _apply_vjp(node, step, tracked, dys, cotangents, linear_only)


def _apply_vjp(
    node: Node,
    step: VJPStep,
    tracked: set[TapeId | None],
    dys: tuple[Any, ...],
    cotangents: Cotangents,
    linear_only: bool,
) -> None:
    """Propagate the cotangents of one node's outputs to one input."""
    (kernel, *_), _, inputs, _, values, _ = node
    where, function, residuals, _, _ = step
    if isinstance(where, int):
        tape_id = inputs[where]
        if tape_id is None or tape_id not in tracked:
            return
        if linear_only:
            function = _linear_function(step)
        dx = function(*dys, *[values[i] for i in residuals])
        dx = _unbroadcast(dx, tape_id, kernel, step)
        have = cotangents.get(tape_id)
        cotangents[tape_id] = dx if have is None else have + dx
    elif not tracked.isdisjoint(tape_ids := inputs[where[0] : where[1]]):
        if linear_only:
            function = _linear_function(step)
        dxs = function(*dys, *[values[i] for i in residuals])
        _accumulate(dxs, tape_ids, tracked, cotangents, kernel, step)


def _accumulate(
    dxs: Any,
    tape_ids: list[TapeId | None],
    tracked: set[TapeId | None],
    cotangents: Cotangents,
    kernel: Kernel,
    step: VJPStep,
) -> None:
    """Add the cotangents of a variadic input."""
    if not isinstance(dxs, list | tuple) or len(dxs) != len(tape_ids):
        got = len(dxs) if isinstance(dxs, list | tuple) else type(dxs).__name__
        raise ValueError(
            f"{gradient_text(kernel, step)}: needs one cotangent for each input: "
            f"{len(tape_ids)}, got {got}"
        )
    for number, (tape_id, dx) in enumerate(zip(tape_ids, dxs, strict=True)):
        if tape_id is None or tape_id not in tracked:
            continue
        if dx is not None or kernel is not CUSTOM:
            dx = _unbroadcast(dx, tape_id, kernel, step, number)
            cotangents[tape_id] = (
                cotangents[tape_id] + dx if tape_id in cotangents else dx
            )


def _linear_function(step: VJPStep) -> Callable[..., Any]:
    """Return the function of a step that ``jvp`` can use; raise if there is none."""
    rule = step.vjp
    if rule is None:
        return step.function  # it raises the error
    if rule.transposed is not None:
        return rule.transposed
    if not rule.linear:
        raise TypeError(
            f"jvp: {rule.origin} is not linear in dy, so jvp cannot use it; give "
            "override_gradient(jvp=...) a function of the tangent"
        )
    return step.function


def _unbroadcast(
    dx: Any, tape_id: TapeId, kernel: Kernel, step: VJPStep, number: int = 0
) -> Tensor:
    """Return ``dx``, summed to the shape of the input if the kernel broadcast it.

    Raise if the shape or the dtype does not fit; ``number`` is the index of the input
    among the inputs of a variadic kernel.
    """
    if type(dx) is Tensor and dx.shape == tape_id.shape and dx.dtype == tape_id.dtype:
        return dx
    if (
        kernel.broadcasts
        and isinstance(dx, Tensor)
        and dx.dtype == tape_id.dtype
        and reduce.broadcast_axes(tape_id.shape, dx.shape) is not None
    ):
        return reduce.sum_to(dx, tape_id.shape)
    got = spec_text(dx) if isinstance(dx, Tensor) else type(dx).__name__
    which = f", tensor argument [{number}]" if kernel is CUSTOM else ""
    error = ValueError(
        f"{gradient_text(kernel, step)}{which}: expected {spec_text(tape_id)}, like "
        f"the input, got {got}"
    )
    raise explained(error, "gradient-does-not-fit-the-input")


def result(tape_id: TapeId, cotangents: Cotangents) -> Tensor:
    """Return the cotangent of a tape_id, or zeros if it has none."""
    found = cotangents.get(tape_id)
    if found is None:
        return creation.zeros(tape_id.shape, dtype=tape_id.dtype)
    return found
