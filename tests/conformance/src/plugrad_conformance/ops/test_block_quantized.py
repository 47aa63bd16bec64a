"""Weights of 4 or 8 bits with a scale for each block: products, unpacking, packing."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes

block_matmul = pg.quantized.block_matmul


@pytest.fixture(autouse=True)
def bytes_on_the_backend(backend):
    """Skip on backends without the dtypes of codes."""
    require_dtypes(backend, "int8", "uint8")


def unpacked(codes, scale, offset, bits):
    """Return the weights that the codes stand for, in float64."""
    codes = codes.numpy()
    if bits == 4:
        parts = np.stack([codes & 15, codes >> 4], axis=-1)
        codes = parts.reshape(*codes.shape[:-1], -1)
    blocks = codes.astype(float).reshape(*scale.shape, -1)
    w = blocks * scale.numpy().astype(float)[..., None]
    w = w if offset is None else w + offset.numpy()[..., None]
    return w.reshape(codes.shape)


def rounded(x, blocks):
    """Round each block of the last axis to 8 bits."""
    parts = x.reshape(*x.shape[:-1], blocks, -1)
    largest = np.abs(parts).max(-1, keepdims=True)
    factor = np.where(largest > 0, np.float32(127) / np.maximum(largest, 1e-30), 0)
    y = np.rint(parts * factor.astype(np.float32)).astype(float) * largest / 127
    return y.reshape(x.shape)


def packed(random, outputs, inputs, **how):
    w = random.normal(size=(outputs, inputs)).astype(np.float32)
    return w, pg.quantized.quantize_blocks(w, **how)


# Outputs and blocks. Kernels read blocks in groups, and then those that remain.
SIZES = [(1, 1), (2, 1), (3, 3), (5, 2), (17, 4), (40, 5), (3, 19)]


# Various numbers of rows with blocks of 32, and various block sizes with one and two.
ROWS_AND_BLOCKS = [(rows, 32) for rows in [(), (1,), (3,), (4,), (2, 3), (0,)]]
ROWS_AND_BLOCKS += [((1,), block) for block in (64, 96, 128)]
ROWS_AND_BLOCKS += [((2,), block) for block in (2, 16, 32, 64, 128)]


@pytest.mark.parametrize(("rows", "block"), ROWS_AND_BLOCKS, ids=str)
@pytest.mark.parametrize("bits", [4, 8])
def test_products(bits, rows, block, backend):
    random = np.random.default_rng(block)
    for outputs, blocks in SIZES:
        for symmetric in (False, True):
            how = {"bits": bits, "block": block, "symmetric": symmetric}
            _, parts = packed(random, outputs, blocks * block, **how)
            x = random.normal(size=(*rows, blocks * block)).astype(np.float32)
            w = unpacked(*parts, bits)
            y = block_matmul(x, *parts, bits=bits)
            limit = 2e-6 * (np.abs(x) @ np.abs(w).T + 1).max(initial=1)
            np.testing.assert_allclose(y.numpy(), x @ w.T, rtol=0, atol=limit)
            if x.size:
                y = block_matmul(x, *parts, bits=bits, rounded=True)
                expected = rounded(x, blocks) @ w.T
                np.testing.assert_allclose(y.numpy(), expected, rtol=0, atol=2 * limit)


@pytest.mark.parametrize("bits", [4, 8])
def test_the_codes_are_the_nearest(bits, backend):
    random = np.random.default_rng(0)
    for symmetric in (False, True):
        how = {"bits": bits, "block": 16, "symmetric": symmetric}
        w, (codes, scale, offset) = packed(random, 6, 48, **how)
        found = pg.quantized.dequantize_blocks(codes, scale, offset, bits=bits)
        expected = unpacked(codes, scale, offset, bits)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-6)
        error = np.abs(found.numpy() - w).reshape(6, 3, 16)
        assert (error <= scale.numpy()[..., None] * 0.5001 + 1e-6).all()
        assert (offset is None) == (symmetric and bits == 8)
        assert codes.dtype == ("int8" if symmetric and bits == 8 else "uint8")
    zeros = pg.quantized.quantize_blocks(np.zeros((2, 4), np.float32), bits=4, block=4)
    assert pg.quantized.dequantize_blocks(*zeros, bits=4).tolist() == [[0.0] * 4] * 2


def test_rows_of_an_embedding(backend):
    _, (codes, scale, offset) = packed(np.random.default_rng(0), 7, 64, bits=4)
    ids = pg.asarray([3, 0, 3])
    some = [pg.take(t, ids, axis=0) for t in (codes, scale, offset)]
    found = pg.quantized.dequantize_blocks(*some, bits=4)
    expected = unpacked(codes, scale, offset, 4)[[3, 0, 3]]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_gradients(backend):
    require_dtypes(backend, "float64")
    random = np.random.default_rng(0)
    x = random.normal(size=(3, 8))
    for bits in (4, 8):
        codes = random.integers(0, 255, (5, bits), np.uint8)
        scale, offset = random.normal(size=(2, 5, 2))
        op = lambda *xs, c=codes, b=bits: block_matmul(xs[0], c, *xs[1:], bits=b)
        check_gradients(op, x, scale, offset)
        check_gradients(op, x, scale)
        unpack = lambda *xs, c=codes, b=bits: pg.quantized.dequantize_blocks(
            c, *xs, bits=b
        )
        check_gradients(unpack, scale, offset)


def test_the_gradient_ignores_the_rounding_of_x(backend):
    _, parts = packed(np.random.default_rng(0), 3, 32, bits=4)
    x = pg.asarray(np.random.default_rng(1).normal(size=(2, 32)).astype(np.float32))
    slopes = [
        pg.grad(lambda x, r=r: pg.sum(block_matmul(x, *parts, bits=4, rounded=r)))(x)
        for r in (False, True)
    ]
    np.testing.assert_allclose(slopes[1].numpy(), slopes[0].numpy(), rtol=1e-6)


def test_jit_and_vmap(backend):
    _, parts = packed(np.random.default_rng(0), 9, 64, bits=4)
    x = pg.asarray(np.random.default_rng(1).normal(size=(2, 64)).astype(np.float32))
    y = block_matmul(x, *parts, bits=4)
    jitted = pg.jit(lambda x: block_matmul(x, *parts, bits=4))
    for _ in range(3):
        np.testing.assert_array_equal(jitted(x).numpy(), y.numpy())
    each = pg.vmap(lambda x: block_matmul(x, *parts, bits=4))(x)
    np.testing.assert_allclose(each.numpy(), y.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rounds", [False, True])
def test_nan_and_zeros(rounds, backend):
    _, parts = packed(np.random.default_rng(0), 4, 64, bits=4)
    x = np.zeros((2, 64), np.float32)
    x[1, 40] = np.nan
    y = block_matmul(x, *parts, bits=4, rounded=rounds).numpy()
    assert (y[0] == 0).all()
    assert np.isnan(y[1]).all()


CODES = np.ones((3, 8), np.uint8)
SCALE = np.ones((3, 2), np.float32)
X = np.ones((1, 8), np.float32)
ERRORS = [
    ((X, CODES, SCALE), {"bits": 3}, ValueError, "bits must be 4 or 8, got 3"),
    (
        (X, CODES.astype("i4"), SCALE),
        {"bits": 8},
        TypeError,
        "int8 or uint8, got int32",
    ),
    ((X, CODES.astype("i1"), SCALE), {"bits": 4}, TypeError, "4-bit codes must be"),
    ((X, CODES, SCALE[:2]), {"bits": 8}, ValueError, "scale must be"),
    ((X, CODES, np.ones((3, 3), "f")), {"bits": 8}, ValueError, "blocks divides"),
    ((X, CODES, SCALE, SCALE[:, :1]), {"bits": 8}, ValueError, "shape of scale"),
    ((X, CODES, SCALE), {"bits": 4}, ValueError, r"x must be \[..., 16\]"),
    ((X, CODES[0], SCALE[0]), {"bits": 8}, ValueError, "codes .outputs, .* packed"),
    ((X * 1j, CODES, SCALE), {"bits": 8}, TypeError, "complex"),
]


@pytest.mark.parametrize(("arrays", "options", "error", "message"), ERRORS)
def test_errors_of_products(arrays, options, error, message, backend):
    if "complex" in message:
        require_dtypes(backend, "complex64")
        arrays = (arrays[0].astype(np.complex64), *arrays[1:])
    with pytest.raises(error, match=f"quantized.block_matmul: .*{message}"):
        block_matmul(*arrays, **options)


PACKING_ERRORS = [
    (np.ones(6, "f"), {"bits": 4, "block": 4}, "multiple of block, 4"),
    (np.ones(4, "f"), {"bits": 5}, "bits must be 4 or 8"),
    (np.full(32, np.inf, "f"), {"bits": 8}, "must be finite"),
]


@pytest.mark.parametrize(("w", "options", "message"), PACKING_ERRORS)
def test_errors_of_packing(w, options, message, backend):
    with pytest.raises(ValueError, match=f"quantized.quantize_blocks: .*{message}"):
        pg.quantized.quantize_blocks(w, **options)
