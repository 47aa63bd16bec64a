"""``attribute``: the relevance of an input for a value of a model.

Map: ``Attribution``; ``attribute``; the value that is explained; chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.plugin import Tensor, TensorLike

from .composites import Composite
from .layers import marked

Target = int | Sequence[int] | Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class Attribution:
    """What ``attribute`` has found.

    Attributes:
        input: The relevance of each element of the input, with its shape.
        value: The value that is explained, one for each example.

    """

    input: Tensor
    value: Tensor


def attribute(
    f: Callable[[Tensor], Tensor],
    x: TensorLike,
    rules: Composite,
    target: Target = None,
    *,
    chunk: int | None = None,
) -> Attribution:
    """Return the relevance of each element of ``x`` for a value of ``f(x)``.

    The relevance of an element says how much it has contributed to the value. Without
    biases, and with rules that lose nothing, the relevances of an example add up to its
    value. With ``Epsilon(0.0)`` everywhere they are input times gradient.

    The model need not know about attribution: the rules are gradient overrides, for
    functions, reused layers, and models that a plugin has loaded.

    Args:
        f: The model: a function of a batch of examples, which returns a tensor whose
            first axis is that of the examples.
        x: The examples, of real numbers.
        rules: The rules, such as ``EpsilonPlus()``.
        target: The value that is explained: the number of an output (``y[:, target]``),
            a number for each example, or a function of ``f(x)`` that returns one value
            for each example. None explains the sum of all outputs.
        chunk: At most this many examples at once, to limit memory.

    Returns:
        An ``Attribution``.

    Raises:
        TypeError: ``f`` is not a function, ``rules`` are not a composite, or ``x`` is
            not of real numbers.
        ValueError: ``target`` or ``chunk`` does not fit.
        MissingRule: The rules have nothing for a kernel, and are not told to use its
            gradient.

    Example:
        >>> import plugrad_attribution as attr
        >>> w = pg.asarray([[1.0, -1.0], [2.0, 0.5]])
        >>> model = lambda x: pg.relu(x @ w)
        >>> found = attr.attribute(model, [[3.0, 1.0]], attr.EpsilonPlus(), target=0)
        >>> found.input, found.value
        (Tensor([[3., 2.]], dtype=float32, backend='cpu'),
         Tensor([5.], dtype=float32, backend='cpu'))

    """
    if not callable(f):
        raise TypeError(f"attribute: expected a function, got {f!r}")
    if not isinstance(rules, Composite):
        raise TypeError(
            f"attribute: rules must be a composite such as EpsilonPlus(), got {rules!r}"
        )
    values = pg.asarray(x)
    if values.dtype.kind != "f":
        raise TypeError(
            f"attribute: x must be floats, got {values.dtype}; for tokens, explain a "
            "function of their embeddings"
        )
    if chunk is None:
        return _attribute(f, values, rules, target)
    return _in_chunks(f, values, rules, target, chunk)


def _attribute(
    f: Callable[[Tensor], Tensor], x: Tensor, rules: Composite, target: Target
) -> Attribution:
    """Return the relevance of one chunk."""

    def total(x: Tensor) -> tuple[Tensor, Tensor]:
        value = chosen(f(marked(x)), target)
        return pg.sum(value), value

    with_rules = rules.bind(pg.value_and_grad(total, has_aux=True))
    (_, value), relevance = with_rules(x)
    return Attribution(relevance, value)


def chosen(y: Tensor, target: Target) -> Tensor:
    """Return the value that is explained, for each example.

    Raises:
        ValueError: The target does not fit the result of the model.

    """
    if target is None:
        return pg.sum(y, axis=tuple(range(1, y.ndim)))
    if callable(target):
        found: Any = target(y)
        if not isinstance(found, Tensor) or found.shape != y.shape[:1]:
            got = getattr(found, "shape", type(found).__name__)
            raise ValueError(
                f"attribute: target must return one value for each of {y.shape[0]} "
                f"examples, got {got}"
            )
        return pg.asarray(found)
    if y.ndim != 2:
        raise ValueError(
            f"attribute: target={target!r} selects a column, but the model returns "
            f"shape {y.shape}; pass a function of the result"
        )
    numbers = np.asarray(target)
    if numbers.dtype.kind not in "iu" or numbers.shape not in ((), y.shape[:1]):
        raise ValueError(
            f"attribute: target must be the number of an output or one for each of "
            f"{y.shape[0]} examples, got {target!r}"
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < y.shape[1]:
        raise ValueError(
            f"attribute: target={target!r} is out of range for {y.shape[1]} outputs"
        )
    if numbers.ndim == 0:
        return y[:, int(numbers)]
    return pg.take_along_axis(y, numbers[:, None], axis=1)[:, 0]


def _in_chunks(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    rules: Composite,
    target: Target,
    chunk: int,
) -> Attribution:
    """Return the relevance of all examples, computed in parts."""
    if not _is_size(chunk):
        raise ValueError(f"attribute: chunk must be a positive number, got {chunk!r}")
    is_each = isinstance(target, Sequence) or getattr(target, "ndim", 0) == 1
    found = []
    for start in range(0, x.shape[0], chunk):
        part = slice(start, start + chunk)
        one: Any = target[part] if is_each else target  # type: ignore[index]
        found.append(_attribute(f, x[part], rules, one))
    if not found:
        return _attribute(f, x, rules, target)
    return Attribution(
        pg.concat([one.input for one in found]),
        pg.concat([one.value for one in found]),
    )


def _is_size(value: object) -> bool:
    """Return whether a value is a positive integer."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
