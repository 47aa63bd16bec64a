"""Run scikit-learn's own array API tests with plugrad as the namespace.

``python -m tests.consumers.sklearn_suite [backend ...] [pytest options]`` runs them
once on each backend, each time in a new process. If no backend is named, it uses all.

As a pytest plugin, this module replaces the generators with which scikit-learn
parametrizes its tests; it changes nothing else in scikit-learn. It selects these tests,
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
    """Return namespace, device and dtype; device None is the active backend."""
    return [("plugrad", None, "float64"), ("plugrad", None, "float32")]


def conversions() -> list[tuple[Any, ...]]:
    """Return conversions: the source, the target (where X or y_pred is), and an id."""
    on_active = array_api.NamespaceAndDevice("plugrad", None)
    other_backend = "wasm"
    if backend() == other_backend:
        other_backend = "cpu"
    on_other = array_api.NamespaceAndDevice("plugrad", other_backend)
    numpy = array_api.NamespaceAndDevice("numpy", None)
    return [
        (numpy, on_active, "numpy to plugrad"),
        (on_active, numpy, "plugrad to numpy"),
        (on_other, on_active, f"plugrad on {other_backend} to plugrad"),
    ]


def checks(original: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
    """Yield the checks of an estimator, with plugrad in place of array_api_strict."""
    for check in original(*args, **kwargs):
        if check.keywords.get("array_namespace") == "array_api_strict":
            check = partial(check.func, array_namespace="plugrad")
        yield check


for module in (array_api, estimator_checks):
    module.yield_namespace_device_dtype_combinations = combinations
    module.yield_mixed_namespace_input_permutations = conversions
array_api.yield_namespaces = namespaces
estimator_checks._yield_array_api_checks = partial(
    checks, estimator_checks._yield_array_api_checks
)

# --- the plugin ------------------------------------------------------------------


def expected() -> dict[str, str]:
    """Return why tests fail on the active backend, by prefixes of their names."""
    entries = tomllib.loads(XFAILS.read_text())["xfail"]
    active = [
        entry for entry in entries if backend() in entry.get("backends", BACKENDS)
    ]
    return {name: entry["reason"] for entry in active for name in entry["tests"]}


@pytest.hookimpl(tryfirst=True)  # before -k leaves tests out
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep the tests with plugrad, and mark those that are expected to fail."""
    selected: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        (selected if "plugrad" in item.nodeid else deselected).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = selected
    for name, reason in expected().items():
        found = [item for item in items if item.nodeid.startswith(name)]
        if not found:
            raise pytest.UsageError(f"{XFAILS.name}: there is no test {name}")
        for item in found:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the outcomes of the tests by file."""
    file = lambda test: test.partition("::")[0].removeprefix("sklearn/")
    suites.table(terminalreporter, f"scikit-learn {sklearn.__version__}", file)


# --- the program -----------------------------------------------------------------


def files() -> list[str]:
    """Return scikit-learn's test files that contain array API tests."""
    names = ("yield_namespace", "yield_mixed_namespace", "parametrize_with_checks")
    tests = sorted((PACKAGES / "sklearn").rglob("tests/test_*.py"))
    return [str(p) for p in tests if any(n in p.read_text("utf-8") for n in names)]


def main(arguments: list[str]) -> int:
    """Run the tests on each backend; return 1 if some failed."""
    backends = [word for word in arguments if word in BACKENDS]
    options = [word for word in arguments if word not in BACKENDS]
    pytest_arguments = ["--tb=short", *options, *files()]
    run = lambda backend: suites.run(backend, __spec__.name, PACKAGES, pytest_arguments)
    return int(any([run(backend) for backend in backends or BACKENDS]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
