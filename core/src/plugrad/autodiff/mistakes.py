"""Mistakes in calls of ``grad``: what is not a tensor, and what is captured.

``grad(lambda x: sum(t))(t)`` is zero: ``t`` is a constant, and ``x`` is not used. A
function without any other fault may have the gradient zero, so there is a warning only
if the result depends on no argument, and the function refers to a tensor that holds the
values of an argument. The search runs in this case alone.

Map: ``check_leaves``; ``warn_if_captured``; what a function refers to.
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from plugrad.ops._convert import asarray
from plugrad.ops.variable import Variable
from plugrad.registry.deprecation import outside
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tree import split

Reference = tuple[str, Any]  # a name in the code of the user, and what it stands for
MOST = 1000  # functions and objects to look into


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
    wanted = {id(values) for x in split(xs)[0] if (values := _values(x)) is not None}
    for name, value in _captured(f):
        if id(_values(value)) in wanted:
            warnings.warn(
                f"grad: the gradient is zero, because f does not use its argument but "
                f"{name!r}, the same tensor, which is a constant inside f; use the "
                "argument of f in its place",
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


def _captured(f: Any) -> Iterator[Reference]:
    """Yield the leaves to which ``f`` refers, and the functions that it calls."""
    module = getattr(f, "__module__", None)
    to_do, seen = _referred(f), {id(f)}
    for name, value in to_do:
        for leaf in _leaves(value):
            yield name, leaf
            if id(leaf) in seen or len(seen) > MOST:
                continue
            seen.add(id(leaf))
            if isinstance(leaf, types.FunctionType | types.MethodType):
                if leaf.__module__ == module:
                    to_do += _referred(leaf)
            elif type(leaf).__module__ == module:
                to_do += _attributes(name, leaf)


def _leaves(value: Any) -> list[Any]:
    try:
        return split(value)[0]
    except Exception:  # a container that is not complete, and so no argument
        return []


def _referred(f: Any) -> list[Reference]:
    """Return what a function, a partial, a method or a callable object refers to."""
    if isinstance(f, functools.partial):
        named = [("partial", x) for x in f.args] + [*f.keywords.items()]
        return named + _referred(f.func)
    if isinstance(f, types.MethodType):
        return _attributes("self", f.__self__) + _referred(f.__func__)
    if not isinstance(f, types.FunctionType):
        call = f.__call__
        return _referred(call) if isinstance(call, types.MethodType) else []
    cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
    closed = [(name, cell.cell_contents) for name, cell in cells if _full(cell)]
    names = sorted(_names(f.__code__) & f.__globals__.keys())
    return closed + [(name, f.__globals__[name]) for name in names]


def _full(cell: types.CellType) -> bool:
    """Return whether the variable of a closure has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _names(code: types.CodeType) -> set[str]:
    """Return the names of globals, and of attributes, in the code of a function."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _attributes(name: str, x: Any) -> list[Reference]:
    own = getattr(x, "__dict__", {})
    return [(f"{name}.{key}", value) for key, value in own.items()]
