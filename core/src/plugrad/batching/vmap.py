"""``vmap``: a function of one example, run for many at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from plugrad.ops import shape
from plugrad.ops._convert import asarray
from plugrad.ops.rearrange import moveaxis
from plugrad.registry.registry import registry
from plugrad.tensor.arguments import function
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tree import flatten

from . import rules, windows
from .levels import Level

__all__ = ["vmap"]

P = ParamSpec("P")
R = TypeVar("R")


def vmap(f: Callable[P, R], /, in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, R]:
    """Return ``f`` for many examples: arguments and results have one more axis.

    ``f`` is written for one example, and called once. Inside it tensors look as for one
    example, and each kernel runs for all: ``vmap(f)(xs)`` equals
    ``stack([f(x) for x in xs])``.

    It may be nested with itself and with gradients, in either order:
    ``vmap(grad(f))`` gives the gradient of each example. Tensors that ``f`` reads from
    outside are the same for all examples, and so are random numbers with ``seed=``.

    Args:
        f: A function of tensors, or of nested structures of them. It cannot read values
            that differ between examples (``item``, ``numpy``, ``if``), nor run ops
            whose shape depends on values, such as ``nonzero``.
        in_axes: The axis of each argument that counts the examples: an int for all
            arguments, or a tuple with an int, None or a structure for each. None passes
            an argument as it is. Keyword arguments are mapped along axis 0.
        out_axes: The axis of the results that counts the examples: an int, or a
            structure like the results. None is for results that are the same for all
            examples.

    Returns:
        A function with the arguments of ``f``.

    Raises:
        TypeError: ``in_axes`` or ``out_axes`` holds something other than int and None,
            or ``f`` returns something that is no tensor.
        ValueError: ``in_axes`` or ``out_axes`` does not fit, no argument is mapped,
            the sizes of the mapped axes differ, or ``f`` reads values that differ
            between examples.
        NotImplementedError: A kernel has neither a batching rule nor a decomposition.

    Example:
        >>> pg.vmap(lambda x, y: pg.sum(x * y))(pg.ones((3, 2)), pg.ones((3, 2)))
        Tensor([2., 2., 2.], dtype=float32, backend='cpu')
        >>> pg.vmap(pg.grad(lambda w, x: pg.tanh(w * x)), in_axes=(None, 0))(
        ...     1.0, pg.asarray([0.0, 1.0])
        ... )
        Tensor([0.       , 0.4199743], dtype=float32, backend='cpu')

    Source:
        ``jax.vmap``.

    """
    function("vmap", f)
    call: Callable[..., Any] = f

    @functools.wraps(f)
    def g(*args: Any, **named: Any) -> Any:
        _attach()
        axes = _of_each(in_axes, args)
        mapped: list[tuple[Tensor, int]] = []

        def collect(x: Any, axis: Any, where: str) -> None:
            mapped.append(_checked(x, axis, where))

        _over(args, axes, collect, "in_axes", "argument ")
        _over(named, 0, collect, "in_axes", "argument ")
        level = Level(_size(mapped))
        xs = iter([level.wrap(moveaxis(x, axis, 0), True) for x, axis in mapped])
        wrapped = lambda *_: next(xs)
        try:
            with level.inside():
                value = call(
                    *_over(args, axes, wrapped, "in_axes", ""),
                    **_over(named, 0, wrapped, "in_axes", ""),
                )
                outer = lambda y, axis, where: _result(level, y, axis, where)
                return _over(value, out_axes, outer, "out_axes", "result ")
        finally:
            level.running = False

    return g


@functools.cache
def _attach() -> None:
    """Give the kernels of the core their batching rules."""
    for module in (rules, windows):
        for make, names in module.RULES.items():
            for name in names.split():
                kernel = registry.contracts[name]
                kernel.batching = kernel.batching or make(kernel)


def _of_each(in_axes: Any, args: tuple[Any, ...]) -> Any:
    """Return the axes of each argument."""
    if in_axes is None or not isinstance(in_axes, list | tuple):
        return tuple([in_axes] * len(args))
    if len(in_axes) != len(args):
        raise ValueError(
            f"vmap: in_axes {in_axes} has {len(in_axes)} entries for {len(args)} "
            "positional arguments"
        )
    return tuple(in_axes)


Leaf = Callable[[Any, Any, str], Any]


def _over(tree: Any, axes: Any, leaf: Leaf, what: str, where: str) -> Any:
    """Return ``tree`` with ``leaf(x, axis, where)`` in the place of each leaf.

    ``axes`` is an axis for all leaves, or a structure that the tree begins with.
    Arguments for which it is None stay as they are.
    """
    if axes is None and what == "in_axes":
        return tree
    if isinstance(axes, dict | list | tuple):
        keys = _keys(tree, axes, what, where)
        parts = [
            _over(tree[key], axes[key], leaf, what, f"{where}[{key!r}]") for key in keys
        ]
        if isinstance(tree, dict):
            return dict(zip(keys, parts, strict=True))
        named = hasattr(tree, "_fields")
        return type(tree)(*parts) if named else type(tree)(parts)
    if axes is not None and (isinstance(axes, bool) or not isinstance(axes, int)):
        raise TypeError(f"vmap: {what} must hold int and None, got {axes!r}")
    leaves, build = flatten(tree, lambda x: x)
    return build([leaf(x, axes, where) for x in leaves])


def _keys(tree: Any, axes: Any, what: str, where: str) -> list[Any]:
    """Return the keys of a dict or the indices of a sequence, the same for both."""
    dicts = isinstance(axes, dict), isinstance(tree, dict)
    if all(dicts) and axes.keys() == tree.keys():
        return list(tree)
    lists = isinstance(tree, list | tuple) and not any(dicts)
    if lists and len(axes) == len(tree):
        return [*range(len(tree))]
    raise ValueError(
        f"vmap: {what} {axes!r} does not have the structure of {where}: "
        f"{type(tree).__name__}{f' of {len(tree)}' if hasattr(tree, '__len__') else ''}"
    )


def _checked(value: Any, axis: int, where: str) -> tuple[Tensor, int]:
    """Return a leaf of the arguments as a tensor, and its axis, not negative."""
    x = asarray(value)
    rank = len(x.shape)
    if not -rank <= axis < rank:
        raise ValueError(
            f"vmap: {where} of shape {x.shape} has no axis {axis}; if it is the same "
            "for all examples, give it None in in_axes"
        )
    return x, axis % rank


def _size(mapped: list[tuple[Tensor, int]]) -> int:
    """Return the number of examples."""
    sizes = {x.shape[axis] for x, axis in mapped}
    if len(sizes) == 1:
        return sizes.pop()
    if not mapped:
        raise ValueError(
            "vmap: no argument is mapped; give one of them an axis in in_axes"
        )
    shapes = ", ".join(
        f"{x.shape[axis]} (axis {axis} of {x.shape})" for x, axis in mapped
    )
    raise ValueError(f"vmap: the mapped axes differ in size: {shapes}")


def _result(level: Level, value: Any, axis: int | None, where: str) -> Tensor:
    """Return a leaf of the results as it is outside of ``vmap``."""
    x, batched = level.unwrap(asarray(value))
    if axis is None and batched:
        raise ValueError(
            f"vmap: {where.strip()} differs between examples; give it an axis in "
            "out_axes"
        )
    if axis is None:
        return x
    with level.outside():
        rank = len(x.shape) + (not batched)
        if not -rank <= axis < rank:
            raise ValueError(
                f"vmap: out_axes {axis} is out of range for {where.strip()} of rank "
                f"{rank}, with the examples"
            )
        if not batched:
            x = shape.broadcast_to(x, (level.size, *x.shape))
        return moveaxis(x, 0, axis)
