"""Golden cases again, with values of other dtypes, against plugrad-cpu."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..excuses import excuse
from ..golden import cases, judge, reach
from .test_primitives import DTYPES

# The corpus has float32 and int32; complex numbers are in ops/test_complexes.py.
OTHERS = [d for d in DTYPES if d not in ("bool", "float32", "int32") and d[0] in "fiu"]
RANDOM = ("Multinomial", "RandomUniform", "RandomUniformInt", "StatelessRandom")
ERRORS = (ValueError, TypeError, IndexError, OverflowError, NotImplementedError)


def recast(value: Any, dtype: str) -> Any:
    """Return inputs with other dtypes for the floating arrays, or for the integers."""
    if isinstance(value, dict):
        return {name: recast(x, dtype) for name, x in value.items()}
    if isinstance(value, list):
        return [recast(x, dtype) for x in value]
    whole = np.dtype(dtype).kind in "iu"
    if isinstance(value, np.ndarray) and value.dtype == (
        "int32" if whole else "float32"
    ):
        with np.errstate(all="ignore"):
            return value.astype(dtype)
    return value


def outcome(case: cases.Case, kernel: str) -> Any:
    """Return the results as arrays, or the error that says why there are none."""
    try:
        return [y.numpy() for y in judge.listed(judge.run(case, reach.KERNELS[kernel]))]
    except ERRORS as error:
        return error


@pytest.mark.parametrize("dtype", OTHERS)
@pytest.mark.parametrize("kernel", sorted({*reach.KERNELS} - {*RANDOM}))
def test_it_agrees_with_cpu(kernel: str, dtype: str, backend: str) -> None:
    if dtype not in runtime(backend).dtypes:
        pytest.skip(f"{backend} has no {dtype}")
    if "cpu" not in pg.backends():
        pytest.skip("needs plugrad-cpu, the reference")
    for handle in cases.handles("kernels", kernel)[:3]:
        case = handle.load()
        made = replace(case, inputs=recast(case.inputs, dtype))
        if case.random or str(made.inputs) == str(case.inputs):
            continue
        with pg.use_backend("cpu"):
            wanted = outcome(made, kernel)
        found = outcome(made, kernel)
        if isinstance(found, Exception) and (reason := excuse(found, backend)):
            pytest.skip(reason)
        if isinstance(wanted, Exception) or isinstance(found, Exception):
            assert type(found) is type(wanted), f"{found!r} instead of {wanted!r}"
            continue
        assert [y.dtype for y in found] == [y.dtype for y in wanted]
        for y, z in zip(found, wanted, strict=True):
            eps = np.finfo(y.dtype).eps if y.dtype.kind in "fc" else 0.0
            assert cases.close(y, z, 64 * float(eps), 64 * float(eps)), (
                f"{y}\ninstead of\n{z}"
            )
