"""Activation functions, and ``clip``.

Kernels: ``ClipByValue Elu EluGrad LeakyRelu Mish Prelu Relu Relu6 Selu Sigmoid
SigmoidGrad Softplus Softsign Step``; ``gelu`` is in its own module. Complex numbers
have no order, so they raise a TypeError. Integers and bool become float32, except in
ops whose docstring says that they keep the dtype.

At NaN, the value and the derivative are NaN, with both ``vjp`` and ``jvp``. There are
two exceptions: ``leaky_relu`` and ``prelu`` have the derivative ``alpha`` there, as in
TensorFlow.js and PyTorch, and ``step`` and ``clip`` have the derivative 0.

Contents: piecewise linear functions; steps and limits; exponentials; compositions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, binary, compare, creation, unary
from plugrad._src.ops.custom import custom_grad
from plugrad._src.ops.elementwise import trigonometry
from plugrad._src.registry.contract import (
    Kernel,
    Spec,
    broadcasted,
    decomposition,
    gradients,
    one_shape,
    same,
)
from plugrad._src.tensor import arguments
from plugrad._src.tensor.dtypes import check_range, dtype_kind, named, weak
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = [
    "clip",
    "elu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
    "step",
]

# Contracts with one input and an output with the same spec.
_elementwise = partial(Kernel, out=same)


def _with_alpha(op: str) -> Callable[..., Spec]:
    """Return the spec rule of a kernel whose dtype must represent ``alpha``."""

    def out(x: Spec, *, alpha: float) -> Spec:
        check_range(op, alpha, x.dtype)
        return x

    return out


# --- piecewise linear functions --------------------------------------------------

RELU = _elementwise(
    "Relu(x: integer | floating)",
    op="relu",
    doc="``max(x, 0)``; NaN for NaN, 0 for -0.0.",
)


def relu(x: TensorLike, /) -> Tensor:
    """Return ``max(x, 0)`` for each element.

    The result for -0.0 is 0.0, and NaN stays NaN. The derivative at 0 is 0.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.relu([-1.0, 0.0, 2.0])
        Tensor([0., 0., 2.], dtype=float32, backend='cpu')

    """
    return unary.run_or_identity(RELU, x, "iuf")


# maximum(-0.0, 0) may be either zero, depending on the backend; adding 0 makes it 0.0.
decomposition(RELU, lambda x: binary.maximum(x, 0) + 0)


def _mask_gradient(dy: Tensor, outside: Tensor, x: Tensor) -> Tensor:
    """Return 0 where ``outside``, NaN where ``x`` is NaN, and ``dy`` elsewhere.

    The result is linear in ``dy``, as forward derivatives require, and ``dy`` may be
    infinite outside. NaN does not count as outside.
    """
    return compare.where(outside, 0, dy) * run(STEP, x, alpha=1.0)  # times 1 or NaN


def relu_gradient(dy: Tensor, y: Tensor) -> Tensor:
    return _mask_gradient(dy, y <= 0, y)


gradients(RELU, x=relu_gradient)


RELU6 = _elementwise(
    "Relu6(x: integer | floating)",
    op="relu6",
    doc="``min(max(x, 0), 6)``; NaN for NaN, 0 for -0.0.",
)


def relu6(x: TensorLike, /) -> Tensor:
    """Return ``min(max(x, 0), 6)`` for each element.

    The result for -0.0 is 0.0, and NaN stays NaN. The derivative at 0 is 0, and at 6 it
    is 1.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.relu6([-1.0, 3.0, 8.0])
        Tensor([0., 3., 6.], dtype=float32, backend='cpu')

    """
    return unary.run_or_identity(RELU6, x, "iuf")


decomposition(RELU6, lambda x: binary.minimum(binary.maximum(x, 0) + 0, 6))

gradients(RELU6, x=lambda dy, x: _mask_gradient(dy, (x <= 0) | (x > 6), x))


LEAKY_RELU = Kernel(
    "LeakyRelu(x: floating; alpha: float)",
    out=_with_alpha("leaky_relu"),
    op="leaky_relu",
    doc="""``alpha · x`` where ``x < 0``, elsewhere ``x``; NaN for NaN.

    ``alpha`` may be negative, infinite or NaN, and does not matter where ``x ≥ 0``.""",
)


def leaky_relu(
    x: TensorLike, /, *, alpha: float = 0.2, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return ``x`` where it is positive, and ``alpha · x`` elsewhere.

    The derivative at 0 is ``alpha``.

    Args:
        x: A tensor of real numbers.
        alpha: The slope for negative numbers.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex or contains strings, or ``alpha`` is not a number.
        OverflowError: The dtype cannot represent ``alpha``.

    Example:
        >>> pg.leaky_relu([-1.0, 2.0], alpha=0.1)
        Tensor([-0.1,  2. ], dtype=float32, backend='cpu')

    Source:
        A. L. Maas, A. Y. Hannun and A. Y. Ng, "Rectifier Nonlinearities Improve Neural
        Network Acoustic Models", 2013.

    """
    if unknown:
        raise unexpected(leaky_relu, unknown)
    x = _convert.floating("leaky_relu", x, "f")
    return run(LEAKY_RELU, x, alpha=arguments.real("leaky_relu", "alpha", alpha))


decomposition(LEAKY_RELU, lambda x, alpha: compare.where(x < 0, x * alpha, x))
gradients(LEAKY_RELU, x=lambda dy, x, alpha: compare.where(x > 0, dy, dy * alpha))


PRELU = Kernel(
    "Prelu(x: floating, alpha: x)",
    out=broadcasted,
    broadcasts=True,
    op="prelu",
    doc="""``alpha · x`` where ``x < 0``, elsewhere ``x``; NaN for NaN.

    ``alpha`` may be infinite or NaN, and does not matter where ``x ≥ 0``.""",
)


def prelu(x: TensorLike, alpha: TensorLike, /) -> Tensor:
    """Return ``x`` where it is positive, and ``alpha · x`` elsewhere.

    It is ``leaky_relu`` with a slope for each element or channel. The derivative with
    respect to ``x`` at 0 is ``alpha``.

    Args:
        x: A tensor of real numbers.
        alpha: The slopes for negative numbers; broadcasts with ``x``.

    Returns:
        A tensor of the broadcast shape, of the promoted dtype; float32 for integers and
        bool.

    Raises:
        TypeError: An argument is complex or contains strings.
        ValueError: The shapes do not broadcast.

    Example:
        >>> pg.prelu([[-1.0, 2.0], [-4.0, -6.0]], [0.5, 0.25])
        Tensor([[-0.5,  2. ],
                [-2. , -1.5]], dtype=float32, backend='cpu')

    Source:
        K. He, X. Zhang, S. Ren and J. Sun, "Delving Deep into Rectifiers", 2015.

    """
    return run(PRELU, *binary.floats("prelu", x, alpha, "f"))


decomposition(PRELU, lambda x, alpha: compare.where(x < 0, x * alpha, x))
gradients(PRELU, x=lambda dy, x, alpha: compare.where(x > 0, dy, dy * alpha))
# Where x > 0, nothing is multiplied, because infinity times 0 is NaN.
gradients(PRELU, alpha=lambda dy, x: compare.where(x > 0, 0, dy * binary.minimum(x, 0)))


# --- steps and limits ------------------------------------------------------------

STEP = Kernel(
    "Step(x: floating; alpha: float)",
    out=_with_alpha("step"),
    op="step",
    doc="""1 where ``x > 0``, elsewhere ``alpha``; NaN for NaN.

    ``alpha`` may be infinite or NaN, and does not matter where ``x > 0``.""",
)


def step(x: TensorLike, /, *, alpha: float = 0.0, **unknown: Unpack[Nothing]) -> Tensor:
    """Return 1 where ``x`` is positive, and ``alpha`` elsewhere.

    NaN stays NaN. The derivative is 0 everywhere.

    Args:
        x: A tensor of real numbers.
        alpha: The value for negative numbers and zeros.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex or contains strings, or ``alpha`` is not a number.
        OverflowError: The dtype cannot represent ``alpha``.

    Example:
        >>> pg.step([-2.0, 0.0, 3.0], alpha=0.5)
        Tensor([0.5, 0.5, 1. ], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(step, unknown)
    x = _convert.floating("step", x, "f")
    return run(STEP, x, alpha=arguments.real("step", "alpha", alpha))


decomposition(STEP, lambda x, alpha: compare.where(x <= 0, alpha, unary.sign(x)))
gradients(STEP, x=lambda dy: creation.zeros_like(dy))


def _clip_spec(x: Spec, *, min: float, max: float) -> Spec:
    for bound in (min, max):
        if weak("clip", bound, x.dtype) is not x.dtype:
            raise TypeError(f"clip: {named(x.dtype)} cannot hold {bound}; cast x")
    _check_bounds(min, max)
    return x


CLIP_BY_VALUE = Kernel(
    "ClipByValue(x: bool | integer | floating; min: number, max: number)",
    out=_clip_spec,
    op="clip",
    doc="""``min`` where ``x < min``, ``max`` where ``x > max``, else ``x``; NaN for
    NaN.

    A bound may be infinite; a bound of NaN gives NaN. The dtype of ``x`` can represent
    both, and ``min`` does not exceed ``max``.""",
)


def _check_bounds(min: float, max: float) -> None:
    if min > max:
        raise ValueError(f"clip: min {min} is more than max {max}; swap them")


def clip(
    x: TensorLike,
    /,
    min: TensorLike | None = None,
    max: TensorLike | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x`` clipped to the range from ``min`` to ``max``, element by element.

    NaN in ``x`` or in a bound gives NaN. If a bound is a tensor, the result is ``max``
    where ``min`` exceeds it. The derivative with respect to ``x`` is 1 from ``min`` to
    ``max``, inclusive, and 0 outside.

    Args:
        x: A tensor of real numbers.
        min: The lower bound, a number or a tensor that broadcasts with ``x``; None for
            no bound.
        max: The upper bound, like ``min``.

    Returns:
        A tensor of the broadcast shape. The dtype is that of ``x``, even if a bound has
        a wider dtype of the same kind: the result is then cast, and integers wrap. If a
        bound is of a higher kind (bool < integer < floating), the dtype is the promoted
        dtype.

    Raises:
        ValueError: Both bounds are numbers and ``min`` is greater than ``max``, or
            shapes do not broadcast.
        TypeError: An argument is complex or contains strings.
        OverflowError: The dtype cannot represent a number given as a bound.

    Example:
        >>> pg.clip([-2.0, 0.5, 7.0], 0, 1)
        Tensor([0. , 0.5, 1. ], dtype=float32, backend='cpu')
        >>> pg.clip([1, 5, 9], max=[3, 4, 10])
        Tensor([1, 4, 9], dtype=int32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(clip, unknown)
    x = _convert.real("clip", x)
    low = _bound("min", min)
    high = _bound("max", max)
    if isinstance(low, int | float) and isinstance(high, int | float):
        _check_bounds(low, high)
        for bound in (low, high):
            x = creation.cast(x, weak("clip", bound, x.dtype))
        return run(CLIP_BY_VALUE, x, min=low, max=high)
    y = x
    for kernel, limit in ((binary.MAXIMUM, low), (binary.MINIMUM, high)):
        if limit is not None:
            y = run(kernel, *_convert.promote_and_broadcast("clip", y, limit))
    if y is x:
        return creation.identity(x)
    return (
        creation.cast(y, x.dtype) if dtype_kind(y.dtype) == dtype_kind(x.dtype) else y
    )


def _bound(name: str, value: TensorLike | None) -> Tensor | float | None:
    if value is None:
        return None
    if isinstance(value, _convert.SCALARS):
        return arguments.real("clip", name, value)
    return _convert.real("clip", value)


@decomposition(CLIP_BY_VALUE)
def _(x: Tensor, *, min: float, max: float) -> Tensor:
    return binary.minimum(binary.maximum(x, min), max)


def _clip_gradient(dy: Tensor, x: Tensor, min: float, max: float) -> Tensor:
    return compare.where((x >= min) & (x <= max), dy, 0)


gradients(CLIP_BY_VALUE, x=_clip_gradient)


# --- exponentials ----------------------------------------------------------------

ELU = _elementwise(
    "Elu(x: floating)",
    op="elu",
    doc="""``e^x - 1`` where ``x < 0``, without cancellation near 0; elsewhere ``x``.

    NaN for NaN, and -1 for -inf. Within 3 ulp in float32.""",
)


def elu(x: TensorLike, /, *, alpha: float = 1, **unknown: Unpack[Nothing]) -> Tensor:
    """Return ``x`` where it is positive, and ``alpha · (e^x - 1)`` elsewhere.

    No precision is lost near 0. NaN stays NaN, and the result for -inf is ``-alpha``.
    The derivative at 0 is ``alpha``.

    Args:
        x: A tensor of real numbers.
        alpha: The factor of the exponential part, a finite number.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``alpha`` is infinite or NaN.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.elu([-1.0, 0.0, 2.0])
        Tensor([-0.6321,  0.    ,  2.    ], dtype=float32, backend='cpu')

    Source:
        D.-A. Clevert, T. Unterthiner and S. Hochreiter, "Fast and Accurate Deep Network
        Learning by Exponential Linear Units (ELUs)", 2015.

    """
    if unknown:
        raise unexpected(elu, unknown)
    scale = arguments.finite("elu", "alpha", alpha)
    if scale == 1:
        return _convert.floating_unary(ELU, x, "f")
    x = _convert.floating("elu", x, "f")
    return compare.where(x > 0, x, run(ELU, x) * scale)


decomposition(ELU, lambda x: compare.where(x < 0, run(unary.EXPM1, x), x))


ELU_GRAD = Kernel(
    "EluGrad(dy: floating, y: dy) -> dx",
    out=one_shape,
    doc="""``dy · (y + 1)`` where ``y < 0``, else ``dy``; ``y`` is the output of
    ``Elu``.

    NaN where ``y`` is NaN. The shapes are equal.""",
)


decomposition(ELU_GRAD, lambda dy, y: dy * (binary.minimum(y, 0) + 1))
# Do not use EluGrad: its ``y + 1`` suffers from cancellation where y is close to -1.
gradients(ELU, x=lambda dy, x: dy * run(unary.EXP, binary.minimum(x, 0)))
gradients(ELU_GRAD, dy=lambda ddx, y: run(ELU_GRAD, ddx, y))
gradients(ELU_GRAD, y=lambda ddx, dy, y: compare.where(y < 0, ddx * dy, 0))


SELU = _elementwise(
    "Selu(x: floating)",
    op="selu",
    doc="""``λ · x`` where ``x > 0``, elsewhere ``λα · (e^x - 1)``, without
    cancellation.

    λ = 1.0507009873554805, α = 1.6732632423543772. NaN for NaN, -λα for -inf, and inf
    where ``λ · x`` overflows. Within 3 ulp in float32; within 9 ulp on a backend that
    computes it from an ``Expm1`` within 3 ulp.""",
)
SELU_SCALE = 1.0507009873554805
SELU_SCALE_ALPHA = SELU_SCALE * 1.6732632423543772


def selu(x: TensorLike, /) -> Tensor:
    """Return ``λ · x`` where ``x`` is positive, and ``λα · (e^x - 1)`` elsewhere.

    With the constants λ = 1.0507... and α = 1.6732..., mean 0 and variance 1 are
    preserved from layer to layer. NaN stays NaN. The derivative at 0 is ``λα``.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.selu([-1.0, 0.0, 2.0])
        Tensor([-1.1113,  0.    ,  2.1014], dtype=float32, backend='cpu')

    Source:
        G. Klambauer, T. Unterthiner, A. Mayr and S. Hochreiter, "Self-Normalizing
        Neural Networks", 2017.

    """
    return _convert.floating_unary(SELU, x, "f")


def _selu_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Limit the argument of ``exp``, whose overflow would give the gradient 0 · inf."""
    below = run(unary.EXP, binary.minimum(x, 0)) * SELU_SCALE_ALPHA
    return dy * compare.where(x > 0, SELU_SCALE, below)


decomposition(
    SELU,
    lambda x: compare.where(x < 0, unary.expm1(x) * SELU_SCALE_ALPHA, x * SELU_SCALE),
)
gradients(SELU, x=_selu_gradient)


SIGMOID = _elementwise(
    "Sigmoid(x: floating)",
    op="sigmoid",
    doc="""``1 / (1 + e^-x)``, without intermediate overflow.

    1 for inf, 0 for -inf, NaN for NaN. Within 3 ulp in float32; within 9 ulp on a
    backend that computes it from an ``Exp`` within 3 ulp.""",
)


def sigmoid(x: TensorLike, /) -> Tensor:
    """Return the logistic function, ``1 / (1 + e^-x)``, of each element.

    Nothing overflows: the result is 1 for inf and 0 for -inf. NaN stays NaN.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.sigmoid([-1.0, 0.0, 1.0])
        Tensor([0.2689, 0.5   , 0.7311], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(SIGMOID, x, "f")


@decomposition(SIGMOID)
def _(x: Tensor) -> Tensor:
    e = run(unary.EXP, -unary.abs(x))
    return compare.where(x < 0, e, 1) / (e + 1)


SIGMOID_GRAD = Kernel(
    "SigmoidGrad(dy: floating, x: dy) -> dx",
    out=one_shape,
    doc="""``dy · s(x) · s(-x)``; s is ``Sigmoid``, and ``x`` its input.

    Computed from the output instead, it would be 0 where the output rounds to 1. The
    shapes are equal.""",
)


@decomposition(SIGMOID_GRAD)
def _(dy: Tensor, x: Tensor) -> Tensor:
    e = run(unary.EXP, -unary.abs(x))
    r = 1 / (1 + e)
    return dy * (e * r * r)


def _sigmoid_second_derivative(ddx: Tensor, dy: Tensor, x: Tensor) -> Tensor:
    """Return the gradient for ``x``, without the cancellation of ``s(-x) - s(x)``."""
    return run(SIGMOID_GRAD, ddx * dy, x) * -run(trigonometry.TANH, x * 0.5)


gradients(
    SIGMOID_GRAD,
    dy=lambda ddx, x: run(SIGMOID_GRAD, ddx, x),
    x=_sigmoid_second_derivative,
)
gradients(SIGMOID, x=lambda dy, x: run(SIGMOID_GRAD, dy, x))


SOFTPLUS = _elementwise(
    "Softplus(x: floating)",
    op="softplus",
    doc="""``log(1 + e^x)``, without intermediate overflow.

    inf for inf, 0 for -inf, NaN for NaN. Within 3 ulp in float32.""",
)


def softplus(x: TensorLike, /) -> Tensor:
    """Return ``log(1 + e^x)`` for each element.

    Nothing overflows: the result is inf only for inf, and 0 for -inf. NaN stays NaN.
    The derivative is ``sigmoid(x)``.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.softplus([-1.0, 0.0, 100.0])
        Tensor([  0.3133,   0.6931, 100.    ], dtype=float32, backend='cpu')

    """
    return _convert.floating_unary(SOFTPLUS, x, "f")


decomposition(SOFTPLUS, lambda x: relu(x) + unary.log1p(unary.exp(-unary.abs(x))))
gradients(SOFTPLUS, x=lambda dy, x: dy * run(SIGMOID, x))


# --- compositions ----------------------------------------------------------------


def log_sigmoid(x: TensorLike, /) -> Tensor:
    """Return the logarithm of the logistic function, ``-log(1 + e^-x)``.

    Nothing overflows: the result is ``-softplus(-x)``.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.log_sigmoid([-100.0, 0.0, 1.0])
        Tensor([-100.    ,   -0.6931,   -0.3133], dtype=float32, backend='cpu')

    """
    return -run(SOFTPLUS, -_convert.floating("log_sigmoid", x, "f"))


def silu(x: TensorLike, /) -> Tensor:
    """Return ``x · sigmoid(x)`` for each element, also known as swish.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.silu([-1.0, 0.0, 2.0])
        Tensor([-0.2689,  0.    ,  1.7616], dtype=float32, backend='cpu')

    Source:
        P. Ramachandran, B. Zoph and Q. V. Le, "Searching for Activation Functions",
        2017.

    """
    x = _convert.floating("silu", x, "f")
    return x * run(SIGMOID, x)


def hard_sigmoid(
    x: TensorLike,
    /,
    *,
    alpha: float = 1 / 6,
    beta: float = 0.5,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``alpha · x + beta``, clipped to [0, 1]: a piecewise linear sigmoid.

    The derivative is ``alpha`` where the sum is from 0 to 1, inclusive, and 0
    elsewhere.

    Args:
        x: A tensor of real numbers.
        alpha: The slope. The default, 1/6, is that of PyTorch; ONNX and Keras 2 use
            0.2.
        beta: The value at 0.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: ``alpha`` or ``beta`` is infinite or NaN.
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.hard_sigmoid([-4.0, 0.0, 1.5])
        Tensor([0.  , 0.5 , 0.75], dtype=float32, backend='cpu')

    Source:
        PyTorch, ``torch.nn.functional.hardsigmoid``; ``alpha`` and ``beta`` from ONNX.

    """
    if unknown:
        raise unexpected(hard_sigmoid, unknown)
    x = _convert.floating("hard_sigmoid", x, "f")
    slope, offset = (
        arguments.finite("hard_sigmoid", name, value)
        for name, value in (("alpha", alpha), ("beta", beta))
    )
    return _clip_to_unit(x * slope + offset)


@custom_grad
def _clip_to_unit(x: Tensor) -> Any:
    """Return ``clip(x, 0, 1)``, but with a derivative of NaN at NaN."""
    y = run(CLIP_BY_VALUE, x, min=0.0, max=1.0)
    return y, lambda dy: _mask_gradient(dy, (x < 0) | (x > 1), x)


def hard_swish(x: TensorLike, /) -> Tensor:
    """Return ``x · hard_sigmoid(x)`` for each element; NaN for -inf.

    The derivative is ``x/3 + 1/2`` from -3 to 3, 0 below and 1 above.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.hard_swish([-4.0, -1.5, 3.0])
        Tensor([-0.   , -0.375,  3.   ], dtype=float32, backend='cpu')

    Source:
        A. Howard et al., "Searching for MobileNetV3", 2019.

    """
    x = _convert.floating("hard_swish", x, "f")
    return _hard_swish(x)


@custom_grad
def _hard_swish(x: Tensor) -> Any:
    """Return ``hard_swish`` and its gradient; a composition would multiply inf by 0."""

    def grad_func(dy: Tensor) -> Tensor:
        near = run(CLIP_BY_VALUE, x, min=-3.0, max=3.0)
        slope = compare.where(x > 3, 1, near * (1 / 3) + 0.5)
        return compare.where(x < -3, 0, dy * slope)

    return x * run(CLIP_BY_VALUE, x * (1 / 6) + 0.5, min=0.0, max=1.0), grad_func


SOFTSIGN = _elementwise(
    "Softsign(x: floating)",
    op="softsign",
    doc="""``x / (1 + |x|)``; NaN for ±inf.

    Within 1 ulp in float32.""",
)


def softsign(x: TensorLike, /) -> Tensor:
    """Return ``x / (1 + |x|)`` for each element; NaN for ±inf.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.softsign([-1.0, 0.0, 3.0])
        Tensor([-0.5 ,  0.  ,  0.75], dtype=float32, backend='cpu')

    Source:
        PyTorch, ``torch.nn.functional.softsign``.

    """
    return _convert.floating_unary(SOFTSIGN, x, "f")


def _softsign_gradient(dy: Tensor, x: Tensor) -> Tensor:
    divisor = unary.abs(x) + 1
    return dy / divisor / divisor


decomposition(SOFTSIGN, lambda x: x / (unary.abs(x) + 1))
gradients(SOFTSIGN, x=_softsign_gradient)


MISH = _elementwise(
    "Mish(x: floating)",
    op="mish",
    doc="""``x · tanh(log(1 + e^x))``, without intermediate overflow; NaN for -inf.

    Within 6 ulp in float32.""",
)


def mish(x: TensorLike, /) -> Tensor:
    """Return ``x · tanh(softplus(x))`` for each element.

    Args:
        x: A tensor of real numbers.

    Returns:
        A tensor of the shape and dtype of ``x``; float32 for integers and bool.

    Raises:
        TypeError: ``x`` is complex, or contains strings.

    Example:
        >>> pg.mish([-1.0, 0.0, 2.0])
        Tensor([-0.3034,  0.    ,  1.944 ], dtype=float32, backend='cpu')

    Source:
        D. Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.

    """
    return _convert.floating_unary(MISH, x, "f")


def _mish_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Return ``dy · (t + x · t')`` with ``t = tanh(softplus(x))``, from two sigmoids.

    With s = sigmoid(x) and r = sigmoid(-x), ``t = (1 - r²) / (1 + r²)``, which is
    ``s (1 + r) / (1 + r²)`` where r is close to 1, and ``t' = 4 s r² / (1 + r²)²``.
    Computing t from softplus(x) would amplify its rounding error.
    """
    s = run(SIGMOID, x)
    r = run(SIGMOID, -x)
    near = run(CLIP_BY_VALUE, x, min=-1000, max=1000)  # inf · 0 is NaN
    square = r * r
    divisor = square + 1
    part = r / divisor
    t = compare.where(x < 0, s * (r + 1), 1 - square) / divisor
    return dy * (t + near * 4 * s * (part * part))


decomposition(MISH, lambda x: x * run(trigonometry.TANH, run(SOFTPLUS, x)))
gradients(MISH, x=_mish_gradient)
