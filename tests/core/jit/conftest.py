"""Fixtures of the tests of ``jit``."""

import plugrad as pg
import pytest
from plugrad.plugin import runtime
from plugrad_conformance.toy import toy as made


@pytest.fixture(autouse=True)
def on_cpu(own_compilers):
    """Run on cpu."""
    with pg.use_backend("cpu"):
        yield


@pytest.fixture
def toy():
    """Return a backend without softmax."""
    with made(without=["Softmax"], dtypes=runtime("cpu").dtypes) as arrays:
        runtime("toy")  # opens it, which registers its gradients
        yield arrays
