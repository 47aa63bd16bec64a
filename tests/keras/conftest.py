"""Selects plugrad as the backend of Keras before any test imports Keras."""

import importlib.util
import os

import pytest

HAS_KERAS = importlib.util.find_spec("keras") is not None
if HAS_KERAS:
    os.environ["KERAS_BACKEND"] = "plugrad"
    import keras_plugrad_hook

    keras_plugrad_hook.install()
else:
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header():
    """Say that the tests of keras-plugrad are left out."""
    return None if HAS_KERAS else "keras-plugrad is not tested: keras is not installed"


@pytest.fixture(autouse=True)
def _same_names():
    """Number the layers of each test from 1."""
    import keras

    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
