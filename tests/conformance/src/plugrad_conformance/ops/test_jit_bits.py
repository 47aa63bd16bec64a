"""A compiler may not use algebra that holds for real numbers, but not for floats.

Each program tempts a compiler into one such optimization: canceling terms,
reassociating, fusing a product with a sum, or dropping a rounding or a cast. A replay
must give the same bits as an eager call. The bits of NaN are not specified, so they are
not compared.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

RNG = np.random.default_rng(1)
CALLS = 4  # regions are compiled in the second call or later
DENORMAL = [1e-45, -1e-45, 1e-42, -3e-39, 1.1754942e-38, 1.1754944e-38]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e8, -1e8, 16777216.0, 3e38]
SPECIAL += [-3e38, 1e-20, 1e20, 0.1, -0.7, 3.0, 1 / 3, *DENORMAL]


def pairs(values, more, dtype):
    """Return all pairs of the given values and the random numbers ``more``."""
    found = np.concatenate([np.array(values, dtype), more.astype(dtype)])
    grid = np.meshgrid(found, found)
    return [x.ravel() for x in grid]


def floats():
    """Return pairs of float32: special values and random numbers."""
    return pairs(SPECIAL, RNG.normal(size=13), np.float32)


def castable_floats():
    """Return pairs of float32 within the range of int32."""
    limits = [0.0, -0.0, 0.5, -0.5, 0.999, -1.5, 2.0**30, -(2.0**30), 16777215.0]
    return pairs(limits, RNG.normal(size=14) * 1000, np.float32)


def integers(dtype):
    """Return a function that makes pairs of integers, including the limits."""
    limits = np.iinfo(dtype)
    edges = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 7]

    def draw():
        more = RNG.integers(limits.min, limits.max, 20, dtype, endpoint=True)
        return pairs(edges, more, dtype)

    return draw


def castable_integers():
    """Return pairs of int32 whose nearest float32 fits into int32."""
    ends = [2**30 - 1, 2**24 + 1, -(2**24) - 1, 0, 1, -1]
    return pairs(ends, RNG.integers(-(2**30), 2**30, 19), np.int32)


class Program(NamedTuple):
    """A function of two tensors, and a function that draws their values."""

    f: Callable[..., object]
    draw: Callable[[], list[np.ndarray]] = floats


PROGRAMS = {
    # expressions that cancel for real numbers
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
    # sums and products in a different order
    "(x + y) + 0.1": Program(lambda x, y: (x + y) + 0.1),
    "(x * y) * 0.1": Program(lambda x, y: (x * y) * 0.1),
    "x * 0.1 + y * 0.1": Program(lambda x, y: x * 0.1 + y * 0.1),
    # functions that a compiler may replace by others
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
    # denormal numbers, which replays must treat like eager calls
    "x * 0.5": Program(lambda x, y: x * 0.5),
    "(x * 1e-30) * y": Program(lambda x, y: (x * 1e-30) * y),
    # casts
    "float32 through int32": Program(
        lambda x, y: pg.astype(pg.astype(x, "int32"), "float32") + y, castable_floats
    ),
    "int32 through float32": Program(
        lambda x, y: pg.astype(pg.astype(x, "float32"), "int32") + y, castable_integers
    ),
    "float32 through bool": Program(
        lambda x, y: pg.astype(pg.astype(x, "bool"), "float32")
    ),
    # selections
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
    "int32 x + 1 > x": Program(lambda x, y: x + 1 > x, integers("int32")),
    "int32 sum": Program(lambda x, y: x + y, integers("int32")),
    "int32 (x * y) - x": Program(lambda x, y: (x * y) - x, integers("int32")),
    "int32 -x": Program(lambda x, y: -x, integers("int32")),
    "uint8 (x + y) > x": Program(lambda x, y: (x + y) > x, integers("uint8")),
    "uint8 x * y - x": Program(lambda x, y: x * y - x, integers("uint8")),
}


def bits(tree):
    """Return dtypes, backends, shapes and values; every NaN gets the same bits."""
    found = []
    for y in pg.tree.leaves(tree):
        values = y.numpy()
        if values.dtype.kind == "f":
            values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        found.append((y.dtype, y.backend, y.shape, values))
    return found


def compare(program, xs):
    """Assert that each jitted call gives the same bits as the eager call."""
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
            f"call {call}: the replay gives {found[3][at]!r}, the eager call "
            f"{expected[3][at]!r} for x = {given[0]!r} and y = {given[1]!r}"
        )


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_algebra(name, backend):
    """Replays give the bits of eager calls, except for the sign and payload of NaN.

    The length of the arrays is not a multiple of the vector length of processors.
    """
    program = PROGRAMS[name]
    xs = program.draw()
    if any(x.dtype not in runtime(backend).dtypes for x in xs):
        pytest.skip(f"{backend} has no {xs[0].dtype}")
    compare(program, xs)
