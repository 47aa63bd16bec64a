"""What kernels rely on is checked when a geometry is made: no field can be forged."""

import dataclasses
import math
from functools import partial

import pytest
from plugrad import geometry
from plugrad.geometry import Resizing, Rotation, Windows

WINDOWS = Windows((2, 5, 6, 4), (2, 4, 3, 6), (2, 3), (1, 2), (1, 1), ((0, 0), (1, 0)))
RESIZING = Resizing((2, 5, 6, 3), (2, 4, 7, 3), True, False)
ROTATION = Rotation(5, 6, 0.5, (1.5, 2.0))


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: nothing here has an accelerator in C."""


@pytest.mark.parametrize(
    ("geometry", "field", "value", "message"),
    [
        (WINDOWS, "out_shape", (2, 5, 3, 6), "do not lie in their input"),
        (WINDOWS, "strides", (0, 1), "do not lie in their input"),
        (WINDOWS, "groups", 3, "do not lie in their input"),
        (WINDOWS, "groups", 4, "do not lie in their input"),  # 6 channels out
        (WINDOWS, "window", (2, 3.0), "tuples of sizes"),
        (WINDOWS, "padding", ((2**31, 0), (1, 0)), "less than 2.*31 elements"),
        (WINDOWS, "in_shape", (2, 5, 2**31 - 1, 4), "less than 2.*31 elements"),
        (RESIZING, "in_shape", (2, 0, 6, 3), "have pixels"),
        (RESIZING, "out_shape", (2, 4, 0, 3), "have pixels"),
        (RESIZING, "out_shape", (1, 4, 7, 3), "keep batch and channels"),
        (RESIZING, "out_shape", (2, 4, 7, 1), "keep batch and channels"),
        (RESIZING, "in_shape", (2, 5, 6), "tuple of 4 int"),
        (RESIZING, "in_shape", [2, 5, 6, 3], "tuple of 4 int"),
        (RESIZING, "in_shape", (2, -5, 6, 3), "sizes from 0 to"),
        (RESIZING, "out_shape", (2, 4, 2**31, 3), "sizes from 0 to"),
        (RESIZING, "half_pixel_centers", True, "one of the flags"),
        (RESIZING, "align_corners", 1, "flags that are bool"),
        (ROTATION, "height", 5.0, "tuple of 4 int"),
        (ROTATION, "width", -1, "sizes from 0 to"),
        (ROTATION, "radians", math.inf, "finite angle"),
        (ROTATION, "radians", "0", "finite angle"),
        (ROTATION, "center", (0.5,), "center"),
        (ROTATION, "center", (0.5, math.nan), "center"),
        (ROTATION, "center", 0.5, "center"),
    ],
    ids=str,
)
def test_fields_that_do_not_fit(geometry, field, value, message):
    with pytest.raises((ValueError, TypeError), match=message):
        dataclasses.replace(geometry, **{field: value})


def test_a_call_is_remembered_by_values_and_types():
    shape, filter = (1, 8, 8, 3), (3, 3, 3, 4)
    make = partial(geometry.convolution, "conv2d", shape, filter, 2)
    assert make(strides=2, pad="same") is make(strides=2, pad="same")
    assert make(strides=(2, 2)) is make(strides=(2, 2))
    assert make(strides=[2, 2]) == make(strides=(2, 2))
    assert make(pad=((1, 1), (2, 2))) is make(pad=((1, 1), (2, 2)))
    for wrong in ({"strides": 2.0}, {"strides": (2.0, 2)}, {"pad": ((1, 1), (2, 2.0))}):
        with pytest.raises(TypeError):  # equal to a call that is remembered
            make(**wrong)
    with pytest.raises(ValueError, match="another"):
        geometry.convolution("another", shape, (9, 9, 3, 4), 2)
