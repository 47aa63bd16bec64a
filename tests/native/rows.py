"""The table of op calls, one row each, with random arguments from ``Draw``.

There are also rows for ops without C kernels: if such an op gets a C kernel, the kernel
is tested from the start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import plugrad as pg

FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, "int32", "int64", "int8", "uint8")
ALL = (*NUMBERS, "bool", "float16", "complex64")
# Tolerances, in units of 2e-6 for float32 and 1e-13 for float64.
ELEMENT_TOL = 1.0
SUM_TOL = 8.0
PRODUCT_TOL = 100.0


@dataclass(frozen=True)
class Row:
    """A call of an op; ``call`` gets a ``Draw``, which makes its arguments."""

    call: Callable[[Any], Any]
    dtypes: tuple[str, ...] = FLOATS
    tol: float = SUM_TOL
    special: bool = True  # whether inputs may contain infinities and NaN


ROWS: dict[str, Row] = {}


def vjp(op, *xs):
    """Return the result and the gradients of ``op``, with cotangents that differ."""
    y, pull = pg.vjp(op, *xs)
    return y, pull(pg.sin(pg.reshape(pg.arange(y.size, dtype=y.dtype), y.shape)) + 0.5)


# --- element-wise ----------------------------------------------------------------

DIFFERENTIABLE = (
    "exp expm1 tanh sigmoid softplus log_sigmoid sin cos erf erfc elu selu gelu silu"
)
DIFFERENTIABLE += " mish relu relu6 leaky_relu square sinh cosh asinh atan"
POSITIVE = "sqrt rsqrt log log1p log2 log10 reciprocal"  # need positive numbers
FORWARD_ONLY = (
    "tan exp2 asin acos acosh atanh abs negative sign floor ceil round trunc positive"
)
FORWARD_ONLY += " step isnan isinf isfinite signbit logical_not"
BINARY = "add subtract multiply maximum minimum squared_difference"
FLOAT_BINARY = "divide divide_no_nan remainder floor_divide fmod atan2 hypot logaddexp"
FLOAT_BINARY += " copysign nextafter prelu"
COMPARISONS = "equal not_equal less less_equal greater greater_equal"
COMPARISONS += " logical_and logical_or logical_xor"


def unary(name, d):
    return getattr(pg, name)(d.array(*d.shape()))


def unary_gradient(name, d):
    range_ = {"low": 0.1, "high": 9.0} if name in POSITIVE.split() else {}
    return vjp(getattr(pg, name), d.array(*d.shape(), **range_))


def binary(name, d):
    a, b = d.pair()
    return getattr(pg, name)(
        d.array(*a, whole=d.chance()), d.array(*b, whole=d.chance())
    )


def binary_gradient(name, d):
    a, b = d.pair()
    return vjp(getattr(pg, name), d.array(*a), d.array(*b, low=0.5, high=3.0))


for name in f"{DIFFERENTIABLE} {POSITIVE} {FORWARD_ONLY}".split():
    ROWS[name] = Row(partial(unary, name), tol=ELEMENT_TOL)
for name in f"{DIFFERENTIABLE} {POSITIVE}".split():
    ROWS[f"{name} back"] = Row(partial(unary_gradient, name))
for name in f"{BINARY} {COMPARISONS}".split():
    ROWS[name] = Row(partial(binary, name), NUMBERS, tol=ELEMENT_TOL)
for name in FLOAT_BINARY.split():
    ROWS[name] = Row(partial(binary, name), tol=ELEMENT_TOL)
for name in [*BINARY.split(), "divide", "prelu"]:
    ROWS[f"{name} back"] = Row(partial(binary_gradient, name), special=False)


def power(d):
    a, b = d.pair()
    return pg.pow(d.array(*a, low=0.1, high=3.0), d.array(*b))


def cast(d):
    x = d.array(*d.shape(), low=0.0, high=100.0)
    return [pg.astype(x, dtype) for dtype in (*NUMBERS, "bool")]


def halves(d):
    x = pg.astype(d.array(*d.shape()), pg.bfloat16)
    return pg.astype(x * x, d.dtype)


def half_products(d):
    rows, inputs, outputs = d.pick(1, 2, 3, 4), d.up_to(40), d.up_to(40)
    turned = d.chance()
    w = d.array(*((outputs, inputs) if turned else (inputs, outputs)))
    w = pg.astype(w, pg.bfloat16)
    return pg.matmul(d.array(rows, inputs), w, transpose_b=turned)


def half_matrix_products(d):
    """Multiply matrices whose sums are exact, so the results have the same bits."""
    rows, inputs, outputs = d.up_to(40), d.up_to(40), d.up_to(70)
    batch = d.pick((), (2,), (3, 1))
    turned = d.chance()
    other = d.chance()
    a = d.array(*batch, *((inputs, rows) if turned else (rows, inputs)))
    b = d.array(*((outputs, inputs) if other else (inputs, outputs)))
    whole = [pg.astype(pg.round(x * 4), pg.bfloat16) for x in (a, b)]
    turns = {"transpose_a": turned, "transpose_b": other}
    y = pg.astype(pg.matmul(*whole, **turns), "float32")
    return y, pg.matmul(*whole, **turns, preferred_element_type="float32")


def choose(d):
    a, b = d.pair()
    return pg.where(d.array(*a, dtype="bool"), d.array(*b), d.array(*a))


ROWS |= {
    "gelu back": Row(lambda d: vjp(pg.gelu, d.array(*d.shape()))),
    "gelu of tanh": Row(
        lambda d: vjp(partial(pg.gelu, approximate=True), d.array(*d.shape()))
    ),
    "pow": Row(power),
    "clip": Row(
        lambda d: pg.clip(d.array(*d.shape()), -1, 2), NUMBERS[:4], ELEMENT_TOL
    ),
    "astype": Row(cast, ALL[:7], special=False),
    "bfloat16": Row(halves, ("float32",)),
    "bfloat16 product": Row(
        half_products, ("float32",), tol=PRODUCT_TOL, special=False
    ),
    "bfloat16 matrices": Row(half_matrix_products, ("float32",), special=False),
    "where": Row(choose, ALL, ELEMENT_TOL),
    "isclose": Row(
        lambda d: pg.isclose(x := d.array(*d.shape()), d.like(x)), tol=ELEMENT_TOL
    ),
}

# --- along axes ------------------------------------------------------------------


def reduced(name, d):
    """Reduce along axes that are not empty, because some reductions need elements."""
    x = d.array(*d.nonempty(0), whole=True)
    return getattr(pg, name)(x, d.axes(x), keepdims=d.chance())


def arg_reduced(name, d):
    x = d.array(*d.nonempty(), whole=True)
    return getattr(pg, name)(x, d.axis(x))


def sums(d):
    x = d.array(*d.shape())
    return pg.sum(x, d.axes(x))


def scanned(name, d):
    x = d.array(*d.shape(1), low=0.5, high=1.5)
    options = {"exclusive": d.chance(), "reverse": d.chance()}
    return getattr(pg, name)(x, d.axis(x), **options)


def along(name, d):
    x = d.array(*d.nonempty())
    return getattr(pg, name)(x, d.axis(x))


def along_gradient(name, d):
    x = d.array(*d.nonempty())
    return vjp(partial(getattr(pg, name), axis=d.axis(x)), x)


def layer_norms(d):
    """Normalize; a small ``epsilon`` would magnify rounding errors in constant rows."""
    op = partial(pg.layer_norm, epsilon=0.1)
    x = d.array(*d.nonempty(1, 3))
    n = x.shape[-1]
    s = d.array(n)
    o = d.array(n)
    params = d.pick((), (s,), (None, o), (s, o))
    return op(x, *params), pg.grads(lambda x: pg.sum(op(x, *params) ** 3))(x)


def rms_norms(d):
    x = d.array(*d.nonempty(1, 3))
    scale = d.pick(None, d.array(x.shape[-1]))
    return pg.rms_norm(x, scale, epsilon=0.1)


def attention_of(d, most):
    """Return q, k, v and options: groups, masks, lengths and up to `most` queries."""
    batch, groups, share, queries = (d.up_to(n) for n in (2, 3, 3, most))
    keys, size, width = (d.up_to(n) for n in (150, 40, 40))
    q = d.array(batch, groups * share, queries, size)
    k, v = d.array(batch, groups, keys, size), d.array(batch, groups, keys, width)
    of_mask = [d.pick(1, n) for n in (batch, groups * share, queries, keys)]
    scores = d.array(*of_mask)
    mask = d.pick(None, scores > -0.5, scores)
    length = d.pick(None, d.up_to(keys), [d.up_to(keys) for _ in range(batch)])
    options = {"mask": mask, "length": length, "is_causal": d.chance()}
    return (q, k, v), options | {"enable_gqa": True}


def attentions(d, most):
    xs, options = attention_of(d, most)
    return pg.scaled_dot_product_attention(*xs, **options)


def attention_gradients(d):
    """Compute the gradient in one kernel."""
    xs, options = attention_of(d, 80)
    dy = d.array(*xs[0].shape[:3], xs[2].shape[3])
    mask, length = options["mask"], options["length"]
    length = None if length is None else pg.asarray(length, dtype="int32")
    if mask is not None and mask.dtype not in (pg.bool, dy.dtype):
        mask = pg.astype(mask, dy.dtype)
    how = {"scale": 0.3, "causal": options["is_causal"]}
    return pg.run_kernel("AttentionGrad", [dy, *xs, mask, length], how)


def rotations(d):
    """Rotate the first elements of rows; angles may repeat."""
    outer, repeat, rows, n = (d.up_to(m) for m in (3, 3, 5, 20))
    x = d.array(outer, repeat, rows, 2 * n + d.pick(0, 1, 7))
    angles = d.array(*d.pick((outer, 1, rows, n), (rows, n), (n,)))
    cos, sin = pg.cos(angles), pg.sin(angles)
    return pg.rotary_embedding(x, cos, sin, interleaved=d.chance())


def block_products(d):
    """Multiply a few rows by low-bit weights."""
    block, bits = d.pick(32, 64, 128), d.pick(4, 8)
    w = d.array(d.up_to(20), block * d.up_to(4))
    how = {"bits": bits, "block": block, "symmetric": d.chance()}
    codes, scale, offset = pg.quantized.quantize_blocks(w, **how)
    x = d.array(d.up_to(6), w.shape[1])
    parts = (codes, scale, offset)
    rounded = d.chance()
    y = pg.quantized.block_matmul(x, *parts, bits=bits, rounded=rounded)
    return y, pg.quantized.dequantize_blocks(*parts, bits=bits)


def batch_norms(d):
    x = d.array(*d.image())
    c = x.shape[-1]
    params = [d.array(c), d.array(c, low=0.1, high=2.0), d.array(c), d.array(c)]
    return pg.batch_norm(x, *params), vjp(pg.batch_norm, x, *params)


def groups(d):
    g = d.pick(1, 2, 4)
    x = d.array(*d.image(channels=g * d.up_to(5)))
    return pg.group_norm(x, d.array(x.shape[-1]), groups=g)


for name in ("max", "min", "prod", "mean", "any", "all"):
    dtypes = NUMBERS if name in ("max", "min", "prod") else FLOATS
    dtypes = ("bool", *FLOATS) if name in ("any", "all") else dtypes
    ROWS[name] = Row(partial(reduced, name), dtypes)
for name in ("std", "var", "logsumexp"):
    ROWS[name] = Row(partial(reduced, name), special=False)
for name in ("argmax", "argmin"):
    ROWS[name] = Row(partial(arg_reduced, name), NUMBERS)
for name in ("cumulative_sum", "cumulative_prod"):
    ROWS[name] = Row(partial(scanned, name), NUMBERS[:4], PRODUCT_TOL)
for name in ("softmax", "log_softmax"):
    ROWS[name] = Row(partial(along, name))
    ROWS[f"{name} back"] = Row(partial(along_gradient, name), special=False)
ROWS |= {
    "sum": Row(sums, ALL),
    "max back": Row(
        lambda d: vjp(pg.max, d.array(*d.nonempty(), whole=True)), special=False
    ),
    "mean back": Row(lambda d: vjp(lambda x: pg.mean(x, -1), d.array(*d.nonempty()))),
    "layer_norm": Row(layer_norms, tol=PRODUCT_TOL, special=False),
    "rms_norm": Row(rms_norms, tol=PRODUCT_TOL, special=False),
    "attention": Row(partial(attentions, most=7), tol=PRODUCT_TOL, special=False),
    "attention, many": Row(
        partial(attentions, most=80), tol=PRODUCT_TOL, special=False
    ),
    "attention back": Row(attention_gradients, tol=PRODUCT_TOL, special=False),
    "block_matmul": Row(block_products, ("float32",), tol=PRODUCT_TOL, special=False),
    "rotary_embedding": Row(rotations, special=False),
    "batch_norm": Row(batch_norms, tol=PRODUCT_TOL, special=False),
    "group_norm": Row(groups, tol=PRODUCT_TOL, special=False),
    "local_response_normalization": Row(
        lambda d: vjp(pg.local_response_normalization, d.array(*d.image())),
        special=False,
    ),
}

# --- moving ----------------------------------------------------------------------


def joined(d):
    shape = d.nonempty()
    axis = int(d.rng.integers(len(shape)))
    sizes = [
        (*shape[:axis], n, *shape[axis + 1 :]) for n in (shape[axis], 0, d.up_to(3))
    ]
    return pg.concat([d.array(*size) for size in sizes], axis)


def padded(mode, d):
    x = d.array(*(max(n, 3) for n in d.shape(1, 3)))
    ends = [(d.up_to(3) - 1, d.up_to(3) - 1) for _ in x.shape]
    return pg.pad(x, ends, mode=mode)


def permuted(d):
    x = d.array(*d.shape())
    y = pg.permute_dims(x, tuple(map(int, d.rng.permutation(x.ndim))))
    return pg.reshape(y, (-1,)), y + y if d.dtype != "bool" else y


def sliced(d):
    x = d.array(*d.shape(1))
    steps = [d.pick(1, 2, 3, -1, -2) for _ in x.shape]
    return pg.reshape(x[tuple(slice(None, None, s) for s in steps)], (-1,))


def taken(d):
    x = d.array(*d.nonempty())
    axis = d.axis(x)
    indices = d.indices(x.shape[axis], d.up_to(9), d.up_to(3))
    return (
        vjp(lambda x: pg.gather(x, indices, axis), x)
        if d.dtype in FLOATS
        else pg.gather(x, indices, axis)
    )


def taken_along(d):
    x = d.array(*d.nonempty())
    return pg.take_along_axis(x, d.indices(x.shape[-1], *x.shape[:-1], d.up_to(9)))


def scattered(d):
    n = d.up_to(20)
    rest = d.shape(0, 2)
    indices = d.indices(n, k := d.up_to(30), 1)
    updates = d.array(k, *rest)
    sums = pg.unsorted_segment_sum(updates, indices[:, 0], n)
    result = pg.scatter_nd(indices, updates, (n, *rest))
    replaced = pg.tensor_scatter_update(sums, indices, updates)
    return sums, result, replaced, pg.gather_nd(sums, indices)


def one_hots(d):
    indices = d.array(*d.shape(0, 3), dtype="int32", low=-1, high=7)
    return pg.one_hot(indices, 6, axis=d.pick(-1, 0), dtype=d.dtype)


def resized(name, d):
    x = d.array(*d.image())
    size = (d.up_to(15), d.up_to(15))
    how = d.pick({}, {"align_corners": True}, {"half_pixel_centers": True})
    op = partial(getattr(pg.image, name), size=size, **how)
    return vjp(op, x)


for name in ("constant", "reflect", "symmetric"):
    ROWS[f"pad {name}"] = Row(partial(padded, name), ALL, ELEMENT_TOL)
for name in ("resize_bilinear", "resize_nearest_neighbor"):
    ROWS[name] = Row(partial(resized, name), special=False)
ROWS |= {
    "concat": Row(joined, ALL, ELEMENT_TOL),
    "stack": Row(
        lambda d: pg.stack([x := d.array(*d.shape(0, 3)), d.like(x)], -1),
        ALL,
        ELEMENT_TOL,
    ),
    "tile": Row(
        lambda d: pg.tile(d.array(*d.shape(1, 2)), (2, d.up_to(4))), ALL, ELEMENT_TOL
    ),
    "repeat": Row(lambda d: pg.repeat(d.array(*d.nonempty()), 3, -1), ALL, ELEMENT_TOL),
    "flip": Row(
        lambda d: pg.flip(x := d.array(*d.shape(1)), axis=d.axis(x)), ALL, ELEMENT_TOL
    ),
    "roll": Row(
        lambda d: pg.roll(x := d.array(*d.nonempty()), 5, d.axis(x)), ALL, ELEMENT_TOL
    ),
    "permute_dims": Row(permuted, ALL, ELEMENT_TOL),
    "slice": Row(sliced, ALL, ELEMENT_TOL),
    "gather": Row(taken, ALL, special=False),
    "take_along_axis": Row(taken_along, ALL, ELEMENT_TOL),
    "scatter": Row(scattered, NUMBERS, special=False),
    "one_hot": Row(one_hots, ALL, ELEMENT_TOL),
    "sort": Row(lambda d: pg.sort(d.array(*d.nonempty())), NUMBERS, ELEMENT_TOL),
    "depth_to_space": Row(
        lambda d: pg.depth_to_space(d.array(*d.image(channels=12)), 2),
        NUMBERS,
        ELEMENT_TOL,
    ),
    "tril": Row(lambda d: pg.tril(d.array(*d.shape(2, 3))), NUMBERS, ELEMENT_TOL),
}

# --- products and windows --------------------------------------------------------


def products(d):
    n, k, m = (
        d.pick(1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 65) * (8 if d.min_elements else 1)
        for _ in range(3)
    )
    lead = d.shape(0, 1) if not d.min_elements and d.chance() else ()
    a = d.array(*lead, n, k)
    b = d.array(k, m)
    transposed = d.array(m, k), d.array(m)
    y = pg.fused.matmul(a, *transposed, transpose_b=True, activation="relu")
    return pg.matmul(a, b), y, pg.matmul(d.array(k, n), b, transpose_a=True)


def int8_products(d):
    m = d.up_to(20)
    n = d.up_to(70)
    k = d.up_to(70)
    a = d.array(m, k, dtype=d.pick("int8", "uint8"))
    b = d.array(k, n, dtype="int8")
    transposed = d.array(n, k, dtype="int8")
    y = pg.matmul(a, transposed, transpose_b=True, preferred_element_type="int32")
    return pg.matmul(a, b, preferred_element_type="int32"), y


def quantized(is_depthwise, d):
    dtype = d.pick("int8", "uint8")
    window = (d.up_to(3), d.up_to(3))
    x = d.array(d.up_to(2), d.up_to(9), d.up_to(9), d.up_to(70), dtype=dtype)
    k = d.up_to(70)
    columns = x.shape[-1] if is_depthwise else k
    scale = d.array(*d.pick((), (columns,)), dtype="float32", low=1e-4, high=1e-2)
    zero = d.array(dtype=d.pick("int8", "uint8"))
    bias = pg.astype(d.array(columns, dtype="int8"), "int32")
    rest = d.pick((None, None), (scale, None), (scale, zero))
    epilogue = d.pick(None, d.array(dtype=dtype)), d.pick(None, bias), *rest
    options = {"strides": d.up_to(2), "pad": d.pick("same", 2)}
    if is_depthwise:
        w = d.array(*window, columns, 1, dtype="int8")
        return pg.quantized.depthwise_conv2d(x, w, *epilogue, **options)
    w = d.array(*window, x.shape[-1], k, dtype="int8")
    flat = pg.quantized.matmul(x, pg.reshape(w, (-1, k))[: x.shape[-1]], *epilogue)
    return flat, pg.quantized.conv2d(x, w, *epilogue, **options)


def recurrent(name, d):
    steps = d.up_to(4)
    batch = d.pick(1, 2, 5, 40)
    inputs = d.up_to(5)
    n = d.up_to(40)
    m = (4 if name == "lstm" else 3) * n
    x = d.array(steps, batch, inputs)
    sizes = [(m, inputs), (m, n), (m,), (m,)]
    sizes += [(batch, n)] * (2 if name == "lstm" else 1)
    xs = [d.array(*size, low=-0.3, high=0.3) for size in sizes]
    ys, pull = pg.vjp(partial(getattr(pg, name), reverse=d.chance()), x, *xs)
    return ys, pull(tuple(pg.cos(y) for y in ys))


def windows(d, rank=2):
    options = {"pad": d.pick("same", "valid", 1), "strides": 1, "dilations": 1}
    options[d.pick("strides", "dilations")] = d.pick(1, 1, 2)
    return options, tuple(d.pick(1, 2, 3, 3, 3) for _ in range(rank))


def convolved(rank, d):
    options, window = windows(d, rank)
    g = d.pick(1, 1, 1, 2, 4)
    c = g * d.pick(1, 2, 3, 8)
    k = g * d.pick(1, 3, 4, 8, 17)
    x = d.array(*d.image(rank, c))
    w = d.array(*window, c // g, k)
    op = {1: pg.conv1d, 2: pg.conv2d, 3: pg.conv3d}[rank]
    return vjp(lambda x, w: op(x, w, groups=g, **options), x, w)


def fused_convolution(d):
    options, window = windows(d)
    x = d.array(*d.image())
    w = d.array(*window, x.shape[-1], k := d.up_to(20))
    b = d.array(k)
    return pg.fused.conv2d(
        x, w, b, activation=d.pick("linear", "relu", "relu6"), **options
    )


def depthwise(multiplier, d):
    options, window = windows(d)
    window = d.pick(window, (5, 5), (33, 1))
    options |= {"pad": "same"} if max(window) > 3 else {}
    x = d.array(*d.image())
    w = d.array(*window, x.shape[-1], multiplier)
    y = pg.fused.depthwise_conv2d(x, w, activation="relu", **options)
    return y, vjp(lambda x, w: pg.depthwise_conv2d(x, w, **options), x, w)


def pooled(name, rank, d):
    """Pool images in which some numbers are equal."""
    options, window = windows(d, rank)
    x = d.array(*d.image(rank), whole=True)
    return vjp(lambda x: pg.pool(x, window, name, **options), x)


def pooled_with_argmax(d):
    options, window = windows(d)
    x = d.array(*d.image(), whole=True)
    op = partial(pg.max_pool_with_argmax, include_batch_in_index=d.chance())
    found = op(x, window, **options) if options["pad"] != 1 else op(x, window)
    return found, pg.max_pool(x, 2), pg.avg_pool(x, 2)


def transposed_convolution(d):
    """Run a transposed convolution."""
    s = d.pick(1, 2)
    c = d.up_to(9)
    k = d.up_to(9)
    x = d.array(*d.image(2, c))
    n, h, w, _ = x.shape
    f = partial(
        pg.conv2d_transpose, output_shape=(n, h * s, w * s, k), strides=s, pad="same"
    )
    return vjp(f, x, d.array(3, 3, k, c))


for name in ("max", "avg"):
    for rank in (2, 3):
        ROWS[f"{name} pool {rank}d"] = Row(partial(pooled, name, rank), special=False)
for rank in (1, 2, 3):
    ROWS[f"conv{rank}d"] = Row(partial(convolved, rank), tol=PRODUCT_TOL, special=False)
ROWS |= {
    "matmul": Row(products, tol=PRODUCT_TOL, special=False),
    "int8 products": Row(int8_products, tol=0.0, special=False),
    "quantized conv2d": Row(partial(quantized, False), tol=0.0, special=False),
    "quantized depthwise": Row(partial(quantized, True), tol=0.0, special=False),
    "lstm": Row(partial(recurrent, "lstm"), tol=PRODUCT_TOL, special=False),
    "gru": Row(partial(recurrent, "gru"), tol=PRODUCT_TOL, special=False),
    "fused conv2d": Row(fused_convolution, tol=PRODUCT_TOL, special=False),
    "conv2d_transpose": Row(transposed_convolution, tol=PRODUCT_TOL, special=False),
    "depthwise": Row(partial(depthwise, 1), tol=PRODUCT_TOL, special=False),
    "depthwise, 3 of each": Row(partial(depthwise, 3), tol=PRODUCT_TOL, special=False),
    "pool": Row(pooled_with_argmax, ("float32", "float64", "int32")),
}
