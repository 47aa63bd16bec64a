"""A compiler may not use algebra that holds for real numbers, but not for floats.

Each program tempts a compiler to one such optimization: to cancel, to reassociate, to
contract a product and a sum, or to drop a rounding or a cast. A replay must give the
same bits as an eager call. The bits of NaN are not specified, so they are not compared.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

RNG = np.random.default_rng(1)
CALLS = 4  # compilers get their regions in the second call, or later
DENORMAL = [1e-45, -1e-45, 1e-42, -3e-39, 1.1754942e-38, 1.1754944e-38]
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e8, -1e8, 16777216.0, 3e38]
ODD += [-3e38, 1e-20, 1e20, 0.1, -0.7, 3.0, 1 / 3, *DENORMAL]


def pairs(values, more, dtype):
    """Return all pairs of some values, and pairs of random numbers."""
    found = np.concatenate([np.array(values, dtype), more.astype(dtype)])
    grid = np.meshgrid(found, found)
    return [x.ravel() for x in grid]


def floats():
    """Return pairs of float32: special values, and numbers with random bits."""
    return pairs(ODD, RNG.normal(size=13), np.float32)


def smooth():
    """Return pairs of float32 that casts to int32 can represent."""
    limits = [0.0, -0.0, 0.5, -0.5, 0.999, -1.5, 2.0**30, -(2.0**30), 16777215.0]
    return pairs(limits, RNG.normal(size=14) * 1000, np.float32)


def whole(dtype):
    """Return a function that makes pairs of integers, including the limits."""
    ends = np.iinfo(dtype)
    edges = [ends.min, ends.min + 1, ends.max, ends.max - 1, 0, 1, 7]

    def draw():
        more = RNG.integers(ends.min, ends.max, 20, dtype, endpoint=True)
        return pairs(edges, more, dtype)

    return draw


def exact():
    """Return pairs of int32 whose nearest float32 is an int32."""
    ends = [2**30 - 1, 2**24 + 1, -(2**24) - 1, 0, 1, -1]
    return pairs(ends, RNG.integers(-(2**30), 2**30, 19), np.int32)


class Program(NamedTuple):
    """A function of two tensors, and a function that draws their values."""

    f: Callable[..., object]
    draw: Callable[[], list[np.ndarray]] = floats


PROGRAMS = {
    # what cancels for real numbers
    "(x + 1) - x": Program(lambda x, y: (x + 1.0) - x),
    "(x - y) + y": Program(lambda x, y: (x - y) + y),
    "x - x": Program(lambda x, y: x - x),
    "x * 0": Program(lambda x, y: x * 0.0),
    "0 / x": Program(lambda x, y: 0.0 / x),
    "x / x": Program(lambda x, y: x / x),
    "(x * y) / y": Program(lambda x, y: (x * y) / y),
    "sqrt(x) * sqrt(x)": Program(lambda x, y: pg.sqrt(x) * pg.sqrt(x)),
    # products that are rounded before a sum
    "x * y - y * x": Program(lambda x, y: x * y - y * x),
    "x * y + x": Program(lambda x, y: x * y + x),
    "x - x * y": Program(lambda x, y: x - x * y),
    "x * x - y": Program(lambda x, y: x * x - y),
    # sums and products in another order
    "(x + y) + 0.1": Program(lambda x, y: (x + y) + 0.1),
    "(x * y) * 0.1": Program(lambda x, y: (x * y) * 0.1),
    "x * 0.1 + y * 0.1": Program(lambda x, y: x * 0.1 + y * 0.1),
    # functions in place of others
    "x / 3": Program(lambda x, y: x / 3.0),
    "x / y": Program(lambda x, y: x / y),
    "1 / sqrt(x)": Program(lambda x, y: 1.0 / pg.sqrt(x)),
    # signs of zeros
    "x + 0": Program(lambda x, y: x + 0.0),
    "0 - x": Program(lambda x, y: 0.0 - x),
    "x * 1": Program(lambda x, y: x * 1.0),
    "x * -1": Program(lambda x, y: x * -1.0),
    "-x": Program(lambda x, y: -x),
    "-(-x)": Program(lambda x, y: pg.negative(-x)),
    "-(x - y)": Program(lambda x, y: -(x - y)),
    # denormal numbers, as eager has them
    "x * 0.5": Program(lambda x, y: x * 0.5),
    "(x * 1e-30) * y": Program(lambda x, y: (x * 1e-30) * y),
    # casts
    "float32 through int32": Program(
        lambda x, y: pg.astype(pg.astype(x, "int32"), "float32") + y, smooth
    ),
    "int32 through float32": Program(
        lambda x, y: pg.astype(pg.astype(x, "float32"), "int32") + y, exact
    ),
    "float32 through bool": Program(
        lambda x, y: pg.astype(pg.astype(x, "bool"), "float32")
    ),
    # choices
    "where(x > 0, x, y)": Program(lambda x, y: pg.where(x > 0.0, x, y)),
    "where(x != x, y, x)": Program(lambda x, y: pg.where(x != x, y, x)),
    "where(y != 0, x / y, 0)": Program(lambda x, y: pg.where(y != 0.0, x / y, 0.0)),
    "maximum": Program(lambda x, y: pg.maximum(x, y)),
    "minimum": Program(lambda x, y: pg.minimum(x, y)),
    "clip": Program(lambda x, y: pg.clip(x, 0.0, 1.0)),
    "relu": Program(lambda x, y: pg.relu(x) + y * 0.5),
    # comparisons with NaN
    "x == x": Program(lambda x, y: x == x),
    "x <= x": Program(lambda x, y: x <= x),
    "not x < y": Program(lambda x, y: pg.logical_not(x < y)),
    "x - y == 0": Program(lambda x, y: x - y == 0.0),
    "x < y or x >= y": Program(lambda x, y: pg.logical_or(x < y, x >= y)),
    "x + 1 > x": Program(lambda x, y: x + 1.0 > x),
    # integers wrap
    "int32 x + 1 > x": Program(lambda x, y: x + 1 > x, whole("int32")),
    "int32 sum": Program(lambda x, y: x + y, whole("int32")),
    "int32 (x * y) - x": Program(lambda x, y: (x * y) - x, whole("int32")),
    "int32 -x": Program(lambda x, y: -x, whole("int32")),
    "uint8 (x + y) > x": Program(lambda x, y: (x + y) > x, whole("uint8")),
    "uint8 x * y - x": Program(lambda x, y: x * y - x, whole("uint8")),
}


def bits(tree):
    """Return dtypes, shapes and the bits of values; all NaN are alike."""
    found = []
    for y in pg.tree.leaves(tree):
        values = y.numpy()
        if values.dtype.kind == "f":
            values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        found.append((y.dtype, y.backend, y.shape, values))
    return found


def compare(program, xs):
    """Assert that each call of the jitted function has the bits of eager."""
    jitted = pg.jit(program.f)
    xs = [pg.asarray(x) for x in xs]
    (expected,) = bits(program.f(*xs))
    for call in range(1, CALLS + 1):
        (found,) = bits(jitted(*xs))
        assert found[:3] == expected[:3]
        if found[3].tobytes() == expected[3].tobytes():
            continue
        raw = [np.ascontiguousarray(y).view(np.uint8) for y in (found[3], expected[3])]
        differs = (raw[0] != raw[1]).reshape(found[3].size, -1).any(-1)
        at = int(np.argmax(differs))
        given = [x.numpy()[at] for x in xs]
        pytest.fail(
            f"call {call}: the replay gives {found[3][at]!r} and eager "
            f"{expected[3][at]!r} for x = {given[0]!r} and y = {given[1]!r}"
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_algebra(name, backend):
    """Replays have the bits of eager, except for the sign and payload of NaN.

    The length of the arrays is not a multiple of the vector length of processors.
    """
    program = PROGRAMS[name]
    xs = program.draw()
    if any(x.dtype not in runtime(backend).dtypes for x in xs):
        pytest.skip(f"{backend} has no {xs[0].dtype}")
    compare(program, xs)
