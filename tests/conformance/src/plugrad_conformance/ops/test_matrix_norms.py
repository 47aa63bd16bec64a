"""Norms of matrices and of empty arrays."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

RNG = np.random.default_rng(0)
linalg = pg.linalg


def test_vector_norms_of_empty_arrays_and_integers(backend):
    empty = pg.asarray(np.empty((3, 0), np.float32))
    for ord in (2, 1, 3, 0, math.inf):
        assert linalg.vector_norm(empty, axis=1, ord=ord).tolist() == [0, 0, 0]
    for ord in (-1, -2, -0.5):
        assert linalg.vector_norm(empty, axis=1, ord=ord).tolist() == [math.inf] * 3
    assert linalg.vector_norm([3, 4]).item() == 5
    assert linalg.vector_norm([3, 4]).dtype == np.float32


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("ord", ["fro", 1, -1, math.inf, -math.inf])
def test_matrix_norm(ord, keepdims, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=(2, 3, 4))
    op = lambda x: linalg.matrix_norm(x, keepdims=keepdims, ord=ord)
    expected = np.linalg.norm(x, ord, (1, 2), keepdims)
    np.testing.assert_allclose(op(x).numpy(), expected, rtol=1e-12)
    check_gradients(op, x)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3), (2, 3, 0)])
def test_the_norm_of_an_empty_matrix_is_0(shape, backend):
    x = pg.zeros(shape)
    expected = np.zeros(shape[:-2], np.float32)
    for ord in ("fro", "nuc", 1, 2, math.inf):
        y = linalg.matrix_norm(x, ord=ord)
        np.testing.assert_array_equal(y.numpy(), expected, strict=True)
        y = linalg.matrix_norm(x, ord=ord, keepdims=True)
        assert y.shape == (*shape[:-2], 1, 1)
        total = lambda x, ord=ord: pg.sum(linalg.matrix_norm(x, ord=ord))
        assert pg.grad(total)(x).shape == shape
    for ord, size in ((-1, shape[-1]), (-math.inf, shape[-2]), (-2, 0)):
        if size:
            y = linalg.matrix_norm(x, ord=ord)
            np.testing.assert_array_equal(y.numpy(), expected, strict=True)
        else:
            with pytest.raises(ValueError, match=r"matrix_norm: ord .* no smallest"):
                linalg.matrix_norm(x, ord=ord)
