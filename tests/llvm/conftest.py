"""Fixtures for the plugrad-llvm tests."""

import plugrad as pg
import pytest
from plugrad_llvm import cache, worth


@pytest.fixture(autouse=True)
def on_cpu(tmp_path_factory, monkeypatch):
    """Run on cpu, compile all regions, and cache machine code for this session."""
    cache_folder = tmp_path_factory.getbasetemp() / "machine-code"
    cache_folder.mkdir(exist_ok=True)
    monkeypatch.setattr(cache, "folder", lambda: cache_folder)
    monkeypatch.setattr(worth, "MIN_WORK", 0)  # also compile for small arrays
    monkeypatch.setattr(worth, "MAX_DEPTH", 64)
    with pg.use_backend("cpu"):
        yield
