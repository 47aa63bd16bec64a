"""Layers of gradient overrides, and the plans of runs that are recorded under them.

Map: ``Layer``; ``Override``, the layer of a block; ``Overrides``, the layers of all
blocks around a place in the program; when two layers are equal.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from plugrad._src.registry.contract import VJP, VJPs, undecorated
from plugrad._src.registry.registry import registry
from plugrad._src.registry.rules import reads_site

from .places import Same
from .sites import Where
from .tape import Plan

Plans = dict[tuple[Any, ...], Plan | None]


class Layer(NamedTuple):
    """Gradients that a block puts over all others.

    Attributes:
        backend: The backend whose runs they differentiate; None means all backends.
        rules: The rules by kernel and input. An empty table hides all gradients below,
            so that a tape records the decomposition of the kernel.
        where: The runs to which they apply; None means all runs.
        innermost: Whether only the innermost tape sees them.

    """

    backend: str | None
    rules: Mapping[str, VJPs]
    where: Where | None
    innermost: bool


class Override:
    """The layer of gradients that one scope puts over all others."""

    __slots__ = ("key", "last", "layer")

    layer: Layer

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.key: object = None
        self.last: tuple[Overrides | None, Overrides] | None = None

    def stacked_on(self, outer: Overrides | None) -> Overrides:
        """Return the layers of ``outer`` with this one on top.

        The result is cached in this object. Other blocks with the same functions get
        the same result while something, such as a recording of ``jit``, refers to it.
        """
        last = self.last
        if last is None or last[0] is not outer:
            if self.key is None:
                self.key = _key(self.layer)
            key = outer, self.key
            with _lock:
                found = _known.get(key)
                if found is None:
                    layers = outer.layers if outer else ()
                    found = _known[key] = Overrides((*layers, self.layer))
            self.last = last = (outer, found)
        return last[1]


class Overrides:
    """The gradients that scopes put over all others, the innermost last."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers: tuple[Layer, ...] = layers
        # The kernels whose gradient depends on the scope or the number of the run, and
        # those for which it depends on the number.
        self.by_site: set[str] = set()
        self.by_number: set[str] = set()
        # The kernels of which the innermost tape sees another gradient.
        self.innermost = {k for layer in layers if layer.innermost for k in layer.rules}
        self._for_others: tuple[Overrides | None] | None = None
        for layer in layers:
            where = layer.where
            for kernel, rules in layer.rules.items():
                has_site = reads_site(rules.values())
                if where is not None or has_site:
                    self.by_site.add(kernel)
                if has_site or (where is not None and where.reads_number):
                    self.by_number.add(kernel)
        # The plans of the registry, a new object whenever a gradient changes, and the
        # plans with these overrides. Threads that share a scope replace both at once.
        self.plans: tuple[object, Plans] = registry.gradients.plans, {}

    def for_others(self) -> Overrides | None:
        """Return the overrides that tapes other than the innermost one see."""
        if not self.innermost:
            return self
        if self._for_others is None:
            layers = tuple([layer for layer in self.layers if not layer.innermost])
            self._for_others = (Overrides(layers) if layers else None,)
        return self._for_others[0]


# --- equal layers ----------------------------------------------------------------

_lock = threading.Lock()
# Overrides by the overrides around them, and the key of their innermost layer.
_known: weakref.WeakValueDictionary[Any, Overrides] = weakref.WeakValueDictionary()


def _key(layer: Layer) -> object:
    """Return a key; layers with equal keys have the same functions and places."""
    rules = frozenset(
        (kernel, frozenset((name, _key_of_rule(rule)) for name, rule in table.items()))
        for kernel, table in layer.rules.items()
    )
    place = None if layer.where is None else layer.where.key
    return layer.backend, rules, place, layer.innermost


def _key_of_rule(rule: VJP | None) -> object:
    if rule is None:
        return None
    function = undecorated(rule.function)
    return (_key_of_function(function), *rule[1:])


def _key_of_function(function: Callable[..., Any]) -> object:
    """Functions and methods are compared as Python does, other objects by identity."""
    is_plain = isinstance(function, FunctionType | MethodType)
    return function if is_plain else Same(function)
