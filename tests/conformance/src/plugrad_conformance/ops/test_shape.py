"""Ops that change shapes and move elements; each row specifies one case."""

import numpy as np
import plugrad as pg
import pytest

from .moves import (
    DTYPES,
    Move,
    check_derivatives,
    check_parts,
    check_values,
    decomposed,
    sample,
)

MOVES = [
    Move("reshape", lambda x: pg.reshape(x, (4, -1)), lambda x: x.reshape(4, 6)),
    Move(
        "reshape to 0-d", lambda x: pg.reshape(x, ()), lambda x: x.reshape(()), (1, 1)
    ),
    Move("reshape empty", lambda x: pg.reshape(x, 0), lambda x: x.reshape(0), (2, 0)),
    Move(
        "expand_dims",
        lambda x: pg.expand_dims(x, axis=1),
        lambda x: x[:, None],
        kernel="ExpandDims",
    ),
    Move(
        "expand_dims last",
        lambda x: pg.expand_dims(x, axis=-1),
        lambda x: x[..., None],
        kernel="ExpandDims",
    ),
    Move(
        "expand_dims several",
        lambda x: pg.expand_dims(x, (-1, 0, 2)),
        lambda x: x[None, :, None, :, :, None],
    ),
    Move("expand_dims 0-d", pg.expand_dims, lambda x: x[None], (), "ExpandDims"),
    Move("squeeze", pg.squeeze, np.squeeze, (1, 2, 1, 3)),
    Move(
        "squeeze one", lambda x: pg.squeeze(x, -2), lambda x: x[:, :, 0], (1, 2, 1, 3)
    ),
    Move(
        "broadcast_to",
        lambda x: pg.broadcast_to(x, (5, 2, 3)),
        lambda x: np.broadcast_to(x, (5, 2, 3)),
        (2, 1),
    ),
    Move(
        "broadcast_to much",
        lambda x: pg.broadcast_to(x, (70, 2, 3, 40)),
        lambda x: np.broadcast_to(x, (70, 2, 3, 40)),
        (3, 1),
    ),
    Move(
        "tile",
        lambda x: pg.tile(x, (2, 3)),
        lambda x: np.tile(x, (2, 3)),
        kernel="Tile",
    ),
    Move(
        "tile more",
        lambda x: pg.tile(x, (2, 3, 1)),
        lambda x: np.tile(x, (2, 3, 1)),
        (2, 3),
        "Tile",
    ),
    Move(
        "tile none", lambda x: pg.tile(x, (0, 2)), lambda x: np.tile(x, (0, 2)), (2, 3)
    ),
    Move("repeat", lambda x: pg.repeat(x, 3), lambda x: np.repeat(x, 3)),
    Move(
        "repeat axis",
        lambda x: pg.repeat(x, 2, axis=-2),
        lambda x: np.repeat(x, 2, axis=-2),
    ),
    Move(
        "repeat each",
        lambda x: pg.repeat(x, pg.asarray([2, 0, 1]), axis=1),
        lambda x: np.repeat(x, [2, 0, 1], axis=1),
    ),
    Move(
        "concat",
        lambda x: pg.concat([x, x[:, :1]], axis=1),
        lambda x: np.concatenate([x, x[:, :1]], axis=1),
    ),
    Move(
        "concat flat",
        lambda x: pg.concat([x, x[0]], axis=None),
        lambda x: np.concatenate([x, x[0]], axis=None),
    ),
    Move(
        "concat empty",
        lambda x: pg.concat([x, x[:0], x], axis=0),
        lambda x: np.concatenate([x, x], axis=0),
    ),
    Move(
        "stack",
        lambda x: pg.stack([x, x + x], axis=-2),
        lambda x: np.stack([x, x + x], axis=-2),
        kernel="Pack",
    ),
    Move(
        "stack 0-d", lambda x: pg.stack([x, x]), lambda x: np.stack([x, x]), (), "Pack"
    ),
    Move("stack one", lambda x: pg.stack([x]), lambda x: x[None], kernel="Pack"),
    Move(
        "split sizes",
        lambda x: pg.split(x, [1, -1, 0], axis=-1),
        lambda x: [x[..., :1], x[..., 1:], x[..., :0]],
        kernel="SplitV",
    ),
    Move(
        "split in 2",
        lambda x: pg.split(x, 2),
        lambda x: np.split(x, 2),
        kernel="SplitV",
    ),
    Move(
        "unstack",
        lambda x: pg.unstack(x, axis=1),
        lambda x: [x[:, i] for i in range(3)],
        kernel="Unpack",
    ),
    Move("unstack 1-d", pg.unstack, list, (3,), "Unpack"),
    Move("unstack none", pg.unstack, list, (0, 2), "Unpack"),
    Move(
        "permute_dims",
        lambda x: pg.permute_dims(x, (2, 0, -2)),
        lambda x: x.transpose(2, 0, 1),
    ),
    Move("permute_dims 0-d", lambda x: pg.permute_dims(x, ()), lambda x: x, ()),
    Move(
        "moveaxis",
        lambda x: pg.moveaxis(x, (0, -1), (-1, 1)),
        lambda x: np.moveaxis(x, (0, -1), (-1, 1)),
        (2, 3, 4, 5),
    ),
    Move("flip", pg.flip, np.flip, kernel="Reverse"),
    Move(
        "flip axes",
        lambda x: pg.flip(x, axis=(0, -1)),
        lambda x: np.flip(x, (0, 2)),
        kernel="Reverse",
    ),
    Move("flip empty", pg.flip, np.flip, (2, 0), "Reverse"),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("move", MOVES, ids=str)
def test_values(move, dtype, backend):
    check_values(move, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64"])
@pytest.mark.parametrize("move", [m for m in MOVES if m.kernel], ids=str)
def test_the_decomposition_gives_the_same_values(move, dtype):
    check_parts(move, dtype)


@pytest.mark.parametrize(
    "move", [m for m in MOVES if m.name != "unstack none"], ids=str
)
def test_gradients(move, backend):
    check_derivatives(move)


def test_joining_promotes_dtypes(backend):
    integer = pg.asarray([1])
    floating = pg.asarray([0.5])
    assert pg.concat([integer, floating]).dtype == np.float32
    assert pg.stack([integer, floating]).tolist() == [[1.0], [0.5]]
    assert pg.stack([floating[0], 1]).dtype == np.float32
    small = pg.asarray(np.zeros(1, np.int8))
    assert pg.concat([small, small > 0]).dtype == np.int8
    dx = pg.grad(lambda x: pg.sum(pg.concat([integer, x], axis=0) * 3))(floating)
    assert dx.tolist() == [3.0]


def test_broadcast_arrays_keep_their_dtypes(backend):
    a, b = pg.broadcast_arrays([[1], [2]], [0.5, 0.25, 0.0])
    assert (a.shape, b.shape, a.dtype, b.dtype) == ((2, 3), (2, 3), "int32", "float32")
    assert pg.broadcast_arrays() == ()


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([], ()),
        ([(2, 3)], (2, 3)),
        ([(2, 1), (3,), (1, 1, 1)], (1, 2, 3)),
        ([(0,), (1,), 1], (0,)),
        ([[4], np.int64(4)], (4,)),
    ],
)
def test_broadcast_shapes(shapes, expected, backend):
    assert pg.broadcast_shapes(*shapes) == expected


def test_several_new_axes(backend):
    x = sample((2, 3))
    for axis in ((), (0,), (1, 0), (-1, 0), (0, 2, -1), [3, 1]):
        y = np.expand_dims(x, tuple(axis))
        np.testing.assert_array_equal(pg.expand_dims(x, axis).numpy(), y)
        assert pg.asarray(x).expand_dims(axis).shape == y.shape


SHAPE_PAIRS = [([1, 6, -1], [3, 1, 1, 1]), ([4, 2], [1]), ([], [5]), ([2, 3], [2, 3])]


@pytest.mark.parametrize(("s0", "s1"), SHAPE_PAIRS, ids=str)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_broadcast_args(s0, s1, dtype, backend):
    run = lambda a, b: pg.broadcast_args(np.array(a, dtype), np.array(b, dtype))
    n = max(len(s0), len(s1))
    padded = [[1] * (n - len(s)) + s for s in (s0, s1)]
    expected = [b if a == 1 else a for a, b in zip(*padded, strict=True)]
    assert run(s0, s1).tolist() == run(s1, s0).tolist() == expected
    with decomposed("BroadcastArgs"):
        assert run(s0, s1).tolist() == run(s1, s0).tolist() == expected


def test_ensure_shape_returns_the_values(backend):
    x = pg.asarray(sample((2, 3)))
    assert pg.ensure_shape(x, (2, None)).tolist() == x.tolist()


def test_splitting_gives_a_list_and_unstacking_a_tuple(backend):
    x = pg.asarray(sample((2, 3)))
    assert isinstance(pg.split(x, 1), list)
    assert isinstance(pg.unstack(x), tuple)
    assert isinstance(pg.split(x, np.int64(1))[0], pg.Tensor)


def test_a_view_survives_when_its_base_is_disposed(backend):
    x = pg.asarray(sample((2, 3)))
    y = pg.permute_dims(x, (1, 0))
    x.dispose()
    np.testing.assert_array_equal(y.numpy(), sample((2, 3)).T)


X = sample((2, 3))
ERRORS = [
    (lambda: pg.reshape(X, (4, -1)), ValueError, r"shape \(2, 3\) with 6 elements"),
    (lambda: pg.reshape(X, (-2, -3)), ValueError, r"\(-2, -3\) has a negative size"),
    (lambda: pg.reshape(X, (2.0, 3)), TypeError, "reshape: shape must be integers"),
    (lambda: pg.expand_dims(X, axis=3), ValueError, "expand_dims: axis 3 is out of"),
    (lambda: pg.expand_dims(X, axis=0.5), TypeError, "axis must be an integer"),
    (lambda: pg.expand_dims(X, (0, 4)), IndexError, "expand_dims: axis 4 is out of"),
    (lambda: pg.expand_dims(X, (0, -4)), ValueError, "names one axis twice"),
    (lambda: pg.expand_dims(X, (0, 0.5)), TypeError, "axis must be integers"),
    (lambda: pg.broadcast_shapes((2,), 3), ValueError, "broadcast_shapes: shapes"),
    (lambda: pg.broadcast_shapes((-1,)), ValueError, "must not be negative"),
    (lambda: pg.broadcast_shapes((2, None)), TypeError, "must be integers"),
    (lambda: pg.squeeze(X, 1), ValueError, r"axis 1 must have size 1; .* \(2, 3\)"),
    (lambda: pg.squeeze(X, (0, 0)), ValueError, "names one axis twice"),
    (
        lambda: pg.ensure_shape(X, (2, None, 1)),
        ValueError,
        r"shape \(2, None, 1\), got \(2, 3\)",
    ),
    (lambda: pg.broadcast_to(X, (2, 2)), ValueError, "broadcast_to: shapes"),
    (lambda: pg.broadcast_to(X, (3,)), ValueError, "x must broadcast to"),
    (lambda: pg.broadcast_to(X, (2, 3.5)), TypeError, "shape must be integers"),
    (lambda: pg.broadcast_arrays(X, X.T), ValueError, "broadcast_arrays: shapes"),
    (lambda: pg.broadcast_args([1.0], [2.0]), TypeError, "must be integers, got"),
    (lambda: pg.broadcast_args(2, [2]), ValueError, "must be of rank 1"),
    (lambda: pg.tile(X, (-1, 2)), ValueError, "must not be negative"),
    (lambda: pg.tile(X, 1.5), TypeError, "tile: repetitions must be integers"),
    (
        lambda: pg.repeat(X, -1),
        ValueError,
        "repeat: expected one non-negative integer or 6",
    ),
    (lambda: pg.repeat(X, [1, 2], axis=1), ValueError, "integer or 3 of them"),
    (lambda: pg.repeat(X, 1.5), TypeError, "repeats must be integers"),
    (lambda: pg.concat([]), ValueError, "concat: there is nothing to join"),
    (lambda: pg.stack([]), ValueError, "stack: there is nothing to join"),
    (lambda: pg.concat([X, X.T]), ValueError, r"\(2, 3\) and \(3, 2\)"),
    (lambda: pg.concat([X, X[0]]), ValueError, "agree outside axis 0"),
    (lambda: pg.concat([1.0, 2.0]), ValueError, "axis 0 is out of range for rank 0"),
    (lambda: pg.stack([X, X[:1]]), ValueError, "stack: shapes"),
    (lambda: pg.split(X, [1, 1], axis=1), ValueError, r"\(1, 1\) do not add up to 3"),
    (lambda: pg.split(X, [-1, -1], axis=1), ValueError, "do not add up"),
    (lambda: pg.split(X, [5, -1, -2]), ValueError, "do not add up"),
    (lambda: pg.split(X, 2, axis=1), ValueError, "split: cannot split size 3 into 2"),
    (lambda: pg.split(X, 0), ValueError, "into 0 equal pieces"),
    (lambda: pg.unstack(1.0), ValueError, "unstack: axis 0 is out of range"),
    (lambda: pg.permute_dims(X, (0,)), ValueError, "permute_dims: axes"),
    (lambda: pg.permute_dims(X, (0, -2)), ValueError, r"each axis once; .* \(2, 3\)"),
    (lambda: pg.permute_dims(X, (0, 0.5)), TypeError, "axes must be integers"),
    (lambda: pg.moveaxis(X, (0, 1), (0, -2)), ValueError, "axes, each once"),
    (
        lambda: pg.moveaxis(X, 0, (0, 1)),
        ValueError,
        r"source 0 and destination \(0, 1\)",
    ),
    (lambda: pg.flip(X, axis=2), ValueError, "flip: axis 2 is out of range"),
    (lambda: pg.flip(X, axis=0.5), TypeError, "flip: axis must be integers"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()


def test_broadcast_args_checks_the_values_of_the_shapes(backend):
    message = r"broadcast_args: shapes .1, 2. and .1, 3. do not broadcast"
    with pytest.raises(ValueError, match=message):
        pg.broadcast_args([1, 2], [1, 3]).numpy()


# Functions of x, whose first axis has 4 elements, and of its number of axes.
CALLS_WITH_MANY_AXES = {
    "add": lambda x, n: x + 1.0,
    "broadcast": lambda x, n: x + pg.reshape(pg.ones((3,)), (1,) * (n - 1) + (3,)),
    "where": lambda x, n: pg.where(x > 0.0, x, 0.0),
    "sum": lambda x, n: pg.sum(x, axis=0),
    "permute_dims": lambda x, n: pg.permute_dims(x, tuple(range(n))[::-1]),
    "broadcast_to": lambda x, n: pg.broadcast_to(pg.ones((3,)), (1,) * (n - 1) + (3,)),
    "stack": lambda x, n: pg.stack([pg.reshape(x, x.shape[:-1])] * 2),
    "concat": lambda x, n: pg.concat([x, x]),
    "matmul": lambda x, n: pg.ones((1,) * (n - 2) + (2, 3)) @ pg.ones((3, 4)),
    "take": lambda x, n: pg.take(x, pg.asarray([0, 1]), axis=0),
    "pad": lambda x, n: pg.pad(x, [(1, 1)] + [(0, 0)] * (n - 1)),
    "slice": lambda x, n: x[1:3],
    "gradient": lambda x, n: pg.grad(lambda x: pg.sum(x * 2.0))(x),
}


@pytest.mark.parametrize("axes", [33, 64])
@pytest.mark.parametrize("name", CALLS_WITH_MANY_AXES)
def test_as_many_axes_as_numpy_allows(name, axes, backend):
    shape = (4,) + (1,) * (axes - 1)
    found = CALLS_WITH_MANY_AXES[name](pg.reshape(pg.ones((4,)), shape), axes)
    with pg.use_backend("cpu"):
        expected = CALLS_WITH_MANY_AXES[name](pg.reshape(pg.ones((4,)), shape), axes)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize(
    "make",
    [
        lambda: pg.reshape(pg.ones((4,)), (4,) + (1,) * 64),
        lambda: pg.zeros((1,) * 65),
        lambda: pg.ones((1,) * 64)[None],
        lambda: pg.stack([pg.ones((1,) * 64)] * 2),
        lambda: pg.broadcast_to(pg.ones((3,)), (1,) * 64 + (3,)),
    ],
)
def test_one_axis_more_than_numpy_allows(make, backend):
    """The backend refuses it, at the latest when the values are read."""
    with pytest.raises(ValueError, match="64"):
        make().numpy()
