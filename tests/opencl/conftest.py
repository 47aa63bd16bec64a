"""Tests of the backend opencl itself; what its kernels compute, the suite tests."""

import importlib.util

import plugrad as pg
import pytest

if importlib.util.find_spec("pyopencl") is None or "opencl" not in pg.backends():
    collect_ignore_glob = ["test_*.py"]  # the header says that opencl is not here, why


@pytest.fixture(scope="session")
def device():
    """Return the device of the backend."""
    from plugrad._src.registry.registry import registry

    with pg.use_backend("opencl"):
        return registry.open("opencl").runtime.arrays.device
