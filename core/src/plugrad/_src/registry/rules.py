"""Gradient rules, and the parameters that are bound before they run.

A rule is a ``VJP`` of a contract. Its function may have parameters that are not saved
with a run: the gradient that it replaces, the place of the run in the model, and which
inputs are differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .contract import ORIGINAL, SITE, VJP, GradientNotFound, Kernel


class Site(NamedTuple):
    """The place of a run in a model, for rules and for ``where=``.

    Attributes:
        kernel: The name of the kernel.
        scope: The names of the ``name_scope`` blocks around the run, joined by ``/``;
            empty outside of all of them.
        nth: How many runs of this kernel the innermost tape has recorded before; the
            first run has number 0.

    Example:
        >>> from plugrad import plugin
        >>> in_a_head = lambda site: site.scope.endswith("head") and site.nth > 0
        >>> in_a_head(plugin.Site("Relu", "block.1/head", 2))
        True

    """

    kernel: str
    scope: str
    nth: int


def bind_original(kernel: Kernel, name: str, rule: VJP, under: VJP | None) -> VJP:
    """Return ``rule`` with its parameter ``original`` bound to the rule it replaces."""
    if ORIGINAL not in rule.residuals:
        return rule
    position = rule.residuals.index(ORIGINAL)
    split = len(kernel.outputs)
    own = tuple(residual for residual in rule.residuals if residual != ORIGINAL)

    def bound(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            saved = values[split:]

            def original(*dys: Any) -> Any:
                if under is None:
                    raise GradientNotFound(
                        f"{kernel.name}: the gradient of {rule.origin} calls "
                        f"{ORIGINAL!r}, but there is no earlier gradient for input "
                        f"{name!r}"
                    )
                return under.function(*dys, *saved[len(own) :])

            before = saved[:position]
            after = saved[position : len(own)]
            return function(*values[:split], *before, original, *after)

        call.__wrapped__ = function  # type: ignore[attr-defined]  # for ``authored``
        return call

    return rule._replace(
        function=bound(rule.function),
        residuals=own + (under.residuals if under else ()),
        linear=rule.linear and (under is None or under.linear),
        transposed=rule.transposed and bound(rule.transposed),
    )


def bind_constants(kernel: Kernel, rule: VJP, constants: Mapping[str, Any]) -> VJP:
    """Return ``rule`` with some of its parameters bound to the values in ``constants``.

    Args:
        kernel: The kernel that it differentiates.
        rule: The rule.
        constants: The values of ``site`` and of the parameters ``<input>_tracked``.

    """
    residuals = rule.residuals
    if constants.keys().isdisjoint(residuals):
        return rule
    split = len(kernel.outputs)
    own = tuple(name for name in residuals if name not in constants)

    def bound(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            saved = iter(values[split:])
            given = [constants[n] if n in constants else next(saved) for n in residuals]
            return function(*values[:split], *given)

        call.__wrapped__ = function  # type: ignore[attr-defined]  # for ``authored``
        return call

    return rule._replace(
        function=bound(rule.function),
        residuals=own,
        transposed=rule.transposed and bound(rule.transposed),
    )


def reads_site(rules: Iterable[VJP | None]) -> bool:
    """Return whether a rule has the parameter ``site``."""
    return any(rule is not None and SITE in rule.residuals for rule in rules)
