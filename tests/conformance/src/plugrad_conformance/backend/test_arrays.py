"""Uploads and downloads: every dtype and layout, exact to the bit, and as copies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from .test_primitives import DTYPES

SHAPES = [(), (1,), (5,), (0,), (3, 0, 2), (2, 3, 4), (1, 1, 1, 7)]


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the extreme values of a dtype and some between them."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        extremes = np.asarray([True, False])
    elif kind in "iu":
        extremes = np.asarray([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 7], dtype)
    else:
        extremes = np.asarray([np.nan, np.inf, -np.inf, -0.0, 1.5, -2.25], dtype)
        extremes = extremes * complex_factor(dtype)
    return np.resize(extremes, shape).astype(dtype)


def complex_factor(dtype: str) -> complex:
    """Return a factor that gives complex dtypes an imaginary part."""
    return 1 - 2j if np.dtype(dtype).kind == "c" else 1


def contiguous(x: np.ndarray) -> np.ndarray:
    """Return a row-major array that is not a view."""
    return np.array(x, order="C")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_values_come_back(dtype: str, backend: str) -> None:
    for shape in SHAPES:
        x = values(dtype, shape)
        y = pg.asarray(x)
        assert y.backend == backend
        assert (y.shape, y.dtype) == (x.shape, x.dtype)
        downloaded = y.numpy()
        assert (downloaded.shape, downloaded.dtype) == (x.shape, x.dtype)
        assert contiguous(downloaded).tobytes() == contiguous(x).tobytes()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::-1, ::2],
        lambda x: x[:, 1:3],
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: np.asfortranarray(x),
        lambda x: x[0, 0],
    ],
    ids=["transposed", "strided", "part", "broadcast", "column-major", "scalar"],
)
def test_numpy_views_are_uploaded_correctly(view, backend: str) -> None:
    x = view(np.arange(24, dtype=np.float32).reshape(4, 6))
    np.testing.assert_array_equal(pg.asarray(x).numpy(), x)
    np.testing.assert_array_equal((pg.asarray(x) + 1).numpy(), x + 1)


def test_an_upload_is_a_copy(backend: str) -> None:
    x = np.arange(6, dtype=np.float32)
    y = pg.asarray(x)
    x[:] = -1
    np.testing.assert_array_equal(y.numpy(), [0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("values", "other"), [([0.0, 1.0, 2.0], -1), ([b"a", b"bc", b""], b"z")]
)
@pytest.mark.parametrize("read", [lambda y: y.numpy(), np.asarray])
def test_writing_into_a_download_leaves_the_tensor_unchanged(
    read: Callable[[pg.Tensor], np.ndarray],
    values: list[object],
    other: object,
    backend: str,
) -> None:
    if other == b"z" and "string" not in runtime(backend).dtypes:
        pytest.skip(f"{backend} has no string")
    y = pg.asarray(values)
    for tensor in (y, pg.reshape(y, (3, 1)), pg.concat([y, y])):
        downloaded = read(tensor)
        if downloaded.flags.writeable:
            downloaded[:] = other
    assert y.tolist() == values


def test_a_native_array_has_shape_dtype_and_size(backend: str) -> None:
    arrays = runtime(backend).arrays
    for dtype in ("float32", "int32", "bool"):
        x = arrays.upload(np.zeros((2, 3), dtype))
        assert type(x.shape) is tuple
        assert [type(n) for n in x.shape] == [int, int]
        assert isinstance(x.dtype, np.dtype)
        assert (x.shape, x.dtype) == ((2, 3), np.dtype(dtype))
        assert arrays.nbytes(x) >= 6 * np.dtype(dtype).itemsize


def test_the_largest_array_fits(backend: str) -> None:
    """An array of ``max_nbytes`` fits on the device; larger arrays are refused."""
    limit = runtime(backend).max_nbytes
    if limit is None:
        pytest.skip(f"{backend} declares no max_nbytes")
    with pytest.raises(MemoryError, match=rf"{backend}' holds at most {limit:,} in"):
        pg.zeros((limit // 4 + 1,))
    if limit > 1 << 28:
        pytest.skip("the largest array needs too much memory")
    x = pg.ones((limit // 4,))
    assert x[-1].item() == 1
    assert pg.sum(x).item() == pytest.approx(limit // 4, rel=1e-5)


def test_every_backend_has_bool_int32_and_float32(backend: str) -> None:
    assert {"bool", "int32", "float32"} <= {*runtime(backend).dtypes}


@pytest.mark.parametrize("dtype", DTYPES)
def test_undeclared_dtypes_are_refused_and_never_cast(dtype: str, backend: str) -> None:
    if dtype in runtime(backend).dtypes:
        assert pg.zeros((2,), dtype=dtype).dtype == dtype
        assert pg.astype(pg.zeros((2,)), dtype).dtype == dtype
        return
    with pytest.raises(TypeError, match=f"has no {dtype}"):
        pg.asarray(np.zeros(2, dtype)).dtype  # noqa: B018
    with pytest.raises(TypeError, match=f"has no {dtype}"):
        pg.astype(pg.zeros((2,)), dtype)


def test_a_tensor_moves_to_numpy_and_to_other_backends(backend: str) -> None:
    x = pg.asarray([[1.0, 2.0], [3.0, 4.0]])
    for other in pg.backends():
        moved = x.to(other)
        assert moved.backend == other
        np.testing.assert_array_equal(moved.to(backend).numpy(), x.numpy())
