"""The element-wise kernels, as operations on vectors, and their dtypes.

IEEE 754 alone does not determine the results of some kernels. Machine
code gives the same bits as eager mode only if the kernel of eager mode computes them in
the same way; ``probes.agrees`` compares both.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

import numpy as np

from . import gelu
from . import mathematics as m
from .code import Vector

KINDS = {np.dtype("float32"): "f", np.dtype("float64"): "d", np.dtype(bool): "?"}


class Elementwise(NamedTuple):
    """The implementation of an element-wise kernel.

    Attributes:
        kinds: The kinds that the first input may have.
        exact: Whether IEEE 754 determines each result.
        write: Writes the operations, for vectors and attributes.

    """

    kinds: str
    exact: bool
    write: Callable[..., Vector]


def _sign(x: Vector) -> Vector:
    sign = x.code.where(x > 0.0, x.like(1.0), x.like(0.0))
    sign = x.code.where(x < 0.0, x.like(-1.0), sign)
    return x.code.where(x.is_nan(), x, sign)


def _sum(*xs: Vector) -> Vector:
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def _choose(better: Callable[[Vector, Vector], Vector]) -> Callable[..., Vector]:
    def write(p: Vector, q: Vector) -> Vector:
        return p.code.where(p.is_nan() | better(p, q) | p.equal(q), p, q)

    return write


def _clip(x: Vector, *, min: float, max: float) -> Vector:
    where = x.code.where
    low = x.like(min)
    high = x.like(max)
    bound = where((low > high) | high.is_nan(), high, low)
    y = where((x > high) | high.is_nan(), high, x)
    return where((x < low) | low.is_nan(), bound, y)


def _relu6(x: Vector) -> Vector:
    y = x.code.where(x > 6.0, 6.0, x)
    return x.code.where(x <= 0.0, 0.0, y)


def _step(x: Vector, *, alpha: float) -> Vector:
    y = x.code.where(x > 0.0, 1.0, alpha)
    return x.code.where(x.is_nan(), x, y)


def _power(x: Vector, n: float) -> Vector:
    return x if n == 1 else x * x if n == 2 else x * x * x


def _elu_grad(dy: Vector, y: Vector) -> Vector:
    where = dy.code.where
    return where(y < 0.0, dy * (y + 1.0), where(y.is_nan(), y, dy))


def _prelu(x: Vector, alpha: Vector) -> Vector:
    return x.code.where((x >= 0.0) | x.is_nan(), x, x * alpha)


def _sign_bit(x: Vector) -> Vector:
    return x.bits().is_negative()


def _copy_sign(p: Vector, q: Vector) -> Vector:
    return p.code.call("copysign", p, q)


def _hypot(p: Vector, q: Vector) -> Vector:
    x = p.to("d")
    y = q.to("d")
    infinite = abs(p).equal(inf) | abs(q).equal(inf)
    return p.code.where(infinite, inf, (x * x + y * y).sqrt().to("f"))


ANY, F = "fd", "f"
EXACT: dict[str, tuple[str, Callable[..., Vector]]] = {
    "Add": (ANY, lambda p, q: p + q),
    "Sub": (ANY, lambda p, q: p - q),
    "Multiply": (ANY, lambda p, q: p * q),
    "RealDiv": (ANY, lambda p, q: p / q),
    "SquaredDifference": (ANY, lambda p, q: (d := p - q) * d),
    "AddN": (ANY, _sum),
    "Abs": (ANY, abs),
    "Neg": (ANY, lambda x: -x),
    "Square": (ANY, lambda x: x * x),
    "Sqrt": (ANY, lambda x: x.sqrt()),
    "Rsqrt": (ANY, lambda x: 1.0 / x.sqrt()),
    "Reciprocal": (ANY, lambda x: 1.0 / x),
    "Ceil": (ANY, lambda x: x.rounded("ceil")),
    "Floor": (ANY, lambda x: x.rounded("floor")),
    "Round": (ANY, lambda x: x.rounded("rint")),
    "Trunc": (ANY, lambda x: x.rounded("trunc")),
    "Sign": (ANY, _sign),
    "IsNan": (ANY, lambda x: x.is_nan()),
    "IsInf": (ANY, lambda x: abs(x).equal(inf)),
    "IsFinite": (ANY, lambda x: abs(x) < inf),
    "SignBit": (F, _sign_bit),
    "CopySign": (ANY, _copy_sign),
    "Hypot": (F, _hypot),
    "Equal": (ANY, lambda p, q: p.equal(q)),
    "NotEqual": (ANY, lambda p, q: p.unequal(q)),
    "Greater": (ANY, lambda p, q: p > q),
    "GreaterEqual": (ANY, lambda p, q: p >= q),
    "Less": (ANY, lambda p, q: p < q),
    "LessEqual": (ANY, lambda p, q: p <= q),
    "LogicalAnd": ("?", lambda p, q: p & q),
    "LogicalOr": ("?", lambda p, q: p | q),
    "LogicalXor": ("?", lambda p, q: p ^ q),
    "LogicalNot": ("?", lambda x: x ^ 1),
    "Select": ("?", lambda c, p, q: c.code.where(c, p, q)),
    "BroadcastTo": ("fd?", lambda x, *, shape: x),
    "Cast": ("fd?", lambda x, *, dtype: x.to(KINDS[dtype])),
    "Pow": (ANY, _power),
}
PROBED: dict[str, Callable[..., Vector]] = {
    "Exp": m.exp,
    "Exp2": m.exp2,
    "Expm1": m.expm1,
    "Log": m.log,
    "Log1p": m.log1p,
    "Tanh": m.tanh,
    "Sigmoid": m.sigmoid,
    "Softplus": m.softplus,
    "Erf": m.erf,
    "Erfc": m.erfc,
    "Sin": m.sin,
    "Cos": m.cos,
    "Elu": m.elu,
    "Selu": m.selu,
    "Gelu": gelu.gelu,
    "GeluTanh": gelu.gelu_tanh,
    "Relu": lambda x: x.code.where(x <= 0.0, 0.0, x),
    "Relu6": _relu6,
    "ClipByValue": _clip,
    "LeakyRelu": lambda x, *, alpha: x.code.where(x < 0.0, x * alpha, x),
    "Step": _step,
    "Maximum": _choose(lambda p, q: p > q),
    "Minimum": _choose(lambda p, q: p < q),
    "Prelu": _prelu,
    "EluGrad": _elu_grad,
    "plugrad_cpu.ReluGrad": lambda dy, y: y.code.where(y > 0.0, dy, y),
    "SigmoidGrad": m.sigmoid_grad,
    "TanhGrad": m.tanh_grad,
    "plugrad_cpu.TanhGrad": m.tanh_grad,
    "plugrad_cpu.SigmoidGrad": m.sigmoid_grad,
    "plugrad_cpu.ErfGrad": m.erf_grad,
    "plugrad_cpu.GeluGrad": gelu.gelu_grad,
    "plugrad_cpu.GeluTanhGrad": gelu.gelu_tanh_grad,
}
ELEMENTWISE = {name: Elementwise(of, True, f) for name, (of, f) in EXACT.items()}
ELEMENTWISE |= {name: Elementwise(F, False, f) for name, f in PROBED.items()}
# Kernels that eager mode runs on NumPy if operands broadcast along rows. The zeros in
# NumPy's results may have a different sign.
ZEROS = {"Maximum", "Minimum", "Prelu"}
