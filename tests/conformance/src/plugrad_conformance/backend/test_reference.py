"""Runs golden cases in other dtypes, and compares the results with plugrad-cpu.

cpu itself has no tests here: its kernels are compared with their decompositions if the
backend "primitives" is tested as well. A kernel is tested with a dtype if the inputs of
one of its first cases can have this dtype.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..excuses import excuse
from ..fixtures import backends, parametrize_once
from ..golden import cases, judge, reach
from .test_primitives import COMPLEX_WITH_PARTS, DTYPES

# The corpus covers float32 and int32; ops/test_complexes.py covers complex dtypes.
TESTED_DTYPES = [
    d for d in DTYPES if d not in ("bool", "float32", "int32") and d[0] in "fiu"
]
RANDOM = ("Multinomial", "RandomUniform", "RandomUniformInt", "StatelessRandom")
MAX_CASES = 3  # per kernel


def without_int64(wanted: Any, backend: str) -> Any:
    """Narrow int64 results of cpu to int32 for backends without int64."""
    if isinstance(wanted, Exception) or "int64" in runtime(backend).dtypes:
        return wanted
    small = np.iinfo(np.int32)
    wide = [y for y in wanted if y.dtype == np.int64]
    if any(((y < small.min) | (y > small.max)).any() for y in wide):
        return OverflowError(f"does not fit into int32; {backend} has no int64")
    return [y.astype(np.int32) if y.dtype == np.int64 else y for y in wanted]


def corpus_dtype(dtype: str) -> str:
    """Return the corpus dtype that ``dtype`` replaces."""
    return "int32" if np.dtype(dtype).kind in "iu" else "float32"


@functools.cache
def first_cases(kernel: str) -> list[cases.Case]:
    """Return the first cases of a kernel, without random results."""
    found = [handle.load() for handle in cases.handles("kernels", kernel)[:MAX_CASES]]
    return [case for case in found if not case.random]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Create a test for each kernel, dtype and backend with suitable cases."""
    if "backend" not in metafunc.fixturenames:
        return
    rows = [
        (kernel, dtype, name)
        for kernel in sorted({*reach.KERNELS} - {*RANDOM})
        for known in [{x.dtype for case in first_cases(kernel) for x in case.given}]
        for dtype in TESTED_DTYPES
        if np.dtype(corpus_dtype(dtype)) in known
        for name in backends(metafunc.config)
        if name != "cpu"
    ]
    reason = pytest.mark.skip(reason="cpu is the reference: it needs another backend")
    none = pytest.param("", "", "", marks=reason, id="none")
    parametrize_once(metafunc, "kernel, dtype, backend", rows or [none])


def test_it_agrees_with_cpu(kernel: str, dtype: str, backend: str) -> None:
    if dtype not in runtime(backend).dtypes:
        pytest.skip(f"{backend} has no {dtype}")
    if "cpu" not in pg.backends():
        pytest.skip("needs plugrad-cpu, the reference")
    named_dtypes = [dtype, COMPLEX_WITH_PARTS[dtype]] if kernel == "Complex" else dtype
    compared = 0
    for case in first_cases(kernel):
        recast_inputs = judge.recast(case.inputs, corpus_dtype(dtype), dtype)
        recast_case = replace(case, inputs=recast_inputs)
        if np.dtype(corpus_dtype(dtype)) not in {x.dtype for x in case.given}:
            continue
        compared += 1
        with pg.use_backend("cpu"):
            wanted = judge.outcome(recast_case, reach.KERNELS[kernel])
        found = judge.outcome(recast_case, reach.KERNELS[kernel])
        if isinstance(found, Exception) and (
            reason := excuse(found, backend, named_dtypes)
        ):
            pytest.skip(reason)
        wanted = without_int64(wanted, backend)
        if isinstance(wanted, Exception) or isinstance(found, Exception):
            assert type(found) is type(wanted), f"{found!r} instead of {wanted!r}"
            continue
        assert [y.dtype for y in found] == [y.dtype for y in wanted]
        for y, z in zip(found, wanted, strict=True):
            eps = np.finfo(y.dtype).eps if y.dtype.kind in "fc" else 0.0
            assert cases.close(y, z, 64 * float(eps), 64 * float(eps)), (
                f"{y}\ninstead of\n{z}"
            )
    assert compared
