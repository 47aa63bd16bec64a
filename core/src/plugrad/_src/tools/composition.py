"""Find the kernels that an op runs, for messages about gradients and for ``why``.

Contents: ``kernel_name``; ``kernels_of``, which tries an op; the arguments it tries.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

import plugrad
from plugrad._src.autodiff import reverse
from plugrad._src.engine.patterns import Pattern
from plugrad._src.ops.basis import _convert
from plugrad._src.ops.custom import CUSTOM
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tree import flatten

from .explain import recorded_kernels


def kernel_name(given: Any, who: str) -> str:
    """Return the name of the only kernel that an op runs.

    Raises:
        ValueError: ``given`` is the name of an op, an unknown name, or a function that
            is not an op; or it is an op that runs several kernels, or only those of
            other ops. The message says what to override instead.

    """
    if isinstance(given, Mapping):  # as tf.registerGradient takes it
        error = ValueError(
            f"{who}: expected the name of a kernel, got a dict; instead of kernelName "
            "and gradFunc, pass the name and a function for each input, as in "
            f"{who}('Square', x=lambda dy, x: 2.0 * dy * x)"
        )
        raise explained(error, "unknown-kernel")
    op, name = (given, op_name(given)) if callable(given) else (find(given), given)
    if callable(given) and not name:
        own_name = getattr(given, "__qualname__", type(given).__qualname__)
        error = ValueError(
            f"{who}: {own_name} is not an op of plugrad; give a function of your own a "
            "gradient with custom_grad"
        )
        raise explained(error, "unknown-kernel")
    if op is None or not name:
        hint = registry.suggest_kernel(str(given))
        error = ValueError(f"{who}: unknown kernel {given!r}{hint}")
        raise explained(error, "unknown-kernel")
    own = _own_kernels(name)
    if len(own) == 1 and callable(given):
        return own[0]
    error = ValueError(f"{who}: {override_advice(name, op)}")
    raise explained(error, "unknown-kernel")


def _own_kernels(op: str) -> list[str]:
    """Return the kernels of an op, but for those that compute their gradients."""
    names = [kernel.name for kernel in registry.contracts.values() if kernel.op == op]
    return [
        name for name in names if name.removesuffix("Grad") not in {*names} - {name}
    ]


def target(given: Any, who: str) -> str | Pattern:
    """Return the only kernel that an op runs, or the pattern of several.

    Raises:
        ValueError: As for ``kernel_name``; also if the op has several kernels of its
            own.

    """
    name = op_name(given) if callable(given) else ""
    is_composed = bool(name) and not any(
        kernel.op == name for kernel in registry.contracts.values()
    )
    found = _pattern_of(name, given) if is_composed else None
    return kernel_name(given, who) if found is None else found


@functools.lru_cache
def _pattern_of(name: str, op: Callable[..., Any]) -> Pattern | None:
    """Return the pattern of an op; None if no example fits it."""
    parameters = inspect.signature(op).parameters.values()
    inputs = [p.name for p in parameters if _is_operand(p)]
    try:
        return Pattern._of_op(name, op, inputs, _examples(op))
    except (ValueError, TypeError, IndexError, NotImplementedError):
        return None


def _is_operand(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter of an op is a tensor that it needs."""
    required = parameter.default is parameter.empty
    return required and parameter.kind is parameter.POSITIONAL_ONLY


def override_advice(name: str, op: Callable[..., Any]) -> str:
    """Return advice on the kernels to override in place of an op."""
    own = _own_kernels(name)
    if len(own) == 1:
        return f"the op {name} runs the kernel {own[0]}; name {own[0]!r}"
    if own:
        return f"the op {name} runs the kernels {', '.join(own)}; name one of them"
    parts = kernels_of(op)
    if not parts:
        return (
            f"the op {name} is composed of other ops; explain(y), inside of the "
            "function that is differentiated, shows their kernels: name one of these"
        )
    kernels = [part for part in parts if part != CUSTOM.name]
    if not kernels:
        return written_by_hand(name)
    return (
        f"the op {name} runs {', '.join(kernels)}; name one of these kernels, or pass "
        f"the op itself, pg.{name}, to override_gradient"
    )


def written_by_hand(name: str) -> str:
    """Return advice about an op whose gradient comes from ``custom_grad``."""
    return (
        f"the op {name} has a gradient of its own, from custom_grad, so there is no "
        "kernel to override; wrap the op in a custom_grad of your own"
    )


def find(name: object) -> Callable[..., Any] | None:
    """Return the public op of this name, such as "gelu" or "image.resize_bilinear"."""
    if not isinstance(name, str) or name.startswith("_"):
        return None
    try:
        found = attrgetter(name)(plugrad)
    except AttributeError:
        return None
    if not inspect.isfunction(found):
        return None
    home = found.__globals__["__name__"]  # ``__module__`` is the public module
    return found if home.startswith("plugrad._src.ops.") else None


def op_name(op: Callable[..., Any]) -> str:
    """Return the public name of an op; an empty string for any other function."""
    plain = getattr(op, "__name__", "")
    known = vars(plugrad)
    spaces = [name for name in known["__all__"] if inspect.ismodule(known.get(name))]
    for name in (plain, *(f"{space}.{plain}" for space in spaces)):
        if plain and find(name) is op:
            return name
    return ""


def kernels_of(op: Callable[..., Any]) -> list[str]:
    """Return the kernels that a tape records when an op runs on small examples.

    The list is empty if no example fits, or if the result has no derivative.
    """
    for xs, options in _examples(op):
        try:
            value, _pull = reverse.vjp(lambda *xs, o=options: op(*xs, **o), *xs)
            leaves = flatten(value, _convert.asarray)[0]
            found = [name for y in leaves for name in recorded_kernels(y)]
        except (ValueError, TypeError, IndexError, NotImplementedError, RuntimeError):
            continue  # this example does not fit, or no tape records it
        if found:
            return list(dict.fromkeys(found))
    return []


# --- examples --------------------------------------------------------------------

SHAPES = ((2, 3), (3, 3), (4,), (1, 4, 4, 2), (1, 4, 4, 4, 2), ())
OPTIONS: dict[str, Any] = {
    "axis": 0,
    "filter_size": 2,
    "num_segments": 2,
    "pad_width": 1,
    "rate": 0.5,
    "seed": 0,
    "shape": (2, 3),
    "size": (2, 2),
}


def _examples(op: Callable[..., Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield arguments to try: tensors of the same shape, and options by name."""
    tensors, options = [], {}
    for parameter in inspect.signature(op).parameters.values():
        required = parameter.default is parameter.empty
        if _is_operand(parameter):
            tensors.append(parameter.name)
        elif parameter.name in OPTIONS and (required or parameter.name == "seed"):
            options[parameter.name] = OPTIONS[parameter.name]
    for shape in SHAPES:
        size = int(np.prod(shape))
        x = ((np.arange(size, dtype=np.float32) + 1) / (size + 1)).reshape(shape)
        yield [x] * len(tensors), options
        yield [x, *[0.5] * (len(tensors) - 1)], options
