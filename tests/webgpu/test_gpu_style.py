"""The kernels for GPUs, in which a workgroup shares a row, on any adapter.

They run in a process of their own with ``PLUGRAD_WEBGPU_STYLE=gpu``.
"""

import numpy as np
import plugrad as pg

from tests.processes import output

# Kept in registers, with and without a remainder; not in vectors; read in each loop.
LENGTHS = (256, 1000, 1030, 4100)


def in_gpu_style(call: str) -> None:
    """Run a function of this module in a process that uses the kernels for GPUs."""
    code = f"from tests.webgpu import test_gpu_style as t; t.{call}; print('done')"
    own = {"PLUGRAD_WEBGPU_STYLE": "gpu", "PLUGRAD_BACKEND": "webgpu"}
    assert output(code, **own) == "done\n"


def rows(n: int) -> np.ndarray:
    """Return rows with ordinary, huge and infinite numbers."""
    values = np.random.default_rng(n).normal(size=(5, n)).astype(np.float32)
    values[1] *= 1e4
    values[2, n // 2] = -np.inf
    return values


def check_softmax() -> None:
    """Compare with the formula in float64, and rows without a result."""
    for n in LENGTHS:
        x = rows(n)
        wide = np.exp(x.astype(float) - x.max(1, keepdims=True))
        expected = wide / wide.sum(1, keepdims=True)
        found = pg.softmax(pg.asarray(x)).numpy()
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-30)
        with np.errstate(divide="ignore"):
            logarithm = np.log(expected[:1])
        found = pg.log_softmax(pg.asarray(x[:1])).numpy()
        np.testing.assert_allclose(found, logarithm, rtol=2e-6, atol=2e-6)
        for special in (np.nan, np.inf):
            x[3, -1] = special
            assert np.isnan(pg.softmax(pg.asarray(x)).numpy()[3]).all()


def check_layer_norm() -> None:
    """Compare with the formula in float64, also far away from zero."""
    for n in LENGTHS:
        x = np.random.default_rng(n).normal(size=(5, n)).astype(np.float32)
        x[1] += 1000
        scale, offset = x[3] + 1, x[4].copy()
        wide = x.astype(float)
        centred = wide - wide.mean(1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
        expected = centred / deviation * scale + offset
        found = pg.layer_norm(*map(pg.asarray, (x, scale, offset)), epsilon=1e-5)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def check_reductions() -> None:
    """Compare sums and extremes of rows."""
    for n in (*LENGTHS, 100_000):
        x = np.random.default_rng(n).integers(-99, 100, (3, n)).astype(np.float32)
        tensor = pg.asarray(x)
        np.testing.assert_array_equal(pg.sum(tensor, axis=1).numpy(), x.sum(1))
        np.testing.assert_array_equal(pg.max(tensor, axis=1).numpy(), x.max(1))
        np.testing.assert_array_equal(pg.min(tensor).numpy(), x.min())
        positive = pg.all(pg.greater(tensor, -50.0), axis=1).numpy()
        np.testing.assert_array_equal(positive, (x > -50).all(1))


def test_softmax():
    in_gpu_style("check_softmax()")


def test_layer_norm():
    in_gpu_style("check_layer_norm()")


def test_reductions():
    in_gpu_style("check_reductions()")


def check_style() -> None:
    """Find out whether the device takes itself for a GPU."""
    from plugrad_webgpu.device import device

    assert not device().is_cpu


def test_the_style_is_used():
    in_gpu_style("check_style()")
