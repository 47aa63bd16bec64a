"""``explain``: the kernels and gradients of a result that a tape has recorded.

Ops record nothing extra for ``explain``. Inside the function that is differentiated,
``explain`` reads the tapes in force. Outside of that function, it reads the tapes of
the pullbacks that exist. Each node of a tape contains its kernel, its backend, its
scope and the gradients that were in force.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from plugrad._src.engine import context, dispatch
from plugrad._src.engine.tape import Node, Tape, VJPStep, kept_tapes
from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.contract import Kernel
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.tensor import TapeId, Tensor

from .answer import Row, cell, short, table, where, where_gradient
from .debug import Debug
from .memory import brief

_CUSTOM = "plugrad.CustomGradient"
# Notebooks scroll wide tables, so the other columns may be out of sight.
_FIRST_COLUMNS = "run", "kernel", "backend", "how", "input", "of", "gradient"


@dataclass(frozen=True)
class Explanation:
    """The runs that computed a recorded result, in order.

    Attributes:
        rows: A dict for each input of each run. About the run: its number (``run``),
            ``kernel``, ``output`` (dtype and shape), ``backend``, ``how`` it ran, and
            the owner (``by``), file and line (``at``) of the implementation. About the
            input: its name (``input``), the run that made it (``of``), and the owner of
            its ``gradient`` with file and line (``vjp``). Inside ``debug``, ``line`` is
            the line of your code that started the run. If any run is in a
            ``name_scope``, each row has the ``scope`` of its run.

    """

    rows: list[Row]

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain values, for JSON."""
        return {"rows": self.rows}

    def __repr__(self) -> str:
        return table(self._lines())

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the table of ``print`` in another column order."""
        from plugrad._src.tensor import html  # only where it is needed

        lines = self._lines()
        titles = [*dict.fromkeys([*_FIRST_COLUMNS, *lines[0]])] if lines else []
        cells = [[cell(line[title]) for title in titles] for line in lines]
        count = len({row["run"] for row in self.rows})
        caption = f"Explanation: {count} kernel run{'s' * (count != 1)}"
        return html.table(caption, titles, cells, text_columns=titles)

    def _lines(self) -> list[Row]:
        """Return the rows as shown: short paths, and the cells of a run only once."""
        once = {"run", "kernel", "output", "backend", "how", "by", "at"}
        once |= {"line", "scope"}
        lines = []
        for last, row in pairwise([{"run": 0}, *self.rows]):
            again = once & row.keys() if row["run"] == last["run"] else ()
            places = {name: short(row[name]) for name in ("at", "vjp")}
            lines.append(row | places | dict.fromkeys(again, ""))
        return lines


def explain(x: Tensor, /) -> Explanation:
    """Return the kernels and gradients that computed ``x``, as recorded by a tape.

    Inside the function that ``grad`` differentiates, ``x`` can be any result; outside
    of it, the value that ``vjp`` returned, as long as its pullback exists. ``print``
    shows a table; ``rows`` and ``to_dict()`` return the same for programs. The table
    lists each run with its kernel, its backend, how it ran and the owner of the
    implementation, and each input with the gradient that was in force, its owner, file
    and line. Inside ``debug``, it also lists the lines of your code.

    Args:
        x: A tensor that a tape has recorded.

    Returns:
        An ``Explanation``.

    Raises:
        ValueError: No tape has recorded ``x``.
        TypeError: ``x`` is not a tensor.

    Example:
        >>> y, pullback = pg.vjp(lambda x: pg.relu(pg.exp(x)), 3.0)
        >>> [row["kernel"] for row in pg.explain(y).rows]
        ['Exp', 'Relu']

    """
    if not isinstance(x, Tensor):
        raise TypeError(f"explain: expected a Tensor, got {type(x).__name__}")
    describe = _Describe()
    sources = describe.sources
    known = _lines()
    rows: list[Row] = []
    number = 0
    nodes = _dependencies(x._tape_id, _nodes(x._tape_id))
    with_scopes = any(node.scope for node in nodes)
    for node in nodes:
        if node.plan is dispatch._SAME:  # another name for the same tensor
            sources[node.outputs[0]] = sources.get(node.inputs[0], "argument")
            continue
        number += 1
        more: Row = {"line": known.get(node.outputs[0], "")} if known else {}
        more |= {"scope": node.scope} if with_scopes else {}
        rows += describe.rows(number, node, more)
        sources |= dict.fromkeys(node.outputs, str(number))
    return Explanation(rows)


def recorded_kernels(x: Tensor) -> list[str]:
    """Return the kernels that a tape has recorded for ``x``, in order."""
    nodes = _dependencies(x._tape_id, _nodes(x._tape_id))
    names = [node.plan.kernel.name for node in nodes if node.plan is not dispatch._SAME]
    return list(dict.fromkeys(names))


def _nodes(tape_id: TapeId | None) -> list[Node]:
    """Return the nodes of the longest tape that has recorded a tensor."""
    tapes = _with_output(tape_id, context.all_tapes(context.current()))
    if not tapes:
        tapes = _with_output(tape_id, kept_tapes())
    if tape_id is None or not tapes:
        raise ValueError(
            "explain: no tape has recorded this tensor, or nothing in it depends on "
            "the argument; call it on a result inside the function that grad "
            "differentiates, or on the value of vjp while its pullback exists"
        )
    return [Node(*node) for node in max(tapes, key=len)]


def _with_output(tape_id: TapeId | None, tapes: Iterable[Tape]) -> list[list[Node]]:
    """Return the nodes of each tape that has recorded a tensor."""
    return [
        tape.nodes
        for tape in tapes
        if any(tape_id in node.outputs for node in [*tape.nodes])
    ]


def _lines() -> dict[TapeId, str]:
    """Return the lines that the ``debug`` blocks of this thread have noted."""
    blocks = [o for o in context.current().observers if isinstance(o, Debug)]
    return {t: line for block in blocks for t, line in block._lines.items()}


def _dependencies(tape_id: TapeId | None, nodes: list[Node]) -> list[Node]:
    """Return the nodes on which a tensor depends, in order."""
    wanted = {tape_id}
    found = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted |= {*node.inputs} - {None}
            found.append(node)
    return found[::-1]


class _Describe:
    """Describes nodes; data shared by nodes with the same plan is looked up once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[Row, dict[str, Row]]] = {}
        self.sources: dict[TapeId | None, str] = {}  # the run that made each tensor

    def rows(self, number: int, node: Node, more: Row) -> list[Row]:
        """Return a row for each input of the node, which is run ``number``."""
        kernel = node.plan.kernel
        key = id(node.plan), node.backend.name  # tapes keep the plans alive
        if key not in self._known:
            self._known[key] = self._common(node)
        common, gradients = self._known[key]
        output = " ".join(map(brief, node.outputs))
        run = {"run": number, "kernel": kernel.name, "output": output, **common}
        rows = []
        for name, given in kernel.bind(node.inputs).items():
            if name == kernel.variadic:
                made_by = [self._source(tape_id) for tape_id in given if tape_id]
                of = ", ".join(made_by) or self._source(None)
            else:
                of = self._source(given)
            rows.append({**run, "input": name, "of": of, **gradients[name], **more})
        return rows

    def _source(self, tape_id: TapeId | None) -> str:
        if tape_id is None:
            return "constant"
        return self.sources.get(tape_id, "argument")

    def _common(self, node: Node) -> tuple[Row, dict[str, Row]]:
        """Return the data about a run, and about the gradient of each of its inputs."""
        kernel, backend = node.plan.kernel, node.backend
        how, by, at = _how_it_ran(kernel, backend)
        steps = {
            name: step for step in node.plan.steps for name in step.name.split(", ")
        }
        gradients: dict[str, Row] = {}
        for name in kernel.inputs:
            gradient, vjp = _gradient(kernel, steps.get(name), backend)
            gradients[name] = {"gradient": gradient, "vjp": vjp}
        return {"backend": backend.name, "how": how, "by": by, "at": at}, gradients


def _how_it_ran(kernel: Kernel, backend: OpenBackend) -> tuple[str, str, str]:
    """Return how a kernel ran, with the owner and the location of the code.

    This is the current state, because a node does not record how its kernel ran. If a
    backend has an implementation, but has also run the kernel in another way, both are
    named.
    """
    if kernel.name == _CUSTOM:
        return "custom_grad", "user", ""
    if kernel.fused and kernel.name not in registry.contracts:
        return "pattern", "", ""  # a name for several runs
    key = kernel.name, backend.name
    layers = registry.kernels.get(key)
    fallback_counts = sorted(
        how for *name, how in [*dispatch.fallback_counts] if tuple(name) == key
    )
    how = " or ".join(
        ["implementation", *fallback_counts] if layers else fallback_counts
    )
    if layers:
        return how, str(layers[0].owner), where(layers[0].function)
    if kernel.decomposition is not None:
        owner = registry.owners.get(kernel.name, registry.core)
        return how, str(owner), where(kernel.decomposition)
    host = registry.kernels.get((kernel.name, backend.runtime.host or ""))
    return (how, str(host[0].owner), where(host[0].function)) if host else (how, "", "")


def _gradient(
    kernel: Kernel, step: VJPStep | None, backend: OpenBackend
) -> tuple[str, str]:
    """Return the owner and the location of the gradient of an input."""
    if step is None:
        return "", ""  # no gradient flows through it
    if (vjp := step.vjp) is None:
        return "GradientNotFound", ""
    owner = vjp.owner
    if " " not in owner and owner != "user":  # its contract provides it
        owner = str(registry.owners.get(kernel.name, owner))
    if kernel.name == _CUSTOM:
        return owner, vjp.origin
    return owner, where_gradient(vjp.function, backend.name)
