"""Gradients: of functions, written by hand, blocked, or recomputed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import plugrad as pg
from plugrad import Tensor

from keras_plugrad.src.keras_names import tree

from .variables import convert_to_tensor


def stop_gradient(variable: Any) -> Tensor:
    """Return the value; no gradient passes through it."""
    return pg.stop_gradient(convert_to_tensor(variable))


def grad(f: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar function."""
    return pg.grad(f, argnums=argnums)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose gradient ``fun`` returns together with its value.

    ``fun(*args)`` returns ``(outputs, grad_fn)``. ``grad_fn`` is called with the
    cotangents of the outputs, and returns one gradient for each argument.
    """

    @functools.wraps(fun)
    def call(*args: Any) -> Any:
        return _with_gradient(fun)(*tree.map_structure(_as_tensor, args))

    return call


def _as_tensor(x: Any) -> Any:
    return x if isinstance(x, int | bool | str) or x is None else convert_to_tensor(x)


def _with_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    @pg.custom_grad
    def call(*args: Any) -> tuple[Any, Callable[..., Any]]:
        outputs, grad_fn = fun(*args)

        def pulled_back(*dys: Any) -> Any:
            found = grad_fn(*dys)
            gradients = list(found) if isinstance(found, list | tuple) else [found]
            missing = len(args) - len(gradients)
            return (*gradients, *[None] * missing)

        return outputs, pulled_back

    return call


def remat(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``f`` whose intermediate results are computed again for the gradient."""

    @functools.wraps(f)
    def call(*args: Any, **options: Any) -> Any:
        leaves, build = _split(args)

        def bound(*tensors: Any) -> Any:
            return f(*build(tensors), **options)

        @pg.custom_grad
        def recomputed(*tensors: Tensor) -> tuple[Any, Callable[..., Any]]:
            def pulled_back(*dys: Any) -> Any:
                y, pull_back = pg.vjp(bound, *tensors)
                return pull_back(tree.pack_sequence_as(y, dys))

            return bound(*tensors), pulled_back

        return recomputed(*leaves)

    return call


def _split(args: Any) -> tuple[list[Tensor], Callable[[Any], Any]]:
    """Return the floating tensors of ``args``, and how to put others in their place."""
    flat = tree.flatten(args)
    places = [i for i, x in enumerate(flat) if _is_floating(x)]

    def build(tensors: Any) -> Any:
        whole = list(flat)
        for place, x in zip(places, tensors, strict=True):
            whole[place] = x
        return tree.pack_sequence_as(args, whole)

    return [flat[i] for i in places], build


def _is_floating(x: object) -> bool:
    return isinstance(x, Tensor) and x.dtype.name.startswith(("float", "bfloat"))
