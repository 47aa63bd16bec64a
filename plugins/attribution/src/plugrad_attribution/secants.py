"""Rules of DeepLIFT: secants between two runs of a model instead of derivatives.

A rule gets the values of a kernel run on the input, and those of the same run on the
baseline. Given the cotangent ``dy`` of the result, it returns the cotangent ``m`` of an
input. Over all inputs, ``Σ m · (x - x₀) = Σ dy · (y - y₀)``: the rule loses nothing.
For complex tensors, the real parts of ``Σ m* · (x - x₀)`` and ``Σ dy* · (y - y₀)`` are
equal; the star is the complex conjugate.

Contents: rules of element-wise functions, products, maxima, ``where`` and softmax; the
rule for each kernel; the overrides.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import plugrad as pg
from plugrad import plugin
from plugrad.plugin import Kernel, Tensor

from . import kernels
from .layers import Table
from .pairs import Given, PairRule, paired, without_rule

P = ParamSpec("P")
R = TypeVar("R")

_KERNELS = plugin.contracts()

# --- element-wise functions ------------------------------------------------------


def conjugate(x: Tensor) -> Tensor:
    """Return the complex conjugate of ``x``, or ``x`` itself if it is real."""
    return pg.conj(x) if pg.isdtype(x.dtype, "complex floating") else x


def over_step(change: Tensor, x: Tensor, x0: Tensor, gradient: Tensor) -> Tensor:
    """Return ``change / (x - x0)*``, or ``gradient`` where the two are all but equal.

    If ``x`` and ``x0`` differ by less than the square root of the precision, the
    rounding error of the quotient is larger than its difference from the gradient.
    """
    step = conjugate(x - x0)
    limit = math.sqrt(pg.finfo(x.dtype).eps) * pg.maximum(pg.abs(x), pg.abs(x0))
    is_step = pg.abs(step) > limit  # False for the difference of two infinities
    return pg.where(is_step, change / pg.where(is_step, step, 1.0), gradient)


def summed_to(value: Tensor, x: Tensor) -> Tensor:
    """Return a value summed over the axes along which ``x`` has been broadcast."""
    if value.shape == x.shape:
        return value
    more = value.ndim - x.ndim
    axes = tuple(
        axis
        for axis in range(value.ndim)
        if axis < more or (x.shape[axis - more] == 1 and value.shape[axis] != 1)
    )
    return pg.reshape(pg.sum(value, axis=axes), x.shape)


def _rescale(x: str, y: str) -> PairRule:
    """Return the rule of a function of one tensor: ``dy · (y - y₀) / (x - x₀)``."""

    def rule(dy: Tensor, at_input: Given, at_baseline: Given) -> Tensor:
        change = dy * conjugate(at_input[y] - at_baseline[y])
        return over_step(change, at_input[x], at_baseline[x], at_input["original"](dy))

    return rule


def _shapley(kernel: Kernel, name: str, other: str) -> PairRule:
    """Return the rule of a function of two tensors: Shapley values.

    The contribution of ``a`` to ``g(a, b)`` is the mean of its contributions when it
    changes before ``b`` and when it changes after ``b``.
    """

    def rule(dy: Tensor, at_input: Given, at_baseline: Given) -> Tensor:
        change = at_input["y"] - at_baseline["y"]
        if at_input[f"{other}_tracked"]:
            x_changed = {name: at_input[name], other: at_baseline[other]}
            other_changed = {name: at_baseline[name], other: at_input[other]}
            first = _run_by_name(kernel, x_changed)
            last = _run_by_name(kernel, other_changed)
            change = 0.5 * (change + first - last)
        x, x0 = at_input[name], at_baseline[name]
        change = conjugate(change)
        return over_step(summed_to(dy * change, x), x, x0, at_input["original"](dy))

    return rule


def _run_by_name(kernel: Kernel, xs: dict[str, Tensor]) -> Tensor:
    """Return the result of a kernel, given its inputs by name."""
    found: Tensor = plugin.run(kernel, *[xs[name] for name in kernel.inputs])
    return found


# --- products, maxima, where -----------------------------------------------------


def _factor(name: str, other: str) -> PairRule:
    """Return the rule of ``a · b``: the slope is the mean of the other factor.

    If the other factor is not differentiated but differs between the two runs, as in
    ``x * (x > 0)``, the product is a function of one tensor.
    """

    def rule(dy: Tensor, at_input: Given, at_baseline: Given) -> Tensor:
        x, b, b0 = at_input[name], at_input[other], at_baseline[other]
        if at_input[f"{other}_tracked"]:
            return summed_to(dy * 0.5 * conjugate(b + b0), x)
        change = conjugate(at_input["y"] - at_baseline["y"])
        slope = over_step(change, x, at_baseline[name], conjugate(b))
        return summed_to(dy * pg.where(b == b0, conjugate(b), slope), x)

    return rule


def _mean_gradient(others: list[str]) -> PairRule:
    """Return the rule of products: the mean of the gradients of both runs.

    The gradient of a factor is linear in the other factor, so this is exact. If only
    one input depends on ``x``, the kernel is linear in it.
    """

    def rule(dy: Tensor, at_input: Given, at_baseline: Given) -> Tensor:
        found: Tensor = at_input["original"](dy)
        if not any(at_input[f"{other}_tracked"] for other in others):
            return found
        return 0.5 * (found + at_baseline["original"](dy))

    return rule


def _extremum(sign: float) -> PairRule:
    """Return the rule of maxima (``sign`` 1) and minima (-1).

    If the maximum has risen, the element that is the maximum at the input has risen at
    least as much. If it has fallen, the element that is the maximum at the baseline has
    fallen at least as much.
    """

    def rule(dy: Tensor, at_input: Given, at_baseline: Given) -> Tensor:
        change = at_input["y"] - at_baseline["y"]
        use_input = sign * change > 0
        total = at_input["original"](dy * pg.where(use_input, change, 0.0))
        total = total + at_baseline["original"](dy * pg.where(use_input, 0.0, change))
        return over_step(
            total, at_input["x"], at_baseline["x"], at_input["original"](dy)
        )

    return rule


def _choice(name: str, other: str) -> PairRule:
    """Return the rule of ``where(condition, t, e)``.

    Where the condition differs between the runs, both branches share the change of the
    result. If both are functions of the same tensor, this is the rescale rule.
    """

    def rule(dy: Tensor, at_input: Given, at_baseline: Given) -> Tensor:
        is_same = at_input["condition"] == at_baseline["condition"]
        step = at_input[name] - at_baseline[name]
        other_step = at_input[other] - at_baseline[other]
        if not at_input[f"{other}_tracked"]:
            other_step = pg.zeros_like(other_step)
        squares = step * step + other_step * other_step
        squares = pg.where(squares == 0, 1.0, squares)
        share = step * (at_input["y"] - at_baseline["y"]) / squares
        return at_input["original"](pg.where(is_same, dy, 0.0)) + summed_to(
            pg.where(is_same, 0.0, dy * share), at_input[name]
        )

    return rule


def _absolute(dy: Tensor, at_input: Given, at_baseline: Given) -> Tensor:
    """Apply the rule of the absolute value of complex numbers.

    ``|x|² - |x₀|²`` is the real part of ``(x + x₀)* · (x - x₀)``.
    """
    x, x0 = at_input["x"], at_baseline["x"]
    sizes = at_input["y"] + at_baseline["y"]
    is_zero = sizes == 0
    quotient = (x + x0) / pg.where(is_zero, 1.0, sizes)
    return pg.where(is_zero, at_input["original"](dy), dy * quotient)


# --- softmax ---------------------------------------------------------------------


def _log_softmax(dy: Tensor, at_input: Given, at_baseline: Given) -> Tensor:
    """Apply the rule for log-softmax: rules for exp, sum, log and difference, composed.

    With ``s = Σ exp(x)``, the slope of ``log s`` with respect to ``x_i`` is that of
    ``exp(x_i)`` over that of ``exp(log s)``, which is between 0 and 1.
    """
    x, x0 = at_input["logits"], at_baseline["logits"]
    log_s, log_s0 = _log_sum(at_input), _log_sum(at_baseline)
    top = pg.maximum(log_s, log_s0)
    slope_of_parts = _slope_of_exp(x - top, x0 - top)
    slope_of_sum = _slope_of_exp(log_s - top, log_s0 - top)
    total = pg.sum(dy, axis=at_input["axis"], keepdims=True)
    return dy - total * slope_of_parts / slope_of_sum


def _softmax(dy: Tensor, at_input: Given, at_baseline: Given) -> Tensor:
    """Apply the rule for softmax, computed as the exponential of ``log_softmax``.

    If all logits change by the same amount, slopes of the quotient ``exp(x) / s`` would
    grow exponentially with it.
    """
    log_y = at_input["logits"] - _log_sum(at_input)
    log_y0 = at_baseline["logits"] - _log_sum(at_baseline)
    return _log_softmax(dy * _slope_of_exp(log_y, log_y0), at_input, at_baseline)


def _log_sum(run: Given) -> Tensor:
    """Return ``log Σ exp(logits)``, with an axis of size 1."""
    logits, axis = run["logits"], run["axis"]
    top = pg.max(logits, axis=axis, keepdims=True)
    return top + pg.log(pg.sum(pg.exp(logits - top), axis=axis, keepdims=True))


def _slope_of_exp(x: Tensor, x0: Tensor) -> Tensor:
    """Return the slope of the exponential between two points."""
    y = pg.exp(x)
    return over_step(y - pg.exp(x0), x, x0, y)


# --- the overrides ---------------------------------------------------------------

ELEMENTWISE = {
    *kernels.IDENTITY_RULE_KERNELS,
    "Abs",
    "Ceil",
    "Digamma",
    "Erfinv",
    "Floor",
    "LeakyRelu",
    "Lgamma",
    "Relu",
    "Round",
    "Sign",
    "Square",
    "Step",
    "Trunc",
}
ELEMENTWISE_OPS = (pg.hard_swish, pg.hard_sigmoid)  # ops with custom_grad
TWO_INPUT_KERNELS = {"Atan2", "Hypot", "Maximum", "Minimum", "Pow", "Prelu"}
PRODUCTS = {
    "BatchMatMul",
    "Conv2D",
    "Conv2DBackpropFilter",
    "Conv2DBackpropInput",
    "Conv3D",
    "Conv3DBackpropFilterV2",
    "Conv3DBackpropInputV2",
    "DepthwiseConv2dNative",
    "DepthwiseConv2dNativeBackpropFilter",
    "DepthwiseConv2dNativeBackpropInput",
}
MAXIMA = {"Max": 1.0, "MaxPool": 1.0, "MaxPool3D": 1.0, "Min": -1.0}
# Kernels that are decomposed into those above.
COMPOSED = (
    "BlockQuantizedMatMul",
    "Dilation2D",
    "GRU",
    "LRN",
    "LSTM",
    "LayerNorm",
    "MaxPoolWithArgmax",
    "MixedMatMul",
    "SquaredDifference",
)


def _table() -> Table:
    """Return the gradients of all kernels that are not linear."""
    table = _gradients_without_rule()
    for name in sorted(ELEMENTWISE):
        x, y = _KERNELS[name].inputs[0], _KERNELS[name].outputs[0]
        table[name] = {x: paired(name, x, _rescale(x, y), x, y)}
    for op in ELEMENTWISE_OPS:
        table[op] = {"x": paired(op.__name__, "x", _rescale("x", "y"), "x", "y")}
    for name in sorted(TWO_INPUT_KERNELS):
        table[name] = _two_input_gradients(_KERNELS[name])
    table["Multiply"] = {
        name: paired("Multiply", name, _factor(name, other), *_reads(name, other))
        for name, other in (("a", "b"), ("b", "a"))
    }
    for name in sorted(PRODUCTS):
        table[name] = _products(_KERNELS[name])
    for name, sign in MAXIMA.items():
        table[name] = {"x": paired(name, "x", _extremum(sign), "x", "y")}
    table["RealDiv"] = {
        "a": paired("RealDiv", "a", _mean_gradient(["b"]), "b_tracked"),
        "b": _two_input_gradients(_KERNELS["RealDiv"])["b"],
    }
    table["Select"] = _choices()
    reads = ("x", "y")
    table["ComplexAbs"] = {"x": paired("ComplexAbs", "x", _absolute, *reads)}
    for name, rule in (("Softmax", _softmax), ("LogSoftmax", _log_softmax)):
        table[name] = {"logits": paired(name, "logits", rule, "logits", "axis")}
    return table


def _two_input_gradients(kernel: Kernel) -> dict[str, Callable[..., Tensor]]:
    """Return the gradients of an element-wise function of two tensors."""
    a, b = kernel.inputs
    found = {}
    for name, other in ((a, b), (b, a)):
        rule = _shapley(kernel, name, other)
        found[name] = paired(kernel.name, name, rule, *_reads(name, other))
    return found


def _reads(name: str, other: str) -> tuple[str, ...]:
    """Return the names that rules of element-wise functions of two tensors read."""
    return name, other, "y", f"{other}_tracked"


def _products(kernel: Kernel) -> dict[str, Callable[..., Tensor]]:
    """Return the gradients of a product of two tensors."""
    found = {}
    for name in kernel.inputs:
        others = [other for other in kernel.inputs if other != name]
        reads = [f"{other}_tracked" for other in others]
        found[name] = paired(kernel.name, name, _mean_gradient(others), *reads)
    return found


def _choices() -> dict[str, Callable[..., Tensor]]:
    """Return the gradients of ``Select``."""
    found = {}
    for name, other in (("t", "e"), ("e", "t")):
        reads = ("condition", "t", "e", "y", f"{other}_tracked")
        found[name] = paired("Select", name, _choice(name, other), *reads)
    return found


def _gradients_without_rule() -> Table:
    """Return the gradients of the nonlinear kernels that have no rule."""
    skipped = {*kernels.LINEAR, *COMPOSED}
    table: Table = {}
    for name, kernel in _KERNELS.items():
        if name in skipped or kernel.fused or not kernel.gradient:
            continue
        functions = {
            x: without_rule(kernel, x)
            for x, gradient in kernel.gradient.items()
            if gradient is not None
        }
        if functions:
            table[name] = functions
    return table


@functools.cache
def _blocks() -> list[Any]:
    """Return the overrides, outermost first."""
    decomposed = pg.use_gradients(dict.fromkeys(COMPOSED))
    return [decomposed, pg.use_gradients(_table(), linear=False, innermost=True)]


def with_secants(f: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs ``f`` under the rules; call it in ``recording()``."""
    for block in reversed(_blocks()):
        f = block(f)
    return f
