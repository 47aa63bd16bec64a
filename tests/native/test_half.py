"""float16 on cpu is computed in float32 and rounded once."""

import numpy as np
import plugrad as pg
import pytest
from plugrad_cpu import native

if not native.LOADED:
    pytest.skip(f"no kernels in C: {native.LIBRARY}", allow_module_level=True)

UNARY = (
    "abs ceil exp floor log1p relu relu6 round sigmoid sign square sqrt tanh sin atan"
)
BINARY = "add subtract multiply divide maximum atan2 pow less equal"
# Near the block size of 2,048 elements, and enough elements for several threads.
SIZES = [0, 1, 3, 17, 2047, 2048, 2049, 200_000]


@pytest.fixture(autouse=True)
def on_cpu():
    with pg.use_backend("cpu"):
        yield


def numbers(shape, seed=0):
    """Return float16 numbers of all magnitudes, with infinities, NaN and denormals."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 3, shape)
    flat = x.reshape(-1)
    for k, special in enumerate([np.inf, -np.inf, np.nan, -0.0, 6e-8, 65504.0]):
        flat[k::1009] = special
    return x.astype(np.float16)


def check(op, *arrays):
    """Check that the result equals the float32 result, rounded."""
    got = np.asarray(op(*[pg.asarray(x) for x in arrays]))
    wide = np.asarray(op(*[pg.asarray(x.astype(np.float32)) for x in arrays]))
    with np.errstate(over="ignore"):
        expected = wide if wide.dtype == bool else wide.astype(np.float16)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    if got.dtype != bool:
        signed = ~np.isnan(got)
        np.testing.assert_array_equal(
            np.signbit(got[signed]), np.signbit(expected[signed])
        )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", UNARY.split())
def test_unary_results_are_rounded_once(name, size):
    check(getattr(pg, name), numbers(size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", BINARY.split())
def test_binary_results_are_rounded_once(name, size):
    x = numbers(size)
    y = numbers(size, 1)
    check(getattr(pg, name), x, y)
    if size:
        check(getattr(pg, name), x, y[:1])
    check(getattr(pg, name), np.float16(1.5), y)


@pytest.mark.parametrize(
    "other",
    [(40,), (30, 1), (1, 1, 1), (2, 30, 40), (2, 1, 40)],
    ids=str,
)
def test_operands_are_broadcast(other):
    check(pg.multiply, numbers((30, 40)), numbers(other, 1))
    check(pg.less, numbers(other, 1), numbers((30, 40)))


def test_views_are_read_with_their_strides():
    x = numbers((64, 96))
    for view in (x.T, x[::2, ::-3], x[:, 5]):
        check(pg.exp, view)
        check(pg.add, view, view[..., ::-1])
    check(pg.add, x.T, x.T)
    check(pg.add, x.T, np.ascontiguousarray(x.T))


@pytest.mark.parametrize("axis", [-1, 0, None])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
def test_reductions_accumulate_in_a_wider_dtype(name, axis):
    x = np.full((3, 30_000), 2**-10, np.float16)
    if name == "prod":
        x[...] = 1
        # The partial product exceeds the range of float32.
        x[:, :20] = 256
        x[:, 20:40] = 2**-8
    got = np.asarray(getattr(pg, name)(pg.asarray(x), axis=axis))
    with np.errstate(over="ignore"):
        wide = getattr(np, name)(x.astype(np.float64), axis=axis).astype(np.float16)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, wide)


def test_casts_from_float32_round_to_even():
    half = np.spacing(np.float16(1)) / 2
    x = np.array([1 + half, 1 + 3 * half, 65519, 65520, 2**-25, 3 * 2**-26], np.float32)
    got = np.asarray(pg.astype(pg.asarray(np.tile(x, 20_000)), "float16"))
    np.testing.assert_array_equal(got[:6], [1, 1 + 4 * half, 65504, np.inf, 0, 2**-24])
    np.testing.assert_array_equal(got, np.tile(got[:6], 20_000))
