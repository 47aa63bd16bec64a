import gc

import numpy as np
import plugrad as pg
import pytest


@pytest.fixture
def device():
    from plugrad_webgpu.device import device

    return device()


def test_the_description_names_the_driver(device):
    import plugrad_webgpu

    assert device.name in plugrad_webgpu.adapters()


def test_an_unknown_adapter_is_an_error(monkeypatch):
    from plugrad_webgpu import discovery

    monkeypatch.setenv(discovery.VARIABLE, "no such adapter")
    with pytest.raises(pg.BackendError, match="no such adapter"):
        discovery.choose()


def test_no_adapter_is_an_error(monkeypatch):
    from plugrad_webgpu import discovery

    monkeypatch.setattr(discovery, "find", list)
    with pytest.raises(pg.BackendError, match="install a GPU driver"):
        discovery.choose()


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "int64", "float64", "f4"])
def test_values_survive_the_way_there_and_back(dtype):
    values = np.arange(7).astype(dtype)
    np.testing.assert_array_equal(pg.asarray(values).numpy(), values)


def test_an_upload_does_not_overtake_recorded_kernels():
    x = pg.asarray(np.ones(1000, "f4"))
    sums = []
    for i in range(100):
        y = pg.asarray(np.full(1000, i, "f4"))
        sums.append(pg.add(x, y))
        del y
    assert [s.numpy()[0] for s in sums] == [i + 1 for i in range(100)]


def test_few_pipelines_are_kept(device, monkeypatch):
    from plugrad_webgpu import launching

    monkeypatch.setattr(launching, "MAX_CACHED_PIPELINES", 2)
    monkeypatch.setattr(device.launches, "_pipelines", {})
    x = pg.asarray(np.linspace(-1, 1, 1237, dtype="f4"))  # no plan has this size
    for op in (pg.sinh, pg.cosh, pg.expm1, pg.log1p, pg.sinh):
        found = op(x * 0.5).numpy()
        expected = getattr(np, op.__name__)(x.numpy() * np.float32(0.5))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert 0 < len(device.launches._pipelines) <= 2


def test_memory_returns_to_the_pool(device):
    pg.exp(pg.asarray(np.ones(1000, "f4"))).numpy()
    gc.collect()
    kept = device.pool.pooled + device.pool._leased
    for _ in range(1000):
        pg.exp(pg.asarray(np.ones(1000, "f4")))
    device.synchronize()
    gc.collect()
    assert device.pool.pooled + device.pool._leased < kept + (4 << 20)


def test_arrays_in_reference_cycles_return_to_the_pool(device):
    for _ in range(50):
        x = pg.exp(pg.asarray(np.ones(1000, "f4")))
        cycle = [x]
        cycle.append(cycle)
        del x, cycle
    gc.collect()
    np.testing.assert_allclose(pg.exp(pg.zeros(1000)).numpy(), 1)


def test_a_reported_problem_becomes_a_backend_error(device):
    device._problems.append("The WGPU device was lost (Unknown)")
    with pytest.raises(pg.BackendError, match=r"the device was lost .*last kernels"):
        pg.exp(pg.zeros(3)).numpy()
    assert pg.exp(pg.zeros(3)).numpy()[0] == 1


def test_an_invalid_shader_becomes_a_backend_error(device):
    with pytest.raises(pg.BackendError, match="the device failed"):
        device.launch("Broken", "fn main() { not wgsl }", [], b"", (1, 1, 1))


def test_an_index_out_of_range_is_reported_at_the_next_wait():
    y = pg.gather(pg.zeros((3, 2)), pg.asarray([1, 5]))
    with pytest.raises(
        IndexError, match="index 5 is out of range for axis 0 with size 3"
    ):
        y.numpy()
    assert pg.gather(pg.ones((3, 2)), pg.asarray([1])).numpy()[0, 0] == 1


def test_uploads_reuse_buffers_while_a_kernel_is_recorded(device):
    from plugrad_webgpu.memory import WAITING_BUFFERS

    values = np.ones((64, 256), np.float32)
    device.synchronize()
    y = pg.asarray(values) + 1.0  # is recorded, and waits for more
    kept = device.pool.pooled + device.pool._leased
    for _ in range(200):
        pg.asarray(values)
    device.pool.reclaim()
    now = device.pool.pooled + device.pool._leased
    assert now - kept <= (WAITING_BUFFERS + 1) * values.nbytes
    np.testing.assert_array_equal(y.numpy(), values + 1)
