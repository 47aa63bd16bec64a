"""Checks that replace the TensorFlow.js result of single golden cases.

``instead = "check:<name>"`` in ``exceptions.toml`` names a function here. It gets the
case and its row (None if there is none) and raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import plugrad as pg

from . import judge, reach
from .cases import Case

Row = Callable[..., Any]


def zero_gradient(case: Case, row: Row) -> None:
    """Assert that every gradient is zero: there is a step or an integer on the path."""
    for name, dx in judge.derivatives(case, row).items():
        assert not dx.any(), f"the gradient of {name} is {dx}"


def ties_share(case: Case, row: Row) -> None:
    """Assert that all elements that attain an extremum share ``dy`` equally.

    Then the gradient is a subgradient: the elements of a tie sum to ``dy``.
    """
    (x,) = judge.floats(case).values()
    (dy,) = case.dys
    assert dy is not None
    axis = case.attrs.get("reductionIndices", case.attrs.get("axis"))
    axis = tuple(axis) if isinstance(axis, list) else axis
    extremum = {"Max": np.max, "Min": np.min}[case.handle.kernel]
    extreme = extremum(x, axis=axis, keepdims=True)
    tied = x == extreme
    expected = dy.reshape(extreme.shape) * tied / tied.sum(axis=axis, keepdims=True)
    (dx,) = judge.derivatives(case, row).values()
    np.testing.assert_allclose(dx, expected, rtol=1e-5)


def derivative_of_pool(case: Case, row: Row) -> None:
    """Assert that a gradient kernel is the derivative of its pooling.

    Gradient kernels do not know how the output size was rounded; it is inferred from
    the shape of ``dy``.
    """
    forward = reach.KERNELS[case.handle.kernel.removesuffix("Grad")]
    assert isinstance(case.inputs, dict)
    x, dy = case.inputs["input"], case.inputs["dy"]
    for mode in (None, "ceil", "round"):
        attrs = case.attrs | ({} if mode is None else {"dimRoundingMode": mode})
        if forward(pg.asarray(x), **attrs).shape == dy.shape:
            break
    pooling = Case(case.handle, inputs={"x": x}, attrs=attrs, dys=[dy])
    (dx,) = judge.listed(judge.run(case, row))
    compared = judge.differences(
        pooling, forward, {"x": dx.numpy()}, ["x"], finite_only=True
    )
    assert compared, "there is no smooth point; nothing was compared"
