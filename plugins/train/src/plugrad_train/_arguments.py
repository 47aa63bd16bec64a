"""Checks the arguments of ``fit`` and other functions before training begins."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any

import plugrad as pg

from ._trees import Tree, check_params, is_trained
from .optimizers import Optimizer
from .transforms import Transform


def check_training(
    loss: object,
    params: Tree,
    optimizer: object,
    batches: object,
    key: object,
    precision: object,
) -> None:
    """Raise an error if ``fit`` cannot train with these arguments."""
    named = ["params", "batch"] if key is None else ["params", "batch", "key"]
    check_loss("fit", loss, named)
    check_optimizer("fit", optimizer)
    check_source("fit", batches)
    check_leaves(params)
    check_key(key)
    check_precision(precision)


def check_optimizer(op: str, given: object) -> None:
    """Raise TypeError unless the argument is an optimizer."""
    if isinstance(given, Optimizer):
        return
    if isinstance(given, Transform):
        advice = "make it an optimizer with pt.of_transform, or pt.chain it with one"
    elif callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        raise TypeError(
            f"{op}: optimizer must be an optimizer, got the function {name}, which "
            f"returns one; call it, as in pt.{name}(0.1)"
        )
    else:
        advice = "pass an optimizer, such as pt.sgd(0.1)"
    raise TypeError(
        f"{op}: optimizer must be an optimizer, got {_describe(given)}; {advice}"
    )


def check_loss(op: str, loss: Any, arguments: Sequence[str]) -> None:
    """Raise TypeError unless ``loss`` is a function of these arguments."""
    call = f"loss({', '.join(arguments)})"
    if not callable(loss):
        raise TypeError(f"{op}: expected a function {call}, got {loss!r:.100}")
    try:
        signature = inspect.signature(loss)
    except (TypeError, ValueError):  # some C functions have no signature
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        hint = "" if "key" in arguments else "; with key=, it gets a key as well"
        raise TypeError(
            f"{op}: it calls {call}, but the function takes {signature}: {error}{hint}"
        ) from None


def check_source(op: str, given: Any) -> None:
    """Raise TypeError unless the argument yields batches and has a ``state``."""
    state = getattr(given, "state", None)
    has_position = isinstance(state, Mapping) and {"epoch", "batch"} <= {*state}
    if has_position and hasattr(given, "__iter__"):
        return
    advice = "pass pt.Batches(data, size), or pt.IterableBatches(function, size)"
    if isinstance(given, list | tuple):
        advice += "; both divide examples into batches"
    raise TypeError(
        f"{op}: batches must have a `state` (epoch and batch number), got "
        f"{_describe(given)}; {advice}"
    )


def check_options(
    validate: object, callbacks: Any, log: object, curves: object, checkpoints: object
) -> None:
    """Raise TypeError if an option of ``fit`` has the wrong type."""
    if validate is not None:
        check_loss("fit: validate", validate, ["params"])
    if callable(callbacks) or not isinstance(callbacks, Sequence):
        raise TypeError(
            f"fit: callbacks must be a list of functions, got {_describe(callbacks)}; "
            "put a single callback into a list"
        )
    for one in callbacks:
        if inspect.isclass(one):
            description = f"the class {one.__name__}"
            advice = f"call it: {one.__name__}(...)"
        elif not callable(one):
            description = _describe(one)
            advice = "fit calls it with Progress at each report"
        else:
            continue
        raise TypeError(
            f"fit: a callback must be a function, got {description}; {advice}"
        )
    for name, path in (("log", log), ("curves", curves)):
        if path is not None and not isinstance(path, str | os.PathLike):
            raise TypeError(f"fit: {name} must be the path of a file, got {path!r}")
    missing = [m for m in ("save", "restore", "steps") if not hasattr(checkpoints, m)]
    if checkpoints is not None and (missing or inspect.isclass(checkpoints)):
        raise TypeError(
            f"fit: checkpoints must be pt.Checkpoints(folder), got {checkpoints!r:.100}"
        )


def check_key(key: Any) -> None:
    """Raise TypeError unless the argument is a random key or None."""
    if key is None:
        return
    if isinstance(key, pg.Tensor):
        pg.random.fold_in(key, 0)  # its error describes the problem
        return
    raise TypeError(
        f"fit: key must be a random key, got {key!r:.100}; write pg.random.key(0)"
    )


def check_precision(precision: Any) -> None:
    """Raise TypeError unless the argument is a real floating dtype or None."""
    if precision is None:
        return
    dtype = pg.zeros((), dtype=precision).dtype  # raises if there is no such dtype
    if not pg.isdtype(dtype, "real floating"):
        raise TypeError(
            f"fit: precision must be a real floating dtype, such as pg.float16, got "
            f"{dtype}"
        )


def check_leaves(params: Tree) -> None:
    """Raise ValueError unless at least one parameter is floating."""
    check_params(params)
    leaves = pg.tree.leaves(params)
    if not any(map(is_trained, leaves)):
        kinds = ", ".join(sorted({_describe(x) for x in leaves})) or "no leaf"
        raise ValueError(f"fit: params must have floating tensors, got {kinds}")


def _describe(given: object) -> str:
    """Describe an argument in a few words."""
    if inspect.isclass(given):
        return f"the class {given.__name__}"
    if inspect.isroutine(given):
        return f"the function {given.__name__}"
    kind = type(given).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
