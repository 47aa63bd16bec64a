"""Every golden case of every kernel and op that has a row in ``reach``.

``pytest -k Conv2D`` runs one kernel. The final summary lists unreached cases.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from plugrad.plugin import contracts, runtime

from . import instead, reach
from .cases import Handle, handles, names
from .judge import FILE, Row, departures, judge, read

ROWS: dict[str, Mapping[str, Row]] = {
    "kernels": reach.KERNELS,
    "gradients": reach.KERNELS,
    "errors": reach.KERNELS | reach.OPS,
}


def runnable_cases(kind: str) -> list[Handle]:
    """Return the handles of cases that have a row or are listed as exceptions."""
    return [
        handle
        for kernel in names(kind)
        for handle in handles(kind, kernel)
        if kernel in ROWS[kind] or handle in departures()
    ]


def check_case(case: Handle, backend: str, request: pytest.FixtureRequest) -> None:
    request.node.user_properties.append(("golden", case.kind))
    loaded = case.load()
    needed = {x.dtype.name for x in loaded.arrays if x.dtype != object}
    lacking = needed - {*runtime(backend).dtypes}
    if lacking:
        pytest.skip(f"{backend} has no {', '.join(sorted(lacking))}")
    judge(loaded, ROWS[case.kind].get(case.kernel), departures().get(case))


@pytest.mark.parametrize("case", runnable_cases("kernels"), ids=str)
def test_kernel(case: Handle, backend: str, request: pytest.FixtureRequest) -> None:
    check_case(case, backend, request)


@pytest.mark.parametrize("case", runnable_cases("gradients"), ids=str)
def test_gradient(case: Handle, backend: str, request: pytest.FixtureRequest) -> None:
    check_case(case, backend, request)


@pytest.mark.parametrize("case", runnable_cases("errors"), ids=str)
def test_error(case: Handle, backend: str, request: pytest.FixtureRequest) -> None:
    check_case(case, backend, request)


def test_every_kernel_has_a_row() -> None:
    """Exactly the kernels of the corpus that plugrad knows have a row."""
    known = {name for name in contracts() if "." not in name}
    corpus = set(names("kernels"))
    rows = set(reach.KERNELS)
    assert not sorted((known & corpus) - rows), "kernels without a row in reach"
    assert not sorted(rows - known), "rows whose kernel plugrad does not know"
    assert not sorted(rows - corpus), "rows whose kernel has no golden case"


def test_every_row_is_used() -> None:
    """Every row has a case, and no row is in two families."""
    assert not sorted(set(reach.OPS) - set(names("errors"))), "ops without a case"
    for table in ("KERNELS", "OPS"):
        rows = [name for family in reach.FAMILIES for name in getattr(family, table)]
        assert len(rows) == len(set(rows)), f"{table}: a row is in two families"


def test_every_exception_is_run() -> None:
    """Every exception names a case with a row; every check in ``instead`` is used."""
    entries = read(FILE.read_text())
    rowless = [
        entry.kernel
        for entry in entries
        if entry.kernel not in ROWS[entry.kind] and entry.reason != "no-such-op"
    ]
    assert not rowless, "exceptions of kernels that have no row"
    checks = {
        name
        for name, value in vars(instead).items()
        if getattr(value, "__module__", "") == instead.__name__
    }
    used = {entry.instead.partition(":")[2] for entry in entries}
    assert not checks - used, "functions of instead.py that no exception names"
