"""Tests of this backend alone; plugrad-conformance has those for all backends."""

import numpy as np
import plugrad as pg
import pytest


@pytest.fixture(autouse=True)
def backend():
    with pg.use_backend("numba"):
        yield


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("strides", [1, 2])
def test_depthwise_convolution_matches_cpu(multiplier, strides):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 9, 8, 3)).astype(np.float32)
    filter = rng.normal(size=(3, 3, 3, multiplier)).astype(np.float32)
    convolve = lambda: pg.depthwise_conv2d(x, filter, strides=strides, pad="same")
    found = convolve().numpy()
    with pg.use_backend("cpu"):
        np.testing.assert_allclose(found, convolve().numpy(), rtol=1e-4, atol=1e-5)


def test_declined_calls_run_on_the_host():
    with pg.profile() as p:
        assert pg.astype([-1.5], "int32").tolist() == [-1]
        assert pg.astype([0, 2], "bool").tolist() == [False, True]
    runs = [(record.kernel, record.how) for record in p.records]
    assert runs == [("Cast", "host"), ("Cast", "implementation")]
