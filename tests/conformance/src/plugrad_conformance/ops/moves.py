"""Rows for ops that only move elements, and checks that each row must pass."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.plugin import runtime

from ..check import check_gradients
from ..toy import toy

DTYPES = [*("float16", "float32", "float64", "int8", "int32", "int64"), "uint16"]
DTYPES += ["bool", "complex64"]


@dataclass(frozen=True)
class Move:
    """An op of one tensor and its NumPy equivalent; both may return several results."""

    name: str
    op: Callable[[Any], Any]
    reference: Callable[[np.ndarray], Any]
    shape: tuple[int, ...] = (2, 3, 4)
    kernel: str = ""  # the kernel whose decomposition must agree

    def __str__(self):
        return self.name


def sample(shape, dtype="float64"):
    """Return distinct numbers, as far as the dtype allows."""
    return (np.arange(np.prod(shape, dtype=int)) - 3).reshape(shape).astype(dtype)


def listed(y):
    return list(y) if isinstance(y, list | tuple) else [y]


def check_values(move, dtype, reference=None):
    x = sample(move.shape, dtype)
    with pg.debug(finite=False):
        ys = listed(move.op(pg.asarray(x)))
    expected = listed(move.reference(x)) if reference is None else reference
    assert len(ys) == len(expected)
    for y, wanted in zip(ys, expected, strict=True):
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y.numpy(), wanted, strict=True)


@contextlib.contextmanager
def decomposed(*kernels):
    """Activate a backend without some kernels; it must run their decompositions."""
    before = sum(pg.engine().fallback_counts.values())
    dtypes = runtime("cpu").dtypes
    with toy(without=kernels, dtypes=dtypes), pg.use_backend("toy"):
        yield
    assert sum(pg.engine().fallback_counts.values()) > before


def check_parts(move, dtype):
    """Check the values that the decomposition returns."""
    with decomposed(move.kernel):
        check_values(move, dtype)


def check_derivatives(move):
    """Check the gradients of each squared result; the square has second derivatives."""
    count = len(listed(move.op(pg.asarray(sample(move.shape)))))
    assert count, "without results there is nothing to check"
    for i in range(count):
        check_gradients(
            lambda x, i=i: pg.square(listed(move.op(x))[i]), sample(move.shape)
        )
