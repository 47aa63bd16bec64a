"""``attribute``: the relevance of an input for a value of a model.

Map: ``Attribution``; ``attribute``; the value that is explained; chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
from plugrad.plugin import Tensor, TensorLike

from .composites import Composite
from .flows import Extent, Flow, watched
from .layers import marked
from .ledger import Bookkeeper, Ledger
from .places import Places, names_of

Target = int | Sequence[int] | Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class Attribution:
    """The result of ``attribute``.

    Attributes:
        input: The relevance of each element of the input, with its shape.
        value: The value that is explained, one for each example.
        at: The relevance of the results of scopes, by the names in ``at=``.
        ledger: Where the value has gone, if ``ledger=True`` asked for it.

    """

    input: Tensor
    value: Tensor
    at: Mapping[str, Tensor] = field(default_factory=dict, kw_only=True)
    ledger: Ledger | None = field(default=None, kw_only=True)


def attribute(
    f: Callable[[Tensor], Tensor],
    x: TensorLike,
    rules: Composite,
    target: Target = None,
    *,
    chunk: int | None = None,
    at: str | Sequence[str] = (),
    ledger: bool = False,
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
        at: The names of scopes (``pg.name_scope``), or patterns for them, whose results
            get a relevance as well. The result of a scope is that of its last run that
            receives relevance.
        ledger: Whether to add up where the value has gone. It reads values, so a
            function that ``jit`` has compiled runs eagerly in each call, and ``vmap``
            raises an error.

    Returns:
        An ``Attribution``.

    Raises:
        TypeError: ``f`` is not a function, ``rules`` are not a composite, ``x`` is
            not of real numbers, or ``at`` is not a name or names.
        ValueError: ``target`` or ``chunk`` does not fit, or no run in a scope of ``at``
            receives relevance.
        MissingRule: A kernel has no rule, and the composite was not created with
            ``missing="gradient"``.

    Example:
        >>> import plugrad_attribution as attr
        >>> w = pg.asarray([[1.0, -1.0], [2.0, 0.5]])
        >>> model = lambda x: pg.relu(x @ w)
        >>> found = attr.attribute(model, [[3.0, 1.0]], attr.EpsilonPlus(), target=0)
        >>> found.input, found.value
        (Tensor([[3., 2.]], dtype=float32, backend='cpu'),
         Tensor([5.], dtype=float32, backend='cpu'))

    """
    values = checked("attribute", f, x, rules)
    call = _Call(f, rules, names_of(at), Bookkeeper() if ledger else None)
    if chunk is None:
        found = call.relevance(values, target)
    else:
        found = _in_chunks(call, values, target, chunk)
    return found if call.book is None else replace(found, ledger=_closed(call, found))


class _Call(NamedTuple):
    """What one call of ``attribute`` asks for; ``book`` is None without a ledger."""

    f: Callable[[Tensor], Tensor]
    rules: Composite
    names: tuple[str, ...]
    book: Bookkeeper | None

    def relevance(self, x: Tensor, target: Target) -> Attribution:
        """Return the relevance of one chunk, and book its flows."""
        gradient = gradient_of(self.f, target)
        if not self.names and self.book is None:
            (_, value), relevance = self.rules.bind(gradient)(x)
            return Attribution(relevance, value)
        places = Places(self.names)

        def tell(flow: Flow) -> None:
            places(flow)
            if self.book is not None:
                self.book(flow)

        extent = Extent(stops=self.book is not None)
        (_, value), relevance = watched(self.rules, gradient, tell, extent)(x)
        return Attribution(relevance, value, at=places.relevance())


def checked(who: str, f: object, x: TensorLike, rules: object) -> Tensor:
    """Return ``x`` as a tensor; raise a TypeError if an argument does not fit."""
    if not callable(f):
        raise TypeError(f"{who}: expected a function, got {f!r}")
    if not isinstance(rules, Composite):
        raise TypeError(
            f"{who}: rules must be a composite such as EpsilonPlus(), got {rules!r}"
        )
    values = pg.asarray(x)
    if values.dtype.kind != "f":
        raise TypeError(
            f"{who}: x must be floats, got {values.dtype}; for tokens, explain a "
            "function of their embeddings"
        )
    return values


def gradient_of(f: Callable[[Tensor], Tensor], target: Target) -> Any:
    """Return a function of the input that returns value and gradient."""

    def total(x: Tensor) -> tuple[Tensor, Tensor]:
        value = chosen(f(marked(x)), target)
        return pg.sum(value), value

    return pg.value_and_grad(total, has_aux=True)


def _closed(call: _Call, found: Attribution) -> Ledger:
    """Return the ledger of what has been found."""
    assert call.book is not None
    value, relevance = [
        float(x.numpy().sum(dtype=np.float64)) for x in (found.value, found.input)
    ]
    return call.book.ledger(value, relevance)


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


def _in_chunks(call: _Call, x: Tensor, target: Target, chunk: int) -> Attribution:
    """Return the relevance of all examples, computed in parts."""
    if not _is_size(chunk):
        raise ValueError(f"attribute: chunk must be a positive number, got {chunk!r}")
    is_each = isinstance(target, Sequence) or getattr(target, "ndim", 0) == 1
    found = []
    for start in range(0, x.shape[0], chunk):
        part = slice(start, start + chunk)
        one: Any = target[part] if is_each else target  # type: ignore[index]
        found.append(call.relevance(x[part], one))
    if not found:
        return call.relevance(x, target)
    return Attribution(
        pg.concat([one.input for one in found]),
        pg.concat([one.value for one in found]),
        at={name: _joined(name, found) for name in call.names},
    )


def _joined(name: str, parts: Sequence[Attribution]) -> Tensor:
    """Return the relevance of a scope for all examples."""
    for part in parts:
        shape = part.at[name].shape
        if shape[:1] != part.value.shape:
            raise ValueError(
                f"attribute: the result of scope {name!r} has shape {shape} for "
                f"{part.value.shape[0]} examples, so chunks cannot be joined; pass "
                "chunk=None"
            )
    return pg.concat([part.at[name] for part in parts])


def _is_size(value: object) -> bool:
    """Return whether a value is a positive integer."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
