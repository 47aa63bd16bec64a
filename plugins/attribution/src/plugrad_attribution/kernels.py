"""Rules for kernels that are not affine layers, such as products and normalizations.

The gradient of a linear kernel passes on relevance divided by value, so the kernel
needs no rule. An element-wise function ``y = g(x)`` gets ``dy · y / x``: all of its
relevance goes to its input (the identity rule). Of two factors that both depend on the
input, each gets half.

Contents: the linear kernels; element-wise functions; products; sums; normalizations;
softmax; the kernels for which there is no rule.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection
from typing import Any

import plugrad as pg
from plugrad import plugin
from plugrad.plugin import Tensor

from .layers import INPUT, Table, named
from .rules import damped

# Kernels whose result scales with their inputs, so that the gradient keeps relevance.
LINEAR = {
    INPUT.name,
    "Abs",
    "Add",
    "AddN",
    "AvgPool",
    "AvgPool3D",
    "BatchToSpaceND",
    "BroadcastTo",
    "Cast",
    "Complex",
    "ComplexAbs",
    "Concat",
    "Conv3DBackpropInputV2",
    "CropAndResize",
    "Cumsum",
    "DepthToSpace",
    "DepthwiseConv2dNativeBackpropInput",
    "Diag",
    "Dilation2D",
    "Einsum",
    "ExpandDims",
    "FFT",
    "FlipLeftRight",
    "GatherNd",
    "GatherV2",
    "Hypot",
    "IFFT",
    "Identity",
    "Imag",
    "LeakyRelu",
    "MatrixBandPart",
    "Max",
    "MaxPool",
    "MaxPool3D",
    "MaxPoolWithArgmax",
    "Maximum",
    "Mean",
    "Min",
    "Minimum",
    "MirrorPad",
    "Neg",
    "Pack",
    "PadV2",
    "Prelu",
    "RaggedGather",
    "RaggedTensorToTensor",
    "Real",
    "Relu",
    "Reshape",
    "ResizeBilinear",
    "ResizeNearestNeighbor",
    "Reverse",
    "RotateWithOffset",
    "ScatterNd",
    "Select",
    "Slice",
    "Sort",
    "SpaceToBatchND",
    "SparseSegmentMean",
    "SparseSegmentSum",
    "SparseToDense",
    "SplitV",
    "StridedSlice",
    "Sub",
    "Sum",
    "Take",
    "TensorScatterExtremum",
    "TensorScatterUpdate",
    "Tile",
    "TopK",
    "Transform",
    "Transpose",
    "Unique",
    "Unpack",
    "UnsortedSegmentSum",
    "plugrad.Alias",
    "plugrad.To",
}

# Linear kernels that may also fill elements with a number, which counts as a constant.
WITH_FILL = {"CropAndResize", "PadV2", "RotateWithOffset", "Transform"}

# Kernels that are decomposed; the kernels of their decompositions have rules.
DECOMPOSED = ("LRN", "SquaredDifference")

IDENTITY_RULE_KERNELS = (
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "ClipByValue",
    "Cos",
    "Cosh",
    "Digamma",
    "Elu",
    "Erf",
    "Erfc",
    "Erfinv",
    "Exp",
    "Exp2",
    "Expm1",
    "Floor",
    "Gelu",
    "GeluTanh",
    "Lgamma",
    "Log",
    "Log1p",
    "Mish",
    "Polygamma",
    "Reciprocal",
    "Relu6",
    "Round",
    "Rsqrt",
    "Selu",
    "Sigmoid",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "Trunc",
)
# Element-wise ops that run several kernels.
IDENTITY_RULE_OPS = (pg.silu, pg.hard_swish, pg.log_sigmoid)
# The derivatives at 0 of the smooth functions with g(0) = 0.
SLOPES: dict[str | Callable[..., Tensor], float] = {
    "Asin": 1.0,
    "Asinh": 1.0,
    "Atan": 1.0,
    "Atanh": 1.0,
    "Erf": 2 / math.sqrt(math.pi),
    "Erfinv": math.sqrt(math.pi) / 2,
    "Expm1": 1.0,
    "Gelu": 0.5,
    "GeluTanh": 0.5,
    "Log1p": 1.0,
    "Mish": 0.6,
    "Sin": 1.0,
    "Sinh": 1.0,
    "Softsign": 1.0,
    "Tan": 1.0,
    "Tanh": 1.0,
    pg.hard_swish: 0.5,
    pg.silu: 0.5,
}
TINY = 1e-9  # closer to 0 than this, the identity rule uses the plain gradient


def identity_rule(
    dy: Tensor, x: Tensor, y: Tensor, original: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return ``dy · y / x``, or the plain gradient where ``x`` is close to zero."""
    is_small = pg.abs(x) < TINY
    return pg.where(is_small, original(dy), dy * y / pg.where(is_small, 1.0, x))


def identity_rule_with_slope(slope: float) -> Callable[..., Tensor]:
    """Return the identity rule for functions with ``g(0) = 0`` and ``g'(0) = slope``.

    It computes the same as ``identity_rule``, without the plain gradient of all
    elements.
    """

    def rule(dy: Tensor, x: Tensor, y: Tensor) -> Tensor:
        is_small = pg.abs(x) < TINY
        return dy * pg.where(is_small, slope, y / pg.where(is_small, 1.0, x))

    return rule


def identity_rules() -> Table:
    """Return the identity rule for all element-wise functions."""
    found: Table = {}
    contracts = plugin.contracts()
    for name in IDENTITY_RULE_KERNELS:
        found[name] = {contracts[name].inputs[0]: _identity_rule_for(contracts[name])}
    for op in IDENTITY_RULE_OPS:
        has_slope = op in SLOPES
        rule = identity_rule_with_slope(SLOPES[op]) if has_slope else identity_rule
        found[op] = {"x": rule}
    found[hard_sigmoid()] = {"x": identity_rule}
    return found


@functools.cache
def hard_sigmoid() -> plugin.Pattern:
    """Return the pattern of ``hard_sigmoid`` with any slope and offset.

    A pattern ignores the values of constants that differ between its examples.
    """

    def with_any_slope(x: Tensor) -> Tensor:
        return pg.hard_sigmoid(x, alpha=0.1 * x.size, beta=0.1 * x.size)

    name = "attribution.hard_sigmoid"
    return plugin.Pattern(with_any_slope, ((2,),), ((3,),), name=name)


def _identity_rule_for(kernel: plugin.Kernel) -> Callable[..., Tensor]:
    """Return the identity rule with the parameter names of a kernel."""
    x, y = kernel.inputs[0], kernel.outputs[0]
    slope = SLOPES.get(kernel.name)
    if slope is not None:
        rule = identity_rule_with_slope(slope)
        return named(lambda dy, **given: rule(dy, given[x], given[y]), ["dy", x, y])
    call = lambda dy, **given: identity_rule(dy, given[x], given[y], given["original"])
    return named(call, ["dy", x, y, "original"])


# --- products and sums -----------------------------------------------------------


def two_input_product(amount: float, share: float = 0.5) -> Callable[..., Tensor]:
    """Return the rule of a matrix product of two tensors that depend on the input.

    Args:
        amount: The stabilizer of the denominator.
        share: The share of each tensor; 1 if another rule gives one of them nothing.

    """

    def rule(dy: Tensor, y: Tensor, original: Callable[[Tensor], Tensor]) -> Tensor:
        return share * original(damped(dy, y, amount))

    return rule


def by_operand(
    rule: Callable[..., Tensor], *reads: str
) -> dict[str, Callable[..., Tensor]]:
    """Return a rule for both operands, ``a`` and ``b``, of a kernel.

    Args:
        rule: A function of the cotangent, ``original``, whether the other operand also
            depends on the input, and the values in ``reads``.
        reads: The names of the values that the rule reads: ``"x"`` is the operand
            itself, and ``"y"`` the result.

    """

    def operand_rule(x: str, other: str) -> Callable[..., Tensor]:
        names = [x if name == "x" else name for name in reads]
        is_shared = f"{other}_tracked"

        def gradient(dy: Tensor, original: Any, **given: Any) -> Tensor:
            values = [given[name] for name in names]
            return rule(dy, original, given[is_shared], *values)

        return named(gradient, ["dy", "original", is_shared, *names])

    return {"a": operand_rule("a", "b"), "b": operand_rule("b", "a")}


def products() -> Table:
    """Return the rules of element-wise products and quotients.

    Of two factors that depend on the input, each gets half; a divisor gets nothing.
    """
    square = lambda dy, original: 0.5 * original(dy)
    return {
        "Multiply": by_operand(_factor),
        "RealDiv": {"b": by_operand(_divisor, "x", "y")["b"]},
        "Square": {"x": square},
    }


def _factor(dy: Tensor, original: Callable[[Tensor], Tensor], shared: bool) -> Tensor:
    return 0.5 * original(dy) if shared else original(dy)


def _divisor(
    dy: Tensor,
    original: Callable[[Tensor], Tensor],
    shared: bool,
    x: Tensor,
    y: Tensor,
) -> Tensor:
    return 0.0 * original(dy) if shared else identity_rule(dy, x, y, original)


def powers() -> Table:
    """Return the rules of powers: the identity rule.

    If both operands depend on the input, each gets half.
    """

    def power(
        dy: Tensor,
        original: Callable[[Tensor], Tensor],
        shared: bool,
        x: Tensor,
        y: Tensor,
    ) -> Tensor:
        return identity_rule(dy, x, y, original) * (0.5 if shared else 1.0)

    return {"Pow": by_operand(power, "x", "y")}


def sums(amount: float) -> Table:
    """Return the rule of sums of two branches, with a stabilized denominator."""

    def branch(
        dy: Tensor, original: Callable[[Tensor], Tensor], shared: bool, y: Tensor
    ) -> Tensor:
        return original(damped(dy, y, amount) if shared else dy)

    return {"Add": by_operand(branch, "y")}


def pools(amount: float) -> Table:
    """Return the rule of average pooling, with a stabilized denominator."""

    def rule(dy: Tensor, y: Tensor, original: Callable[[Tensor], Tensor]) -> Tensor:
        return original(damped(dy, y, amount))

    return {"AvgPool": {"x": rule}, "AvgPool3D": {"x": rule}}


# --- normalizations and softmax --------------------------------------------------


def normalizations(amount: float) -> Table:
    """Return the rule of layer norms: their denominator is a constant."""

    def layer_norm(
        dy: Tensor,
        x: Tensor,
        scale: Tensor | None,
        y: Tensor,
        axis: Any,
        epsilon: float,
    ) -> Tensor:
        q = damped(dy, y, amount)
        if scale is not None:
            q = q * scale
        centered = x - pg.mean(x, axis=axis, keepdims=True)
        variance = pg.mean(centered * centered, axis=axis, keepdims=True)
        q = q / pg.sqrt(variance + epsilon)
        return q - pg.mean(q, axis=axis, keepdims=True)

    return {"LayerNorm": {"x": layer_norm}}


# The gradient of softmax is its rule in AttnLRP: a Taylor expansion around the logits,
# whose constant term takes a share of the relevance.
WITH_CONSTANT = {"Softmax", "LogSoftmax"}


# --- no rule ---------------------------------------------------------------------


class MissingRule(NotImplementedError):
    """Relevance reached a kernel that has no rule."""


def refusals(known: Collection[Any]) -> Table:
    """Return gradients that raise ``MissingRule``, for all kernels without a rule.

    Args:
        known: The kernels, ops and patterns that have rules.

    """
    has_rule = {*LINEAR, *WITH_CONSTANT, *DECOMPOSED, *names_of(known)}
    found: Table = {}
    for name, kernel in plugin.contracts().items():
        if name not in has_rule and not kernel.fused and _is_differentiable(kernel):
            found[name] = {x: _refusal(name, kernel) for x in kernel.inputs}
    return found


def names_of(targets: Collection[Any]) -> set[str]:
    """Return the names of the kernels for which a table has rules, without patterns.

    Args:
        targets: Kernels, their names, ops and patterns.

    """
    found = {target for target in targets if isinstance(target, str)}
    found |= {target.name for target in targets if isinstance(target, plugin.Kernel)}
    ops = {
        f"{target.__module__}.{target.__name__}".removeprefix("plugrad.")
        for target in targets
        if callable(target)
    }
    return found | {k.name for k in plugin.contracts().values() if k.op in ops}


def _is_differentiable(kernel: plugin.Kernel) -> Collection[str] | bool:
    gradients = kernel.gradient
    return bool(gradients) and any(rule is not None for rule in gradients.values())


def _refusal(name: str, kernel: plugin.Kernel) -> Callable[..., Tensor]:
    """Return a gradient that raises ``MissingRule``."""

    def refuse(*dys: Tensor, site: plugin.Site) -> Tensor:
        where = f" in scope {site.scope!r}" if site.scope else ""
        raise MissingRule(
            f"attribute: there is no rule for the kernel {name}{where}; add one with "
            f"more={{{name!r}: ...}}, or pass missing='gradient' to use its gradient "
            "and to see in the ledger how much relevance that loses"
        )

    parameters = [*(f"dy{n}" for n in range(len(kernel.outputs))), "site"]
    return named(refuse, parameters)
