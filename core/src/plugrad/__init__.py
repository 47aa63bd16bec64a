"""plugrad: tensors whose every backend, kernel and gradient is a plugin."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._src.autodiff.reverse import (
    grad,
    grads,
    jvp,
    stop_gradient,
    value_and_grad,
    value_and_grads,
    variable_grads,
    vjp,
)
from ._src.engine import accelerated
from ._src.engine.control import (
    backends,
    copy_registered_kernels,
    get_backend,
    get_kernel,
    get_kernels_for_backend,
    register_backend,
    register_kernel,
    remove_backend,
    remove_plugin,
    set_backend,
    unregister_kernel,
    use_backend,
)
from ._src.engine.outside import outside
from ._src.engine.overrides import (
    bind_overrides,
    get_gradient,
    gradient_packs,
    name_scope,
    override_gradient,
    register_gradient,
    set_gradients,
    unregister_gradient,
    use_gradients,
)
from ._src.engine.precision import get_precision, precision, set_precision
from ._src.ops._processes import _restored, _restored_variable
from ._src.ops.array.blocks import (
    batch_to_space_nd,
    depth_to_space,
    space_to_batch_nd,
)
from ._src.ops.array.gather import (
    gather,
    one_hot,
    take,
    take_along_axis,
    unsorted_segment_sum,
)
from ._src.ops.array.grids import (
    eye,
    meshgrid,
    tril,
    tril_indices,
    triu,
    triu_indices,
)
from ._src.ops.array.ranges import (
    arange,
    linspace,
)
from ._src.ops.array.rearrange import (
    broadcast_args,
    broadcast_arrays,
    broadcast_shapes,
    ensure_shape,
    moveaxis,
    repeat,
    roll,
)
from ._src.ops.array.slicing import (
    pad,
    slice,
)
from ._src.ops.basis._convert import (
    asarray,
)
from ._src.ops.basis.binary import (
    add,
    add_n,
    atan2,
    divide,
    divide_no_nan,
    floor_divide,
    fmod,
    hypot,
    logaddexp,
    maximum,
    minimum,
    multiply,
    pow,
    remainder,
    squared_difference,
    subtract,
)
from ._src.ops.basis.compare import (
    allclose,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    isclose,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    nonzero,
    not_equal,
    where,
)
from ._src.ops.basis.complexes import (
    angle,
    complex,
    conj,
    imag,
    real,
)
from ._src.ops.basis.creation import (
    astype,
    bitcast,
    empty,
    empty_like,
    full,
    full_like,
    identity,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from ._src.ops.basis.logic import (
    all,
    any,
    count_nonzero,
)
from ._src.ops.basis.reduce import (
    max,
    mean,
    min,
    prod,
    sum,
)
from ._src.ops.basis.shape import (
    broadcast_to,
    concat,
    expand_dims,
    flip,
    permute_dims,
    reshape,
    split,
    squeeze,
    stack,
    tile,
    unstack,
)
from ._src.ops.basis.unary import (
    abs,
    ceil,
    exp,
    exp2,
    expm1,
    floor,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    negative,
    positive,
    reciprocal,
    round,
    rsqrt,
    sign,
    sqrt,
    square,
    trunc,
)
from ._src.ops.basis.variable import (
    Variable,
)
from ._src.ops.by_name import (
    engine,
    run_kernel,
)
from ._src.ops.custom import (
    custom_grad,
)
from ._src.ops.elementwise.error_functions import (
    erf,
    erfc,
)
from ._src.ops.elementwise.incomplete_gamma import (
    gammainc,
    gammaincc,
)
from ._src.ops.elementwise.integers import (
    gcd,
    lcm,
    unravel_index,
)
from ._src.ops.elementwise.signs import (
    copysign,
    nextafter,
    signbit,
)
from ._src.ops.elementwise.special import (
    digamma,
    erfinv,
    lgamma,
    polygamma,
    xlog1py,
    xlogy,
)
from ._src.ops.elementwise.trigonometry import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    sin,
    sinh,
    tan,
    tanh,
)
from ._src.ops.indexing.indexing import (
    strided_slice,
)
from ._src.ops.indexing.scatter import (
    gather_nd,
    scatter_nd,
    tensor_scatter_update,
)
from ._src.ops.indexing.search import (
    UniqueAll as UniqueAll,
)
from ._src.ops.indexing.search import (
    UniqueCounts as UniqueCounts,
)
from ._src.ops.indexing.search import (
    UniqueInverse as UniqueInverse,
)
from ._src.ops.indexing.search import (
    boolean_mask,
    isin,
    lower_bound,
    searchsorted,
    setdiff1d,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    upper_bound,
)
from ._src.ops.indexing.segments import (
    unsorted_segment_max,
    unsorted_segment_min,
    unsorted_segment_prod,
)
from ._src.ops.indexing.sorting import (
    argsort,
    in_top_k,
    median,
    quantile,
    sort,
    top_k,
)
from ._src.ops.linalg.einsum import (
    einsum,
)
from ._src.ops.linalg.matrix import (
    diag,
)
from ._src.ops.linalg.products import (
    matmul,
    matrix_transpose,
    tensordot,
    vecdot,
)
from ._src.ops.namespace import (
    __array_api_version__,
    __array_namespace_info__,
    bfloat16,
    bool,
    can_cast,
    complex64,
    complex128,
    e,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    inf,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    nan,
    newaxis,
    pi,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ._src.ops.nn.activation import (
    clip,
    elu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    log_sigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
    step,
)
from ._src.ops.nn.adaptive import (
    adaptive_avg_pool,
    adaptive_avg_pool1d,
    adaptive_max_pool,
    adaptive_max_pool1d,
)
from ._src.ops.nn.attention import (
    rotary_embedding,
    scaled_dot_product_attention,
)
from ._src.ops.nn.conv import (
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
)
from ._src.ops.nn.depthwise import (
    depthwise_conv2d,
    separable_conv2d,
)
from ._src.ops.nn.dilation import (
    dilation2d,
)
from ._src.ops.nn.dropout import dropout
from ._src.ops.nn.gelu import (
    gelu,
)
from ._src.ops.nn.norm import (
    batch_norm,
    group_norm,
    layer_norm,
    local_response_normalization,
    rms_norm,
)
from ._src.ops.nn.pool import (
    avg_pool,
    avg_pool1d,
    max_pool,
    max_pool1d,
    max_pool_with_argmax,
    pool,
)
from ._src.ops.nn.sequence import (
    gru,
    lstm,
)
from ._src.ops.nn.softmax import (
    log_softmax,
    softmax,
)
from ._src.ops.reduction.cumulative import (
    bincount,
    confusion_matrix,
    cumulative_logsumexp,
    cumulative_max,
    cumulative_min,
    cumulative_prod,
    cumulative_sum,
    dense_bincount,
    diff,
    moving_average,
)
from ._src.ops.reduction.extremes import (
    argmax,
    argmin,
)
from ._src.ops.reduction.nans import (
    fmax,
    fmin,
    nan_to_num,
    nanmax,
    nanmean,
    nanmin,
    nansum,
)
from ._src.ops.statistics.samples import (
    corrcoef,
    cov,
    histogram,
)
from ._src.ops.statistics.statistics import (
    logsumexp,
    moments,
    std,
    var,
)
from ._src.public import name_publicly, publish
from ._src.registry.backend import BackendUnavailable
from ._src.registry.contract import (
    BackendError,
    GradientNotFound,
    KernelNotFound,
    seal_core_names,
)
from ._src.registry.deprecation import PlugradDeprecationWarning
from ._src.registry.gradients import PackInfo as PackInfo
from ._src.tensor.dtypes import STRING as string
from ._src.tensor.tensor import Tensor, TensorLike

__all__ = [
    "BackendError",
    "BackendUnavailable",
    "Budget",
    "BudgetError",
    "GradientNotFound",
    "KernelNotFound",
    "PlugradDeprecationWarning",
    "StaleReplay",
    "Tensor",
    "TensorLike",
    "Variable",
    "__array_api_version__",
    "__array_namespace_info__",
    "abs",
    "acos",
    "acosh",
    "adaptive_avg_pool",
    "adaptive_avg_pool1d",
    "adaptive_max_pool",
    "adaptive_max_pool1d",
    "add",
    "add_n",
    "all",
    "allclose",
    "angle",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "avg_pool",
    "avg_pool1d",
    "backends",
    "batch_norm",
    "batch_to_space_nd",
    "bfloat16",
    "bincount",
    "bind_overrides",
    "bitcast",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "boolean_mask",
    "broadcast_args",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "can_cast",
    "ceil",
    "check_gradients",
    "clip",
    "complex",
    "complex64",
    "complex128",
    "concat",
    "confusion_matrix",
    "conj",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "copy_registered_kernels",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cumulative_logsumexp",
    "cumulative_max",
    "cumulative_min",
    "cumulative_prod",
    "cumulative_sum",
    "custom_grad",
    "debug",
    "dense_bincount",
    "depth_to_space",
    "depthwise_conv2d",
    "diag",
    "diff",
    "digamma",
    "dilation2d",
    "dispose",
    "divide",
    "divide_no_nan",
    "dropout",
    "e",
    "einsum",
    "elu",
    "empty",
    "empty_like",
    "engine",
    "ensure_shape",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expand_dims",
    "explain",
    "expm1",
    "eye",
    "fft",
    "finfo",
    "flip",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "from_dlpack",
    "full",
    "full_like",
    "fused",
    "gammainc",
    "gammaincc",
    "gather",
    "gather_nd",
    "gcd",
    "gelu",
    "get_backend",
    "get_gradient",
    "get_kernel",
    "get_kernels_for_backend",
    "get_precision",
    "grad",
    "gradient_packs",
    "grads",
    "greater",
    "greater_equal",
    "group_norm",
    "gru",
    "hard_sigmoid",
    "hard_swish",
    "hessian",
    "histogram",
    "hypot",
    "identity",
    "iinfo",
    "imag",
    "image",
    "in_top_k",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isclose",
    "isdtype",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "jacobian",
    "jit",
    "jvp",
    "keep",
    "layer_norm",
    "lcm",
    "leaky_relu",
    "less",
    "less_equal",
    "lgamma",
    "linalg",
    "linspace",
    "load",
    "local_response_normalization",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "log_softmax",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "losses",
    "lower_bound",
    "lstm",
    "matmul",
    "matrix_transpose",
    "max",
    "max_pool",
    "max_pool1d",
    "max_pool_with_argmax",
    "maximum",
    "mean",
    "median",
    "memory",
    "meshgrid",
    "min",
    "minimum",
    "mish",
    "moments",
    "moveaxis",
    "moving_average",
    "multiply",
    "name_scope",
    "nan",
    "nan_to_num",
    "nanmax",
    "nanmean",
    "nanmin",
    "nansum",
    "negative",
    "newaxis",
    "nextafter",
    "nonzero",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "outside",
    "override_gradient",
    "pad",
    "permute_dims",
    "pi",
    "polygamma",
    "pool",
    "positive",
    "pow",
    "precision",
    "prelu",
    "prod",
    "profile",
    "quantile",
    "quantized",
    "random",
    "real",
    "reciprocal",
    "register_backend",
    "register_gradient",
    "register_kernel",
    "relu",
    "relu6",
    "remainder",
    "remove_backend",
    "remove_plugin",
    "repeat",
    "reshape",
    "result_type",
    "rms_norm",
    "roll",
    "rotary_embedding",
    "round",
    "rsqrt",
    "run_kernel",
    "save",
    "scaled_dot_product_attention",
    "scatter_nd",
    "searchsorted",
    "selu",
    "separable_conv2d",
    "set_backend",
    "set_gradients",
    "set_precision",
    "setdiff1d",
    "sigmoid",
    "sign",
    "signal",
    "signbit",
    "silu",
    "sin",
    "sinh",
    "slice",
    "softmax",
    "softplus",
    "softsign",
    "sort",
    "space_to_batch_nd",
    "sparse",
    "split",
    "sqrt",
    "square",
    "squared_difference",
    "squeeze",
    "stack",
    "std",
    "step",
    "stop_gradient",
    "strided_slice",
    "string",
    "strings",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensor_scatter_update",
    "tensordot",
    "tidy",
    "tile",
    "time",
    "top_k",
    "tree",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unravel_index",
    "unregister_gradient",
    "unregister_kernel",
    "unsorted_segment_max",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sum",
    "unstack",
    "upper_bound",
    "use_backend",
    "use_gradients",
    "value_and_grad",
    "value_and_grads",
    "var",
    "variable_grads",
    "vecdot",
    "vjp",
    "vmap",
    "where",
    "xlog1py",
    "xlogy",
    "zeros",
    "zeros_like",
]

__version__: str

if TYPE_CHECKING:
    from . import fft as fft
    from . import fused as fused
    from . import image as image
    from . import linalg as linalg
    from . import losses as losses
    from . import quantized as quantized
    from . import random as random
    from . import signal as signal
    from . import sparse as sparse
    from . import strings as strings
    from . import tree as tree
    from ._src.autodiff.jacobian import hessian as hessian
    from ._src.autodiff.jacobian import jacobian as jacobian
    from ._src.batching.vmap import vmap as vmap
    from ._src.tools.budget import Budget as Budget
    from ._src.tools.budget import BudgetError as BudgetError
    from ._src.tools.debug import check_gradients as check_gradients
    from ._src.tools.debug import debug as debug
    from ._src.tools.explain import explain as explain
    from ._src.tools.interchange import from_dlpack as from_dlpack
    from ._src.tools.io import load as load
    from ._src.tools.io import save as save
    from ._src.tools.memory import dispose as dispose
    from ._src.tools.memory import keep as keep
    from ._src.tools.memory import memory as memory
    from ._src.tools.memory import tidy as tidy
    from ._src.tools.profile import profile as profile
    from ._src.tools.state import EngineState as EngineState
    from ._src.tools.timing import time as time
    from ._src.tracing.checking import StaleReplay as StaleReplay
    from ._src.tracing.jit import jit as jit

# Rarely used names -> their modules, which are imported at the first use.
_NAMESPACES = "fft fused image linalg losses quantized random signal"
_NAMESPACES += " sparse strings tree"
_LATER = {
    "Budget": "tools.budget",
    "BudgetError": "tools.budget",
    "EngineState": "tools.state",
    "StaleReplay": "tracing.checking",
    "check_gradients": "tools.debug",
    "debug": "tools.debug",
    "dispose": "tools.memory",
    "explain": "tools.explain",
    "from_dlpack": "tools.interchange",
    "hessian": "autodiff.jacobian",
    "jacobian": "autodiff.jacobian",
    "jit": "tracing.jit",
    "keep": "tools.memory",
    "load": "tools.io",
    "memory": "tools.memory",
    "profile": "tools.profile",
    "save": "tools.io",
    "tidy": "tools.memory",
    "time": "tools.timing",
    "vmap": "batching.vmap",
}


if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        """Return a name that is imported at its first use, or the version."""
        if name in _NAMESPACES.split():
            return import_module(f".{name}", __name__)
        if name == "__version__":
            discovery = import_module("._src.registry.discovery", __name__)
            value = discovery.version("plugrad") or "unknown"
        elif name in _LATER:
            value = getattr(import_module(f"._src.{_LATER[name]}", __name__), name)
        elif name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        else:
            names = import_module("._src.tools.names", __name__)
            raise AttributeError(names.missing(name, __all__))
        name_publicly(value, __name__)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted([*__all__, "__version__"])  # for tab completion


publish(
    globals(),
    _restored,
    _restored_variable,
    PackInfo,
    UniqueAll,
    UniqueCounts,
    UniqueInverse,
)
seal_core_names()
accelerated.start()
