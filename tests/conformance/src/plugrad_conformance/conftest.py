"""Runs each test on all backends (``fixtures``), with the same random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from .fixtures import backend, pytest_generate_tests

__all__ = ["backend", "pytest_generate_tests"]


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest) -> None:
    """Reset the module's ``RNG``: the draws of a test do not depend on other tests."""
    generator = getattr(request.module, "RNG", None)
    if generator is not None:
        generator.bit_generator.state = np.random.default_rng(1).bit_generator.state
