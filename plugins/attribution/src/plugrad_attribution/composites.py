"""Composites: which rule applies to which part of a model.

A composite is a table of gradients that is built once. It has no state, so it may be
used by several threads, for any model, and under ``jit``.

Contents: ``Composite``; composites of zennit by name; AttnLRP, CP-LRP and RelP.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import plugrad as pg
from plugrad.plugin import Tensor

from . import compositions, first, kernels, layers, recurrent
from .layers import Functions, Rule, Table, Target
from .rules import AlphaBeta, Box, Epsilon, Flat, Gamma, ZPlus

P = ParamSpec("P")
R = TypeVar("R")
MISSING = ("error", "gradient")
GATES = ("half", "constant")


class Composite:
    """Rules for all parts of a model.

    Args:
        conv: The rule for convolutions.
        dense: The rule for products with weights.
        first: The rule for layers that read the input, either directly or after
            padding, reshaping or permuting its axes. If None, these layers use the rule
            for their kind.
        where: Rules for layers in some scopes: a dict from patterns (see ``where=`` of
            ``override_gradient``) to rules, such as ``{"head.*": Epsilon(0.25)}``. The
            last pattern that matches wins.
        more: Gradients of other kernels, ops and patterns, in the form that
            ``use_gradients`` accepts. They replace the composite's own gradients for
            the same keys.
        stabilizer: The stabilizer in the rules for sums of two branches and for average
            pooling.
        missing: What happens at a nonlinear kernel without a rule, or if ``first``
            applies to no layer: ``"error"`` raises a ``MissingRule``, and
            ``"gradient"`` continues with the gradient of the kernel, which does not
            preserve the sum of relevances.
        gates: How a sigmoid that multiplies another tensor is treated: ``"half"`` gives
            it half of the relevance; ``"constant"`` gives it none. In the kernels LSTM
            and GRU, gates are always constants. Use ``"constant"`` for recurrent cells
            that are composed of other kernels, and for layers that scale channels.

    Raises:
        ValueError: ``gates`` is neither ``"half"`` nor ``"constant"``, or ``missing``
            is neither ``"error"`` nor ``"gradient"``.

    Example:
        >>> import plugrad_attribution as attr
        >>> rules = attr.Composite(conv=attr.Gamma(0.25), first=attr.Flat())
        >>> rules.dense
        Epsilon(epsilon=1e-06)

    """

    def __init__(
        self,
        conv: Rule | None = None,
        dense: Rule | None = None,
        first: Rule | None = None,
        *,
        where: Mapping[str, Rule] | None = None,
        more: Mapping[Target, Functions | None] | None = None,
        stabilizer: float = 1e-6,
        missing: str = "error",
        gates: str = "half",
    ) -> None:
        if missing not in MISSING:
            raise ValueError(
                f"Composite: missing must be one of {', '.join(MISSING)}, got "
                f"{missing!r}"
            )
        if gates not in GATES:
            raise ValueError(
                f"Composite: gates must be one of {', '.join(GATES)}, got {gates!r}"
            )
        self.conv: Rule = Epsilon() if conv is None else conv
        self.dense: Rule = Epsilon() if dense is None else dense
        self.first = first
        self.where = dict(where or {})
        self.more: Table = dict(more or {})
        self.stabilizer = stabilizer
        self.missing = missing
        self.gates = gates

    def __repr__(self) -> str:
        given = {"conv": self.conv, "dense": self.dense, "first": self.first}
        shown = [f"{name}={rule}" for name, rule in given.items() if rule is not None]
        shown += [f"where={self.where}"] if self.where else []
        return f"{type(self).__name__}({', '.join(shown)})"

    @functools.cached_property
    def table(self) -> Table:
        """The gradients of all kernels, without those of ``where``."""
        table = self._others()
        table |= _layers(self.conv, self.dense, self._product())
        table |= self.more
        table |= layers.mark_gradient()
        if self.first is not None:
            table |= first.first_layers(self.first)
        if self.missing == "error":
            table = kernels.refusals(table) | table
        return table

    @functools.cached_property
    def tables(self) -> list[tuple[Table, str | None]]:
        """The gradients of all kernels, then those for each pattern in ``where``."""
        found: list[tuple[Table, str | None]] = [(self.table, None)]
        for pattern, rule in self.where.items():
            table = _layers(rule, rule, self._product())
            if layers.gives_relevance(rule):
                table |= first.first_layers(rule)
            found.append((table, pattern))
        return found

    def _others(self) -> Table:
        """Return the gradients of the kernels that are not layers."""
        return {
            **(compositions.constant_gates() if self.gates == "constant" else {}),
            **kernels.identity_rules(),
            **kernels.products(),
            **kernels.powers(),
            **kernels.sums(self.stabilizer),
            **kernels.pools(self.stabilizer),
            **kernels.normalizations(0.0),
            **recurrent.recurrent(self.stabilizer),
            **compositions.norms(),
            **compositions.activations(),
            **compositions.softmaxes(),
            **compositions.logsumexp(),
        }

    def _product(self) -> Callable[..., Tensor]:
        """Return the rule of products of two tensors that depend on the input."""
        return kernels.two_input_product(0.0)

    @functools.cached_property
    def _blocks(self) -> list[Any]:
        """The overrides, outermost first; each call enters them anew."""
        names = [name for name in kernels.DECOMPOSED if name not in self.more]
        decomposed: Table = {name: None for name in names}
        return [pg.use_gradients(decomposed)] + [
            pg.use_gradients(table, where=where, linear=False)
            for table, where in self.tables
        ]

    def with_gradients(self) -> Composite:
        """Return these rules with ``missing="gradient"``."""
        found = copy.copy(self)
        found.missing = "gradient"
        for name in ("table", "tables", "_blocks"):
            found.__dict__.pop(name, None)
        return found

    def bind(self, f: Callable[P, R]) -> Callable[P, R]:
        """Return a function that runs ``f`` under the rules of this composite."""
        for block in reversed(self._blocks):
            f = block(f)
        return f


def _layers(conv: Rule, dense: Rule, two_input_rule: Callable[..., Tensor]) -> Table:
    """Return the gradients of all layers."""
    conv, dense = layers.over_value(conv), layers.over_value(dense)
    return {**layers.convolutions(conv), **layers.products(dense, two_input_rule)}


# --- composites of zennit --------------------------------------------------------


class EpsilonGammaBox(Composite):
    """Gamma for convolutions, epsilon for products, and the box rule at the input.

    Args:
        low: The smallest value of an input.
        high: The largest value of an input.
        epsilon: The stabilizer of the epsilon rule.
        gamma: The parameter of the gamma rule.
        options: Further arguments of ``Composite``.

    Example:
        >>> import plugrad_attribution as attr
        >>> rules = attr.EpsilonGammaBox(low=-2.1, high=2.6)
        >>> rules.first
        Box(low=-2.1, high=2.6, stabilizer=1e-06)

    """

    def __init__(
        self,
        low: float | Tensor,
        high: float | Tensor,
        epsilon: float = 1e-6,
        gamma: float = 0.25,
        **options: Any,
    ) -> None:
        super().__init__(Gamma(gamma), Epsilon(epsilon), Box(low, high), **options)


class EpsilonPlus(Composite):
    """Z-plus for convolutions, and epsilon for products."""

    def __init__(self, epsilon: float = 1e-6, **options: Any) -> None:
        super().__init__(ZPlus(), Epsilon(epsilon), **options)


class EpsilonPlusFlat(Composite):
    """Z-plus for convolutions, epsilon for products, and flat at the input."""

    def __init__(self, epsilon: float = 1e-6, **options: Any) -> None:
        super().__init__(ZPlus(), Epsilon(epsilon), Flat(), **options)


class EpsilonAlpha2Beta1(Composite):
    """Alpha-beta (2, 1) for convolutions, and epsilon for products."""

    def __init__(self, epsilon: float = 1e-6, **options: Any) -> None:
        super().__init__(AlphaBeta(2.0, 1.0), Epsilon(epsilon), **options)


class EpsilonAlpha2Beta1Flat(Composite):
    """Alpha-beta (2, 1) for convolutions, epsilon for products, flat at the input."""

    def __init__(self, epsilon: float = 1e-6, **options: Any) -> None:
        super().__init__(AlphaBeta(2.0, 1.0), Epsilon(epsilon), Flat(), **options)


class ExcitationBackprop(Composite):
    """Z-plus for convolutions and products.

    Args:
        zero_bias: Whether biases get no relevance, as in the paper. In zennit, they get
            a share.
        options: Further arguments of ``Composite``.

    Source:
        J. Zhang et al., "Top-Down Neural Attention by Excitation Backprop", 2018.

    """

    def __init__(self, zero_bias: bool = False, **options: Any) -> None:
        rule = ZPlus(zero_bias=zero_bias)
        super().__init__(rule, rule, **options)


# --- transformers ----------------------------------------------------------------


class AttnLRP(Composite):
    """The rules of AttnLRP, for transformers.

    A softmax keeps its gradient. Each of two factors gets half of the relevance. A
    normalization counts as a division by a constant, and an activation passes all of
    its relevance to its input.

    Args:
        conv: The rule of convolutions, such as ``Gamma(0.25)`` for the patches of a
            vision transformer.
        dense: The rule of products with weights.
        epsilon: The stabilizer of products of two tensors.
        norm: The stabilizer of layer norms.
        options: Further arguments of ``Composite``.

    Example:
        >>> import plugrad_attribution as attr
        >>> x = pg.asarray([[[1.0, 0.0], [0.5, 2.0]]])
        >>> attend = lambda x: pg.scaled_dot_product_attention(x, x, x)
        >>> model = lambda x: attend(x)[:, 0]
        >>> attr.attribute(model, x, attr.AttnLRP(), target=1).input
        Tensor([[[-0.1285,  0.    ],
                 [ 0.0428,  0.4125]]], dtype=float32, backend='cpu')

    Source:
        R. Achtibat et al., "AttnLRP: Attention-Aware Layer-Wise Relevance Propagation
        for Transformers", 2024; stabilizers have the sign of the denominator, as in
        lxt.

    """

    def __init__(
        self,
        conv: Rule | None = None,
        dense: Rule | None = None,
        epsilon: float = 5e-9,
        norm: float = 1e-6,
        **options: Any,
    ) -> None:
        self.epsilon = epsilon
        self.norm = norm
        super().__init__(conv, dense, **{"stabilizer": 1e-8, **options})

    def _others(self) -> Table:
        return super()._others() | kernels.normalizations(self.norm)

    def _product(self) -> Callable[..., Tensor]:
        return kernels.two_input_product(self.epsilon)


class CPLRP(AttnLRP):
    """The rules of conservative propagation (CP-LRP), for transformers.

    The weights of attention are constants: a softmax passes nothing on, so queries and
    keys get no relevance and values get all of it. Without biases, no relevance is
    lost. The other rules are those of AttnLRP: a gate and the factor that it multiplies
    get half each.

    It is meant for attention with softmax: in any other product of two tensors that
    depend on the input, each gets all of the relevance. Explain logits, because a
    softmax at the end of a model passes nothing on.

    Args:
        conv: The rule of convolutions.
        dense: The rule of products with weights.
        epsilon: The stabilizer of products of two tensors.
        options: Further arguments of ``AttnLRP``.

    Example:
        >>> import plugrad_attribution as attr
        >>> x = pg.asarray([[[1.0, 0.0], [0.5, 2.0]]])
        >>> attend = lambda x: pg.scaled_dot_product_attention(x, x, x)
        >>> model = lambda x: attend(x)[:, 0]
        >>> found = attr.attribute(model, x, attr.CPLRP(), target=1)
        >>> found.input, found.value
        (Tensor([[[0.   , 0.   ],
                  [0.   , 0.825]]], dtype=float32, backend='cpu'),
         Tensor([0.825], dtype=float32, backend='cpu'))

    Source:
        A. Ali et al., "XAI for Transformers: Better Explanations through Conservative
        Propagation", 2022.

    """

    def __init__(
        self,
        conv: Rule | None = None,
        dense: Rule | None = None,
        epsilon: float = 1e-6,
        **options: Any,
    ) -> None:
        super().__init__(conv, dense, epsilon, **options)

    def _others(self) -> Table:
        return super()._others() | compositions.constant_attention()

    def _product(self) -> Callable[..., Tensor]:
        return kernels.two_input_product(self.epsilon, share=1.0)


class RelP(CPLRP):
    """The rules of relevance patching (RelP), for language models.

    They are those of ``CPLRP`` without stabilizers: norms count as divisions by a
    constant, activations pass all of their relevance to their input, layers keep their
    gradient, the weights of attention are constants, and a gate and the factor that it
    multiplies get half each.

    The example computes a gradient under these rules, which yields the coefficients of
    patching: ``(patch - x) · coefficient`` estimates the effect of replacing ``x`` by
    the patch.

    Args:
        options: Further arguments of ``AttnLRP``.

    Example:
        >>> import plugrad_attribution as attr
        >>> w = pg.asarray([[1.0, -1.0], [2.0, 0.5]])
        >>> model = lambda x: pg.silu(x @ w)[:, 0]
        >>> coefficients = attr.RelP().bind(pg.grad(lambda x: pg.sum(model(x))))
        >>> coefficients(pg.asarray([[3.0, 1.0]]))
        Tensor([[0.9933, 1.9866]], dtype=float32, backend='cpu')

    Source:
        F. R. Jafari et al., "RelP: Faithful and Efficient Circuit Discovery in Language
        Models via Relevance Patching", 2025.

    """

    def __init__(self, **options: Any) -> None:
        plain = Epsilon(0.0)
        super().__init__(
            plain, plain, 0.0, **{"norm": 0.0, "stabilizer": 0.0, **options}
        )


__all__ = [
    "CPLRP",
    "AttnLRP",
    "Composite",
    "EpsilonAlpha2Beta1",
    "EpsilonAlpha2Beta1Flat",
    "EpsilonGammaBox",
    "EpsilonPlus",
    "EpsilonPlusFlat",
    "ExcitationBackprop",
    "RelP",
]
