"""Control flow: conditions, loops, scans and maps over tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import plugrad as pg

from keras_plugrad.src.keras_names import tree

from .variables import convert_to_tensor


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """Call one of two functions."""
    return true_fn() if bool(convert_to_tensor(pred)) else false_fn()


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    """Call the function with this index; the index is clamped."""
    last = len(branches) - 1
    return branches[min(max(int(convert_to_tensor(index)), 0), last)](*operands)


def vectorized_map(function: Callable[..., Any], elements: Any) -> Any:
    """Return the results of ``function`` for all elements along the first axis."""
    return pg.vmap(function)(tree.map_structure(convert_to_tensor, elements))


def map(f: Callable[..., Any], xs: Any) -> Any:
    """Return the stacked results of ``f`` for the elements of the first axis."""
    return scan(lambda carry, x: (carry, f(x)), None, xs)[1]


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> tuple[Any, Any]:
    """Call ``f(carry, x) -> carry, y`` along the first axis.

    Args:
        f: The function.
        init: The first carry.
        xs: Tensors whose first axis is scanned; None if there are none.
        length: The number of steps, if there are no ``xs``.
        reverse: Whether to begin with the last elements.
        unroll: A positive integer or bool; ignored, because the loop runs in Python.

    Returns:
        The last carry and the stacked ``ys``.

    """
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    if not isinstance(unroll, bool) and (not isinstance(unroll, int) or unroll < 1):
        raise ValueError(
            "`unroll` must be an positive integer or boolean. "
            f"Received: unroll={unroll}"
        )
    leaves = [convert_to_tensor(x) for x in tree.flatten(xs)] if xs is not None else []
    if not leaves and length is None:
        raise ValueError("Got no `xs` to scan over and `length` not provided.")
    steps = int(leaves[0].shape[0] if length is None else length)
    parts = [pg.unstack(x, axis=0) for x in leaves]
    carry, ys = init, []
    for step in builtins.range(steps)[:: -1 if reverse else 1]:
        one = [part[step] for part in parts]
        x = None if xs is None else tree.pack_sequence_as(xs, one)
        carry, y = f(carry, x)
        ys.append(y)
    if reverse:
        ys.reverse()
    if not ys or ys[0] is None:
        return carry, None
    return carry, tree.map_structure(lambda *all_: _stacked(all_), *ys)


def _stacked(parts: Any) -> Any:
    return None if parts[0] is None else pg.stack([convert_to_tensor(x) for x in parts])


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: int | None = None,
) -> Any:
    """Call ``body`` on the loop's variables as long as ``cond`` returns true."""
    is_sequence = isinstance(loop_vars, list | tuple)
    values = tuple(loop_vars) if is_sequence else (loop_vars,)
    values = tree.map_structure(convert_to_tensor, values)
    done = 0
    while maximum_iterations is None or done < maximum_iterations:
        if not bool(cond(*values)):
            break
        values = body(*values)
        if not isinstance(values, list | tuple):
            values = (values,)
        values = tuple(values)
        done += 1
    if not is_sequence:
        return values[0]
    return type(loop_vars)(values) if type(loop_vars) in (list, tuple) else values


def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any
) -> Any:
    """Call ``value = body_fun(i, value)`` for the integers of a range."""
    value = init_val
    for i in range(int(lower), int(upper)):
        value = body_fun(i, value)
    return value


def associative_scan(
    f: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Return the inclusive scan of an associative function along an axis.

    Neighbors are combined first, the results are scanned recursively, and the remaining
    elements follow from these, so there are as many steps as the logarithm of the size.
    """
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    leaves = [convert_to_tensor(x) for x in tree.flatten(elems)]
    sizes = {x.shape[axis] for x in leaves}
    if len(sizes) > 1:
        raise ValueError(
            "Array inputs to associative_scan must have the same first dimension; got "
            f"shapes {[x.shape for x in leaves]}"
        )
    leaves = [pg.moveaxis(x, axis, 0) for x in leaves]
    if reverse:
        leaves = [pg.flip(x, axis=0) for x in leaves]

    def combine(first: list[Any], second: list[Any]) -> list[Any]:
        trees = [
            tree.pack_sequence_as(elems, _back(xs, axis)) for xs in (first, second)
        ]
        found = tree.flatten(f(*trees))
        return [pg.moveaxis(convert_to_tensor(x), axis, 0) for x in found]

    leaves = _scanned(combine, leaves)
    if reverse:
        leaves = [pg.flip(x, axis=0) for x in leaves]
    return tree.pack_sequence_as(elems, _back(leaves, axis))


def _back(xs: list[Any], axis: int) -> list[Any]:
    return [pg.moveaxis(x, 0, axis) for x in xs]


def _scanned(combine: Callable[..., Any], xs: list[Any]) -> list[Any]:
    """Return the scan of tensors along their first axis."""
    count = xs[0].shape[0]
    if count < 2:
        return xs
    pairs = combine([x[0 : count - 1 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _scanned(combine, pairs)
    if count == 2:
        return [pg.concat([x[:1], y]) for x, y in zip(xs, odd, strict=True)]
    before = odd if count % 2 else [y[:-1] for y in odd]
    even = combine(before, [x[2::2] for x in xs])
    even = [pg.concat([x[:1], y]) for x, y in zip(xs, even, strict=True)]
    return [_interleaved(a, b) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any) -> Any:
    """Return elements of ``even`` and ``odd`` in turn."""
    missing = even.shape[0] - odd.shape[0]
    if missing:
        odd = pg.concat([odd, odd[:missing]])
    both = pg.stack([even, odd], axis=1)
    flat = pg.reshape(both, (-1, *even.shape[1:]))
    return flat[: flat.shape[0] - missing]
