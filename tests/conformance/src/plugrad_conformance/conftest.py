"""The tests below run on backends: see ``fixtures``."""

from .fixtures import backend, pytest_generate_tests

__all__ = ["backend", "pytest_generate_tests"]
