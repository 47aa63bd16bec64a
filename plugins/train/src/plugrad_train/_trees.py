"""Helpers for trees of parameters, gradients and states.

In a tree of gradients, a leaf is None if its parameter is not floating: ``pg.grad``
returns None for integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np
import plugrad as pg

Tree = Any
Number = float | int | pg.Tensor
K = TypeVar("K", bound=Hashable)
VALUE_OF_VARIABLE = ", such as v.value, or keep the parameters in a dict of tensors"


def is_none(x: object) -> bool:
    """Return whether a leaf is None, which stands for a missing gradient."""
    return x is None


def map_leaves(f: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """Return a tree of the results of ``f(leaf, *others)``; None leaves stay None."""
    return pg.tree.map(
        lambda x, *others: None if x is None else f(x, *others),
        tree,
        *rest,
        is_leaf=is_none,
    )


def is_trained(x: Any) -> bool:
    """Return whether a leaf is a tensor with a real floating dtype."""
    return isinstance(x, pg.Tensor) and pg.isdtype(x.dtype, "real floating")


def check_params(params: Tree) -> None:
    """Raise TypeError for leaves that look trainable but are not trained."""
    for path, x in zip(paths(params), pg.tree.leaves(params), strict=True):
        if isinstance(x, pg.Tensor):
            if not pg.isdtype(x.dtype, "complex floating"):
                continue
            description, advice = "complex", "train its real and imaginary parts"
        elif isinstance(x, pg.Variable | np.ndarray | np.generic | float | complex):
            description = f"a {type(x).__name__}"
            is_variable = isinstance(x, pg.Variable)
            advice = f"pass tensors{VALUE_OF_VARIABLE if is_variable else ''}"
        else:
            continue
        raise TypeError(
            f"optimizers: the parameter{path and ' at '}{path} is {description}; "
            f"{advice}"
        )


def trained(params: Tree) -> Tree:
    """Replace parameters that are not floating with None."""
    return pg.tree.map(lambda x: x if is_trained(x) else None, params)


def zero() -> pg.Tensor:
    """Return a zero counter for a state."""
    return pg.asarray(0, dtype=pg.int32)


def zeros_like(params: Tree) -> Tree:
    """Return zeros for each floating parameter and None for the others."""
    return map_leaves(pg.zeros_like, trained(params))


def cast(number: Number, x: pg.Tensor) -> Number:
    """Return a number, cast if needed so that arithmetic with ``x`` keeps its dtype."""
    if isinstance(number, pg.Tensor) and number.dtype != x.dtype:
        return pg.astype(number, x.dtype)
    return number


def choose(condition: pg.Tensor, tree: Tree, other: Tree) -> Tree:
    """Return ``tree`` if the condition holds, else ``other``."""
    return map_leaves(lambda x, y: pg.where(condition, x, y), tree, other)


def paths(tree: Tree) -> list[str]:
    """Return the path of each leaf, such as ``['layers'][1].bias``."""
    return pg.tree.structure(tree).paths()


def check_choice(op: str, name: str, given: K, allowed: tuple[K, ...]) -> K:
    """Return an argument; raise unless it is one of the allowed values."""
    if given not in allowed:
        names = ", ".join(map(repr, allowed))
        raise ValueError(f"{op}: {name} must be one of {names}, got {given!r}")
    return given


def check_number(op: str, name: str, value: object) -> None:
    """Raise TypeError unless the argument is a number."""
    numbers = int | float | np.number | pg.Tensor
    if isinstance(value, bool) or not isinstance(value, numbers):
        raise TypeError(f"{op}: {name} must be a number, got {value!r}")


def check_between(
    op: str, name: str, value: float, low: float, high: float = float("inf")
) -> float:
    """Return a number; raise unless it is from ``low`` to ``high``."""
    check_number(op, name, value)
    if not low <= value <= high:
        raise ValueError(f"{op}: {name} must be from {low:g} to {high:g}, got {value}")
    return value


def check_shuffle(op: str, shuffle: object) -> None:
    """Raise unless the argument is a seed or None."""
    if shuffle is None:
        return
    if isinstance(shuffle, bool) or not isinstance(shuffle, int | np.integer):
        raise TypeError(
            f"{op}: shuffle= is a seed, such as 0, or None for no shuffling, got "
            f"{shuffle!r}"
        )
    if not 0 <= shuffle < 2**64:
        raise ValueError(
            f"{op}: shuffle= must be a seed from 0 to below 2**64, got {shuffle}"
        )


def check_integer(op: str, name: str, value: int, least: int = 1) -> int:
    """Return an integer; raise unless it is at least ``least``. 3.0 is allowed."""
    number = check_between(op, name, value, least)
    is_finite = isinstance(number, int) or math.isfinite(number)
    if not is_finite or number != int(number):
        raise TypeError(f"{op}: {name} must be an integer, got {value!r}")
    return int(number)
