"""``attribute``: the relevance of an input for a value of a model.

Contents: ``Attribution``; ``attribute``; chunks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import plugrad as pg
from plugrad.plugin import Tensor, TensorLike

from . import examples
from .composites import Composite
from .examples import Model, Target, ValueAndGradient, chunks_of, value_and_gradient
from .flows import Extent, Flow, watched
from .kernels import MissingRule
from .layers import INPUT, Routes, marked, recording_routes
from .ledger import Bookkeeper, Ledger
from .places import Places, names_of


@dataclass(frozen=True)
class Attribution:
    """The result of ``attribute``.

    Attributes:
        input: The relevance of each element of the input, in the shape of the input.
        value: The explained value of each example.
        at: The relevance of the result of each scope, by its name in ``at=``.
        ledger: Where the value has gone; None unless ``ledger=True`` was passed.

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
    value. If every rule is ``Epsilon(0.0)``, they are input times gradient.

    The model need not know about attribution: the rules are gradient overrides, which
    apply to functions, to reused layers, and to models that a plugin has loaded.

    Args:
        f: The model: a function of a batch of examples, which returns a tensor whose
            first axis is that of the examples.
        x: The examples; they must be real.
        rules: The rules, such as ``EpsilonPlus()``.
        target: The value that is explained: the index of an output (``y[:, target]``),
            one index for each example, or a function of ``f(x)`` that returns one value
            for each example. None explains the sum of all outputs.
        chunk: The number of examples to process at once, to limit memory.
        at: The names of scopes (``pg.name_scope``), or patterns for them, for whose
            results relevance is returned as well. The result of a scope is the result
            of its last kernel run that receives relevance.
        ledger: Whether to return a ledger of where the value has gone. A ledger reads
            values, so a function that ``jit`` has compiled runs eagerly in each call,
            and ``vmap`` raises an error.

    Returns:
        An ``Attribution``.

    Raises:
        TypeError: ``f`` is not a function, ``rules`` are not a composite, ``x`` is not
            real, or ``at`` is neither a name nor a list of names.
        ValueError: ``x``, ``target`` or ``chunk`` is invalid, or no run in a scope of
            ``at`` receives relevance.
        MissingRule: A kernel has no rule, or the composite has a rule for first layers
            and no layer reads ``x`` itself. This is not raised if the composite was
            created with ``missing="gradient"``.

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
    call = _Call(f, rules, names_of("attribute", at), Bookkeeper() if ledger else None)
    if chunk is None:
        found = call.relevance(values, target)
    else:
        found = _in_chunks(call, values, target, chunk)
    return found if call.book is None else replace(found, ledger=_ledger(call, found))


class _Call(NamedTuple):
    """The arguments of one call of ``attribute``; ``book`` is None without a ledger."""

    f: Model
    rules: Composite
    names: tuple[str, ...]
    book: Bookkeeper | None

    def relevance(self, x: Tensor, target: Target) -> Attribution:
        """Return the relevance of one chunk, and enter its flows in the ledger."""
        gradient = gradient_of(self.f, target)
        places = Places(self.names)

        def report(flow: Flow) -> None:
            places(flow)
            if self.book is not None:
                self.book(flow)

        if self.names or self.book is not None:
            extent = Extent(stops=self.book is not None)
            run = watched(self.rules, gradient, report, extent)
        else:
            run = self.rules.bind(gradient)
        with recording_routes() as routes:
            value, relevance = run(x)
        _check_first(self.rules, routes)
        return Attribution(relevance, value, at=places.relevance())


def _check_first(rules: Composite, routes: Routes) -> None:
    """Raise an error if the rule for first layers was not applied to any layer."""
    if rules.first is None or rules.missing == "gradient" or routes != {INPUT.name}:
        return
    raise MissingRule(
        f"attribute: no layer reads x itself, so first={rules.first} applies to none; "
        "scale the input before the call instead of in the model, pass the rule in "
        "where={scope of the layer: rule} instead of first=, or pass "
        "missing='gradient' to go without it"
    )


def checked(who: str, f: object, x: TensorLike, rules: object) -> Tensor:
    """Return ``x`` as a tensor; raise an error if an argument is invalid."""
    values = examples.checked(who, f, x)
    if not isinstance(rules, Composite):
        raise TypeError(
            f"{who}: rules must be a composite such as EpsilonPlus(), got {rules!r}"
        )
    return values


def gradient_of(f: Model, target: Target) -> Callable[[Tensor], ValueAndGradient]:
    """Return a function of the input that returns values and their relevance.

    The rules apply if this function runs inside their override blocks.
    """
    return functools.partial(value_and_gradient, lambda x: f(marked(x)), target=target)


def _ledger(call: _Call, found: Attribution) -> Ledger:
    """Return the ledger, given the values and relevances of a call."""
    assert call.book is not None
    value, relevance = [
        float(x.numpy().sum(dtype=np.float64)) for x in (found.value, found.input)
    ]
    return call.book.ledger(value, relevance)


def _in_chunks(call: _Call, x: Tensor, target: Target, chunk: int) -> Attribution:
    """Return the relevance of all examples, computed in chunks."""
    chunks = chunks_of("attribute", x.shape[0], target, chunk)
    found = [call.relevance(x[part], one) for part, one in chunks]
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
