"""Convolutions with one channel in each group run as depthwise convolutions."""

import numpy as np
import plugrad as pg
import pytest
from plugrad_opencl.kernels import depthwise

RNG = np.random.default_rng(5)
CASES = [  # input channels, output channels for each of them, options
    (8, 1, {"pad": "same"}),
    (3, 2, {"pad": "valid", "strides": 2}),
    (4, 1, {"pad": 1, "dilations": 2}),
    (1, 4, {"pad": "same"}),  # one group: not a depthwise convolution
]


@pytest.fixture(autouse=True)
def on_opencl():
    with pg.use_backend("opencl"):
        yield


def draw(*shape):
    return pg.asarray(RNG.normal(size=shape).astype(np.float32))


@pytest.mark.parametrize(("c", "m", "options"), CASES)
def test_groups_of_one_channel(c, m, options, monkeypatch):
    ran = []
    for name in ("conv", "backprop_input", "backprop_filter"):
        kernel = getattr(depthwise, name)
        spy = lambda *args, kernel=kernel, name=name, **attrs: (
            ran.append(name) or kernel(*args, **attrs)
        )
        monkeypatch.setattr(depthwise, name, spy)
    x = draw(2, 9, 8, c)
    w = draw(3, 3, 1, c * m)
    grouped = lambda x, w: pg.conv2d(x, w, groups=c, **options)
    single = lambda x, w: pg.depthwise_conv2d(x, pg.reshape(w, (3, 3, c, m)), **options)
    y, pull = pg.vjp(grouped, x, w)
    found = [y, *pull(pg.ones_like(y))]
    kernels = ["backprop_filter", "backprop_input", "conv"]
    assert sorted(ran) == (kernels if c > 1 else [])
    y, pull = pg.vjp(single, x, w)
    for a, b in zip(found, [y, *pull(pg.ones_like(y))], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ["linear", "relu", "prelu"])
def test_with_a_bias_and_an_activation(activation):
    x = draw(2, 9, 8, 6)
    w = draw(3, 3, 1, 6)
    b = draw(6)
    alpha = draw(6) if activation == "prelu" else None
    options = {"pad": "same", "activation": activation}
    found = pg.fused.conv2d(x, w, b, alpha, groups=6, **options)
    wanted = pg.fused.depthwise_conv2d(
        x, pg.reshape(w, (3, 3, 6, 1)), b, alpha, **options
    )
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)
