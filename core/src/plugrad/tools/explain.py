"""``explain``: the kernels and the gradients behind a result that a tape has recorded.

Nothing is noted for it while ops run. The tapes that watch a tensor are found as
``memory`` finds tensors, and a node of a tape knows its kernel, its backend and the
gradients that were in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plugrad import _context, _engine
from plugrad._entries import OpenBackend
from plugrad._kernel import Kernel
from plugrad._registry import registry
from plugrad._tape import Node, Step, Tape
from plugrad._tensor import Tensor, Token

from .answer import Row, short, table, where
from .memory import living


@dataclass(frozen=True)
class Explanation:
    """What is behind a recorded result, in the order in which it ran.

    Attributes:
        rows: One an input of each run: ``run`` (a number), ``kernel``, ``output`` (its
            dtype and shape), ``backend``, ``how`` it ran, ``by`` whom and ``at`` which
            file and line; the ``input``, ``of`` which run it is, and its ``gradient``:
            who wrote it, and ``rule``, in which file and line. Inside ``debug`` also
            the ``line`` of yours that ran it.

    """

    rows: list[Row]

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain values, for JSON."""
        return {"rows": self.rows}

    def __repr__(self) -> str:
        once = ("run", "kernel", "output", "backend", "how", "by", "at", "line")
        lines, last = [], None
        for row in self.rows:
            again, last = row["run"] == last, row["run"]
            line = {k: "" if again and k in once else v for k, v in row.items()}
            lines.append(
                line | {k: short(line[k]) for k in ("at", "rule") if k in line}
            )
        return table(lines)


def explain(x: Tensor) -> Explanation:
    """Return the kernels and gradients behind ``x``."""
    if not isinstance(x, Tensor):
        raise TypeError(f"explain: expected a Tensor, got {type(x).__name__}")
    nodes = _behind(x._token, _nodes(x._token))
    numbers: dict[Token, int] = {}
    known = _lines()
    rows: list[Row] = []
    number = 0
    for node in nodes:
        if node.plan is _engine._SAME:  # another name for the same tensor
            numbers |= {
                y: numbers[t] for y in node.outputs for t in node.inputs if t in numbers
            }
            continue
        number += 1
        found = _rows(number, node, numbers)
        if known is not None:
            line = {"line": known.get(node.outputs[0], "")}
            found = [row | line for row in found]
        rows += found
        numbers |= dict.fromkeys(node.outputs, number)
    return Explanation(rows)


def _nodes(token: Token | None) -> list[Node]:
    """Return what the tape that knows most of a tensor has recorded."""
    tapes = [
        tape.nodes
        for tape in living(Tape)
        if any(token in node.outputs for node in tape.nodes)
    ]
    if token is None or not tapes:
        raise ValueError(
            "explain: no tape has recorded this tensor; call it on a result inside the "
            "function that grad differentiates, or on the value of vjp while its "
            "pullback is there"
        )
    return [Node(*node) for node in max(tapes, key=len)]


def _lines() -> dict[Token, str] | None:
    """Return the lines that the ``debug`` block of this thread has noted, if any."""
    if not _context.state.context.observers:
        return None
    from .debug import Debug

    blocks = [o for o in _context.state.context.observers if isinstance(o, Debug)]
    return {t: line for block in blocks for t, line in block._lines.items()} or None


def _behind(token: Token | None, nodes: list[Node]) -> list[Node]:
    """Return the nodes on which a tensor depends, in order."""
    wanted, found = {token}, []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted |= {t for t in node.inputs if t is not None}
            found.append(node)
    return found[::-1]


def _rows(number: int, node: Node, numbers: dict[Token, int]) -> list[Row]:
    kernel, backend = node.plan.kernel, node.backend
    how, by, at = _how(kernel, backend)
    run = {
        "run": number,
        "kernel": kernel.name,
        "output": " ".join(_spec(token) for token in node.outputs),
        "backend": backend.name,
        "how": how,
        "by": by,
        "at": at,
    }
    steps = {step.name: step for step in node.plan.steps}
    rows = []
    for name, place in kernel.places(len(node.inputs)).items():
        if name not in kernel.inputs:
            continue
        span = node.inputs[
            slice(*place) if isinstance(place, tuple) else slice(place, place + 1)
        ]
        of = [str(numbers.get(t, "argument")) for t in span if t is not None]
        gradient, rule = _gradient(kernel, steps.get(name))
        row = run | {"input": name, "of": ", ".join(of) or "constant"}
        rows.append(row | {"gradient": gradient, "rule": rule})
    return rows


def _spec(token: Token) -> str:
    return f"{token.dtype}[{','.join(map(str, token.shape))}]"


def _how(kernel: Kernel, backend: OpenBackend) -> tuple[str, str, str]:
    """Return how a run of a kernel went, who wrote what ran, and where that is.

    As things are now: a node does not note it. Where a backend has an implementation
    and has also been seen to go round it, both are named.
    """
    if kernel.name == "plugrad.CustomGradient":
        return "custom_grad", "user", ""
    layers = registry.kernels.get((kernel.name, backend.name))
    detours = [
        how
        for name, of, how in _engine.detours
        if (name, of) == (kernel.name, backend.name)
    ]
    how = " or ".join([*(["implementation"] if layers else []), *sorted(detours)])
    if layers:
        return how, str(layers[0].owner), where(layers[0].function)
    if kernel.decomposition is not None:
        owner = registry.owners.get(kernel.name, registry.core)
        return how, str(owner), where(kernel.decomposition)
    host = registry.kernels.get((kernel.name, backend.runtime.host or ""))
    return (how, str(host[0].owner), where(host[0].function)) if host else (how, "", "")


def _gradient(kernel: Kernel, step: Step | None) -> tuple[str, str]:
    """Return who wrote the gradient of an input, and where."""
    if step is None:
        return "", ""  # nothing is differentiated there
    if step.rule is None:
        return "GradientNotFound", ""
    owner = step.rule.owner
    if not owner.partition(" ")[2] and owner != "user":  # it came with the contract
        owner = str(registry.owners.get(kernel.name, owner))
    place = where(step.rule.function)
    if kernel.name == "plugrad.CustomGradient":
        place = step.rule.origin
    return owner, place
