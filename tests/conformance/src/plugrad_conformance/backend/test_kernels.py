"""Every kernel of the catalog can run; only declared kernels run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts, runtime

from ..backends import ways
from ..check import require_dtypes
from ..golden import cases, judge, reach

CATALOG = sorted(kernel for kernel in contracts() if "." not in kernel)


@pytest.mark.parametrize("kernel", CATALOG)
def test_there_is_a_way(kernel: str, backend: str) -> None:
    """A kernel is implemented, decomposed, or declared as a host kernel."""
    way = ways(backend)[kernel]
    if way == "no dtype":
        pytest.skip(f"{backend} has no complex64")
    assert way != "missing", (
        f"{backend} does not implement {kernel}, which has no decomposition: implement "
        "it, or name it in host_kernels= of the Runtime, with host="
    )


@pytest.mark.parametrize("kernel", sorted(reach.KERNELS))
def test_results_are_as_the_contract_says(kernel: str, backend: str) -> None:
    """In a golden case, the shape, dtype and backend of every result are checked."""
    _needs(kernel, backend)
    for handle in _cases(kernel):
        with pg.debug(finite=False):
            judge.run(handle.load(), reach.KERNELS[kernel])


WITH_INPUTS = [kernel for kernel in sorted(reach.KERNELS) if contracts()[kernel].inputs]


@pytest.mark.parametrize("kernel", WITH_INPUTS)
def test_inputs_stay_as_they_are(kernel: str, backend: str) -> None:
    """A kernel may return an input, or a view of one, and never writes into it."""
    function = pg.get_kernel(kernel, backend)
    download = runtime(backend).arrays.download
    if function is None:
        pytest.skip(f"{backend} does not implement it")
    _needs(kernel, backend)

    def watched(*xs: Any, **attrs: Any) -> Any:
        natives = [x for x in xs if hasattr(x, "shape")]
        before = [np.array(download(x)) for x in natives]
        y = function(*xs, **attrs)
        for values, x in zip(before, natives, strict=True):
            np.testing.assert_array_equal(download(x), values)
        return y

    pg.register_kernel(kernel, backend, watched)
    try:
        for handle in _cases(kernel):
            judge.run(handle.load(), reach.KERNELS[kernel])
    finally:
        pg.unregister_kernel(kernel, backend)


def _cases(kernel: str) -> list[cases.Handle]:
    """Return a few cases that are not listed as exceptions."""
    known = [h for h in cases.handles("kernels", kernel) if h not in judge.departures()]
    assert known, f"{kernel} has no case that can be run"
    return known[:2]


def _needs(kernel: str, backend: str) -> None:
    """Skip Complex if the backend lacks the dtype of its result."""
    if kernel == "Complex":
        require_dtypes(backend, "complex64")


def test_nothing_else_is_implemented(backend: str) -> None:
    """Names are checked when a backend opens; all its kernels are in the catalog."""
    assert {*pg.get_kernels_for_backend(backend)} <= {*contracts()}
