"""Mistakes in calls of ``grad``: what is not a tensor, and what is captured.

``grad(lambda x: sum(t))(t)`` is zero: ``t`` is a constant, and ``x`` is not used. A
function without any other fault may have the gradient zero, so there is a warning only
if the result depends on no argument, and the function refers to a tensor that holds the
values of an argument. The search runs in this case alone.

Map: ``check_leaves``; ``warn_if_captured``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from plugrad.ops._convert import asarray
from plugrad.ops.variable import Variable
from plugrad.registry.deprecation import outside
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tree import split


def check_leaves(xs: tuple[Any, ...]) -> None:
    """Raise an error that says which leaf of the arguments is not a tensor."""
    leaves, structure = split(xs)
    for path, x in zip(structure.paths(), leaves, strict=True):
        try:
            asarray(x)
        except TypeError as error:
            raise TypeError(
                f"grad: argument {path}: {error}; what is not a tensor belongs in a "
                "static field of a dataclass (plugrad.tree), or in a closure"
            ) from None


def warn_if_captured(f: Callable[..., Any], xs: tuple[Any, ...]) -> None:
    """Warn if ``f``, whose result does not depend on ``xs``, refers to one of them."""
    if str(getattr(f, "__module__", "")).partition(".")[0] == "plugrad":
        return  # a wrapper, which refers to the other arguments
    from plugrad.engine.code import code_of
    from plugrad.engine.references import References

    wanted = {id(values) for x in split(xs)[0] if (values := _values(x)) is not None}
    found = References([f], code_of(f, str(getattr(f, "__module__", ""))))
    for place in found.places:
        for at, value in enumerate(place.values):
            if id(_values(value)) in wanted:
                warnings.warn(
                    "grad: the gradient is zero, because f does not use its argument "
                    f"but {place.describe(at)}, the same tensor, which is a constant "
                    "inside f; use the argument of f in its place",
                    stacklevel=outside(),
                )
                return


def _values(x: Any) -> Any:
    """Return the object that holds the values; None if there are none to compare."""
    if isinstance(x, Variable):
        x = x._value
    if isinstance(x, Tensor):
        return x._data
    return x if isinstance(x, np.ndarray) else None
