"""plugrad-cpu's products and convolutions in C are close to those in float64."""

import itertools

import numpy as np
import plugrad as pg
import pytest

from tests.processes import output

native = pytest.importorskip("plugrad_cpu.native", reason="needs plugrad-cpu")
if not native.LOADED:
    pytest.skip(f"no kernels in C: {native.LIBRARY}", allow_module_level=True)

from plugrad_cpu.kernels import conv, linalg  # noqa: E402  # after the skip

RNG = np.random.default_rng(7)
SIZES = [1, 3, 4, 5, 8, 13, 16, 24, 31, 32, 33, 48, 64, 97, 130]
DEPTHS = [1, 2, 7, 64, 255, 256, 257, 600, 9301]
ACTIVATIONS = ["linear", "relu", "relu6", "leaky_relu", "prelu", "elu", "sigmoid"]


@pytest.fixture(autouse=True)
def on_cpu():
    with pg.use_backend("cpu"):
        yield


def draw(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def is_close(y, exact, depth):
    """Return whether errors are within the bound for sums of ``depth`` products."""
    return np.abs(y - exact).max(initial=0) <= 3e-7 * (4 + depth) * 4


@pytest.mark.parametrize("n", [255, 256, 290])
def test_rows_of_whole_pages_give_the_same_bits(n):
    """Rows with a stride that is a multiple of 4 KiB are packed; others are not."""
    wide = draw(50, 1024 + 16)
    a = wide[:, :1024]
    b = draw(1024, n)
    pages = linalg.product(a.copy(), b, linalg.NOTHING)
    np.testing.assert_array_equal(pages, linalg.product(a, b, linalg.NOTHING))
    assert is_close(pages, a.astype(float) @ b.astype(float), 1024)


@pytest.mark.parametrize("m", [5, 12, 50, 300])
def test_rows_of_whole_pages_on_the_right_give_the_same_bits(m):
    """B is packed before the product, or while the first rows are computed."""
    a = draw(m, 700)
    wide = draw(700, 1024 + 16)
    b = wide[:, :1024]
    pages = linalg.product(a, b.copy(), linalg.NOTHING)
    np.testing.assert_array_equal(pages, linalg.product(a, b, linalg.NOTHING))
    assert is_close(pages, a.astype(float) @ b.astype(float), 700)


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("k", DEPTHS)
def test_products(k, transposed):
    for m, n in itertools.product(SIZES, SIZES):
        if k > 1000 and min(m, n) > 4:
            continue
        a = draw(k, m).T if transposed[0] else draw(m, k)
        b = draw(n, k).T if transposed[1] else draw(k, n)
        y = linalg.product(a, b, linalg.NOTHING)
        is_small = m < linalg.PRODUCT_MIN_SIZES[0] or n < linalg.PRODUCT_MIN_SIZES[1]
        if is_small and m * n * k < linalg.PRODUCT_MIN_SIZES[2]:
            assert y is None  # BLAS computes it
        elif y is not None:  # None if a matrix of one column has no stride of 1
            assert is_close(y, a.astype(float) @ b.astype(float), k), (m, n)


WIDE = draw(40, 60)
MATRICES = {  # matrices a [m, k] and b [k, n] in various layouts
    "in rows": (WIDE[:, :32], WIDE[:32]),
    "in columns": (WIDE.T[:, :30], WIDE.T[:30]),
    "both": (WIDE.T, WIDE[:, :34]),
    "reversed": (WIDE[::-1, :32], WIDE[31::-1]),
    "a row that repeats": (np.broadcast_to(WIDE[0], (40, 60)), WIDE.T),
    "every second row": (WIDE[::2], WIDE.T),
    "every second element": (WIDE[:, ::2], WIDE[:30]),
    "another dtype": (WIDE.astype("float64"), WIDE.T.astype("float64")),
    "not aligned": (np.frombuffer(b"x" + WIDE.tobytes(), "f4", offset=1)[:1600], WIDE),
    "no sum": (WIDE[:, :0], WIDE[:0]),
    "no rows": (WIDE[:0], WIDE.T),
    "small": (WIDE[:3, :32], WIDE[:32]),
    "sizes that do not fit": (WIDE, WIDE),
    "stacks": (WIDE[None], WIDE.T[None]),
}
NOT_DIRECT = {"every second element", "another dtype", "not aligned", "no sum"}
NOT_DIRECT |= {"no rows", "small", "sizes that do not fit", "stacks"}


@pytest.mark.parametrize("case", MATRICES)
def test_direct_products_have_the_bits_of_planned_products(case):
    a, b = MATRICES[case]
    swapped = [(x.swapaxes(-1, -2) if x.ndim > 1 else x) for x in (a, b)]
    for transpose_a, transpose_b in itertools.product((False, True), repeat=2):
        xs = swapped[0] if transpose_a else a, swapped[1] if transpose_b else b
        y = linalg.MATRICES(
            linalg.PRODUCT, *xs, transpose_a, transpose_b, *linalg.PRODUCT_MIN_SIZES
        )
        assert (y is None) == (case in NOT_DIRECT)
        if y is not None:
            assert y.tobytes() == linalg.product(a, b, linalg.NOTHING).tobytes()


STACKS = [  # shapes of a and b
    ((2, 3, 9, 7), (2, 3, 7, 20)),
    ((2, 3, 9, 7), (7, 20)),
    ((9, 7), (5, 7, 20)),
    ((2, 1, 9, 7), (1, 3, 7, 20)),
    ((4, 1, 40, 64), (5, 64, 33)),
    ((20, 130, 70), (20, 70, 34)),
]


@pytest.mark.parametrize(("a", "b"), STACKS)
def test_stacks_and_views(a, b):
    a = draw(*a)
    b = draw(*b)
    exact = a.astype(float) @ b.astype(float)
    assert is_close(linalg.product(a, b, linalg.NOTHING), exact, 70)
    second = np.stack([a, a], axis=0)[1]  # a contiguous view
    heads = np.moveaxis(np.ascontiguousarray(np.moveaxis(a, -2, 0)), 0, -2)
    wide = np.concatenate([b, b], axis=-1)[..., : b.shape[-1]]  # with gaps between rows
    backwards = np.ascontiguousarray(a[..., ::-1, :])[..., ::-1, :]  # a negative stride
    for view in (second, heads, backwards):
        assert is_close(linalg.product(view, wide, linalg.NOTHING), exact, 70)
    assert linalg.product(a[..., ::2], b[..., ::2, :], linalg.NOTHING) is None
    y = pg.matmul(a[..., ::2], b[..., ::2, :]).numpy()
    assert is_close(y, a[..., ::2].astype(float) @ b[..., ::2, :].astype(float), 70)


@pytest.mark.parametrize("n", [5, 16, 20, 32, 37, 70])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_fused_products(monkeypatch, activation, n):
    a = draw(19, 300)
    b = draw(300, n)
    bias = draw(n)
    slopes = draw(n)
    options = {"prelu_weights": slopes} if activation == "prelu" else {}
    call = lambda: pg.fused.matmul(a, b, bias=bias, activation=activation, **options)
    fast = call().numpy()
    monkeypatch.setattr(linalg, "PRODUCT", None)
    np.testing.assert_allclose(fast, call().numpy(), rtol=1e-4, atol=1e-4)


def test_nan_and_infinity_stay_in_their_row_and_column():
    a = draw(21, 40)
    b = draw(40, 45)
    a[5, 3], b[7, 44] = np.nan, np.inf
    y = pg.matmul(a, b).numpy()
    affected = ~np.isfinite(y)
    assert affected[5].all()
    assert affected[:, 44].all()
    affected[5], affected[:, 44] = False, False
    assert not affected.any()


def test_products_of_empty_matrices():
    assert pg.matmul(np.ones((5, 0), "f"), np.ones((0, 6), "f")).numpy().sum() == 0
    assert pg.matmul(np.ones((0, 5), "f"), np.ones((5, 6), "f")).shape == (0, 6)
    assert pg.matmul(np.ones((0, 5, 5), "f"), np.ones((5, 6), "f")).shape == (0, 5, 6)


WINDOWS = [  # shape of x, shape of the filter, and options
    ((2, 9, 8, 3), (3, 3, 3, 5), {"pad": "same"}),
    ((1, 28, 28, 1), (3, 3, 1, 16), {"pad": "same"}),
    ((2, 9, 8, 4), (3, 3, 4, 7), {"pad": "valid"}),
    ((2, 9, 11, 5), (3, 2, 5, 33), {"pad": "same", "strides": 2}),
    ((2, 9, 11, 5), (2, 2, 5, 6), {"pad": "valid", "strides": 3}),
    ((1, 12, 13, 6), (3, 3, 6, 8), {"pad": "same", "dilations": 2}),
    ((1, 12, 13, 6), (1, 1, 6, 40), {"pad": "valid"}),
    ((1, 12, 13, 6), (1, 1, 6, 9), {"pad": "valid", "strides": 2}),
    ((2, 7, 7, 8), (3, 3, 4, 6), {"pad": "same", "groups": 2}),
    ((1, 10, 10, 6), (5, 5, 2, 9), {"pad": 2, "groups": 3, "strides": 2}),
    ((1, 6, 6, 4), (3, 3, 4, 4), {"pad": 4}),
    ((1, 4, 5, 300), (3, 3, 300, 6), {"pad": "same"}),
    ((1, 26, 23, 32), (3, 3, 32, 36), {"pad": "same"}),  # computed by tiles
    ((3, 23, 26, 40), (3, 3, 40, 32), {"pad": "valid"}),
    (
        (1, 47, 47, 1),
        (3, 3, 1, 5),
        {"pad": "same"},
    ),  # the filter's gradient is a sum of parts
    ((5, 21, 21, 8), (3, 3, 4, 6), {"pad": "same", "groups": 2}),
    ((6, 41, 39, 7), (2, 3, 7, 33), {"pad": "valid", "strides": 2}),
]


@pytest.mark.parametrize(("x", "filter", "options"), WINDOWS)
def test_convolutions(monkeypatch, x, filter, options):
    x = pg.asarray(draw(*x))
    filter = pg.asarray(draw(*filter))
    f = lambda x, filter: pg.conv2d(x, filter, **options)
    calls = []
    original = conv.CONV[np.dtype("float32")]
    recorded = lambda *args: (calls.append(1), original(*args))
    monkeypatch.setitem(conv.CONV, np.dtype("float32"), recorded)
    dy = draw(*f(x, filter).shape)
    fast = pg.value_and_grads(f)(x, filter, dy=dy)
    assert len(calls) == 3  # two forward passes and one backward pass
    monkeypatch.setattr(conv, "CONV", {})
    monkeypatch.setattr(conv, "FILTER", {})
    monkeypatch.setattr(linalg, "PRODUCT", None)
    slow = pg.value_and_grads(f)(x, filter, dy=dy)
    for y, exact in zip(pg.tree.leaves(fast), pg.tree.leaves(slow), strict=True):
        scale = np.abs(exact.numpy()).max()
        np.testing.assert_allclose(y.numpy(), exact.numpy(), atol=5e-6 * scale)


@pytest.mark.parametrize(
    ("x", "filter", "parts"),
    [
        ((32, 14, 14, 16), (3, 3, 16, 32), conv.GRADIENT_PARTS),
        ((8, 14, 14, 16), (3, 3, 16, 32), 0),  # few windows
        (
            (32, 14, 14, 64),
            (3, 3, 64, 64),
            0,
        ),  # a large filter has enough work for threads
    ],
)
def test_gradients_of_small_filters_are_summed_in_parts(monkeypatch, x, filter, parts):
    found = []
    original = conv.FILTER[np.dtype("float32")]
    recorded = lambda *args: (found.append(args[-1]), original(*args))
    monkeypatch.setitem(conv.FILTER, np.dtype("float32"), recorded)
    x = pg.asarray(draw(*x))
    filter = pg.asarray(draw(*filter))
    f = lambda filter: pg.conv2d(x, filter, pad="same")
    pg.grad(f)(filter, dy=f(filter))
    assert found == [parts]


def test_convolutions_of_three_axes():
    x = draw(1, 5, 6, 7, 3)
    filter = draw(2, 3, 3, 3, 4)
    fast = pg.conv3d(x, filter, pad="same").numpy()
    exact = pg.conv3d(x.astype(float), filter.astype(float), pad="same").numpy()
    np.testing.assert_allclose(fast, exact, atol=1e-4)


def test_infinities_in_tiles_are_those_of_a_plain_convolution():
    x = draw(1, 26, 26, 32)
    filter = draw(3, 3, 32, 32)
    x[0, 5, 5, 3], x[0, 20, 20, 1] = np.inf, np.nan
    y = pg.conv2d(x, filter, pad="same").numpy()
    exact = pg.conv2d(x.astype(float), filter.astype(float), pad="same").numpy()
    np.testing.assert_array_equal(np.isnan(y), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(y), np.isinf(exact))


PROGRAM = """
import hashlib, numpy as np, plugrad as pg
rng = np.random.default_rng(1)
draw = lambda *shape: pg.asarray(rng.normal(size=shape).astype("float32"))
found = hashlib.sha256()
sizes = [(300, 200, 600), (7, 900, 64), (2000, 5, 33), (64, 64, 64)]
for m, n, k in [*sizes, (530, 290, 1024)]:
    found.update(pg.matmul(draw(m, k), draw(k, n)).numpy().tobytes())
    found.update(pg.matmul(draw(6, m, k), draw(6, k, n)).numpy().tobytes())
for c, k in [(32, 32), (3, 16), (16, 40)]:
    f = lambda x, w: pg.conv2d(x, w, pad="same")
    x, w = draw(3, 28, 28, c), draw(3, 3, c, k)
    for y in pg.grads(f)(x, w, dy=draw(3, 28, 28, k)):
        found.update(y.numpy().tobytes())
print(found.hexdigest())
"""


def test_results_do_not_depend_on_the_number_of_threads():
    found = {
        output(PROGRAM, PLUGRAD_CPU_THREADS=n, PLUGRAD_BACKEND="cpu") for n in "128"
    }
    assert len(found) == 1
