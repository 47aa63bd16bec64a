"""Shared parts of importers, which load and run model files.

plugrad-onnx and plugrad-tfjs are built on this module; use it for importers of other
formats. ``import plugrad`` does not import it. A loader collects all problems of a file
and raises them together::

    def load(path, *, backend=None, budget=None):
        budget = pg.Budget.started(budget, "load")
        with importing.loading():
            nodes, problems = read(budget.read(path))
            order, cycle = importing.in_order({n.name: n.inputs for n in nodes})
            if cycle:
                problems.append(f"nodes in a cycle: {' -> '.join(cycle)}")
            if problems:
                raise importing.ModelError(problems)
            ...

Contents: load errors; inputs of a node; inputs of a model; order; values during a run.
"""

from __future__ import annotations

import contextlib
import heapq
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

import numpy as np

import plugrad as pg

from ._src.public import publish
from ._src.registry.plugins import printable as _printable_lines
from ._src.tensor.explained import explained, replacing
from .plugin import Runtime, runtime

__all__ = [
    "ModelError",
    "ValueInfo",
    "bind_inputs",
    "in_order",
    "input_counts",
    "inputs_text",
    "last_uses",
    "loading",
    "namespace",
    "on_backend",
    "open_backend",
    "printable",
]

MAX_PROBLEM_CHARACTERS = 500  # how much of one problem a message shows
MAX_PROBLEMS = 50  # how many problems a message shows
N = TypeVar("N")

# --- load errors -----------------------------------------------------------------


class ModelError(ValueError):
    """A model that cannot be loaded.

    Args:
        problems: A text for each problem that keeps the model from being loaded. The
            message shows the first 50, up to 500 characters of each, with control
            characters escaped.

    Attributes:
        problems: The problems as the message shows them, without duplicates.

    """

    problems: tuple[str, ...]

    def __init__(self, problems: Iterable[str]) -> None:
        given = [problems] if isinstance(problems, str) else problems
        self.problems = tuple(dict.fromkeys(map(_line, given)))
        count = len(self.problems)
        lines = "".join(f"\n- {problem}" for problem in self.problems[:MAX_PROBLEMS])
        more = count - MAX_PROBLEMS
        rest = f"\n- and {more} more" if more > 0 else ""
        word = "a problem" if count == 1 else f"{count} problems"
        super().__init__(f"load: the model has {word}:{lines}{rest}")
        explained(self, "model-cannot-be-loaded")

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the class and arguments from which a pickle or a copy is recreated."""
        return type(self), (self.problems,)


def _line(problem: str) -> str:
    shown = printable(problem[: MAX_PROBLEM_CHARACTERS + 1])
    if len(problem) <= MAX_PROBLEM_CHARACTERS:
        return shown
    return f"{shown[:MAX_PROBLEM_CHARACTERS]}..."


def printable(text: str) -> str:
    r"""Return text from a file, with control characters escaped for the terminal.

    Args:
        text: Any text.

    Returns:
        The text on one line, with escapes such as ``\x1b`` for characters that cannot
        be printed.

    Example:
        >>> from plugrad import importing
        >>> print(importing.printable("a\x1b[2Jb"))
        a\x1b[2Jb

    """
    return _printable_lines(text).replace("\n", r"\n")


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Return a context manager that turns exhausted resources into a ``ModelError``.

    Returns:
        A context manager. A ``BudgetError``, ``RecursionError`` or ``MemoryError`` in
        its block becomes a ``ModelError``; other exceptions are not changed.

    Raises:
        ModelError: The block exceeds the budget, Python's stack or the memory.

    Example:
        >>> from plugrad import importing
        >>> budget = pg.Budget.started(pg.Budget(nodes=1), "load")
        >>> try:
        ...     with importing.loading():
        ...         budget.count(2)
        ... except importing.ModelError as error:
        ...     print(error.problems[0].partition(",")[0])
        2 nodes or more

    """
    try:
        yield
    except pg.BudgetError as error:
        raise ModelError([error.problem]) from None
    except RecursionError:
        raise ModelError(["it is nested deeper than Python's stack"]) from None
    except MemoryError:
        raise ModelError(["there is not enough memory for it"]) from None


# --- inputs of a node ------------------------------------------------------------


def input_counts(
    function: Callable[..., Any], *, without: Collection[str] = ()
) -> tuple[int, float]:
    """Return the minimum and the maximum number of positional inputs of a function.

    Args:
        function: The function of a node: inputs by position, attributes by keyword
            only.
        without: Names of positional parameters that are not inputs.

    Returns:
        Two numbers; the second is infinity for a function with ``*args``.

    Example:
        >>> from plugrad import importing
        >>> importing.input_counts(lambda x, y=None, *, axis=0: x)
        (1, 2)

    """
    every = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    inputs = [p for p in every if p.kind in kinds and p.name not in without]
    least = sum(p.default is p.empty for p in inputs)
    variadic = any(p.kind is p.VAR_POSITIONAL for p in every)
    return least, float("inf") if variadic else len(inputs)


def inputs_text(least: int, most: float) -> str:
    """Return a number of inputs in words, for messages.

    Args:
        least: The minimum.
        most: The maximum, or infinity.

    Returns:
        "2 inputs", "2 or 3 inputs", "2 to 5 inputs", or "2 inputs or more".

    Example:
        >>> from plugrad import importing
        >>> importing.inputs_text(1, 2)
        '1 or 2 inputs'

    """
    if least == most:
        return f"{least} input{'s' if least != 1 else ''}"
    if most == float("inf"):
        return f"{least} input{'s' if least != 1 else ''} or more"
    return f"{least} {'or' if most == least + 1 else 'to'} {most:.0f} inputs"


# --- inputs of a model -----------------------------------------------------------


@dataclass(frozen=True)
class ValueInfo:
    """The name, dtype and shape of an input or output, as far as a file gives them.

    Attributes:
        name: The name in the file.
        dtype: The dtype; None for a sequence, or if the file does not give it.
        shape: The size of each axis, or a name or None if the size is not known. None
            if not even the rank is known.

    Example:
        >>> from plugrad import importing
        >>> print(importing.ValueInfo("x", np.dtype("float32"), ("N", 3, None)))
        x: float32[N, 3, ?]

    """

    name: str
    dtype: np.dtype[Any] | None = None
    shape: tuple[int | str | None, ...] | None = None

    def __str__(self) -> str:
        """Return the input or output as text, such as "x: float32[N, 3]"."""
        kind = "?" if self.dtype is None else str(self.dtype)
        kind = "string" if kind == "object" else kind
        sizes = "[...]"
        if self.shape is not None:
            sizes = f"[{', '.join('?' if n is None else str(n) for n in self.shape)}]"
        return printable(f"{self.name}: {kind}{sizes}")

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether a value with this shape is accepted as the input."""
        if self.shape is None:
            return True
        pairs = zip(shape, self.shape, strict=False)
        return len(shape) == len(self.shape) and all(
            type(wanted) is not int or wanted == n for n, wanted in pairs
        )


def bind_inputs(
    infos: Sequence[ValueInfo], args: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """Return the value that a call passes for each input of a model.

    Args:
        infos: The inputs.
        args: The positional arguments.
        named: The named arguments.

    Returns:
        A value for each input, in their order.

    Raises:
        TypeError: An input is missing, unknown or given twice, or there are too many.

    Example:
        >>> from plugrad import importing
        >>> infos = [importing.ValueInfo("x"), importing.ValueInfo("y")]
        >>> importing.bind_inputs(infos, [1.0], {"y": 2.0})
        [1.0, 2.0]

    """
    names = [info.name for info in infos]
    if len(args) > len(names):
        count = inputs_text(len(names), len(names))
        raise TypeError(f"model: takes {count}, {names}, got {len(args)}")
    given = dict(zip(names, args, strict=False))
    twice = given.keys() & named.keys()
    unknown = named.keys() - {*names}
    given |= named
    missing = [name for name in names if name not in given]
    said = {"given twice": twice, "unknown": unknown, "missing": missing}
    reasons = [f"{what}: {sorted(x)}" for what, x in said.items() if x]
    if reasons:
        raise TypeError(f"model: the inputs are {names}; {', '.join(reasons)}")
    return [given[name] for name in names]


def open_backend(who: str, backend: str) -> Runtime:
    """Return the ``Runtime`` of a backend; errors name the function ``who``.

    Args:
        who: The public function that is called, such as "load".
        backend: The name of the backend.

    Returns:
        The ``Runtime``, as ``plugrad.plugin.runtime`` returns it.

    Raises:
        BackendUnavailable: The backend is unknown, blocked or broken.

    Example:
        >>> from plugrad import importing
        >>> "float32" in importing.open_backend("load", "cpu").dtypes
        True

    """
    try:
        return runtime(backend)
    except pg.BackendUnavailable as error:
        reason = str(error).removeprefix("runtime: ")
        renamed = pg.BackendUnavailable(f"{who}: {reason}")
        raise replacing(error, renamed) from error


def on_backend(backend: str | None) -> AbstractContextManager[Any]:
    """Return a context manager that makes the backend of a model active.

    Args:
        backend: The name of a backend; None changes nothing.

    Returns:
        A context manager.

    Example:
        >>> from plugrad import importing
        >>> with importing.on_backend("cpu"):
        ...     pg.get_backend()
        'cpu'

    """
    return contextlib.nullcontext() if backend is None else pg.use_backend(backend)


# --- order -----------------------------------------------------------------------


def in_order(needs: Mapping[N, Iterable[N]]) -> tuple[list[N], list[N]]:
    """Return nodes in an order in which they can run.

    Whenever several nodes are ready, the one that is first in ``needs`` comes next. So
    the result is deterministic, and if the order of ``needs`` is valid, it is kept.

    Args:
        needs: For each node, the names that it needs. Names that are not nodes are
            available from the start.

    Returns:
        The nodes, each after those that it needs; and a cycle of nodes that need each
        other, or an empty list. In the cycle, each node comes before one that needs it,
        and the first node is repeated at the end. If there is a cycle, its nodes and
        those that depend on it are missing from the first list.

    Example:
        >>> from plugrad import importing
        >>> importing.in_order({"c": ["a", "b"], "a": ["x"], "b": ["a"]})
        (['a', 'b', 'c'], [])
        >>> importing.in_order({"a": [], "b": ["c", "a"], "c": ["b"]})
        (['a'], ['b', 'c', 'b'])

    """
    rows = {
        node: [one for one in wanted if one in needs] for node, wanted in needs.items()
    }
    if _is_ordered(rows):
        return [*rows], []
    names = [*rows]
    cycle = list[N]()
    places = {node: i for i, node in enumerate(names)}
    sorter = TopologicalSorter(rows)
    try:
        sorter.prepare()
    except CycleError as error:  # nodes that do not depend on a cycle are still sorted
        cycle = _rotated_to_first(error.args[1], places)
    ready = sorted(places[node] for node in sorter.get_ready())
    order: list[N] = []
    while ready:
        node = names[heapq.heappop(ready)]
        order.append(node)
        sorter.done(node)
        for one in sorter.get_ready():
            heapq.heappush(ready, places[one])
    return order, cycle


def _is_ordered(rows: Mapping[N, Sequence[N]]) -> bool:
    """Return whether each node already comes after those that it needs."""
    seen = set[N]()
    for node, wanted in rows.items():
        if not seen.issuperset(wanted):
            return False
        seen.add(node)
    return True


def _rotated_to_first(cycle: Sequence[N], places: Mapping[N, int]) -> list[N]:
    """Return a cycle rotated to begin with the node that is first in ``places``."""
    nodes = [*cycle[:-1]]
    start = nodes.index(min(nodes, key=places.__getitem__))
    return [*nodes[start:], *nodes[:start], nodes[start]]


# --- values during a run ---------------------------------------------------------


def last_uses(steps: Sequence[Iterable[N]], kept: Iterable[N]) -> list[tuple[N, ...]]:
    """Return, for each step of a run, the values that no later step uses.

    A run that drops them after the step holds only the values that it still needs.

    Args:
        steps: The values that each step reads and makes, in the order of the run.
        kept: Values that are never dropped, such as the outputs of the model.

    Returns:
        A tuple of values for each step.

    Example:
        >>> from plugrad import importing
        >>> importing.last_uses([["x", "a"], ["a", "b"], ["b", "x", "y"]], ["y"])
        [(), ('a',), ('b', 'x')]

    """
    seen = {*kept}
    found = list[tuple[N, ...]]()
    for values in reversed(steps):
        used = dict.fromkeys(values)
        found.append(tuple(value for value in used if value not in seen))
        seen.update(used)
    return found[::-1]


def namespace(*values: Any) -> Any:
    """Return the library that computes with these values: ``plugrad`` or ``numpy``.

    Shapes, and values computed from them, are NumPy arrays, which stay on the host.

    Args:
        values: Tensors, arrays or numbers.

    Returns:
        The module ``plugrad`` if one of the values is a tensor, else ``numpy``.

    Example:
        >>> from plugrad import importing
        >>> importing.namespace(np.arange(3)).__name__
        'numpy'

    """
    return pg if any(isinstance(value, pg.Tensor) for value in values) else np


publish(globals())
