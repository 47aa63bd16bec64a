"""Reductions, indexing, sorting and FFTs at the sizes where their code changes."""

import itertools

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")

IN_C = """
    Sum Prod Mean Max Min Any All ArgMax ArgMin Select PadV2 Transpose Concat Slice
    StridedSlice GatherV2 GatherNd ScatterNd TensorScatterUpdate UnsortedSegmentSum
    OneHot Cumsum Cumprod TopK Tile Reverse ResizeBilinear ResizeBilinearGrad
    ResizeNearestNeighbor ResizeNearestNeighborGrad FFT IFFT Softmax LogSoftmax Cast
    FusedBatchNorm _FusedMatMul FusedConv2D FusedDepthwiseConv2D BatchMatMul Conv2D
    Conv2DBackpropInput Conv2DBackpropFilter DepthwiseConv2dNative MaxPool AvgPool
    DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter MaxPoolGrad
    AvgPoolGrad LayerNorm
"""


@pytest.fixture(autouse=True)
def on_wasm():
    with pg.use_backend("wasm"):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def draw(rng, shape, dtype):
    """Return integers of their full range, or floats around 0."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        low = np.iinfo(dtype).min
        high = np.iinfo(dtype).max
        return rng.integers(low, high, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def test_which_kernels_are_written_in_c():
    pg.zeros(())
    from plugrad_wasm.kernels import KERNELS

    assert set(IN_C.split()) <= set(KERNELS)
    lacking = {n for n, k in contracts().items() if not k.decomposition} - set(KERNELS)
    assert len([name for name in lacking if "." not in name]) <= 25


# --- reductions ------------------------------------------------------------------

SHAPES = [(1, 1), (1, 32), (5, 33), (1, 127), (3, 128), (7, 129), (1, 4097)]
SHAPES += [(2, 65537), (65537, 2), (70001, 1), (300, 129), (1000, 200), (129, 1000)]
SHAPES += [(40, 5, 257), (257, 5, 40), (9, 8, 7, 6), (3, 70, 3, 70), (100, 3, 400)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_reductions_of_all_axes(rng, shape, dtype):
    x = draw(rng, shape, dtype)
    t = pg.asarray(x)
    for count in range(1, len(shape) + 1):
        for axis in itertools.combinations(range(len(shape)), count):
            np.testing.assert_array_equal(pg.max(t, axis=axis).numpy(), x.max(axis))
            np.testing.assert_array_equal(pg.min(t, axis=axis).numpy(), x.min(axis))
            total = pg.sum(t, axis=axis).numpy()
            if x.dtype.kind == "i":
                np.testing.assert_array_equal(total, x.sum(axis, dtype=dtype))
                continue
            wide = x.astype(np.longdouble)
            bound = 20 * np.finfo(dtype).eps * np.abs(wide).sum(axis)
            assert (np.abs(total - wide.sum(axis)) <= bound).all()


@pytest.mark.parametrize("shape", [(7,), (3, 129), (1, 1000), (200, 3), (70001,)])
def test_products_along_axes(rng, shape):
    x = np.exp(0.01 * rng.standard_normal(shape)).astype(np.float32)
    for axis in range(len(shape)):
        y = pg.prod(x, axis=axis).numpy()
        z = x.prod(axis, dtype=np.float64)
        np.testing.assert_allclose(y, z, rtol=1e-6)
    n = rng.integers(-3, 4, shape).astype(np.int32)
    np.testing.assert_array_equal(pg.prod(n).numpy(), n.prod(dtype=np.int32))


def test_long_sums_are_as_accurate_as_short_ones():
    x = pg.full((10_000_000,), 0.1)
    assert pg.sum(x).item() == pytest.approx(1e6, rel=1e-6)
    assert pg.mean(x).item() == pytest.approx(0.1, rel=1e-6)
    x = pg.reshape(x, (2_500_000, 4))
    np.testing.assert_allclose(pg.sum(x, axis=0).numpy(), 2.5e5, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 5, 31, 33, 129, 5000, 100_000])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_reductions_return_nan_and_argmax_ignores_it(rng, n, dtype):
    for index in {0, n // 2, n - 1}:
        x = rng.random((n, 3)).astype(dtype)
        x[index, 1] = np.nan
        for t, axis in ((x, 0), (x.T.copy(), 1)):
            for reduce in (pg.max, pg.min, pg.sum, pg.mean):
                found = np.isnan(reduce(t, axis=axis).numpy())
                np.testing.assert_array_equal(found, [False, True, False])
            best = pg.argmax(t, axis=axis).numpy()
            low = pg.argmin(t, axis=axis).numpy()
            if n > 1:
                np.testing.assert_array_equal(best, np.nanargmax(x, 0))
                np.testing.assert_array_equal(low, np.nanargmin(x, 0))
            else:
                np.testing.assert_array_equal(best, 0)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float32"]
)
@pytest.mark.parametrize("shape", [(1,), (16,), (47,), (5, 300), (300, 5), (90, 150)])
def test_extremes_and_their_indices(rng, shape, dtype):
    x = draw(rng, shape, dtype)
    x[..., ::3] = x.flat[0]  # equal elements: the first counts
    for axis in range(len(shape)):
        for ours, theirs in (
            (pg.max, np.max),
            (pg.min, np.min),
            (pg.argmax, np.argmax),
            (pg.argmin, np.argmin),
        ):
            y = ours(x, axis=axis).numpy()
            np.testing.assert_array_equal(y, theirs(x, axis=axis))


def test_argmax_among_infinities():
    x = np.array([np.nan, -np.inf, np.nan, -np.inf], np.float32)
    assert pg.argmax(x).item() == 1
    assert pg.argmin(-x).item() == 1
    assert pg.argmax(np.full(100, np.nan, np.float32)).item() == 0


# --- indices ---------------------------------------------------------------------

X = np.arange(12, dtype=np.float32).reshape(3, 4)
INDEXING = {  # with index tensors, whose values the host does not check
    "gather": lambda i: pg.gather(X, i, axis=1),
    "gather with a batch": lambda i: pg.gather(
        X, pg.stack([i, i, i]), axis=1, batch_dims=1
    ),
    "gather_nd": lambda i: pg.gather_nd(X, pg.stack([i * 0, i], -1)),
    "scatter_nd": lambda i: pg.scatter_nd(pg.stack([i * 0, i], -1), X[0, :3], (3, 4)),
    "tensor_scatter_update": lambda i: pg.tensor_scatter_update(
        X, pg.stack([i * 0, i], -1), X[0, :3]
    ),
}


@pytest.mark.parametrize("name", INDEXING)
@pytest.mark.parametrize(
    ("index", "dtype"),
    [
        (4, "int32"),
        (-5, "int32"),
        (2**31 - 1, "int32"),
        (-(2**31), "int32"),
        (2**32 + 1, "int64"),
        (-(2**40), "int64"),
        (200, "uint8"),
        (-7, "int8"),
        (2**32 - 1, "uint32"),
        (2**62, "uint64"),
    ],
)
def test_indices_out_of_range_are_named_as_on_cpu(name, index, dtype):
    indices = np.array([1, index, 0], dtype)
    with pytest.raises(IndexError) as ours:
        INDEXING[name](pg.asarray(indices))
    with pg.use_backend("cpu"), pytest.raises(IndexError) as theirs:
        INDEXING[name](pg.asarray(indices))
    assert str(ours.value) == str(theirs.value)
    # gather names the index as it was given; gather_nd counts it from 0.
    named = {index, index + 4 if index < 0 else index}
    assert any(f"index {i} is out of range" in str(ours.value) for i in named)


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(1, 1), (1, 5), (7, 4)])
def test_crop_and_resize_is_that_of_cpu(rng, size, method):
    image = rng.random((3, 6, 9, 2)).astype(np.float32)
    image[1, 2, 3] = np.inf
    boxes = rng.uniform(-0.3, 1.3, (40, 4)).astype(np.float32)
    boxes[:3] = [[0, 0, 1, 1], [1, 1, 0, 0], [0, np.nan, 1, 1]]
    box_images = rng.integers(0, 3, 40).astype(np.int32)
    options = {"method": method, "extrapolation_value": 5.0}
    y = pg.image.crop_and_resize(image, boxes, box_images, size, **options).numpy()
    with pg.use_backend("cpu"):
        want = pg.image.crop_and_resize(
            image, boxes, box_images, size, **options
        ).numpy()
    np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-6)
    box_images[17] = 3
    with pytest.raises(IndexError, match="index 3 is out of range for axis 0"):
        pg.image.crop_and_resize(image, boxes, box_images, size, **options)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 16, 63, 64, 65, 300])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "int64", "complex128"])
def test_rows_of_any_width_are_read_and_written(rng, width, dtype):
    x = rng.integers(0, 2, (20, width)).astype(dtype)
    indices = rng.integers(0, 20, 50).astype(np.int32)
    np.testing.assert_array_equal(pg.gather(x, indices).numpy(), x[indices])
    rows = rng.permutation(20)[:7]
    new = rng.integers(0, 2, (7, width)).astype(dtype)
    want = x.copy()
    want[rows] = new
    got = pg.tensor_scatter_update(x, rows[:, None].astype(np.int32), new)
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32", "complex64"])
@pytest.mark.parametrize("width", [1, 3, 64, 200])
def test_sums_by_segment(rng, width, dtype):
    x = rng.integers(-9, 9, (2000, width)).astype(dtype)
    for count in (1, 7, 3000):
        ids = rng.integers(-1, count + 1, 2000).astype(np.int32)
        want = np.zeros((count, width), dtype)
        inside = (ids >= 0) & (ids < count)
        np.add.at(want, ids[inside], x[inside])
        y = pg.unsorted_segment_sum(x, ids, count).numpy()
        np.testing.assert_array_equal(y, want)


def test_segment_sums_of_many_rows_use_double_precision():
    x = np.full(1_000_000, 0.1, np.float32)
    ids = np.zeros(1_000_000, np.int32)
    y = pg.unsorted_segment_sum(x, ids, 2).numpy()
    np.testing.assert_allclose(y, [1e5, 0], rtol=1e-6)


# --- sorting ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    ["int8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"],
)
@pytest.mark.parametrize("n", [1, 2, 31, 33, 49, 300, 5000])
def test_top_k_of_rows(rng, n, dtype):
    x = draw(rng, (3, n), dtype)
    x[:, ::4] = x[0, 0]  # many equal elements
    key = x.astype(np.float64) if x.dtype.kind == "f" else x
    if x.dtype.kind == "f":
        x[:, 1::7] = np.nan
        x[:, 2::9] = -0.0
        x[:, 3::9] = 0.0
        key = np.where(np.isnan(x), np.inf, x)
    order = n - 1 - np.argsort(key[:, ::-1], -1, kind="stable")[:, ::-1]
    for k in sorted({0, 1, min(5, n), min(32, n), min(33, n), n // 2, n - 1, n}):
        want = order[:, :k]
        values, indices = pg.top_k(x, k)
        np.testing.assert_array_equal(indices.numpy(), want)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, want, -1))
        values, indices = pg.top_k(x, k, sorted=False)
        want = np.sort(want, -1)
        np.testing.assert_array_equal(indices.numpy(), want)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, want, -1))


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "uint32", "int64", "float16", "float32"]
)
@pytest.mark.parametrize("shape", [(1,), (2, 3), (300, 2), (9000,), (3, 4, 50)])
def test_sort(rng, shape, dtype):
    x = draw(rng, shape, dtype)
    if x.dtype.kind == "f":
        x.flat[::7] = np.nan
        x.flat[1::9] = np.inf
        x.flat[2::9] = -0.0
    for axis in range(len(shape)):
        want = np.sort(x, axis)
        np.testing.assert_array_equal(pg.sort(x, axis=axis).numpy(), want)
        y = pg.sort(x, axis=axis, descending=True).numpy()
        np.testing.assert_array_equal(y, np.flip(want, axis))


# --- transforms ------------------------------------------------------------------

SIZES = [*range(1, 66), 81, 96, 100, 121, 125, 127, 128, 131, 243, 256, 343, 360, 500]
SIZES += [961, 1000, 1009, 1024, 1331, 2187, 4096, 4099, 7919, 10_000]


@pytest.mark.parametrize(
    ("dtype", "bound"), [("complex64", 1e-6), ("complex128", 3e-15)]
)
def test_transforms_of_every_size(rng, dtype, bound):
    for n in SIZES:
        x = rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))
        x = x.astype(dtype)
        for ours, theirs in ((pg.fft.fft, np.fft.fft), (pg.fft.ifft, np.fft.ifft)):
            y = ours(x).numpy()
            want = theirs(x.astype(np.complex128))
            assert y.dtype == dtype
            error = np.abs(y - want).max() / np.abs(want).max()
            assert error < bound, (n, error)


def test_a_long_transform(rng):
    x = (rng.random(1 << 18) + 1j * rng.random(1 << 18)).astype(np.complex64)
    want = np.fft.fft(x.astype(np.complex128))
    error = np.abs(pg.fft.fft(x).numpy() - want)
    assert np.sqrt((error**2).mean() / (np.abs(want) ** 2).mean()) < 1e-6


# --- moving ----------------------------------------------------------------------

MOVE_SHAPES = [
    (1, 5),
    (4, 4),
    (15, 17),
    (16, 16),
    (31, 3),
    (33, 50),
    (3, 33, 20),
    (64, 1, 35),
]


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("shape", MOVE_SHAPES, ids=str)
def test_permuted_and_broadcast_axes(rng, shape, dtype):
    x = rng.integers(0, 2, shape).astype(dtype)
    for axes in itertools.permutations(range(len(shape))):
        y = pg.permute_dims(x, axes).numpy()
        np.testing.assert_array_equal(y, x.transpose(axes))
    column = x[..., :1]
    wide = (*shape[:-1], 21)
    y = pg.broadcast_to(column, wide).numpy()
    np.testing.assert_array_equal(y, np.broadcast_to(column, wide))
    np.testing.assert_array_equal(
        pg.tile(x, (3,) * x.ndim).numpy(), np.tile(x, (3,) * x.ndim)
    )


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 16, 100, 1100])
def test_rows_are_sliced_joined_flipped_and_padded(rng, width, dtype):
    x = rng.integers(0, 2, (9, width)).astype(dtype)
    for y, want in [
        (pg.concat([x, x[:, :1], x], axis=1), np.concatenate([x, x[:, :1], x], 1)),
        (pg.asarray(x)[::-2, : width // 2], x[::-2, : width // 2]),
        (pg.asarray(x)[1:-1, 1:], x[1:-1, 1:]),
        (pg.flip(x, axis=0), x[::-1]),
        (pg.flip(x, axis=1), x[:, ::-1]),
        (pg.pad(x, [(1, 2), (3, 0)]), np.pad(x, [(1, 2), (3, 0)])),
    ]:
        np.testing.assert_array_equal(y.numpy(), want)
