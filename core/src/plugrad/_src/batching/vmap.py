"""``vmap``: a function of one example, run for many at once."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, Unpack

from plugrad._src.ops.array.rearrange import moveaxis
from plugrad._src.ops.basis import shape
from plugrad._src.ops.basis._convert import asarray
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.arguments import function
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor
from plugrad._src.tensor.tree import Structure, split

from . import rules, windows
from .levels import Level

__all__ = ["vmap"]

P = ParamSpec("P")
R = TypeVar("R")


def vmap(
    f: Callable[P, R],
    /,
    in_axes: Any = 0,
    out_axes: Any = 0,
    **unknown: Unpack[Nothing],
) -> Callable[P, R]:
    """Return ``f`` for many examples: arguments and results have one more axis.

    ``f`` is written for one example, and called once. Inside ``f`` tensors have the
    shapes of one example, and each kernel runs for all examples: ``vmap(f)(xs)`` equals
    ``stack([f(x) for x in xs])``.

    ``vmap`` may be nested with itself and with gradients, in either order:
    ``vmap(grad(f))`` returns the gradient of each example. Tensors that ``f`` reads
    from outside are the same for all examples, and so are random numbers with
    ``seed=``.

    Args:
        f: A function of tensors, or of nested structures of them. It cannot read values
            that differ between examples (``item``, ``numpy``, ``if``), nor run ops
            whose result has a shape that depends on values, such as ``nonzero``.
        in_axes: The axis of each argument that indexes the examples: an int for all
            arguments, or a tuple with an int, None or a structure for each. None passes
            an argument unchanged. Keyword arguments are mapped along axis 0.
        out_axes: The axis of the results that indexes the examples: an int, or a
            structure like the results. None is for results that are the same for all
            examples.

    Returns:
        A function with the arguments of ``f``.

    Raises:
        TypeError: ``in_axes`` or ``out_axes`` contains something other than int and
            None, or ``f`` returns something that is not a tensor.
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
    if unknown:
        raise unexpected(vmap, unknown)
    function("vmap", f)
    call: Callable[..., Any] = f

    @functools.wraps(f)
    def g(*args: Any, **named: Any) -> Any:
        _attach()
        leaves, axes, structure = _split(args, _argument_axes(in_axes, args), "in_axes")
        named_leaves, named_structure = split(named)
        places = structure.paths() + named_structure.paths()
        leaves += named_leaves
        axes += [0] * len(named_leaves)
        given = [*zip(leaves, axes, places, strict=True)]
        mapped = {
            i: _with_examples_first(x, axis, place)
            for i, (x, axis, place) in enumerate(given)
            if axis is not None
        }
        level = Level(_size(mapped, places))
        inner = [
            level.wrap(mapped[i], True) if i in mapped else x
            for i, (x, _, _) in enumerate(given)
        ]
        count = structure.num_leaves
        positional = structure(inner[:count])
        keywords = named_structure(inner[count:])
        return _run(level, lambda: call(*positional, **keywords), out_axes)

    return g


def _run(level: Level, call: Callable[[], Any], out_axes: Any) -> Any:
    """Return the results of a call inside a level, as they are outside of it."""
    try:
        with level.inside():
            leaves, axes, structure = _split(call(), out_axes, "out_axes")
            pairs = zip(leaves, axes, structure.paths(), strict=True)
            return structure([_result(level, *leaf) for leaf in pairs])
    finally:
        level.running = False


@functools.cache
def _attach() -> None:
    """Give the kernels of the core their batching rules."""
    for module in (rules, windows):
        for make, names in module.RULES.items():
            for name in names.split():
                kernel = registry.contracts[name]
                kernel.batching = kernel.batching or make(kernel)


def _argument_axes(in_axes: Any, args: tuple[Any, ...]) -> Any:
    """Return ``in_axes`` as a tuple with an entry for each argument."""
    if in_axes is None or not isinstance(in_axes, list | tuple):
        return tuple([in_axes] * len(args))
    if len(in_axes) != len(args):
        error = ValueError(
            f"vmap: in_axes {in_axes} has {len(in_axes)} entries for {len(args)} "
            "positional arguments"
        )
        raise explained(error, "mapped-axes-do-not-fit")
    return tuple(in_axes)


def _split(
    tree: Any, axes: Any, what: str
) -> tuple[list[Any], list[int | None], Structure]:
    """Return the leaves, their axes, and the structure.

    ``axes`` is an axis for all leaves, or a tree with an axis in place of each part of
    ``tree``.
    """
    axis_leaves, outline = split(axes, lambda x: x is None)
    for axis in axis_leaves:
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int)):
            raise TypeError(f"vmap: {what} must contain only int or None, got {axis!r}")
    leaves, structure = split(tree)
    parts = [split(part)[0] for part in outline.match(tree, f"vmap: {what}")]
    if any(a is not b for a, b in zip(leaves, itertools.chain(*parts), strict=True)):
        raise ValueError(
            f"vmap: the keys of {what} {axes!r} must be in the same order as in the "
            "tree it describes"
        )
    axis_of_each = [
        axis
        for axis, part in zip(axis_leaves, parts, strict=True)
        for _ in range(len(part))
    ]
    return leaves, axis_of_each, structure


def _with_examples_first(value: Any, axis: int, place: str) -> Tensor:
    """Return a leaf of the arguments as a tensor, with the examples on axis 0."""
    x = asarray(value)
    rank = len(x.shape)
    if not -rank <= axis < rank:
        error = ValueError(
            f"vmap: argument {place} of shape {x.shape} has no axis {axis}; if it is "
            "the same for all examples, give it None in in_axes"
        )
        raise explained(error, "mapped-axes-do-not-fit")
    return moveaxis(x, axis, 0)


def _size(mapped: dict[int, Tensor], places: list[str]) -> int:
    """Return the number of examples, which is the size of every mapped axis."""
    sizes = {x.shape[0] for x in mapped.values()}
    if len(sizes) == 1:
        return sizes.pop()
    if not mapped:
        raise ValueError(
            "vmap: no argument is mapped; give one of them an axis in in_axes"
        )
    sizes_by_place = ", ".join(
        f"{x.shape[0]} of argument {places[i]}" for i, x in mapped.items()
    )
    error = ValueError(f"vmap: the mapped axes differ in size: {sizes_by_place}")
    raise explained(error, "mapped-axes-do-not-fit")


def _result(level: Level, value: Any, axis: int | None, place: str) -> Tensor:
    """Return a leaf of the results as it is outside of ``vmap``."""
    x, batched = level.unwrap(asarray(value))
    if axis is None and batched:
        raise ValueError(
            f"vmap: result{place} differs between examples; give it an axis in out_axes"
        )
    if axis is None:
        return x
    with level.outside():
        rank = len(x.shape) + (not batched)
        if not -rank <= axis < rank:
            raise ValueError(
                f"vmap: out_axes {axis} is out of range for result{place} of rank "
                f"{rank}, which includes the mapped axis"
            )
        if not batched:
            x = shape.broadcast_to(x, (level.size, *x.shape))
        return moveaxis(x, 0, axis)
