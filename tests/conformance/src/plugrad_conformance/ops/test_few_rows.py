"""Products of a few rows with a matrix, for which backends have special kernels.

Some sizes are smaller than a vector, and most are not multiples of its width.
"""

import numpy as np
import plugrad as pg
import pytest

SIZES = [(1, 1), (3, 2), (16, 8), (33, 19), (96, 64), (133, 5), (257, 70)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_products_of_few_rows(rows, sizes, backend):
    inner, columns = sizes
    random = np.random.default_rng(rows)
    a = random.normal(size=(rows, inner)).astype(np.float32)
    b = random.normal(size=(inner, columns)).astype(np.float32)
    bias = random.normal(size=columns).astype(np.float32)
    expected = a.astype(np.float64) @ b
    limit = 1e-6 * (np.abs(a) @ np.abs(b)).max()
    turned = pg.asarray(b.T.copy())
    for found in (
        pg.matmul(a, b),
        pg.matmul(a, turned, transpose_b=True),
        pg.matmul(a.T.copy(), b, transpose_a=True),
        pg.matmul(a.T.copy(), turned, transpose_a=True, transpose_b=True),
    ):
        np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=limit)
    fused = pg.fused.matmul(a, turned, bias, transpose_b=True, activation="relu")
    np.testing.assert_allclose(
        fused.numpy(), np.maximum(expected + bias, 0), rtol=0, atol=limit + 1e-6
    )


def test_products_of_few_rows_in_batches(backend):
    random = np.random.default_rng(0)
    a = random.normal(size=(3, 4, 65)).astype(np.float32)
    b = random.normal(size=(3, 21, 65)).astype(np.float32)
    expected = a.astype(np.float64) @ b.swapaxes(-1, -2)
    limit = 1e-6 * np.abs(expected).max()
    found = pg.matmul(a, b, transpose_b=True)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=10 * limit)
    # One matrix for all rows of the batch.
    expected = a.astype(np.float64) @ b[0].T
    found = pg.matmul(a, b[0], transpose_b=True)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=10 * limit)


def test_nan_stays_in_its_row_and_column(backend):
    a = np.ones((4, 40), np.float32)
    b = np.ones((20, 40), np.float32)
    a[1, 39] = np.nan
    b[7, 0] = np.nan
    found = np.isnan(pg.matmul(a, b, transpose_b=True).numpy())
    expected = np.zeros((4, 20), bool)
    expected[1] = True
    expected[:, 7] = True
    assert (found == expected).all()
