"""Packed weights equal those that the package gguf unpacks."""

import gguf
import numpy as np
import plugrad as pg
import pytest
from plugrad_gguf.packed import ENCODINGS, MEASURED, PackedWeight, packed_bytes
from plugrad_gguf.reader import TensorInfo

Kind = gguf.GGMLQuantizationType
# Where the float16 factors of a block are, by type.
FACTORS = {
    Kind.Q4_0: [0],
    Kind.Q4_1: [0, 2],
    Kind.Q8_0: [0],
    Kind.Q5_0: [0],
    Kind.Q5_1: [0, 2],
    Kind.Q2_K: [80, 82],
    Kind.Q3_K: [108],
    Kind.Q4_K: [0, 2],
    Kind.Q5_K: [0, 2],
    Kind.Q6_K: [208],
}
ROWS, BLOCKS = 5, 3


def matrix(kind, factors):
    """Return a matrix of random blocks with the given factors."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(kind.value)
    data = rng.integers(0, 256, (ROWS * BLOCKS, size), np.uint8)
    for at, number in zip(FACTORS[kind], factors, strict=False):
        chosen = np.full(len(data), number) * rng.choice([0.5, 1, 2], len(data))
        data[:, at : at + 2] = chosen.astype("<f2").view(np.uint8).reshape(-1, 2)
    return TensorInfo(kind, (ROWS, BLOCKS * block), data.reshape(ROWS, -1))


def test_all_packed_types_are_tested():
    assert {*FACTORS} == {*ENCODINGS, *MEASURED}


@pytest.mark.parametrize("kind", FACTORS, ids=lambda kind: kind.name)
def test_rows_and_products(kind, backend):
    info = matrix(kind, (0.01, 0.3))
    expected = gguf.dequantize(info.data, kind)
    weight = PackedWeight.from_file(info)
    codes = pg.asarray([4, 0, 0, 2])
    # float16 factors are multiplied in another order, so a bit may differ.
    np.testing.assert_allclose(
        weight.rows(codes).numpy(), expected[[4, 0, 0, 2]], rtol=1e-6, atol=1e-6
    )
    x = np.random.default_rng(0).standard_normal((2, info.shape[1])).astype("f4")
    wanted = x.astype(float) @ expected.T
    largest = np.abs(wanted).max()
    for rows in (x, x[:1], np.concatenate([x] * 4)):
        found = weight.product(pg.asarray(rows)).numpy()
        np.testing.assert_allclose(
            found, np.resize(wanted, found.shape), atol=2e-5 * largest
        )


@pytest.mark.parametrize("kind", FACTORS, ids=lambda kind: kind.name)
def test_the_announced_memory_is_used(kind):
    with pg.use_backend("cpu"):
        weight = PackedWeight.from_file(matrix(kind, (0.01, 0.3)))
        parts = (weight.codes, weight.scale, weight.offset)
        used = sum(x.numpy().nbytes for x in parts if x is not None)
    assert used == packed_bytes(matrix(kind, (0.01, 0.3)))


@pytest.mark.parametrize("factors", [(0.0, 0.3), (0.0, 0.0), (np.nan, 1), (np.inf, 1)])
@pytest.mark.parametrize("kind", MEASURED, ids=lambda kind: kind.name)
def test_factors_that_are_zero_or_not_finite(kind, factors, recwarn):
    info = matrix(kind, factors)
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(info.data, kind)
    with pg.use_backend("cpu"):
        found = PackedWeight.from_file(info).rows(pg.arange(ROWS)).numpy()
    finite = np.isfinite(expected)
    if np.isfinite(factors[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    else:
        assert not np.isfinite(found[~finite]).any()
    assert not recwarn.list


def test_many_rows_are_measured_in_pieces(monkeypatch):
    info = matrix(Kind.Q4_K, (0.01, 0.3))
    monkeypatch.setattr("plugrad_gguf.packed.CHUNK_ELEMENTS", 2 * info.shape[1])
    with pg.use_backend("cpu"):
        found = PackedWeight.from_file(info).rows(pg.arange(ROWS)).numpy()
    np.testing.assert_allclose(
        found, gguf.dequantize(info.data, Kind.Q4_K), rtol=1e-6, atol=1e-6
    )
