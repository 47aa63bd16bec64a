"""Compare every kernel on cpu, called through its op, with a NumPy formula.

Each case has two sizes: about 8x8 elements, where the overhead dominates, and about a
million. Each figure is the minimum of interleaved rounds. The table marks kernels that
take more than 1.3 times as long as the formula at the large size, with the reason if
it is known::

    python benchmarks/ops.py [--json] [--only Conv2D Softmax]

Contents: inputs; the table, one row for each kernel; measuring; printing.
"""

import argparse
import json
import math
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np
import plugrad as pg
from numpy.lib.stride_tricks import sliding_window_view as windows
from plugrad._src.registry.registry import registry

Array = np.ndarray[Any, Any]
Sizes = Callable[[bool], tuple[Array, ...]]

MAX_RATIO = 1.3  # a kernel's time / its formula's; rows above it are marked
VIEW_MAX_US = 20  # microseconds; faster cases return views, and are not marked
# Kernels that may exceed MAX_RATIO, because the formula does less.
SLOWER_REASONS = {
    "ArgMax": "NaN counts as missing, so the kernel searches the result for NaN",
    "ArgMin": "NaN counts as missing, so the kernel searches the result for NaN",
    "Cast": "searches for the extremes, to wrap out-of-range values on every processor",
    "Draw": "the formula does not check whether to clip",
    "FromPixels": "the op copies the bytes, which the caller may overwrite",
    "Log": "computes in double precision: its error is 3 ulp at most, NumPy's is 4",
    "ResizeBilinearGrad": "the formula knows that the factor is 2",
    "ResizeNearestNeighbor": "the formula knows that the factor is 2",
    "Tan": "divides sine by cosine: its error is 3 ulp at most, NumPy's is 4",
}
# Kernels without a formula: it would repeat the kernel, or there is no work to time.
_IMAGES = "the formula would be a page of NumPy indexing"
_RAGGED = "loops over rows or strings; NumPy has no shorter formula"
WITHOUT_FORMULA = {
    "BroadcastArgs": "its inputs are two short lists",
    "Cofactor": "no NumPy formula for matrices without an inverse",
    "CropAndResize": _IMAGES,
    "Dilation2DBackpropFilter": "no short formula finds the winner of each window",
    "Dilation2DBackpropInput": "no short formula finds the winner of each window",
    "Multinomial": "the draws cost more than the kernel",
    "NonMaxSuppressionV3": _IMAGES,
    "NonMaxSuppressionV4": _IMAGES,
    "NonMaxSuppressionV5": _IMAGES,
    "RaggedGather": _RAGGED,
    "RaggedRange": _RAGGED,
    "RaggedTensorToTensor": _RAGGED,
    "RotateWithOffset": _IMAGES,
    "SparseFillEmptyRows": _RAGGED,
    "StaticRegexReplace": _RAGGED,
    "StringNGrams": _RAGGED,
    "StringSplit": _RAGGED,
    "StringToHashBucketFast": _RAGGED,
    "Transform": _IMAGES,
}

# --- inputs ----------------------------------------------------------------------


def draw(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """Return numbers in the domain of all functions; floats are in (0.2, 0.9)."""
    rng = np.random.default_rng(math.prod(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("int"):
        return rng.integers(1, 8, shape).astype(dtype)
    if dtype.startswith("complex"):
        return draw(shape) + 1j * draw(shape)
    return rng.uniform(0.2, 0.9, shape).astype(dtype)


def square(*dtypes: str) -> Sizes:
    """Return matrices, one for each dtype."""
    return lambda large: tuple(
        draw((1000,) * 2 if large else (8, 8), d) for d in dtypes
    )


def images(*more: tuple[int, ...]) -> Sizes:
    """Return images with 8 channels, and filters of given shapes."""
    sizes = (4, 180, 180, 8), (1, 8, 8, 8)
    return lambda large: (draw(sizes[not large]), *map(draw, more))


def volumes(*more: tuple[int, ...]) -> Sizes:
    """Return volumes with 4 channels, and filters of given shapes."""
    sizes = (2, 50, 50, 50, 4), (1, 4, 4, 4, 4)
    return lambda large: (draw(sizes[not large]), *map(draw, more))


def pairs(cut: int, spatial: int = 2) -> Sizes:
    """Return images or volumes, and others smaller by ``cut`` on each spatial axis."""

    def make(large: bool) -> tuple[Array, ...]:
        (x,) = (images() if spatial == 2 else volumes())(large)
        size = (x.shape[0], *(n - cut for n in x.shape[1:-1]), x.shape[-1])
        return x, draw(size)

    return make


def halves(spatial: int = 2) -> Sizes:
    """Return an image or a volume, its maxima over windows of 2, and cotangents."""

    def make(large: bool) -> tuple[Array, ...]:
        (x,) = (images() if spatial == 2 else volumes())(large)
        order = np.random.default_rng(0).permutation(x.size)  # so that no two are equal
        x = (order / x.size + 0.2).astype(np.float32).reshape(x.shape)
        y = blocks(x).max(WINDOW_AXES[spatial])
        return draw(y.shape), x, y

    return make


def stacks(large: bool) -> tuple[Array, ...]:
    """Return symmetric positive definite matrices, and right-hand sides."""
    x = draw((10_000 if large else 1, 8, 8))
    return x @ x.swapaxes(-1, -2) + np.eye(8, dtype="float32"), draw(x.shape)


def rows(count: int) -> Sizes:
    """Return a matrix and some of its row numbers."""

    def make(large: bool) -> tuple[Array, ...]:
        (x,) = square("float32")(large)
        rng = np.random.default_rng(0)
        places = rng.integers(0, len(x), count * len(x) // 8)
        return x, places.astype(np.int32)

    return make


def updates(large: bool) -> tuple[Array, ...]:
    """Return a matrix, its row numbers in random order, and new rows."""
    (x,) = square("float32")(large)
    places = np.random.default_rng(0).permutation(len(x)).astype(np.int32)
    return x, places[:, None], draw(x.shape)


def segments(large: bool) -> tuple[Array, ...]:
    """Return a matrix, its row numbers in random order, and segments of 8."""
    x, places, _ = updates(large)
    return x, places[:, 0], (np.arange(len(x)) // 8).astype(np.int32)


def vectors(large: bool) -> tuple[Array, ...]:
    """Return a sorted vector, and values to search for in it."""
    n = 1_000_000 if large else 64
    return np.sort(draw((n,))), draw((n // 8,))


# --- formulas --------------------------------------------------------------------

WINDOW_AXES = {2: (2, 4), 3: (2, 4, 6)}  # the inner axes of ``blocks``


def blocks(x: Array) -> Array:
    """Return a view in windows of 2 along each spatial axis."""
    inner = [m for n in x.shape[1:-1] for m in (n // 2, 2)]
    return x.reshape(len(x), *inner, x.shape[-1])


def repeat_windows(y: Array) -> Array:
    """Return each element repeated at every position of its window."""
    for axis in range(1, y.ndim - 1):
        y = np.repeat(y, 2, axis)
    return y


def conv(x: Array, f: Array) -> Array:
    """Return the convolution without padding."""
    n = f.ndim - 2
    patches = windows(x, f.shape[:n], tuple(range(1, n + 1)))
    return np.tensordot(patches, f, ([*range(-n, 0), n + 1], [*range(n + 1)]))


def conv_filter(x: Array, dy: Array) -> Array:
    """Return the filter gradient of a convolution whose filter has size 3."""
    n = x.ndim - 2
    patches = windows(x, (3,) * n, tuple(range(1, n + 1)))
    y = np.tensordot(patches, dy, ([*range(n + 1)], [*range(n + 1)]))
    return np.moveaxis(y, 0, n)


def conv_input(dy: Array, f: Array) -> Array:
    """Return the input gradient of a convolution."""
    n = f.ndim - 2
    padding = [(0, 0), *[(2, 2)] * n, (0, 0)]
    return conv(np.pad(dy, padding), np.flip(f, range(n)).swapaxes(-1, -2))


def depthwise(x: Array, f: Array) -> Array:
    """Return the convolution of each channel, without padding."""
    y = np.einsum("npqchw,hwcm->npqcm", windows(x, (3, 3), (1, 2)), f)
    return y.reshape(*y.shape[:3], -1)


def depthwise_input(dy: Array, f: Array) -> Array:
    """Return the input gradient of ``depthwise`` with one filter for each channel."""
    return depthwise(np.pad(dy, [(0, 0), (2, 2), (2, 2), (0, 0)]), np.flip(f, (0, 1)))


def erf(x: Array) -> Array:
    """Return the error function (Abramowitz and Stegun 7.1.26, 1.5e-7)."""
    t = 1 / (1 + 0.3275911 * x)
    tail = t * (1.061405429 * t - 1.453152027) + 1.421413741
    tail = (((tail * t) - 0.284496736) * t + 0.254829592) * t
    return 1 - tail * np.exp(-x * x)


def segment_sums(x: Array, places: Array) -> Array:
    """Return the sums of rows with the same index."""
    y = np.zeros((8, x.shape[1]), x.dtype)
    np.add.at(y, places, x)
    return y


def replace_rows(x: Array, places: Array, new: Array) -> Array:
    """Return ``x`` with some rows replaced."""
    y = x.copy()
    y[places[:, 0]] = new
    return y


def replace_smaller_rows(x: Array, places: Array, new: Array) -> Array:
    """Return ``x`` with some rows replaced by their maximum with the new rows."""
    return replace_rows(x, places, np.maximum(x[places[:, 0]], new))


def add_rows(y: Array, places: Array, new: Array) -> Array:
    """Return ``y`` with rows added at distinct indices."""
    y[places[:, 0]] += new
    return y


def softmax(x: Array) -> Array:
    """Return the softmax of rows."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    """Return the logarithm of the softmax of rows."""
    y = x - x.max(-1, keepdims=True)
    return y - np.log(np.exp(y).sum(-1, keepdims=True))


def band(x: Array) -> Array:
    """Return the sums of five neighboring channels."""
    wide = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(2, 2)])
    return windows(wide, 5, -1).sum(-1)


def lrn_grad(x: Array, y: Array, dy: Array) -> Array:
    """Return the cotangent of the input of ``x * (1 + band(x²)) ** -0.5``."""
    norm = 1 + band(x * x)
    return dy * norm**-0.5 - x * band(dy * y / norm)


def upsample(x: Array) -> Array:
    """Return an image of twice the size, by linear interpolation."""
    for axis in (1, 2):
        at = np.arange(2 * x.shape[axis]) / 2
        low = at.astype(int)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        line = [-1 if i == axis else 1 for i in range(4)]
        part = (at - low).astype(np.float32).reshape(line)
        x = x.take(low, axis) * (1 - part) + x.take(high, axis) * part
    return x


def upsample_transpose(dy: Array) -> Array:
    """Apply the transpose of doubling the size."""
    for axis in (1, 2):
        dy = np.moveaxis(dy, axis, 0)
        even = dy[::2]
        odd = dy[1::2] / 2
        dy = even + odd
        dy[1:] += odd[:-1]
        dy[-1] += odd[-1]
        dy = np.moveaxis(dy, 0, axis)
    return dy


def segment_starts(ids: Array) -> Array:
    """Return the index at which each segment starts."""
    return np.flatnonzero(np.diff(ids, prepend=-1))


def half_size_attributes(dy: Array) -> dict[str, Any]:
    """Return the attributes of the gradient of doubling the size."""
    return {"in_shape": (len(dy), dy.shape[1] // 2, dy.shape[2] // 2, dy.shape[-1])}


def kernel(name: str, **attrs: Any) -> Callable[..., Any]:
    """Return a function that runs a kernel without an op."""
    return lambda *xs: pg.run_kernel(name, list(xs), attrs)


# --- the table -------------------------------------------------------------------

MATRIX = square("float32")
MATRICES = square("float32", "float32")
INT_MATRIX = square("int32")
INT_MATRICES = square("int32", "int32")
BOOL_MATRICES = square("bool", "bool")
CONV2D_FILTER = (3, 3, 8, 8)
CONV3D_FILTER = (3, 3, 3, 4, 4)
DEPTHWISE_FILTER = (3, 3, 8, 1)
POOLING: dict[str, Any] = {"filter_size": 2, "strides": 2, "pad": "valid"}
UNPADDED: dict[str, Any] = {"strides": 1, "pad": "valid"}

TABLE: dict[str, tuple[Callable[..., Any], Callable[..., Any], Sizes]] = {
    "Abs": (pg.abs, np.abs, MATRIX),
    "Acos": (pg.acos, np.arccos, MATRIX),
    "Acosh": (lambda x: pg.acosh(x), np.arccosh, lambda n: (MATRIX(n)[0] + 1,)),
    "Add": (pg.add, np.add, MATRICES),
    "AddN": (lambda *xs: pg.add_n(xs), np.add, MATRICES),
    "All": (lambda x: pg.all(x, axis=1), lambda x: x.all(1), square("bool")),
    "Any": (lambda x: pg.any(x, axis=1), lambda x: x.any(1), square("bool")),
    "ArgMax": (lambda x: pg.argmax(x, axis=1), lambda x: x.argmax(1), MATRIX),
    "ArgMin": (lambda x: pg.argmin(x, axis=1), lambda x: x.argmin(1), MATRIX),
    "Asin": (pg.asin, np.arcsin, MATRIX),
    "Asinh": (pg.asinh, np.arcsinh, MATRIX),
    "Atan": (pg.atan, np.arctan, MATRIX),
    "Atan2": (pg.atan2, np.arctan2, MATRICES),
    "Atanh": (pg.atanh, np.arctanh, MATRIX),
    "AvgPool": (
        lambda x: pg.avg_pool(x, 2),
        lambda x: blocks(x).mean((2, 4)),
        images(),
    ),
    "AvgPool3D": (
        lambda x: pg.avg_pool(x, 2),
        lambda x: blocks(x).mean((2, 4, 6)),
        volumes(),
    ),
    "AvgPoolGrad": (
        lambda dy, x, y: pg.run_kernel("AvgPoolGrad", [dy, x], POOLING),
        lambda dy, x, y: repeat_windows(dy / 4),
        halves(),
    ),
    "AvgPool3DGrad": (
        lambda dy, x, y: pg.run_kernel("AvgPool3DGrad", [dy, x], POOLING),
        lambda dy, x, y: repeat_windows(dy / 8),
        halves(3),
    ),
    "BatchMatMul": (pg.matmul, np.matmul, MATRICES),
    "BatchToSpaceND": (
        lambda x: pg.batch_to_space_nd(x, (2, 2), [(0, 0), (0, 0)]),
        lambda x: (
            x.reshape(2, 2, -1, *x.shape[1:])
            .transpose(2, 3, 0, 4, 1, 5)
            .reshape(-1, 2 * x.shape[1], 2 * x.shape[2], 8)
        ),
        lambda n: (draw((4, 180, 180, 8) if n else (4, 4, 4, 8)),),
    ),
    "Bincount": (
        lambda x: pg.bincount(pg.reshape(x, -1), size=8),
        lambda x: np.bincount(x.ravel(), minlength=8),
        INT_MATRIX,
    ),
    "BitwiseAnd": (pg.bitwise_and, np.bitwise_and, INT_MATRICES),
    "BitwiseNot": (pg.bitwise_invert, np.invert, INT_MATRIX),
    "BitwiseOr": (pg.bitwise_or, np.bitwise_or, INT_MATRICES),
    "BitwiseXor": (pg.bitwise_xor, np.bitwise_xor, INT_MATRICES),
    "BroadcastTo": (
        lambda x: pg.broadcast_to(x, (4, *x.shape)),
        lambda x: np.broadcast_to(x, (4, *x.shape)),
        MATRIX,
    ),
    "Cast": (lambda x: pg.astype(x, "int32"), lambda x: x.astype(np.int32), MATRIX),
    "Ceil": (pg.ceil, np.ceil, MATRIX),
    "ClipByValue": (lambda x: pg.clip(x, 0.3, 0.6), lambda x: x.clip(0.3, 0.6), MATRIX),
    "Cholesky": (
        lambda x, b: pg.linalg.cholesky(x),
        lambda x, b: np.linalg.cholesky(x),
        stacks,
    ),
    "Complex": (pg.complex, lambda a, b: a + 1j * b, MATRICES),
    "ComplexAbs": (pg.abs, np.abs, square("complex64")),
    "Concat": (lambda *xs: pg.concat(xs), lambda *xs: np.concatenate(xs), MATRICES),
    "Conv2D": (pg.conv2d, conv, images(CONV2D_FILTER)),
    "Conv2DBackpropFilter": (
        kernel("Conv2DBackpropFilter", filter_shape=CONV2D_FILTER, **UNPADDED),
        conv_filter,
        pairs(2),
    ),
    "Conv2DBackpropInput": (
        lambda dy, f: pg.conv2d_transpose(
            dy, f, (len(dy), dy.shape[1] + 2, dy.shape[2] + 2, 8)
        ),
        conv_input,
        images(CONV2D_FILTER),
    ),
    "Conv3D": (pg.conv3d, conv, volumes(CONV3D_FILTER)),
    "Conv3DBackpropFilterV2": (
        kernel("Conv3DBackpropFilterV2", filter_shape=CONV3D_FILTER, **UNPADDED),
        conv_filter,
        pairs(2, 3),
    ),
    "Conv3DBackpropInputV2": (
        lambda dy, f: pg.conv3d_transpose(
            dy, f, (len(dy), *(n + 2 for n in dy.shape[1:4]), 4)
        ),
        conv_input,
        volumes(CONV3D_FILTER),
    ),
    "CopySign": (pg.copysign, np.copysign, MATRICES),
    "Cos": (pg.cos, np.cos, MATRIX),
    "Cosh": (pg.cosh, np.cosh, MATRIX),
    "Cumprod": (
        lambda x: pg.cumulative_prod(x, axis=1),
        lambda x: x.cumprod(1),
        MATRIX,
    ),
    "Cumsum": (lambda x: pg.cumulative_sum(x, axis=1), lambda x: x.cumsum(1), MATRIX),
    "DenseBincount": (
        lambda x: pg.dense_bincount(x, size=8),
        lambda x: (x[..., None] == np.arange(8)).sum(-2),
        INT_MATRIX,
    ),
    "DepthToSpace": (
        lambda x: pg.depth_to_space(x, 2),
        lambda x: (
            x.reshape(*x.shape[:3], 2, 2, 2)
            .transpose(0, 1, 3, 2, 4, 5)
            .reshape(len(x), 2 * x.shape[1], 2 * x.shape[2], 2)
        ),
        images(),
    ),
    "DepthwiseConv2dNative": (pg.depthwise_conv2d, depthwise, images(DEPTHWISE_FILTER)),
    "DepthwiseConv2dNativeBackpropFilter": (
        kernel(
            "DepthwiseConv2dNativeBackpropFilter",
            filter_shape=DEPTHWISE_FILTER,
            **UNPADDED,
        ),
        lambda x, dy: np.einsum("npqchw,npqc->hwc", windows(x, (3, 3), (1, 2)), dy)[
            ..., None
        ],
        pairs(2),
    ),
    "DepthwiseConv2dNativeBackpropInput": (
        lambda dy, f: pg.run_kernel(
            "DepthwiseConv2dNativeBackpropInput",
            [dy, f],
            {"in_shape": (len(dy), dy.shape[1] + 2, dy.shape[2] + 2, 8), **UNPADDED},
        ),
        depthwise_input,
        images(DEPTHWISE_FILTER),
    ),
    "Det": (
        lambda x, b: pg.linalg.det(x),
        lambda x, b: np.linalg.det(x),
        stacks,
    ),
    "Diag": (
        pg.diag,
        np.diag,
        lambda n: (draw((1000 if n else 8,)),),
    ),
    "Dilation2D": (
        lambda x, f: pg.dilation2d(x, f),
        lambda x, f: (windows(x, (3, 3), (1, 2)) + np.moveaxis(f, -1, 0)).max((-1, -2)),
        images((3, 3, 8)),
    ),
    "Draw": (
        kernel("Draw"),
        lambda x: np.rint(x * 255).astype(np.int32),
        lambda n: (draw((1000, 1000, 4) if n else (8, 8, 4)),),
    ),
    "Eig": (
        lambda x, b: pg.linalg.eig(x),
        lambda x, b: np.linalg.eig(x),
        stacks,
    ),
    "Eigvals": (
        lambda x, b: pg.linalg.eigvals(x),
        lambda x, b: np.linalg.eigvals(x),
        stacks,
    ),
    "Eigh": (
        lambda x, b: pg.linalg.eigh(x),
        lambda x, b: np.linalg.eigh(x),
        stacks,
    ),
    "Eigvalsh": (
        lambda x, b: pg.linalg.eigvalsh(x),
        lambda x, b: np.linalg.eigvalsh(x),
        stacks,
    ),
    "Einsum": (
        lambda a, b: pg.einsum("ij,jk->ki", a, b),
        lambda a, b: (a @ b).T,
        MATRICES,
    ),
    "Elu": (pg.elu, lambda x: np.where(x < 0, np.expm1(x), x), MATRIX),
    "EluGrad": (
        kernel("EluGrad"),
        lambda dy, y: np.where(y < 0, dy * (y + 1), dy),
        MATRICES,
    ),
    "Equal": (pg.equal, np.equal, MATRICES),
    "Erf": (pg.erf, erf, MATRIX),
    "Erfc": (pg.erfc, lambda x: 1 - erf(x), MATRIX),
    "Exp": (pg.exp, np.exp, MATRIX),
    "Exp2": (pg.exp2, np.exp2, MATRIX),
    "ExpandDims": (pg.expand_dims, lambda x: x[None], MATRIX),
    "Expm1": (pg.expm1, np.expm1, MATRIX),
    "FFT": (pg.fft.fft, np.fft.fft, square("complex64")),
    "Fill": (
        lambda x: pg.full(x.shape, 1.5, dtype="float32"),
        lambda x: np.full(x.shape, 1.5, np.float32),
        MATRIX,
    ),
    "FlipLeftRight": (
        pg.image.flip_left_right,
        lambda x: x[:, :, ::-1],
        images(),
    ),
    "Floor": (pg.floor, np.floor, MATRIX),
    "FloorDiv": (pg.floor_divide, np.floor_divide, INT_MATRICES),
    "FromPixels": (
        lambda x: pg.image.from_pixels(x.numpy()),
        lambda x: x.astype(np.int32),
        lambda n: (draw((1000, 1000, 3) if n else (8, 8, 3), "int32").astype("uint8"),),
    ),
    "FusedBatchNorm": (
        lambda x, m, v: pg.batch_norm(x, m, v),
        lambda x, m, v: (x - m) / np.sqrt(v + 1e-3),
        images((8,), (8,)),
    ),
    "FusedConv2D": (
        lambda x, f, b: pg.fused.conv2d(x, f, b, activation="relu"),
        lambda x, f, b: np.maximum(conv(x, f) + b, 0),
        images(CONV2D_FILTER, (8,)),
    ),
    "FusedDepthwiseConv2D": (
        lambda x, f, b: pg.fused.depthwise_conv2d(x, f, b, activation="relu"),
        lambda x, f, b: np.maximum(depthwise(x, f) + b, 0),
        images(DEPTHWISE_FILTER, (8,)),
    ),
    "GatherNd": (
        lambda x, i: pg.gather_nd(x, pg.reshape(i, (-1, 1))),
        lambda x, i: x[i],
        rows(8),
    ),
    "GatherV2": (pg.gather, lambda x, i: x.take(i, 0), rows(8)),
    "Greater": (pg.greater, np.greater, MATRICES),
    "GreaterEqual": (pg.greater_equal, np.greater_equal, MATRICES),
    "Hypot": (pg.hypot, np.hypot, MATRICES),
    "IFFT": (pg.fft.ifft, np.fft.ifft, square("complex64")),
    "Identity": (pg.identity, lambda x: x.view(), MATRIX),
    "Imag": (pg.imag, lambda x: x.imag.copy(), square("complex64")),
    "Inverse": (
        lambda x, b: pg.linalg.inv(x),
        lambda x, b: np.linalg.inv(x),
        stacks,
    ),
    "IsFinite": (pg.isfinite, np.isfinite, MATRIX),
    "IsInf": (pg.isinf, np.isinf, MATRIX),
    "IsNan": (pg.isnan, np.isnan, MATRIX),
    "LRN": (
        lambda x: pg.local_response_normalization(x, depth_radius=2, beta=0.5),
        lambda x: x * (1 + band(x * x)) ** -0.5,
        images(),
    ),
    "LRNGrad": (
        kernel("LRNGrad", depth_radius=2, bias=1.0, alpha=1.0, beta=0.5),
        lrn_grad,
        lambda n: images()(n) * 3,
    ),
    "LayerNorm": (
        pg.layer_norm,
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True)),
        MATRIX,
    ),
    "LeakyRelu": (pg.leaky_relu, lambda x: np.where(x < 0, 0.2 * x, x), MATRIX),
    "LeftShift": (pg.bitwise_left_shift, np.left_shift, INT_MATRICES),
    "Less": (pg.less, np.less, MATRICES),
    "LessEqual": (pg.less_equal, np.less_equal, MATRICES),
    "LinSpace": (
        lambda x: pg.linspace(0, 1, x.size),
        lambda x: np.linspace(0, 1, x.size, dtype=np.float32),
        MATRIX,
    ),
    "Log": (pg.log, np.log, MATRIX),
    "Log1p": (pg.log1p, np.log1p, MATRIX),
    "LogSoftmax": (pg.log_softmax, log_softmax, MATRIX),
    "LogicalAnd": (pg.logical_and, np.logical_and, BOOL_MATRICES),
    "LogicalNot": (pg.logical_not, np.logical_not, square("bool")),
    "LogicalOr": (pg.logical_or, np.logical_or, BOOL_MATRICES),
    "LogicalXor": (pg.logical_xor, np.logical_xor, BOOL_MATRICES),
    "LowerBound": (
        lambda x, v: pg.lower_bound(x, v),
        lambda x, v: np.searchsorted(x, v),
        vectors,
    ),
    "MatrixBandPart": (
        lambda x: pg.linalg.band_part(x, 2, -1),
        lambda x: np.triu(x, -2),
        MATRIX,
    ),
    "Max": (lambda x: pg.max(x, axis=1), lambda x: x.max(1), MATRIX),
    "MaxPool": (lambda x: pg.max_pool(x, 2), lambda x: blocks(x).max((2, 4)), images()),
    "MaxPool3D": (
        lambda x: pg.max_pool(x, 2),
        lambda x: blocks(x).max((2, 4, 6)),
        volumes(),
    ),
    "MaxPoolGrad": (
        kernel("MaxPoolGrad", **POOLING),
        lambda dy, x, y: np.where(x == repeat_windows(y), repeat_windows(dy), 0),
        halves(),
    ),
    "MaxPool3DGrad": (
        kernel("MaxPool3DGrad", **POOLING),
        lambda dy, x, y: np.where(x == repeat_windows(y), repeat_windows(dy), 0),
        halves(3),
    ),
    "MaxPoolWithArgmax": (
        lambda x: pg.max_pool_with_argmax(x, 2),
        lambda x: (
            (parts := blocks(x).swapaxes(2, 3).reshape(-1, 4, 8)).max(1),
            parts.argmax(1),
        )[0].reshape(len(x), x.shape[1] // 2, -1, 8),
        images(),
    ),
    "Maximum": (pg.maximum, np.maximum, MATRICES),
    "Mean": (lambda x: pg.mean(x, axis=1), lambda x: x.mean(1), MATRIX),
    "Min": (lambda x: pg.min(x, axis=1), lambda x: x.min(1), MATRIX),
    "Minimum": (pg.minimum, np.minimum, MATRICES),
    "Mish": (pg.mish, lambda x: x * np.tanh(np.logaddexp(x, 0)), MATRIX),
    "MirrorPad": (
        lambda x: pg.pad(x, [(2, 2), (2, 2)], mode="reflect"),
        lambda x: np.pad(x, 2, mode="reflect"),
        MATRIX,
    ),
    "Mod": (pg.remainder, np.remainder, MATRICES),
    "Multiply": (pg.multiply, np.multiply, MATRICES),
    "Neg": (pg.negative, np.negative, MATRIX),
    "NotEqual": (pg.not_equal, np.not_equal, MATRICES),
    "OneHot": (
        lambda x: pg.one_hot(x, 8),
        lambda x: np.eye(8, dtype=np.float32)[x.clip(max=7)],
        lambda n: (draw((100_000 if n else 8,), "int32"),),
    ),
    "OnesLike": (pg.ones_like, np.ones_like, MATRIX),
    "Pack": (lambda *xs: pg.stack(xs), lambda *xs: np.stack(xs), MATRICES),
    "PadV2": (lambda x: pg.pad(x, [(2, 2), (2, 2)]), lambda x: np.pad(x, 2), MATRIX),
    "Pow": (pg.pow, np.power, MATRICES),
    "Pinv": (
        lambda x, b: pg.linalg.pinv(x),
        lambda x, b: np.linalg.pinv(x),
        stacks,
    ),
    "Prelu": (pg.prelu, lambda x, a: np.where(x < 0, a * x, x), MATRICES),
    "Prod": (lambda x: pg.prod(x, axis=1), lambda x: x.prod(1), MATRIX),
    "Qr": (
        lambda x, b: pg.linalg.qr(x),
        lambda x, b: np.linalg.qr(x),
        stacks,
    ),
    "Range": (
        lambda x: pg.arange(x.size),
        lambda x: np.arange(x.size, dtype=np.int32),
        MATRIX,
    ),
    "Real": (pg.real, lambda x: x.real.copy(), square("complex64")),
    "RealDiv": (pg.divide, np.divide, MATRICES),
    "Reciprocal": (pg.reciprocal, np.reciprocal, MATRIX),
    "Relu": (pg.relu, lambda x: np.maximum(x, 0), MATRIX),
    "Relu6": (pg.relu6, lambda x: x.clip(0, 6), MATRIX),
    "Reshape": (lambda x: pg.reshape(x, -1), lambda x: x.reshape(-1), MATRIX),
    "ResizeBilinear": (
        lambda x: pg.image.resize_bilinear(x, (2 * x.shape[1], 2 * x.shape[2])),
        upsample,
        images(),
    ),
    "ResizeBilinearGrad": (
        lambda dy: pg.run_kernel(
            "ResizeBilinearGrad", [None, dy], half_size_attributes(dy)
        ),
        upsample_transpose,
        images(),
    ),
    "ResizeNearestNeighbor": (
        lambda x: pg.image.resize_nearest_neighbor(x, (2 * x.shape[1], 2 * x.shape[2])),
        repeat_windows,
        images(),
    ),
    "ResizeNearestNeighborGrad": (
        lambda dy: pg.run_kernel(
            "ResizeNearestNeighborGrad", [None, dy], half_size_attributes(dy)
        ),
        lambda dy: blocks(dy).sum((2, 4)),
        images(),
    ),
    "Reverse": (lambda x: pg.flip(x, axis=1), lambda x: x[:, ::-1], MATRIX),
    "RightShift": (pg.bitwise_right_shift, np.right_shift, INT_MATRICES),
    "Round": (pg.round, np.rint, MATRIX),
    "Rsqrt": (pg.rsqrt, lambda x: 1 / np.sqrt(x), MATRIX),
    "ScatterNd": (
        lambda x, i, u: pg.scatter_nd(i, u, x.shape),
        lambda x, i, u: add_rows(np.zeros_like(x), i, u),
        updates,
    ),
    "SearchSorted": (
        pg.searchsorted,
        lambda x, v: np.searchsorted(x, v),
        vectors,
    ),
    "Select": (
        pg.where,
        np.where,
        square("bool", "float32", "float32"),
    ),
    "Selu": (
        pg.selu,
        lambda x: np.where(x < 0, 1.7580993 * np.expm1(x), 1.050701 * x),
        MATRIX,
    ),
    "Sigmoid": (pg.sigmoid, lambda x: 1 / (1 + np.exp(-x)), MATRIX),
    "Sign": (pg.sign, np.sign, MATRIX),
    "SignBit": (pg.signbit, np.signbit, MATRIX),
    "Sin": (pg.sin, np.sin, MATRIX),
    "SigmoidGrad": (
        kernel("SigmoidGrad"),
        lambda dy, x: dy * (0.5 / np.cosh(x / 2)) ** 2,
        MATRICES,
    ),
    "Sinh": (pg.sinh, np.sinh, MATRIX),
    "Slice": (
        lambda x: pg.slice(x, (1, 1), (-1, -1)),
        lambda x: x[1:, 1:],
        MATRIX,
    ),
    "Slogdet": (
        lambda x, b: pg.linalg.slogdet(x)[1],
        lambda x, b: np.linalg.slogdet(x)[1],
        stacks,
    ),
    "Softmax": (pg.softmax, softmax, MATRIX),
    "Softplus": (pg.softplus, lambda x: np.logaddexp(x, 0), MATRIX),
    "Softsign": (pg.softsign, lambda x: x / (1 + np.abs(x)), MATRIX),
    "Solve": (pg.linalg.solve, np.linalg.solve, stacks),
    "Sort": (pg.sort, np.sort, MATRIX),
    "SpaceToBatchND": (
        lambda x: pg.space_to_batch_nd(x, (2, 2), [(0, 0), (0, 0)]),
        lambda x: (
            blocks(x)
            .transpose(2, 4, 0, 1, 3, 5)
            .reshape(-1, x.shape[1] // 2, x.shape[2] // 2, 8)
        ),
        images(),
    ),
    "SparseReshape": (
        lambda i, old, new: pg.sparse.reshape(i, old, new),
        lambda i, old, new: np.stack(
            np.unravel_index(np.ravel_multi_index(tuple(i.T), tuple(old)), tuple(new)),
            axis=1,
        ),
        lambda n: (
            draw((300_000 if n else 20, 3), "int32"),
            np.array([8, 8, 8], np.int32),
            np.array([64, 8], np.int32),
        ),
    ),
    "SparseSegmentMean": (
        lambda x, i, ids: pg.sparse.segment_mean(x, i, ids),
        lambda x, i, ids: np.add.reduceat(x[i], segment_starts(ids)) / 8,
        segments,
    ),
    "SparseSegmentSum": (
        lambda x, i, ids: pg.sparse.segment_sum(x, i, ids),
        lambda x, i, ids: np.add.reduceat(x[i], segment_starts(ids)),
        segments,
    ),
    "SparseToDense": (
        lambda x, i, u: pg.sparse.to_dense(i, u[:, 0], (len(x),)),
        lambda x, i, u: replace_rows(np.zeros(len(x), np.float32), i, u[:, 0]),
        lambda n: (
            np.zeros(size := 1_000_000 if n else 64, np.float32),
            np.random.default_rng(0).permutation(size).astype(np.int32)[:, None],
            draw((size, 1)),
        ),
    ),
    "SplitV": (
        lambda x: pg.split(x, 2),
        lambda x: np.split(x, 2),
        MATRIX,
    ),
    "Sqrt": (pg.sqrt, np.sqrt, MATRIX),
    "Square": (pg.square, np.square, MATRIX),
    "SquaredDifference": (pg.squared_difference, lambda a, b: (a - b) ** 2, MATRICES),
    "Step": (pg.step, lambda x: np.heaviside(x, 0), MATRIX),
    "StridedSlice": (
        lambda x: pg.strided_slice(x, (0, 0), x.shape, (2, 2)),
        lambda x: x[::2, ::2],
        MATRIX,
    ),
    "Sub": (pg.subtract, np.subtract, MATRICES),
    "Sum": (lambda x: pg.sum(x, axis=1), lambda x: x.sum(1), MATRIX),
    "Svd": (
        lambda x, b: pg.linalg.svd(x)[1],
        lambda x, b: np.linalg.svd(x)[1],
        stacks,
    ),
    "Svdvals": (
        lambda x, b: pg.linalg.svdvals(x),
        lambda x, b: np.linalg.svd(x, compute_uv=False),
        stacks,
    ),
    "Tan": (pg.tan, np.tan, MATRIX),
    "Tanh": (pg.tanh, np.tanh, MATRIX),
    "TanhGrad": (kernel("TanhGrad"), lambda dy, x: dy / np.cosh(x) ** 2, MATRICES),
    "TensorScatterExtremum": (
        lambda *xs: pg.tensor_scatter_update(*xs, reduction="max"),
        replace_smaller_rows,
        updates,
    ),
    "TensorScatterUpdate": (pg.tensor_scatter_update, replace_rows, updates),
    "Tile": (lambda x: pg.tile(x, (2, 2)), lambda x: np.tile(x, (2, 2)), MATRIX),
    "TriangularSolve": (
        lambda x, b: pg.linalg.triangular_solve(x, b),
        lambda x, b: np.linalg.solve(np.tril(x), b),
        stacks,
    ),
    "TopK": (
        lambda x: pg.top_k(x, 4),
        lambda x: np.take_along_axis(x, np.argsort(x)[:, :-5:-1], 1),
        MATRIX,
    ),
    "Transpose": (lambda x: pg.permute_dims(x, (1, 0)), np.transpose, MATRIX),
    "Trunc": (pg.trunc, np.trunc, MATRIX),
    "Unique": (
        lambda x: pg.unique_values(x),
        np.unique,
        lambda n: (draw((1_000_000 if n else 64,), "int32"),),
    ),
    "Unpack": (lambda x: pg.unstack(x[:8]), lambda x: tuple(x[:8]), MATRIX),
    "Take": (pg.take, lambda x, i: x.take(i, 0), rows(8)),
    "UnsortedSegmentSum": (
        lambda x, i: pg.unsorted_segment_sum(x, i, 8),
        segment_sums,
        lambda n: (draw((1000, 1000) if n else (8, 8)), rows(8)(n)[1] % 8),
    ),
    "UpperBound": (
        lambda x, v: pg.upper_bound(x, v),
        lambda x, v: np.searchsorted(x, v, "right"),
        vectors,
    ),
    "ZerosLike": (pg.zeros_like, np.zeros_like, MATRIX),
    "_FusedMatMul": (
        lambda a, b, c: pg.fused.matmul(a, b, c, activation="relu"),
        lambda a, b, c: np.maximum(a @ b + c, 0),
        lambda n: (*MATRICES(n), draw((1000 if n else 8,))),
    ),
}


# --- measuring -------------------------------------------------------------------


def cases(name: str, large: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return the op and the formula on the same arrays; check that they agree."""
    op, formula, inputs = TABLE[name]
    arrays = inputs(large)
    tensors = [pg.asarray(x) for x in arrays]
    first = lambda y: y[0] if isinstance(y, list | tuple) else y
    found = first(op(*tensors)).numpy()
    expected = first(formula(*arrays))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=name)
    return lambda: op(*tensors), lambda: formula(*arrays)


def measure(name: str, large: bool, seconds: float) -> tuple[float, float]:
    """Return the best time of the op and of the formula, in microseconds."""
    pair = cases(name, large)
    slowest = max(min(timeit.repeat(case, number=1, repeat=3)) for case in pair)
    number = max(1, int(seconds / 20 / slowest))
    best = [math.inf, math.inf]
    for _ in range(max(3, min(10, int(seconds / 2 / slowest)))):
        for i, case in enumerate(pair):
            best[i] = min(best[i], timeit.timeit(case, number=number) / number * 1e6)
    return best[0], best[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="KERNEL", choices=TABLE)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each case")
    given = parser.parse_args()
    registry.load()
    pg.set_backend("cpu")
    found = {}
    if not given.json:
        print(f"{'us':36} {'8x8':>8} {'numpy':>8} {'1e6':>10} {'numpy':>10} ratio")
    for name in given.only or TABLE:
        small = measure(name, False, given.seconds)
        large = measure(name, True, given.seconds)
        for _ in range(4):  # a kernel that was slow by chance is fast in another round
            if large[0] <= MAX_RATIO * large[1]:
                break
            again = measure(name, True, given.seconds)
            large = min(large[0], again[0]), min(large[1], again[1])
        found[name] = {"small": small, "large": large, "ratio": large[0] / large[1]}
        if not given.json:
            slow = large[0] > VIEW_MAX_US and large[0] / large[1] > MAX_RATIO
            mark = f"  <-- {SLOWER_REASONS.get(name, 'slow')}" if slow else ""
            print(
                f"{name:36} {small[0]:8.2f} {small[1]:8.2f} {large[0]:10.1f} "
                f"{large[1]:10.1f} {large[0] / large[1]:5.2f}{mark}"
            )
    core = {name for name in registry.contracts if "." not in name}
    missing = sorted(core - set(TABLE) - set(WITHOUT_FORMULA))
    if given.json:
        print(json.dumps({"us": found, "without": missing}, indent=1))
    elif missing and not given.only:
        print(f"\nno formula: {', '.join(missing)}")


if __name__ == "__main__":
    main()
