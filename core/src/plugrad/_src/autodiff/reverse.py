"""Reverse mode: the functions that differentiate functions.

Arguments and results may be trees of tensors (``plugrad.tree``). ``backward`` walks the
tape.

Contents: ``grad`` and similar functions; ``variable_grads``; ``vjp`` and ``jvp``;
``stop_gradient``; the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import (
    Any,
    NamedTuple,
    ParamSpec,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
)

from plugrad._src.engine import context, dispatch
from plugrad._src.engine.tape import Tape, alias, keep, new, spec
from plugrad._src.ops.basis import _convert, creation
from plugrad._src.ops.basis._convert import asarray
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.tensor.arguments import flag, function, integers
from plugrad._src.tensor.dtypes import differentiable, dtype_kind
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import TapeId, Tensor, TensorLike
from plugrad._src.tensor.tree import (
    LEAF,
    Build,
    Structure,
    describe,
    flatten,
    kind_of,
    split,
)

from .backward import Cotangents, backward, result
from .mistakes import (
    check_leaves,
    check_scalar,
    refuse_non_tensor,
    spec_text,
    warn_if_lost,
    warn_if_read,
)
from .signatures import GradientFunction

__all__ = [
    "grad",
    "grads",
    "jvp",
    "stop_gradient",
    "value_and_grad",
    "value_and_grads",
    "variable_grads",
    "vjp",
]

P = ParamSpec("P")
R = TypeVar("R")
Xs = TypeVarTuple("Xs")
Argnums = int | Sequence[int]


# --- gradients of functions ------------------------------------------------------


def grad(
    f: Callable[P, Any],
    *,
    argnums: Argnums = 0,
    has_aux: bool = False,
    **unknown: Unpack[Nothing],
) -> GradientFunction[P, Any]:
    """Return ``g(x, *rest, dy=None)``, the gradient of ``f`` with respect to ``x``.

    ``x`` may be a tree of tensors: nested dicts, lists, tuples, dataclasses and objects
    of registered classes (``plugrad.tree``). The gradient has the same structure, with
    None for integers. Use the argument inside ``f``: a tensor from outside ``f`` is a
    constant.

    Args:
        f: A function that returns one floating scalar, or any floating tensors if
            ``dy``, the cotangents of the result, is passed to ``g``.
        argnums: The position of the argument with respect to which ``f`` is
            differentiated, or several positions; then the gradients are a tuple.
        has_aux: Whether ``f`` returns ``(value, aux)``. Only the value is
            differentiated.

    Returns:
        A function that takes the arguments of ``f`` and returns the gradient; with
        ``has_aux`` it returns ``(gradient, aux)``.

    Raises:
        TypeError: ``x`` contains no floating tensor, or ``f`` does not return a
            floating tensor.
        ValueError: ``f`` does not return a scalar and there is no ``dy``, or ``dy``
            does not fit.
        GradientNotFound: A kernel that ``f`` runs has no gradient.

    Example:
        >>> pg.grad(lambda x: pg.sum(x * x))(pg.asarray([1.0, 2.0]))
        Tensor([2., 4.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(grad, unknown)
    both: Any = value_and_grad(f, argnums=argnums, has_aux=has_aux)
    if not has_aux:
        return lambda *xs, **rest: both(*xs, **rest)[1]

    def g(*xs: Any, **rest: Any) -> Any:
        (_, aux), gradient = both(*xs, **rest)
        return gradient, aux

    return cast("GradientFunction[P, Any]", g)


def grads(
    f: Callable[P, Any], **unknown: Unpack[Nothing]
) -> GradientFunction[P, tuple[Any, ...]]:
    """Return ``g(*xs, dy=None)``, the gradients of ``f`` with respect to all ``xs``.

    Args:
        f: A function that returns one floating scalar, or any floating tensors if
            ``dy`` is passed to ``g``.

    Returns:
        A function that takes the arguments of ``f`` and returns a tuple of gradients,
        one for each argument.

    Raises:
        TypeError: No argument contains a floating tensor, or ``f`` does not return one.
        ValueError: ``f`` does not return a scalar and there is no ``dy``, or ``dy``
            does not fit.
        GradientNotFound: A kernel that ``f`` runs has no gradient.

    Example:
        >>> dx, dy = pg.grads(lambda x, y: x * y)(2.0, 3.0)
        >>> dx.item(), dy.item()
        (3.0, 2.0)

    """
    if unknown:
        raise unexpected(grads, unknown)
    value_and_gradients = value_and_grads(f)
    return lambda *xs, **rest: value_and_gradients(*xs, **rest)[1]


def value_and_grad(
    f: Callable[P, R],
    *,
    argnums: Argnums = 0,
    has_aux: bool = False,
    **unknown: Unpack[Nothing],
) -> GradientFunction[P, tuple[R, Any]]:
    """Return ``g(x, *rest, dy=None)``, the value of ``f`` and its gradient.

    Args:
        f: A function that returns one floating scalar, or any floating tensors if
            ``dy`` is passed to ``g``.
        argnums: The position of the argument with respect to which ``f`` is
            differentiated, or several positions; then the gradients are a tuple.
        has_aux: Whether ``f`` returns ``(value, aux)``. Only the value is
            differentiated.

    Returns:
        A function that takes the arguments of ``f`` and returns the value, and the
        gradient that ``grad`` would return.

    Raises:
        TypeError: ``x`` contains no floating tensor, or ``f`` does not return a
            floating tensor.
        ValueError: ``f`` does not return a scalar and there is no ``dy``, or ``dy``
            does not fit.
        GradientNotFound: A kernel that ``f`` runs has no gradient.

    Example:
        >>> value, gradient = pg.value_and_grad(lambda x: x * x)(3.0)
        >>> value.item(), gradient.item()
        (9.0, 6.0)

    """
    if unknown:
        raise unexpected(value_and_grad, unknown)
    function("grad", f)
    call: Callable[..., Any] = f
    if argnums != 0 or flag("grad", "has_aux", has_aux):
        return cast(
            "GradientFunction[P, tuple[R, Any]]",
            _select_argnums(call, argnums, has_aux),
        )

    def g(x: Any, *others: Any, dy: Any = None, **rest: Any) -> Any:
        of_x = (lambda x: call(x, *others, **rest)) if others or rest else call
        run = _forward(of_x, (x,), call)
        return run.value, run.backward(run.seeds(dy))[0]

    return cast("GradientFunction[P, tuple[R, Any]]", g)


def _select_argnums(f: Callable[..., Any], argnums: Argnums, has_aux: bool) -> Any:
    """Return ``value_and_grad`` for some arguments, with ``aux`` if ``has_aux``."""
    numbers = integers("grad", "argnums", argnums)

    def g(*xs: Any, dy: Any = None, **rest: Any) -> Any:
        found: list[Any] = []
        if not all(-len(xs) <= n < len(xs) for n in numbers):
            raise ValueError(
                f"grad: argnums {argnums} is out of range for {len(xs)} positional "
                "arguments"
            )
        if len({n % len(xs) for n in numbers}) < len(numbers):
            raise ValueError(f"grad: argnums {argnums} names one argument twice")

        def with_selected(*chosen: Any) -> Any:
            given = list(xs)
            for n, x in zip(numbers, chosen, strict=True):
                given[n] = x
            value = f(*given, **rest)
            if not has_aux:
                return value
            if not isinstance(value, tuple) or len(value) != 2:
                raise TypeError(
                    f"grad: with has_aux=True f must return (value, aux), got {value!r}"
                )
            found.append(value[1])
            return value[0]

        run = _forward(with_selected, tuple([xs[n] for n in numbers]), f)
        gradients = run.backward(run.seeds(dy))
        value = (run.value, found[-1]) if has_aux else run.value
        return value, gradients[0] if isinstance(argnums, int) else gradients

    return g


def value_and_grads(
    f: Callable[P, R], **unknown: Unpack[Nothing]
) -> GradientFunction[P, tuple[R, tuple[Any, ...]]]:
    """Return ``g(*xs, dy=None)``, the value of ``f`` and its gradients.

    Args:
        f: A function that returns one floating scalar, or any floating tensors if
            ``dy`` is passed to ``g``.

    Returns:
        A function that takes the arguments of ``f`` and returns the value, and the
        gradients that ``grads`` would return.

    Raises:
        TypeError: No argument contains a floating tensor, or ``f`` does not return one.
        ValueError: ``f`` does not return a scalar and there is no ``dy``, or ``dy``
            does not fit.
        GradientNotFound: A kernel that ``f`` runs has no gradient.

    Example:
        >>> value, (dx, dy) = pg.value_and_grads(lambda x, y: x * y)(2.0, 3.0)
        >>> value.item(), dx.item(), dy.item()
        (6.0, 3.0, 2.0)

    """
    if unknown:
        raise unexpected(value_and_grads, unknown)
    function("grads", f)

    def g(*xs: Any, dy: Any = None, **rest: Any) -> Any:
        run = _forward((lambda *xs: f(*xs, **rest)) if rest else f, xs, f)
        return run.value, run.backward(run.seeds(dy))

    return g


def variable_grads(
    f: Callable[[], Tensor], variables: Iterable[Variable] | None = None
) -> tuple[Tensor, dict[Variable, Tensor]]:
    """Return ``f()`` and its gradients with respect to the variables that it reads.

    Args:
        f: A function without arguments that returns one floating scalar.
        variables: The variables with respect to which ``f`` is differentiated; by
            default all trainable variables that ``f`` reads. The gradient of a variable
            that ``f`` does not read is zero.

    Returns:
        The value, and a dict from variable to gradient. If ``f`` assigns a variable
        after reading it, the gradient is with respect to the value that it read.

    Raises:
        TypeError: A variable is not floating, or ``f`` does not return a floating
            tensor.
        ValueError: ``f`` reads no trainable variable, or does not return a scalar.
        GradientNotFound: A kernel that ``f`` runs has no gradient.

    Example:
        >>> v = pg.Variable(3.0)
        >>> value, gradients = pg.variable_grads(lambda: v * v)
        >>> gradients[v]
        Tensor(6., dtype=float32, backend='cpu')

    """
    function("variable_grads", f)
    if variables is not None and not isinstance(variables, Iterable):
        raise TypeError(f"variable_grads: variables must be a list, got {variables!r}")
    chosen: list[Any] = [] if variables is None else list(variables)
    for v in chosen:
        if not isinstance(v, Variable) or not differentiable(v.dtype):
            error = TypeError(
                f"variable_grads: {v!r} is not a floating Variable; create it with a "
                "floating dtype"
            )
            raise explained(error, "integers-have-no-derivative")
    tape = Tape(variables={} if variables is None else None)
    found = {v: v.watched_by(tape) for v in chosen}
    value = context.call((*context.tapes(), tape), f, ())
    if tape.variables is not None:
        found |= tape.variables
    if not found:
        raise ValueError(
            "variable_grads: f has read no trainable variable; use one in f, or pass "
            "variables="
        )
    one = _seed(value)
    if value._tape_id not in tape.tracked:
        warn_if_read(tape)
    seeds = {} if value._tape_id is None else {value._tape_id: one}
    cotangents = backward(tape, seeds, found.values())
    return value, {v: result(tape_id, cotangents) for v, tape_id in found.items()}


def vjp(
    f: Callable[[*Xs], R], *xs: *Xs, **unknown: Unpack[Nothing]
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]:
    """Return ``f(*xs)`` and a pullback from its cotangents to those of ``xs``.

    The pullback can be called several times, later, and in another thread or scope.

    Args:
        f: A function that returns floating tensors.
        xs: Its arguments: trees of tensors (``plugrad.tree``).

    Returns:
        The value, and a function that takes a cotangent of the value and returns a
        tuple of cotangents, one for each argument; None for integers.

    Raises:
        TypeError: No argument holds a floating tensor, or ``f`` does not return
            tensors.
        ValueError: The cotangent does not have the structure, shape and dtype of the
            value; raised by the pullback.
        GradientNotFound: A kernel that ``f`` runs has no gradient; raised by the
            pullback.

    Example:
        >>> y, pullback = pg.vjp(lambda x: x * x, pg.asarray([1.0, 2.0]))
        >>> (dx,) = pullback(pg.asarray([1.0, 10.0]))
        >>> dx
        Tensor([ 2., 40.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(vjp, unknown)
    function("vjp", f)
    run = _forward(f, xs)
    keep(run.tape)  # ``explain`` reads it
    return run.value, lambda dy: run.backward(run.seeds_of(dy))


def jvp(
    f: Callable[..., R],
    xs: Sequence[Any],
    vs: Sequence[Any],
    **unknown: Unpack[Nothing],
) -> tuple[R, R]:
    """Return ``f(*xs)`` and its derivative along ``vs``.

    It is computed by two vjps: a pullback is linear in ``dy``, so the pullback of the
    pullback is the derivative.

    Args:
        f: A function that returns floating tensors.
        xs: A list of its arguments.
        vs: A list of tangents with the shapes and dtypes of ``xs``; None for integers.

    Returns:
        The value, and the tangent of the value.

    Raises:
        TypeError: ``xs`` or ``vs`` is not a list or tuple, or the gradient of a kernel
            that ``f`` runs is not linear in ``dy`` (such as guided ReLU).
        ValueError: ``vs`` does not match ``xs``.
        GradientNotFound: A kernel that ``f`` runs has no gradient.

    Example:
        >>> y, dy = pg.jvp(lambda x: x * x, [3.0], [1.0])
        >>> y.item(), dy.item()
        (9.0, 6.0)

    """
    if unknown:
        raise unexpected(jvp, unknown)
    function("jvp", f)
    for name, given in (("xs", xs), ("vs", vs)):
        if not isinstance(given, list | tuple):
            raise TypeError(
                f"jvp: {name} must be a list of arguments, got {type(given).__name__}"
            )
    run = _forward(f, tuple(xs))
    zeros = run.structure([creation.zeros(y.shape, dtype=y.dtype) for y in run.outputs])
    backward = lambda dy: run.backward(run.seeds_of(dy), linear_only=True)
    transpose = _forward(backward, (zeros,))
    return run.value, transpose.backward(
        transpose.seeds_of(tuple(vs), "jvp: vs must match xs")
    )[0]


def stop_gradient(x: TensorLike, /) -> Tensor:
    """Return ``x`` as a constant: an alias of the same values that no tape tracks.

    Args:
        x: A tensor of any dtype.

    Returns:
        A tensor of the shape and dtype of ``x``.

    Example:
        >>> pg.grad(lambda x: x * pg.stop_gradient(x))(3.0)
        Tensor(3., dtype=float32, backend='cpu')

    """
    x = asarray(x)
    level = context.current().level
    if level is None:
        return alias(x)
    inner, batched = level.unwrap(x)  # outer tapes track the batch
    with level.outside():
        inner = stop_gradient(inner)
    return cast(Tensor, level.wrap(inner, batched))


class _Forward(NamedTuple):
    """A function that has run under a tape of its own, ready for backward."""

    value: Any
    outputs: list[Tensor]  # the leaves of the value
    structure: Structure  # the structure of the value
    tape: Tape
    wanted: list[TapeId | None]  # one for each leaf of the arguments; None for integers
    build: Build  # rebuilds the arguments from their leaves

    def seeds(self, dy: Any) -> Cotangents:
        """Return the cotangents of the results: ``dy``, or 1 for a scalar result."""
        if dy is not None:
            return self.seeds_of(dy)
        one = _seed(self.value)
        tape_id = self.value._tape_id
        return {} if tape_id is None else {tape_id: one}

    def seeds_of(self, dy: Any, what: str = "dy must match f(x)") -> Cotangents:
        """Return ``dy`` as the cotangents of the results; raise if it does not fit."""
        dys = self.structure.match(dy, what)
        found: Cotangents = {}
        for i, (y, dy) in enumerate(zip(self.outputs, dys, strict=True)):
            part = None if kind_of(dy) else asarray(dy)
            if part is None or spec(part) != spec(y):
                at = f" at {path}" if (path := self.structure.paths()[i]) else ""
                got = describe(dy) if part is None else spec_text(part)
                raise ValueError(f"{what}{at}: expected {spec_text(y)}, got {got}")
            if y._tape_id is not None:
                have = found.get(y._tape_id)
                found[y._tape_id] = part if have is None else have + part
        return found

    def backward(self, seeds: Cotangents, *, linear_only: bool = False) -> Any:
        """Return the cotangents of the arguments, in their structure."""
        cotangents = backward(self.tape, seeds, self.wanted, linear_only)
        return self.build(
            [None if t is None else result(t, cotangents) for t in self.wanted]
        )


def _forward(
    f: Callable[..., Any], xs: tuple[Any, ...], inner: Callable[..., Any] | None = None
) -> _Forward:
    """Run ``f`` under a tape; ``inner`` is the user's function if ``f`` wraps it."""
    try:
        leaves, build = flatten(xs, asarray)
    except TypeError:
        check_leaves(xs)
        raise
    tape = Tape()
    wanted: list[TapeId | None] = []
    sources = []
    for x in leaves:
        source = dispatch.tracked_alias(x)  # a captured x is a constant, not this input
        sources.append(source)
        wanted.append(tape.watch_own(source) if dtype_kind(x.dtype) in "fc" else None)
    is_empty = bool(xs) and not leaves  # such as a list without tensors
    if not (tape.tracked or is_empty):
        kinds = ", ".join(str(x.dtype) for x in leaves) or "nothing"
        error = TypeError(
            "grad: expected at least one floating tensor among the arguments, got "
            f"{kinds}; cast one with astype(x, 'float32')"
        )
        raise explained(error, "integers-have-no-derivative")
    value = context.call((*context.tapes(), tape), f, build(sources))
    outputs, structure = ([value], LEAF) if type(value) is Tensor else split(value)
    found = [y._tape_id if type(y) is Tensor else refuse_non_tensor(y) for y in outputs]
    if tape.tracked.isdisjoint(found) and not is_empty:
        warn_if_lost(inner or f, xs, tape)
    return new(_Forward, (value, outputs, structure, tape, wanted, build))


def _seed(value: Any) -> Tensor:
    """Return 1, the cotangent of a scalar result; raise if it is not a scalar."""
    check_scalar(value)
    return alias(_convert.scalar("grad", 1, value.dtype))  # the user may dispose of it
