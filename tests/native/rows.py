"""The table: calls of ops, one row each, with what ``Draw`` draws.

Rows are not only those of ops that have kernels in C: a kernel that is added is checked
at once, if a row runs its op.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import plugrad as pg

FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, "int32", "int64", "int8", "uint8")
ALL = (*NUMBERS, "bool", "float16", "complex64")
# How far results may be from the expected ones, in steps of 2e-6 or 1e-13.
ELEMENT_STEPS = 1.0
SUM_STEPS = 8.0
PRODUCT_STEPS = 100.0


@dataclass(frozen=True)
class Row:
    """A call of an op, which is given what draws its arguments."""

    call: Callable[[Any], Any]
    dtypes: tuple[str, ...] = FLOATS
    far: float = SUM_STEPS
    special: bool = True  # numbers that are infinite, or not numbers


ROWS: dict[str, Row] = {}


def back(op, *xs):
    """Return the gradients of ``op``, for cotangents that are not all alike."""
    y, pull = pg.vjp(op, *xs)
    return y, pull(pg.sin(pg.reshape(pg.arange(y.size, dtype=y.dtype), y.shape)) + 0.5)


# --- element-wise ----------------------------------------------------------------

SMOOTH = (
    "exp expm1 tanh sigmoid softplus log_sigmoid sin cos erf erfc elu selu gelu silu"
)
SMOOTH += " mish relu relu6 leaky_relu square sinh cosh asinh atan"
HALF = "sqrt rsqrt log log1p log2 log10 reciprocal"  # of positive numbers
ANY = "tan exp2 asin acos acosh atanh abs negative sign floor ceil round trunc positive"
ANY += " step isnan isinf isfinite signbit logical_not"
PAIRS = "add subtract multiply maximum minimum squared_difference"
OF_FLOATS = "divide divide_no_nan remainder floor_divide fmod atan2 hypot logaddexp"
OF_FLOATS += " copysign nextafter prelu"
COMPARED = "equal not_equal less less_equal greater greater_equal"
COMPARED += " logical_and logical_or logical_xor"


def unary(name, d):
    return getattr(pg, name)(d.array(*d.shape()))


def unary_back(name, d):
    range_ = {"low": 0.1, "high": 9.0} if name in HALF.split() else {}
    return back(getattr(pg, name), d.array(*d.shape(), **range_))


def binary(name, d):
    a, b = d.pair()
    return getattr(pg, name)(
        d.array(*a, whole=d.chance()), d.array(*b, whole=d.chance())
    )


def binary_back(name, d):
    a, b = d.pair()
    return back(getattr(pg, name), d.array(*a), d.array(*b, low=0.5, high=3.0))


for name in f"{SMOOTH} {HALF} {ANY}".split():
    ROWS[name] = Row(partial(unary, name), far=ELEMENT_STEPS)
for name in f"{SMOOTH} {HALF}".split():
    ROWS[f"{name} back"] = Row(partial(unary_back, name))
for name in f"{PAIRS} {COMPARED}".split():
    ROWS[name] = Row(partial(binary, name), NUMBERS, far=ELEMENT_STEPS)
for name in OF_FLOATS.split():
    ROWS[name] = Row(partial(binary, name), far=ELEMENT_STEPS)
for name in [*PAIRS.split(), "divide", "prelu"]:
    ROWS[f"{name} back"] = Row(partial(binary_back, name), special=False)


def power(d):
    a, b = d.pair()
    return pg.pow(d.array(*a, low=0.1, high=3.0), d.array(*b))


def cast(d):
    x = d.array(*d.shape(), low=0.0, high=100.0)
    return [pg.astype(x, dtype) for dtype in (*NUMBERS, "bool")]


def choose(d):
    a, b = d.pair()
    return pg.where(d.array(*a, dtype="bool"), d.array(*b), d.array(*a))


ROWS |= {
    "gelu back": Row(lambda d: back(pg.gelu, d.array(*d.shape()))),
    "gelu of tanh": Row(
        lambda d: back(partial(pg.gelu, approximate=True), d.array(*d.shape()))
    ),
    "pow": Row(power),
    "clip": Row(
        lambda d: pg.clip(d.array(*d.shape()), -1, 2), NUMBERS[:4], ELEMENT_STEPS
    ),
    "astype": Row(cast, ALL[:7], special=False),
    "where": Row(choose, ALL, ELEMENT_STEPS),
    "isclose": Row(
        lambda d: pg.isclose(x := d.array(*d.shape()), d.like(x)), far=ELEMENT_STEPS
    ),
}

# --- along axes ------------------------------------------------------------------


def reduced(name, d):
    """Run on axes that are not empty, as some reductions need."""
    x = d.array(*d.filled(0), whole=True)
    return getattr(pg, name)(x, d.axes(x), keepdims=d.chance())


def position(name, d):
    x = d.array(*d.filled(), whole=True)
    return getattr(pg, name)(x, d.axis(x))


def sums(d):
    x = d.array(*d.shape())
    return pg.sum(x, d.axes(x))


def scanned(name, d):
    x = d.array(*d.shape(1), low=0.5, high=1.5)
    how = {"exclusive": d.chance(), "reverse": d.chance()}
    return getattr(pg, name)(x, d.axis(x), **how)


def along(name, d):
    x = d.array(*d.filled())
    return getattr(pg, name)(x, d.axis(x))


def along_back(name, d):
    x = d.array(*d.filled())
    return back(partial(getattr(pg, name), axis=d.axis(x)), x)


def layers(d):
    """Normalize; a small ``epsilon`` would magnify what is rounded in constant rows."""
    op = partial(pg.layer_norm, epsilon=0.1)
    x = d.array(*d.filled(1, 3))
    n = x.shape[-1]
    s = d.array(n)
    o = d.array(n)
    how = d.one((), (s,), (None, o), (s, o))
    return op(x, *how), pg.grads(lambda x: pg.sum(op(x, *how) ** 3))(x)


def batches(d):
    x = d.array(*d.image())
    c = x.shape[-1]
    of = [d.array(c), d.array(c, low=0.1, high=2.0), d.array(c), d.array(c)]
    return pg.batch_norm(x, *of), back(pg.batch_norm, x, *of)


def groups(d):
    g = d.one(1, 2, 4)
    x = d.array(*d.image(channels=g * d.upto(5)))
    return pg.group_norm(x, d.array(x.shape[-1]), groups=g)


for name in ("max", "min", "prod", "mean", "any", "all"):
    dtypes = NUMBERS if name in ("max", "min", "prod") else FLOATS
    dtypes = ("bool", *FLOATS) if name in ("any", "all") else dtypes
    ROWS[name] = Row(partial(reduced, name), dtypes)
for name in ("std", "var", "logsumexp"):
    ROWS[name] = Row(partial(reduced, name), special=False)
for name in ("argmax", "argmin"):
    ROWS[name] = Row(partial(position, name), NUMBERS)
for name in ("cumulative_sum", "cumulative_prod"):
    ROWS[name] = Row(partial(scanned, name), NUMBERS[:4], PRODUCT_STEPS)
for name in ("softmax", "log_softmax"):
    ROWS[name] = Row(partial(along, name))
    ROWS[f"{name} back"] = Row(partial(along_back, name), special=False)
ROWS |= {
    "sum": Row(sums, ALL),
    "max back": Row(
        lambda d: back(pg.max, d.array(*d.filled(), whole=True)), special=False
    ),
    "mean back": Row(lambda d: back(lambda x: pg.mean(x, -1), d.array(*d.filled()))),
    "layer_norm": Row(layers, far=PRODUCT_STEPS, special=False),
    "batch_norm": Row(batches, far=PRODUCT_STEPS, special=False),
    "group_norm": Row(groups, far=PRODUCT_STEPS, special=False),
    "local_response_normalization": Row(
        lambda d: back(pg.local_response_normalization, d.array(*d.image())),
        special=False,
    ),
}

# --- moving ----------------------------------------------------------------------


def joined(d):
    shape = d.filled()
    axis = int(d.rng.integers(len(shape)))
    sizes = [
        (*shape[:axis], n, *shape[axis + 1 :]) for n in (shape[axis], 0, d.upto(3))
    ]
    return pg.concat([d.array(*size) for size in sizes], axis)


def padded(mode, d):
    x = d.array(*(max(n, 3) for n in d.shape(1, 3)))
    ends = [(d.upto(3) - 1, d.upto(3) - 1) for _ in x.shape]
    return pg.pad(x, ends, mode=mode)


def permuted(d):
    x = d.array(*d.shape())
    y = pg.permute_dims(x, tuple(map(int, d.rng.permutation(x.ndim))))
    return pg.reshape(y, (-1,)), y + y if d.dtype != "bool" else y


def sliced(d):
    x = d.array(*d.shape(1))
    steps = [d.one(1, 2, 3, -1, -2) for _ in x.shape]
    return pg.reshape(x[tuple(slice(None, None, s) for s in steps)], (-1,))


def taken(d):
    x = d.array(*d.filled())
    axis = d.axis(x)
    where = d.indices(x.shape[axis], d.upto(9), d.upto(3))
    return (
        back(lambda x: pg.gather(x, where, axis), x)
        if d.dtype in FLOATS
        else pg.gather(x, where, axis)
    )


def taken_along(d):
    x = d.array(*d.filled())
    return pg.take_along_axis(x, d.indices(x.shape[-1], *x.shape[:-1], d.upto(9)))


def scattered(d):
    n = d.upto(20)
    rest = d.shape(0, 2)
    where = d.indices(n, k := d.upto(30), 1)
    updates = d.array(k, *rest)
    there = pg.unsorted_segment_sum(updates, where[:, 0], n)
    return there, pg.scatter_nd(where, updates, (n, *rest)), pg.gather_nd(there, where)


def hot(d):
    where = d.array(*d.shape(0, 3), dtype="int32", low=-1, high=7)
    return pg.one_hot(where, 6, axis=d.one(-1, 0), dtype=d.dtype)


def resized(name, d):
    x = d.array(*d.image())
    size = (d.upto(15), d.upto(15))
    how = d.one({}, {"align_corners": True}, {"half_pixel_centers": True})
    op = partial(getattr(pg.image, name), size=size, **how)
    return back(op, x)


for name in ("constant", "reflect", "symmetric"):
    ROWS[f"pad {name}"] = Row(partial(padded, name), ALL, ELEMENT_STEPS)
for name in ("resize_bilinear", "resize_nearest_neighbor"):
    ROWS[name] = Row(partial(resized, name), special=False)
ROWS |= {
    "concat": Row(joined, ALL, ELEMENT_STEPS),
    "stack": Row(
        lambda d: pg.stack([x := d.array(*d.shape(0, 3)), d.like(x)], -1),
        ALL,
        ELEMENT_STEPS,
    ),
    "tile": Row(
        lambda d: pg.tile(d.array(*d.shape(1, 2)), (2, d.upto(4))), ALL, ELEMENT_STEPS
    ),
    "repeat": Row(lambda d: pg.repeat(d.array(*d.filled()), 3, -1), ALL, ELEMENT_STEPS),
    "flip": Row(
        lambda d: pg.flip(x := d.array(*d.shape(1)), axis=d.axis(x)), ALL, ELEMENT_STEPS
    ),
    "roll": Row(
        lambda d: pg.roll(x := d.array(*d.filled()), 5, d.axis(x)), ALL, ELEMENT_STEPS
    ),
    "permute_dims": Row(permuted, ALL, ELEMENT_STEPS),
    "slice": Row(sliced, ALL, ELEMENT_STEPS),
    "gather": Row(taken, ALL, special=False),
    "take_along_axis": Row(taken_along, ALL, ELEMENT_STEPS),
    "scatter": Row(scattered, NUMBERS, special=False),
    "one_hot": Row(hot, ALL, ELEMENT_STEPS),
    "sort": Row(lambda d: pg.sort(d.array(*d.filled())), NUMBERS, ELEMENT_STEPS),
    "depth_to_space": Row(
        lambda d: pg.depth_to_space(d.array(*d.image(channels=12)), 2),
        NUMBERS,
        ELEMENT_STEPS,
    ),
    "tril": Row(lambda d: pg.tril(d.array(*d.shape(2, 3))), NUMBERS, ELEMENT_STEPS),
}

# --- products and windows --------------------------------------------------------


def products(d):
    n, k, m = (
        d.one(1, 2, 3, 7, 8, 16, 17, 33, 65) * (8 if d.least else 1) for _ in range(3)
    )
    lead = d.shape(0, 1) if not d.least and d.chance() else ()
    a = d.array(*lead, n, k)
    b = d.array(k, m)
    turned = d.array(m, k), d.array(m)
    y = pg.fused.matmul(a, *turned, transpose_b=True, activation="relu")
    return pg.matmul(a, b), y, pg.matmul(d.array(k, n), b, transpose_a=True)


def of_bytes(d):
    m = d.upto(20)
    n = d.upto(70)
    k = d.upto(70)
    a = d.array(m, k, dtype=d.one("int8", "uint8"))
    b = d.array(k, n, dtype="int8")
    turned = d.array(n, k, dtype="int8")
    y = pg.matmul(a, turned, transpose_b=True, preferred_element_type="int32")
    return pg.matmul(a, b, preferred_element_type="int32"), y


def quantized(each, d):
    dtype = d.one("int8", "uint8")
    window = (d.upto(3), d.upto(3))
    x = d.array(d.upto(2), d.upto(9), d.upto(9), d.upto(70), dtype=dtype)
    k = d.upto(70)
    columns = x.shape[-1] if each else k
    scale = d.array(*d.one((), (columns,)), dtype="float32", low=1e-4, high=1e-2)
    zero = d.array(dtype=d.one("int8", "uint8"))
    bias = pg.astype(d.array(columns, dtype="int8"), "int32")
    rest = d.one((None, None), (scale, None), (scale, zero))
    end = d.one(None, d.array(dtype=dtype)), d.one(None, bias), *rest
    how = {"strides": d.upto(2), "pad": d.one("same", 2)}
    if each:
        w = d.array(*window, columns, 1, dtype="int8")
        return pg.quantized.depthwise_conv2d(x, w, *end, **how)
    w = d.array(*window, x.shape[-1], k, dtype="int8")
    flat = pg.quantized.matmul(x, pg.reshape(w, (-1, k))[: x.shape[-1]], *end)
    return flat, pg.quantized.conv2d(x, w, *end, **how)


def recurrent(name, d):
    steps = d.upto(4)
    batch = d.one(1, 2, 5, 40)
    inputs = d.upto(5)
    n = d.upto(40)
    m = (4 if name == "lstm" else 3) * n
    x = d.array(steps, batch, inputs)
    sizes = [(m, inputs), (m, n), (m,), (m,)]
    sizes += [(batch, n)] * (2 if name == "lstm" else 1)
    xs = [d.array(*size, low=-0.3, high=0.3) for size in sizes]
    ys, pull = pg.vjp(partial(getattr(pg, name), reverse=d.chance()), x, *xs)
    return ys, pull(tuple(pg.cos(y) for y in ys))


def windows(d, rank=2):
    how = {"pad": d.one("same", "valid", 1), "strides": 1, "dilations": 1}
    how[d.one("strides", "dilations")] = d.one(1, 1, 2)
    return how, tuple(d.one(1, 2, 3, 3, 3) for _ in range(rank))


def convolved(rank, d):
    how, window = windows(d, rank)
    g = d.one(1, 1, 1, 2, 4)
    c = g * d.one(1, 2, 3, 8)
    k = g * d.one(1, 3, 4, 8, 17)
    x = d.array(*d.image(rank, c))
    w = d.array(*window, c // g, k)
    op = {1: pg.conv1d, 2: pg.conv2d, 3: pg.conv3d}[rank]
    return back(lambda x, w: op(x, w, groups=g, **how), x, w)


def biased(d):
    how, window = windows(d)
    x = d.array(*d.image())
    w = d.array(*window, x.shape[-1], k := d.upto(20))
    b = d.array(k)
    return pg.fused.conv2d(x, w, b, activation=d.one("linear", "relu", "relu6"), **how)


def depthwise(multiplier, d):
    how, window = windows(d)
    window = d.one(window, (5, 5), (33, 1))
    how |= {"pad": "same"} if max(window) > 3 else {}
    x = d.array(*d.image())
    w = d.array(*window, x.shape[-1], multiplier)
    y = pg.fused.depthwise_conv2d(x, w, activation="relu", **how)
    return y, back(lambda x, w: pg.depthwise_conv2d(x, w, **how), x, w)


def pooled(name, rank, d):
    """Pool, with ties."""
    how, window = windows(d, rank)
    x = d.array(*d.image(rank), whole=True)
    return back(lambda x: pg.pool(x, window, name, **how), x)


def pooled_whole(d):
    how, window = windows(d)
    x = d.array(*d.image(), whole=True)
    op = partial(pg.max_pool_with_argmax, include_batch_in_index=d.chance())
    found = op(x, window, **how) if how["pad"] != 1 else op(x, window)
    return found, pg.max_pool(x, 2), pg.avg_pool(x, 2)


def raised(d):
    """Transposed convolution."""
    s = d.one(1, 2)
    c = d.upto(9)
    k = d.upto(9)
    x = d.array(*d.image(2, c))
    n, h, w, _ = x.shape
    f = partial(
        pg.conv2d_transpose, output_shape=(n, h * s, w * s, k), strides=s, pad="same"
    )
    return back(f, x, d.array(3, 3, k, c))


for name in ("max", "avg"):
    for rank in (2, 3):
        ROWS[f"{name} pool {rank}d"] = Row(partial(pooled, name, rank), special=False)
for rank in (1, 2, 3):
    ROWS[f"conv{rank}d"] = Row(
        partial(convolved, rank), far=PRODUCT_STEPS, special=False
    )
ROWS |= {
    "matmul": Row(products, far=PRODUCT_STEPS, special=False),
    "products of bytes": Row(of_bytes, far=0.0, special=False),
    "quantized conv2d": Row(partial(quantized, False), far=0.0, special=False),
    "quantized depthwise": Row(partial(quantized, True), far=0.0, special=False),
    "lstm": Row(partial(recurrent, "lstm"), far=PRODUCT_STEPS, special=False),
    "gru": Row(partial(recurrent, "gru"), far=PRODUCT_STEPS, special=False),
    "fused conv2d": Row(biased, far=PRODUCT_STEPS, special=False),
    "conv2d_transpose": Row(raised, far=PRODUCT_STEPS, special=False),
    "depthwise": Row(partial(depthwise, 1), far=PRODUCT_STEPS, special=False),
    "depthwise, 3 of each": Row(
        partial(depthwise, 3), far=PRODUCT_STEPS, special=False
    ),
    "pool": Row(pooled_whole, ("float32", "float64", "int32")),
}
