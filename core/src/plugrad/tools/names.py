"""Names of NumPy, PyTorch, JAX and TensorFlow.js for what plugrad calls otherwise.

``plugrad.__getattr__`` names the function of plugrad in its AttributeError, and
``docs/names.md`` shows the table.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from plugrad.registry.contract import suggest


class Row(NamedTuple):
    """What the libraries call one function; names are relative to their module.

    Attributes:
        here: The name in plugrad; empty where it has nothing of the kind.
        numpy: The names in ``numpy``.
        torch: The names in ``torch``.
        jax: The names in ``jax``; ``jnp`` stands for ``jax.numpy``.
        tfjs: The names in TensorFlow.js, of what is no op there. The table of its ops
            is in ``docs/names.md``.
        remark: What differs.

    """

    here: str
    numpy: Sequence[str]
    torch: Sequence[str]
    jax: Sequence[str]
    tfjs: Sequence[str]
    remark: str


# A row a function: here | numpy | torch | jax | tfjs | remark. In the column of JAX
# stands "+" for jnp with the names of NumPy.
TABLE = """
grad | | func.grad | grad | grad | `torch.autograd.grad` takes results, not functions
value_and_grad | | func.grad_and_value | value_and_grad | valueAndGrad | PyTorch returns the gradient first
grads | | | | grads | of all arguments
value_and_grads | | | | valueAndGrads |
variable_grads | | Tensor.backward | | variableGrads | gradients are returned, not added to an attribute
vjp | | func.vjp | vjp | |
jvp | | func.jvp | jvp | |
jacobian | | func.jacrev func.jacfwd | jacrev jacfwd jacobian | | `mode=` chooses between the two
hessian | | func.hessian | hessian | |
jit | | compile jit.trace | jit | | the first two calls run the function as it is
vmap | vectorize | vmap func.vmap | vmap | | `np.vectorize` is a loop
custom_grad | | autograd.Function | custom_vjp custom_gradient | customGrad |
stop_gradient | | Tensor.detach no_grad inference_mode | lax.stop_gradient | | outside of `grad` and its relatives nothing is recorded
check_gradients | | autograd.gradcheck | test_util.check_grads | |
tree.map | | | tree.map tree_util.tree_map | |
tree.flatten | | | tree.flatten tree_util.tree_flatten | |
tree.unflatten | | | tree.unflatten tree_util.tree_unflatten | |
tree.leaves | | | tree.leaves tree_util.tree_leaves | |
tree.structure | | | tree.structure tree_util.tree_structure | |
tree.register | | | tree_util.register_pytree_node | | dataclasses need no registration
Variable | | nn.Parameter | | variable |
Tensor.shape | shape | Tensor.shape | + | |
Tensor.ndim | ndim | Tensor.ndim | + | |
Tensor.to | | Tensor.to | device_put | |
set_backend | | set_default_device | | setBackend |
get_backend | | get_default_device | default_backend | getBackend |
register_backend | | | | registerBackend |
remove_backend | | | | removeBackend |
engine | | | | engine |
run_kernel | | | | | `tf.engine().runKernel`
register_kernel | | library.register_kernel | | registerKernel |
unregister_kernel | | | | unregisterKernel |
get_kernel | | library.get_kernel | | getKernel |
get_kernels_for_backend | | | | getKernelsForBackend |
copy_registered_kernels | | | | copyRegisteredKernels |
register_gradient | | library.register_autograd | | registerGradient |
unregister_gradient | | | | unregisterGradient |
get_gradient | | | | getGradient |
tidy | | | | tidy |
keep | | | | keep |
dispose | | | | dispose |
memory | | cuda.memory_summary | | memory |
time | | | | time |
use_backend | | device | default_device | |
profile | | profiler.profile | profiler.trace | profile |
debug | | autograd.detect_anomaly | debug_nans | enableDebugMode |
save | savez | save | jnp.savez | |
random.seed | random.seed | manual_seed | | | the seed of the process; `seed=` is that of one call
random.key | random.default_rng | Generator | random.key random.PRNGKey | | an int32 tensor, for `seed=`
random.split | | | random.split | |
random.fold_in | | | random.fold_in | |
random.normal | random.normal random.randn random.standard_normal | randn normal | random.normal | | the shape comes first
random.uniform | random.uniform random.rand | rand | random.uniform | | the shape comes first
random.uniform_int | random.randint | randint | random.randint | | the shape comes first
random.permutation | random.permutation | randperm | random.permutation | |
random.bernoulli | random.binomial | bernoulli | random.bernoulli | | the shape comes first
random.multinomial | | multinomial | random.categorical | | of logits, unless `normalized=True`
random.truncated_normal | | nn.init.trunc_normal_ | random.truncated_normal | |
abs | abs absolute | abs absolute | + | |
acos | acos arccos | acos arccos | + | |
acosh | acosh arccosh | acosh arccosh | + | |
asin | asin arcsin | asin arcsin | + | |
asinh | asinh arcsinh | asinh arcsinh | + | |
atan | atan arctan | atan arctan | + | |
atan2 | atan2 arctan2 | atan2 arctan2 | + | |
atanh | atanh arctanh | atanh arctanh | + | |
asarray | asarray array | asarray tensor as_tensor from_numpy | + | tensor tensor1d tensor2d | NumPy's arrays are copied
astype | astype | Tensor.to | jnp.astype | cast |
avg_pool1d | | nn.functional.avg_pool1d | | |
batch_norm | | nn.functional.batch_norm | nn.standardize | | takes mean and variance; channels are last
bitwise_invert | bitwise_invert bitwise_not invert | bitwise_not | + | |
bitwise_left_shift | bitwise_left_shift left_shift | bitwise_left_shift | + | |
bitwise_right_shift | bitwise_right_shift right_shift | bitwise_right_shift | + | |
clip | clip | clamp clip | + | |
concat | concat concatenate hstack | cat concat concatenate hstack | + | | `vstack` of vectors is `stack`
conj | conj conjugate | conj | + | | computed at once
conv1d_transpose | | nn.functional.conv_transpose1d | | |
conv2d | | nn.functional.conv2d | lax.conv_general_dilated | | images are [batch, height, width, channels], filters [height, width, in, out]
cumulative_prod | cumulative_prod cumprod | cumprod | + | |
cumulative_sum | cumulative_sum cumsum | cumsum | + | |
divide | divide true_divide | div divide true_divide | + | |
elu | | nn.functional.elu | nn.elu | |
equal | equal | eq | + | | `torch.equal` returns one bool
expand_dims | expand_dims | unsqueeze | + | |
flip | flip | flip | + | | `np.flipud` and `np.fliplr`: axis 0 and 1
fmod | fmod | fmod | + | |
greater | greater | gt greater | + | |
greater_equal | greater_equal | ge greater_equal | + | |
group_norm | | nn.functional.group_norm | | |
hard_sigmoid | | nn.functional.hardsigmoid | nn.hard_sigmoid | |
hard_swish | | nn.functional.hardswish | nn.hard_swish | |
image.grid_sample | | nn.functional.grid_sample | | |
image.resize_bilinear | | nn.functional.interpolate | image.resize | |
layer_norm | | nn.functional.layer_norm | | |
leaky_relu | | nn.functional.leaky_relu | nn.leaky_relu | |
less | less | lt less | + | |
less_equal | less_equal | le less_equal | + | |
linalg.cross | linalg.cross cross | linalg.cross cross | + | |
linalg.det | linalg.det | linalg.det det | + | |
linalg.diagonal | linalg.diagonal diagonal | linalg.diagonal diagonal | + | |
linalg.inv | linalg.inv | linalg.inv inverse | + | |
linalg.outer | linalg.outer outer | outer ger | + | |
linalg.pinv | linalg.pinv | linalg.pinv pinverse | + | |
linalg.trace | linalg.trace trace | trace | + | |
linalg.vector_norm | linalg.vector_norm linalg.norm | linalg.vector_norm norm | + | |
logsumexp | | logsumexp | nn.logsumexp scipy.special.logsumexp | |
matmul | matmul dot | matmul mm bmm | + | | `vecdot` for pairs of vectors
matrix_transpose | matrix_transpose | Tensor.mT | + | |
max | max amax | amax max | + | | `torch.max(x, dim)` returns the indices, too
max_pool1d | | nn.functional.max_pool1d | | |
min | min amin | amin min | + | | `torch.min(x, dim)` returns the indices, too
moveaxis | moveaxis | moveaxis movedim | + | |
multiply | multiply | mul multiply | + | |
negative | negative | neg negative | + | |
not_equal | not_equal | ne not_equal | + | |
one_hot | | nn.functional.one_hot | nn.one_hot | |
permute_dims | permute_dims transpose | permute swapaxes | + | | `swapaxes`, and `torch.transpose`, swap two axes
pow | pow power | pow | + | |
relu | | relu nn.functional.relu | nn.relu | |
remainder | remainder mod | remainder | + | | the sign of the divisor
repeat | repeat | repeat_interleave | + | | `torch.Tensor.repeat` is `tile`
reshape | reshape ravel | reshape flatten ravel Tensor.view | + | |
 | rot90 | rot90 | + | | write `flip` of `permute_dims`
round | round rint | round | + | | halves to even
sigmoid | | sigmoid | nn.sigmoid | |
silu | | nn.functional.silu | nn.silu nn.swish | |
softmax | | softmax nn.functional.softmax | nn.softmax | |
softsign | | nn.functional.softsign | nn.soft_sign | |
sort | sort | sort | + | | `torch.sort` returns the indices, too
split | split array_split | split chunk | + | | `sizes` is a number of parts, or their sizes; NumPy takes positions, `torch.split` the size of each
squeeze | squeeze | squeeze | + | |
stack | stack vstack | stack vstack | + | | `vstack` of matrices is `concat`
std | std | std | + | | `correction=0`, as NumPy; PyTorch has 1
subtract | subtract | sub subtract | + | |
take | take | index_select | + | |
take_along_axis | take_along_axis | take_along_dim gather | + | |
tile | tile | tile Tensor.repeat | + | |
top_k | | topk | lax.top_k | |
trunc | trunc fix | trunc fix | jnp.trunc | |
unique_values | unique_values unique | unique | + | | `unique_all` has indices and counts
unstack | unstack | unbind | + | |
var | var | var | + | | `correction=0`, as NumPy; PyTorch has 1
vecdot | vecdot inner | linalg.vecdot inner | + | |
where | where | where masked_fill | + | |
losses.sigmoid_cross_entropy | | nn.functional.binary_cross_entropy_with_logits | | |
losses.softmax_cross_entropy | | nn.functional.cross_entropy | | | of one-hot labels, not of class numbers
losses.mean_squared_error | | nn.functional.mse_loss | | |
losses.huber_loss | | nn.functional.huber_loss | | |
"""


def _row(line: str) -> Row:
    here, numpy, torch, jax, tfjs, remark = map(str.strip, line.split("|"))
    of_jax = [f"jnp.{x}" for x in numpy.split()] if jax == "+" else jax.split()
    return Row(here, numpy.split(), torch.split(), of_jax, tfjs.split(), remark)


ROWS = [_row(line) for line in TABLE.strip().splitlines()]


@functools.cache
def answers() -> dict[str, Row]:
    """Return the row for each name of another library that ``plugrad`` lacks.

    ``trace`` is ``np.trace`` rather than ``jax.profiler.trace``.
    """
    public = import_module("plugrad").__all__
    found: dict[str, Row] = {}
    for dotted in (False, True):
        for row in ROWS:
            for name in (*row.numpy, *row.torch, *row.jax, *row.tfjs):
                *space, last = name.split(".")
                if bool(space) == dotted and name != row.here and last not in public:
                    found.setdefault(last, row)
    return found


def of_numpy(name: str) -> str:
    """Return what a message says to use in place of a function of NumPy."""
    here = _elsewhere(name)
    return f"use plugrad.{here}, " if here else "use an op of plugrad, "


def _elsewhere(name: str) -> str:
    """Return the full name of what has this name here or elsewhere, if any."""
    plugrad = import_module("plugrad")
    if name in plugrad.__all__:
        return name
    if row := answers().get(name):
        return row.here
    for space in plugrad.__all__:
        module = getattr(plugrad, space)
        if isinstance(module, ModuleType) and name in module.__all__:
            return f"{space}.{name}"
    return ""


def missing(name: str, known: Sequence[str], module: str = "plugrad") -> str:
    """Return the message about a name that ``plugrad``, or a namespace, lacks."""
    row, here = answers().get(name), _elsewhere(name)
    if here:
        hint = f"; it is plugrad.{here} here"
        hint += f" ({row.remark})" if row and row.remark else ""
    else:
        hint = f"; {row.remark}" if row else suggest(name, known)
    return f"module {module!r} has no attribute {name!r}{hint}"
