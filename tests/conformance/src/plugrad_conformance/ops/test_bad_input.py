"""Invalid arguments: the error names the op, the argument and the value.

A row is an op with one argument left open. The test passes values for this argument
that are invalid for its kind, such as a float for a size. The error is raised before
any kernel runs, so it is the same on all backends. Errors of a single family are tested
with the family.
"""

import functools
import math
import re

import numpy as np
import plugrad as pg
import pytest
from plugrad import fft, fused, image, linalg, losses, random, signal, sparse, strings

from ..check import require_dtypes

X = np.linspace(0.1, 0.9, 6, dtype="float32").reshape(2, 3)
SQUARE = np.eye(3, dtype="float32") * 2
IMAGE = np.linspace(0, 1, 32, dtype="float32").reshape(1, 4, 4, 2)
FILTER = np.ones((2, 2, 2, 3), "float32")
BOXES = np.asarray([[0, 0, 1, 1]], "float32")
LABELS = np.asarray([[1, 0, 0], [0, 1, 0]], "float32")
TEXTS = ["a b", "c"]
use = functools.partial  # the missing positional argument is the one under test


def named(op, *given, vary, **others):
    """Return ``op`` as a function of the keyword argument that ``vary`` names."""
    return lambda value: op(*given, **others, **{vary: value})


# --- one integer, or several -----------------------------------------------------

NON_INTEGERS = ["2", b"2", 1.5, 1.0, math.nan, True, np.bool_(True), np.float32(1), {}]
NON_INTEGERS += [{1}, object(), [1.5], [True], np.asarray(1.5), np.asarray([0.5]), len]
INTEGER = [
    ("one_hot", "depth", use(pg.one_hot, [0])),
    ("one_hot", "axis", named(pg.one_hot, [0], 2, vary="axis")),
    ("top_k", "k", use(pg.top_k, X)),
    ("concat", "axis", named(pg.concat, [X, X], vary="axis")),
    ("stack", "axis", named(pg.stack, [X, X], vary="axis")),
    ("unstack", "axis", named(pg.unstack, X, vary="axis")),
    ("split", "axis", named(pg.split, X, 1, vary="axis")),
    ("take", "axis", named(pg.take, X, [0], vary="axis")),
    ("take_along_axis", "axis", named(pg.take_along_axis, X, [[0], [1]], vary="axis")),
    ("gather", "axis", named(pg.gather, X, [0], vary="axis")),
    ("gather", "batch_dims", named(pg.gather, X, [0], vary="batch_dims")),
    ("repeat", "axis", named(pg.repeat, X, 2, vary="axis")),
    ("sort", "axis", named(pg.sort, X, vary="axis")),
    ("argmax", "axis", named(pg.argmax, X, vary="axis")),
    ("cumulative_sum", "axis", named(pg.cumulative_sum, X, vary="axis")),
    ("diff", "n", named(pg.diff, X, vary="n")),
    ("bincount", "size", named(pg.bincount, [0], vary="size")),
    ("dense_bincount", "size", named(pg.dense_bincount, [0], vary="size")),
    ("confusion_matrix", "num_classes", use(pg.confusion_matrix, [0], [0])),
    ("unsorted_segment_sum", "num_segments", use(pg.unsorted_segment_sum, X, [0, 1])),
    ("unsorted_segment_max", "num_segments", use(pg.unsorted_segment_max, X, [0, 1])),
    ("eye", "k", named(pg.eye, 3, vary="k")),
    ("tril", "k", named(pg.tril, SQUARE, vary="k")),
    ("triu", "k", named(pg.triu, SQUARE, vary="k")),
    ("linspace", "num", use(pg.linspace, 0, 1)),
    ("vecdot", "axis", named(pg.vecdot, X, X, vary="axis")),
    ("cross", "axis", named(linalg.cross, X, X, vary="axis")),
    ("diagonal", "offset", named(linalg.diagonal, SQUARE, vary="offset")),
    ("matrix_power", "n", use(linalg.matrix_power, SQUARE)),
    ("group_norm", "groups", named(pg.group_norm, X, vary="groups")),
    (
        "local_response_normalization",
        "depth_radius",
        named(pg.local_response_normalization, IMAGE, vary="depth_radius"),
    ),
    ("conv2d", "groups", named(pg.conv2d, IMAGE, FILTER, vary="groups")),
    (
        "depth_to_space",
        "block_size",
        use(pg.depth_to_space, np.ones((1, 1, 1, 4), "float32")),
    ),
    ("fftfreq", "n", fft.fftfreq),
    ("frame", "frame_length", lambda n: signal.frame([1.0, 2.0], n, 1)),
    ("frame", "frame_step", use(signal.frame, [1.0, 2.0], 1)),
    ("stft", "fft_length", named(signal.stft, [1.0, 2.0], 2, 1, vary="fft_length")),
    ("hann_window", "window_length", signal.hann_window),
    ("enclosing_power_of_two", "value", signal.enclosing_power_of_two),
    ("image.from_pixels", "num_channels", use(image.from_pixels, np.zeros((1, 1, 3)))),
    (
        "image.non_max_suppression",
        "max_output_size",
        use(image.non_max_suppression, BOXES, [1.0]),
    ),
    ("permutation", "n", random.permutation),
    ("multinomial", "num_samples", use(random.multinomial, X)),
    ("uniform_int", "minval and maxval", lambda n: random.uniform_int(2, n, 9)),
    ("normal", "seed", named(random.normal, 2, vary="seed")),
    ("seed", "seed", random.seed),
    (
        "sparse.segment_sum",
        "num_segments",
        named(sparse.segment_sum, X, [0], [0], vary="num_segments"),
    ),
    (
        "strings.to_hash_bucket_fast",
        "num_buckets",
        use(strings.to_hash_bucket_fast, TEXTS),
    ),
]
INTEGERS = [
    ("reshape", "shape", use(pg.reshape, X)),
    ("broadcast_to", "shape", use(pg.broadcast_to, X)),
    ("zeros", "shape", pg.zeros),
    ("full", "shape", lambda shape: pg.full(shape, 1.0)),
    ("sum", "axis", named(pg.sum, X, vary="axis")),
    ("softmax", "axis", named(pg.softmax, X, vary="axis")),
    ("log_softmax", "axis", named(pg.log_softmax, X, vary="axis")),
    ("count_nonzero", "axis", named(pg.count_nonzero, X, vary="axis")),
    ("flip", "axis", named(pg.flip, X, vary="axis")),
    ("squeeze", "axis", named(pg.squeeze, X, vary="axis")),
    ("expand_dims", "axis", named(pg.expand_dims, X, vary="axis")),
    ("roll", "shift", use(pg.roll, X)),
    ("tile", "repetitions", use(pg.tile, X)),
    ("split", "sizes", use(pg.split, X)),
    ("permute_dims", "axes", use(pg.permute_dims, X)),
    ("moveaxis", "destination", use(pg.moveaxis, X, 0)),
    ("slice", "begin", use(pg.slice, X)),
    ("strided_slice", "the masks", named(pg.strided_slice, X, 0, 1, vary="end_mask")),
    ("tensordot", "axes", named(pg.tensordot, SQUARE, SQUARE, vary="axes")),
    ("scatter_nd", "shape", use(pg.scatter_nd, [[0]], [1.0])),
    ("max_pool", "the window", use(pg.max_pool, IMAGE)),
    ("conv2d", "strides", named(pg.conv2d, IMAGE, FILTER, vary="strides")),
    ("conv2d", "dilations", named(pg.conv2d, IMAGE, FILTER, vary="dilations")),
    ("conv2d", "pad", named(pg.conv2d, IMAGE, FILTER, vary="pad")),
    ("image.resize_bilinear", "size", use(image.resize_bilinear, IMAGE)),
    ("fftn", "axes", named(fft.fftn, X, vary="axes")),
    ("normal", "shape", random.normal),
    ("dropout", "noise_shape", named(pg.dropout, X, 0.5, vary="noise_shape")),
    ("sparse.to_dense", "shape", use(sparse.to_dense, [0], [1.0])),
    (
        "strings.ngrams",
        "ngram_widths",
        named(strings.ngrams, ["a"], [0, 1], vary="ngram_widths"),
    ),
]
# --- sizes -----------------------------------------------------------------------

INVALID_SIZES = [-1, -(2**70), 2**62, 2**63, 2**70]
SIZES = [
    ("zeros", "shape", pg.zeros),
    ("full", "shape", lambda n: pg.full((n, 1), 1.0)),
    ("eye", "shape", pg.eye),
    ("linspace", "num", use(pg.linspace, 0, 1)),
    ("one_hot", "depth", use(pg.one_hot, [0])),
    ("tile", "", use(pg.tile, X)),
    ("bincount", "size", named(pg.bincount, [0], vary="size")),
    ("unsorted_segment_sum", "num_segments", use(pg.unsorted_segment_sum, X, [0, 1])),
    ("unsorted_segment_max", "num_segments", use(pg.unsorted_segment_max, X, [0, 1])),
    ("scatter_nd", "shape", use(pg.scatter_nd, [[0]], [1.0])),
    ("fft", "the size", named(fft.fft, X, vary="n")),
    ("fftfreq", "n", fft.fftfreq),
    ("hann_window", "window_length", signal.hann_window),
    ("frame", "frame_length", lambda n: signal.frame([1.0, 2.0], n, 1, pad_end=True)),
    ("max_pool", "the window", use(pg.max_pool, IMAGE)),
    ("conv2d", "strides", named(pg.conv2d, IMAGE, FILTER, vary="strides")),
    ("conv2d", "", named(pg.conv2d, IMAGE, FILTER, vary="pad")),
    ("image.resize_bilinear", "size", use(image.resize_bilinear, IMAGE)),
    (
        "image.crop_and_resize",
        "crop_size",
        use(image.crop_and_resize, IMAGE, BOXES, [0]),
    ),
    ("uniform", "shape", random.uniform),
    ("permutation", "n", random.permutation),
    ("multinomial", "num_samples", use(random.multinomial, X)),
    ("sparse.to_dense", "shape", use(sparse.to_dense, [0], [1.0])),
]
# --- numbers, flags, words, sequences --------------------------------------------

NON_REALS = ["1", b"1", None, 1j, {}, [1.0], object(), np.asarray([1.0]), 10**400, len]
REAL = [
    ("leaky_relu", "alpha", named(pg.leaky_relu, X, vary="alpha")),
    ("elu", "alpha", named(pg.elu, X, vary="alpha")),
    ("hard_sigmoid", "alpha", named(pg.hard_sigmoid, X, vary="alpha")),
    ("hard_sigmoid", "beta", named(pg.hard_sigmoid, X, vary="beta")),
    ("step", "alpha", named(pg.step, X, vary="alpha")),
    ("var", "correction", named(pg.var, X, vary="correction")),
    ("std", "correction", named(pg.std, X, vary="correction")),
    ("batch_norm", "epsilon", named(pg.batch_norm, X, 0.0, 1.0, vary="epsilon")),
    ("layer_norm", "epsilon", named(pg.layer_norm, X, vary="epsilon")),
    ("group_norm", "epsilon", named(pg.group_norm, X, groups=1, vary="epsilon")),
    (
        "local_response_normalization",
        "bias",
        named(pg.local_response_normalization, IMAGE, vary="bias"),
    ),
    ("vector_norm", "ord", named(linalg.vector_norm, X, vary="ord")),
    ("dropout", "rate", use(pg.dropout, X)),
    ("huber_loss", "delta", named(losses.huber_loss, X, X, vary="delta")),
    ("log_loss", "epsilon", named(losses.log_loss, X, X, vary="epsilon")),
    (
        "softmax_cross_entropy",
        "label_smoothing",
        named(losses.softmax_cross_entropy, LABELS, X, vary="label_smoothing"),
    ),
    ("fftfreq", "d", named(fft.fftfreq, 4, vary="d")),
    ("cosine_window", "a", lambda a: signal.cosine_window(4, a, 0.5)),
    ("normal", "mean", named(random.normal, 2, vary="mean")),
    (
        "fused.matmul",
        "leaky_relu_alpha",
        named(fused.matmul, SQUARE, SQUARE, vary="leaky_relu_alpha"),
    ),
    ("image.rotate_with_offset", "radians", use(image.rotate_with_offset, IMAGE)),
]
NON_FLAGS = ["no", "", None, 2, -1, 0.0, 1.5, math.nan, [], {}, object()]
NON_FLAGS += [np.ones(2), len]
FLAG = [
    ("matmul", "transpose_a", named(pg.matmul, SQUARE, SQUARE, vary="transpose_a")),
    ("matmul", "transpose_b", named(pg.matmul, SQUARE, SQUARE, vary="transpose_b")),
    *[
        (op, "keepdims", named(getattr(pg, op), X, vary="keepdims"))
        for op in ("sum", "mean", "max", "min", "prod", "all", "any")
    ],
    ("argmax", "keepdims", named(pg.argmax, X, vary="keepdims")),
    ("var", "keepdims", named(pg.var, X, vary="keepdims")),
    ("count_nonzero", "keepdims", named(pg.count_nonzero, X, vary="keepdims")),
    ("logsumexp", "keepdims", named(pg.logsumexp, X, vary="keepdims")),
    ("vector_norm", "keepdims", named(linalg.vector_norm, X, vary="keepdims")),
    ("sort", "descending", named(pg.sort, X, vary="descending")),
    ("argsort", "descending", named(pg.argsort, X, vary="descending")),
    ("top_k", "sorted", named(pg.top_k, X, 1, vary="sorted")),
    ("cumulative_sum", "reverse", named(pg.cumulative_sum, [1.0], vary="reverse")),
    ("gelu", "approximate", named(pg.gelu, X, vary="approximate")),
    ("isclose", "equal_nan", named(pg.isclose, X, X, vary="equal_nan")),
    ("isin", "invert", named(pg.isin, X, X, vary="invert")),
    ("linspace", "endpoint", named(pg.linspace, 0, 1, 3, vary="endpoint")),
    ("cholesky", "upper", named(linalg.cholesky, SQUARE, vary="upper")),
    ("svd", "full_matrices", named(linalg.svd, SQUARE, vary="full_matrices")),
    ("choice", "replace", named(random.choice, 3, vary="replace")),
    (
        "strings.split",
        "skip_empty",
        named(strings.split, TEXTS, " ", vary="skip_empty"),
    ),
    (
        "image.resize_bilinear",
        "align_corners",
        named(image.resize_bilinear, IMAGE, 2, vary="align_corners"),
    ),
]
INVALID_WORDS = ["nope", "", 0, 1.5, b"same", [], ["floor"], {}, object()]
INVALID_WORDS += [np.ones(2), len]
WORD = [
    ("conv2d", "data_format", named(pg.conv2d, IMAGE, FILTER, vary="data_format")),
    ("max_pool", "data_format", named(pg.max_pool, IMAGE, 2, vary="data_format")),
    (
        "conv2d",
        "dim_rounding_mode",
        named(pg.conv2d, IMAGE, FILTER, pad=1, vary="dim_rounding_mode"),
    ),
    ("pad", "mode", named(pg.pad, X, [(0, 0), (1, 1)], vary="mode")),
    ("pool", "pooling_type", use(pg.pool, IMAGE, 2)),
    ("quantile", "method", named(pg.quantile, X, 0.5, vary="method")),
    ("meshgrid", "indexing", named(pg.meshgrid, [1.0], [2.0], vary="indexing")),
    ("searchsorted", "side", named(pg.searchsorted, [1.0], [2.0], vary="side")),
    ("fft", "norm", named(fft.fft, X, vary="norm")),
    ("hfft", "norm", named(fft.hfft, X, vary="norm")),
    ("qr", "mode", named(linalg.qr, SQUARE, vary="mode")),
    ("hinge_loss", "reduction", named(losses.hinge_loss, X, X, vary="reduction")),
    ("fused.matmul", "activation", named(fused.matmul, X, SQUARE, vary="activation")),
    ("image.threshold", "method", use(image.threshold, np.ones((2, 2, 1), "float32"))),
]
NON_SEQUENCES = [3, 1.5, None, "ab", b"ab", {"a": X}, {1}, object(), len]
SEQUENCE = [
    ("concat", "xs", pg.concat),
    ("stack", "xs", pg.stack),
    ("ensure_shape", "shape", use(pg.ensure_shape, X)),
    ("sparse.ragged_gather", "nested_splits", lambda s: sparse.ragged_gather(s, X, 0)),
]
KINDS = {
    "integer": (INTEGER, [*NON_INTEGERS, [], [1, 1], [[1]]]),
    "integers": (INTEGERS, NON_INTEGERS),
    "size": (SIZES, INVALID_SIZES),
    "real": (REAL, NON_REALS),
    "flag": (FLAG, NON_FLAGS),
    "word": (WORD, INVALID_WORDS),
    "sequence": (SEQUENCE, NON_SEQUENCES),
}
ROWS = [(kind, *row) for kind, (rows, _) in KINDS.items() for row in rows]
NEEDED_DTYPES = {"complex64": ("fft", "fftn", "hfft"), "string": ("strings.ngrams",)}


@pytest.mark.parametrize(
    ("kind", "op", "name", "call"), ROWS, ids=[f"{r[0]}-{r[1]}-{r[2]}" for r in ROWS]
)
def test_messages_name_the_op_and_the_argument(kind, op, name, call, backend):
    require_dtypes(
        backend, *[dtype for dtype, ops in NEEDED_DTYPES.items() if op in ops]
    )
    wrong = []
    tensors = [] if kind in ("size", "sequence") else [pg.ones(2)]
    for value in [*KINDS[kind][1], *tensors]:
        try:
            found = call(value)
        except (TypeError, ValueError, OverflowError) as error:
            if not re.match(rf"{re.escape(op)}: (.|\n)*{name}", str(error)):
                wrong.append((value, error))
        else:
            wrong.append((value, found))
    assert not wrong


# --- valid arguments -------------------------------------------------------------

EQUIVALENT = [
    (use(pg.one_hot, [0, 2]), 3, np.int64(3)),
    (use(pg.reshape, X), 6, np.asarray([6])),
    (use(pg.reshape, X), (3, 2), np.asarray([3, 2])),
    (use(pg.permute_dims, X), (1, 0), range(1, -1, -1)),
    (named(pg.tensordot, SQUARE, SQUARE, vary="axes"), 1, np.int64(1)),
    (named(pg.triu, SQUARE, vary="k"), 0, np.uint8(0)),
    (named(pg.conv2d, IMAGE, FILTER, vary="pad"), 1, np.int32(1)),
    (named(pg.matmul, SQUARE, SQUARE, vary="transpose_a"), True, np.bool_(True)),
    (named(pg.matmul, SQUARE, SQUARE, vary="transpose_b"), True, 1),
    (named(pg.std, X, axis=1, vary="keepdims"), True, np.bool_(True)),
    (named(pg.layer_norm, X, vary="epsilon"), 0.5, np.float32(0.5)),
    (named(pg.diff, X, vary="n"), 3, 2**40),
    (named(pg.concat, [X, X], vary="axis"), 1, np.int8(1)),
    (lambda make: pg.concat(make([X, X])), list, iter),
    (pg.stack, [X, X], {"a": X, "b": X}.values()),
]


@pytest.mark.parametrize(("call", "plain", "other"), EQUIVALENT)
def test_equivalent_arguments_give_equal_results(call, plain, other, backend):
    np.testing.assert_array_equal(call(plain).numpy(), call(other).numpy())


# --- errors found by trial -------------------------------------------------------

FOUND_BY_TRIAL = [
    (lambda: pg.sum(X, dtype=bool), TypeError, "sum: is not defined for bool; use any"),
    (lambda: pg.conv2d(IMAGE, FILTER, pad="full"), ValueError, "pad 'full': use"),
    (lambda: pg.conv2d(IMAGE, FILTER, pad=math.nan), ValueError, "pad nan: use"),
    (lambda: pg.concat([X, X[0]], axis=1), ValueError, "concat: shapes must agree"),
    (lambda: pg.diff(X, append=(1.0, 1.0)), ValueError, "concat: shapes must agree"),
    (lambda: pg.batch_norm(X, None, 1.0), TypeError, "NoneType"),
    (lambda: fused.conv2d(None, FILTER), TypeError, "NoneType"),
    (lambda: pg.moving_average(X, X, None, step=1), TypeError, "NoneType"),
    (lambda: fft.fftfreq(4, d=0), ValueError, "fftfreq: d 0 must not be 0"),
    (lambda: pg.astype(X, None), TypeError, "dtype None is not supported"),
    (lambda: pg.astype(X, np), TypeError, "dtype <module .* is not supported"),
    (lambda: pg.quantile(X, [[0.1], [0.2, 0.3]]), TypeError, "q must be real numbers"),
    (lambda: linalg.vector_norm(X, ord=math.nan), ValueError, "ord .*got nan"),
    (lambda: linalg.cond(SQUARE, ord=[2]), TypeError, "cond: ord must be a number"),
    (lambda: image.rotate_with_offset(IMAGE, 1, center=math.nan), ValueError, "finite"),
    (
        lambda: losses.softmax_cross_entropy(LABELS, X, label_smoothing=1.5),
        ValueError,
        "label_smoothing must be from 0 to 1, got 1.5",
    ),
    (
        lambda: strings.regex_replace(TEXTS, 3, "a"),
        TypeError,
        "pattern and rewrite must be str, got 3",
    ),
    (
        lambda: strings.ngrams(["a"], [0, 1], ngram_widths=1, separator=3),
        TypeError,
        "separator must be str or bytes, got 3",
    ),
    (
        lambda: signal.stft(X[0], 2, 1, window_fn="hann"),
        TypeError,
        "window_fn must be a function, got 'hann'",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), FOUND_BY_TRIAL)
def test_errors(call, kind, message, backend):
    with pytest.raises(kind, match=message):
        call()


def test_linspace_between_large_integers(backend):
    y = pg.linspace(0, 2**70, 3)
    np.testing.assert_array_equal(y.numpy(), [0, 2.0**69, 2.0**70])
    assert np.isnan(pg.linspace(math.inf, 1.0, 3).numpy()[0])  # without a warning


def test_a_normalization_radius_beyond_all_channels(backend):
    near = pg.local_response_normalization(IMAGE, depth_radius=2)
    far = pg.local_response_normalization(IMAGE, depth_radius=2**40)
    np.testing.assert_allclose(near.numpy(), far.numpy(), rtol=1e-6)
