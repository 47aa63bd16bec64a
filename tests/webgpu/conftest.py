"""Tests of plugrad-webgpu; conformance tests check the results of its kernels."""

import importlib.util

import plugrad as pg
import pytest


@pytest.fixture(autouse=True)
def webgpu():
    """Run each test on the backend, or skip it with the reason why it is missing."""
    if importlib.util.find_spec("wgpu") is None or "webgpu" not in pg.backends():
        pytest.skip("plugrad-webgpu or wgpu is not installed")
    try:
        with pg.use_backend("webgpu"):
            yield
    except pg.BackendUnavailable as error:
        pytest.skip(f"no adapter: {error}")
