"""Arrays of millions of elements: sizes that no block size divides, accurate sums."""

from __future__ import annotations

import numpy as np
import plugrad as pg
import pytest

SIZE = (1 << 22) + 3


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(0).uniform(-4, 4, SIZE).astype(np.float32)


def test_elementwise(x: np.ndarray, backend: str) -> None:
    found = pg.exp(pg.asarray(x)).numpy()
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=4e-7)
    found = (pg.asarray(x) * 2 + pg.asarray(x[::-1])).numpy()
    np.testing.assert_allclose(found, x * 2 + x[::-1], rtol=1e-6, atol=1e-6)


def test_a_long_sum_is_accurate(x: np.ndarray, backend: str) -> None:
    """Sums are pairwise or better: a single float32 accumulator is off by thousands."""
    ones = pg.sum(pg.ones((SIZE,)) * 0.1).item()
    assert ones == pytest.approx(SIZE * float(np.float32(0.1)), rel=2e-6)
    assert pg.sum(pg.abs(pg.asarray(x))).item() == pytest.approx(
        np.abs(x).sum(dtype=np.float64), rel=2e-6
    )


def test_reductions_of_a_table_of_three_columns(x: np.ndarray, backend: str) -> None:
    table = x[: SIZE // 3 * 3].reshape(-1, 3)
    found = pg.sum(pg.asarray(table), axis=1).numpy()
    np.testing.assert_allclose(found, table.sum(1), rtol=1e-5, atol=1e-5)
    found = pg.max(pg.asarray(table), axis=0).numpy()
    np.testing.assert_array_equal(found, table.max(0))


def test_moves(x: np.ndarray, backend: str) -> None:
    table = x[: SIZE // 7 * 7].reshape(7, -1)
    found = pg.permute_dims(pg.asarray(table), (1, 0)).numpy()
    np.testing.assert_array_equal(found, table.T)
    found = pg.concat([pg.asarray(x), pg.asarray(x)]).numpy()
    np.testing.assert_array_equal(found, np.concatenate([x, x]))
    indices = np.arange(0, SIZE, 1001, dtype=np.int32)
    np.testing.assert_array_equal(pg.take(pg.asarray(x), indices).numpy(), x[indices])


def test_six_axes(backend: str) -> None:
    x = np.arange(2 * 3 * 2 * 3 * 2 * 3, dtype=np.float32).reshape(2, 3, 2, 3, 2, 3)
    axes = (5, 0, 3, 2, 4, 1)
    y = pg.permute_dims(pg.asarray(x), axes)
    np.testing.assert_array_equal(y.numpy(), x.transpose(axes))
    np.testing.assert_array_equal(
        pg.sum(y, axis=(0, 3)).numpy(), x.transpose(axes).sum((0, 3))
    )
    np.testing.assert_array_equal(
        (y + y[:1]).numpy(), (x.transpose(axes) + x.transpose(axes)[:1])
    )
