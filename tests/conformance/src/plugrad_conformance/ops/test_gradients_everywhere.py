"""Check every gradient of the catalog by finite differences, to second order.

Each row is one configuration of one kernel. Together, the rows call every gradient
function, and differentiate every other kernel through its decomposition. The tests of
each family cover corner cases; this table shows that no gradient is missing.
"""

from dataclasses import dataclass

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from . import test_special, test_trigonometry, test_unary

# Kernels without anything to differentiate: bool, integers, strings. (The scales of
# quantized kernels are float32; another test covers their gradient.)
DISCRETE = """
    All Any BitwiseNot BitwiseOr BitwiseXor BroadcastArgs LeftShift LogicalAnd
    LogicalNot LogicalOr LogicalXor MatMulInteger OneHot QuantizedConv2D
    QuantizedDepthwiseConv2D QuantizedMatMul RightShift SparseReshape
    Draw FromPixels Gcd
"""
# Kernels with constant results: their gradients call no gradient function.
CONSTANT = "OnesLike ZerosLike"
# Kernels for narrow dtypes, in which finite differences are not accurate; the tests of
# these dtypes compare their gradients with those of float32.
NARROW = "MixedMatMul"


@dataclass(frozen=True)
class Row:
    """A kernel, an op that runs it, and where to differentiate.

    Attributes:
        kernel: The kernel whose gradient is tested.
        op: A function of tensors that runs it.
        shapes: The shapes of the arguments.
        low: The lower end of the interval from which arguments are drawn uniformly.
        high: The upper end of this interval.
        number: A number that distinguishes the rows of a kernel.

    """

    kernel: str
    op: object
    shapes: tuple
    low: float = -2.0
    high: float = 2.0
    number: int = 0

    def __str__(self):
        return f"{self.kernel}-{self.number}"

    def arrays(self):
        rng = np.random.default_rng(7)
        return [rng.uniform(self.low, self.high, shape) for shape in self.shapes]


# Element-wise functions of one argument, each with an interval in which it is smooth.
# The tests of the families define some of them; the others are listed here.
UNARY = {
    row.kernel: (row.op, *row.domain)
    for row in [*test_special.ROWS, *test_trigonometry.ROWS, *test_unary.ROWS]
    if row.kernel
}
UNARY |= {
    "Abs": (pg.abs, -2, 2),
    "Cast": (lambda x: pg.astype(pg.astype(x, "complex128"), "float64"), -2, 2),
    "ClipByValue": (lambda x: pg.clip(x, -1, 1), -2, 2),
    "Elu": (pg.elu, -2, 2),
    "Identity": (pg.identity, -2, 2),
    "Mish": (pg.mish, -2, 2),
    "LeakyRelu": (lambda x: pg.leaky_relu(x, alpha=0.3), -2, 2),
    "Polygamma": (lambda x: pg.polygamma(x, 2), 0.5, 4),
    "Relu": (pg.relu, -2, 2),
    "Relu6": (pg.relu6, -2, 8),
    "Selu": (pg.selu, -2, 2),
    "Gelu": (pg.gelu, -2, 2),
    "GeluTanh": (lambda x: pg.gelu(x, approximate=True), -2, 2),
    "Sigmoid": (pg.sigmoid, -2, 2),
    "Sign": (pg.sign, -2, 2),
    "Softplus": (pg.softplus, -2, 2),
    "Softsign": (pg.softsign, 0.1, 2),
    "Step": (lambda x: pg.step(x, alpha=0.4), -2, 2),
}

# Element-wise functions of two arguments that broadcast.
BINARY = {
    "Add": (pg.add, -2, 2),
    "Atan2": (pg.atan2, 0.3, 2),
    "CopySign": (pg.copysign, 0.3, 2),
    "FloorDiv": (pg.floor_divide, 0.3, 2),
    "Hypot": (pg.hypot, 0.3, 2),
    "Maximum": (pg.maximum, -2, 2),
    "Minimum": (pg.minimum, -2, 2),
    "Mod": (pg.remainder, 0.3, 2),
    "Multiply": (pg.multiply, -2, 2),
    "Pow": (pg.pow, 0.3, 2),
    "RealDiv": (pg.divide, 0.3, 2),
    "SquaredDifference": (pg.squared_difference, -2, 2),
    "Sub": (pg.subtract, -2, 2),
}


def kernel(name, **attrs):
    """Return a function that runs a kernel by its name, without an op."""
    return lambda *xs: pg.run_kernel(name, list(xs), attrs)


def pool_gradient(input_shape, name, **attrs):
    """Return a function that runs a gradient kernel of pooling at a fixed input."""
    x = np.random.default_rng(3).normal(size=input_shape)
    pool_kernel = {4: "MaxPool", 5: "MaxPool3D"}[len(input_shape)]

    def run(dy):
        y = pg.run_kernel(pool_kernel, [pg.asarray(x)], attrs)
        extra_inputs = [y] if name.startswith("Max") else []
        return pg.run_kernel(name, [dy, pg.asarray(x), *extra_inputs], attrs)

    return run


def dilation_gradient(name):
    """Return a function that runs a gradient kernel of dilation at fixed inputs."""
    rng = np.random.default_rng(3)
    xs = rng.normal(size=(1, 3, 4, 2)), rng.normal(size=(2, 3, 2))
    return lambda dy: pg.run_kernel(name, [*map(pg.asarray, xs), dy], STRIDED)


def join(*ys):
    """Join several tensors into one, so that a single check covers all of them."""
    return pg.concat([pg.reshape(y, (-1,)) * (i + 1) for i, y in enumerate(ys)])


def real_and_imaginary_parts(z):
    """Return one tensor with the real and the imaginary parts of complex numbers."""
    return join(pg.real(z), pg.imag(z))


def eigenpairs(x):
    """Return a result that does not depend on the phases of eigenvectors."""
    w, v = pg.linalg.eig(x)
    return join(pg.real(w), pg.imag(w), pg.abs(v))


linalg = pg.linalg
IDS = np.array([[2, 0], [1, 2]])
POOL2 = {"filter_size": 3, "strides": 2, "pad": "same"}
POOL3 = {"filter_size": 2, "strides": 1, "pad": [(1, 0), (0, 0), (0, 1)]}
STRIDED = {"strides": (1, 2), "pad": "same"}
DILATED = {"pad": [(1, 1), (2, 0)], "dilations": 2}
CROP = np.array([[0.1, 0.2, 0.7, 0.9]], np.float32)
IN_SHAPE = {"in_shape": (1, 3, 4, 2)}
PROJECTION = np.array([0.9, 0.3, 0.1, -0.2, 1.1, 0.3, 0.02, -0.01])
LRN_OPTIONS = {"depth_radius": 1, "bias": 1.5, "alpha": 0.4, "beta": 0.6}
CODES = np.arange(12, dtype=np.uint8).reshape(3, 4) * 19 + 40

# Kernel, op, the shapes of the arguments, and optionally a dict of low and high.
TABLE = [
    ("AddN", lambda *xs: pg.add_n(xs), (3, 2), (3, 2), (3, 2)),
    ("EluGrad", kernel("EluGrad"), (9,), (9,)),
    ("SigmoidGrad", kernel("SigmoidGrad"), (9,), (9,)),
    ("TanhGrad", kernel("TanhGrad"), (9,), (9,)),
    ("Prelu", pg.prelu, (3, 4), (4,)),
    ("Prelu", pg.prelu, (2, 3), (2, 3)),
    ("Select", lambda a, b: pg.where(a > b, a * a, b), (3, 4), (4,)),
    ("Select", lambda a, b: pg.where(np.eye(3, dtype=bool), a, b), (3,), (1, 1)),
    # reductions
    ("Sum", pg.sum, (2, 3)),
    ("Sum", lambda x: pg.sum(x, axis=(0, -1), keepdims=True), (2, 3, 2)),
    ("Mean", lambda x: pg.mean(x, axis=1), (2, 3, 2)),
    ("Max", pg.max, (2, 3)),
    ("Max", lambda x: pg.max(x, axis=0, keepdims=True), (2, 3)),
    ("Min", lambda x: pg.min(x, axis=(0, 2)), (2, 3, 2)),
    ("Prod", lambda x: pg.prod(x, axis=1), (2, 5)),
    ("Prod", lambda x: pg.prod(x * [1.0, 0.0, 1.0]), (3,)),
    ("Softmax", lambda x: pg.softmax(x, axis=0), (3, 4)),
    ("LogSoftmax", pg.log_softmax, (3, 4)),
    # data movement
    (
        "BatchToSpaceND",
        lambda x: pg.batch_to_space_nd(x, (2, 2), [(0, 1), (1, 0)]),
        (4, 2, 3, 1),
    ),
    ("BroadcastTo", lambda x: pg.broadcast_to(x, (2, 3, 4)), (3, 1)),
    ("Concat", lambda *xs: pg.concat(xs, axis=1), (2, 1), (2, 3), (2, 0)),
    ("DepthToSpace", lambda x: pg.depth_to_space(x, 2), (1, 2, 3, 8)),
    (
        "DepthToSpace",
        lambda x: pg.depth_to_space(x, 2, data_format="NCHW"),
        (1, 8, 2, 3),
    ),
    ("ExpandDims", lambda x: pg.expand_dims(x, axis=1), (2, 3)),
    ("GatherNd", lambda x: pg.gather_nd(x, IDS), (3, 3, 2)),
    ("GatherV2", lambda x: pg.gather(x, IDS, axis=1), (2, 3)),
    ("GatherV2", lambda x: pg.gather(x, IDS, axis=2, batch_dims=1), (2, 2, 3)),
    ("Take", lambda x: pg.take(x, pg.asarray(IDS), axis=1), (2, 3)),
    ("MirrorPad", lambda x: pg.pad(x, [(2, 1), (0, 1)], mode="reflect"), (3, 2)),
    ("MirrorPad", lambda x: pg.pad(x, [(2, 1), (0, 1)], mode="symmetric"), (3, 2)),
    ("Pack", lambda *xs: pg.stack(xs, axis=1), (2, 3), (2, 3)),
    ("PadV2", lambda x: pg.pad(x, [(2, 1), (0, 1)]), (3, 2)),
    ("Reshape", lambda x: pg.reshape(x, (3, 2)), (2, 3)),
    ("Reverse", lambda x: pg.flip(x, axis=(0, 2)), (2, 2, 3)),
    ("ScatterNd", lambda u: pg.scatter_nd(IDS, u, (3, 3, 2)), (2, 2)),
    ("ScatterNd", lambda u: pg.scatter_nd([[1], [1]], u, (3,)), (2,)),
    ("Slice", lambda x: pg.slice(x, (1, 0), (2, -1)), (4, 3)),
    ("SpaceToBatchND", lambda x: pg.space_to_batch_nd(x, (2,), [(1, 0)]), (2, 3, 2)),
    ("SplitV", lambda x: join(*pg.split(x, [1, 3], axis=1)), (2, 4)),
    ("StridedSlice", lambda x: x[3:0:-2, ::2], (4, 5)),
    *[
        (
            "TensorScatterExtremum",
            lambda x, u, r=r: pg.tensor_scatter_update(x, IDS, u, reduction=r),
            (3, 3, 2),
            (2, 2),
        )
        for r in ("max", "min")
    ],
    (
        "TensorScatterUpdate",
        lambda x, u: pg.tensor_scatter_update(x, IDS, u),
        (3, 3, 2),
        (2, 2),
    ),
    (
        "TensorScatterUpdate",
        lambda x, u: pg.tensor_scatter_update(x, [[1], [1]], u),
        (3,),
        (2,),
    ),
    ("Tile", lambda x: pg.tile(x, (2, 3)), (2, 2)),
    ("Transpose", lambda x: pg.permute_dims(x, (2, 0, 1)), (2, 3, 4)),
    ("Unpack", lambda x: join(*pg.unstack(x, axis=1)), (2, 3)),
    (
        "UnsortedSegmentSum",
        lambda x: pg.unsorted_segment_sum(x, [1, -1, 1, 5], 3),
        (4, 2),
    ),
    # images
    (
        "CropAndResize",
        lambda x, b: pg.image.crop_and_resize(x, b, [1, 0, 1], (3, 2)),
        (2, 4, 5, 2),
        (3, 4),
        {"low": 0.1, "high": 1.1},
    ),
    (
        "CropAndResize",
        lambda x: pg.image.crop_and_resize(x, CROP, [0], 3, method="nearest"),
        (1, 4, 5, 2),
    ),
    ("FlipLeftRight", pg.image.flip_left_right, (1, 2, 3, 2)),
    ("ResizeBilinear", lambda x: pg.image.resize_bilinear(x, (5, 2)), (1, 3, 4, 2)),
    (
        "ResizeBilinear",
        lambda x: pg.image.resize_bilinear(x, (2, 7), half_pixel_centers=True),
        (1, 3, 4, 1),
    ),
    (
        "ResizeBilinearGrad",
        lambda dy: kernel("ResizeBilinearGrad", **IN_SHAPE, align_corners=True)(
            None, dy
        ),
        (1, 5, 2, 2),
    ),
    (
        "ResizeNearestNeighbor",
        lambda x: pg.image.resize_nearest_neighbor(x, (5, 2), align_corners=True),
        (1, 3, 4, 2),
    ),
    (
        "ResizeNearestNeighborGrad",
        lambda dy: kernel("ResizeNearestNeighborGrad", **IN_SHAPE)(None, dy),
        (1, 5, 2, 2),
    ),
    (
        "RotateWithOffset",
        lambda x: pg.image.rotate_with_offset(x, 0.4, fill_value=1),
        (1, 4, 4, 2),
    ),
    (
        "Transform",
        lambda x, t: pg.image.transform(
            x, t * 0.02 + PROJECTION, interpolation="bilinear", fill_mode="reflect"
        ),
        (1, 4, 4, 2),
        (1, 8),
    ),
    (
        "Transform",
        lambda x: pg.image.transform(x, PROJECTION[None], fill_mode="wrap"),
        (1, 4, 4, 2),
    ),
    # sparse and ragged
    (
        "RaggedGather",
        lambda x: pg.sparse.ragged_gather([[0, 2, 2, 5]], x, [2, 0, 2])[1],
        (5, 2),
    ),
    (
        "RaggedRange",
        lambda a, b: pg.sparse.ragged_range(a, [7.1, -9.3], pg.add(b, [2, -5]))[1],
        (2,),
        (2,),
    ),
    (
        "RaggedTensorToTensor",
        lambda x, d: pg.sparse.ragged_tensor_to_tensor(
            (4, 2, -1), x, d, [[0, 2, 2, 5]], ["ROW_SPLITS"]
        ),
        (5, 2),
        (2,),
    ),
    (
        "SparseFillEmptyRows",
        lambda x, d: pg.sparse.fill_empty_rows([[3], [1], [3]], x, [5], d).values,
        (3,),
        (),
    ),
    (
        "SparseSegmentMean",
        lambda x: pg.sparse.segment_mean(x, [3, 0, 0], [0, 2, 2]),
        (4, 2),
    ),
    (
        "SparseSegmentSum",
        lambda x: pg.sparse.segment_sum(x, [3, 0, 0], [0, 2, 2]),
        (4, 2),
    ),
    (
        "SparseToDense",
        lambda x, d: pg.sparse.to_dense(IDS, x, (3, 3), default_value=d),
        (2,),
        (),
    ),
    # products
    ("BatchMatMul", pg.matmul, (2, 3, 4), (4, 2)),
    (
        "BatchMatMul",
        lambda a, b: pg.matmul(a, b, transpose_a=True, transpose_b=True),
        (3, 2),
        (2, 2, 3),
    ),
    (
        "_FusedMatMul",
        lambda a, b, c: pg.fused.matmul(a, b, c, activation="elu"),
        (3, 2),
        (2, 4),
        (4,),
    ),
    (
        "FusedConv2D",
        lambda x, f, b, a: pg.fused.conv2d(x, f, b, a, activation="prelu", pad="same"),
        (1, 3, 3, 2),
        (2, 2, 2, 3),
        (3,),
        (3,),
    ),
    (
        "FusedDepthwiseConv2D",
        lambda x, f, b: pg.fused.depthwise_conv2d(x, f, b, activation="sigmoid"),
        (1, 3, 3, 2),
        (2, 2, 2, 1),
        (2,),
    ),
    # matrices
    ("Cholesky", lambda x: linalg.cholesky(x @ x.mT + 3 * pg.eye(3)), (2, 3, 3)),
    ("Cofactor", kernel("Cofactor"), (2, 3, 3)),
    ("Det", linalg.det, (2, 3, 3)),
    ("Diag", lambda x: pg.square(pg.diag(x)), (2, 2)),
    ("Eig", eigenpairs, (2, 3, 3)),
    ("Eigvals", lambda x: real_and_imaginary_parts(linalg.eigvals(x)), (3, 3)),
    ("Eigh", lambda x: join(*linalg.eigh(x + x.mT)), (2, 3, 3)),
    ("Eigvalsh", lambda x: linalg.eigvalsh(x + x.mT), (3, 3)),
    ("Einsum", lambda a, b: pg.einsum("ij,...jk->...i", a, b), (2, 3), (2, 3, 4)),
    ("Inverse", linalg.inv, (2, 3, 3)),
    ("Lu", lambda x: join(*linalg.lu(x)), (2, 3, 3)),
    ("Lu", lambda x: join(*linalg.lu(x)), (2, 4)),
    ("Lu", lambda x: join(*linalg.lu(x)), (4, 2)),
    ("MatrixExp", linalg.matrix_exp, (2, 3, 3)),
    ("MatrixBandPart", lambda x: linalg.band_part(x, 1, 0) ** 2, (2, 3, 4)),
    ("Pinv", linalg.pinv, (2, 3)),
    ("Qr", lambda x: join(*linalg.qr(x)), (3, 2)),
    ("Qr", lambda x: join(*linalg.qr(x)), (2, 3)),
    ("Slogdet", lambda x: join(*linalg.slogdet(x)), (2, 3, 3)),
    ("Solve", linalg.solve, (3, 3), (2, 3, 2)),
    ("Svd", lambda x: join(*linalg.svd(x, full_matrices=False)), (2, 3, 2)),
    ("Svd", lambda x: join(*linalg.svd(x, full_matrices=False)), (2, 3)),
    ("Svdvals", linalg.svdvals, (2, 3)),
    (
        "TriangularSolve",
        lambda a, b: linalg.triangular_solve(a, b, upper=True),
        (3, 3),
        (3, 2),
        {"low": 0.5},
    ),
    # windows
    ("Conv2D", lambda x, f: pg.conv2d(x, f, **STRIDED), (2, 3, 4, 2), (2, 3, 2, 3)),
    (
        "Conv2D",
        lambda x, f: pg.conv2d(x, f, groups=2, **DILATED),
        (1, 3, 4, 4),
        (2, 2, 2, 2),
    ),
    (
        "Conv2DBackpropInput",
        kernel("Conv2DBackpropInput", in_shape=(2, 3, 4, 2), **STRIDED),
        (2, 3, 2, 3),
        (2, 3, 2, 3),
    ),
    (
        "Conv2DBackpropFilter",
        kernel("Conv2DBackpropFilter", filter_shape=(2, 3, 2, 3), **STRIDED),
        (2, 3, 4, 2),
        (2, 3, 2, 3),
    ),
    (
        "Conv3D",
        lambda x, f: pg.conv3d(x, f, strides=2, pad="same"),
        (1, 2, 3, 3, 1),
        (2, 1, 2, 1, 2),
    ),
    (
        "Conv3DBackpropInputV2",
        kernel(
            "Conv3DBackpropInputV2", in_shape=(1, 2, 3, 3, 1), strides=1, pad="same"
        ),
        (1, 2, 3, 3, 2),
        (2, 1, 2, 1, 2),
    ),
    (
        "Conv3DBackpropFilterV2",
        kernel(
            "Conv3DBackpropFilterV2",
            filter_shape=(2, 1, 2, 1, 2),
            strides=1,
            pad="same",
        ),
        (1, 2, 3, 3, 1),
        (1, 2, 3, 3, 2),
    ),
    (
        "DepthwiseConv2dNative",
        lambda x, f: pg.depthwise_conv2d(x, f, **DILATED),
        (1, 3, 4, 2),
        (2, 2, 2, 2),
    ),
    (
        "DepthwiseConv2dNativeBackpropInput",
        kernel("DepthwiseConv2dNativeBackpropInput", in_shape=(1, 3, 4, 2), **STRIDED),
        (1, 3, 2, 4),
        (2, 2, 2, 2),
    ),
    (
        "DepthwiseConv2dNativeBackpropFilter",
        kernel(
            "DepthwiseConv2dNativeBackpropFilter", filter_shape=(2, 2, 2, 2), **STRIDED
        ),
        (1, 3, 4, 2),
        (1, 3, 2, 4),
    ),
    (
        "Dilation2D",
        lambda x, f: pg.square(pg.dilation2d(x, f, **STRIDED)),
        (2, 3, 4, 2),
        (2, 3, 2),
    ),
    (
        "Dilation2DBackpropInput",
        dilation_gradient("Dilation2DBackpropInput"),
        (1, 3, 2, 2),
    ),
    (
        "Dilation2DBackpropFilter",
        dilation_gradient("Dilation2DBackpropFilter"),
        (1, 3, 2, 2),
    ),
    ("AvgPool", lambda x: pg.avg_pool(x, **POOL2), (1, 4, 5, 2)),
    ("AvgPoolGrad", pool_gradient((1, 4, 5, 2), "AvgPoolGrad", **POOL2), (1, 2, 3, 2)),
    ("AvgPool3D", lambda x: pg.avg_pool(x, **POOL3), (1, 2, 3, 3, 1)),
    (
        "AvgPool3DGrad",
        pool_gradient((1, 2, 3, 3, 1), "AvgPool3DGrad", **POOL3),
        (1, 2, 2, 3, 1),
    ),
    ("MaxPool", lambda x: pg.max_pool(x, **POOL2), (1, 4, 5, 2)),
    ("MaxPoolGrad", pool_gradient((1, 4, 5, 2), "MaxPoolGrad", **POOL2), (1, 2, 3, 2)),
    ("MaxPool3D", lambda x: pg.max_pool(x, **POOL3), (1, 2, 3, 3, 1)),
    (
        "MaxPool3DGrad",
        pool_gradient((1, 2, 3, 3, 1), "MaxPool3DGrad", **POOL3),
        (1, 2, 2, 3, 1),
    ),
    ("MaxPoolWithArgmax", lambda x: pg.max_pool_with_argmax(x, 2)[0], (1, 4, 4, 2)),
    # norms
    (
        "FusedBatchNorm",
        lambda x, m, v, b, s: pg.batch_norm(x, m, v, b, s),
        (2, 3, 2),
        (2,),
        (2,),
        (2,),
        (2,),
        {"low": 0.5},
    ),
    (
        "FusedBatchNorm",
        lambda x, m, v: pg.batch_norm(x, m, v),
        (3, 2),
        (2,),
        (2,),
        {"low": 0.5},
    ),
    (
        "RMSNorm",
        lambda x, s: pg.rms_norm(x, s, axis=(1, 2)),
        (2, 3, 2),
        (2,),
    ),
    (
        "Attention",
        lambda q, k, v: pg.scaled_dot_product_attention(
            q, k, v, length=[3, 4], is_causal=True, enable_gqa=True
        ),
        (2, 2, 2, 3),
        (2, 1, 4, 3),
        (2, 1, 4, 2),
    ),
    (
        "AttentionGrad",
        lambda *xs: kernel("AttentionGrad", scale=0.5, causal=True)(*xs, None, None)[1],
        (2, 2, 2, 2),
        (2, 2, 2, 3),
        (2, 1, 4, 3),
        (2, 1, 4, 2),
    ),
    ("RotaryEmbedding", pg.rotary_embedding, (2, 3, 5), (3, 2), (3, 2)),
    (
        "BlockQuantizedMatMul",
        lambda *xs: pg.quantized.block_matmul(xs[0], CODES, *xs[1:], bits=4),
        (2, 8),
        (3, 2),
        (3, 2),
    ),
    (
        "DequantizeBlocks",
        lambda *xs: pg.quantized.dequantize_blocks(CODES, *xs, bits=8),
        (3, 2),
        (3, 2),
    ),
    (
        "LayerNorm",
        lambda x, s, b: pg.layer_norm(x, s, b, axis=(1, 2)),
        (2, 3, 2),
        (2,),
        (3, 1),
    ),
    (
        "LayerNormGrad",
        kernel("LayerNormGrad", axis=(1,), epsilon=0.1),
        (2, 3),
        (2, 3),
        (3,),
    ),
    ("LRN", lambda x: pg.local_response_normalization(x, **LRN_OPTIONS), (1, 2, 2, 4)),
    (
        "LRNGrad",
        kernel("LRNGrad", **LRN_OPTIONS),
        (1, 1, 2, 4),
        (1, 1, 2, 4),
        (1, 1, 2, 4),
    ),
    # recurrent layers
    (
        "LSTM",
        lambda *xs: pg.lstm(*xs)[1],
        *[(2, 1, 1), (8, 1), (8, 2), (8,), (8,), (1, 2), (1, 2)],
    ),
    (
        "LSTM",
        lambda *xs: pg.lstm(*xs, reverse=True)[2],
        *[(2, 1, 1), (8, 1), (8, 2)],
    ),
    (
        "LSTMGrad",
        kernel("LSTMGrad", reverse=False),
        *[(2, 1, 2), (2, 1, 2), (2, 1, 8), (2, 1, 2), (2, 8)],
    ),
    (
        "GRU",
        lambda *xs: pg.gru(*xs, reverse=True)[1],
        *[(2, 1, 1), (6, 1), (6, 2), (6,), (6,), (1, 2)],
    ),
    (
        "GRUGrad",
        kernel("GRUGrad", reverse=True),
        *[(2, 1, 2), (2, 1, 6), (2, 1, 6), (2, 1, 2), (2, 6)],
    ),
    # complex numbers and Fourier transforms, as real functions of real numbers
    ("Complex", lambda *xs: pg.abs(pg.complex(*xs) ** 2), (3,), (2, 1)),
    ("ComplexAbs", lambda *xs: pg.abs(pg.complex(*xs)), (2, 3), (2, 3)),
    ("FFT", lambda *xs: pg.abs(pg.fft.fft(pg.complex(*xs))), (2, 5), (2, 5)),
    ("FFT", lambda x: pg.abs(pg.fft.rfft(x, n=4, axis=0)), (3, 2)),
    ("IFFT", lambda *xs: pg.abs(pg.fft.ifft(pg.complex(*xs))), (2, 5), (2, 5)),
    ("IFFT", lambda x: pg.fft.irfft(x, n=5), (2, 3)),
    ("Imag", lambda *xs: pg.imag(pg.complex(*xs) ** 2), (3,), (3,)),
    ("Real", lambda *xs: pg.real(pg.complex(*xs) ** 2), (3,), (3,)),
    # sorting, accumulation, counting
    ("Bincount", lambda w: pg.bincount(IDS, weights=w, size=2), (2, 2)),
    ("Cumprod", lambda x: pg.cumulative_prod(x * [1.0, 0.0, 1.0], axis=1), (2, 3)),
    ("Cumsum", lambda x: pg.cumulative_sum(x, axis=0, exclusive=True), (3, 2)),
    ("Cumsum", lambda x: pg.cumulative_sum(x, axis=1, reverse=True), (2, 3)),
    ("DenseBincount", lambda w: pg.dense_bincount(IDS, weights=w, size=2), (2, 2)),
    ("Sort", lambda x: pg.sort(x, axis=0), (4, 2)),
    ("TopK", lambda x: pg.top_k(x, 2)[0], (3, 4)),
    ("Unique", lambda x: pg.unique_values(x, axis=1), (2, 3)),
]


def rows():
    """Return the rows of UNARY, BINARY and TABLE as ``Row`` objects."""
    found = []

    def add(name, op, *shapes, low=-2.0, high=2.0):
        number = sum(row.kernel == name for row in found)
        found.append(Row(name, op, shapes, low, high, number))

    for name, (op, low, high) in UNARY.items():
        add(name, op, (3, 4), low=low, high=high)
    for name, (op, low, high) in BINARY.items():
        add(name, op, (3, 4), (4,), low=low, high=high)
        add(name, op, (2, 1), (2, 1, 3), low=low, high=high)
    for name, op, *shapes in TABLE:
        domain = shapes.pop() if isinstance(shapes[-1], dict) else {}
        add(name, op, *shapes, **domain)
    return found


ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_gradient(row):
    """Run in float64 on cpu, because float32 is not accurate enough."""
    with pg.use_backend("cpu"):
        check_gradients(row.op, *row.arrays())
