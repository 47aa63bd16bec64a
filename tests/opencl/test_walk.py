"""Element-wise kernels for CPUs and GPUs; on GPUs they read vectors of elements.

The file runs once more in a process that uses the kernels for GPUs.
"""

import numpy as np
import plugrad as pg
import pytest
from plugrad_opencl import elementwise, regions, walk
from plugrad_opencl.walk import FLAT, Form, form, layout

from tests.opencl.styles import run_as_gpu

DTYPES = ["int8", "float32", "float64", "complex64"]
LENGTHS = (1, 3, 4, 8, 31, 33, 1023, 4097)


@pytest.fixture(autouse=True)
def on_opencl():
    with pg.use_backend("opencl"):
        yield


def draw(dtype, *shape):
    return np.random.default_rng(shape).integers(-9, 9, shape).astype(dtype)


def check(x, y):
    """Compare a kernel of two inputs, and one of three, with NumPy."""
    a = pg.asarray(x)
    b = pg.asarray(y)
    np.testing.assert_array_equal(pg.equal(a, b).numpy(), x == y)
    found = pg.where(pg.equal(a, b), a, b)
    np.testing.assert_array_equal(found.numpy(), np.where(x == y, x, y))
    np.testing.assert_array_equal((a + b).numpy(), x + y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_flat_arrays_of_any_length(dtype):
    for n in LENGTHS:
        x = draw(dtype, n)
        y = draw(dtype, n)[::-1].copy()
        check(x, y)
        check(x, y[:1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_any_length(dtype):
    for n in LENGTHS:
        x = draw(dtype, 3, 2, n)
        for shape in ((n,), (3, 1, n), (1, 2, 1), (2, n), (3, 2, 1)):
            check(x, draw(dtype, *shape))
    check(draw(dtype, 40, 1), draw(dtype, 1, 24))


def test_64_bit_offsets(monkeypatch):
    monkeypatch.setattr(walk, "LARGE_ELEMENTS", 1)
    walk.form.cache_clear()
    check(draw("int16", 5, 16), draw("int16", 16))
    check(draw("int16", 5, 15), draw("int16", 5, 1))
    walk.form.cache_clear()


@pytest.mark.parametrize("n", LENGTHS)
def test_a_region_has_the_bits_of_its_kernels(n):
    x = np.random.default_rng(n).normal(size=(6, n)).astype(np.float32)
    given = pg.asarray(x), pg.asarray(x[0]), pg.asarray(x[:, :1])
    f = lambda x, y, z: (pg.exp(x * y) - pg.tanh(z + x), pg.less(x, y))
    jitted = pg.jit(f)
    for _ in range(4):
        found = jitted(*given)
    for actual, expected in zip(found, f(*given), strict=True):
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())


def test_the_form_of_kernels_on_gpus():
    def found(*shapes, lanes=4):
        shape, pattern, rank, sizes = layout(*shapes)
        return form(int(np.prod(shape)), pattern, rank, sizes, lanes)

    assert found((5, 7), (5, 7)) == FLAT
    assert found((5, 8), (8,)) == Form(small=True, aligned=True)
    assert found((5, 8), (5, 1)) == Form(small=True, aligned=True)
    assert found((5, 7), (7,)) == Form(small=True, aligned=False)
    assert found((5, 12), (12,), lanes=8) == Form(small=True, aligned=False)
    assert found((1 << 20, 1 << 12), (1 << 12,)) == Form(small=False, aligned=True)


def test_a_gpu_reads_vectors_where_rows_allow_it(device):
    add = elementwise.elementwise("Added", "a b", f="a + b").programs
    two = (np.dtype("float32"),) * 2
    launch, _ = add.get(device, two, "11", 1, Form(small=True, aligned=True))
    scalar, _ = add.get(device, two, "11", 1, Form(small=True, aligned=False))
    assert "#define WIDE 1" in launch._source
    assert "float4 w0 = *(__global const float4 *)p0;" in launch._source
    assert "#define WIDE 0" in scalar._source
    assert regions.lanes([np.dtype("int8"), np.dtype("int16")]) == 8
    assert regions.lanes([np.dtype("int8"), np.dtype("float32")]) == 4


def test_this_file_with_the_kernels_for_gpus(request, device):
    if device.style != "gpu":
        run_as_gpu(__file__, request.config)
