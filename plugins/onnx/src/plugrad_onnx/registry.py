"""The table of ONNX ops: the function that runs each op, by opset version.

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
    "GROUP",
    "MAX_INPUTS",
    "Op",
    "Value",
    "find",
    "op",
    "pass_op",
    "since_versions",
]

GROUP = "plugrad_onnx.ops"
MAX_INPUTS = 10**6  # reads=range(MAX_INPUTS): the function takes only NumPy arrays
Value = Any  # a tensor, a NumPy array on the host, a list (a sequence), or None
Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class Op:
    """The implementation of an op.

    Attributes:
        function: The function of the inputs, by position, and the attributes, by name.
        host: The same function for NumPy arrays; None if there is none.
        reads: Positions of inputs that the function needs as NumPy arrays.
        either: Positions of inputs that may be tensors or NumPy arrays.
        random: Whether results differ between calls; such nodes are never folded.
        requires: Modules that the function imports, with the package for each.
        attributes: Names of the supported attributes.
        min_inputs: The smallest number of inputs.
        max_inputs: The largest number of inputs; infinite if there is no limit.
        takes_session: Whether the function has the parameter ``session``.
        groups: The defaults of parameters that are dataclasses, by parameter name.

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
    min_inputs: int = field(init=False)
    max_inputs: float = field(init=False)
    takes_session: bool = field(init=False)
    groups: Mapping[str, Any] = field(init=False, hash=False)

    def __post_init__(self) -> None:
        """Derive the input counts and the attributes from the signature."""
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
        min_inputs, max_inputs = input_counts(self.function, without=["session"])
        object.__setattr__(self, "attributes", frozenset(named))
        object.__setattr__(self, "min_inputs", min_inputs)
        object.__setattr__(self, "max_inputs", max_inputs)
        names = {p.name for p in parameters}
        object.__setattr__(self, "takes_session", "session" in names)

    def arguments(self, attrs: Mapping[str, Any], node: Any) -> dict[str, Any]:
        """Return the keyword arguments for the attributes of a node."""
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
        """The names of the attributes without a default."""
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
    """Return a decorator that registers a function as the implementation of an op.

    The function takes the inputs by position (None for an omitted input) and the
    attributes as keyword-only parameters with the defaults of ONNX. It returns one
    value or a tuple of outputs. If the default of a parameter is a dataclass, the
    fields of the dataclass are attributes as well. A keyword-only parameter ``node``
    gets the ``Node``; a first parameter ``session`` gets the session in which subgraphs
    run.

    Args:
        names: The names of the ops, such as ``Relu``.
        since: The first opset version that the function implements.
        domain: The domain of the op; "" is the ONNX domain.
        host: The function for NumPy arrays; True: the decorated function itself. It
            runs if all inputs are on the host, like shapes.
        reads: The positions of inputs that the function gets as NumPy arrays.
        either: The positions of inputs that may be tensors or NumPy arrays.
        random: Whether results differ between calls.
        requires: Modules that the function imports, with the package that provides
            each: ``{"re2": "plugrad-onnx[re2]"}``. If one is missing, ``load`` refuses
            a model with the op and names the package to install.

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
            positions = (tuple(reads), tuple(either))
            needs = requires or {}
            row = Op(name, since, domain, function, on_host, *positions, random, needs)
            rows.append(row)
            rows.sort(key=lambda row: row.since)
        return function

    return register


def find(domain: str, name: str, version: int) -> Op | None:
    """Return the implementation of an op for an opset version, or None."""
    rows = [row for row in _TABLE.get((domain, name), ()) if row.since <= version]
    return rows[-1] if rows else None


def since_versions(domain: str, name: str) -> list[int]:
    """Return the first opset version of each implementation of an op."""
    return [row.since for row in _TABLE.get((domain, name), ())]


@functools.cache
def load_plugins() -> None:
    """Import the modules that entry points of ``GROUP`` name."""
    for entry in entry_points(group=GROUP):
        entry.load()


def pass_op(name: str, domain: str = "plugrad") -> Op:
    """Return a registered op that a pass inserts."""
    row = find(domain, name, 13)
    assert row is not None
    return row
