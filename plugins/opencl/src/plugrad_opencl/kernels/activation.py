"""Activation functions. Comparisons are written so that NaN propagates."""

from plugrad.plugin import KernelTable

from ..elementwise import elementwise

_SELU = "WHERE(x < (S)0, f_expm1(x) * (S)1.7580993408473766, x * (S)1.0507009873554805)"

# The result is NaN if x or a limit is NaN.
_CLIP = """
  const T y = WHERE(x >= min_, x, x != x ? x : (T)min_);
  return WHERE(y <= max_, y, y != y ? y : (T)max_);
"""

# The value and the slope have the relative error of e^(-x²/2): no digits cancel.
_NORMAL = """
  const T end = ERFC_END * (S)1.4142135623730951;
  const T a = WHERE(fabs(x) > end, end, fabs(x));
  T correction;
  const T y = f_scaled_erfc(a * (S)0.7071067811865476, &correction) * (S)0.5;
"""
_GELU = (
    f"""{_NORMAL}
  const T near = WHERE(x > end, end, x);
  const T tail = f_times_gaussian(near * y, correction, a, (S)0.5);
  return WHERE(x <= (S)0, tail, x - tail);
""",
    f"""{_NORMAL}
  const T slope = a * (S)0.3989422804014327 - (y + y * correction);
  const T u = f_times_gaussian(slope, (T)0, a, (S)0.5);
  return dy * WHERE(x < (S)0, -u, (S)1 + u);
""",
)
# x times the sigmoid of u, and the slope of this product; ``e`` is e^-|u|.
_GELU_TANH = (
    """
  const T e = f_exp_gelu_tanh(x);
  return x * (WHERE(x < (S)0, e, (S)1) / ((S)1 + e));
""",
    """
  const T n = WHERE(x < -GELU_LIMIT, -GELU_LIMIT, WHERE(x > GELU_LIMIT, GELU_LIMIT, x));
  const T e = f_exp_gelu_tanh(n), r = (S)1 / ((S)1 + e);
  const T slope = n * (S)1.5957691216057308 * (n * n * (S)0.134145 + (S)1);
  return dy * (WHERE(x < (S)0, e, (T)1) * r + slope * (e * r * r));
""",
)

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
kernels["SigmoidGrad"] = kernels["plugrad_opencl.SigmoidGrad"] = elementwise(
    "SigmoidGrad", "dy x", f="dy * f_sigmoid_slope(x)"
)
