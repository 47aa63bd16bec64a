"""Rematerialization, which trades time for memory (``jax.checkpoint``)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import plugrad as pg
from plugrad.plugin import Kernel, batching, gradients, run, same

P = ParamSpec("P")
R = TypeVar("R")

# Under jit, common subexpression elimination would merge the second run with the first.
# This kernel returns its input as a distinct value; effect=True keeps it in place.
AGAIN = Kernel("plugrad_train.Again(x) -> y", out=same, effect=True)
gradients(AGAIN, x=lambda dy: dy)
batching(AGAIN, "elementwise")


def _copy_for_rerun(x: pg.Tensor) -> pg.Tensor:
    """Return ``x`` as a value that ``jit`` does not merge with another one."""
    if AGAIN.name not in pg.get_kernels_for_backend(x.backend):
        pg.register_kernel(AGAIN, x.backend, lambda native: native)
    return run(AGAIN, x)


def remat(f: Callable[P, R], /) -> Callable[P, R]:
    """Return ``f`` as a function that saves only its arguments for backward.

    Intermediate values of ``f`` are dropped after the call. The backward pass runs
    ``f`` again, with the gradient overrides that were active in the first run. Use
    ``remat`` around the blocks of a deep network: memory grows with the number of
    blocks instead of the number of kernels, and a training step takes about a third
    more time.

    All differentiated tensors must be arguments of ``f``. Pass ``seed=`` to random
    functions: without it, the numbers would differ in the second run.

    Args:
        f: A function of tensors, and of trees of tensors, that returns tensors.

    Returns:
        A function with the same arguments, value and gradients.

    Raises:
        TypeError: In a call, if ``f`` reads a differentiated tensor that is not one of
            its arguments.

    Example:
        >>> block = pt.remat(lambda x, w: pg.tanh(x * w))
        >>> pg.grad(block)(0.5, 2.0)
        Tensor(0.839949, dtype=float32, backend='cpu')

    Source:
        T. Chen, B. Xu, C. Zhang and C. Guestrin, "Training deep nets with sublinear
        memory cost", 2016; ``jax.checkpoint``, ``torch.utils.checkpoint``.

    """
    call: Callable[..., Any] = f

    @functools.wraps(call)
    def first(*args: Any) -> tuple[Any, Callable[..., Any]]:
        pullback = pg.bind_overrides(functools.partial(_pull_back, call, args))
        return call(*args), pullback

    recorded: Any = pg.custom_grad(first)
    return recorded


def _pull_back(f: Callable[..., Any], args: tuple[Any, ...], *dys: Any) -> Any:
    """Run ``f`` again and return the gradients of its arguments."""
    leaves, structure = pg.tree.flatten(args)
    traced = [i for i, x in enumerate(leaves) if _has_gradient(x)]

    def run_tensors(*xs: pg.Tensor) -> Any:
        tensors = dict(zip(traced, xs, strict=True))
        return f(*structure([tensors.get(i, x) for i, x in enumerate(leaves)]))

    value, pullback = pg.vjp(run_tensors, *[_copy_for_rerun(leaves[i]) for i in traced])
    dy = list(dys) if isinstance(value, list | tuple) else dys[0]
    gradients_of = dict(zip(traced, pullback(dy), strict=True))
    return tuple(
        _argument_gradient(tree)
        for tree in structure([gradients_of.get(i) for i in range(len(leaves))])
    )


def _has_gradient(x: Any) -> bool:
    return isinstance(x, pg.Tensor) and pg.isdtype(
        x.dtype, ("real floating", "complex floating")
    )


def _argument_gradient(tree: Any) -> Any:
    """Return the gradients of one argument; None if it has no gradients."""
    return tree if pg.tree.leaves(tree) else None
