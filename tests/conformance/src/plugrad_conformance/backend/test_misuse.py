"""An invalid call of a kernel gives the same result as on cpu, or a clear error.

``run_kernel`` checks a call before any kernel runs; kernels check what depends on
values, such as an index. Nothing crashes, hangs or reads out of bounds.
"""

from __future__ import annotations

import re

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts, runtime

from ..excuses import mentions_dtype
from ..misuse import REFUSED, Outcome, misused, outcome, right_calls, with_other_values
from .test_primitives import DTYPES

CATALOG = sorted(kernel for kernel in contracts() if "." not in kernel)


def test_every_kernel_has_a_call() -> None:
    """The calls are in ``misuse/rows``: ``"LRN": call(floats(1, 2, 2, 5))``, etc."""
    missing = sorted({*CATALOG} - {*right_calls()})
    assert not missing, f"add a valid call to misuse/rows/<family>.py: {missing}"
    assert sorted(right_calls()) == CATALOG


@pytest.mark.parametrize("kernel", sorted(right_calls()))
def test_right_calls_run(kernel: str, backend: str) -> None:
    """The invalid calls are derived from these calls, which must therefore be valid."""
    right = right_calls()[kernel]
    found = pg.run_kernel(kernel, right.inputs, right.attrs)
    inputs = dict(zip(contracts()[kernel].inputs, right.inputs, strict=False))
    if contracts()[kernel].variadic is None:
        by_name = pg.run_kernel(kernel, inputs, right.attrs)
        for y, z in zip(_as_tuple(found), _as_tuple(by_name), strict=True):
            np.testing.assert_array_equal(y.numpy(), z.numpy())


@pytest.mark.parametrize("kernel", sorted(right_calls()))
def test_wrong_calls_are_refused_or_harmless(kernel: str, backend: str) -> None:
    """The outcome equals that on cpu or is an error that names the invalid part."""
    complaints = []
    undefined = right_calls()[kernel].undefined
    undeclared = {*DTYPES, "bfloat16", "string"} - {*runtime(backend).dtypes}
    for wrong in misused(kernel):
        if any(mentions_dtype(wrong.inputs, dtype) for dtype in undeclared):
            continue
        found = outcome(kernel, wrong)
        complaint = found.complaint
        compared = backend != "cpu" and not re.search(undefined, wrong.what)
        if found.values is not None and compared and "cpu" in pg.backends():
            with pg.use_backend("cpu"):
                complaint = _difference(found, outcome(kernel, wrong))
        if complaint:
            complaints.append(f"{wrong.what}: {complaint}: {found.error!r}")
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("kernel", sorted(right_calls()))
def test_only_inputs_that_the_contract_names_are_checked(
    kernel: str, backend: str
) -> None:
    """A kernel raises only for values of the inputs in ``checks``.

    ``jit`` drops kernels whose results are not used, but not those that check a value.
    """
    checks = contracts()[kernel].checks
    complaints = []
    undeclared = {*DTYPES, "bfloat16", "string"} - {*runtime(backend).dtypes}
    for name, wrong in with_other_values(kernel):
        if name in checks or any(
            mentions_dtype(wrong.inputs, dtype) for dtype in undeclared
        ):
            continue
        error = outcome(kernel, wrong).error
        if isinstance(error, REFUSED):
            complaints.append(f"{name}, {wrong.what}: {error!r}")
    assert not complaints, "\n".join(complaints)


def _as_tuple(found: object) -> tuple[pg.Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)  # type: ignore[return-value]


def _difference(found: Outcome, expected: Outcome) -> str:
    """Return how an outcome differs from that on cpu; "" if it does not."""
    if expected.values is None:
        if isinstance(expected.error, IndexError) and not any(
            y.size for y in found.values or ()
        ):
            return ""  # no index is read, so any index is allowed: see GatherV2
        return f"runs, but is refused on cpu ({expected.error})"
    assert found.values is not None
    for y, z in zip(found.values, expected.values, strict=True):
        if (y.shape, y.dtype) != (z.shape, z.dtype):
            return f"gives {y.shape} {y.dtype}, but {z.shape} {z.dtype} on cpu"
        if y.dtype == object or y.dtype.kind in "biu":
            if not np.array_equal(y, z):
                return f"gives {y.tolist()}, but {z.tolist()} on cpu"
        elif not np.allclose(y, z, rtol=1e-3, atol=1e-5 * _scale(z), equal_nan=True):
            return f"gives {y.tolist()}, but {z.tolist()} on cpu"
    return ""


def _scale(z: np.ndarray) -> float:
    """Return the largest magnitude, the scale of rounding errors; at least 1."""
    return float(np.max(np.abs(z), initial=1.0, where=np.isfinite(z)))
