"""Names in other libraries, and their counterparts in plugrad: data only.

``tensor/hints`` and ``tools/names`` put these rows into error messages, and the site
shows them in ``docs/coming-from.md``. Add a name by adding it to a row.

A hint is one line of Markdown: code in backticks, ``pg`` for plugrad and ``pt`` for
plugrad_train. ``tests/core/test_hints.py`` checks each row against plugrad.

Contents: ``FUNCTIONS``; ``ATTRIBUTES`` of modules; ``METHODS`` and attributes of
tensors; ``KEYWORDS``; ``DTYPES``; ``DEVICES``.
"""

# One row for each function: here | numpy | torch | jax | tfjs | remark. A "+" in the
# JAX column means ``jnp`` with the names in the NumPy column.
FUNCTIONS = """
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
stop_gradient | | Tensor.detach | lax.stop_gradient | | outside of `grad` and its relatives nothing is recorded
check_gradients | | autograd.gradcheck | test_util.check_grads | |
tree.map | | | tree.map tree_util.tree_map | |
tree.flatten | | | tree.flatten tree_util.tree_flatten | |
tree.unflatten | | | tree.unflatten tree_util.tree_unflatten | |
tree.leaves | | | tree.leaves tree_util.tree_leaves | |
tree.structure | | | tree.structure tree_util.tree_structure | |
tree.register | | | tree_util.register_pytree_node | | dataclasses need no registration
Variable | | nn.Parameter | | variable | plugrad-train's optimizers take a tree of tensors instead, such as a dict
Tensor.shape | shape | Tensor.shape | + | |
Tensor.ndim | ndim | Tensor.ndim | + | |
Tensor.to | | Tensor.to | device_put | | to a backend; to a dtype: `astype`
set_backend | | set_default_device | | setBackend |
get_backend | | get_default_device | default_backend | getBackend |
precision | | | default_matmul_precision | | JAX's `"tensorfloat32"` is `"tf32"`
set_precision | | set_float32_matmul_precision | | | PyTorch's `"high"` is `"tf32"`
get_precision | | get_float32_matmul_precision | | |
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
astype | astype | Tensor.to | jnp.astype | cast | to a dtype; to a backend: `x.to`
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
cumulative_logsumexp | | logcumsumexp | lax.cumlogsumexp | |
cumulative_max | | cummax | lax.cummax | | returns the indices, too
cumulative_min | | cummin | lax.cummin | | returns the indices, too
digamma | | digamma special.psi | lax.digamma scipy.special.digamma | |
erfinv | | erfinv special.erfinv | lax.erf_inv scipy.special.erfinv | |
gammainc | | igamma special.gammainc | lax.igamma scipy.special.gammainc | |
gammaincc | | igammac special.gammaincc | lax.igammac scipy.special.gammaincc | |
lgamma | | lgamma special.gammaln | lax.lgamma scipy.special.gammaln | |
polygamma | | polygamma special.polygamma | scipy.special.polygamma | | the order comes second
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
unsorted_segment_max | | | ops.segment_max | | `num_segments` is not optional
unsorted_segment_min | | | ops.segment_min | | `num_segments` is not optional
unsorted_segment_prod | | | ops.segment_prod | | `num_segments` is not optional
unsorted_segment_sum | | | ops.segment_sum | | `num_segments` is not optional
trunc | trunc fix | trunc fix | jnp.trunc | |
unique_values | unique_values unique | unique | + | | `unique_all` has indices and counts
unstack | unstack | unbind | + | |
var | var | var | + | | `correction=0`, as NumPy; PyTorch has 1
vecdot | vecdot inner | linalg.vecdot inner | + | |
where | where | where masked_fill | + | | `x.masked_fill(mask, value)` is `where(mask, value, x)`
adaptive_avg_pool | | nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d | | | channels are last
adaptive_max_pool | | nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d | | | channels are last
linalg.matrix_exp | | linalg.matrix_exp matrix_exp | scipy.linalg.expm | |
linalg.multi_dot | linalg.multi_dot | linalg.multi_dot chain_matmul | + | |
losses.kl_divergence | | nn.functional.kl_div | | | the labels come first
losses.negative_log_likelihood | | nn.functional.nll_loss | | | the labels come first
signal.bartlett_window | bartlett | bartlett_window | + | |
signal.blackman_window | blackman | blackman_window | + | |
signal.hamming_window | hamming | hamming_window | + | |
signal.hann_window | hanning | hann_window | + | |
signal.kaiser_window | kaiser | kaiser_window | + | |
losses.log_loss | | nn.functional.binary_cross_entropy | | | the labels come first
losses.sigmoid_cross_entropy | | nn.functional.binary_cross_entropy_with_logits | | | the labels come first
losses.softmax_cross_entropy | | nn.functional.cross_entropy | | | the labels come first, and are one-hot; `losses.sparse_softmax_cross_entropy` takes class numbers
losses.mean_squared_error | | nn.functional.mse_loss | | |
losses.huber_loss | | nn.functional.huber_loss | | |
"""

# Modules, classes and functions without a counterpart of the same kind: names | hint.
ATTRIBUTES = """
nn functional F | the functions are in plugrad itself: `pg.relu`, `pg.softmax`, `pg.conv2d`; a network is a function of its parameters: `pg.relu(x @ w + b)`
layers keras Module Sequential Linear Dense stax flax | a network is a function of its parameters: `pg.relu(x @ w + b)`; plugrad-train has `pt.initializers`
optim optimizers optax SGD Adam AdamW RMSprop Adagrad Lion Optimizer | plugrad-train has optimizers: `pt.sgd(0.1)`, `pt.adam(0.001)`
lr_scheduler | plugrad-train has schedules: `pt.schedules`
autograd func | the functions are in plugrad itself: `pg.grad`, `pg.custom_grad`, `pg.vmap`, `pg.jacobian`
GradientTape | `pg.grad(loss)(w)` returns the gradient, `pg.value_and_grad` the value as well
no_grad inference_mode enable_grad set_grad_enabled is_grad_enabled | leave it out: only a function inside `pg.grad` is recorded; `pg.stop_gradient(x)` makes a value a constant
register_full_backward_hook register_backward_hook | an identity with a gradient of your own: `pg.custom_grad(lambda x: (x, lambda dy: 2.0 * dy))`
cuda mps xla tpu devices device_count is_available local_devices | `pg.set_backend("opencl")` runs new tensors on a GPU; `python -m plugrad doctor` lists the backends
cond | the `cond` of `jax.lax` is Python's `if`, or `pg.where(condition, x, y)`
lax | the functions are in plugrad itself, such as `pg.top_k`; Python's `for`, `while` and `if` take the place of `scan`, `fori_loop`, `while_loop` and `cond`
config enable_x64 | there is no flag for float64: pass it, as in `pg.asarray(x, dtype="float64")`; `pg.debug()` finds NaNs
hvp | `pg.jvp(pg.grad(f), [x], [v])[1]`
floorDiv | `pg.floor_divide(x, y)`
outerProduct | `pg.linalg.outer(x, y)`
scalar tensor1d tensor2d tensor3d tensor4d | `pg.asarray(values)`, and `x.reshape(...)`
buffer | `pg.asarray(values)`; `x[i] = v` gives `x` a new value
ready nextFrame | leave it out: a call returns when the result can be used
loadLayersModel loadGraphModel | plugrad-tfjs loads models: `plugrad_tfjs.load(path)`
browser fromPixels | `pg.image.from_pixels(pixels)`
env | environment variables set options: `python -m plugrad doctor` shows those that are set
input model sequential | a network is a function of its parameters: `pg.relu(x @ w + b)`; plugrad-train has `pt.fit`
linearize | `pg.jvp(f, [x], [v])`, or `pg.vjp` of the pullback that `pg.vjp(f, x)` returns
custom_jvp | `pg.custom_grad` with the transposed rule; `pg.jvp` follows from it
make_jaxpr | `pg.jit(f).explain(x)` lists the kernels
tree.all | `all(pg.tree.leaves(tree))`
tree.reduce | `functools.reduce(f, pg.tree.leaves(tree))`
tree.transpose | `pg.tree.map(lambda *leaves: leaves, *trees)` makes one tree of tuples from several trees
tree.map_with_path tree.leaves_with_path tree.flatten_with_path | `pg.tree.structure(tree).paths()` lists the path of each leaf
numpy jnp math experimental | the functions are in plugrad itself: `pg.sum`, `pg.matmul`
utils data DataLoader Dataset TensorDataset | plugrad-train has batches: `pt.Batches((x, y), 32)`
distributed pmap shard_map DistributedDataParallel DataParallel | the package plugrad-mpi trains on several processes
onnx | the package plugrad-onnx loads and runs ONNX models
basic_lstm_cell basicLSTMCell | `plugrad_tfjs.basic_lstm_cell`, of the package plugrad-tfjs
multi_rnn_cell multiRNNCell | `plugrad_tfjs.multi_rnn_cell`, of the package plugrad-tfjs
distributions | samples are in `pg.random`: `pg.random.normal(shape)`
checkpoint remat | plugrad-train: `pt.remat(f)` computes the activations again in the backward pass
amp autocast GradScaler | plugrad-train: `pt.half_precision(loss)` with `pt.scale_loss(optimizer)`
train fit Trainer Model | plugrad-train: `pt.fit(loss, params, optimizer, batches)`
while_loop fori_loop scan switch map_fn | Python's `if` and `for`; `pg.vmap` maps a function over an axis
linear | `x @ w.mT + b`, of weights as PyTorch's: [out, in]
addmm | `b + x @ w`
clip_grad_norm_ clip_grad_norm clip_grad_value_ | plugrad-train: `pt.chain(pt.clip_by_global_norm(1.0), pt.adam(0.001))`
state_dict load_state_dict | parameters are a tree of tensors; `pg.save(path, params)` and `pg.load(path)` of a dict
is_tensor is_floating_point | `isinstance(x, pg.Tensor)`, `pg.isdtype(x.dtype, "floating")`
numel | `x.size`
set_default_dtype set_default_tensor_type | Python's floats become float32; pass `dtype=` for another
set_printoptions | `np.set_printoptions`, which prints of tensors follow
set_num_threads | the environment variables OMP_NUM_THREADS and OPENBLAS_NUM_THREADS
function | `pg.jit(f)`
constant convert_to_tensor FloatTensor DoubleTensor LongTensor IntTensor BoolTensor ndarray array_of | `pg.asarray(values, dtype="float32")`
reduce_sum | `pg.sum(x)`
reduce_mean | `pg.mean(x)`
reduce_max | `pg.max(x)`
reduce_min | `pg.min(x)`
reduce_prod | `pg.prod(x)`
reduce_all | `pg.all(x)`
reduce_any | `pg.any(x)`
reduce_std | `pg.std(x)`
reduce_variance | `pg.var(x)`
reduce_logsumexp | `pg.logsumexp(x)`
nest | `pg.tree`
fill | `pg.full(shape, value)`
half | `pg.float16`
float float_ | `pg.float32`
double | `pg.float64`
short | `pg.int16`
int int_ | `pg.int32`
long | `pg.int64`
byte | `pg.uint8`
char | `pg.int8`
float8_e4m3fn float8_e5m2 | `pg.float16` or `pg.bfloat16`
cfloat | `pg.complex64`
cdouble | `pg.complex128`
"""

# Methods and attributes of a tensor that plugrad's tensors lack: names | hint.
METHODS = """
backward grad grad_fn retain_grad | `pg.grad(loss)(w)` returns the gradient; a tensor has no field for it
register_hook | an identity with a gradient of your own: `pg.custom_grad(lambda x: (x, lambda dy: 2.0 * dy))(x)`
requires_grad requires_grad_ is_leaf | `pg.grad` differentiates by the arguments of a function, and `pg.variable_grads` by `pg.Variable`
detach detach_ | `pg.stop_gradient(x)`
cuda | `x.to("opencl")`
cpu | `x.to("cpu")`, or `x.numpy()`
is_cuda get_device | `x.backend`
view view_as flatten ravel resize resize_ reshape_as | `x.reshape(...)`
data | `x`, or `x.numpy()`; `x[...] = values` gives `x` a new value
half | `x.astype(pg.float16)`
bfloat16 | `x.astype(pg.bfloat16)`
float | `x.astype(pg.float32)`
double | `x.astype(pg.float64)`
short | `x.astype(pg.int16)`
int | `x.astype(pg.int32)`
long | `x.astype(pg.int64)`
byte | `x.astype(pg.uint8)`
char | `x.astype(pg.int8)`
bool | `x.astype(pg.bool)`
type type_as | `x.astype(dtype)`
clone copy | `pg.identity(x)`
contiguous pin_memory share_memory_ cache persist | leave it out: the backend chooses the layout
block_until_ready | leave it out, or `x.numpy()`, which waits
dataSync array bytes | `x.numpy()`, which waits
arraySync | `x.tolist()`
expandDims logSoftmax logSumExp argMax argMin matMul sizeFromShape | names are in snake_case, or those of the array API standard: `x.expand_dims(0)`, `x.matmul(y)`
asType toFloat toInt toBool | `x.astype(dtype)`
isDisposed isDisposedInternal | `pg.memory()` counts the tensors in use
rank rankType | `x.ndim`
as1D as2D as3D as4D | `x.reshape(...)`
at | `x[i] = v` gives `x` a new value
t adjoint H swapaxes swapdims | `x.mT`, or `x.permute_dims((1, 0))`
dim | `x.ndim`
numel nelement | `x.size`
get_shape | `x.shape`
nbytes itemsize element_size | `x.size * x.dtype.itemsize`
eval | `x.numpy()`
add_ sub_ mul_ div_ copy_ fill_ zero_ clamp_ relu_ fill | `x[...] = values` gives `x` a new value; a `pg.Variable` has `assign`
masked_fill masked_fill_ | `pg.where(mask, value, x)`
expand expand_as | `x.broadcast_to(shape)`
repeat | `x.tile(...)` repeats the tensor, `pg.repeat(x, n)` its elements
scatter_ scatter_add_ scatter index_add_ index_copy_ | `pg.tensor_scatter_update`
apply_ map_ apply | `pg.vmap(f)(x)`
nonzero | `pg.nonzero(x)`
set_shape | `pg.ensure_shape(x, shape)`
"""

# Keywords: names | plugrad's keywords | hint. A row applies to functions that accept
# one of plugrad's keywords in it; a row without any applies to all functions.
KEYWORDS = """
dim dims axes_ reduction_indices | axis axes |
axis | axes |
axes | axis |
keepdim keep_dims | keepdims |
stride window_strides frame_stride | strides |
padding pads | pad paddings |
pad_width | paddings |
dilation rate rhs_dilation dilation_rate | dilations |
kernel_size ksize pool_size window window_shape | filter_size window_shape |
feature_group_count num_groups | groups |
dimension_numbers channels_first | data_format |
size | shape |
loc | mean |
scale std | stddev |
low lo min a | minval min |
high hi max b | maxval max |
key rng generator prng_key random_state | seed |
unbiased ddof | correction |
lr step_size | learning_rate |
betas beta1 beta_1 beta_2 beta2 | b1 | `b1=` and `b2=`
rho alpha smoothing_constant | decay |
negative_slope | alpha |
eps variance_epsilon | epsilon |
epsilon | eps |
p drop_prob | rate |
batch_size | size |
total_steps decay_steps T_max num_steps | steps |
steps | num |
num_classes | depth |
minlength | size |
num_split num_or_size_splits split_size_or_sections split_size indices_or_sections | sizes |
shifts | shift |
block_shape blocksize upscale_factor downscale_factor | block_size |
num_bins | size num_buckets |
depth | num_classes |
largest | descending |
weight | scale weights |
gamma | scale |
beta | offset |
bias | offset |
attn_mask | mask |
pos_weight label_weight | weights |
a_min | min |
a_max | max |
reps dims | shape |
newshape | shape |
preferred_dtype type | dtype |
requires_grad | | leave it out: `pg.grad` differentiates by the arguments of a function
input x tensor tensors other weight kernel filters | | pass it by position: tensors have no keywords
out | | leave it out: functions return new tensors
inplace | | leave it out: functions return new tensors; `x[...] = values` gives `x` a new value
device | | leave it out: a result is where its tensors are; `x.to("opencl")` moves one
non_blocking memory_format layout pin_memory order casting subok | | leave it out
where | | select with `pg.where(condition, x, y)` before
static_argnums static_argnames | static |
donate_argnums donate_argnames | donate |
num | n |
axis_name axis_size spmd_axis_name | | leave it out: `pg.vmap` takes the size from its arguments, and its axes have no names
allow_int holomorphic | | leave it out: an integer in a tree gets None, and complex arguments need no flag
has_aux | | `pg.grad` and `pg.value_and_grad` have it; here, let the function append what it does not return to a list
argnums | | `pg.grad` and `pg.value_and_grad` have it; here, pass a function of the one argument, `lambda x: f(a, x)`
nondiff_argnums nondiff_argnames | | leave it out: int, bool, str and other objects are passed unchanged and have no gradient
training train deterministic | | leave it out: dropout is a function that you call only in training, `pg.dropout`
"""

# Names of dtypes in text, without the prefix of a library: names | hint.
DTYPES = """
half fp16 | `pg.float16`
float float_ fp32 f32 | `pg.float32`
double fp64 f64 | `pg.float64`
short i16 | `pg.int16`
int int_ i32 | `pg.int32`
long i64 | `pg.int64`
byte | `pg.uint8`
char | `pg.int8`
complex cfloat chalf | `pg.complex64`
cdouble | `pg.complex128`
bf16 | `pg.bfloat16`
float8_e4m3fn float8_e5m2 | `pg.float16` or `pg.bfloat16`
float128 longdouble | `pg.float64`
complex256 clongdouble | `pg.complex128`
"""

# Names of devices that are not backends, without their number: names | hint.
DEVICES = """
cuda gpu GPU mps metal rocm hip xpu vulkan webgpu webgl tpu TPU xla | `"opencl"` runs on a GPU
CPU host tensorflow | `"cpu"`
"""
