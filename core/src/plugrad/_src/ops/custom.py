"""``custom_grad``: functions whose gradient is written by hand. No kernels.

Contents: ``custom_grad``; its arguments and its value; the gradients that ``grad_func``
returns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, ParamSpec, TypeVar, Unpack

from plugrad._src.engine import dispatch
from plugrad._src.engine.context import call, current
from plugrad._src.engine.forms import Made
from plugrad._src.engine.gradients import note_run
from plugrad._src.engine.tape import (
    ATTRIBUTE,
    Guard,
    Tape,
    TapePlan,
    VJPStep,
    alias,
    record,
    tapes_tracking,
)
from plugrad._src.registry.contract import VJP, Kernel
from plugrad._src.tensor.arguments import function
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import TapeId, Tensor
from plugrad._src.tensor.tree import flatten, split

from .basis import _convert
from .basis.variable import Variable

__all__ = ["custom_grad"]

P = ParamSpec("P")
R = TypeVar("R")
CUSTOM = Kernel("plugrad.CustomGradient(*xs; f) -> *ys")


def custom_grad(
    f: Callable[P, tuple[R, Callable[..., Any]]], **unknown: Unpack[Nothing]
) -> Callable[P, R]:
    """Return a function that computes ``f`` with a gradient written by hand.

    ``f(*xs)`` returns (value, grad_func). ``grad_func(*dys)`` accepts one cotangent for
    each output and returns one gradient for each argument, with the structure of that
    argument; None stands for zero. Derivatives of every order are correct, because
    ``grad_func`` is composed of ops.

    Arguments may be trees of tensors (``plugrad.tree``), and may be passed by name.
    Floats and arrays become tensors. ``int``, ``bool``, ``str``, ``None`` and all other
    objects are passed to ``f`` unchanged and have no gradient: ``grad_func`` leaves
    them out, or returns None for them. The value is a tensor, or a tree of tensors.

    ``f`` itself is not differentiated. Tensors that are being differentiated must be
    passed to it as arguments.

    Args:
        f: A function that returns its value and ``grad_func``.

    Returns:
        A function with the arguments of ``f`` that returns the value.

    Raises:
        TypeError: ``f`` is not a function, does not return (value, grad_func), or reads
            a tensor that is being differentiated but is not an argument.
        ValueError: The number, structure, shape or dtype of the gradients that
            ``grad_func`` returns does not match the arguments.

    Example:
        >>> @pg.custom_grad
        ... def clip_gradient(x, limit: int):
        ...     return x, lambda dy: pg.clip(dy, -limit, limit)
        >>> pg.grad(lambda x: 10.0 * clip_gradient(x, limit=1))(2.0).item()
        1.0

    Source:
        ``tf.customGrad`` in TensorFlow.js. Its ``save`` is not needed, because
        ``grad_func`` may capture tensors.

    """
    if unknown:
        raise unexpected(custom_grad, unknown)
    function("custom_grad", f)
    name = getattr(f, "__qualname__", repr(f))
    plans = plans_for(name)
    call_f: Callable[..., Any] = f

    @functools.wraps(f)
    def g(*args: Any, **named: Any) -> Any:
        if named:
            args = _positional(f, name, args, named)
        return recorded_call(call_f, name, plans, args)

    return g


def recorded_call(
    f: Callable[..., Any],
    name: str,
    plans: Callable[[int], TapePlan],
    args: tuple[Any, ...],
    guarded: bool = True,
) -> Any:
    """Run ``f``, and record the call as one node.

    If ``guarded`` is True, the innermost tape does not record the ops inside ``f``.
    """
    context = current()
    flat = _LEAF_CLASSES.issuperset(map(type, args))
    leaves, build = (args, tuple) if flat else flatten(args, as_leaf)
    inputs = tuple([x for x in leaves if type(x) is Tensor])
    written = f
    if context.level is not None:
        f = context.level.custom(f, name, guarded and not context.tapes)
    if context.tapes and guarded:
        guard = Guard(context.tapes[-1], name)
        given = _aliases(leaves, context.tapes[:-1], guard.tracked)
        tapes = (*context.tapes[:-1], guard)  # outer tapes record inside f
        found = call(tapes, f, build(given))
    else:
        found = f(*build(leaves))
    value, grad_func = unpacked(found, name)
    plain = type(value) is Tensor
    ys, build_value = ([value], _FIRST) if plain else outputs_of(value, name)
    if context.tapes and guarded and any([y._tape_id in guard.tracked for y in ys]):
        guard.refuse("its value")
    outputs = tuple([alias(y) for y in ys])
    for y in outputs if context.observers else ():
        _convert.notify_created(y)  # these do not come from a kernel run
    recording, mask = tapes_tracking(context.tapes, inputs)
    if mask:
        plain = plain and flat and len(inputs) == len(args)
        attrs = {"f": (grad_func, None if plain else (build_value, args, name))}
        plan = plans(len(inputs))
        backend = dispatch.active()
        record(recording, plan, backend, inputs, attrs, outputs, context.scope)
        if context.overrides is not None and build_value is _FIRST:
            again = functools.partial(_call_again, written, name, plans, leaves, build)
            _report_call(written, name, again, recording, inputs, outputs)
    return build_value(outputs)


def _call_again(
    f: Callable[..., Any],
    name: str,
    plans: Callable[[int], TapePlan],
    leaves: Sequence[Any],
    build: Callable[..., Any],
    *xs: Tensor,
) -> Tensor:
    """Call ``f`` again, with ``xs`` in place of the tensors among its arguments."""
    tensors = iter(xs)
    given = [next(tensors) if type(x) is Tensor else x for x in leaves]
    found: Tensor = recorded_call(f, name, plans, tuple(build(given)))
    return found


def _report_call(
    f: Callable[..., Any],
    name: str,
    again: Callable[..., Tensor],
    recording: tuple[Tape, ...],
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
) -> None:
    """Report a call to the pattern overrides, whose patterns may contain it."""
    context = current()
    overrides = context.overrides
    if overrides is not None and overrides.parts:
        kernel = _kernel_of(getattr(f, "__module__", None) or "", name, len(inputs))
        run = Made(kernel, inputs, {}, outputs, context.scope, again)
        note_run(overrides, recording, dispatch.active(), run)


@functools.cache
def _kernel_of(module: str, name: str, count: int) -> Kernel:
    """Return a kernel that stands for a function in patterns; it is never run."""
    inputs = ", ".join([f"x{number}" for number in range(count)])
    readable = name.replace("<", "").replace(">", "")
    return Kernel(f"custom_grad.{module}.{readable}({inputs})")


def plans_for(name: str) -> Callable[[int], TapePlan]:
    """Return a function that maps a number of tensor arguments to a recording plan."""
    vjp = VJP(_pull, (), "user", origin=f"custom_grad of {name}")

    @functools.cache
    def plan(count: int) -> TapePlan:
        step = VJPStep((0, count), _pull, (0,), "xs", vjp)
        return TapePlan(CUSTOM, (), ((ATTRIBUTE, "f"),), (step,))

    return plan


def _aliases(
    leaves: Sequence[Any], outer: tuple[Tape, ...], tracked: set[TapeId | None]
) -> list[Any]:
    """Return ``leaves``; tracked tensors become aliases that only outer tapes track."""
    if len(leaves) == 1 and type(x := leaves[0]) is Tensor and not outer:
        return [alias(x) if x._tape_id in tracked else x]
    given: list[Any] = []
    for x in leaves:
        if type(x) is not Tensor or x._tape_id not in tracked:
            given.append(x)
        elif outer:
            given.append(call(outer, dispatch.tracked_alias, (x,)))
        else:
            given.append(alias(x))
    return given


def _pull(dys: list[Tensor], saved: tuple[Any, Any]) -> Any:
    """Return one gradient for each tensor among the arguments."""
    grad_func, structure = saved
    if structure is not None:
        return gradients_of(grad_func, dys, *structure)
    found = grad_func(*dys)  # all arguments and the value are tensors
    return found if isinstance(found, list | tuple) else (found,)


# --- arguments and values --------------------------------------------------------

_FIRST: Callable[[Any], Any] = itemgetter(0)
_LEAF_CLASSES = frozenset({Tensor, int, bool, str, type(None)})


def as_leaf(value: Any) -> Any:
    """Convert floats, arrays and variables to tensors; return others unchanged."""
    if type(value) in _LEAF_CLASSES:
        return value
    numeric = isinstance(value, float | complex | Variable)
    if numeric or hasattr(value, "__array__"):
        return _convert.asarray(value)
    return value


def _positional(
    f: Callable[..., Any], name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """Return positional and named arguments in the order of the parameters of ``f``."""
    from inspect import signature

    try:
        bound = signature(f).bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"custom_grad: {name}: {error}") from None
    if bound.kwargs:
        raise TypeError(
            f"custom_grad: {name} has keyword-only parameters "
            f"({', '.join(bound.kwargs)}), and gradients are returned by position; "
            "remove the * before them"
        )
    return bound.args


def unpacked(found: Any, name: str) -> tuple[Any, Any]:
    """Return the value and the gradient function, or raise a TypeError."""
    if isinstance(found, tuple) and len(found) == 2 and callable(found[1]):
        return found
    raise TypeError(
        f"custom_grad: {name} must return (value, grad_func), got {found!r}"
    )


def outputs_of(value: Any, name: str) -> tuple[list[Tensor], Callable[[Any], Any]]:
    """Return the tensors in a value, and a function that rebuilds it from new ones."""

    def refuse(leaf: Any) -> Any:
        raise TypeError(
            f"custom_grad: {name} must return tensors, got {type(leaf).__name__}"
        )

    return flatten(value, refuse)


# --- gradients -------------------------------------------------------------------


def _active_gradients(grads: list[Any], active: list[bool], name: str) -> list[Any]:
    """Return the gradients of arguments with tensors; the others must be None."""
    if len(grads) != len(active):
        return grads
    for dx, is_active in zip(grads, active, strict=True):
        if dx is not None and not is_active:
            raise ValueError(
                f"custom_grad of {name}: an argument without tensors has no "
                f"gradient, got {dx!r}; return None"
            )
    return [dx for dx, is_active in zip(grads, active, strict=True) if is_active]


def gradients_of(
    grad_func: Callable[..., Any],
    dys: list[Tensor],
    build: Callable[[Any], Any],
    args: tuple[Any, ...],
    name: str,
) -> list[Tensor | None]:
    """Return one gradient for each tensor among nested or static arguments."""
    built = build(dys)
    several = isinstance(built, tuple | list)
    found = grad_func(*built) if several else grad_func(built)
    active = [_has_tensors(x) for x in args]
    wanted = [x for x, is_active in zip(args, active, strict=True) if is_active]
    grads = list(found) if isinstance(found, tuple | list) else [found]
    if len(wanted) == 1 and isinstance(wanted[0], tuple | list) and len(grads) != 1:
        grads = [found]  # the gradient has the structure of the only argument
    grads = _active_gradients(grads, active, name)
    if len(grads) != len(wanted):
        raise ValueError(
            f"custom_grad of {name}: needs one cotangent for each input: "
            f"{len(wanted)}, got {len(grads)}"
        )
    pairs = zip(wanted, grads, strict=True)
    return [dx for x, grad in pairs for dx in _gradients_by_leaf(x, grad, name)]


def _has_tensors(tree: Any) -> bool:
    return any(type(x) is Tensor for x in flatten(tree, as_leaf)[0])


def _gradients_by_leaf(tree: Any, grad: Any, name: str) -> Iterator[Tensor | None]:
    """Yield the gradient of each tensor in ``tree``; None stands for zero."""
    what = f"custom_grad of {name}: a gradient must have the structure of its argument"
    leaves, structure = split(tree)
    for x, dx in zip(leaves, structure.match(grad, what, none_fills=True), strict=True):
        if type(as_leaf(x)) is Tensor:
            yield dx
