"""Reverse mode: walk a tape backwards, adding up cotangents.

Gradients are ops, so that outer tapes record them and every order works. Arguments
and results may be nested dicts, lists and tuples of tensors.

Map: ``grad`` and its relatives; ``variable_grads``; ``vjp`` and ``jvp``;
``stop_gradient``; backward itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar, TypeVarTuple, cast

from plugrad.engine import context, dispatch
from plugrad.engine.accelerated import accelerated
from plugrad.engine.tape import Node, Tape, VJPStep, alias, spec
from plugrad.ops import _convert, creation, reduce
from plugrad.ops._convert import asarray
from plugrad.ops.custom import CUSTOM
from plugrad.ops.variable import Variable
from plugrad.registry.backend import OpenBackend
from plugrad.registry.contract import Kernel
from plugrad.tensor.arguments import function
from plugrad.tensor.dtypes import differentiable
from plugrad.tensor.tensor import TapeId, Tensor, TensorLike
from plugrad.tensor.tree import Build, flatten

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
Cotangents = dict[TapeId, Tensor]


# --- gradients of functions ------------------------------------------------------


def grad(f: Callable[P, Any]) -> GradientFunction[P, Any]:
    """Return ``g(x, *rest, dy=None)``: the gradient of ``f`` in its first argument.

    ``f`` returns one floating scalar, unless ``dy`` is given. ``x`` may be a nested
    dict, list or tuple of tensors; the gradient has the same structure, with None for
    integers. Use the argument inside ``f``, not a tensor from outside.

    Raises:
        TypeError: ``x`` holds no floating tensor, or ``f`` returns no floating one.
        ValueError: ``f`` returns no scalar and there is no ``dy``, or it does not fit.
        GradientNotFound: A kernel on the way has no gradient.

    """
    value_and_gradient = value_and_grad(f)
    return lambda *xs, **rest: value_and_gradient(*xs, **rest)[1]


def grads(f: Callable[P, Any]) -> GradientFunction[P, tuple[Any, ...]]:
    """Return ``g(*xs, dy=None)``: the gradients of ``f`` in all arguments, a tuple."""
    value_and_gradients = value_and_grads(f)
    return lambda *xs, **rest: value_and_gradients(*xs, **rest)[1]


def value_and_grad(f: Callable[P, R]) -> GradientFunction[P, tuple[R, Any]]:
    """Return ``g(x, *rest, dy=None)``: the value and the gradient in ``x``."""
    function("grad", f)

    call: Callable[..., Any] = f

    def g(x: Any, *others: Any, dy: Any = None, **rest: Any) -> Any:
        of_x = (lambda x: call(x, *others, **rest)) if others or rest else call
        run = _forward(of_x, (x,))
        return run.value, run.backward(run.seeds(dy))[0]

    return cast("GradientFunction[P, tuple[R, Any]]", g)


def value_and_grads(
    f: Callable[P, R],
) -> GradientFunction[P, tuple[R, tuple[Any, ...]]]:
    """Return ``g(*xs, dy=None)``: the value and the gradients in all ``xs``."""
    function("grads", f)

    def g(*xs: Any, dy: Any = None, **rest: Any) -> Any:
        run = _forward((lambda *xs: f(*xs, **rest)) if rest else f, xs)
        return run.value, run.backward(run.seeds(dy))

    return g


def variable_grads(
    f: Callable[[], Tensor], variables: Iterable[Variable] | None = None
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
    function("variable_grads", f)
    if not isinstance(variables, Iterable | None):
        raise TypeError(f"variable_grads: variables must be a list, got {variables!r}")
    chosen: list[Any] = [] if variables is None else list(variables)
    for v in chosen:
        if not isinstance(v, Variable) or not differentiable(v.dtype):
            raise TypeError(
                f"variable_grads: {v!r} is no floating Variable; make it of floats"
            )
    tape = Tape(variables={} if variables is None else None)
    with context.taping((*context.tapes(), tape)):
        found = {v: v.watched_by(tape) for v in chosen}
        value = f()
    if tape.variables is not None:
        found |= tape.variables
    if not found:
        raise ValueError(
            "variable_grads: f has read no trainable variable; use one in f, or pass "
            "the variables to differentiate in"
        )
    one = _seed(value)
    seeds = {} if value._tape_id is None else {value._tape_id: one}
    cotangents = _backward(tape, seeds, found.values())
    return value, {v: _result(tape_id, cotangents) for v, tape_id in found.items()}


def vjp(f: Callable[[*Xs], R], *xs: *Xs) -> tuple[R, Callable[[Any], tuple[Any, ...]]]:
    """Return ``f(*xs)`` and its pullback: cotangent of the value -> those of ``xs``.

    It can be called again, later, in another thread or scope; integers have None.
    """
    function("vjp", f)
    run = _forward(f, xs)
    return run.value, lambda dy: run.backward(run.seeds_of(dy))


def jvp(f: Callable[..., R], xs: Sequence[Any], vs: Sequence[Any]) -> tuple[R, R]:
    """Return ``f(*xs)`` and its derivative along ``vs``, None beside integers.

    Two vjps: a pullback is linear in ``dy``, and its own pullback is the derivative.

    Raises:
        TypeError: A gradient on the way is not linear in ``dy`` (guided ReLU).

    """
    function("jvp", f)
    for name, given in (("xs", xs), ("vs", vs)):
        if not isinstance(given, list | tuple):
            raise TypeError(
                f"jvp: {name} must be a list of arguments, got {type(given).__name__}"
            )
    run = _forward(f, tuple(xs))
    _, build = flatten(run.value, asarray)
    zeros = build([creation.zeros(y.shape, dtype=y.dtype) for y in run.outputs])
    backward = lambda dy: run.backward(run.seeds_of(dy), linear_only=True)
    transpose = _forward(backward, (zeros,))
    return run.value, transpose.backward(
        transpose.seeds_of(tuple(vs), "jvp: vs, beside xs")
    )[0]


def stop_gradient(x: TensorLike, /) -> Tensor:
    """Return ``x`` as a constant: a new handle on the same array."""
    return alias(asarray(x))


class _Forward(NamedTuple):
    """A function that has run under a tape of its own, ready to be pulled back."""

    value: Any
    outputs: list[Tensor]  # the leaves of the value
    tape: Tape
    wanted: list[TapeId | None]  # of the arguments; None for integers
    build: Build  # the arguments from their leaves

    def seeds(self, dy: Any) -> Cotangents:
        """Return the cotangents of the results; by default that of a scalar, one."""
        if dy is not None:
            return self.seeds_of(dy)
        one, tape_id = _seed(self.value), self.value._tape_id
        return {} if tape_id is None else {tape_id: one}

    def seeds_of(self, dy: Any, what: str = "dy, beside the result of f") -> Cotangents:
        """Return the cotangents of the results, checked against them."""
        dys, _ = flatten(dy, asarray)
        if len(dys) != len(self.outputs):
            raise ValueError(
                f"{what}: expected {_count(len(self.outputs))}, got {_count(len(dys))}"
            )
        found: Cotangents = {}
        for y, part in zip(self.outputs, dys, strict=True):
            if spec(part) != spec(y):
                raise ValueError(
                    f"{what}: expected {_spec_of(y)}, got {_spec_of(part)}"
                )
            if y._tape_id is not None:
                have = found.get(y._tape_id)
                found[y._tape_id] = part if have is None else have + part
        return found

    def backward(self, seeds: Cotangents, *, linear_only: bool = False) -> Any:
        """Return the cotangents of the arguments, in their structure."""
        cotangents = _backward(self.tape, seeds, self.wanted, linear_only)
        return self.build(
            [None if t is None else _result(t, cotangents) for t in self.wanted]
        )


def _forward(f: Callable[..., Any], xs: tuple[Any, ...]) -> _Forward:
    leaves, build = flatten(xs, asarray)
    tape = Tape()
    wanted: list[TapeId | None] = []
    sources = []
    for x in leaves:
        source = dispatch.tracked_alias(x)  # so that what f closes over stays apart
        sources.append(source)
        wanted.append(tape.watch(source) if x.dtype.kind in "fc" else None)
    if not tape.tracked:
        kinds = ", ".join(str(x.dtype) for x in leaves) or "nothing"
        raise TypeError(
            f"grad: there is no floating tensor among the arguments, but {kinds}; cast "
            "one with astype(x, 'float32')"
        )
    value = context.call((*context.tapes(), tape), f, build(sources))
    outputs = [value] if type(value) is Tensor else flatten(value, _no_tensor)[0]
    return _Forward(value, outputs, tape, wanted, build)


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
        raise TypeError(
            f"grad: f must return a floating scalar, got {value.dtype}; integers and "
            "bool have no derivative"
        )
    return alias(_convert.scalar("grad", 1, value.dtype))  # it may be disposed of


# --- backward --------------------------------------------------------------------


def _backward(
    tape: Tape,
    cotangents: Cotangents,
    wanted: Collection[TapeId | None],
    linear_only: bool = False,
) -> Cotangents:
    """Return the cotangents of the wanted tape_ids, from those of the results."""
    backend, tracked = dispatch.active(), tape.tracked
    for node in reversed(tape.nodes):
        _backward_node(node, tracked, cotangents, wanted, backend, linear_only)
    return cotangents


@accelerated
def _backward_node(
    node: Node,
    tracked: set[TapeId | None],
    cotangents: Cotangents,
    wanted: Collection[TapeId | None],
    backend: OpenBackend,
    linear_only: bool,
) -> None:
    """Go back through one node, on the backend that it ran on."""
    outputs = node.outputs
    if cotangents.keys().isdisjoint(outputs):
        return
    dys = tuple([_result(y, cotangents) for y in outputs])
    for y in outputs:
        if y not in wanted:
            cotangents.pop(y, None)
    if node.backend is backend:
        _apply_vjps(node, tracked, dys, cotangents, linear_only)
    else:
        with context.Scope(backend=node.backend):
            _apply_vjps(node, tracked, dys, cotangents, linear_only)


def _apply_vjps(
    node: Node,
    tracked: set[TapeId | None],
    dys: tuple[Any, ...],
    cotangents: Cotangents,
    linear_only: bool,
) -> None:
    """Add what the outputs of one node owe to its inputs."""
    (kernel, _, _, steps), _, inputs, _, values = node
    if kernel.variadic_outputs:
        dys = (list(dys),)
    for step in steps:
        where, function, residuals, _, _ = step
        if isinstance(where, int):
            tape_id = inputs[where]
            if tape_id is None or tape_id not in tracked:
                continue
            if linear_only:
                _check_linear(step)
            dx = function(*dys, *[values[i] for i in residuals])
            dx = _unbroadcast(dx, tape_id, kernel, step)
            have = cotangents.get(tape_id)
            cotangents[tape_id] = dx if have is None else have + dx
        elif not tracked.isdisjoint(tape_ids := inputs[where[0] : where[1]]):
            if linear_only:
                _check_linear(step)
            dxs = function(*dys, *[values[i] for i in residuals])
            _accumulate(dxs, tape_ids, tracked, cotangents, kernel, step)


def _accumulate(
    dxs: Any,
    tape_ids: list[TapeId | None],
    tracked: set[TapeId | None],
    cotangents: Cotangents,
    kernel: Kernel,
    step: VJPStep,
) -> None:
    """Add the cotangents of a variadic input."""
    if not isinstance(dxs, list | tuple) or len(dxs) != len(tape_ids):
        got = len(dxs) if isinstance(dxs, list | tuple) else type(dxs).__name__
        raise ValueError(
            f"{_describe(kernel, step)}: got {got} cotangents for {len(tape_ids)} "
            "inputs"
        )
    for tape_id, dx in zip(tape_ids, dxs, strict=True):
        if tape_id is None or tape_id not in tracked:
            continue
        if dx is not None or kernel is not CUSTOM:
            dx = _unbroadcast(dx, tape_id, kernel, step)
            cotangents[tape_id] = (
                cotangents[tape_id] + dx if tape_id in cotangents else dx
            )


def _check_linear(step: VJPStep) -> None:
    if step.rule is not None and not step.rule.linear:
        raise TypeError(
            f"jvp: {step.rule.origin} is not linear in dy; there is no jvp of it"
        )


def _unbroadcast(dx: Any, tape_id: TapeId, kernel: Kernel, step: VJPStep) -> Tensor:
    """Return ``dx`` summed back to what was broadcast; complain if it still differs."""
    if type(dx) is Tensor and dx.shape == tape_id.shape and dx.dtype == tape_id.dtype:
        return dx
    if kernel.broadcasts and isinstance(dx, Tensor) and dx.dtype == tape_id.dtype:
        lead = len(dx.shape) - len(tape_id.shape)
        if lead >= 0 and all(
            n in (1, m) for n, m in zip(tape_id.shape, dx.shape[lead:], strict=True)
        ):
            return reduce.sum_to(dx, tape_id.shape)
    got = _spec_of(dx) if isinstance(dx, Tensor) else type(dx).__name__
    raise ValueError(
        f"{_describe(kernel, step)}: expected {_spec_of(tape_id)}, like the input, "
        f"got {got}"
    )


def _spec_of(x: Tensor | TapeId) -> str:
    """Return what a message says of a tensor."""
    return f"shape {x.shape} {x.dtype}"


def _count(n: int) -> str:
    return f"{n} tensor{'s' * (n != 1)}"


def _describe(kernel: Kernel, step: VJPStep) -> str:
    origin = step.rule.origin if step.rule else "nobody"
    if kernel is CUSTOM:
        return origin
    return f"gradient of {kernel.name} for {step.name!r}, from {origin}"


def _result(tape_id: TapeId, cotangents: Cotangents) -> Tensor:
    """Return the cotangent; zeros where nobody supplied one."""
    found = cotangents.get(tape_id)
    if found is None:
        return creation.zeros(tape_id.shape, dtype=tape_id.dtype)
    return found
