"""Run SciPy's own tests of the array API with plugrad as the namespace.

``python -m tests.consumers.scipy_suite [backend ...] [module ...] [options of pytest]``
runs them once on each backend, in a process of its own: on those that are named, or on
all; of the modules that are named, or of all.

As a plugin of pytest, this module makes the fixtures ``xp`` and ``devices`` of SciPy's
``conftest.py`` again, for plugrad alone; it changes nothing else of SciPy. It selects the tests that
take the fixture, expects the failures that ``scipy_xfails.toml`` explains, and prints a
table by module, and the number of failures of each reason.
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
    """Return all devices; SciPy's fixture adds a list, and 2025.12 says a tuple."""
    return [*xp.__array_namespace_info__().devices(), None]


def add_plugrad() -> None:
    """Make the fixtures ``xp`` and ``devices`` before pytest reads them."""
    import scipy.conftest as theirs

    param = pytest.param(pg, id="plugrad", marks=pytest.mark.array_api_backends)
    theirs.xp_known_backends.add("plugrad")
    theirs.xp = pytest.fixture(params=[param])(theirs.xp.__wrapped__)
    theirs.devices = pytest.fixture(devices)


@cache
def expected() -> list[dict[str, Any]]:
    """Return the reasons why tests fail on the active backend."""
    entries = tomllib.loads(XFAILS.read_text())["xfail"]
    return [one for one in entries if backend() in one.get("backends", BACKENDS)]


def reason(test: str, message: str) -> str | None:
    """Return why a test fails, if it is known."""
    for one in expected():
        said = any(re.search(text, message) for text in one.get("messages", ()))
        if said or test.startswith(tuple(one.get("tests", ("-",)))):
            return str(one["reason"])
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep the tests on plugrad."""
    kept = [item for item in items if "xp" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[Any]:
    """Expect the failures that have a known reason."""
    report = yield
    if report.failed and call.excinfo is not None:
        why = reason(item.nodeid, str(call.excinfo.value))
        if why is not None:
            report.outcome, report.wasxfail = "skipped", why
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many tests of each module passed, and why others did not."""
    module = lambda test: test.partition("/")[0]
    suites.table(terminalreporter, f"SciPy {version('scipy')}", module)
    known = Counter(x.wasxfail for x in terminalreporter.stats.get("xfailed", ()))
    for one in expected():
        line = f"{known[one['reason']]}: {' '.join(one['reason'].split())}"
        terminalreporter.write_line(line)


# --- the program -----------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Run the tests on each backend; return 1 if some failed."""
    backends = [one for one in arguments if one in BACKENDS]
    modules = [one for one in arguments if one in MODULES]
    options = [one for one in arguments if one not in backends + modules]
    given = ["--tb=line", *(modules or MODULES), *options]
    (found,) = find_spec("scipy").submodule_search_locations  # without an import
    run = lambda backend: suites.run(backend, __spec__.name, Path(found), given)
    return int(any([run(backend) for backend in backends or BACKENDS]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
else:
    add_plugrad()
