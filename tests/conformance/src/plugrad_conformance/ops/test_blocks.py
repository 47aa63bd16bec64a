"""Ops that move spatial blocks, compared with NumPy loops and with their inverses."""

import numpy as np
import plugrad as pg
import pytest

from .moves import (
    DTYPES,
    Move,
    check_derivatives,
    check_parts,
    check_values,
    sample,
)


def depth_to_space(x, block, channels_first=False):
    x = np.moveaxis(x, 1, -1) if channels_first else x
    n, h, w, c = x.shape
    y = np.empty((n, h * block, w * block, c // block**2), x.dtype)
    for i in range(block):
        for j in range(block):
            at = (i * block + j) * y.shape[3]
            y[:, i::block, j::block] = x[..., at : at + y.shape[3]]
    return np.moveaxis(y, -1, 1) if channels_first else y


def space_to_batch(x, blocks, paddings):
    x = np.pad(x, [(0, 0), *paddings, *[(0, 0)] * (x.ndim - 1 - len(blocks))])
    parts = [
        x[(slice(None), *[slice(i, None, b) for i, b in zip(at, blocks, strict=True)])]
        for at in np.ndindex(*blocks)
    ]
    return np.concatenate(parts, axis=0)


def batch_to_space(y, blocks, crops):
    n = y.shape[0] // int(np.prod(blocks))
    space = [s * b for s, b in zip(y.shape[1:], blocks, strict=False)]
    x = np.empty((n, *space, *y.shape[len(blocks) + 1 :]), y.dtype)
    for i, at in enumerate(np.ndindex(*blocks)):
        steps = [slice(a, None, b) for a, b in zip(at, blocks, strict=True)]
        x[(slice(None), *steps)] = y[i * n : (i + 1) * n]
    cuts = [slice(a, n - b) for n, (a, b) in zip(space, crops, strict=True)]
    return x[(slice(None), *cuts)]


def batch_move(blocks, paddings, shape):
    return Move(
        f"space_to_batch_nd {blocks} {paddings}",
        lambda x: pg.space_to_batch_nd(x, blocks, paddings),
        lambda x: space_to_batch(x, blocks, paddings),
        shape,
        "SpaceToBatchND",
    )


def space_move(blocks, crops, shape):
    return Move(
        f"batch_to_space_nd {blocks} {crops}",
        lambda x: pg.batch_to_space_nd(x, blocks, crops),
        lambda x: batch_to_space(x, blocks, crops),
        shape,
        "BatchToSpaceND",
    )


MOVES = [
    Move(
        "depth_to_space",
        lambda x: pg.depth_to_space(x, 2),
        lambda x: depth_to_space(x, 2),
        (2, 2, 3, 8),
        "DepthToSpace",
    ),
    Move(
        "depth_to_space NCHW",
        lambda x: pg.depth_to_space(x, 3, data_format="NCHW"),
        lambda x: depth_to_space(x, 3, channels_first=True),
        (1, 9, 1, 2),
        "DepthToSpace",
    ),
    batch_move((2,), [(0, 0)], (2, 4)),
    batch_move((2, 3), [(1, 0), (2, 0)], (2, 3, 4, 2)),
    batch_move((2, 2), [(0, 1), (0, 0)], (0, 1, 2, 3)),
    batch_move((), [], (2, 3)),
    space_move((2,), [(0, 0)], (4, 3)),
    space_move((2, 3), [(1, 0), (2, 3)], (12, 2, 2, 2)),
    space_move((1, 2), [(0, 1), (2, 2)], (2, 1, 2)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("move", MOVES, ids=str)
def test_values(move, dtype, backend):
    check_values(move, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64"])
@pytest.mark.parametrize("move", MOVES, ids=str)
def test_the_decomposition_gives_the_same(move, dtype):
    check_parts(move, dtype)


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_gradients(move, backend):
    check_derivatives(move)


def test_an_op_and_its_inverse_cancel(backend):
    x = sample((3, 5, 4, 2))
    blocks = (2, 3)
    paddings = [(1, 2), (0, 2)]
    y = pg.space_to_batch_nd(x, blocks, paddings)
    back = pg.batch_to_space_nd(y, blocks, paddings)
    np.testing.assert_array_equal(back.numpy(), x)


def test_strings_are_padded_with_empty_strings(backend):
    y = pg.space_to_batch_nd(pg.asarray([["a", "b"]]), [3], [(0, 1)])
    assert y.tolist() == [[b"a"], [b"b"], [b""]]


X = sample((1, 2, 2, 4))
ERRORS = [
    (
        lambda: pg.depth_to_space(X, 3),
        ValueError,
        "its square must divide the channels",
    ),
    (lambda: pg.depth_to_space(X, 1), ValueError, "block_size 1 must be 2 or more"),
    (lambda: pg.depth_to_space(X[0], 2), ValueError, "must have rank 4"),
    (lambda: pg.depth_to_space(X, 2, data_format="CHWN"), ValueError, "'NHWC' or"),
    (lambda: pg.space_to_batch_nd(X, [2, 2], [[0, 0]]), ValueError, "2 pairs"),
    (
        lambda: pg.space_to_batch_nd(X, [3], [[0, 0]]),
        ValueError,
        "block size 3 must divide size 2",
    ),
    (lambda: pg.space_to_batch_nd(X, [0], [[0, 0]]), ValueError, "positive sizes"),
    (lambda: pg.space_to_batch_nd(X, [1] * 4, [[0, 0]] * 4), ValueError, "fewer than"),
    (
        lambda: pg.batch_to_space_nd(X, [2], [[0, 0]]),
        ValueError,
        r"the 2 elements of a block \(2,\) must divide the batch; got shape \(1",
    ),
    (lambda: pg.batch_to_space_nd(X, [1], [[2, 1]]), ValueError, "crops .2, 1. remo"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
