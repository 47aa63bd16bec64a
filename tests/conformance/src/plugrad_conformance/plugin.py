"""The pytest plugin: its options, and how it runs the tests of this package.

It does not affect other tests. This module has three parts: options; collection, which
assigns levels, marks expected failures and selects tests; and running, which excuses
failures and records how kernels run. ``scorecard`` counts the results.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from . import expected, levels, running, skips
from .scorecard import Scorecard

pytest.register_assert_rewrite(
    *(f"{__package__}.{name}" for name in ("backend", "check", "golden", "ops"))
)

PACKAGE = Path(__file__).parent
ENTRIES: pytest.StashKey[list[expected.Expected]] = pytest.StashKey()
CARD: pytest.StashKey[Scorecard] = pytest.StashKey()


# --- options ---------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, whose names begin with ``--plugrad-``."""
    group = parser.getgroup("plugrad", "conformance of plugrad's backends")
    group.addoption(
        "--plugrad-backend",
        action="append",
        dest="plugrad_backends",
        metavar="NAME",
        help="test this backend; default: all that are installed",
    )
    group.addoption(
        "--plugrad-level",
        choices=levels.LEVELS,
        default=levels.LEVELS[-1],
        help="run the tests up to this level; default: everything",
    )
    group.addoption(
        "--plugrad-thorough",
        action="store_true",
        help="draw many more random examples",
    )
    group.addoption(
        "--plugrad-report",
        type=Path,
        metavar="FILE",
        help="write the scorecard as JSON",
    )
    group.addoption(
        "--plugrad-xfail",
        type=Path,
        metavar="FILE",
        help="TOML: expected failures, each with a reason and a link",
    )
    parser.addini(
        "plugrad_skips",
        "TOML: the numbers of skipped tests, by backend and reason",
        type="paths",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the file of expected failures at once, to report its faults early."""
    path = config.getoption("plugrad_xfail")
    try:
        config.stash[ENTRIES] = expected.read(path) if path else []
    except ValueError as error:
        raise pytest.UsageError(f"--plugrad-xfail: {error}") from None
    pinned: dict[str, skips.Pinned] = {}
    try:
        for file in config.getini("plugrad_skips"):
            pinned |= skips.read(file)
    except ValueError as error:
        raise pytest.UsageError(f"plugrad_skips: {error}") from None
    config.stash[CARD] = Scorecard(config.getoption("plugrad_report"), pinned)
    config.pluginmanager.register(config.stash[CARD], "plugrad-scorecard")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to run on a backend that is missing or does not open.

    Before that, report the tests during which earlier runs were killed.
    """
    running.start(session.config)
    names = session.config.getoption("plugrad_backends")
    if names:
        from .backends import refusal

        for name in names:
            if error := refusal(name):
                raise pytest.UsageError(
                    f"--plugrad-backend: {error}; see `python -m plugrad doctor`"
                ) from error


# --- collection ------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Assign levels to the tests of this package; deselect those not requested."""
    own_items = {item: file for item in items if (file := _test_file(item)) is not None}
    if not own_items:
        return
    entries, ids = config.stash[ENTRIES], []
    for item, file in own_items.items():
        properties = _test_properties(item, file)
        item.user_properties.append(("plugrad", properties))
        ids.append(properties["test"])
        for entry in entries:
            if entry.matches(properties["test"]):
                reason = f"{entry.reason} ({entry.link})"
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    files = {_name(path) for path in PACKAGE.glob("*/test_*.py")}
    whole = files == {*own_items.values()}
    unused = expected.unmatched(entries, ids) if whole else []
    if unused:
        raise pytest.UsageError(f"--plugrad-xfail: no test matches {', '.join(unused)}")
    requested = [item for item in own_items if _is_selected(item, config)]
    config.stash[CARD].collected(
        {item.nodeid: _backend(item) for item in requested}, whole
    )
    dropped = {*own_items} - {*requested}
    if dropped:
        config.hook.pytest_deselected(items=[*dropped])
        items[:] = [item for item in items if item not in dropped]


def _is_selected(item: pytest.Item, config: pytest.Config) -> bool:
    """Return whether a test has a requested level and runs on a requested backend.

    Tests without a backend are about plugrad itself.
    """
    properties = _recorded(item)
    highest = levels.LEVELS.index(config.getoption("plugrad_level"))
    if config.getoption("plugrad_backends") and not properties["backend"]:
        return False
    return levels.LEVELS.index(properties["level"]) <= highest


def _test_properties(item: pytest.Item, file: str) -> dict[str, str]:
    """Return the properties of a test that the scorecard needs."""
    params = _parameters(item)
    case = params.get("case")
    row = params.get("row")
    if file == "golden/test_golden" and case is not None:
        from .golden import reach

        kernel = case.kernel
        level = levels.level_of_case(case.kind, kernel, reach.family(kernel))
    else:
        kernel = params.get("kernel", getattr(row, "kernel", ""))
        level = levels.level(file, getattr(item, "originalname", item.name))
    return {
        "test": f"{file}.py::{item.nodeid.partition('::')[2]}",
        "backend": str(params.get("backend", "")),
        "level": level,
        "kernel": str(kernel or ""),
    }


def _parameters(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return dict(callspec.params) if callspec else {}


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def _test_file(item: pytest.Item) -> str | None:
    """Return "ops/test_unary" for a test of this package, None for others."""
    return _file_in_package(item.path)


@functools.cache
def _file_in_package(path: Path) -> str | None:
    return _name(path) if path.is_relative_to(PACKAGE) else None


def _backend(item: pytest.Item) -> str:
    """Return the backend that a test of this package runs on, or ""."""
    return _recorded(item).get("backend", "")


def _recorded(item: pytest.Item) -> dict[str, str]:
    """Return the recorded properties of a test; none for other packages."""
    properties: Any = dict(item.user_properties).get("plugrad", {})
    return dict(properties)


# --- running ---------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Skip a test whose fixture failed for an excused reason."""
    return (yield from _excused(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Skip excused failures; record which kernels had no implementation."""
    backend = _backend(item)
    if not backend:
        return (yield)
    import plugrad as pg

    before = pg.engine().fallback_counts
    try:
        return (yield from _excused(item))
    finally:
        fallbacks = [
            [kernel, way, count - before.get((kernel, name, way), 0)]
            for (kernel, name, way), count in pg.engine().fallback_counts.items()
            if name == backend and count > before.get((kernel, name, way), 0)
        ]
        if fallbacks:
            item.user_properties.append(("plugrad-fallback_counts", fallbacks))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record whether a skip follows from the parameters of the test."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and _backend(item):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if skips.follows(reason, _parameters(item)):
            report.user_properties.append((skips.FOLLOWS, True))
    return report


def _excused(item: pytest.Item) -> Generator[None, Any, Any]:
    try:
        return (yield)
    except Exception as error:
        if backend := _backend(item):
            from .excuses import excuse

            if reason := excuse(error, backend, _parameters(item)):
                item.user_properties.append((skips.FOLLOWS, True))
                pytest.skip(reason)
        raise
