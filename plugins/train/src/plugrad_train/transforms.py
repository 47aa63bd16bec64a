"""Transforms of gradients; an optimizer is a chain of transforms: ``chain(a, b)``.

The names, defaults and formulas are those of optax. A transform is a pair of pure
functions over trees: ``init(params) -> state``, and ``update(updates, state, params) ->
(updates, state)``. The state consists of tensors only, even the number of steps, so
that ``pg.jit`` records one step and replays it.

Contents: ``Transform`` and ``chained``; moments and momentum; scale; weights and
clipping.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import plugrad as pg
from plugrad.plugin import hinted

from ._ranges import check_ranges
from ._trees import Tree, cast, check_between, is_none, map_leaves, zero, zeros_like

Schedule = Callable[[Any], pg.Tensor]
Mask = Tree | Callable[[Tree], Tree]


class Transform(NamedTuple):
    """A transform of gradients: a pair of pure functions.

    Attributes:
        init: ``init(params)`` returns the state before the first step.
        update: ``update(updates, state, params)`` returns the new updates and state.

    """

    init: Callable[[Tree], Any]
    update: Callable[[Tree, Any, Tree], tuple[Tree, Any]]


def stateless(f: Callable[[Tree, Tree], Tree]) -> Transform:
    """Return the transform that applies a function of the updates and the parameters.

    Example:
        >>> halve = pt.transforms.stateless(lambda updates, params: updates / 2.0)
        >>> halve.update(pg.asarray(3.0), (), None)[0].item()
        1.5

    """
    return Transform(lambda params: (), lambda u, state, params: (f(u, params), ()))


def chained(*transforms: Transform) -> Transform:
    """Return the transform that applies several transforms in order."""

    def init(params: Tree) -> tuple[Any, ...]:
        return tuple([transform.init(params) for transform in transforms])

    def update(updates: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        states = []
        for transform, old in zip(transforms, state, strict=True):
            updates, new = transform.update(updates, old, params)
            states.append(new)
        return updates, tuple(states)

    return Transform(init, update)


# --- moments ---------------------------------------------------------------------


class Moments(NamedTuple):
    """Means of the gradients and of their squares, and the number of steps."""

    steps: pg.Tensor
    mean: Tree
    square: Tree


def _decayed(decay: float) -> Callable[[pg.Tensor, pg.Tensor], pg.Tensor]:
    return lambda g, m: decay * m + (1 - decay) * g


def _decayed_square(decay: float) -> Callable[[pg.Tensor, pg.Tensor], pg.Tensor]:
    return lambda g, v: decay * v + (1 - decay) * (g * g)


def _correction(decay: float, steps: pg.Tensor) -> pg.Tensor | float:
    """Return ``1 - decay ** steps``, accurate even if the power is close to 1."""
    if decay == 0:
        return 1.0
    return -pg.expm1(pg.astype(steps, pg.float32) * math.log(decay))


@hinted
def scale_by_adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Transform:
    """Return the transform of Adam: ``m̂ / (√v̂ + eps)``.

    ``m`` and ``v`` are running means of the gradients and of their squares, with the
    decays ``b1`` and ``b2``. They start at zero, and ``m̂ = m / (1 - b1ᵗ)`` and
    ``v̂ = v / (1 - b2ᵗ)`` correct the resulting bias.

    Args:
        b1: The decay of the mean.
        b2: The decay of the mean of squares.
        eps: Added to the denominator.

    Returns:
        A transform.

    Example:
        >>> adam = pt.chain(pt.scale_by_adam(), pt.scale_by_learning_rate(0.1))
        >>> params = pg.asarray([1.0])
        >>> updates, _ = adam.update(pg.asarray([5.0]), adam.init(params), params)
        >>> updates
        Tensor([-0.1], dtype=float32, backend='cpu')

    Source:
        D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.

    """
    check_ranges("scale_by_adam", b1=b1, b2=b2, eps=eps)

    def init(params: Tree) -> Moments:
        return Moments(zero(), zeros_like(params), zeros_like(params))

    def update(updates: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        steps = state.steps + 1
        mean = map_leaves(_decayed(b1), updates, state.mean)
        square = map_leaves(_decayed_square(b2), updates, state.square)
        root = pg.sqrt(_correction(b2, steps))  # m̂ / (√v̂ + eps) with fewer kernels:
        small = eps * root
        factor = root / _correction(b1, steps)

        def step(m: pg.Tensor, v: pg.Tensor) -> pg.Tensor:
            return m / (pg.sqrt(v) + cast(small, v)) * cast(factor, m)

        return map_leaves(step, mean, square), Moments(steps, mean, square)

    return Transform(init, update)


class Squares(NamedTuple):
    """Sums or means of squared gradients, and means of gradients if needed."""

    square: Tree
    mean: Tree


@hinted
def scale_by_rms(
    decay: float = 0.9,
    eps: float = 1e-8,
    *,
    centered: bool = False,
    eps_in_sqrt: bool = True,
) -> Transform:
    """Return the transform of RMSProp: ``g / √(v + eps)``, or ``g / (√v + eps)``.

    ``v`` is a running mean of the squared gradients or, if centered, their variance.

    Args:
        decay: The decay of the means.
        eps: Added to the denominator.
        centered: Whether to divide by the standard deviation, like
            ``optax.scale_by_stddev``.
        eps_in_sqrt: Whether ``eps`` is added inside the square root, as in optax;
            PyTorch adds it outside.

    Returns:
        A transform.

    Source:
        G. Hinton, lecture 6 of "Neural networks for machine learning", 2012. Centered:
        A. Graves, "Generating sequences with recurrent neural networks", 2013.

    """
    check_ranges("scale_by_rms", decay=decay, eps=eps)

    def init(params: Tree) -> Squares:
        return Squares(zeros_like(params), zeros_like(params) if centered else None)

    def divided(g: pg.Tensor, v: pg.Tensor, m: Any = None) -> pg.Tensor:
        v = v if m is None else v - m * m
        return g / (pg.sqrt(v + eps) if eps_in_sqrt else pg.sqrt(v) + eps)

    def update(updates: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        square = map_leaves(_decayed_square(decay), updates, state.square)
        if not centered:
            return map_leaves(divided, updates, square), Squares(square, None)
        mean = map_leaves(_decayed(decay), updates, state.mean)
        return map_leaves(divided, updates, square, mean), Squares(square, mean)

    return Transform(init, update)


@hinted
def scale_by_rss(
    initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> Transform:
    """Return the transform of Adagrad: ``g / √(Σg² + eps)``.

    Args:
        initial_accumulator_value: The sum of squares before the first step.
        eps: Added inside the square root.

    Returns:
        A transform. The update is zero where the sum is zero.

    Source:
        J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods for online
        learning and stochastic optimization", JMLR 2011.

    """
    start = initial_accumulator_value
    check_ranges("scale_by_rss", initial_accumulator_value=start, eps=eps)

    def init(params: Tree) -> Squares:
        return Squares(map_leaves(lambda z: z + start, zeros_like(params)), None)

    def divided(g: pg.Tensor, v: pg.Tensor) -> pg.Tensor:
        return pg.where(v > 0, g / pg.sqrt(v + eps), pg.zeros_like(g))

    def update(updates: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        square = map_leaves(lambda g, v: v + g * g, updates, state.square)
        return map_leaves(divided, updates, square), Squares(square, None)

    return Transform(init, update)


@hinted
def scale_by_lion(b1: float = 0.9, b2: float = 0.99) -> Transform:
    """Return the transform of Lion: ``sign(b1·m + (1 - b1)·g)``.

    Args:
        b1: The share of the mean in the update.
        b2: The decay of the mean.

    Returns:
        A transform.

    Source:
        X. Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023.

    """
    check_ranges("scale_by_lion", b1=b1, b2=b2)

    def update(updates: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        signs = map_leaves(lambda g, m: pg.sign(_decayed(b1)(g, m)), updates, state)
        return signs, map_leaves(_decayed(b2), updates, state)

    return Transform(zeros_like, update)


@hinted
def trace(decay: float, *, nesterov: bool = False) -> Transform:
    """Return the transform of momentum, ``t = g + decay·t``.

    With Nesterov momentum, the result is ``g + decay·t`` with the new ``t``.

    Args:
        decay: The share of the last update that is kept.
        nesterov: Whether to use Nesterov momentum, which looks one step ahead.

    Returns:
        A transform.

    Source:
        I. Sutskever, J. Martens, G. Dahl and G. Hinton, "On the importance of
        initialization and momentum in deep learning", ICML 2013.

    """
    check_ranges("trace", momentum=decay)
    accumulate = lambda g, t: g + decay * t

    def update(updates: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        momentum = map_leaves(accumulate, updates, state)
        return map_leaves(
            accumulate, updates, momentum
        ) if nesterov else momentum, momentum

    return Transform(zeros_like, update)


# --- scale -----------------------------------------------------------------------


@hinted
def scale(factor: float) -> Transform:
    """Return the transform that multiplies the updates by ``factor``.

    Example:
        >>> pt.scale(-0.1).update(pg.asarray([2.0]), (), None)[0].tolist()
        [-0.2]

    """
    return stateless(lambda u, params: map_leaves(lambda g: factor * g, u))


class Rate(NamedTuple):
    """The state of ``scale_by_learning_rate`` and ``scale_by_schedule``.

    Attributes:
        steps: The number of completed steps.
        rate: With a schedule, the factor of the last step; else that of the next step.

    """

    steps: pg.Tensor
    rate: pg.Tensor


def _scale_by_rate(rate: float | Schedule, sign: float) -> Transform:
    def init(params: Tree) -> Rate:
        steps = zero()
        first: Any = rate(steps) if callable(rate) else rate
        return Rate(steps, pg.asarray(first, dtype=pg.float32))

    def update(updates: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        current = rate(state.steps) if callable(rate) else state.rate
        current = pg.astype(pg.asarray(current), pg.float32)
        factor = sign * current
        scaled = map_leaves(lambda g: cast(factor, g) * g, updates)
        return scaled, Rate(state.steps + 1, current)

    return Transform(init, update)


@hinted
def scale_by_schedule(schedule: Schedule) -> Transform:
    """Return the transform that multiplies the updates by ``schedule(step)``.

    The first step is 0. The ``rate`` of the state is the factor of the last step.
    """
    return _scale_by_rate(schedule, 1.0)


@hinted
def scale_by_learning_rate(learning_rate: float | Schedule) -> Transform:
    """Return the transform that multiplies the updates by ``-learning_rate``.

    The state contains the rate as a tensor. Unless it comes from a schedule,
    ``set_learning_rate`` can replace it without a new recording by ``pg.jit``.

    Args:
        learning_rate: A number, or a schedule (``schedules``).

    Returns:
        A transform.

    """
    if not callable(learning_rate):
        check_ranges("scale_by_learning_rate", learning_rate=learning_rate)
    return _scale_by_rate(learning_rate, -1.0)


def _rates(state: Any) -> list[Any]:
    return [x for x in pg.tree.leaves(state, is_leaf=_is_rate) if _is_rate(x)]


def _is_rate(x: object) -> bool:
    return isinstance(x, Rate)


def learning_rate(state: Any, /) -> pg.Tensor:
    """Return the learning rate of the last step, from the state of an optimizer.

    Raises:
        ValueError: The state has no learning rate.

    Example:
        >>> optimizer = pt.sgd(pt.schedules.linear(1.0, 0.0, 10))
        >>> params = pg.zeros(2)
        >>> state = optimizer.init(params)
        >>> for _ in range(3):
        ...     params, state = optimizer.update(pg.ones(2), state, params)
        >>> pt.learning_rate(state).item()
        0.8

    """
    if not (rates := _rates(state)):
        raise ValueError(
            "learning_rate: the state has no learning rate; pass the state that "
            "optimizer.init returned"
        )
    return rates[-1].rate


def set_learning_rate(state: Any, rate: float | pg.Tensor, /) -> Any:
    """Return the state with a new learning rate; a schedule replaces it in each step.

    Raises:
        ValueError: The state has no learning rate, or the rate is a number below 0,
            infinite or NaN. The values of tensors are not checked.

    Example:
        >>> optimizer = pt.sgd(1.0)
        >>> params = pg.zeros(2)
        >>> state = pt.set_learning_rate(optimizer.init(params), 0.5)
        >>> optimizer.update(pg.ones(2), state, params)[0].tolist()
        [-0.5, -0.5]

    """
    learning_rate(state)  # raises if the state has none
    if not isinstance(rate, pg.Tensor):
        check_ranges("set_learning_rate", learning_rate=rate)
    value = pg.asarray(rate, dtype=pg.float32)
    return pg.tree.map(
        lambda x: x._replace(rate=value) if _is_rate(x) else x,
        state,
        is_leaf=lambda x: _is_rate(x) or is_none(x),
    )


# --- weights and clipping --------------------------------------------------------


@hinted
def add_decayed_weights(weight_decay: float, mask: Mask | None = None) -> Transform:
    """Return the transform that adds ``weight_decay · params`` to the updates.

    Args:
        weight_decay: The factor of the parameters.
        mask: Which parameters decay: a tree of bool with the structure of the
            parameters, or a function of the parameters that returns it. None: all.
            Biases are often excluded:
            ``mask=lambda params: pg.tree.map(lambda p: p.ndim > 1, params)``.

    Returns:
        A transform.

    Example:
        >>> decay = pt.add_decayed_weights(0.1, mask={"w": True, "b": False})
        >>> params = {"w": pg.asarray(10.0), "b": pg.asarray(10.0)}
        >>> zeros = pg.tree.map(pg.zeros_like, params)
        >>> pg.tree.map(float, decay.update(zeros, (), params)[0])
        {'w': 1.0, 'b': 0.0}

    Source:
        I. Loshchilov and F. Hutter, "Decoupled weight decay regularization", ICLR 2019.

    """
    check_ranges("add_decayed_weights", weight_decay=weight_decay)

    def added(updates: Tree, params: Tree) -> Tree:
        if mask is None:
            return map_leaves(lambda g, p: g + weight_decay * p, updates, params)
        mask_tree = mask(params) if callable(mask) else mask
        structure = pg.tree.structure(params)
        structure.match(
            mask_tree, "add_decayed_weights: the mask differs from the params"
        )
        decayed = lambda g, p, on: g + weight_decay * p if on else g
        return map_leaves(decayed, updates, params, mask_tree)

    return stateless(added)


@hinted
def clip_by_value(max_delta: float) -> Transform:
    """Return the transform that clips each element to ``±max_delta``, like optax.clip.

    Example:
        >>> pt.clip_by_value(1.0).update(pg.asarray([-3.0, 0.5]), (), None)[0].tolist()
        [-1.0, 0.5]

    """
    check_between("clip_by_value", "max_delta", max_delta, 0)
    clipped = lambda g: pg.clip(g, -max_delta, max_delta)
    return stateless(lambda u, params: map_leaves(clipped, u))


def global_norm(tree: Tree, /) -> pg.Tensor:
    """Return the Euclidean norm of all elements of a tree, as float32.

    Example:
        >>> pt.global_norm({"a": pg.asarray([3.0]), "b": pg.asarray(4.0)}).item()
        5.0

    """
    leaves = [pg.astype(x, pg.float32) for x in pg.tree.leaves(tree)]
    if not leaves:
        return pg.asarray(0.0)
    total = pg.sum(leaves[0] * leaves[0])
    for x in leaves[1:]:
        total = total + pg.sum(x * x)
    return pg.sqrt(total)


@hinted
def clip_by_global_norm(max_norm: float) -> Transform:
    """Return the transform that scales all updates to a norm of at most ``max_norm``.

    Example:
        >>> clip = pt.clip_by_global_norm(1.0)
        >>> clip.update(pg.asarray([3.0, 4.0]), (), None)[0]
        Tensor([0.6, 0.8], dtype=float32, backend='cpu')

    Source:
        R. Pascanu, T. Mikolov and Y. Bengio, "On the difficulty of training recurrent
        neural networks", ICML 2013.

    """
    check_between("clip_by_global_norm", "max_norm", max_norm, 0)

    def clipped(updates: Tree, params: Tree) -> Tree:
        norm = global_norm(updates)
        factor = pg.where(norm > max_norm, max_norm / norm, pg.ones_like(norm))
        return map_leaves(lambda g: g * cast(factor, g), updates)

    return stateless(clipped)
