"""Tapes: what ran, in order, and all that backward needs to know of it.

Nodes point to tokens and never to tensors, so that a tape keeps alive exactly what
gradients have asked for by name. What can be known before a run is in a ``Plan``, made
once for a kernel, a backend and the set of inputs that are tracked.

Map: ``Plan`` and how it is made; ``Tape``, ``Node`` and ``record``; small helpers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ._dtypes import differentiable
from ._entries import OpenBackend
from ._kernel import Kernel, Rule, Rules, Spec
from ._tensor import Tensor, Token

Outputs = tuple[Tensor, ...]
# Where the inputs, and after them the outputs, of a run stand: the index of one, or
# start and stop of a variadic one.
Where = int | tuple[int, int]

TENSOR, SPEC, ATTRIBUTE = range(3)  # the kinds of things that a tape saves


class Step(NamedTuple):
    """How one input gets its cotangent; without rule it is an error in backward."""

    name: str
    where: Where
    rule: Rule | None
    saved: tuple[int, ...]  # which of the saved values the rule's function takes


class Plan(NamedTuple):
    """What to save when a kernel runs, and how to go back through it."""

    kernel: Kernel
    keeps: tuple[tuple[int, Any], ...]  # (TENSOR or SPEC, where) or (ATTRIBUTE, name)
    steps: tuple[Step, ...]


def plan(kernel: Kernel, rules: Rules, mask: int, count: int) -> Plan:
    """Return the plan of a run with ``count`` inputs, of which ``mask`` are tracked.

    ``mask`` has one bit an input of the run, the lowest for the first.
    """
    places = kernel.places(count)
    keeps: dict[tuple[int, Any], int] = {}
    steps = []
    for name in kernel.inputs:
        where = places[name]
        if not mask & _bits(where):
            continue
        if name not in rules:
            steps.append(Step(name, where, None, ()))
            continue
        rule = rules[name]
        if rule is None:  # declared without derivative: no cotangent, no error
            continue
        wanted = [_keep(kernel, places, want) for want in rule.wants]
        saved = tuple(keeps.setdefault(keep, len(keeps)) for keep in wanted)
        steps.append(Step(name, where, rule, saved))
    return Plan(kernel, tuple(keeps), tuple(steps))


def _keep(kernel: Kernel, places: dict[str, Where], want: str) -> tuple[int, Any]:
    if want in kernel.attrs:
        return ATTRIBUTE, want
    if want in places:
        return TENSOR, places[want]
    return SPEC, places[want.removesuffix("_spec")]


def _bits(where: Where) -> int:
    return 1 << where if isinstance(where, int) else sum(1 << i for i in range(*where))


class Node:
    """One run: tokens of what went in and came out, and what gradients asked for."""

    __slots__ = ("backend", "inputs", "outputs", "plan", "saved")

    def __init__(
        self,
        plan: Plan,
        backend: OpenBackend,
        inputs: tuple[Token | None, ...],
        outputs: tuple[Token, ...],
        saved: tuple[Any, ...],
    ) -> None:
        self.plan = plan
        self.backend = backend
        self.inputs = inputs
        self.outputs = outputs
        self.saved = saved


class Tape:
    """The runs that depend on the watched tensors, in order.

    Args:
        variables: Where to note the variables that are read while the tape records;
            None if the tape takes no notice of them.

    """

    __slots__ = ("nodes", "tracked", "variables")

    def __init__(self, variables: dict[Any, Token] | None = None) -> None:
        self.nodes: list[Node] = []
        self.tracked: set[Token | None] = set()  # None never is: no test is needed
        self.variables = variables

    def watch(self, x: Tensor) -> Token:
        """Track ``x`` from now on; return its token."""
        if x._token is None:
            x._token = Token(x.shape, x.dtype)
        self.tracked.add(x._token)
        return x._token


def concerned(
    tapes: tuple[Tape, ...], inputs: tuple[Tensor | None, ...]
) -> tuple[tuple[Tape, ...], int]:
    """Return the tapes that track an input, and the bits of the tracked inputs."""
    found: tuple[Tape, ...] = ()
    mask = 0
    for tape in tapes:
        tracked, mine, bit = tape.tracked, 0, 1
        for x in inputs:
            if x is not None and x._token in tracked:
                mine |= bit
            bit <<= 1
        if mine:
            mask |= mine
            found += (tape,)
    return found, mask


def record(
    tapes: tuple[Tape, ...],
    plan: Plan,
    backend: OpenBackend,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    outputs: Outputs,
) -> None:
    """Put one node on all tapes concerned; integer and bool outputs end the path."""
    tokens: tuple[Token, ...] = ()
    fresh = []
    for y in outputs:
        token = Token(y.shape, y.dtype)
        tokens += (token,)
        if differentiable(y.dtype):
            y._token = token
            fresh.append(token)
    if not fresh:
        return
    values = inputs + outputs
    saved = tuple(
        [
            attrs[where] if kind == ATTRIBUTE else _save(kind, values, where)
            for kind, where in plan.keeps
        ]
    )
    marks = tuple([None if x is None else x._token for x in inputs])
    node = Node(plan, backend, marks, tokens, saved)
    for tape in tapes:
        tape.nodes.append(node)
        tape.tracked.update(fresh)


def _save(kind: int, values: tuple[Any, ...], where: Where) -> Any:
    if type(where) is tuple:
        return tuple([_save(kind, values, i) for i in range(*where)])
    x = values[where]  # type: ignore[index]
    if x is None:
        return None
    if kind == SPEC:
        return Spec(x.shape, x.dtype)
    return x._data, x._home, x._token, x._replicas  # cheaper than a handle


def restore(node: Node) -> list[Any]:
    """Return what the node has saved, tensors as new handles of the same identity."""
    values: list[Any] = []
    for (kind, where), value in zip(node.plan.keeps, node.saved, strict=True):
        if kind != TENSOR:
            values.append(value)
        elif type(where) is int:
            values.append(_handle(value))
        else:
            values.append(tuple(map(_handle, value)))
    return values


def _handle(saved: tuple[Any, ...] | None) -> Tensor | None:
    if saved is None:  # an optional input that was not given
        return None
    data, home, token, replicas = saved
    x = Tensor(data, home)
    x._token, x._replicas = token, replicas
    return x


def spec(x: Tensor) -> Spec:
    """Return the shape and dtype."""
    return Spec(x.shape, x.dtype)


def each(function: Callable[[Any], Any], x: Any) -> Any:
    """Apply ``function`` to one value, to each of a tuple, or not at all to None."""
    if x is None:
        return None
    return tuple(map(function, x)) if isinstance(x, tuple) else function(x)


def specs(xs: Iterable[Tensor | None]) -> tuple[Spec | None, ...]:
    """Return the specs of the inputs of a run; None for an optional one."""
    return tuple([None if x is None else Spec(x.shape, x.dtype) for x in xs])
