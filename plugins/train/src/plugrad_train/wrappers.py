"""Optimizers that wrap another optimizer, for example to accumulate gradients.

Their states consist of tensors, so ``pg.jit`` records a step once.

Contents: ``accumulate``; ``average_params``; ``skip_nonfinite`` and ``check_finite``;
``scale_loss`` and ``half_precision``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import plugrad as pg

from ._arguments import check_optimizer
from ._trees import (
    Tree,
    cast,
    check_between,
    check_integer,
    choose,
    is_trained,
    map_leaves,
    trained,
    zero,
    zeros_like,
)
from .optimizers import Optimizer, as_params

# --- gradient accumulation -------------------------------------------------------


class Accumulated(NamedTuple):
    """The state of ``accumulate``.

    Attributes:
        inner: The state of the wrapped optimizer.
        taken: The number of gradients in ``mean``.
        mean: The sum of these gradients, divided by ``steps``.

    """

    inner: Any
    taken: pg.Tensor
    mean: Tree


def accumulate(optimizer: Optimizer, steps: int, /) -> Optimizer:
    """Return the optimizer that takes one step with the mean of ``steps`` gradients.

    Only every ``steps``-th call of ``update`` changes the parameters and the state of
    ``optimizer``. The result is the same as one step with a batch that is ``steps``
    times as large.

    Args:
        optimizer: The optimizer to wrap.
        steps: The number of gradients in a step.

    Returns:
        An optimizer.

    Example:
        >>> optimizer = pt.accumulate(pt.sgd(1.0), 2)
        >>> params = pg.asarray(0.0)
        >>> state = optimizer.init(params)
        >>> for gradient in (1.0, 3.0):
        ...     params, state = optimizer.update(pg.asarray(gradient), state, params)
        ...     print(params.item())
        0.0
        -2.0

    Source:
        ``optax.MultiSteps``.

    """
    check_optimizer("accumulate", optimizer)
    steps = check_integer("accumulate", "steps", steps, 1)

    def init(params: Tree) -> Accumulated:
        return Accumulated(optimizer.init(params), zero(), zeros_like(params))

    def update(grads: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        added = lambda g, m: m + g / float(steps)
        mean = map_leaves(added, as_params(grads, params), state.mean)
        done = state.taken + 1 >= steps
        after, inner = optimizer.update(mean, state.inner, params)
        kept = map_leaves(lambda m: pg.where(done, pg.zeros_like(m), m), mean)
        taken = pg.where(done, zero(), state.taken + 1)
        inner = choose(done, inner, state.inner)
        return choose(done, after, params), Accumulated(inner, taken, kept)

    return Optimizer(init, update)


# --- averages of parameters ------------------------------------------------------


class Averaged(NamedTuple):
    """The state of ``average_params``: the optimizer's state and the average."""

    inner: Any
    average: Tree


def average_params(optimizer: Optimizer, decay: float = 0.999, /) -> Optimizer:
    """Return the optimizer that keeps an exponential moving average of the parameters.

    The average is ``state.average``. It starts with the first parameters, and each step
    sets it to ``decay · average + (1 - decay) · params``.

    Args:
        optimizer: The optimizer to wrap.
        decay: The weight of the old average in each step.

    Returns:
        An optimizer.

    Example:
        >>> optimizer = pt.average_params(pt.sgd(1.0), 0.75)
        >>> params = pg.asarray(4.0)
        >>> params, state = optimizer.update(
        ...     pg.asarray(4.0), optimizer.init(params), params
        ... )
        >>> params.item(), state.average.item()
        (0.0, 3.0)

    Source:
        B. T. Polyak and A. B. Juditsky, "Acceleration of stochastic approximation by
        averaging", SIAM J. Control and Optimization, 1992; ``optax.ema``,
        ``torch.optim.swa_utils.AveragedModel``.

    """
    check_optimizer("average_params", optimizer)
    check_between("average_params", "decay", decay, 0, 1)

    def init(params: Tree) -> Averaged:
        return Averaged(optimizer.init(params), params)

    def update(grads: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        after, inner = optimizer.update(grads, state.inner, params)
        moved = lambda p, a: decay * a + (1 - decay) * p
        averaged = map_leaves(moved, trained(after), state.average)
        average = pg.tree.map(
            lambda p, a: p if a is None else pg.astype(a, p.dtype), after, averaged
        )
        return after, Averaged(inner, average)

    return Optimizer(init, update)


# --- gradients that are not finite -----------------------------------------------


class NonFiniteError(ArithmeticError):
    """Gradients contain NaN or infinity."""


class Finite(NamedTuple):
    """The state of ``skip_nonfinite``.

    Attributes:
        inner: The state of the wrapped optimizer.
        skipped: The number of skipped steps.
        in_a_row: The number of consecutive skipped steps up to the last step.

    """

    inner: Any
    skipped: pg.Tensor
    in_a_row: pg.Tensor


def all_finite(tree: Tree, /) -> pg.Tensor:
    """Return whether no element of a tree is NaN or infinite, as a tensor.

    Example:
        >>> pt.all_finite([pg.asarray(1.0), pg.asarray(float("nan"))]).item()
        False

    """
    finite = pg.asarray(True)
    for x in pg.tree.leaves(tree):
        finite = pg.logical_and(finite, pg.all(pg.isfinite(x)))
    return finite


def skip_nonfinite(optimizer: Optimizer, /) -> Optimizer:
    """Return the optimizer that skips steps whose gradients contain NaN or infinity.

    A skipped step changes neither the parameters nor the state of ``optimizer``; it is
    only counted. After a skipped step, ``check_finite(state)`` raises an error.

    Args:
        optimizer: The optimizer to wrap.

    Returns:
        An optimizer.

    Example:
        >>> optimizer = pt.skip_nonfinite(pt.adam(0.1))
        >>> params = pg.asarray(1.0)
        >>> params, state = optimizer.update(
        ...     pg.asarray(float("nan")), optimizer.init(params), params
        ... )
        >>> params.item(), state.skipped.item()
        (1.0, 1)

    Source:
        ``optax.apply_if_finite``.

    """
    check_optimizer("skip_nonfinite", optimizer)

    def init(params: Tree) -> Finite:
        return Finite(optimizer.init(params), zero(), zero())

    def update(grads: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        finite = all_finite(as_params(grads, params))
        after, inner = optimizer.update(grads, state.inner, params)
        bad = pg.astype(pg.logical_not(finite), pg.int32)
        return choose(finite, after, params), Finite(
            choose(finite, inner, state.inner),
            state.skipped + bad,
            (state.in_a_row + 1) * bad,
        )

    return Optimizer(init, update)


def check_finite(state: Any, /, *, limit: int = 0) -> None:
    """Raise an error if the last steps were skipped because of their gradients.

    This reads a value, so call it outside of ``pg.jit``.

    Args:
        state: The state of ``skip_nonfinite`` or ``scale_loss``, or a state that
            contains one.
        limit: The number of consecutive skipped steps that is allowed.

    Raises:
        NonFiniteError: More than ``limit`` steps in a row were skipped, including the
            last one.
        ValueError: The state does not count skipped steps.

    """
    leaves = pg.tree.leaves(state, is_leaf=lambda x: isinstance(x, Finite | Scaled))
    if not (counters := [x for x in leaves if isinstance(x, Finite | Scaled)]):
        raise ValueError(
            "check_finite: the state does not count skipped steps; wrap the optimizer "
            "in skip_nonfinite"
        )
    skipped = max(int(x.in_a_row) for x in counters)
    if skipped > limit:
        raise NonFiniteError(
            f"the gradients of {skipped} step{'s'[: skipped != 1]} in a row contain "
            "NaN or infinity; these steps did not change the parameters; reduce the "
            "learning rate, clip the gradients, or find the op with `with pg.debug():`"
        )


# --- mixed precision -------------------------------------------------------------


class Scaled(NamedTuple):
    """The state of ``scale_loss``.

    Attributes:
        inner: The state of the wrapped optimizer.
        scale: The factor of the loss.
        good: The number of steps with finite gradients since the scale last changed.
        in_a_row: The number of consecutive skipped steps up to the last step.

    """

    inner: Any
    scale: pg.Tensor
    good: pg.Tensor
    in_a_row: pg.Tensor


def scale_loss(
    optimizer: Optimizer,
    /,
    *,
    initial: float = 2.0**16,
    factor: float = 2.0,
    period: int = 2000,
) -> Optimizer:
    """Return the optimizer for gradients of ``state.scale · loss``.

    The optimizer divides the gradients by the scale. If they contain NaN or infinity,
    it skips the step and divides the scale by ``factor``; after ``period`` finite
    steps, it multiplies the scale by ``factor``. ``half_precision`` computes such
    gradients.

    Args:
        optimizer: The optimizer to wrap.
        initial: The first scale.
        factor: The factor by which the scale changes.
        period: The number of finite steps after which the scale grows.

    Returns:
        An optimizer.

    Source:
        P. Micikevicius et al., "Mixed precision training", ICLR 2018;
        ``torch.amp.GradScaler``, which has the same defaults.

    """
    check_optimizer("scale_loss", optimizer)
    check_between("scale_loss", "factor", factor, 1)

    def init(params: Tree) -> Scaled:
        first = pg.asarray(initial, dtype=pg.float32)
        return Scaled(optimizer.init(params), first, zero(), zero())

    def update(grads: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        grads = map_leaves(lambda g: g / cast(state.scale, g), as_params(grads, params))
        finite = all_finite(grads)
        after, inner = optimizer.update(grads, state.inner, params)
        good = pg.where(finite, state.good + 1, zero())
        grows = good >= period
        scale = pg.where(finite, state.scale, pg.maximum(state.scale / factor, 1.0))
        return choose(finite, after, params), Scaled(
            choose(finite, inner, state.inner),
            pg.where(grows, pg.minimum(scale * factor, 2.0**24), scale),
            pg.where(grows, zero(), good),
            pg.where(finite, zero(), state.in_a_row + 1),
        )

    return Optimizer(init, update)


def cast_floating(tree: Tree, dtype: Any, /) -> Tree:
    """Return the tree with its floating tensors cast to a dtype.

    Example:
        >>> with pg.use_backend("cpu"):
        ...     found = pt.cast_floating([pg.ones(2), pg.asarray(3)], pg.float16)
        >>> [str(x.dtype) for x in found]
        ['float16', 'int32']

    """
    return pg.tree.map(lambda x: pg.astype(x, dtype) if is_trained(x) else x, tree)


def half_precision(loss: Any, /, dtype: Any = pg.float16) -> Any:
    """Return a function that computes a loss and its scaled gradients.

    The loss is computed in ``dtype``, with copies of the parameters and of the floating
    tensors in ``args``. The parameters themselves, the returned loss and the gradients
    keep the dtype of the parameters (master weights). Inside ``loss``, compute sums
    over many elements in float32, and return the loss as float32.

    Args:
        loss: A function ``loss(params, *args)`` that returns a scalar.
        dtype: A floating dtype that the active backend supports.

    Returns:
        ``f(params, state, *args)``, which takes the state of ``scale_loss`` after the
        parameters and returns ``(loss, gradients)``; the gradients are those of
        ``state.scale · loss``.

    Example:
        >>> loss = lambda p, x: pg.sum(pg.astype(pg.square(p * x), pg.float32))
        >>> optimizer = pt.scale_loss(pt.sgd(0.5), initial=1024.0)
        >>> with pg.use_backend("cpu"):
        ...     params = pg.asarray([1.0])
        ...     state = optimizer.init(params)
        ...     value, grads = pt.half_precision(loss)(params, state, pg.asarray([0.5]))
        ...     params, state = optimizer.update(grads, state, params)
        >>> value.item(), params.item()
        (0.25, 0.75)

    """

    def scaled_value_and_grad(params: Tree, state: Any, *args: Any) -> tuple[Any, Any]:
        def scaled(params: Tree) -> pg.Tensor:
            low = cast_floating((params, *args), dtype)
            return pg.astype(loss(*low), pg.float32) * state.scale

        value, grads = pg.value_and_grad(scaled)(params)
        return value / state.scale, grads

    return scaled_value_and_grad
