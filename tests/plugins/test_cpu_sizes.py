"""cpu kernels whose algorithm depends on sizes, numbers of channels or values.

They are compared with their decompositions, which have only one algorithm.
"""

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.registry.registry import registry
from plugrad_conformance.toy import toy

RNG = np.random.default_rng(0)
NAN, INF = np.nan, np.inf


def draw(*shape, dtype="float32"):
    return RNG.normal(size=shape).astype(dtype)


def ties(*shape):
    return RNG.integers(0, 3, shape).astype("float32")


def with_values(x, *values):
    """Set random elements of ``x`` to the values, and return ``x``."""
    x.reshape(-1)[RNG.permutation(x.size)[: len(values)]] = values
    return x


def run(name, inputs, attrs):
    xs = [x if x is None else pg.asarray(x) for x in inputs]
    found = pg.run_kernel(name, xs, attrs)
    return [y.numpy() for y in (found if isinstance(found, tuple) else (found,))]


POOL = {"filter_size": 3, "strides": 2, "pad": "same"}
TILES = {"filter_size": 2, "strides": 2, "pad": "valid"}
STRIDED = {"strides": 2, "pad": "same"}
LRN = {"depth_radius": 2, "bias": 1.0, "alpha": 1.0, "beta": 0.75}
SUMS = {"axis": 1, "exclusive": False, "reverse": False}
ROWS = RNG.permutation(40)[:30].astype("int32")[:, None]

CASES = {
    "Cumsum": [
        ([draw(4, 9, 700)], SUMS),
        ([draw(4, 9, 700)], SUMS | {"exclusive": True}),
        ([draw(4, 9, 700)], SUMS | {"reverse": True}),
        ([RNG.integers(0, 9, (900, 30, 2)).astype("int32")], SUMS),
    ],
    "Cumprod": [([draw(3, 5, 600)], SUMS | {"reverse": True})],
    "LRN": [
        ([with_values(draw(2, 3, 4, 9), NAN, INF)], LRN),
        ([draw(1, 2, 2, 300)], LRN),
        ([draw(2, 3, 4, 1)], LRN),
    ],
    "FusedBatchNorm": [
        ([draw(2, 5, 6, 3), draw(3), draw(3) ** 2, draw(3), draw(3)], {"epsilon": 0.1}),
        ([draw(5, 6, 3), draw(6, 3), draw(3) ** 2, None, None], {"epsilon": 0.1}),
        ([draw(5, 3), draw(3), draw(3) ** 2, draw(3), None], {"epsilon": 0.1}),
    ],
    "ResizeBilinear": [
        ([draw(2, 40, 90, c)], {"size": size, "half_pixel_centers": True})
        for c in (3, 5)
        for size in ((80, 270), (13, 200), (90, 31), (40, 60))
    ],
    "ResizeBilinearGrad": [
        ([draw(2, 20, 30, c), draw(2, *size, c)], {"align_corners": True})
        for c in (3, 5)
        for size in ((40, 90), (13, 50), (45, 11), (20, 7))
    ],
    "ResizeNearestNeighbor": [
        ([draw(2, 20, 30, c)], {"size": size}) for c in (3, 5) for size in (7, (60, 31))
    ],
    "ResizeNearestNeighborGrad": [
        ([draw(2, 20, 30, c), draw(2, *size, c)], {})
        for c in (3, 5)
        for size in ((40, 90), (13, 50), (20, 11))
    ],
    "Conv2DBackpropInput": [
        ([draw(2, 30, 25, 8), draw(3, 3, 3, 8)], STRIDED | {"in_shape": (2, 59, 50, 3)})
    ],
    "DepthwiseConv2dNative": [([draw(2, 59, 50, 3), draw(3, 3, 3, 2)], STRIDED)],
    "DepthwiseConv2dNativeBackpropInput": [
        ([draw(2, 30, 25, 6), draw(3, 3, 3, 2)], STRIDED | {"in_shape": (2, 59, 50, 3)})
    ],
    "DepthwiseConv2dNativeBackpropFilter": [
        (
            [draw(2, 59, 50, 3), draw(2, 30, 25, 6)],
            STRIDED | {"filter_shape": (3, 3, 3, 2)},
        )
    ],
    "ScatterNd": [
        ([ROWS, draw(30, 600)], {"shape": (40, 600)}),
        ([ROWS // 2, draw(30, 600)], {"shape": (40, 600)}),
    ],
    "ArgMax": [([with_values(draw(60, 70), *[NAN] * 9)], {"axis": i}) for i in (0, 1)],
    "ArgMin": [([with_values(draw(60, 70), *[NAN] * 9)], {"axis": i}) for i in (0, 1)],
    "Draw": [
        ([RNG.random((40, 60, 4)).astype("float32")], {}),
        ([with_values(draw(300, 300, 3), NAN, INF, -INF)], {}),
    ],
}


def kernel_and_decomposition(name, inputs, attrs):
    with pg.use_backend("cpu"):
        found = run(name, inputs, attrs)
    dtypes = registry.open("cpu").runtime.dtypes
    with toy(without=(name,), dtypes=dtypes), pg.use_backend("toy"):
        return zip(found, run(name, inputs, attrs), strict=True)


@pytest.mark.parametrize(
    ("name", "case"), [(name, i) for name in CASES for i in range(len(CASES[name]))]
)
def test_kernels_agree_with_their_decompositions(name, case):
    for found, expected in kernel_and_decomposition(name, *CASES[name][case]):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("options", [POOL, TILES], ids=["overlapping", "tiles"])
@pytest.mark.parametrize("size", [(9, 12, 3), (90, 61, 5), (21, 18, 22, 3)], ids=str)
def test_the_first_of_equal_maxima_gets_the_cotangent(size, options):
    x = with_values(ties(2, *size), NAN, NAN, INF)
    with pg.use_backend("cpu"):
        y = pg.max_pool(x, **options).numpy()
    dy = with_values(draw(*y.shape), INF, -INF)
    name = "MaxPoolGrad" if len(size) == 3 else "MaxPool3DGrad"
    for found, expected in kernel_and_decomposition(name, [dy, x, y], options):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("missing", [0, 1, 30])
def test_top_k_takes_the_first_of_equal_elements(k, missing):
    """NaN counts as the greatest."""
    x = with_values(ties(50, 40), *[NAN] * missing)
    with pg.use_backend("cpu"):
        values, indices = (y.numpy() for y in pg.top_k(x, k))
    rank = np.where(np.isnan(x), INF, x)
    expected = np.argsort(-rank, axis=-1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, -1))


@pytest.mark.parametrize("n", [1, 8, 9, 33, 64, 255, 256, 257])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_extremes_of_short_rows(n, dtype):
    x = (draw(600, n) * 9).astype(dtype)
    x = with_values(x, NAN, INF, -INF, -INF) if x.dtype.kind == "f" else x
    with pg.use_backend("cpu"):
        np.testing.assert_array_equal(pg.max(x, axis=1).numpy(), x.max(1))
        np.testing.assert_array_equal(
            pg.min(x, axis=-1, keepdims=True).numpy(), x.min(1, keepdims=True)
        )


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_max_pool_with_argmax_finds_the_first_of_equal_maxima(dtype, batch):
    x = ties(2, 91, 60, 3).astype(dtype) - 2  # negative, so that zero padding would win
    x = with_values(x, NAN, NAN, INF) if dtype == "float32" else x
    attrs = POOL | {"include_batch_in_index": batch}
    for found, expected in kernel_and_decomposition("MaxPoolWithArgmax", [x], attrs):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", "?bhiqBefdFD")
@pytest.mark.parametrize("shape", [(70, 90), (90,), (70, 1), ()], ids=str)
def test_where_keeps_the_bits_of_its_inputs(shape, dtype):
    condition = RNG.random((70, 90)) < 0.5
    a = ties(70, 90).astype(dtype)
    b = (ties(*shape) - 1).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        a = with_values(a, NAN, INF, -0.0)
        b = b * np.asarray(-0.0, dtype)
    with pg.use_backend("cpu"):
        found = pg.where(condition, pg.asarray(a), pg.asarray(b)).numpy()
        transposed = pg.where(condition.T, pg.asarray(a.T), pg.asarray(a.T)).numpy()
    expected = np.where(condition, a, b)
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()
    assert transposed.tobytes() == a.T.tobytes()
