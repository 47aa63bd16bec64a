"""Overrides of ``jvp``: functions of the tangent, added to those of the cotangent.

``jvp`` is computed by two vjps: the pullback of a pullback. So a function of the
tangent is used through its transpose, which takes a cotangent, like a gradient
function.

Contents: ``with_tangents``; the transpose of one function.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from plugrad._src.registry.contract import (
    ORIGINAL,
    UNDECORATED,
    VJP,
    Functions,
    Kernel,
    VJPs,
    undecorated,
    vjp_rules,
)

from .gradients import reverse


def with_tangents(
    who: str, kernel: Kernel, rules: VJPs, functions: Functions
) -> dict[str, VJP | None]:
    """Return the rules of a kernel, with functions of its inputs' tangents added.

    Args:
        who: The function that the user called, for errors.
        kernel: The kernel.
        rules: The rules of the cotangents; an input without one keeps its gradient.
        functions: The functions of the tangents, by input.

    Raises:
        ValueError: The kernel has several outputs, an input is unknown or variadic, a
            parameter is not a name in the contract, or a function is None.
        TypeError: A value is neither a function nor None.

    """
    if not functions:
        return dict(rules)
    if not kernel.single:
        raise ValueError(
            f"{who}: jvp= is for kernels with one output, got {kernel}; override its "
            "gradients with linear functions instead"
        )
    if kernel.variadic in functions:
        raise ValueError(
            f"{who}: jvp= cannot take the variadic input {kernel.variadic!r} of "
            f"{kernel}"
        )
    given = vjp_rules(kernel, functions, "user", in_block=True)
    found = dict(rules)
    for name, tangent in given.items():
        if tangent is None or ORIGINAL in tangent.residuals:
            raise ValueError(
                f"{who}: jvp= of {name!r} must be a function of the tangent without a "
                f"parameter {ORIGINAL!r}, got {functions[name]!r}"
            )
        found[name] = _combined(rules.get(name) or _kept(kernel, name), tangent, name)
    return found


def _kept(kernel: Kernel, name: str) -> VJP:
    """Return a rule that leaves the gradient of an input as it is."""
    rule = vjp_rules(kernel, {name: _original}, "user", in_block=True)[name]
    assert rule is not None
    return rule


def _original(dy: Any, original: Callable[[Any], Any]) -> Any:
    return original(dy)


def _combined(rule: VJP, tangent: VJP, name: str) -> VJP:
    """Return a rule with both functions; each gets its own part of the residuals."""
    count = 1 + len(rule.residuals)  # with the cotangent

    def function(*values: Any) -> Any:
        return rule.function(*values[:count])

    def transposed(*values: Any) -> Any:
        *saved, spec = values[count:]
        along = lambda t: tangent.function(t, *saved)
        zeros = _ops().zeros(spec.shape, dtype=spec.dtype)
        _, pull_back = reverse().vjp(along, zeros)
        return pull_back(values[0])[0]

    for wrapper, given in ((function, rule), (transposed, tangent)):
        wrapper.__dict__["__wrapped__"] = given.function  # for ``authored``
        wrapper.__dict__[UNDECORATED] = undecorated(given.function)
    residuals = (*rule.residuals, *tangent.residuals, f"{name}_spec")
    return rule._replace(function=function, residuals=residuals, transposed=transposed)


def _ops() -> Any:
    """Return the module that creates tensors; it lies in a higher layer."""
    return import_module("plugrad._src.ops.basis.creation")
