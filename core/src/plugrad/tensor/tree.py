"""Nested dicts, lists and tuples of tensors, as arguments and results of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .tensor import Tensor

Build = Callable[[Any], Any]


def flatten(tree: Any, leaf: Callable[[Any], Tensor]) -> tuple[list[Tensor], Build]:
    """Return the leaves as tensors, and a function that rebuilds the tree from leaves.

    ``None`` is not a leaf and stays in its place; ``leaf`` makes tensors of all else.
    """
    if isinstance(tree, Tensor):
        return [tree], _only
    if tree is None:
        return [], _nothing
    if type(tree) is tuple and all([type(x) is Tensor for x in tree]):
        return list(tree), tuple
    if isinstance(tree, dict):
        keys, children = list(tree), list(tree.values())
        make: Build = lambda xs: dict(zip(keys, xs, strict=True))
    elif isinstance(tree, list | tuple):
        children = list(tree)
        named = hasattr(tree, "_fields")  # a namedtuple takes its fields one by one
        make = (lambda xs: type(tree)(*xs)) if named else type(tree)
    else:
        return [leaf(tree)], _only
    flat = [flatten(child, leaf) for child in children]
    sizes = [len(leaves) for leaves, _ in flat]

    def build(leaves: list[Any]) -> Any:
        built, at = [], 0
        for size, (_, build_child) in zip(sizes, flat, strict=True):
            built.append(build_child(leaves[at : at + size]))
            at += size
        return make(built)

    return [leaf for leaves, _ in flat for leaf in leaves], build


def _only(leaves: list[Any]) -> Any:
    return leaves[0]


def _nothing(leaves: list[Any]) -> Any:
    return None
