"""Optimizers: pairs of pure functions over trees of parameters.

``init(params)`` returns the state, and ``update(grads, state, params)`` returns the new
parameters and the new state. (In optax, ``update`` returns the change of the
parameters.) Argument names, defaults and formulas match optax.

Contents: ``Optimizer``, ``chain``; the optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import plugrad as pg
from plugrad.plugin import hinted

from . import transforms
from ._ranges import check_ranges
from ._trees import Tree, check_params, is_none, is_trained
from .transforms import Mask, Schedule, Transform

Rate = float | Schedule
CONTAINERS = (dict, list, tuple)


class Optimizer(NamedTuple):
    """An optimizer: a pair of pure functions.

    Attributes:
        init: ``init(params)`` returns the state before the first step.
        update: ``update(grads, state, params)`` returns the new parameters and state.
        transform: The transform of the gradients, for ``chain``; None for optimizers
            that wrap another optimizer.

    """

    init: Callable[[Tree], Any]
    update: Callable[[Tree, Any, Tree], tuple[Tree, Any]]
    transform: Transform | None = None


STEP_HINT = "params, state = optimizer.update(grads, state, params) makes a step"
FOREIGN_METHOD_HINTS = {  # for methods of other libraries' optimizers
    "step": STEP_HINT,
    "minimize": STEP_HINT,
    "apply_gradients": STEP_HINT,
    "zero_grad": "leave it out: gradients are returned, not accumulated in tensors; "
    + STEP_HINT,
    "param_groups": "pt.learning_rate(state) is the learning rate, and "
    "pt.set_learning_rate changes it",
    "state_dict": "init(params) returned the state; it is a tree of tensors",
    "load_state_dict": "pass the state to update; pt.Checkpoints saves and restores it",
}


def _raise_missing(self: Optimizer, name: str) -> Any:
    hint = f"; {FOREIGN_METHOD_HINTS[name]}" if name in FOREIGN_METHOD_HINTS else ""
    raise AttributeError(f"'Optimizer' object has no attribute {name!r}{hint}")


if not TYPE_CHECKING:
    Optimizer.__getattr__ = _raise_missing


def as_params(grads: Tree, params: Tree) -> Tree:
    """Return the gradients in the containers of the parameters.

    Raises:
        ValueError: The structure or a shape of the gradients differs from the
            parameters.
        TypeError: A parameter is not a real tensor.

    """
    check_params(params)
    leaves, structure = pg.tree.flatten(params)
    matched = structure.match(
        grads, "update: the gradients differ in structure from the parameters"
    )
    for path, g, p in zip(structure.paths(), matched, leaves, strict=True):
        if g is None and not is_trained(p):
            continue
        if not isinstance(g, pg.Tensor) or g.shape != p.shape:
            description = f"shape {g.shape}" if isinstance(g, pg.Tensor) else repr(g)
            raise ValueError(
                f"update: the gradient{path and ' at '}{path} has {description}, but "
                f"the parameter has shape {p.shape}; pass the gradients that pg.grad "
                "returned for these parameters"
            )
    return structure(matched)


def _apply_updates(params: Tree, updates: Tree) -> Tree:
    return pg.tree.map(
        lambda u, p: p if u is None else pg.astype(p + u, p.dtype),
        updates,
        params,
        is_leaf=is_none,
    )


def of_transform(transform: Transform) -> Optimizer:
    """Return the optimizer that adds the transformed gradients to the parameters.

    Example:
        >>> descent = pt.of_transform(pt.scale(-0.5))
        >>> params = pg.asarray([1.0])
        >>> descent.update(pg.asarray([1.0]), descent.init(params), params)[0].item()
        0.5

    """

    def init(params: Tree) -> Any:
        check_params(params)
        return transform.init(params)

    def update(grads: Tree, state: Any, params: Tree) -> tuple[Tree, Any]:
        grads = as_params(grads, params)
        try:
            updates, new = transform.update(grads, state, params)
        except (AttributeError, TypeError, ValueError):
            _check_state(state, transform.init(params))
            raise
        return _apply_updates(params, updates), new

    return Optimizer(init, update, transform)


def _check_state(state: Any, expected: Any) -> None:
    """Raise ValueError if a state belongs to another optimizer or other parameters."""
    structure = pg.tree.structure(state)
    expected_structure = pg.tree.structure(expected)
    if repr(structure) != repr(expected_structure):
        raise ValueError(
            "update: the state does not fit this optimizer and these parameters: "
            f"expected {expected_structure!r:.200}, got {structure!r:.200}; pass the "
            "state that init(params) returned"
        ) from None


@overload
def chain(*parts: Transform) -> Transform: ...
@overload
def chain(*parts: Transform | Optimizer) -> Any: ...
def chain(*parts: Any) -> Any:
    """Return the transform or the optimizer that applies ``parts`` in order.

    Args:
        parts: Transforms. If the last one is an optimizer, the result is an optimizer.

    Returns:
        A transform, or an optimizer.

    Raises:
        TypeError: An optimizer is not the last part, or wraps another optimizer.

    Example:
        >>> optimizer = pt.chain(pt.clip_by_global_norm(1.0), pt.sgd(0.1))
        >>> params = pg.asarray([0.0, 0.0])
        >>> state = optimizer.init(params)
        >>> optimizer.update(pg.asarray([30.0, 40.0]), state, params)[0]
        Tensor([-0.06, -0.08], dtype=float32, backend='cpu')

    Source:
        ``optax.chain``.

    """
    *before, last = parts or (None,)
    is_optimizer = isinstance(last, Optimizer)
    if is_optimizer:
        last = last.transform
    for part in (*before, last):
        if not isinstance(part, Transform):
            description = "an optimizer" if isinstance(part, Optimizer) else repr(part)
            if part is None:
                wrapper = "an optimizer that wraps another optimizer"
                description = wrapper if is_optimizer else "nothing"
            raise TypeError(
                f"chain: got {description}; pass transforms, and at most one "
                "optimizer, last"
            )
    chained = transforms.chained(*before, last)
    return of_transform(chained) if is_optimizer else chained


def _check(
    op: str, learning_rate: Rate, momentum: float | None, **numbers: Any
) -> None:
    """Raise if a number is out of range; schedules check their own numbers."""
    given: Any = learning_rate
    is_tensor = isinstance(given, pg.Tensor)
    if given.shape if is_tensor else isinstance(given, CONTAINERS):
        raise TypeError(
            f"{op}: learning_rate must be a number, got a "
            f"{type(given).__name__}; parameters belong to init: "
            f"optimizer = pt.{op}(0.1), state = optimizer.init(params)"
        )
    if not callable(learning_rate):
        numbers["learning_rate"] = learning_rate
    if momentum is not None:
        numbers["momentum"] = momentum
    check_ranges(op, **numbers)


def _optimizer(*parts: Transform | None, learning_rate: Rate) -> Optimizer:
    rate = transforms.scale_by_learning_rate(learning_rate)
    return of_transform(transforms.chained(*filter(None, parts), rate))


@hinted
def sgd(
    learning_rate: Rate, momentum: float | None = None, nesterov: bool = False
) -> Optimizer:
    """Return stochastic gradient descent: ``p - learning_rate · g``.

    With momentum, ``t = g + momentum · t`` replaces ``g``; with Nesterov momentum,
    ``g + momentum · t`` does.

    Args:
        learning_rate: A number of 0 or more, or a schedule (``schedules``).
        momentum: The share of the last step that is kept, from 0 to 1.
        nesterov: Whether to use Nesterov momentum, which looks one step ahead.

    Returns:
        An optimizer.

    Raises:
        TypeError: An argument is not a number.
        ValueError: A number is out of its range, infinite or NaN.

    Example:
        >>> optimizer = pt.sgd(0.1, momentum=0.9)
        >>> params = {"w": pg.asarray([1.0])}
        >>> state = optimizer.init(params)
        >>> params, state = optimizer.update({"w": pg.asarray([2.0])}, state, params)
        >>> params["w"].item()
        0.8

    Source:
        ``optax.sgd``; ``torch.optim.SGD`` without ``dampening``.

    """
    _check("sgd", learning_rate, momentum)
    parts = None if momentum is None else transforms.trace(momentum, nesterov=nesterov)
    return _optimizer(parts, learning_rate=learning_rate)


@hinted
def adam(
    learning_rate: Rate, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Optimizer:
    """Return Adam: ``p - learning_rate · m̂ / (√v̂ + eps)``.

    ``m̂`` and ``v̂`` are the running means of the gradients and of their squares, each
    divided by ``1 - decayᵗ`` in step ``t``.

    Args:
        learning_rate: A number of 0 or more, or a schedule (``schedules``).
        b1: The decay of the mean, from 0 to less than 1.
        b2: The decay of the mean of squares, from 0 to less than 1.
        eps: Added to the denominator; 0 or more.

    Returns:
        An optimizer.

    Raises:
        TypeError: An argument is not a number.
        ValueError: A number is out of its range, infinite or NaN.

    Example:
        >>> optimizer = pt.adam(0.1)
        >>> params = {"w": pg.asarray([1.0])}
        >>> state = optimizer.init(params)
        >>> params, state = optimizer.update({"w": pg.asarray([2.0])}, state, params)
        >>> params["w"]
        Tensor([0.9], dtype=float32, backend='cpu')

    Source:
        D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization", ICLR 2015;
        ``optax.adam``, ``torch.optim.Adam``.

    """
    _check("adam", learning_rate, None, b1=b1, b2=b2, eps=eps)
    adam = transforms.scale_by_adam(b1, b2, eps)
    return _optimizer(adam, learning_rate=learning_rate)


@hinted
def adamw(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-4,
    mask: Mask | None = None,
) -> Optimizer:
    """Return AdamW: ``p - learning_rate · (m̂ / (√v̂ + eps) + weight_decay · p)``.

    Args:
        learning_rate: A number of 0 or more, or a schedule (``schedules``).
        b1: The decay of the mean, from 0 to less than 1.
        b2: The decay of the mean of squares, from 0 to less than 1.
        eps: Added to the denominator; 0 or more.
        weight_decay: The share of the parameters that is subtracted; PyTorch's default
            is 0.01.
        mask: Which parameters decay: see ``add_decayed_weights``.

    Returns:
        An optimizer.

    Raises:
        TypeError: An argument is not a number.
        ValueError: A number is out of its range, infinite or NaN.

    Source:
        I. Loshchilov and F. Hutter, "Decoupled weight decay regularization", ICLR 2019;
        ``optax.adamw``, ``torch.optim.AdamW``.

    """
    numbers = {"b1": b1, "b2": b2, "eps": eps, "weight_decay": weight_decay}
    _check("adamw", learning_rate, None, **numbers)
    adam = transforms.scale_by_adam(b1, b2, eps)
    decay = transforms.add_decayed_weights(weight_decay, mask)
    return _optimizer(adam, decay, learning_rate=learning_rate)


@hinted
def rmsprop(
    learning_rate: Rate,
    decay: float = 0.9,
    eps: float = 1e-8,
    *,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
    eps_in_sqrt: bool = True,
) -> Optimizer:
    """Return RMSProp: ``p - learning_rate · g / √(v + eps)``.

    ``v`` is a running mean of squared gradients. ``torch.optim.RMSprop``
    corresponds to ``decay=0.99`` and ``eps_in_sqrt=False``.

    Args:
        learning_rate: A number of 0 or more, or a schedule (``schedules``).
        decay: The decay of the mean, from 0 to less than 1.
        eps: Added to the denominator; 0 or more.
        centered: Whether ``v`` is the variance of the gradients instead.
        momentum: The share of the last step that is kept, from 0 to 1. It is applied
            before the learning rate, as in PyTorch; optax applies it after.
        nesterov: Whether to use Nesterov momentum, which looks one step ahead.
        eps_in_sqrt: Whether ``eps`` is added inside the square root.

    Returns:
        An optimizer.

    Raises:
        TypeError: An argument is not a number.
        ValueError: A number is out of its range, infinite or NaN.

    Source:
        G. Hinton, lecture 6 of "Neural networks for machine learning", 2012;
        ``optax.rmsprop``, ``torch.optim.RMSprop``.

    """
    _check("rmsprop", learning_rate, momentum, decay=decay, eps=eps)
    rms = transforms.scale_by_rms(
        decay, eps, centered=centered, eps_in_sqrt=eps_in_sqrt
    )
    step = None if momentum is None else transforms.trace(momentum, nesterov=nesterov)
    return _optimizer(rms, step, learning_rate=learning_rate)


@hinted
def adagrad(
    learning_rate: Rate, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> Optimizer:
    """Return Adagrad: ``p - learning_rate · g / √(Σg² + eps)``.

    Args:
        learning_rate: A number of 0 or more, or a schedule (``schedules``).
        initial_accumulator_value: The sum of squares before the first step; PyTorch's
            default is 0.
        eps: Added inside the square root. PyTorch adds it outside.

    Returns:
        An optimizer.

    Raises:
        TypeError: An argument is not a number.
        ValueError: A number is out of its range, infinite or NaN.

    Source:
        J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods for online
        learning and stochastic optimization", JMLR 2011; ``optax.adagrad``.

    """
    start = initial_accumulator_value
    numbers = {"initial_accumulator_value": start, "eps": eps}
    _check("adagrad", learning_rate, None, **numbers)
    rss = transforms.scale_by_rss(start, eps)
    return _optimizer(rss, learning_rate=learning_rate)


@hinted
def lion(
    learning_rate: Rate,
    b1: float = 0.9,
    b2: float = 0.99,
    weight_decay: float = 1e-3,
    mask: Mask | None = None,
) -> Optimizer:
    """Return Lion: ``p - learning_rate · (sign(c) + weight_decay · p)``.

    Here ``c = b1·m + (1 - b1)·g``, and ``m`` is a running mean of the gradients.

    Args:
        learning_rate: A number, or a schedule (``schedules``); good values are a third
            to a tenth of those for AdamW.
        b1: The share of the mean in the step, from 0 to less than 1.
        b2: The decay of the mean, from 0 to less than 1.
        weight_decay: The share of the parameters that is subtracted.
        mask: Which parameters decay: see ``add_decayed_weights``.

    Returns:
        An optimizer.

    Raises:
        TypeError: An argument is not a number.
        ValueError: A number is out of its range, infinite or NaN.

    Source:
        X. Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023;
        ``optax.lion``.

    """
    numbers = {"b1": b1, "b2": b2, "weight_decay": weight_decay}
    _check("lion", learning_rate, None, **numbers)
    signs = transforms.scale_by_lion(b1, b2)
    decay = transforms.add_decayed_weights(weight_decay, mask)
    return _optimizer(signs, decay, learning_rate=learning_rate)
