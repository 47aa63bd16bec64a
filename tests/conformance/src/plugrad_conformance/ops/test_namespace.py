"""plugrad as a namespace of the array API standard."""

import math

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..check import require_dtypes
from .moves import decomposed

DTYPES = [
    *(pg.bool, pg.int8, pg.int16, pg.int32, pg.int64),
    *(pg.uint8, pg.uint16, pg.uint32, pg.uint64),
    *(pg.float16, pg.float32, pg.float64, pg.complex64, pg.complex128),
]


def test_dtypes_are_those_of_tensors_and_of_numpy(backend):
    x = pg.zeros(2, dtype=pg.int32)
    assert x.dtype is pg.int32
    assert [np.dtype(dtype.name) for dtype in DTYPES] == DTYPES
    assert pg.__array_api_version__ == "2025.12"


def test_constants(backend):
    assert (pg.pi, pg.e, pg.inf) == (math.pi, math.e, math.inf)
    assert math.isnan(pg.nan)
    assert pg.ones(3)[pg.newaxis].shape == (1, 3)


def test_a_tensor_knows_its_namespace_and_device(backend):
    x = pg.ones(2)
    assert x.__array_namespace__() is pg
    for version in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        assert x.__array_namespace__(api_version=version) is pg
    with pytest.raises(
        ValueError, match=r"unknown api_version .1999\.1.; plugrad follows"
    ):
        x.__array_namespace__(api_version="1999.1")
    assert x.device == backend
    assert x.to_device("cpu").device == "cpu"
    with pytest.raises(ValueError, match="plugrad has no streams, got 3"):
        x.to_device("cpu", stream=3)
    with pytest.raises(pg.BackendUnavailable, match="nowhere"):
        x.to_device("nowhere-here")
    assert (+x).tolist() == [1.0, 1.0]


MAKERS = {
    "zeros": lambda device: pg.zeros(shape=(2,), device=device),
    "ones": lambda device: pg.ones(2, dtype=pg.float32, device=device),
    "full": lambda device: pg.full(shape=2, fill_value=3.0, device=device),
    "empty": lambda device: pg.empty((2,), device=device),
    "arange": lambda device: pg.arange(0, 2, device=device),
    "linspace": lambda device: pg.linspace(0, 1, num=2, device=device),
    "eye": lambda device: pg.eye(2, device=device),
    "asarray": lambda device: pg.asarray([1.0, 2.0], device=device),
    "zeros_like": lambda device: pg.zeros_like(pg.ones(2), device=device),
    "ones_like": lambda device: pg.ones_like(pg.ones(2), device=device),
    "full_like": lambda device: pg.full_like(pg.ones(2), 2.0, device=device),
    "empty_like": lambda device: pg.empty_like(pg.ones(2), device=device),
    "astype": lambda device: pg.astype(pg.ones(2), pg.float32, device=device),
    "from_dlpack": lambda device: pg.from_dlpack(np.ones(2, "f4"), device=device),
    "a tensor": lambda device: pg.asarray(pg.ones(2), device=device),
    "fftfreq": lambda device: pg.fft.fftfreq(2, device=device),
    "rfftfreq": lambda device: pg.fft.rfftfreq(2, device=device),
}


@pytest.mark.parametrize("name", MAKERS)
def test_tensors_are_created_on_a_device(name, backend):
    on_default = MAKERS[name](None)
    on_cpu = MAKERS[name]("cpu")
    assert (on_default.device, on_cpu.device) == (backend, "cpu")
    np.testing.assert_array_equal(on_default.numpy(), on_cpu.numpy())
    assert pg.get_backend() == backend


def test_a_device_that_does_not_exist(backend):
    with pytest.raises(pg.BackendUnavailable, match="zeros: device: unknown backend"):
        pg.zeros(2, device="tpu")


def test_inspection(backend):
    info = pg.__array_namespace_info__()
    assert info.default_device() == backend
    assert backend in info.devices()
    tuples = info.devices(), pg.broadcast_arrays(1, [2]), pg.meshgrid([1], [2])
    assert {*map(type, tuples)} == {tuple}  # the standard had lists until 2024.12
    assert info.capabilities()["boolean indexing"]
    found = info.default_dtypes()
    assert found["real floating"] == pg.zeros(1).dtype
    assert found["integral"] == pg.asarray([1]).dtype
    assert found["indexing"] == pg.argmax(pg.zeros(3)).dtype
    assert info.dtypes(kind="bool") == {"bool": pg.bool}
    assert "float32" in info.dtypes(kind=("real floating", "integral"))
    assert "int32" not in info.dtypes(device="cpu", kind="real floating")
    for name, dtype in info.dtypes().items():
        assert pg.zeros(1, dtype=dtype).dtype == name


KINDS = {
    "bool": {"bool"},
    "signed integer": {"int8", "int16", "int32", "int64"},
    "unsigned integer": {"uint8", "uint16", "uint32", "uint64"},
    "real floating": {"float16", "float32", "float64"},
    "complex floating": {"complex64", "complex128"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_isdtype(kind, backend):
    assert {d.name for d in DTYPES if pg.isdtype(d, kind)} == KINDS[kind]
    numeric = kind != "bool"
    assert all(pg.isdtype(name, "numeric") == numeric for name in KINDS[kind])
    assert pg.isdtype(pg.int8, (pg.float32, "integral"))
    with pytest.raises(ValueError, match="kind"):
        pg.isdtype(pg.int8, "whole")


def test_limits(backend):
    info = pg.finfo(pg.complex64)
    assert (info.bits, info.dtype) == (32, pg.float32)
    assert info.eps == 2.0**-23
    assert type(info.max) is float
    assert pg.finfo(pg.ones(1)).smallest_normal == 2.0**-126
    assert (pg.iinfo(pg.uint8).min, pg.iinfo(pg.uint8).max) == (0, 255)
    with pytest.raises(TypeError, match="finfo: int32 is not floating; use iinfo"):
        pg.finfo(pg.int32)
    with pytest.raises(TypeError, match="float32 is not an integer dtype; use finfo"):
        pg.iinfo(pg.float32)


def test_promotion(backend):
    assert pg.result_type(pg.int8, pg.int16) == pg.int16
    assert pg.result_type(pg.ones(1), 1) == pg.float32
    assert pg.result_type(pg.int32, 1.5) == pg.float32
    assert pg.result_type(1, 2.0) == pg.float32 or pg.result_type(1.0) == pg.float32
    assert pg.can_cast(pg.int8, pg.int32)
    assert not pg.can_cast(pg.ones(1), pg.int32)
    with pytest.raises(TypeError, match="result_type"):
        pg.result_type()


def test_copies(backend):
    x = pg.ones(2)
    assert pg.asarray(x) is pg.asarray(x, copy=False) is x
    y = pg.asarray(x, copy=True)
    y[0] = 5.0
    assert (x.tolist(), y.tolist()) == ([1.0, 1.0], [5.0, 1.0])


def test_a_list_of_tensors_is_stacked(backend):
    t = pg.asarray([1.0, 2.0])
    y = pg.asarray([t, [3.0, 4.0], t * 2.0])
    assert y.tolist() == [[1.0, 2.0], [3.0, 4.0], [2.0, 4.0]]
    assert pg.asarray([pg.asarray(1), 2.5]).dtype == pg.float32
    assert pg.asarray([pg.asarray(1), 2], dtype="float32").dtype == pg.float32
    dx = pg.grad(lambda x: pg.sum(pg.asarray([x * x, [1.0, 2.0]])))(t)
    assert dx.tolist() == [2.0, 4.0]
    with pytest.raises(ValueError, match="must have one shape"):
        pg.asarray([t, pg.ones(3)])


SIGNS = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf], np.float32)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_signbit(dtype, backend):
    require_dtypes(backend, dtype)
    for x in (SIGNS.astype(dtype), np.tile(SIGNS, 1000).astype(dtype)[::-1]):
        y = pg.signbit(x)
        assert y.dtype == bool
        np.testing.assert_array_equal(y.numpy(), np.signbit(x))
        with decomposed("SignBit"):
            np.testing.assert_array_equal(pg.signbit(x).numpy(), np.signbit(x))
    nan = np.asarray([np.nan, -np.nan, 1.0], dtype)
    assert np.signbit(nan).tolist() == [False, True, False]
    has_no_kernel = "SignBit" not in runtime(backend).kernels
    assert pg.signbit(nan).tolist() == [False, not has_no_kernel, False]


def test_signs(backend):
    assert pg.signbit([-1, 0]).tolist() == [True, False]
    expected = np.copysign(SIGNS[:, None], SIGNS)
    found = pg.copysign(SIGNS[:, None], SIGNS).numpy()
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
    np.testing.assert_array_equal(found, expected)
    assert pg.grad(lambda x: pg.copysign(x, -1.0))(3.0).item() == -1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nextafter_is_exact(dtype, backend):
    require_dtypes(backend, dtype)
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    a = rng.normal(size=300) * 2.0 ** rng.integers(
        info.minexp + 1, info.maxexp - 3, 300
    )
    edges = [0.0, 1.0, info.max, info.smallest_normal, np.inf, np.nan]
    a = np.concatenate([a, edges, np.negative(edges)]).astype(dtype)
    for target in (np.inf, -np.inf, 0.0, 1.0, np.nan):
        b = np.array(target, dtype)
        with np.errstate(over="ignore"):
            expected = np.nextafter(a, b)
        denormal = np.abs(expected) < info.smallest_normal  # devices may flush them
        found = pg.nextafter(pg.asarray(a), pg.asarray(b)).numpy()
        np.testing.assert_array_equal(found[~denormal], expected[~denormal])
    assert pg.grad(lambda x: pg.nextafter(x, 9.0))(3.0).item() == 1.0


def test_axes_that_are_out_of_range_are_index_errors_too(backend):
    for error in (ValueError, IndexError):
        with pytest.raises(error, match="expand_dims: axis 3 is out of range"):
            pg.expand_dims(pg.ones(2), 3)


def test_an_empty_mask_selects_nothing(backend):
    x = pg.asarray([[1.0, 2.0]])
    assert x[pg.zeros(0, dtype=pg.bool)].shape == (0, 2)
