"""Rules of DeepLIFT: secants between two runs of a model instead of derivatives.

A rule gets the values of a kernel run on the input, and those of the same run on the
baseline. Given the cotangent ``dy`` of the result, it returns the cotangent ``m`` of an
input. Over all inputs, ``Σ m · (x - x₀) = Σ dy · (y - y₀)``: the rule loses nothing.

Map: rules of element-wise functions, products, maxima, choices and softmax; the rule
for each kernel; the overrides.
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


def over_step(change: Tensor, x: Tensor, x0: Tensor, gradient: Tensor) -> Tensor:
    """Return ``change / (x - x0)``, or ``gradient`` where the two are all but equal.

    If ``x`` and ``x0`` differ by less than the square root of the precision, the
    rounding error of the quotient is larger than its difference from the gradient.
    """
    step = x - x0
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

    def rule(dy: Tensor, now: Given, before: Given) -> Tensor:
        change = dy * (now[y] - before[y])
        return over_step(change, now[x], before[x], now["original"](dy))

    return rule


def _shapley(kernel: Kernel, name: str, other: str) -> PairRule:
    """Return the rule of a function of two tensors: Shapley values.

    The contribution of ``a`` to ``g(a, b)`` is the mean of its contributions if it
    changes before ``b`` and if it changes after ``b``.
    """

    def rule(dy: Tensor, now: Given, before: Given) -> Tensor:
        change = now["y"] - before["y"]
        if now[f"{other}_tracked"]:
            first = _mixed(kernel, {name: now[name], other: before[other]})
            last = _mixed(kernel, {name: before[name], other: now[other]})
            change = 0.5 * (change + first - last)
        x, x0 = now[name], before[name]
        return over_step(summed_to(dy * change, x), x, x0, now["original"](dy))

    return rule


def _mixed(kernel: Kernel, xs: dict[str, Tensor]) -> Tensor:
    """Return the result of a kernel, given its inputs by name."""
    found: Tensor = plugin.run(kernel, *[xs[name] for name in kernel.inputs])
    return found


# --- products, maxima, choices ---------------------------------------------------


def _factor(name: str, other: str) -> PairRule:
    """Return the rule of ``a · b``: the slope is the mean of the other factor.

    If the other factor is not differentiated and yet differs between both runs, as in
    ``x * (x > 0)``, the product is a function of one tensor.
    """

    def rule(dy: Tensor, now: Given, before: Given) -> Tensor:
        x, b, b0 = now[name], now[other], before[other]
        if now[f"{other}_tracked"]:
            return summed_to(dy * 0.5 * (b + b0), x)
        slope = over_step(now["y"] - before["y"], x, before[name], b)
        return summed_to(dy * pg.where(b == b0, b, slope), x)

    return rule


def _mean_gradient(others: list[str]) -> PairRule:
    """Return the rule of products: the mean of the gradients of both runs.

    The gradient of a factor is linear in the other factor, so this is exact. If the
    input is the only one that depends on ``x``, the kernel is linear in it.
    """

    def rule(dy: Tensor, now: Given, before: Given) -> Tensor:
        found: Tensor = now["original"](dy)
        if not any(now[f"{other}_tracked"] for other in others):
            return found
        return 0.5 * (found + before["original"](dy))

    return rule


def _extremum(sign: float) -> PairRule:
    """Return the rule of maxima (``sign`` 1) and minima (-1).

    If the maximum has risen, the element where it is now has risen at least as much. If
    it has fallen, the element where it was before has fallen at least as much.
    """

    def rule(dy: Tensor, now: Given, before: Given) -> Tensor:
        change = now["y"] - before["y"]
        is_now = sign * change > 0
        moved = now["original"](dy * pg.where(is_now, change, 0.0))
        moved = moved + before["original"](dy * pg.where(is_now, 0.0, change))
        return over_step(moved, now["x"], before["x"], now["original"](dy))

    return rule


def _choice(name: str, other: str) -> PairRule:
    """Return the rule of ``where(condition, t, e)``.

    Where the condition differs between the runs, both branches share the change of the
    result. If both are functions of the same tensor, this is the rescale rule.
    """

    def rule(dy: Tensor, now: Given, before: Given) -> Tensor:
        is_same = now["condition"] == before["condition"]
        step = now[name] - before[name]
        other_step = now[other] - before[other]
        if not now[f"{other}_tracked"]:
            other_step = pg.zeros_like(other_step)
        squares = step * step + other_step * other_step
        squares = pg.where(squares == 0, 1.0, squares)
        share = step * (now["y"] - before["y"]) / squares
        return now["original"](pg.where(is_same, dy, 0.0)) + summed_to(
            pg.where(is_same, 0.0, dy * share), now[name]
        )

    return rule


# --- softmax ---------------------------------------------------------------------


def _log_softmax(dy: Tensor, now: Given, before: Given) -> Tensor:
    """Apply the rules of exponentials, sum, logarithm and difference.

    With ``s = Σ exp(x)``, the slope of ``log s`` with respect to ``x_i`` is that of
    ``exp(x_i)`` over that of ``exp(log s)``, which is between 0 and 1.
    """
    x, x0 = now["logits"], before["logits"]
    log_s, log_s0 = _log_sum(now), _log_sum(before)
    top = pg.maximum(log_s, log_s0)
    of_parts = _slope_of_exp(x - top, x0 - top)
    of_sum = _slope_of_exp(log_s - top, log_s0 - top)
    total = pg.sum(dy, axis=now["axis"], keepdims=True)
    return dy - total * of_parts / of_sum


def _softmax(dy: Tensor, now: Given, before: Given) -> Tensor:
    """Apply the rules of the exponential and of ``log_softmax``.

    Slopes of the quotient ``exp(x) / s`` would grow exponentially with a common change
    of all logits.
    """
    log_y = now["logits"] - _log_sum(now)
    log_y0 = before["logits"] - _log_sum(before)
    return _log_softmax(dy * _slope_of_exp(log_y, log_y0), now, before)


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
    *kernels.GATES,
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
ELEMENTWISE_OPS = (pg.hard_swish, pg.hard_sigmoid)  # their gradients are custom_grad
OF_TWO = {"Atan2", "Hypot", "Maximum", "Minimum", "Pow", "Prelu"}
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
    "Dilation2D",
    "GRU",
    "LRN",
    "LSTM",
    "LayerNorm",
    "MaxPoolWithArgmax",
    "SquaredDifference",
)


def _table() -> Table:
    """Return the gradients of all kernels that are not linear."""
    table = _of_others()
    for name in sorted(ELEMENTWISE):
        x, y = _KERNELS[name].inputs[0], _KERNELS[name].outputs[0]
        table[name] = {x: paired(name, x, _rescale(x, y), x, y)}
    for op in ELEMENTWISE_OPS:
        table[op] = {"x": paired(op.__name__, "x", _rescale("x", "y"), "x", "y")}
    for name in sorted(OF_TWO):
        table[name] = _of_two(_KERNELS[name])
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
        "b": _of_two(_KERNELS["RealDiv"])["b"],
    }
    table["Select"] = _choices()
    for name, rule in (("Softmax", _softmax), ("LogSoftmax", _log_softmax)):
        table[name] = {"logits": paired(name, "logits", rule, "logits", "axis")}
    return table


def _of_two(kernel: Kernel) -> dict[str, Callable[..., Tensor]]:
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


def _of_others() -> Table:
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
