"""Layers of gradient overrides, and the plans of runs that are recorded under them.

Contents: ``OverrideLayer``; ``Override``, the layer of a block; ``Overrides``, the
layers of all blocks around a place in the program; ``are_same``, which compares two of
these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Container, Mapping
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from plugrad._src.registry.contract import VJP, VJPs, undecorated
from plugrad._src.registry.registry import registry
from plugrad._src.registry.rules import reads_site

from .forms import Form, Whole
from .places import Same
from .sites import Where
from .tape import TapePlan

Plans = dict[tuple[Any, ...], TapePlan | None]


class OverrideLayer(NamedTuple):
    """Gradients with which a block overrides all others.

    Attributes:
        backend: The backend whose runs they differentiate; None means all backends.
        rules: The rules by kernel and input. An empty table hides all gradients below,
            so that a tape records the decomposition of the kernel.
        where: The runs to which they apply; None means all runs.
        innermost: Whether only the innermost tape sees them.
        wholes: The patterns of several runs for which there are rules.
        used: The kernels whose rules some run has used.

    """

    backend: str | None
    rules: Mapping[str, VJPs]
    where: Where | None
    innermost: bool
    wholes: tuple[Whole, ...]
    used: set[str]

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the user's functions that runs have called: rules and ``where=``."""
        tables = [self.rules[name] for name in tuple(self.used)]
        found = [rule.function for table in tables for rule in table.values() if rule]
        if self.where is not None and callable(self.where.given):
            found.append(self.where.given)
        return tuple(found)


class Override:
    """The layer of gradients with which one scope overrides all others."""

    __slots__ = ("last", "layer")

    layer: OverrideLayer

    def __init__(self, layer: OverrideLayer) -> None:
        self.layer = layer
        self.last: tuple[Overrides | None, Overrides] | None = None

    def __jit_state__(self) -> tuple[Any, ...]:
        """Return the functions of the user that runs have called."""
        return self.layer.functions()

    def stacked_on(self, outer: Overrides | None) -> Overrides:
        """Return the layers of ``outer`` with this one on top; the result is cached."""
        last = self.last
        if last is None or last[0] is not outer:
            layers = outer.layers if outer else ()
            self.last = last = (outer, Overrides((*layers, self.layer)))
        return last[1]


class Overrides:
    """The gradients with which scopes override all others, the innermost last."""

    def __init__(self, layers: tuple[OverrideLayer, ...]) -> None:
        self.layers: tuple[OverrideLayer, ...] = layers
        self._for_others: tuple[Overrides | None] | None = None
        # The plans of the registry (a new object whenever a gradient changes), and the
        # plans with these overrides. Threads that share a scope replace both at once.
        self.plans: tuple[object, Plans] = registry.gradients.plans, {}
        self._without: dict[str, Overrides] = {}

    @functools.cached_property
    def by_number(self) -> set[str]:
        """The kernels whose gradient depends on the number of the run."""
        found = set[str]()
        for layer in self.layers:
            if layer.where is not None and layer.where.reads_number:
                found |= layer.rules.keys()
            for kernel, rules in layer.rules.items():
                if reads_site(rules.values()):
                    found.add(kernel)
        return found

    @functools.cached_property
    def by_site(self) -> set[str]:
        """The kernels whose gradient depends on the scope or the number of the run."""
        placed = [layer.rules for layer in self.layers if layer.where is not None]
        return self.by_number.union(*placed)

    @functools.cached_property
    def innermost(self) -> set[str]:
        """The kernels with an override that only the innermost tape sees."""
        hidden = [layer.rules for layer in self.layers if layer.innermost]
        return set[str]().union(*hidden)

    @functools.cached_property
    def wholes(self) -> dict[str, list[tuple[frozenset[str], Whole, Form]]]:
        """The patterns and their forms by the kernel of the last part.

        Patterns of inner layers come first, and then longer ones. Each comes with the
        kernels that feed its last part: comparing these excludes most patterns at once.
        """
        found: dict[str, list[tuple[frozenset[str], Whole, Form]]] = {}
        for layer in reversed(self.layers):
            for whole in sorted(layer.wholes, key=_longest, reverse=True):
                for form in whole.forms:
                    rows = found.setdefault(form.parts[-1].kernel, [])
                    rows.append((form.feeding, whole, form))
        return found

    @functools.cached_property
    def noted(self) -> Container[str]:
        """The kernels of all parts of patterns but the last part of each."""
        return {part.kernel for form in self._forms for part in form.parts[:-1]}

    @functools.cached_property
    def parts(self) -> Collection[str]:
        """The kernels of all parts of patterns."""
        return {part.kernel for form in self._forms for part in form.parts}

    @property
    def _forms(self) -> list[Form]:
        wholes = [whole for layer in self.layers for whole in layer.wholes]
        return [form for whole in wholes for form in whole.forms]

    def without(self, kernel: str) -> Overrides:
        """Return these overrides without the pattern of this name, from a cache."""
        found = self._without.get(kernel)
        if found is None:
            layers = [
                layer._replace(
                    wholes=tuple([w for w in layer.wholes if w.kernel.name != kernel])
                )
                for layer in self.layers
            ]
            self._without[kernel] = found = Overrides(tuple(layers))
        return found

    def for_others(self) -> Overrides | None:
        """Return the overrides that tapes other than the innermost one see."""
        if not self.innermost:
            return self
        if self._for_others is None:
            layers = tuple([layer for layer in self.layers if not layer.innermost])
            self._for_others = (Overrides(layers) if layers else None,)
        return self._for_others[0]

    @functools.cached_property
    def key(self) -> object:
        """A key: overrides with equal keys have the same functions and ``where=``."""
        return [_key(layer) for layer in self.layers]


def are_same(one: Overrides | None, other: Overrides | None) -> bool:
    """Return whether overrides of two blocks have the same functions and ``where=``.

    ``jit`` asks this about different blocks, such as those that each step of a training
    loop opens anew.
    """
    if one is None or other is None:
        return one is other
    return one is other or one.key == other.key


def _key(layer: OverrideLayer) -> object:
    rules = frozenset(
        (kernel, frozenset((name, _key_of_rule(rule)) for name, rule in table.items()))
        for kernel, table in layer.rules.items()
    )
    place = None if layer.where is None else layer.where.key
    kernels = Same(*[whole.kernel for whole in layer.wholes])
    return layer.backend, rules, place, layer.innermost, kernels


def _longest(whole: Whole) -> int:
    """Return the number of parts of the longest form."""
    return max(len(form.parts) for form in whole.forms)


def _key_of_rule(rule: VJP | None) -> object:
    if rule is None:
        return None
    function, transposed = undecorated(rule.function), rule.transposed
    key = _key_of_function(function), *rule[1:-1]
    if transposed is None:
        return key
    return *key, _key_of_function(undecorated(transposed))


def _key_of_function(function: Callable[..., Any]) -> object:
    """Return a key: functions and methods compare by ``==``, others by identity."""
    is_plain = isinstance(function, FunctionType | MethodType)
    return function if is_plain else Same(function)
