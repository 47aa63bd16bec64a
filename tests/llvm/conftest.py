"""Fixtures of the tests of plugrad-llvm."""

import plugrad as pg
import pytest
from plugrad_llvm import cache


@pytest.fixture(autouse=True)
def on_cpu(tmp_path_factory, monkeypatch):
    """Run on cpu, with a cache of machine code of this session."""
    where = tmp_path_factory.getbasetemp() / "machine-code"
    where.mkdir(exist_ok=True)
    monkeypatch.setattr(cache, "folder", lambda: where)
    with pg.use_backend("cpu"):
        yield
