"""DLPack with the real libraries, and NumPy's conversions."""

import contextlib

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Backend, Runtime
from plugrad_conformance.check import require_dtypes
from plugrad_conformance.toy import CountingArrays, toy

from tests.tools.tensors import DTYPES, LAYOUTS, address, matrix

CPU = (1, 0)
GPU = (2, 0)


def numpy_functions():
    return np.from_dlpack, lambda theirs: theirs.ctypes.data


def torch_functions():
    reason = "needs torch, from the bench group: make .venv/.group-bench"
    torch = pytest.importorskip("torch", reason=reason)
    return torch.from_dlpack, lambda theirs: theirs.data_ptr()


def jax_functions():
    jax = pytest.importorskip("jax", reason="needs jax: pip install jax")
    jax.config.update("jax_enable_x64", True)
    return jax.dlpack.from_dlpack, lambda theirs: theirs.unsafe_buffer_pointer()


LIBRARIES = {"numpy": numpy_functions, "torch": torch_functions, "jax": jax_functions}


@pytest.fixture(params=LIBRARIES)
def library(request):
    """Return a library's ``from_dlpack`` and a function for the address of an array."""
    return LIBRARIES[request.param]()


def aligned(values):
    """Return a copy that is aligned to 64 bytes; JAX copies arrays that are not."""
    memory = np.zeros(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copied = memory[start : start + values.nbytes].view(values.dtype)
    copied = copied.reshape(values.shape)
    copied[...] = values
    return copied


# --- DLPack out ------------------------------------------------------------------


def bits(x):
    return x.numpy().view(np.uint16).tolist()


class Exporter:
    """An array of another library that shares the memory of a bfloat16 tensor."""

    dtype = "bfloat16"

    def __init__(self, x):
        self._x = x

    def __dlpack_device__(self):
        return self._x.__dlpack_device__()

    def __dlpack__(self, **how):
        return self._x.__dlpack__(**how)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bfloat16_survives_export_and_import(layout, backend):
    require_dtypes(backend, pg.bfloat16)
    x = LAYOUTS[layout](matrix("bfloat16"))
    y = pg.from_dlpack(Exporter(x))
    assert (y.dtype, y.backend, bits(y)) == (pg.bfloat16, backend, bits(x))
    copied = pg.from_dlpack(Exporter(x), copy=True)
    assert bits(copied) == bits(x)


def test_bfloat16_is_shared():
    with pg.use_backend("cpu"):
        x = matrix("bfloat16")
        assert address(pg.from_dlpack(Exporter(x), copy=False)) == address(x)
        assert address(pg.from_dlpack(Exporter(x), copy=True)) != address(x)
        assert address(pg.from_dlpack(x.numpy())) == address(x)


def test_a_capsule_that_is_not_bfloat16_is_refused():
    with (
        pg.use_backend("cpu"),
        pytest.raises(BufferError, match="not contain bfloat16"),
    ):
        pg.from_dlpack(Exporter(matrix("float16")))


def test_numpy_has_no_bfloat16():
    with pg.use_backend("cpu"), pytest.raises(RuntimeError, match="dtype"):
        np.from_dlpack(matrix("bfloat16"))


def torch_bfloat16():
    torch_functions()
    import torch

    return torch.tensor([[1.5, -0.0], [3.0, 4.0]], dtype=torch.bfloat16)


def test_bfloat16_of_torch():
    theirs = torch_bfloat16()
    with pg.use_backend("cpu"):
        x = pg.from_dlpack(theirs)
        assert address(x) == theirs.data_ptr()
        back = torch_functions()[0](x * 2.0)
    assert (back == theirs * 2).all()


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bfloat16"])
def test_dtypes_survive_export_and_import(dtype, library):
    take, _ = library
    with pg.use_backend("cpu"):
        x = matrix(dtype)
        theirs = take(x)
        np.testing.assert_array_equal(np.asarray(theirs), x.numpy())
        back = pg.from_dlpack(theirs)
    assert back.dtype is x.dtype
    assert back.shape == x.shape
    np.testing.assert_array_equal(back.numpy(), x.numpy())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_layouts_survive_export_and_import(name, layout, backend):
    take, _ = LIBRARIES[name]()
    x = LAYOUTS[layout](matrix("float32"))
    theirs = take(x)
    assert tuple(theirs.shape) == x.shape
    np.testing.assert_array_equal(np.asarray(theirs), x.numpy())
    np.testing.assert_array_equal(pg.from_dlpack(theirs).numpy(), x.numpy())


def test_cpu_shares_both_ways(library):
    take, where = library
    with pg.use_backend("cpu"):
        values = aligned(np.arange(12, dtype=np.float32))
        x = pg.asarray(values, copy=False)
        theirs = take(x)
        assert where(theirs) == address(x) == values.ctypes.data
        back = pg.from_dlpack(theirs)
        assert address(back) == where(theirs)
        never = pg.from_dlpack(theirs, copy=False)
        assert address(never) == where(theirs)
        always = pg.from_dlpack(theirs, copy=True)
        assert address(always) != where(theirs)
        assert always.tolist() == x.tolist()
        del x, values, theirs, never
        assert (back * 1.0).tolist() == list(range(12))  # the capsule holds the memory


def test_libraries_with_read_only_arrays_get_a_read_only_array():
    with pg.use_backend("cpu"):
        x = matrix("float32")
        theirs = np.from_dlpack(x)
        assert not theirs.flags.writeable
        assert theirs.ctypes.data == address(x)
        locked = np.zeros(3, np.float32)
        locked.flags.writeable = False
        y = pg.asarray(locked, copy=False)
        capsule = Carrier(y.__dlpack__())  # as requested before DLPack 1.0
        assert np.from_dlpack(capsule).ctypes.data != locked.ctypes.data
        with pytest.raises(BufferError):
            y.__dlpack__(copy=False)


@pytest.mark.parametrize("name", ["cpu", "wasm"])
def test_libraries_without_read_only_arrays_share_memory(name):
    with pg.use_backend(name):
        x = matrix("float32") + 1.0
        theirs = np.from_dlpack(Carrier(x.__dlpack__(copy=False)))
        assert np.shares_memory(theirs, x.numpy())
        assert not np.from_dlpack(x, copy=False).flags.writeable
        expected = x.tolist()
        del x
        assert theirs.tolist() == expected  # the capsule holds the memory


class Carrier:
    """An array that exports a given capsule."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack_device__(self):
        return CPU

    def __dlpack__(self, **_):
        return self.capsule


def test_a_copy_on_request(backend):
    x = matrix("float32")
    theirs = np.from_dlpack(x, copy=True)
    assert not np.shares_memory(theirs, x.numpy())
    np.testing.assert_array_equal(theirs, x.numpy())


def test_exports_that_are_refused(backend):
    x = matrix("float32")
    assert x.__dlpack_device__() == CPU
    with pytest.raises((RuntimeError, ValueError), match="stream"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match=r"does not copy to device \(2, 0\); ask for"):
        x.__dlpack__(dl_device=GPU)
    x.dispose()
    for export in (x.__dlpack__, x.__dlpack_device__):
        with pytest.raises(ValueError, match="disposed"):
            export()
    with pg.use_backend("cpu"), pytest.raises(BufferError, match="not support strings"):
        np.from_dlpack(pg.asarray(["a"]))


def test_a_tape_does_not_record_exports(backend):
    def f(x):
        return pg.sum(x * x) + pg.sum(pg.from_dlpack(np.from_dlpack(x)) * 100.0)

    assert pg.grad(f)(pg.asarray([1.0, 2.0])).tolist() == [2.0, 4.0]


# --- DLPack in -------------------------------------------------------------------


def test_from_dlpack_returns_tensors_unchanged(backend):
    x = pg.asarray([1.0, 2.0])
    assert pg.from_dlpack(x) is x
    v = pg.Variable(x)
    assert pg.from_dlpack(v)._data is v.value._data
    assert pg.grad(lambda x: pg.sum(pg.from_dlpack(x)))(x).tolist() == [1.0, 1.0]


def test_objects_without_dlpack_are_refused(backend):
    with pytest.raises(TypeError, match="from_dlpack: list has no __dlpack__; use"):
        pg.from_dlpack([1.0])


def test_torch_tensors_that_are_refused():
    torch_functions()
    import torch

    with pg.use_backend("cpu"):
        with pytest.raises(BufferError, match="detach"):
            pg.from_dlpack(torch.zeros(2, requires_grad=True))
        with pytest.raises(TypeError, match=r"dtype torch\.float8_e5m2: .*; cast it"):
            pg.from_dlpack(torch.zeros(2, dtype=torch.float8_e5m2))


def test_a_dtype_that_the_backend_lacks_is_refused():
    refused = lambda name: pytest.raises(TypeError, match=f"'{name}' has no float64")
    with toy(dtypes=["float32"]), pg.use_backend("toy"), refused("toy"):
        pg.from_dlpack(np.zeros(2))
    with lender(dtypes=["float32"]), refused("lender"):
        pg.from_dlpack(np.zeros(2).view(OnDevice))


def test_a_backend_without_dlpack_copies_through_the_host(library):
    take, _ = library
    with toy(dtypes=DTYPES) as arrays, pg.use_backend("toy"):
        x = matrix("float32")
        uploads = arrays.uploads
        theirs = take(x)
        np.testing.assert_array_equal(np.asarray(theirs), x.numpy())
        assert arrays.uploads == uploads
        assert pg.from_dlpack(theirs).backend == "toy"
        assert arrays.uploads == uploads + 1
        with pytest.raises(BufferError, match=r"'toy' does not share .*; allow a copy"):
            x.__dlpack__(copy=False)
        with pytest.raises(BufferError, match=r"'toy' cannot share .*; allow a copy"):
            pg.from_dlpack(theirs, copy=False)


class OnDevice(np.ndarray):
    """A NumPy array that claims to be on a device, like an accelerator's array."""

    def __dlpack_device__(self):
        return GPU

    def __dlpack__(self, *, dl_device=None, **more):
        if dl_device == GPU or dl_device is None:
            return "capsule of the device"
        return super().__dlpack__(dl_device=dl_device, **more)


class Lender(CountingArrays):
    def to_dlpack(self, native):
        return native.view(OnDevice)

    def from_dlpack(self, x):
        return np.asarray(x) if x.__dlpack_device__() == GPU else NotImplemented


@contextlib.contextmanager
def lender(dtypes=DTYPES):
    """Activate a backend on a device, and return its arrays."""
    arrays = Lender()
    runtime = lambda: Runtime(
        arrays=arrays, kernels=pg.get_kernels_for_backend("cpu"), dtypes=dtypes
    )
    pg.register_backend(Backend("lender", open=runtime, priority=-1))
    try:
        with pg.use_backend("lender"):
            yield arrays
    finally:
        pg.remove_backend("lender")


def test_a_device_shares_with_its_own_kind_and_copies_to_the_host():
    with lender() as arrays:
        x = matrix("float32")
        assert x.__dlpack_device__() == GPU
        assert x.__dlpack__() == "capsule of the device"
        assert x.__dlpack__(dl_device=GPU) == "capsule of the device"
        np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), x.numpy())
        with pytest.raises(BufferError, match=r"device \(1, 0\); allow a copy"):
            np.from_dlpack(x, device="cpu", copy=False)
        uploads = arrays.uploads
        theirs = np.ones(3, np.float32).view(OnDevice)
        assert pg.from_dlpack(theirs).tolist() == [1.0, 1.0, 1.0]
        assert pg.from_dlpack(theirs, copy=False).backend == "lender"
        assert arrays.uploads == uploads
        assert pg.from_dlpack(np.ones(2, np.float32)).tolist() == [1.0, 1.0]
        assert arrays.uploads == uploads + 1
        with pytest.raises(BufferError, match=r"device \(1, 0\) with ndarray"):
            pg.from_dlpack(np.ones(2, np.float32), copy=False)
    with pg.use_backend("cpu"):
        assert pg.from_dlpack(theirs).tolist() == [1.0, 1.0, 1.0]
        with pytest.raises(BufferError, match=r"'cpu' cannot share .*\(2, 0\)"):
            pg.from_dlpack(theirs, copy=False)


# --- NumPy -----------------------------------------------------------------------


def test_numpy_conversions():
    with pg.use_backend("cpu"):
        x = matrix("float32")
        assert np.shares_memory(np.asarray(x), x.numpy())
        assert np.shares_memory(np.asarray(x, copy=False), x.numpy())
        assert not np.shares_memory(np.array(x), x.numpy())
        assert np.asarray(x, np.float64).dtype == np.float64
        with pytest.raises(ValueError, match="copy"):
            np.asarray(x, np.float64, copy=False)
        values = np.ones(3)
        assert address(pg.asarray(values)) != values.ctypes.data
        assert address(pg.asarray(values, copy=False)) == values.ctypes.data
