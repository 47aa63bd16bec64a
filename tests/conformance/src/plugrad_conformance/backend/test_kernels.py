"""Every kernel of the catalog can run; only declared kernels run on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts, runtime

from ..backends import ways_to_run
from ..check import require_dtypes
from ..golden import cases, judge, reach

CATALOG = sorted(kernel for kernel in contracts() if "." not in kernel)


@pytest.mark.parametrize("kernel", CATALOG)
def test_there_is_a_way_to_run_every_kernel(kernel: str, backend: str) -> None:
    """A kernel is implemented, decomposed, or declared as a host kernel."""
    way = ways_to_run(backend)[kernel]
    if way == "no dtype":
        pytest.skip(f"{backend} has no complex64")
    assert way != "missing", (
        f"{backend} does not implement {kernel}, which has no decomposition: implement "
        "it, or name it in host_kernels= of the Runtime, with host="
    )


@pytest.mark.parametrize("kernel", sorted(reach.KERNELS))
def test_results_are_as_the_contract_says(kernel: str, backend: str) -> None:
    """Debug mode checks the shape, dtype and backend of the results of golden cases."""
    _skip_without_complex(kernel, backend)
    for handle in _cases(kernel):
        with pg.debug(finite=False):
            judge.run(handle.load(), reach.KERNELS[kernel])


WITH_INPUTS = [kernel for kernel in sorted(reach.KERNELS) if contracts()[kernel].inputs]


@pytest.mark.parametrize("kernel", WITH_INPUTS)
def test_inputs_stay_unchanged(kernel: str, backend: str) -> None:
    """A kernel may return an input, or a view of one, but never writes into one."""
    function = pg.get_kernel(kernel, backend)
    download = runtime(backend).arrays.download
    if function is None:
        pytest.skip(f"{backend} does not implement it")
    _skip_without_complex(kernel, backend)

    def checking_inputs(*xs: Any, **attrs: Any) -> Any:
        natives = [x for x in xs if hasattr(x, "shape")]
        before = [np.array(download(x)) for x in natives]
        y = function(*xs, **attrs)
        for values, x in zip(before, natives, strict=True):
            np.testing.assert_array_equal(download(x), values)
        return y

    pg.register_kernel(kernel, backend, checking_inputs)
    try:
        for handle in _cases(kernel):
            judge.run(handle.load(), reach.KERNELS[kernel])
    finally:
        pg.unregister_kernel(kernel, backend)


def _cases(kernel: str) -> list[cases.Handle]:
    """Return a few cases that are not listed as exceptions."""
    usable = [
        h for h in cases.handles("kernels", kernel) if h not in judge.departures()
    ]
    assert usable, f"{kernel} has no case that can be run"
    return usable[:2]


def _skip_without_complex(kernel: str, backend: str) -> None:
    """Skip the kernel Complex if the backend lacks the dtype of its result."""
    if kernel == "Complex":
        require_dtypes(backend, "complex64")


def test_implemented_kernels_are_in_the_catalog(backend: str) -> None:
    """Names are checked when a backend opens; all its kernels are in the catalog."""
    assert {*pg.get_kernels_for_backend(backend)} <= {*contracts()}
