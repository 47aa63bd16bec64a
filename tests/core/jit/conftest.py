"""Fixtures of the tests of ``jit``."""

import plugrad as pg
import pytest
from plugrad.plugin import runtime
from plugrad.registry.registry import registry
from plugrad_conformance.toy import toy as made


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    """Run on cpu, without plugrad-llvm, which has tests of its own."""
    with pg.use_backend("cpu"):
        packs = registry.kernel_packs("cpu")
        kept = [pack for pack in packs if pack.owner.distribution != "plugrad-llvm"]
        monkeypatch.setattr(registry, "_kernel_packs", kept)
        yield


@pytest.fixture
def toy():
    """Return a backend without softmax."""
    with made(without=["Softmax"], dtypes=runtime("cpu").dtypes) as arrays:
        runtime("toy")  # opens it, which registers its gradients
        yield arrays
