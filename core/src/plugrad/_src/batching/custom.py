"""``custom_grad`` inside ``vmap``: one node for all examples, on the outer tapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugrad._src.engine.context import current
from plugrad._src.ops.basis import reduce, shape
from plugrad._src.ops.basis._convert import asarray
from plugrad._src.ops.custom import (
    as_leaf,
    gradients_of,
    outputs_of,
    plans_for,
    recorded_call,
    unpacked,
)
from plugrad._src.tensor.tensor import Tensor
from plugrad._src.tensor.tree import flatten


def as_one_node(f: Callable[..., Any], name: str, guarded: bool, *args: Any) -> Any:
    """Run ``f`` inside ``vmap`` so that outer tapes record one node."""
    level, tapes = current().level, current().tapes
    found: list[Any] = []
    leaves, build = flatten(args, as_leaf)
    inputs = [level.unwrap(x) for x in leaves if type(x) is Tensor]

    def for_all_examples(*tensors: Tensor) -> Any:
        """Return the outputs of ``f`` for all examples, and their gradient function."""
        again = level.copy()
        pairs = zip(tensors, inputs, strict=True)
        given = iter(again.wrap(x, is_batched) for x, (_, is_batched) in pairs)
        with again.inside(tapes):
            value, grad_func = unpacked(
                f(*build([next(given) if type(x) is Tensor else x for x in leaves])),
                name,
            )
            ys, build_value = outputs_of(value, name)
            outputs = [again.unwrap(y) for y in ys]
        found[:] = grad_func, build_value, [is_batched for _, is_batched in outputs]

        def pull(*dys: Tensor) -> list[Tensor | None]:
            again = level.copy()
            with again.inside():
                pairs = zip(dys, outputs, strict=True)
                inner = [again.wrap(dy, is_batched) for dy, (_, is_batched) in pairs]
                grads = gradients_of(grad_func, inner, build_value, args, name)
            return [
                _gradient_for_all(again, dx, is_batched)
                for dx, (_, is_batched) in zip(grads, inputs, strict=True)
            ]

        return tuple(x for x, _ in outputs), pull

    with level.outside():
        given = tuple(x for x, _ in inputs)
        ys = recorded_call(for_all_examples, name, plans_for(name), given, guarded)
    grad_func, build_value, flags = found
    value = [level.wrap(y, is_batched) for y, is_batched in zip(ys, flags, strict=True)]
    return build_value(value), grad_func


def _gradient_for_all(level: Any, dx: Tensor | None, batched: bool) -> Tensor | None:
    """Convert a gradient inside ``vmap`` to the gradient of the input outside."""
    if dx is None:
        return None
    y, is_batched = level.unwrap(asarray(dx))
    if is_batched and not batched:
        return reduce.sum(y, axis=0)
    if batched and not is_batched:
        return shape.broadcast_to(y, (level.size, *y.shape))
    return y
