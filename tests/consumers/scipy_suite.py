"""Run SciPy's own array API tests with plugrad as the namespace.

``python -m tests.consumers.scipy_suite [backend ...] [module ...] [pytest options]``
runs them once on each backend, each time in a new process. If no backend is named, it
uses all backends; if no SciPy module is named, it tests all modules.

As a pytest plugin, this module redefines the fixtures ``xp`` and ``devices`` of SciPy's
``conftest.py`` for plugrad alone; it changes nothing else in SciPy. It selects the
tests that use the fixture ``xp``, expects the failures that ``scipy_xfails.toml``
explains, and prints a table by module and the number of failures for each reason.
"""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import plugrad as pg
import pytest

from . import suites
from .suites import BACKENDS, backend

MODULES = """
    _lib cluster constants differentiate fft integrate interpolate linalg ndimage
    optimize signal spatial special stats
""".split()  # noqa: SIM905
XFAILS = Path(__file__).parent / "scipy_xfails.toml"

# --- the plugin ------------------------------------------------------------------


def devices(xp: Any) -> list[str | None]:
    """Return all devices and None; SciPy's own fixture does not accept a tuple."""
    return [*xp.__array_namespace_info__().devices(), None]


def add_plugrad() -> None:
    """Replace the fixtures ``xp`` and ``devices`` before pytest reads them."""
    import scipy.conftest as scipy_conftest

    param = pytest.param(pg, id="plugrad", marks=pytest.mark.array_api_backends)
    scipy_conftest.xp_known_backends.add("plugrad")
    scipy_conftest.xp = pytest.fixture(params=[param])(scipy_conftest.xp.__wrapped__)
    scipy_conftest.devices = pytest.fixture(devices)


@cache
def expected() -> list[dict[str, Any]]:
    """Return the entries of tests that are expected to fail on the active backend."""
    entries = tomllib.loads(XFAILS.read_text())["xfail"]
    return [entry for entry in entries if backend() in entry.get("backends", BACKENDS)]


def reason(test: str, message: str) -> str | None:
    """Return why a test is expected to fail, or None."""
    for entry in expected():
        is_message_known = any(
            re.search(text, message) for text in entry.get("messages", ())
        )
        if is_message_known or test.startswith(tuple(entry.get("tests", ("-",)))):
            return str(entry["reason"])
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep only the tests that use the fixture ``xp``."""
    selected = [item for item in items if "xp" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(
        items=[item for item in items if item not in selected]
    )
    items[:] = selected


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[Any]:
    """Report failures with a known reason as expected."""
    report = yield
    if report.failed and call.excinfo is not None:
        why = reason(item.nodeid, str(call.excinfo.value))
        if why is not None:
            report.outcome, report.wasxfail = "skipped", why
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the outcomes by module, and the number of failures for each reason."""
    module = lambda test: test.partition("/")[0]
    suites.table(terminalreporter, f"SciPy {version('scipy')}", module)
    count_by_reason = Counter(
        x.wasxfail for x in terminalreporter.stats.get("xfailed", ())
    )
    for entry in expected():
        line = (
            f"{count_by_reason[entry['reason']]}: {' '.join(entry['reason'].split())}"
        )
        terminalreporter.write_line(line)


# --- the program -----------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Run the tests on each backend; return 1 if some failed."""
    backends = [word for word in arguments if word in BACKENDS]
    modules = [word for word in arguments if word in MODULES]
    options = [word for word in arguments if word not in backends + modules]
    pytest_arguments = ["--tb=line", *(modules or MODULES), *options]
    (scipy_folder,) = find_spec(
        "scipy"
    ).submodule_search_locations  # without importing it
    run = lambda backend: suites.run(
        backend, __spec__.name, Path(scipy_folder), pytest_arguments
    )
    return int(any([run(backend) for backend in backends or BACKENDS]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
else:
    add_plugrad()
