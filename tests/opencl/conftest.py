"""Tests of the backend opencl itself; what its kernels compute, the suite tests."""

import importlib.util

import pytest

if importlib.util.find_spec("pyopencl") is None:
    collect_ignore_glob = ["test_*.py"]  # the header says that opencl is not installed


@pytest.fixture(scope="session")
def device():
    """Return the device of the backend."""
    import plugrad as pg
    from plugrad._registry import registry

    with pg.use_backend("opencl"):
        return registry.open("opencl").runtime.arrays.device
