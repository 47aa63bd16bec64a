"""Tests of libraries that accept tensors: ``make test-consumers`` runs all of them.

Without ``--all``, the tests with the marker ``consumers_all`` are left out.
"""

import os

# SciPy reads this when it is imported. scikit-learn needs it for array API dispatch.
os.environ.setdefault("SCIPY_ARRAY_API", "1")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "consumers_all: runs with --all only (make test-consumers)"
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("all"):
        return
    selected, deselected = [], []
    for item in items:
        (deselected if item.get_closest_marker("consumers_all") else selected).append(
            item
        )
    config.hook.pytest_deselected(items=deselected)
    items[:] = selected
