"""Tapes: the runs in order, with everything that the backward pass needs.

Nodes refer to tape_ids and never to tensors, so a tape keeps alive exactly the
residuals that gradients name. A ``TapePlan`` contains everything that is known before a
run; it is made once for a kernel, a backend and a set of tracked inputs.

Contents: ``TapePlan`` and how it is made; ``Tape``, ``Node`` and ``record``; small
helpers.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, cast

from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.contract import (
    SITE,
    VJP,
    GradientNotFound,
    JointGradient,
    Kernel,
    Spec,
    VJPs,
)
from plugrad._src.registry.rules import Site, bind_constants
from plugrad._src.tensor.dtypes import dtype_kind
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tensor import TapeId, Tensor

from .accelerated import accelerated

Outputs = tuple[Tensor, ...]
# A position in the list of the inputs and outputs of a run, in which the inputs come
# first: an index, or (start, stop) for several inputs.
Where = int | tuple[int, int]

TENSOR, SPEC, ATTRIBUTE = range(3)  # the kinds of residuals


class VJPStep(NamedTuple):
    """A step of the backward pass: it computes the cotangents of one input or several.

    ``where`` is a range for a variadic input, and for the inputs of a joint gradient.
    """

    where: Where
    function: Callable[..., Any]  # the function of ``vjp``; raises if ``vjp`` is None
    saved: tuple[int, ...]  # the indices of the saved values that the function takes
    name: str
    vjp: VJP | None


class TapePlan(NamedTuple):
    """The residuals to save when a kernel runs, and the steps of its backward pass."""

    kernel: Kernel
    # The indices of the saved tensors; negative ones are outputs.
    tensors: tuple[int, ...]
    # The other residuals: (kind, where) or (ATTRIBUTE, name).
    others: tuple[tuple[int, Any], ...]
    steps: tuple[VJPStep, ...]


def make_plan(
    kernel: Kernel, rules: VJPs, mask: int, count: int, site: Site | None = None
) -> TapePlan:
    """Return the plan of a run with ``count`` inputs.

    ``mask`` has one bit for each input, the lowest for the first; the bits of tracked
    inputs are set. ``site`` is needed if a rule has this parameter.
    """
    places = kernel.places(count)
    constants = _constants(kernel, places, mask, site)
    in_force: list[tuple[str, VJP | None]] = []
    for name in kernel.inputs:
        if mask & _bits(places[name]):
            if name not in rules:
                in_force.append((name, None))
            elif (rule := rules[name]) is not None:  # else: without derivative
                in_force.append((name, bind_constants(kernel, rule, constants)))
    residuals = [residual for _, vjp in in_force if vjp for residual in vjp.residuals]
    kinds = {residual: _kind_of(kernel, places, residual) for residual in residuals}
    tensors = [w for w in kinds if kinds[w][0] == TENSOR and type(kinds[w][1]) is int]
    others = [residual for residual in kinds if residual not in tensors]
    order = [*tensors, *others]
    outputs = len(kernel.outputs)
    steps = [
        VJPStep(
            places[name],
            vjp.function if vjp else _missing_gradient(kernel, name),
            tuple(map(order.index, vjp.residuals if vjp else ())),
            name,
            vjp,
        )
        for name, vjp in in_force
    ]
    return TapePlan(
        kernel,
        tuple(
            i if (i := kinds[w][1]) < count else i - count - outputs for w in tensors
        ),
        tuple(kinds[residual] for residual in others),
        tuple(steps),
    )


def make_joint_plan(kernel: Kernel, joint: JointGradient, count: int) -> TapePlan:
    """Return the plan of a run with one step for all inputs of a joint gradient."""
    places = kernel.places(count)
    first, *_, last = [cast("int", places[name]) for name in joint.inputs]
    plan = make_plan(kernel, {joint.inputs[0]: joint.vjp}, 1 << first, count)
    step = plan.steps[0]._replace(where=(first, last + 1), name=", ".join(joint.inputs))
    return plan._replace(steps=(step,))


def _constants(
    kernel: Kernel, places: dict[str, Where], mask: int, site: Site | None
) -> dict[str, Any]:
    """Return the rule parameters that have the same value in all runs of a plan."""
    constants: dict[str, Any] = {}
    for name in kernel.inputs:
        where = places[name]
        if isinstance(where, int):
            constants[f"{name}_tracked"] = bool(mask >> where & 1)
        else:
            constants[f"{name}_tracked"] = tuple(
                [bool(mask >> i & 1) for i in range(*where)]
            )
    known = {*kernel.inputs, *kernel.attrs, *kernel.outputs}
    return {n: v for n, v in (constants | {SITE: site}).items() if n not in known}


def _missing_gradient(kernel: Kernel, name: str) -> Callable[..., Any]:
    """Return a function that raises the error about a missing gradient."""

    def missing(*_: Any) -> Any:
        error = GradientNotFound(
            f"{kernel.name}: there is no gradient for input {name!r} ({kernel}); add "
            f"one with register_gradient({kernel.name!r}, {name}=...)"
        )
        raise explained(error, "kernel-has-no-gradient")

    return missing


def _kind_of(
    kernel: Kernel, places: dict[str, Where], residual: str
) -> tuple[int, Any]:
    """Return the kind of a residual, and its name or its index among the values."""
    if residual in kernel.attrs:
        return ATTRIBUTE, residual
    if residual in places:
        return TENSOR, places[residual]
    return SPEC, places[residual.removesuffix("_spec")]


def _bits(where: Where) -> int:
    return 1 << where if isinstance(where, int) else sum(1 << i for i in range(*where))


class Node(NamedTuple):
    """One recorded run: the tape_ids of inputs and outputs, and the saved values.

    ``scope`` contains the names of the ``name_scope`` blocks around the run.
    """

    plan: TapePlan
    backend: OpenBackend
    inputs: list[TapeId | None]
    outputs: list[TapeId]
    saved: list[Any]
    scope: str


new = tuple.__new__  # takes half as long as calling the class of a named tuple
state_lock = threading.RLock()  # held only for a few assignments, without calls


def _forked() -> None:  # another thread may have held the lock
    global state_lock
    state_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Tape:
    """The runs that depend on the watched tensors, in order.

    Args:
        variables: Where to record the variables that are read while the tape records;
            None if the tape does not record variables.

    Attributes:
        read: How and where values of a tracked tensor first left plugrad. Before that
            it is not set, so that making a tape costs less.
        counts: The number of runs by kernel, if an override depends on it; like
            ``read``, it is set only when needed.
        made: Runs by their results, if an override claims several runs; like ``read``,
            it is set only when needed.

    """

    __slots__ = (
        "__weakref__",
        "counts",
        "made",
        "nodes",
        "read",
        "tracked",
        "variables",
    )

    counts: dict[str, int]
    made: dict[TapeId, Any]
    read: str

    def __init__(self, variables: dict[Any, TapeId] | None = None) -> None:
        self.nodes: list[Node] = []
        # Never contains None, so look-ups of untracked tensors need no test.
        self.tracked: set[TapeId | None] = set()
        self.variables: dict[Any, TapeId] | None = variables

    def watch(self, x: Tensor) -> TapeId:
        """Track ``x`` from now on; return its tape_id."""
        tape_id = x._tape_id
        if tape_id is None:
            made = TapeId()
            made.shape, made.dtype = x.shape, x.dtype
            with state_lock:  # another thread's tape may watch it as well
                tape_id = x._tape_id
                if tape_id is None:
                    x._tape_id = tape_id = made
        self.tracked.add(tape_id)
        return tape_id

    def watch_own(self, x: Tensor) -> TapeId:
        """Track a tensor that no other thread knows, without a lock."""
        if x._tape_id is None:
            tape_id = TapeId()
            tape_id.shape, tape_id.dtype = x.shape, x.dtype
            x._tape_id = tape_id
        self.tracked.add(x._tape_id)
        return x._tape_id


# By id, because copying a list of values takes no lock; iterating over a WeakSet does.
_kept: dict[int, weakref.ref[Tape]] = {}


def keep(tape: Tape) -> None:
    """Remember, until it is freed, a tape that outlives the function it records."""
    key = id(tape)
    _kept[key] = weakref.ref(tape, lambda _: _kept.pop(key, None))


def kept_tapes() -> list[Tape]:
    """Return the tapes whose pullbacks still exist."""
    return [tape for ref in [*_kept.values()] if (tape := ref()) is not None]


class Guard(Tape):
    """The innermost tape while a ``custom_grad`` function runs.

    That function is not differentiated, so every tracked tensor that it reads must be
    an argument; otherwise its gradient would be lost.
    """

    __slots__ = ("name",)

    name: str

    def __init__(self, tape: Tape, name: str) -> None:
        self.nodes = []
        self.tracked = tape.tracked
        self.name = name
        self.variables = None if tape.variables is None else {}

    def watch(self, x: Tensor) -> TapeId:
        """Raise an error: the function reads a variable that the tape tracks."""
        self.refuse("a variable")

    def refuse(self, what: str) -> NoReturn:
        """Raise the error about a tensor that is not an argument."""
        raise TypeError(
            f"custom_grad: {self.name} reads a tensor that is being differentiated "
            f"and is not an argument ({what}), so its gradient would be lost; pass "
            "it as an argument, or apply stop_gradient to it"
        )


def tapes_tracking(
    tapes: tuple[Tape, ...], inputs: tuple[Tensor | None, ...]
) -> tuple[tuple[Tape, ...], int]:
    """Return the tapes that track an input, and the bits of the tracked inputs."""
    found: tuple[Tape, ...] = ()
    mask = 0
    for tape in tapes:
        tracked = tape.tracked
        own_mask = 0
        bit = 1
        for x in inputs:
            if x is not None and x._tape_id in tracked:
                own_mask |= bit
            bit += bit
        if own_mask:
            mask |= own_mask
            found += (tape,)
    return found, mask


@accelerated
def record(
    tapes: tuple[Tape, ...],
    plan: TapePlan,
    backend: OpenBackend,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    outputs: Outputs,
    scope: str,
    others: tuple[tuple[Tape, ...], TapePlan] | None = None,
) -> None:
    """Add a node to all tapes that track an input; integer outputs are not tracked.

    ``others`` are further tapes, which record the run with another plan.
    """
    if all([dtype_kind(y.dtype) not in "fc" for y in outputs]):
        return
    plans = [(tapes, plan)] if others is None else [(tapes, plan), others]
    all_tapes = [tape for on, _ in plans for tape in on]
    for tape in all_tapes:
        if type(tape) is Guard:
            tape.refuse(f"an input of {plan.kernel.name}")
    tape_ids: list[TapeId] = []
    for y in outputs:
        tape_id = TapeId()
        tape_id.shape = y.shape
        tape_id.dtype = y.dtype
        tape_ids.append(tape_id)
        if dtype_kind(y.dtype) in "fc":
            y._tape_id = tape_id
            for tape in all_tapes:
                tape.tracked.add(tape_id)
    input_ids = [None if x is None else x._tape_id for x in inputs]
    values = inputs + outputs
    for on, its_plan in plans:
        saved = saved_values(its_plan, values, attrs)
        node = new(Node, (its_plan, backend, input_ids, tape_ids, saved, scope))
        for tape in on:
            tape.nodes.append(node)


def saved_values(
    plan: TapePlan, values: tuple[Any, ...], attrs: dict[str, Any]
) -> list[Any]:
    """Return the residuals of a run, given its inputs and outputs."""
    saved = [save(TENSOR, i, values) for i in plan.tensors]
    for kind, where in plan.others:
        is_attribute = kind == ATTRIBUTE
        saved.append(attrs[where] if is_attribute else save(kind, where, values))
    return saved


def replace_node(tape: Tape, node: Node) -> None:
    """Put a node in the place of the node that has the same outputs."""
    with state_lock:  # other threads may record on the same tape
        nodes = tape.nodes
        for index in range(len(nodes) - 1, -1, -1):
            if nodes[index][3][0] is node.outputs[0]:
                nodes[index] = node
                return


@accelerated
def alias(x: Tensor, tape_id: TapeId | None = None) -> Tensor:
    """Return another handle on the values of ``x``, with this identity for tapes."""
    return x._alias(tape_id)


def save(kind: int, where: Where, values: tuple[Any, ...]) -> Any:
    """Return an input or output with its current identity, or only its spec.

    A tape_id serves as a spec, because it has the shape and the dtype.
    """
    if isinstance(where, tuple):
        return tuple([save(kind, i, values) for i in range(*where)])
    x = values[where]
    if x is None:
        return None
    if kind == TENSOR:
        return alias(x, x._tape_id)
    return x._tape_id or Spec(x.shape, x.dtype)


def spec(x: Tensor) -> Spec:
    """Return the shape and dtype of a tensor."""
    return Spec(x.shape, x.dtype)


def specs(xs: Iterable[Tensor | None]) -> tuple[Spec | None, ...]:
    """Return the specs of the inputs of a run; None for an omitted optional input."""
    return tuple([None if x is None else Spec(x.shape, x.dtype) for x in xs])
