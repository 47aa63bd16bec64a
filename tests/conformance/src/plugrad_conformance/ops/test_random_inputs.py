"""Compare ops with NumPy on random shapes, dtypes, layouts and values; one row per op.

Shapes have up to five axes, with sizes from 0. Arrays are in C or Fortran order,
transposed, broadcast or reversed; the backend gets them without a copy if it supports
that. Values include NaN, infinities, and the limits of integers. Each row runs the same
few examples every time; with ``--all``, it runs more.

The second part tests the elementary functions and their derivatives over all magnitudes
of float32.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import plugrad as pg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from plugrad.plugin import runtime

from .elementwise import assert_near

KINDS = {
    "b": ["bool"],
    "i": ["int8", "int32", "int64"],
    "u": ["uint8", "uint64"],
    "f": ["float16", "float32", "float64"],
    "c": ["complex64", "complex128"],
    "d": ["float32", "float64"],  # the real dtypes of LAPACK
}
LAYOUTS = ["C", "F", "transposed", "reversed", "stepped", "broadcast"]
EXACT, SUMS = 0, -1  # special values of Row.ulp


@dataclass(frozen=True)
class Row:
    """An op and its NumPy equivalent.

    Attributes:
        op: The public function.
        reference: The NumPy equivalent, which takes the attributes by name.
        kinds: The dtype kinds, abbreviated as in NumPy; "d" is "f" without float16.
        count: The number of tensors; their shapes broadcast.
        attrs: A function of ``draw`` and of a shape, which draws the attributes.
        ulp: The largest distance of floating results from the reference in float64;
            EXACT if nothing but the result is rounded; SUMS if the bound is relative to
            the sum of the magnitudes.
        shapes: A function of ``draw``, which draws shapes that need not broadcast.
        result: The dtype of the result if it differs from that of the arguments: "bool"
            or "int32"; "float": integers become float32; "sum": integers get at least
            32 bits; "parts": complex numbers become real.
        values: The kinds of values to draw.
        name: The name of the row, if it is not the name of the op.

    """

    op: Callable
    reference: Callable
    kinds: str = "biufc"
    count: int = 1
    attrs: Callable = lambda draw, shape: {}
    ulp: int = EXACT
    shapes: Callable | None = None
    result: str = "same"
    values: tuple = ("small", "wide", "special")
    name: str = ""

    def __str__(self):
        return self.name or self.op.__name__


# --- drawing ---------------------------------------------------------------------


def numbers(rng, dtype, shape, values):
    """Return an array of random numbers, in C order."""
    kind = dtype.kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if kind in "iu":
        low = np.iinfo(dtype).min
        high = np.iinfo(dtype).max
        if values == "small":
            return rng.integers(-5 if kind == "i" else 0, 6, shape).astype(dtype)
        if values == "wide":
            return rng.integers(low, high, shape, dtype, endpoint=True)
        choices = np.array([low, low + 1, high - 1, high, 0, 1], dtype)
        return rng.choice(choices, shape).astype(dtype)
    if values == "small":
        return np.asarray(rng.uniform(-3, 3, shape)).astype(dtype)
    limits = np.finfo(dtype)
    if values == "wide":
        max_exponent = 0.9 * np.log10(float(limits.max))
        x = 10.0 ** rng.uniform(-max_exponent, max_exponent, shape)
        return np.asarray(x * rng.choice([-1, 1], shape)).astype(dtype)
    choices = [np.nan, np.inf, 0.0, 1.0, 0.5, 2.5]
    if values != "middling":
        choices.append(limits.tiny)
    if values == "special":
        choices += [limits.max, limits.smallest_subnormal]
    x = rng.choice(np.array(choices, dtype), shape) * rng.choice([-1, 1], shape)
    return np.asarray(x).astype(dtype)


def laid_out(rng, dtype, shape, values, layout):
    """Return an array of random numbers, in a given layout."""
    if layout == "transposed":
        return numbers(rng, dtype, shape[::-1], values).T
    if layout == "stepped":
        x = numbers(rng, dtype, tuple(2 * n for n in shape), values)
        return x[(slice(None, None, 2),) * len(shape)]
    if layout == "broadcast":
        sizes = [1 if i % 2 else n for i, n in enumerate(shape)]
        return np.broadcast_to(numbers(rng, dtype, tuple(sizes), values), shape)
    x = numbers(rng, dtype, shape, values)
    if layout == "reversed":
        return x[(slice(None, None, -1),) * len(shape)]
    return np.asarray(x, order=layout)


@st.composite
def calls(draw, row):
    """Draw arrays, and attributes that fit them."""
    if row.shapes is not None:
        shapes = row.shapes(draw)
    elif row.count == 1:
        shapes = [draw(SHAPES)]
    else:
        shapes = draw(
            hnp.mutually_broadcastable_shapes(
                num_shapes=row.count, max_dims=5, min_side=0, max_side=4
            )
        ).input_shapes
    supported = {*runtime(pg.get_backend()).dtypes}
    dtypes = [d for kind in row.kinds for d in KINDS[kind] if d in supported]
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    values = draw(st.sampled_from(row.values))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    layouts = [draw(st.sampled_from(LAYOUTS)) for _ in shapes]
    arrays = [
        laid_out(rng, dtype, tuple(shape), values, layout)
        for shape, layout in zip(shapes, layouts, strict=True)
    ]
    return arrays, row.attrs(draw, tuple(shapes[0]))


SHAPES = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
MATRICES = hnp.array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=4)
FULL = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)
SMALL_SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=2)


def one_shape(shapes):
    """Return a function that draws one of the shapes."""
    return lambda draw: [draw(shapes)]


def an_axis(draw, shape):
    return {"axis": draw(st.integers(-len(shape), len(shape) - 1))}


def reduction(draw, shape):
    """Draw ``axis``, which is None, one axis or several, and ``keepdims``."""
    rank = len(shape)
    axes = st.lists(st.integers(0, rank - 1), unique=True) if rank else st.just([])
    axis = draw(st.none() | axes.map(tuple))
    if axis and draw(st.booleans()):
        axis = axis[0] - rank
    return {"axis": axis, "keepdims": draw(st.booleans())}


def matrices(draw):
    """Draw the shapes of two matrices, with or without a batch."""
    n, k, m = (draw(st.integers(0, 4)) for _ in range(3))
    lead = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
    a, b = lead.input_shapes
    return [(*a, n, k), (*b, k, m)]


def squares(draw):
    """Draw the shape of square matrices, with or without a batch."""
    *batch, n = draw(FULL)
    return [(*batch, n, n)]


# --- the table -------------------------------------------------------------------


def except_integers(function):
    """Return a function that returns integers unchanged."""
    return lambda x: function(x) if x.dtype.kind in "fc" else x


def move_row(op, reference, attrs, shapes=FULL, **more):
    """Return the row of an op that only moves elements."""
    return Row(op, reference, attrs=attrs, shapes=one_shape(shapes), **more)


def no_attrs(draw, shape):
    return {}


def repeats(draw, shape):
    return an_axis(draw, shape) | {"repeats": draw(st.integers(0, 3))}


def two_axes(draw, shape):
    ends = ("source", "destination")
    return {end: draw(st.integers(-len(shape), len(shape) - 1)) for end in ends}


def permutation(draw, shape):
    return {"axes": tuple(draw(st.permutations(range(len(shape)))))}


def some_axes(draw, shape):
    axes = st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1)
    return {"axis": draw(st.none() | axes.map(tuple))}


def shifts(draw, shape):
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return {"shift": draw(st.integers(-7, 7)), "axis": axis}


def paddings(draw, shape):
    width = st.integers(0, 2)
    return {"paddings": [(draw(width), draw(width)) for _ in shape]}


def repetitions(draw, shape):
    return {"repetitions": tuple(draw(st.integers(0, 2)) for _ in shape)}


def by_name(op, *positional):
    """Return an op that also accepts positional parameters by name."""
    return lambda *xs, **attrs: op(*xs, *(attrs.pop(n) for n in positional), **attrs)


def indices(draw, shape):
    given = an_axis(draw, shape)
    size = shape[given["axis"]]
    places = st.lists(st.integers(-size, size - 1), max_size=5)
    return {"indices": np.array(draw(places), np.int32), **given}


def key(draw, shape):
    return {"key": draw(hnp.basic_indices(shape, max_dims=6, allow_newaxis=True))}


def in_float64(function):
    """Return the function with its arguments converted to float64."""
    return lambda *xs: function(*(x.astype(np.float64) for x in xs))


def zero_if_divisor_is_zero(function):
    """Return an integer division that is 0 where the divisor is 0."""
    return lambda a, b: np.where((b == 0) & (b.dtype.kind != "f"), 0, function(a, b))


def index_of(extremum):
    """Return argmax or argmin that ignores NaN; 0 if all elements are NaN."""

    def reference(x, axis, keepdims):
        best = extremum.reduce(x, axis=axis, keepdims=True)
        return np.argmax(x == best, axis=axis, keepdims=keepdims)

    return reference


def average(x, axis, keepdims):
    count = np.sum(np.ones(x.shape), axis=axis, keepdims=keepdims)
    return np.sum(x, axis=axis, keepdims=keepdims) / count


def variance(x, axis, keepdims):
    return average((x - average(x, axis, True)) ** 2, axis, keepdims)


def log_sum_exp(x, axis, keepdims):
    return np.logaddexp.reduce(x.astype(np.float64), axis=axis, keepdims=keepdims)


def euclidean_norm(x, axis, keepdims):
    return np.sqrt(np.sum(np.abs(x) ** 2, axis=axis, keepdims=keepdims))


FLOATS = {"kinds": "biuf", "result": "float", "ulp": 3}
ORDERED = {"kinds": "iuf"}
BITS = {"kinds": "biu", "count": 2}
COMPARISON = {"kinds": "biuf", "count": 2, "result": "bool"}
REDUCES = {"attrs": reduction, "values": ("small", "special")}
REDUCES_MODERATE = {"attrs": reduction, "values": ("small", "odd")}
SMALL_VALUES = ("small",)
ACCUMULATES = {"result": "sum", "ulp": SUMS, "values": SMALL_VALUES}

ROWS = [
    # ops of one argument
    Row(pg.abs, np.abs, **ORDERED),
    Row(pg.negative, np.negative, "iufc"),
    Row(pg.positive, np.positive, "iufc"),
    Row(pg.sign, np.sign, **ORDERED),
    Row(pg.square, np.square, "iufc", ulp=1),
    Row(pg.floor, except_integers(np.floor), **ORDERED),
    Row(pg.ceil, except_integers(np.ceil), **ORDERED),
    Row(pg.round, except_integers(np.rint), "iufc"),
    Row(pg.trunc, except_integers(np.trunc), **ORDERED),
    Row(pg.isfinite, np.isfinite, result="bool"),
    Row(pg.isinf, np.isinf, result="bool"),
    Row(pg.isnan, np.isnan, result="bool"),
    Row(pg.logical_not, np.logical_not, "b"),
    Row(pg.bitwise_invert, np.invert, "biu"),
    Row(pg.relu, lambda x: np.where(x > 0, x, np.where(np.isnan(x), x, 0)), "f"),
    *(
        Row(op, in_float64(reference), **FLOATS)
        for op, reference in [
            (pg.acos, np.arccos),
            (pg.acosh, np.arccosh),
            (pg.asin, np.arcsin),
            (pg.asinh, np.arcsinh),
            (pg.atan, np.arctan),
            (pg.atanh, np.arctanh),
            (pg.cos, np.cos),
            (pg.cosh, np.cosh),
            (pg.exp, np.exp),
            (pg.exp2, np.exp2),
            (pg.expm1, np.expm1),
            (pg.log, np.log),
            (pg.log1p, np.log1p),
            (pg.log2, np.log2),
            (pg.log10, np.log10),
            (pg.reciprocal, np.reciprocal),
            (pg.sin, np.sin),
            (pg.sinh, np.sinh),
            (pg.sqrt, np.sqrt),
            (pg.tan, np.tan),
            (pg.tanh, np.tanh),
        ]
    ),
    # ops of complex numbers
    Row(pg.abs, np.abs, "c", result="parts", ulp=SUMS),
    Row(pg.angle, np.angle, "c", result="parts", ulp=SUMS),
    Row(pg.conj, np.conj, "iufc"),
    Row(pg.imag, np.imag, "c", result="parts"),
    Row(pg.real, np.real, "c", result="parts"),
    *(
        Row(op, reference, "c", ulp=SUMS, name=f"{op.__name__}-complex")
        for op, reference in [
            (pg.acos, np.arccos),
            (pg.acosh, np.arccosh),
            (pg.asin, np.arcsin),
            (pg.asinh, np.arcsinh),
            (pg.atan, np.arctan),
            (pg.atanh, np.arctanh),
            (pg.cos, np.cos),
            (pg.cosh, np.cosh),
            (pg.exp, np.exp),
            (pg.expm1, np.expm1),
            (pg.log, np.log),
            (pg.log10, np.log10),
            (pg.log1p, np.log1p),
            (pg.log2, np.log2),
            (pg.reciprocal, np.reciprocal),
            (pg.rsqrt, lambda x: 1 / np.sqrt(x)),
            (pg.sign, np.sign),
            (pg.sin, np.sin),
            (pg.sinh, np.sinh),
            (pg.sqrt, np.sqrt),
            (pg.square, np.square),
            (pg.tan, np.tan),
            (pg.tanh, np.tanh),
        ]
    ),
    # ops of two arguments
    Row(pg.add, np.add, "iufc", 2),
    Row(pg.subtract, np.subtract, "iufc", 2),
    Row(pg.multiply, np.multiply, "iufc", 2, ulp=2),
    Row(pg.divide, in_float64(np.divide), "biuf", 2, result="float", ulp=1),
    Row(pg.floor_divide, zero_if_divisor_is_zero(np.floor_divide), "iu", 2),
    Row(pg.remainder, zero_if_divisor_is_zero(np.remainder), "iu", 2),
    Row(pg.maximum, np.maximum, "biuf", 2),
    Row(pg.minimum, np.minimum, "biuf", 2),
    Row(pg.atan2, in_float64(np.arctan2), "iuf", 2, result="float", ulp=3),
    Row(pg.hypot, in_float64(np.hypot), "iuf", 2, result="float", ulp=3),
    Row(
        pg.logaddexp,
        in_float64(np.logaddexp),
        "f",
        2,
        ulp=SUMS,
        values=("small", "odd"),
    ),
    Row(pg.equal, np.equal, **COMPARISON | {"kinds": "biufc"}),
    Row(pg.not_equal, np.not_equal, **COMPARISON | {"kinds": "biufc"}),
    Row(pg.greater, np.greater, **COMPARISON),
    Row(pg.greater_equal, np.greater_equal, **COMPARISON),
    Row(pg.less, np.less, **COMPARISON),
    Row(pg.less_equal, np.less_equal, **COMPARISON),
    Row(pg.isclose, np.isclose, "iuf", 2, result="bool", values=("small", "odd")),
    Row(pg.logical_and, np.logical_and, "b", 2),
    Row(pg.logical_or, np.logical_or, "b", 2),
    Row(pg.logical_xor, np.logical_xor, "b", 2),
    Row(pg.bitwise_and, np.bitwise_and, **BITS),
    Row(pg.bitwise_or, np.bitwise_or, **BITS),
    Row(pg.bitwise_xor, np.bitwise_xor, **BITS),
    Row(
        lambda a, b: pg.where(a > b, a, b),
        lambda a, b: np.where(a > b, a, b),
        "biuf",
        2,
        name="where",
    ),
    # reductions
    Row(pg.sum, np.sum, "biufc", ulp=SUMS, result="sum", **REDUCES_MODERATE),
    # A product of up to 8 factors is rounded 7 times, and no partial product exceeds
    # the range of float16.
    Row(
        pg.prod,
        np.prod,
        "biuf",
        attrs=reduction,
        shapes=one_shape(SMALL_SHAPES),
        ulp=SUMS,
        result="sum",
        values=("small", "middling"),
    ),
    Row(  # any number of factors
        lambda x, **options: pg.prod(pg.sign(x), **options),
        lambda x, **options: np.prod(np.sign(x), **options),
        "iuf",
        result="sum",
        name="prod-signs",
        **REDUCES,
    ),
    Row(pg.mean, average, "biufc", ulp=SUMS, result="float", **REDUCES_MODERATE),
    Row(
        pg.var,
        variance,
        "iuf",
        attrs=reduction,
        ulp=SUMS,
        result="float",
        values=SMALL_VALUES,
    ),
    Row(
        pg.std,
        lambda *x, **options: np.sqrt(variance(*x, **options)),
        "iuf",
        attrs=reduction,
        ulp=SUMS,
        result="float",
        values=SMALL_VALUES,
    ),
    Row(pg.logsumexp, log_sum_exp, "iuf", ulp=SUMS, result="float", **REDUCES_MODERATE),
    Row(pg.max, np.max, "biuf", shapes=one_shape(FULL), **REDUCES),
    Row(pg.min, np.min, "biuf", shapes=one_shape(FULL), **REDUCES),
    Row(pg.any, np.any, "biufc", result="bool", **REDUCES),
    Row(pg.all, np.all, "biufc", result="bool", **REDUCES),
    Row(pg.count_nonzero, np.count_nonzero, "biuf", result="int32", **REDUCES),
    *(
        Row(
            op,
            index_of(reference),
            "iuf",
            shapes=one_shape(FULL),
            result="int32",
            attrs=lambda draw, shape: an_axis(draw, shape) | {"keepdims": False},
        )
        for op, reference in [(pg.argmax, np.fmax), (pg.argmin, np.fmin)]
    ),
    Row(pg.linalg.vector_norm, euclidean_norm, "f", ulp=SUMS, **REDUCES_MODERATE),
    # products
    Row(
        pg.matmul, np.matmul, "iufc", 2, ulp=SUMS, shapes=matrices, values=SMALL_VALUES
    ),
    Row(
        pg.linalg.outer,
        np.outer,
        "iufc",
        2,
        ulp=2,
        values=SMALL_VALUES,
        shapes=lambda draw: [(draw(st.integers(0, 4)),), (draw(st.integers(0, 4)),)],
    ),
    # data movement
    move_row(pg.permute_dims, np.transpose, permutation, SHAPES),
    move_row(pg.flip, np.flip, some_axes),
    move_row(by_name(pg.roll, "shift"), np.roll, shifts, name="roll"),
    move_row(pg.expand_dims, np.expand_dims, an_axis),
    move_row(
        lambda x: pg.reshape(x, (-1, x.shape[-1])),
        lambda x: np.reshape(x, (-1, x.shape[-1])),
        no_attrs,
        name="reshape",
    ),
    move_row(pg.squeeze, np.squeeze, no_attrs, SHAPES),
    move_row(
        by_name(pg.tile, "repetitions"),
        lambda x, repetitions: np.tile(x, repetitions),
        repetitions,
        name="tile",
    ),
    move_row(
        by_name(pg.pad, "paddings"),
        lambda x, paddings: np.pad(x, paddings),
        paddings,
        name="pad",
    ),
    move_row(
        pg.tril,
        np.tril,
        lambda draw, shape: {"k": draw(st.integers(-3, 3))},
        MATRICES,
    ),
    move_row(
        pg.triu,
        np.triu,
        lambda draw, shape: {"k": draw(st.integers(-3, 3))},
        MATRICES,
    ),
    move_row(by_name(pg.take, "indices"), np.take, indices, name="take"),
    move_row(lambda x, key: x[key], lambda x, key: x[key], key, SHAPES, name="getitem"),
    Row(
        lambda a, b: pg.concat([a, b, a], axis=-1),
        lambda a, b: np.concatenate([a, b, a], axis=-1),
        count=2,
        name="concat",
        shapes=lambda draw: [
            shape := draw(FULL),
            (*shape[:-1], draw(st.integers(0, 3))),
        ],
    ),
    Row(
        lambda a, b: pg.stack([a, b], axis=-1),
        lambda a, b: np.stack([a, b], -1),
        count=2,
        shapes=lambda draw: [draw(SHAPES)] * 2,
        name="stack",
    ),
    Row(
        lambda a, b: pg.broadcast_arrays(a, b)[0],
        lambda a, b: np.broadcast_arrays(a, b)[0],
        count=2,
        name="broadcast_arrays",
    ),
    move_row(by_name(pg.repeat, "repeats"), np.repeat, repeats, name="repeat"),
    move_row(
        by_name(pg.moveaxis, "source", "destination"),
        lambda x, source, destination: np.moveaxis(x, source, destination),
        two_axes,
        name="moveaxis",
    ),
    move_row(pg.matrix_transpose, lambda x: np.swapaxes(x, -1, -2), no_attrs, MATRICES),
    move_row(
        pg.linalg.diagonal, lambda x: np.diagonal(x, 0, -2, -1), no_attrs, MATRICES
    ),
    # sorting and accumulation
    move_row(pg.sort, np.sort, an_axis, kinds="biuf"),
    move_row(
        pg.argsort,
        lambda x, axis: np.argsort(x, axis, stable=True),
        an_axis,
        kinds="biuf",
        result="int32",
    ),
    move_row(pg.cumulative_sum, np.cumsum, an_axis, kinds="iufc", **ACCUMULATES),
    move_row(pg.cumulative_prod, np.cumprod, an_axis, kinds="iuf", **ACCUMULATES),
    move_row(pg.diff, np.diff, an_axis, kinds="iufc", ulp=SUMS, values=SMALL_VALUES),
    Row(
        pg.median,
        np.median,
        "iuf",
        attrs=reduction,
        shapes=one_shape(FULL),
        ulp=SUMS,
        result="float",
        values=SMALL_VALUES,
    ),
    Row(
        pg.unique_values,
        lambda x: x.ravel()[np.unique(x, return_index=True)[1]],
        "biuf",
        values=SMALL_VALUES,
    ),
    Row(
        lambda x: pg.searchsorted(pg.sort(x), x),
        lambda x: np.searchsorted(np.sort(x), x),
        "biuf",
        shapes=lambda draw: [(draw(st.integers(0, 9)),)],
        result="int32",
        name="searchsorted",
    ),
    # matrices, and transforms
    move_row(
        pg.linalg.trace,
        lambda x, dtype=None: np.trace(x, 0, -2, -1, dtype=dtype),
        no_attrs,
        MATRICES,
        kinds="iufc",
        **ACCUMULATES,
    ),
    Row(
        pg.linalg.kron,
        np.kron,
        "iufc",
        ulp=2,
        values=SMALL_VALUES,
        shapes=lambda draw: [draw(MATRICES)[-2:]] * 2,
    ),
    Row(
        lambda a, b: pg.einsum("...ij,...jk->...ki", a, b),
        lambda a, b: np.einsum("...ij,...jk->...ki", a, b),
        "iufc",
        2,
        ulp=SUMS,
        shapes=matrices,
        values=SMALL_VALUES,
        name="einsum",
    ),
    *(
        Row(
            lambda x, op=op: op(x + 12 * np.eye(x.shape[-1], dtype=x.dtype)),
            lambda x, reference=reference: reference(x + 12 * np.eye(x.shape[-1])),
            "dc",
            shapes=squares,
            ulp=SUMS,
            values=SMALL_VALUES,
            name=op.__name__,
        )
        for op, reference in [
            (pg.linalg.det, np.linalg.det),
            (pg.linalg.inv, np.linalg.inv),
        ]
    ),
    move_row(pg.fft.fft, np.fft.fft, an_axis, kinds="c", ulp=SUMS),
    move_row(pg.fft.ifft, np.fft.ifft, an_axis, kinds="c", ulp=SUMS),
]


# --- the test --------------------------------------------------------------------


def expected_dtype(row, dtype):
    if row.result in ("bool", "int32"):
        return np.dtype(row.result)
    if row.result == "float" and dtype.kind in "biu":
        return np.dtype("float32")
    if row.result == "parts":
        return np.dtype(f"float{dtype.itemsize * 4}")
    if row.result == "sum" and dtype.kind in "biu" and dtype.itemsize < 4:
        return np.dtype("uint32" if dtype.kind == "u" else "int32")
    return dtype


def compare(row, arrays, attrs, found):
    dtype = expected_dtype(row, arrays[0].dtype)
    if row.result == "sum" and dtype.kind in "iu":
        arrays = [x.astype(dtype) for x in arrays]
        attrs = attrs | {"dtype": dtype}
    wide = {"f": "float64", "c": "complex128"}.get(dtype.kind)
    if row.ulp != EXACT and row.result == "parts":
        arrays = [x.astype("complex128") for x in arrays]
    elif row.ulp != EXACT and wide is not None:
        # Floating functions convert integers to float32.
        arrays = [x.astype(dtype).astype(wide) for x in arrays]
    truth = np.asarray(row.reference(*arrays, **attrs))
    expected = truth.astype(dtype)
    assert found.dtype == dtype
    assert found.shape == expected.shape
    if row.ulp > 0 and dtype.kind == "f":
        half = dtype.itemsize == 2
        assert_near(found, expected, 6 if half else max(row.ulp, 4 * (wide == dtype)))
    elif row.ulp != EXACT and dtype.kind in "fc":
        # Terms can cancel, so the bound is relative to the sum of their magnitudes.
        size = np.nan_to_num(np.abs(row.reference(*map(np.abs, arrays), **attrs)))
        size = size + np.nan_to_num(np.abs(truth)) + 10
        is_near = np.abs(found - truth) <= 4 * np.finfo(dtype).eps * size
        is_same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        assert np.all(is_near | is_same), f"found {found}, expected {expected}"
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_random(row, backend, request):
    supported = {*runtime(pg.get_backend()).dtypes}
    if supported.isdisjoint(d for kind in row.kinds for d in KINDS[kind]):
        pytest.skip(f"{backend} has none of the dtypes")

    @settings(
        max_examples=300 if request.config.getoption("plugrad_thorough") else 40,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(calls(row))
    def check(call):
        arrays, attrs = call
        copies = [x.copy() for x in arrays]
        found = row.op(*(pg.asarray(x, copy=False) for x in arrays), **attrs).numpy()
        with np.errstate(all="ignore"):
            compare(row, arrays, attrs, found)
        for x, original in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(x, original, "an input has changed")

    check()


# --- elementary functions, from the smallest number to the largest ---------------

# Every 20,011th float32: both signs and all magnitudes.
GRID = np.arange(0, 2**32, 20_011, np.uint64).astype(np.uint32).view(np.float32)
GRID = GRID[np.isfinite(GRID)]
ROOT_PI = math.sqrt(math.pi)


def sigmoid(x):
    return np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x)))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@dataclass(frozen=True)
class Function:
    """An op, with float64 formulas for its value and its derivative."""

    op: Callable
    value: Callable
    slope: Callable

    def __str__(self):
        return self.op.__name__


FUNCTIONS = [
    Function(pg.acos, np.arccos, lambda x: -1 / np.sqrt((1 - x) * (1 + x))),
    Function(pg.acosh, np.arccosh, lambda x: 1 / np.sqrt((x - 1) * (x + 1))),
    Function(pg.asin, np.arcsin, lambda x: 1 / np.sqrt((1 - x) * (1 + x))),
    Function(pg.asinh, np.arcsinh, lambda x: 1 / np.hypot(x, 1)),
    Function(pg.atan, np.arctan, lambda x: 1 / (1 + x * x)),
    Function(pg.atanh, np.arctanh, lambda x: 1 / ((1 - x) * (1 + x))),
    Function(pg.cos, np.cos, lambda x: -np.sin(x)),
    Function(pg.cosh, np.cosh, np.sinh),
    Function(pg.erf, np.vectorize(math.erf), lambda x: 2 / ROOT_PI * np.exp(-x * x)),
    Function(pg.exp, np.exp, np.exp),
    Function(pg.exp2, np.exp2, lambda x: np.exp2(x) * math.log(2)),
    Function(pg.expm1, np.expm1, np.exp),
    Function(pg.log, np.log, lambda x: 1 / np.where(x < 0, np.nan, x)),
    Function(
        pg.log10, np.log10, lambda x: 1 / np.where(x < 0, np.nan, x * math.log(10))
    ),
    Function(pg.log1p, np.log1p, lambda x: 1 / np.where(x < -1, np.nan, 1 + x)),
    Function(pg.log2, np.log2, lambda x: 1 / np.where(x < 0, np.nan, x * math.log(2))),
    Function(pg.log_sigmoid, lambda x: -softplus(-x), lambda x: sigmoid(-x)),
    Function(pg.logsumexp, lambda x: x, np.ones_like),
    Function(pg.reciprocal, lambda x: 1 / x, lambda x: -1 / x**2),
    Function(pg.rsqrt, lambda x: 1 / np.sqrt(x), lambda x: -0.5 / np.sqrt(x) / x),
    Function(pg.sigmoid, sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    Function(pg.sin, np.sin, np.cos),
    Function(pg.sinh, np.sinh, np.cosh),
    Function(pg.softplus, softplus, sigmoid),
    Function(pg.sqrt, np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    Function(pg.tan, np.tan, lambda x: 1 / np.cos(x) ** 2),
    Function(pg.tanh, np.tanh, lambda x: 1 / np.cosh(x) ** 2),
]
# The error of a float32 derivative computed from the value, such as 1 - tanh².
DERIVATIVE_TOLERANCES = {"rtol": 1e-5, "atol": 1e-6}


@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_all_magnitudes(function, backend):
    op = function.op
    run = op if op is not pg.logsumexp else lambda x: op(x[:, None], axis=1)
    y, pullback = pg.vjp(run, pg.asarray(GRID))
    slope = pullback(pg.ones(y.shape))[0].numpy()
    wide = GRID.astype(np.float64)
    with np.errstate(all="ignore"):
        value = np.asarray(function.value(wide), np.float64)
        assert_near(y.numpy(), value.astype(np.float32), 3)
        exact = np.asarray(function.slope(wide), np.float64)
        finite = np.isfinite(exact) & (np.abs(exact) < 1e38) & np.isfinite(value)
    np.testing.assert_allclose(slope[finite], exact[finite], **DERIVATIVE_TOLERANCES)
