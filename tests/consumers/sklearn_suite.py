"""Run scikit-learn's own tests of the array API with plugrad as the namespace.

``python -m tests.consumers.sklearn_suite [backend ...] [options of pytest]`` runs them
once on each backend, in a process of its own: on those that are named, or on all.

As a plugin of pytest, this module replaces the generators of scikit-learn that
parametrize its tests; it changes nothing else of scikit-learn. It selects these tests,
expects the failures that ``sklearn_xfails.toml`` lists, and prints a table by file.
"""

import os
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy reads it when it is imported

import pytest
import sklearn
from sklearn.utils import _array_api as array_api
from sklearn.utils import estimator_checks

from . import suites
from .suites import BACKENDS, backend

PACKAGES = Path(sklearn.__file__).parents[1]
XFAILS = Path(__file__).parent / "sklearn_xfails.toml"

# --- what the generators of scikit-learn yield -----------------------------------


def namespaces(include_numpy_namespaces: bool = True) -> list[str]:
    """Return the only namespace."""
    return ["plugrad"]


def combinations(include_numpy_namespaces: bool = True) -> list[tuple[Any, ...]]:
    """Return namespace, device and dtype; no device is that of the active backend."""
    return [("plugrad", None, "float64"), ("plugrad", None, "float32")]


def mixed() -> list[tuple[Any, ...]]:
    """Return what X, or y_pred, is beside another input, which follows it."""
    here = array_api.NamespaceAndDevice("plugrad", None)
    there = "wasm"
    if backend() == there:
        there = "cpu"
    elsewhere = array_api.NamespaceAndDevice("plugrad", there)
    numpy = array_api.NamespaceAndDevice("numpy", None)
    return [
        (numpy, here, "numpy to plugrad"),
        (here, numpy, "plugrad to numpy"),
        (elsewhere, here, f"plugrad on {there} to plugrad"),
    ]


def checks(original: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
    """Yield the checks of an estimator, those of array_api_strict alone on plugrad."""
    for check in original(*args, **kwargs):
        if check.keywords.get("array_namespace") == "array_api_strict":
            check = partial(check.func, array_namespace="plugrad")
        yield check


for module in (array_api, estimator_checks):
    module.yield_namespace_device_dtype_combinations = combinations
    module.yield_mixed_namespace_input_permutations = mixed
array_api.yield_namespaces = namespaces
estimator_checks._yield_array_api_checks = partial(
    checks, estimator_checks._yield_array_api_checks
)

# --- the plugin ------------------------------------------------------------------


def expected() -> dict[str, str]:
    """Return why tests fail on the active backend, by the beginnings of their names."""
    entries = tomllib.loads(XFAILS.read_text())["xfail"]
    mine = [one for one in entries if backend() in one.get("backends", BACKENDS)]
    return {name: one["reason"] for one in mine for name in one["tests"]}


@pytest.hookimpl(tryfirst=True)  # before -k leaves tests out
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep the tests on plugrad, and mark those that are expected to fail."""
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (kept if "plugrad" in item.nodeid else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept
    for name, reason in expected().items():
        found = [item for item in items if item.nodeid.startswith(name)]
        if not found:
            raise pytest.UsageError(f"{XFAILS.name}: there is no test {name}")
        for item in found:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many tests of each file passed, and how many did not."""
    file = lambda test: test.partition("::")[0].removeprefix("sklearn/")
    suites.table(terminalreporter, f"scikit-learn {sklearn.__version__}", file)


# --- the program -----------------------------------------------------------------


def files() -> list[str]:
    """Return the files of scikit-learn that have tests of the array API."""
    names = ("yield_namespace", "yield_mixed_namespace", "parametrize_with_checks")
    tests = sorted((PACKAGES / "sklearn").rglob("tests/test_*.py"))
    return [str(p) for p in tests if any(n in p.read_text("utf-8") for n in names)]


def main(arguments: list[str]) -> int:
    """Run the tests on each backend; return 1 if some failed."""
    named = [one for one in arguments if one in BACKENDS]
    options = [one for one in arguments if one not in BACKENDS]
    given = ["--tb=short", *options, *files()]
    run = lambda backend: suites.run(backend, __spec__.name, PACKAGES, given)
    return int(any([run(backend) for backend in named or BACKENDS]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
