"""Slicing, rolling and padding; each row specifies one case."""

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


def strided(begin, size, strides):
    attrs = {"begin": begin, "size": size, "strides": strides}
    return lambda x: pg.run_kernel("StridedSlice", [x], attrs)


def padding(mode, *pairs, **options):
    return (
        lambda x: pg.pad(x, pairs, mode=mode, **options),
        lambda x: np.pad(x, pairs, mode, **options),
    )


MOVES = [
    Move(
        "slice",
        lambda x: pg.slice(x, [1, 0, 2], [1, 2, -1]),
        lambda x: x[1:, :2, 2:],
        kernel="Slice",
    ),
    Move("slice begin", lambda x: pg.slice(x, 1), lambda x: x[1:], kernel="Slice"),
    Move(
        "slice nothing",
        lambda x: pg.slice(x, [1, 3], [0, 0]),
        lambda x: x[1:1, 3:3],
        kernel="Slice",
    ),
    Move("slice 0-d", lambda x: pg.slice(x, []), lambda x: x, (), "Slice"),
    Move(
        "strided forwards",
        strided((0, 1, 1), (2, 1, 2), (1, 5, 2)),
        lambda x: x[:, 1:2, 1::2],
    ),
    Move(
        "strided backwards",
        strided((1, 2, 3), (2, 2, 2), (-1, -2, -3)),
        lambda x: x[::-1, ::-2, ::-3],
    ),
    Move("strided with a rest", strided((1,), (3,), (3,)), lambda x: x[1:9:3], (9,)),
    Move("strided none", strided((0,), (0,), (2,)), lambda x: x[:0], (5,)),
    Move(
        "strided_slice",
        lambda x: pg.strided_slice(x, [0, 3], [2, 0], [1, -2]),
        lambda x: x[0:2, 3:0:-2],
        (3, 4),
    ),
    Move(
        "strided_slice masks",
        lambda x: pg.strided_slice(
            x,
            *([1, 9, -1, 9, 9], [9, 9, 0, 9, 9], [1, 9, 1, 9, 1]),
            begin_mask=0b10001,
            end_mask=0b10001,
            ellipsis_mask=0b00010,
            new_axis_mask=0b01000,
            shrink_axis_mask=0b00100,
        ),
        lambda x: x[:, ..., -1, None, :],
        (2, 3, 4, 2),
    ),
    Move("roll", lambda x: pg.roll(x, 5), lambda x: np.roll(x, 5)),
    Move(
        "roll axes",
        lambda x: pg.roll(x, (1, -6), axis=(0, -1)),
        lambda x: np.roll(x, (1, -6), axis=(0, -1)),
    ),
    Move(
        "roll one shift",
        lambda x: pg.roll(x, 2, axis=(1, 2)),
        lambda x: np.roll(x, 2, axis=(1, 2)),
    ),
    Move("roll nothing", lambda x: pg.roll(x, 2, axis=0), np.copy, (0, 2)),
    Move("pad", *padding("constant", (1, 0), (0, 2), (0, 0))),
    Move("pad value", *padding("constant", (2, 1), constant_values=1), (3,)),
    Move("pad empty", *padding("constant", (1, 1), (0, 1)), (0, 2)),
    Move("pad 0-d", lambda x: pg.pad(x, []), lambda x: x, ()),
    Move(
        "pad reflect", *padding("reflect", (1, 0), (2, 1), (0, 3)), kernel="MirrorPad"
    ),
    Move(
        "pad symmetric",
        *padding("symmetric", (2, 0), (2, 3), (0, 1)),
        kernel="MirrorPad",
    ),
    Move("pad symmetric one", *padding("symmetric", (1, 1)), (1,), "MirrorPad"),
    Move("pad edge", *padding("edge", (1, 0), (2, 5), (0, 1))),
    Move("pad wrap", *padding("wrap", (1, 0), (2, 1), (0, 3))),
    Move("pad wrap twice", *padding("wrap", (5, 7), (3, 0)), (3, 1)),
    Move("pad nothing at an edge", *padding("edge", (0, 0), (1, 1)), (0, 2)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("move", MOVES, ids=str)
def test_values(move, dtype, backend):
    check_values(move, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64"])
@pytest.mark.parametrize("move", [m for m in MOVES if m.kernel], ids=str)
def test_the_decomposition_gives_the_same_values(move, dtype):
    check_parts(move, dtype)


@pytest.mark.parametrize("move", MOVES, ids=str)
def test_gradients(move, backend):
    check_derivatives(move)


@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("stride", [-3, -2, -1, 1, 2, 3])
def test_the_gradient_of_every_slice_of_a_vector(n, stride, backend):
    x = pg.asarray(np.arange(n) + 1.0)
    for start in range(n):
        part = slice(start, None, stride)
        expected = np.zeros(n)
        expected[part] = 2 * x.numpy()[part]
        dx = pg.grad(lambda x, part=part: pg.sum(pg.square(x[part])))(x)
        assert dx.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("mode", "counts"), [("reflect", [1.0, 3.0, 1.0]), ("symmetric", [2.0, 1.0, 2.0])]
)
def test_mirrored_elements_count_in_the_gradient(mode, counts, backend):
    dx = pg.grad(lambda x: pg.sum(pg.pad(x, [(1, 1)], mode=mode)))
    assert dx(pg.asarray([1.0, 2.0, 3.0])).tolist() == counts


PADDING_VALUES = [
    ("float32", -np.inf),
    ("float64", np.nan),
    ("int32", -7),
    ("complex64", 2j),
]


@pytest.mark.parametrize(("dtype", "value"), PADDING_VALUES, ids=str)
def test_padding_values(dtype, value, backend):
    y = pg.pad(np.ones(1, dtype), [(1, 0)], constant_values=value)
    np.testing.assert_array_equal(y.numpy(), np.array([value, 1], dtype), strict=True)
    assert pg.pad(np.ones(1, dtype), [(1, 0)], constant_values=np.float32(1)).size == 2


def test_zero_and_one_fit_into_every_dtype(backend):
    for zero in (0, 0.0, 0j, False):
        y = pg.pad(np.ones(1, np.float32), [(1, 0)], constant_values=zero)
        assert y.tolist() == [0, 1]
        assert pg.one_hot([1], 2, on_value=1 + 0j, off_value=zero).tolist() == [[0, 1]]


def test_padding_keeps_the_sign_of_minus_zero(backend):
    assert np.signbit(pg.pad([1.0], [(1, 0)], constant_values=-0.0)[0].item())


X = sample((2, 3))
ERRORS = [
    (
        lambda: pg.slice(X, [-1, 1], [1, 1]),
        ValueError,
        r"slice: begin \(-1, 1\), counted from 0",
    ),
    (
        lambda: pg.slice(X, [1, 1], [1, 3]),
        ValueError,
        r"must lie inside; got shape \(2, 3\)",
    ),
    (lambda: pg.slice(X, [3], [-1]), ValueError, "must lie inside"),
    (lambda: pg.slice(X, [0, 0, 0]), ValueError, r"too long; got shape \(2, 3\)"),
    (lambda: pg.slice(X, 0.5), TypeError, "slice: begin must be integers"),
    (lambda: pg.strided_slice(X, [0], [1, 2]), ValueError, "must have the same length"),
    (lambda: pg.strided_slice(X, [0], [1], [0]), ValueError, "must not be 0"),
    (lambda: pg.strided_slice(X, [0] * 3, [1] * 3), IndexError, "too many indices"),
    (
        lambda: pg.strided_slice(X, [2], [3], shrink_axis_mask=1),
        IndexError,
        "strided_slice: index 2 is out of range for axis 0 with size 2",
    ),
    (lambda: pg.roll(X, (1, 2), axis=0), ValueError, "got 2 shifts for 1 axes"),
    (lambda: pg.roll(X, 1, axis=2), ValueError, "roll: axis 2 is out of range"),
    (lambda: pg.pad(X, [(1, 1)]), ValueError, "paddings must be 2 pairs"),
    (lambda: pg.pad(X, [(1, 1), (0, -1)]), ValueError, "none negative"),
    (lambda: pg.pad(X, [(1, 1), (0, 0.5)]), TypeError, "paddings must be integers"),
    (lambda: pg.pad(X, [(0, 0)] * 2, mode="mean"), ValueError, "'edge' or 'wrap'"),
    (
        lambda: pg.pad(X, [(2, 0), (0, 0)], mode="reflect"),
        ValueError,
        r"pad: an axis of size 2 cannot mirror \(2, 0\) elements",
    ),
    (lambda: pg.pad(X, [(0, 0), (0, 4)], mode="symmetric"), ValueError, "size 3"),
    (
        lambda: pg.pad(pg.ones((2, 0)), [(0, 0), (1, 0)], mode="wrap"),
        ValueError,
        r"pad: axis 1 has no elements to repeat \(wrap\); got .*\(2, 0\)",
    ),
    (lambda: pg.pad([1], [(1, 1)], constant_values=2.5), TypeError, "2.5 does not fit"),
    (lambda: pg.pad([1], [(1, 1)], constant_values=2**40), OverflowError, "pad: 109"),
    (lambda: pg.pad(X, [(1, 1)] * 2, constant_values="a"), TypeError, "a number, got"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
