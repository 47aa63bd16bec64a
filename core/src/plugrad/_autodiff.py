"""Reverse mode: walk a tape backwards, adding up cotangents.

Gradients are ops, so that outer tapes record them and every order works. Arguments
and results may be nested dicts, lists and tuples of tensors.

Map: ``grad`` and its relatives; ``variable_grads``; ``vjp``, ``jvp``; ``custom_grad``,
``stop_gradient``; backward itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from . import _engine
from ._dtypes import differentiable
from ._kernel import GradientNotFound, Kernel, Rule, Spec
from ._nest import flatten
from ._tape import Node, Plan, Step, Tape, concerned, record, restore, spec
from ._tensor import Tensor, TensorLike, Token
from .ops import creation, reduce
from .ops._convert import asarray
from .ops.variable import Variable

F = TypeVar("F", bound=Callable[..., Any])
Cotangents = dict[Token, Tensor]


# --- gradients of functions ------------------------------------------------------


def grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``g(x, *rest, dy=None)``: the gradient of ``f`` in its first argument.

    ``f`` returns one floating scalar, unless ``dy`` is given. ``x`` may be a nested
    dict, list or tuple of tensors; the gradient has the same structure, with None for
    integers. Use the argument inside ``f``, not a tensor from outside.

    Raises:
        TypeError: ``x`` holds no floating tensor, or ``f`` returns no floating one.
        ValueError: ``f`` returns no scalar and there is no ``dy``, or it does not fit.
        GradientNotFound: A kernel on the way has no gradient.

    """
    return lambda *xs, dy=None, **rest: value_and_grad(f)(*xs, dy=dy, **rest)[1]


def grads(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``g(*xs, dy=None)``: the gradients of ``f`` in all arguments, a tuple."""
    return lambda *xs, dy=None, **rest: value_and_grads(f)(*xs, dy=dy, **rest)[1]


def value_and_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``g(x, *rest, dy=None)``: the value and the gradient in ``x``."""

    def g(x: Any, *others: Any, dy: Any = None, **rest: Any) -> Any:
        value, pullback = _vjp(lambda x: f(x, *others, **rest), (x,))
        return value, pullback(_seed(value) if dy is None else dy)[0]

    return g


def value_and_grads(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``g(*xs, dy=None)``: the value and the gradients in all ``xs``."""

    def g(*xs: Any, dy: Any = None, **rest: Any) -> Any:
        value, pullback = _vjp(lambda *xs: f(*xs, **rest), xs)
        return value, pullback(_seed(value) if dy is None else dy)

    return g


def variable_grads(
    f: Callable[[], Any], variables: Iterable[Variable] | None = None
) -> tuple[Tensor, dict[Variable, Tensor]]:
    """Return ``f()`` and its gradients in the variables that it reads.

    Args:
        f: Returns one floating scalar.
        variables: Differentiate in these; by default in all trainable ones that ``f``
            reads. One that ``f`` does not read has the gradient zero.

    Returns:
        The value, and a dict from variable to gradient. If ``f`` assigns a variable
        that it has read, the gradient is that in the value from before.

    """
    chosen = None if variables is None else list(variables)
    for v in chosen or ():
        if not isinstance(v, Variable) or not differentiable(v.dtype):
            raise TypeError(f"variable_grads: {v!r} is no floating Variable")
    tape = Tape(variables={} if chosen is None else None)
    with _engine.taping((*_engine.tapes(), tape)):
        found = {v: tape.watch(v.value) for v in chosen or ()}
        value = f()
    found |= tape.variables or {}
    if not found:
        raise ValueError("variable_grads: f has read no trainable variable")
    cotangents = _backward(tape, _seeds([value], _seed(value)), set(found.values()))
    return value, {v: _result(token, cotangents) for v, token in found.items()}


def vjp(f: Callable[..., Any], *xs: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return ``f(*xs)`` and its pullback: cotangent of the value -> those of ``xs``.

    The pullback may be called any number of times, later, in another thread or scope.
    """
    return _vjp(f, xs)


def jvp(f: Callable[..., Any], xs: Sequence[Any], vs: Sequence[Any]) -> tuple[Any, Any]:
    """Return ``f(*xs)`` and its derivative along ``vs``.

    Two vjps: a pullback is linear in ``dy``, and its own pullback is the derivative.

    Raises:
        TypeError: A gradient on the way is not linear in ``dy`` (guided ReLU).

    """
    value, pullback = _vjp(f, tuple(xs), linear_only=True)
    leaves, build = flatten(value, asarray)
    zeros = build([creation.zeros(y.shape, dtype=y.dtype) for y in leaves])
    _, transposed = _vjp(pullback, (zeros,))
    return value, transposed(tuple(vs))[0]


def stop_gradient(x: TensorLike, /) -> Tensor:
    """Return ``x`` as a constant: a new handle on the same array."""
    return asarray(x)._sibling()


def _vjp(
    f: Callable[..., Any], xs: tuple[Any, ...], *, linear_only: bool = False
) -> tuple[Any, Callable[[Any], Any]]:
    leaves, build = flatten(xs, asarray)
    if not any(differentiable(x.dtype) for x in leaves):
        kinds = ", ".join(str(x.dtype) for x in leaves) or "nothing"
        raise TypeError(
            f"grad: there is no floating tensor among the arguments, but {kinds}; cast "
            "one with astype(x, 'float32')"
        )
    tape = Tape()
    sources = [_engine.handle(x) for x in leaves]  # what f closes over stays apart
    wanted = [tape.watch(x) if differentiable(x.dtype) else None for x in sources]
    with _engine.taping((*_engine.tapes(), tape)):
        value = f(*build(sources))
    outputs, _ = flatten(value, _no_tensor)

    def pullback(dy: Any) -> Any:
        seeds = _seeds(outputs, dy)
        cotangents = _backward(tape, seeds, set(wanted), linear_only)
        return build([token and _result(token, cotangents) for token in wanted])

    return value, pullback


def _no_tensor(value: object) -> Tensor:
    raise TypeError(
        f"grad: f must return tensors, got {type(value).__name__}; a function of "
        "tensors that leaves plugrad (item, numpy) has no gradient"
    )


def _seed(value: Any) -> Tensor:
    """Return the cotangent one of a scalar."""
    if not isinstance(value, Tensor):
        _no_tensor(value)
    if value.shape:
        raise ValueError(
            f"grad: f must return a scalar, got shape {value.shape}; take a sum or a "
            "mean of it, or pass dy="
        )
    if not differentiable(value.dtype):
        raise TypeError(f"grad: f must return a floating scalar, got {value.dtype}")
    return creation.ones((), dtype=value.dtype)


def _seeds(outputs: list[Tensor], dy: Any) -> Cotangents:
    """Return the cotangents of the results, checked against them."""
    dys, _ = flatten(dy, asarray)
    if len(dys) != len(outputs):
        raise ValueError(f"dy: f returns {len(outputs)} tensors, dy holds {len(dys)}")
    found: Cotangents = {}
    for y, part in zip(outputs, dys, strict=True):
        if spec(part) != spec(y):
            raise ValueError(
                f"dy: expected {spec(y)}, like the result, got {spec(part)}"
            )
        if y._token is not None:
            found[y._token] = part + found[y._token] if y._token in found else part
    return found


# --- gradients by hand -----------------------------------------------------------


def custom_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``f`` with a gradient of its own: ``f(*xs)`` gives (value, grad_func).

    ``grad_func(*dys)`` returns one gradient an argument, None where there is none. The
    innermost tape does not see inside ``f``; outer ones do, so that what ``grad_func``
    captures has a history and every order of derivative is right.
    """
    name = getattr(f, "__qualname__", repr(f))

    @functools.wraps(f)
    def g(*xs: Any) -> Any:
        inputs = tuple([asarray(x) for x in xs])
        watching = _engine.tapes()
        if watching:
            with _engine.taping(watching[:-1]):
                found = f(*inputs)
        else:
            found = f(*inputs)
        value, grad_func, several = _unpack(found, name)
        outputs = tuple([y._sibling() for y in value])
        tapes, mask = concerned(watching, inputs)
        if mask:
            pull_back = lambda dys: _listed(grad_func(*dys))
            rule = Rule(pull_back, (), "user", origin=f"custom_grad of {name}")
            plan = Plan(_CUSTOM, (), (Step("xs", (0, len(inputs)), rule, ()),))
            record(tapes, plan, _engine.active(), inputs, {}, outputs)
        return outputs if several else outputs[0]

    return g


_CUSTOM = Kernel("plugrad.CustomGradient", "*xs", outputs="*ys")


def _unpack(found: Any, name: str) -> tuple[tuple[Tensor, ...], Any, bool]:
    """Check what the function given to ``custom_grad`` returned."""
    if not (isinstance(found, tuple) and len(found) == 2 and callable(found[1])):
        raise TypeError(
            f"custom_grad: {name} must return (value, grad_func), got {found!r}"
        )
    several = isinstance(found[0], tuple | list)
    values = tuple(found[0]) if several else (found[0],)
    for value in values:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"custom_grad: {name} must return tensors, got {type(value).__name__}"
            )
    return values, found[1], several


def _listed(found: Any) -> list[Tensor | None]:
    return list(found) if isinstance(found, list | tuple) else [found]


# --- backward --------------------------------------------------------------------


def _backward(
    tape: Tape,
    cotangents: Cotangents,
    wanted: set[Token | None],
    linear_only: bool = False,
) -> Cotangents:
    """Return the cotangents of the wanted tokens, from those of the results."""
    backend = _engine.active()
    for node in reversed(tape.nodes):
        if cotangents.keys().isdisjoint(node.outputs):
            continue
        if node.backend is backend:
            _pull_back(node, tape, cotangents, wanted, linear_only)
        else:
            with _engine.Scope(backend=node.backend):
                _pull_back(node, tape, cotangents, wanted, linear_only)
    return cotangents


def _pull_back(
    node: Node,
    tape: Tape,
    cotangents: Cotangents,
    wanted: set[Token | None],
    linear_only: bool,
) -> None:
    """Add what the outputs of one node owe to its inputs, and forget their own."""
    kernel = node.plan.kernel
    dys: Any = [
        cotangents[y] if y in cotangents else _zeros(y)  # nobody supplied one
        for y in node.outputs
    ]
    for y in node.outputs:
        if y not in wanted:
            cotangents.pop(y, None)
    values = restore(node)
    dys = [dys] if kernel.variadic_outputs else dys
    for step in node.plan.steps:
        where = step.where
        tokens = (
            (node.inputs[where],) if type(where) is int else node.inputs[slice(*where)]
        )
        if not any(token in tape.tracked for token in tokens):
            continue
        rule = _rule(step, kernel, linear_only)
        dxs = rule.function(*dys, *[values[i] for i in step.saved])
        if type(where) is int:
            dxs = (dxs,)
        elif len(dxs) != len(tokens):
            raise ValueError(
                f"{_of(kernel, step)}: got {len(dxs)} cotangents for {len(tokens)} inputs"
            )
        for token, dx in zip(tokens, dxs, strict=True):
            if token not in tape.tracked or (dx is None and kernel is _CUSTOM):
                continue
            if not (
                type(dx) is Tensor
                and dx.shape == token.shape
                and dx.dtype is token.dtype
            ):
                dx = _fitted(dx, token, kernel, step)
            have = cotangents.get(token)
            cotangents[token] = dx if have is None else have + dx


def _rule(step: Step, kernel: Kernel, linear_only: bool) -> Rule:
    rule = step.rule
    if rule is None:
        raise GradientNotFound(
            f"{kernel.name}: nobody has written its gradient for input {step.name!r} "
            f"({kernel}); register_gradient({kernel.name!r}, {step.name}=...)"
        )
    if linear_only and not rule.linear:
        raise TypeError(
            f"jvp: {rule.origin} is not linear in dy; there is no jvp of it"
        )
    return rule


def _fitted(dx: Any, token: Token, kernel: Kernel, step: Step) -> Tensor:
    """Return ``dx`` summed back to what was broadcast; complain if it still differs."""
    expected = Spec(token.shape, token.dtype)
    if isinstance(dx, Tensor) and spec(dx) == expected:
        return dx
    if kernel.broadcasts and isinstance(dx, Tensor) and dx.dtype == token.dtype:
        lead = len(dx.shape) - len(token.shape)
        if lead >= 0 and all(
            n in (1, m) for n, m in zip(token.shape, dx.shape[lead:], strict=True)
        ):
            return reduce.sum_to(dx, token.shape)
    got = spec(dx) if isinstance(dx, Tensor) else type(dx).__name__
    raise ValueError(f"{_of(kernel, step)}: expected {expected}, got {got}")


def _of(kernel: Kernel, step: Step) -> str:
    origin = step.rule.origin if step.rule else "nobody"
    return f"gradient of {kernel.name} for {step.name!r}, from {origin}"


def _zeros(token: Token) -> Tensor:
    return creation.zeros(token.shape, dtype=token.dtype)


def _result(token: Token, cotangents: Cotangents) -> Tensor:
    found = cotangents.get(token)
    return _zeros(token) if found is None else found
