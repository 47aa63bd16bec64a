"""plugrad: tensors whose every backend, kernel and gradient is a plugin."""

from . import _discovery
from ._autodiff import (
    custom_grad,
    grad,
    grads,
    jvp,
    stop_gradient,
    value_and_grad,
    value_and_grads,
    variable_grads,
    vjp,
)
from ._control import (
    backends,
    copy_registered_kernels,
    engine,
    get_backend,
    get_gradient,
    get_kernel,
    get_kernels_for_backend,
    override_gradient,
    register_backend,
    register_gradient,
    register_kernel,
    remove_backend,
    set_backend,
    unregister_gradient,
    unregister_kernel,
    use_backend,
    use_gradients,
)
from ._engine import run_kernel
from ._entries import BackendUnavailable
from ._kernel import BackendError, GradientNotFound, KernelNotFound
from ._tensor import Tensor
from .ops import fused
from .ops._convert import asarray
from .ops.activation import relu
from .ops.binary import add, divide, multiply, subtract
from .ops.compare import equal, greater
from .ops.conv import conv2d
from .ops.creation import astype, full, identity, ones, zeros
from .ops.reduce import max, mean, softmax, sum
from .ops.shape import broadcast_to, concat, reshape, split
from .ops.unary import exp, negative, sqrt, square, tanh
from .ops.variable import Variable

_discovery.discover()

__all__ = [
    "BackendError",
    "BackendUnavailable",
    "GradientNotFound",
    "KernelNotFound",
    "Tensor",
    "Variable",
    "add",
    "asarray",
    "astype",
    "backends",
    "broadcast_to",
    "concat",
    "conv2d",
    "copy_registered_kernels",
    "custom_grad",
    "divide",
    "engine",
    "equal",
    "exp",
    "full",
    "fused",
    "get_backend",
    "get_gradient",
    "get_kernel",
    "get_kernels_for_backend",
    "grad",
    "grads",
    "greater",
    "identity",
    "jvp",
    "max",
    "mean",
    "multiply",
    "negative",
    "ones",
    "override_gradient",
    "register_backend",
    "register_gradient",
    "register_kernel",
    "relu",
    "remove_backend",
    "reshape",
    "run_kernel",
    "set_backend",
    "softmax",
    "split",
    "sqrt",
    "square",
    "stop_gradient",
    "subtract",
    "sum",
    "tanh",
    "unregister_gradient",
    "unregister_kernel",
    "use_backend",
    "use_gradients",
    "value_and_grad",
    "value_and_grads",
    "variable_grads",
    "vjp",
    "zeros",
]
