"""Properties on which kernels rely: valid geometries, phases and strides."""

import dataclasses
import doctest
import itertools
import math
from functools import partial

import numpy as np
import pytest
from plugrad import geometry
from plugrad.geometry import (
    Resizing,
    Rotation,
    Windows,
    broadcast_strides,
    collapse_axes,
    contiguous_strides,
)

WINDOWS = Windows((2, 5, 6, 4), (2, 4, 3, 6), (2, 3), (1, 2), (1, 1), ((0, 0), (1, 0)))
RESIZING = Resizing((2, 5, 6, 3), (2, 4, 7, 3), True, False)
ROTATION = Rotation(5, 6, 0.5, (1.5, 2.0))


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: nothing here has an accelerator in C."""


@pytest.mark.parametrize(
    ("geometry", "field", "value", "message"),
    [
        (WINDOWS, "out_shape", (2, 5, 3, 6), "must lie in the padded input"),
        (WINDOWS, "strides", (0, 1), "must lie in the padded input"),
        (WINDOWS, "groups", 3, "must lie in the padded input"),
        (WINDOWS, "groups", 4, "must lie in the padded input"),  # 6 outputs
        (WINDOWS, "window", (2, 3.0), "all sizes in"),
        (WINDOWS, "padding", ((2**31, 0), (1, 0)), "less than 2.*31 elements"),
        (WINDOWS, "in_shape", (2, 5, 2**31 - 1, 4), "less than 2.*31 elements"),
        (RESIZING, "in_shape", (2, 0, 6, 3), "at least one pixel"),
        (RESIZING, "out_shape", (2, 4, 0, 3), "at least one pixel"),
        (RESIZING, "out_shape", (1, 4, 7, 3), "keep the batch and channel sizes"),
        (RESIZING, "out_shape", (2, 4, 7, 1), "keep the batch and channel sizes"),
        (RESIZING, "in_shape", (2, 5, 6), "tuple of 4 int"),
        (RESIZING, "in_shape", [2, 5, 6, 3], "tuple of 4 int"),
        (RESIZING, "in_shape", (2, -5, 6, 3), "must be from 0 to"),
        (RESIZING, "out_shape", (2, 4, 2**31, 3), "must be from 0 to"),
        (RESIZING, "half_pixel_centers", True, "at most one flag"),
        (RESIZING, "align_corners", 1, "the flags of"),
        (ROTATION, "height", 5.0, "tuple of 4 int"),
        (ROTATION, "width", -1, "must be from 0 to"),
        (ROTATION, "radians", math.inf, "must be finite floats"),
        (ROTATION, "radians", "0", "must be finite floats"),
        (ROTATION, "center", (0.5,), "center"),
        (ROTATION, "center", (0.5, math.nan), "center"),
        (ROTATION, "center", 0.5, "center"),
    ],
    ids=str,
)
def test_invalid_fields_are_refused(geometry, field, value, message):
    with pytest.raises((ValueError, TypeError), match=message):
        dataclasses.replace(geometry, **{field: value})


def test_geometries_are_cached_by_values_and_types():
    shape = (1, 8, 8, 3)
    filter = (3, 3, 3, 4)
    make = partial(geometry.convolution, "conv2d", shape, filter, 2)
    assert make(strides=2, pad="same") is make(strides=2, pad="same")
    assert make(strides=(2, 2)) is make(strides=(2, 2))
    assert make(strides=[2, 2]) == make(strides=(2, 2))
    assert make(pad=((1, 1), (2, 2))) is make(pad=((1, 1), (2, 2)))
    for wrong in ({"strides": 2.0}, {"strides": (2.0, 2)}, {"pad": ((1, 1), (2, 2.0))}):
        with pytest.raises(TypeError):  # 2.0 equals the cached 2
            make(**wrong)
    with pytest.raises(ValueError, match="another"):
        geometry.convolution("another", shape, (9, 9, 3, 4), 2)


PHASES = {  # name: (size, window, stride, dilation, padding before and after)
    "stride 1": (7, 3, 1, 1, (1, 1)),
    "stride 2": (8, 3, 2, 1, (0, 1)),
    "positions that miss a phase": (8, 2, 3, 1, (0, 0)),
    "dilation and stride share a factor": (12, 3, 4, 2, (2, 3)),
    "strides beyond the input": (2, 1, 5, 1, (0, 0)),
}


@pytest.mark.parametrize("row", PHASES)
def test_phases_are_the_windows_that_read_each_element(row):
    size, window, stride, dilation, padding = PHASES[row]
    count = (size + sum(padding) - (window - 1) * dilation - 1) // stride + 1
    fields = (window,), (stride,), (dilation,), (padding,)
    (phases,) = Windows((1, size, 1), (1, count, 1), *fields).phases
    found = {
        (phase.start + i * stride, k, w + i)
        for phase in phases
        for i in range(phase.size)
        for k, w in phase.readers
        if 0 <= w + i < count
    }
    pairs = itertools.product(range(window), range(count))
    reads = {(w * stride + k * dilation - padding[0], k, w) for k, w in pairs}
    assert found == {read for read in reads if 0 <= read[0] < size}
    starts = [phase.start + i * stride for phase in phases for i in range(phase.size)]
    assert sorted(starts) == [*range(size)]


RESIZINGS = [
    RESIZING,
    Resizing((1, 1, 7, 1), (1, 5, 7, 1), False, False),
    Resizing((1, 3, 8, 1), (1, 9, 3, 1), False, True),
    Resizing((0, 4, 2, 0), (0, 1, 1, 0), True, False),
]


def matrices(resizing, linear, backward):
    """Yield the matrix of rows and the matrix of columns that the terms describe."""
    source_shape = resizing.out_shape if backward else resizing.in_shape
    for size, (starts, indices, weights) in zip(
        source_shape[1:3], resizing.terms(linear=linear, back=backward), strict=True
    ):
        assert starts.dtype == indices.dtype == "int32"
        matrix = np.zeros((len(starts) - 1, size))
        rows = np.repeat(np.arange(len(matrix)), np.diff(starts))
        np.add.at(matrix, (rows, indices), weights)
        yield matrix


@pytest.mark.parametrize("resizing", RESIZINGS)
def test_terms_agree_with_the_interpolation_of_rows_and_columns(resizing):
    forward = {linear: [*matrices(resizing, linear, False)] for linear in (True, False)}
    for axis, (low, high, share) in enumerate(resizing.linear):
        eye = np.eye(resizing.in_shape[axis + 1])
        expected = eye[low] * (1 - share)[:, None] + eye[high] * share[:, None]
        np.testing.assert_array_equal(forward[True][axis], expected)
        np.testing.assert_array_equal(forward[False][axis], eye[resizing.nearest[axis]])
    for linear in forward:
        for matrix, backward in zip(
            forward[linear], matrices(resizing, linear, True), strict=True
        ):
            np.testing.assert_array_equal(backward, matrix.T)


def test_a_position_on_a_pixel_has_only_one_term():
    """With two terms, interpolation would multiply an infinite neighbor by 0."""
    for starts, _, weights in RESIZINGS[1].terms(linear=True, back=False):
        assert (np.diff(starts) == 1).all()
        assert (weights == 1).all()


@pytest.mark.parametrize(
    ("channels", "groups", "expected"),
    [(1, 1, False), (4, 1, False), (4, 2, False), (4, 4, True)],
)
def test_windows_are_depthwise_where_each_channel_is_a_group(
    channels, groups, expected
):
    shape = (1, 3, 3, channels)
    windows = geometry.windows("conv2d", shape, 2, channels=8, groups=groups)
    assert windows.depthwise is expected


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 1, 3), (4, 3, 2), (2, 0, 3)])
def test_contiguous_strides_equal_those_of_numpy(shape):
    array = np.zeros(shape, np.int8)
    if array.size:
        assert contiguous_strides(shape) == array.strides
    wide = np.broadcast_to(array, (6, *shape))
    expected = tuple(
        [0 if n == 1 else s for n, s in zip(shape, array.strides, strict=True)]
    )
    if array.size:
        assert broadcast_strides(shape, len(wide.shape)) == (0, *expected)


COLLAPSED = [  # (shape, strides, the axes that remain)
    ((), (), ((1, 1),)),
    ((1, 1), (7, 3), ((1, 1),)),
    ((2, 3, 4), (12, 4, 1), ((24, 1),)),
    ((2, 1, 4), (4, 9, 1), ((8, 1),)),
    ((2, 3), (1, 2), ((2, 1), (3, 2))),
    ((3, 4), (-4, -1), ((12, -1),)),
    ((2, 3), (0, 0), ((6, 0),)),
]


@pytest.mark.parametrize(("shape", "strides", "axes"), COLLAPSED)
def test_axes_collapse_where_the_strides_allow_it(shape, strides, axes):
    assert collapse_axes(shape, strides) == axes


def test_axes_collapse_only_where_all_strides_allow_it():
    whole = contiguous_strides((2, 3, 4))
    rows = (0, 4, 1)
    assert collapse_axes((2, 3, 4), whole, rows) == ((2, 12, 0), (12, 1, 1))


def test_the_examples_in_docstrings():
    results = doctest.testmod(geometry)
    assert results.attempted >= 6
    assert not results.failed
