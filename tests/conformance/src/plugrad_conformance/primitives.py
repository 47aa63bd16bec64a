"""The kernels that a backend must implement or may leave to the host, with reasons.

``tests/core/ops/test_catalog.py`` checks that all other kernels decompose into these.
"""

# At most 40 kernels. A backend with these and a host runs everything.
PRIMITIVES = {
    "Add": "arithmetic",
    "Atan2": "composes the inverse trigonometric functions, in every quadrant",
    "BatchMatMul": "matrix products, convolutions, einsum and Fourier transforms",
    "BitwiseAnd": "without it, one op on 32 bits takes 283 kernels",
    "BroadcastTo": "tile, and the gradients of reductions",
    "Cast": "the only conversion between dtypes",
    "Complex": "complex numbers from their real and imaginary parts",
    "Concat": "im2col",
    "Cos": "sin(x + pi/2) is inaccurate for large x",
    "Equal": "IEEE equality: only NaN differs from itself",
    "Exp": "the exponential function itself",
    "Expm1": "in every libm; no formula with exp survives fast-math",
    "Fill": "constants without an upload",
    "Floor": "ceil, round and every coordinate",
    "FloorDiv": "integers cannot go through floating numbers",
    "GatherV2": "lookups by index",
    "Imag": "with Real, the only way from complex to real numbers",
    "Less": "all orderings",
    "Log": "the natural logarithm itself",
    "Log1p": "in every libm; no formula with log survives fast-math",
    "Max": "a reduction that propagates NaN",
    "Maximum": "relu and pooling; propagates NaN",
    "Minimum": "-maximum(-a, -b) overflows at the smallest integer",
    "Mod": "the exact remainder; a - floor(a / b) * b is rounded",
    "Multiply": "arithmetic",
    "PadV2": "padding, and the gradients of slices",
    "Pow": "exp(b * log(a)) fails for negative bases and rounds integers",
    "Real": "with Imag, the only way from complex to real numbers",
    "RealDiv": "correctly rounded division",
    "Reshape": "views",
    "Select": "all logic and every branch",
    "Sin": "with exact reduction of large arguments",
    "Sqrt": "correctly rounded",
    "StridedSlice": "slices, flips and the positions of windows",
    "Sub": "arithmetic",
    "Sum": "pairwise or better",
    "Tanh": "in every libm; otherwise, it takes 27 kernels",
    "TopK": "sorting; comparing all pairs would take n² memory",
    "Transpose": "permutes axes",
    "UnsortedSegmentSum": "every scatter, and the gradient of every gather",
}

_LOOP = "each box depends on those chosen before; that takes thousands of tiny kernels"
_SHAPE = "the shape of the result depends on the values"
_STRINGS = "strings are stored on the host"
_LAPACK = "a factorization by LAPACK, on the host"

# Kernels without a rule for output shapes, because these depend on data.
DATA_DEPENDENT: dict[str, str] = {
    "NonMaxSuppressionV3": _LOOP,
    "NonMaxSuppressionV5": _LOOP,
    "RaggedGather": _SHAPE,
    "RaggedRange": _SHAPE,
    "RaggedTensorToTensor": _SHAPE,
    "SparseFillEmptyRows": _SHAPE,
    "StringNGrams": _STRINGS,
    "StringSplit": _STRINGS,
    "Unique": _SHAPE,
}

# Kernels with a rule for output shapes, but without a decomposition.
HOST: dict[str, str] = {
    "Bitcast": "no other kernel reads the bits of a floating number",
    "NonMaxSuppressionV4": _LOOP,
    "Cholesky": _LAPACK,
    "Eig": _LAPACK,
    "Eigh": _LAPACK,
    "Lu": "each pivot depends on the results of the previous elimination steps",
    "MatrixExp": "the number of squarings depends on the values",
    "Qr": _LAPACK,
    "Slogdet": _LAPACK,
    "Solve": _LAPACK,
    "StaticRegexReplace": _STRINGS,
    "StringToHashBucketFast": _STRINGS,
    "Svd": _LAPACK,
}
