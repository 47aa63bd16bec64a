"""The table of ONNX ops: which function runs an op from which opset on.

``op`` registers a function. Plugins register their own ops in the same way: an entry
point of the group ``plugrad_onnx.ops`` names a module, which is imported when the first
model is loaded.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, TypeVar

from plugrad.importing import input_counts

__all__ = [
    "ALL",
    "GROUP",
    "Op",
    "Value",
    "find",
    "op",
    "own",
    "since_versions",
]

GROUP = "plugrad_onnx.ops"
ALL = 10**6  # reads=range(ALL): the function takes NumPy's arrays alone
Value = Any  # a tensor, an array of NumPy on the host, a list (a sequence), or None
Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class Op:
    """How an op runs.

    Attributes:
        function: Takes the inputs by position and the attributes by name.
        host: The same for arrays of NumPy; None if there is no such function.
        reads: Positions of inputs whose values the function needs as arrays of NumPy.
        either: Positions of inputs that the function takes as they are.
        random: Whether two calls give two answers, so that nothing may be folded.
        requires: Modules that the function imports, and what to install for each.

    """

    name: str
    since: int
    domain: str
    function: Function
    host: Function | None = None
    reads: Sequence[int] = ()
    either: Sequence[int] = ()
    random: bool = False
    requires: Mapping[str, str] = field(default_factory=dict, hash=False)
    attributes: frozenset[str] = field(init=False)
    least: int = field(init=False)
    most: float = field(init=False)
    takes_session: bool = field(init=False)
    groups: Mapping[str, Any] = field(init=False, hash=False)

    def __post_init__(self) -> None:
        """Read the numbers of inputs and the attributes from the signature."""
        parameters = inspect.signature(self.function).parameters.values()
        named: set[str] = set()
        groups: dict[str, Any] = {}
        for p in parameters:
            if p.kind is p.KEYWORD_ONLY and dataclasses.is_dataclass(p.default):
                groups[p.name] = p.default
                named |= {one.name for one in dataclasses.fields(p.default)}
            elif p.kind is p.KEYWORD_ONLY:
                named.add(p.name)
        object.__setattr__(self, "groups", groups)
        least, most = input_counts(self.function, without=["session"])
        object.__setattr__(self, "attributes", frozenset(named))
        object.__setattr__(self, "least", least)
        object.__setattr__(self, "most", most)
        names = {p.name for p in parameters}
        object.__setattr__(self, "takes_session", "session" in names)

    def arguments(self, attrs: Mapping[str, Any], node: Any) -> dict[str, Any]:
        """Return what the function gets by name for the attributes of a node."""
        rest = dict(attrs)
        if "node" in self.attributes:
            rest["node"] = node
        for name, group in self.groups.items():
            fields = {one.name for one in dataclasses.fields(group)} & rest.keys()
            given = {key: rest.pop(key) for key in fields}
            rest[name] = dataclasses.replace(group, **given)
        return rest

    @functools.cached_property
    def required(self) -> frozenset[str]:
        """The attributes without a default."""
        parameters = inspect.signature(self.function).parameters.values()
        return frozenset(
            p.name
            for p in parameters
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty
        )


_TABLE: dict[tuple[str, str], list[Op]] = {}


def op(
    *names: str,
    since: int = 1,
    domain: str = "",
    host: Function | bool = False,
    reads: Sequence[int] = (),
    either: Sequence[int] = (),
    random: bool = False,
    requires: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Return a decorator that registers a function as what runs an op of ONNX.

    The function takes the inputs by position, None for one that is left out, and the
    attributes as keyword-only parameters, whose defaults are those of ONNX. It returns
    one value, or a tuple of the outputs. The fields of a dataclass that is the default
    of a parameter are attributes, too. A keyword-only parameter ``node`` gets the
    ``Node``, and a first parameter ``session`` what subgraphs are run with.

    Args:
        names: The ops, ``Relu``.
        since: The first version of the opset for which it holds.
        domain: The domain of the op; "" is that of ONNX.
        host: What computes the same of arrays of NumPy; True: the function itself.
            It runs where all inputs are on the host, as shapes are.
        reads: The positions of inputs that the function gets as arrays of NumPy.
        either: The positions of inputs that may be tensors or arrays of NumPy.
        random: Whether two calls give two answers.
        requires: Modules that the function imports, and what to install for each:
            ``{"re2": "plugrad-onnx[re2]"}``. Without one, ``load`` refuses a model with
            the op, and says what to install.

    Example:
        >>> import plugrad as pg
        >>> from plugrad_onnx import op
        >>> @op("Swish", domain="org.example")
        ... def swish(x, *, beta=1.0):
        ...     return x * pg.sigmoid(beta * x)

    """

    def register(function: F) -> F:
        on_host = function if host is True else host or None
        for name in names:
            rows = _TABLE.setdefault((domain, name), [])
            rows[:] = [row for row in rows if row.since != since]
            places, needs = (tuple(reads), tuple(either)), requires or {}
            row = Op(name, since, domain, function, on_host, *places, random, needs)
            rows.append(row)
            rows.sort(key=lambda row: row.since)
        return function

    return register


def find(domain: str, name: str, version: int) -> Op | None:
    """Return how an op of some version of its opset runs, or None."""
    rows = [row for row in _TABLE.get((domain, name), ()) if row.since <= version]
    return rows[-1] if rows else None


def since_versions(domain: str, name: str) -> list[int]:
    """Return from which versions on there are functions for an op."""
    return [row.since for row in _TABLE.get((domain, name), ())]


@functools.cache
def load_plugins() -> None:
    """Import the modules that entry points of ``GROUP`` name."""
    for entry in entry_points(group=GROUP):
        entry.load()


def own(name: str, domain: str = "plugrad") -> Op:
    """Return an op of the passes, or another one."""
    row = find(domain, name, 13)
    assert row is not None
    return row
