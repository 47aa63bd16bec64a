"""Activation functions. Comparisons are put so that NaN stays."""

from plugrad.plugin import KernelTable

from ..elementwise import elementwise

_SELU = "WHERE(x < (S)0, f_expm1(x) * (S)1.7580993408473766, x * (S)1.0507009873554805)"

# NaN stays, in limits too.
_CLIP = """
  const T y = WHERE(x >= min_, x, x != x ? x : (T)min_);
  return WHERE(y <= max_, y, y != y ? y : (T)max_);
"""

_NORMAL = "const T y = f_erf(x * (S)0.7071067811865476) * (S)0.5 + (S)0.5;"
_TANH = """
  const T n = WHERE(x < (S)-10, (T)-10, WHERE(x > (S)10, (T)10, x));
  const T t = f_tanh(n * (n * n * (S)0.044715 + (S)1) * (S)0.7978845608028654);
  const T y = t * (S)0.5 + (S)0.5;
"""
_SLOPE = """
  const T inner = ((S)1 - t * t) * (n * n * (S)0.134145 + (S)1);
  return dy * (y + n * inner * (S)0.3989422804014327);
"""
_GELU = (
    f"{_NORMAL} return x * y;",
    f"""{_NORMAL}
  const T n = WHERE(x < (S)-40, (T)-40, WHERE(x > (S)40, (T)40, x));
  return dy * (y + n * f_exp(n * n * (S)-0.5) * (S)0.3989422804014327);
""",
)
_GELU_TANH = f"{_TANH} return x * y;", f"{_TANH} {_SLOPE}"

kernels = KernelTable(
    Relu=elementwise("Relu", "x", fi="WHERE(x <= (S)0, (S)0, x)", ub="x"),
    Relu6=elementwise(
        "Relu6",
        "x",
        fi="WHERE(x <= (S)0, (S)0, WHERE(x > (S)6, (S)6, x))",
        u="WHERE(x > (S)6, (S)6, x)",
    ),
    ClipByValue=elementwise(
        "ClipByValue",
        "x",
        attrs="min max",
        f=_CLIP,
        iu="const T y = WHERE(x < min_, min_, x); return WHERE(y > max_, max_, y);",
    ),
    LeakyRelu=elementwise(
        "LeakyRelu", "x", attrs="alpha", f="WHERE(x < (S)0, x * alpha_, x)"
    ),
    Prelu=elementwise("Prelu", "x alpha", f="WHERE(x < (S)0, x * alpha, x)"),
    Step=elementwise(
        "Step",
        "x",
        attrs="alpha",
        f="WHERE(x > (S)0, (S)1, WHERE(x <= (S)0, alpha_, x))",
    ),
    Elu=elementwise("Elu", "x", f="WHERE(x < (S)0, f_expm1(x), x)"),
    EluGrad=elementwise("EluGrad", "dy y", f="dy * WHERE(y > (S)0, (S)1, y + (S)1)"),
    Selu=elementwise("Selu", "x", f=_SELU),
    Sigmoid=elementwise("Sigmoid", "x", f="f_sigmoid(x)"),
    Softplus=elementwise("Softplus", "x", f="f_softplus(x)"),
)
for _name, (_value, _slope) in {"Gelu": _GELU, "GeluTanh": _GELU_TANH}.items():
    kernels[_name] = elementwise(_name, "x", f=_value)
    kernels[f"plugrad_opencl.{_name}Grad"] = elementwise(
        f"{_name}Grad", "dy x", f=_slope
    )
kernels["plugrad_opencl.ReluGrad"] = elementwise(
    "ReluGrad", "dy y", f="WHERE(y > (S)0, dy, y)"
)
kernels["plugrad_opencl.SigmoidGrad"] = elementwise(
    "SigmoidGrad", "dy y", f="dy * (y * ((S)1 - y))"
)
