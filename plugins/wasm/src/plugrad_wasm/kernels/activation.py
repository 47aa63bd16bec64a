"""Activation functions."""

from plugrad.plugin import KernelTable

from ..arrays import WasmArray
from ..launch import INT32, binary, unary

kernels = KernelTable(
    Elu=unary("elu"),
    EluGrad=binary("elu_grad"),
    Gelu=unary("gelu"),
    GeluTanh=unary("gelu_tanh"),
    Prelu=binary("prelu"),
    Relu=unary("relu"),
    Relu6=unary("relu6"),
    Selu=unary("selu"),
    Sigmoid=unary("sigmoid"),
    Softplus=unary("softplus"),
)
kernels["plugrad_wasm.GeluGrad"] = binary("gelu_grad")
kernels["plugrad_wasm.GeluTanhGrad"] = binary("gelu_tanh_grad")
kernels["plugrad_wasm.ReluGrad"] = binary("relu_grad")
kernels["SigmoidGrad"] = kernels["plugrad_wasm.SigmoidGrad"] = binary("sigmoid_grad")
_clip, _leaky_relu, _step = map(unary, ("clip", "leaky_relu", "step"))


@kernels("ClipByValue")
def clip_by_value(x: WasmArray, *, min: float, max: float) -> WasmArray:
    """Clip; limits are passed as doubles, which cannot represent all int64."""
    if x.dtype.kind in "iu" and x.dtype is not INT32:
        return NotImplemented
    return _clip(x, min, max)


@kernels("LeakyRelu")
def leaky_relu(x: WasmArray, *, alpha: float) -> WasmArray:
    """Multiply negative numbers by ``alpha``."""
    return _leaky_relu(x, alpha, 0)


@kernels("Step")
def step(x: WasmArray, *, alpha: float) -> WasmArray:
    """Return 1 for positive numbers, else ``alpha``."""
    return _step(x, alpha, 0)
