"""Detect mistakes in calls of ``grad``: wrong leaves, captured tensors, read values.

``grad(lambda x: sum(t))(t)`` is zero: ``t`` is a constant, and ``x`` is not used. But a
zero gradient can also be correct. So ``grad`` warns only if the result depends on no
argument and the function refers to a tensor with the values of an argument. It looks
for such a tensor only if the first condition holds.

The same holds for values that leave plugrad. Results computed from ``x.numpy()`` have
no gradient, but reading a value for a log or a decision is fine. So ``grad`` warns only
if the result depends on no argument; ``debug`` raises an error at the line that reads.

Contents: ``check_leaves``; ``warn_if_lost`` and ``warn_if_read``; ``_notice_read``;
checks of results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from plugrad._src.engine.context import notify, tapes
from plugrad._src.engine.tape import Guard, Tape, VJPStep, tapes_tracking
from plugrad._src.ops.basis._convert import asarray
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.ops.custom import CUSTOM
from plugrad._src.registry.contract import Kernel
from plugrad._src.registry.deprecation import line_outside, outside
from plugrad._src.tensor.dtypes import differentiable
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tensor import TapeId, Tensor
from plugrad._src.tensor.tree import split


def check_leaves(xs: tuple[Any, ...]) -> None:
    """Raise an error that names the first leaf that cannot be made a tensor."""
    leaves, structure = split(xs)
    for path, x in zip(structure.paths(), leaves, strict=True):
        try:
            asarray(x)
        except TypeError as error:
            raise TypeError(
                f"grad: argument {path}: {error}; put a value that is not a tensor "
                "in a static field of a dataclass (plugrad.tree), or in a closure"
            ) from None


def warn_if_lost(f: Callable[..., Any], xs: tuple[Any, ...], tape: Tape) -> None:
    """Warn if the result of ``f`` does not depend on ``xs`` because of a mistake."""
    if not warn_if_read(tape):
        _warn_if_captured(f, xs)


def warn_if_read(tape: Tape) -> bool:
    """Warn if values left plugrad while the tape recorded; return whether they did."""
    read = getattr(tape, "read", None)
    if read:
        warnings.warn(
            f"grad: the gradient is zero, because the result does not depend on the "
            f"argument, whose values were read by {read}; results computed from them "
            "have no gradient: use the ops of plugrad, or wrap the function in "
            "custom_grad; read stop_gradient(x) if no gradient is wanted",
            stacklevel=outside(),
        )
    return bool(read)


def _warn_if_captured(f: Callable[..., Any], xs: tuple[Any, ...]) -> None:
    """Warn if ``f`` refers to a tensor of ``xs``."""
    if str(getattr(f, "__module__", "")).partition(".")[0] == "plugrad":
        return  # a wrapper of plugrad, which refers to the other arguments
    from plugrad._src.engine.code import code_of
    from plugrad._src.engine.references import References

    wanted = {id(values) for x in split(xs)[0] if (values := _values(x)) is not None}
    found = References([f], code_of(f, str(getattr(f, "__module__", ""))))
    for place in found.places:
        for n, value in enumerate(place.values):
            if id(_values(value)) in wanted:
                warnings.warn(
                    "grad: the gradient is zero, because f does not use its argument "
                    f"but {place.describe(n)}, the same tensor, which is a constant "
                    "inside f; use the argument of f in its place",
                    stacklevel=outside(),
                )
                return


def _values(x: Any) -> Any:
    """Return the object that holds the values of ``x``; None if ``x`` has no values."""
    if isinstance(x, Variable):
        x = x._value
    if isinstance(x, Tensor):
        return x._data
    return x if isinstance(x, np.ndarray) else None


# --- values that are read --------------------------------------------------------

ARRAY = "np.asarray()"


def _notice_read(x: Tensor, reader: str) -> None:
    """Record, on the tapes that track ``x``, that ``reader`` reads its values.

    ``custom_grad`` functions may read values, because they define their own gradient.
    """
    in_force = tapes()
    tracking = tapes_tracking(in_force, (x,))[0]
    if not tracking or Guard in map(type, in_force):
        return
    notify("read", f"{reader} of a tensor of shape {x.shape}")
    if reader != ARRAY:  # np.asarray() itself warns
        for tape in tracking:
            if not hasattr(tape, "read"):
                tape.read = f"{reader} at {line_outside()}"


Tensor._notice_read = _notice_read


def refuse_non_tensor(value: object) -> NoReturn:
    """Raise the error for a function whose result is not a tensor."""
    raise TypeError(
        f"grad: f must return tensors, got {type(value).__name__}; values that leave "
        "plugrad (item, numpy) have no gradient"
    )


def check_scalar(value: Any) -> None:
    """Raise unless the result of a function is a floating scalar."""
    if not isinstance(value, Tensor):
        refuse_non_tensor(value)
    if value.shape:
        error = ValueError(
            f"grad: f must return a scalar, got shape {value.shape}; take a sum or a "
            "mean of it, or pass dy="
        )
        raise explained(error, "result-is-not-a-scalar")
    if not differentiable(value.dtype):
        wrong = TypeError(
            f"grad: f must return a floating scalar, got {value.dtype}; integers and "
            "bool have no derivative"
        )
        raise explained(wrong, "integers-have-no-derivative")


def spec_text(x: Tensor | TapeId) -> str:
    """Return the shape and dtype as text for messages."""
    return f"shape {x.shape} {x.dtype}"


def gradient_text(kernel: Kernel, step: VJPStep) -> str:
    """Name the gradient of an input for messages."""
    origin = step.vjp.origin if step.vjp else "?"
    if kernel is CUSTOM:
        return origin
    return f"gradient of {kernel.name} for {step.name!r}, from {origin}"
