"""Tests of libraries that take tensors: ``make test-consumers`` runs all of them.

Without ``--all``, the tests with the marker ``consumers_all`` are left out.
"""

import os

# SciPy reads it when it is imported; without it, scikit-learn refuses arrays.
os.environ.setdefault("SCIPY_ARRAY_API", "1")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "consumers_all: runs with --all only (make test-consumers)"
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("all"):
        return
    kept, left = [], []
    for item in items:
        (left if item.get_closest_marker("consumers_all") else kept).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept
