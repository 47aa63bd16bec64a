"""Tests of the opencl backend; conformance tests check its kernels' results."""

import importlib.util

import plugrad as pg
import pytest

if importlib.util.find_spec("pyopencl") is None or "opencl" not in pg.backends():
    collect_ignore_glob = ["test_*.py"]  # pytest's header says why opencl is missing


@pytest.fixture(scope="session")
def device():
    """Return the device of the backend."""
    from plugrad._src.registry.registry import registry

    with pg.use_backend("opencl"):
        return registry.open("opencl").runtime.arrays.device
