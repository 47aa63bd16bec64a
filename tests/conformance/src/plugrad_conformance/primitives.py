"""The kernels that a backend must implement or may leave to the host, with reasons.

``tests/core/ops/test_catalog.py`` checks that all other kernels decompose into these.
"""

# At most 40 kernels. A backend with these and a host runs everything.
PRIMITIVES = {
    "Add": "arithmetic",
    "Atan2": "the inverse trigonometric functions come from it, in every quadrant",
    "BatchMatMul": "matrices, convolutions, einsum and Fourier transforms of a size",
    "BitwiseAnd": "283 kernels for 32 bits without it",
    "BroadcastTo": "tile, and the gradients of reductions",
    "Cast": "the only way between dtypes",
    "Complex": "the only way into complex numbers",
    "Concat": "im2col",
    "Cos": "sin(x + pi/2) loses large x",
    "Equal": "IEEE equality: NaN is the one that differs from itself",
    "Exp": "the function itself",
    "Expm1": "in every libm; no trick around exp survives fast-math",
    "Fill": "constants without an upload",
    "Floor": "ceil, round and every coordinate",
    "FloorDiv": "integers cannot go through floating numbers",
    "GatherV2": "lookups by number",
    "Imag": "one of two ways out of complex numbers",
    "Less": "all orderings",
    "Log": "the function itself",
    "Log1p": "in every libm; no trick around log survives fast-math",
    "Max": "reduces, and NaN wins",
    "Maximum": "relu and pooling, and NaN wins",
    "Minimum": "-maximum(-a, -b) overflows at the least integer",
    "Mod": "the exact remainder; a - floor(a / b) * b is not",
    "Multiply": "arithmetic",
    "PadV2": "padding, and the gradients of slices",
    "Pow": "exp(b * log(a)) loses negative bases and exact integers",
    "Real": "one of two ways out of complex numbers",
    "RealDiv": "correctly rounded division",
    "Reshape": "views",
    "Select": "all logic and every branch",
    "Sin": "with exact reduction of large arguments",
    "Sqrt": "correctly rounded",
    "StridedSlice": "slices, flips and the positions of windows",
    "Sub": "arithmetic",
    "Sum": "pairwise or better",
    "Tanh": "in every libm; 27 kernels otherwise",
    "TopK": "sorting; by ranks it takes n² memory",
    "Transpose": "order of axes",
    "UnsortedSegmentSum": "every scatter, and the gradient of every gather",
}

_LOOP = "each box depends on those chosen before: thousands of tiny kernels"
_SHAPE = "the shape of the result depends on the values"
_STRINGS = "strings live on the host"
_LAPACK = "a factorization: LAPACK's, on the host"

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
    "Bitcast": "no other kernel sees the bits of a floating number",
    "NonMaxSuppressionV4": _LOOP,
    "Cholesky": _LAPACK,
    "Eig": _LAPACK,
    "Eigh": _LAPACK,
    "Lu": "each pivot depends on the values left by those before it",
    "MatrixExp": "how often to square depends on the values",
    "Qr": _LAPACK,
    "Slogdet": _LAPACK,
    "Solve": _LAPACK,
    "StaticRegexReplace": _STRINGS,
    "StringToHashBucketFast": _STRINGS,
    "Svd": _LAPACK,
}
