"""Kernels that a backend may implement to compute a gradient in one run.

``plugin`` makes them public. The core's gradients of these ops run two to five kernels
each. Every contract decomposes into the core's gradient. Tapes therefore record higher
derivatives as in the core, and dtypes that a backend does not implement are computed as
in the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.elementwise import error_functions, trigonometry
from plugrad._src.ops.nn import activation, gelu, softmax
from plugrad._src.registry.contract import Kernel, decomposition
from plugrad._src.registry.specs import Spec, one_shape
from plugrad._src.tensor.tensor import Tensor


def backward_kernels(package: str) -> dict[str, Kernel]:
    """Return contracts of kernels that compute a gradient in one run, by plain name.

    The names are ``ReluGrad TanhGrad SigmoidGrad ErfGrad GeluGrad GeluTanhGrad
    SoftmaxGrad LogSoftmaxGrad``. Declare the contracts as ``contracts`` of your
    ``Backend``, implement ``"plugrad_mine.TanhGrad"`` and so on, and pass the
    ``backward_gradients`` of the contracts to ``Runtime``::

        KERNELS = backward_kernels("plugrad_mine")
        Backend("mine", open=open_mine, contracts=[*KERNELS.values()])
        Runtime(gradients=backward_gradients(KERNELS), ...)  # in open_mine

    Args:
        package: The name of your package, which prefixes the names of the kernels.

    Returns:
        A dict from plain name to contract.

    Example:
        >>> from plugrad import plugin
        >>> plugin.backward_kernels("plugrad_mine")["TanhGrad"]
        plugrad_mine.TanhGrad(dy: inexact, x: dy) -> dx

    """
    found: dict[str, Kernel] = {}
    for signature, parts, out, doc in CONTRACTS:
        kernel = Kernel(f"{package}.{signature} -> dx", out=out, doc=doc)
        decomposition(kernel, parts)
        found[kernel.name.removeprefix(f"{package}.")] = kernel
    return found


def backward_gradients(
    kernels: Mapping[str, Kernel],
) -> dict[str, dict[str, Callable[..., Any]]]:
    """Return gradients, by kernel, that run ``backward_kernels``.

    The gradients of ``Softmax`` and ``LogSoftmax`` fall back to the core's unless
    ``axis`` is the last one.

    Args:
        kernels: The dict that ``backward_kernels`` returned, or a subset of it.

    Returns:
        A table for ``Runtime(gradients=...)``, with the gradients that run the given
        kernels.

    Example:
        >>> from plugrad import plugin
        >>> kernels = plugin.backward_kernels("plugrad_mine")
        >>> sorted(plugin.backward_gradients(kernels))
        ['Erf', 'Gelu', 'GeluTanh', 'LogSoftmax', 'Relu', 'Sigmoid', 'Softmax', 'Tanh']

    """
    return {
        name.removesuffix("Grad"): _gradient(name, kernel)
        for name, kernel in kernels.items()
    }


def _gradient(name: str, kernel: Kernel) -> dict[str, Callable[..., Any]]:
    """Return the gradient functions that run ``kernel``, by input."""

    def from_rows(
        dy: Tensor, y: Tensor, axis: int, original: Callable[..., Any]
    ) -> Any:
        return run(kernel, dy, y) if axis == len(y.shape) - 1 else original(dy)

    def from_input(dy: Tensor, x: Tensor) -> Any:
        return run(kernel, dy, x)

    def from_output(dy: Tensor, y: Tensor) -> Any:
        return run(kernel, dy, y)

    found: Any = from_input if "x" in kernel.inputs else from_output
    found = from_rows if name.endswith("SoftmaxGrad") else found
    found.backward_kernel = kernel.name  # `why --grad` shows the author of the function
    return {"logits" if found is from_rows else "x": found}


def _rows(dy: Spec, y: Spec) -> Spec:
    if not dy.shape:
        raise ValueError(
            "output: dy has rank 0, so there is no axis to sum over; reshape it"
        )
    return one_shape(dy, y)


CONTRACTS: list[tuple[str, Callable[..., Any], Callable[..., Spec], str]] = [
    (
        "ReluGrad(dy: floating, y: dy)",
        activation.relu_gradient,
        one_shape,
        "``dy`` where y > 0, else ``y`` itself (0 or NaN); y is the output of Relu.",
    ),
    (
        "TanhGrad(dy: inexact, x: dy)",
        lambda dy, x: run(trigonometry.TANH_GRAD, dy, x),
        one_shape,
        """``dy · conj(1 / cosh(x)²)``; x is the input of Tanh. Computed from the output
        of Tanh, the result would be 0 where that output rounds to 1.""",
    ),
    (
        "SigmoidGrad(dy: floating, x: dy)",
        lambda dy, x: run(activation.SIGMOID_GRAD, dy, x),
        one_shape,
        """``dy · s(x) · s(-x)``; s is Sigmoid, and x its input. Computed from the
        output of Sigmoid, the result would be 0 where that output rounds to 1.""",
    ),
    (
        "ErfGrad(dy: floating, x: dy)",
        lambda dy, x: dy * (error_functions.gaussian(x) * error_functions.SLOPE_OF_ERF),
        one_shape,
        """``dy · 2/√π · e^(-x²)``; x is the input of Erf. The rounding error of x² is
        compensated.""",
    ),
    (
        "GeluGrad(dy: floating, x: dy)",
        gelu.gelu_gradient,
        one_shape,
        """``dy · (erfc(-x · √½) · ½ + n · e^(-n²/2) / √(2π))``, where n is x limited
        to [-40, 40]; x is the input of Gelu. The relative error is small even where the
        slope is small.""",
    ),
    (
        "GeluTanhGrad(dy: floating, x: dy)",
        gelu.gelu_tanh_gradient,
        one_shape,
        """``dy · (s(u) + n · √(8/π) · (1 + 0.134145 n²) · s(u) · s(-u))``; s is the
        sigmoid, u its argument in GeluTanh, x the input of GeluTanh, and n is x limited
        to a range outside of which ``s(u) · s(-u)`` is 0.""",
    ),
    (
        "SoftmaxGrad(dy: floating, y: dy)",
        lambda dy, y: softmax.softmax_gradient(dy, y, len(y.shape) - 1),
        _rows,
        """``dy · y - y · Σ dy · y`` along the last axis; y is the output of Softmax.
        float16 is computed in float32. The result adds up to 0 along the axis; where y
        is more than 0.6, it is computed as minus the sum of the other elements, because
        the difference would cancel.""",
    ),
    (
        "LogSoftmaxGrad(dy: floating, y: dy)",
        lambda dy, y: softmax.log_softmax_gradient(dy, y, len(y.shape) - 1),
        _rows,
        """``dy - e^y · Σ dy`` along the last axis; y is the output of LogSoftmax.
        float16 is computed in float32. The result adds up to 0 along the axis; where y
        is more than -0.5, it is computed as minus the sum of the other elements,
        because the difference would cancel.""",
    ),
]
