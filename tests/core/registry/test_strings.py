"""``with_strings``: a backend only for numbers leaves strings to its host."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Backend, Runtime, runtime, with_strings
from plugrad_cpu.arrays import NumpyArrays


class NumberArray:
    """A native array of numbers. It is not a NumPy array, unlike arrays of strings."""

    def __init__(self, values):
        assert not values.dtype.hasobject
        self.values = values
        self.shape = values.shape
        self.dtype = values.dtype


class Arrays(NumpyArrays):
    def upload(self, values):
        return values if values.dtype.hasobject else NumberArray(np.array(values))

    def download(self, native):
        return native.values if isinstance(native, NumberArray) else native

    def nbytes(self, native):
        return self.download(native).nbytes


def numbers_only(function):
    """Return a kernel function that fails on anything but numbers."""

    def kernel(*xs, **attrs):
        arrays = [x.values if isinstance(x, NumberArray) else None for x in xs]
        return NumberArray(function(*arrays, **attrs))

    return kernel


NAMES = ("Equal", "Concat", "GatherV2", "Fill", "Reshape", "Add", "Softmax")


@pytest.fixture
def kernels():
    """Open "abacus", a backend only for numbers; yield its kernel functions by name."""
    plain = {name: numbers_only(runtime("cpu").kernels[name]) for name in NAMES}
    arrays = Arrays()

    def open_backend():
        table = with_strings(plain, arrays, host="cpu")
        dtypes = ["bool", "int32", "float32", "string"]
        return Runtime(arrays=arrays, kernels=table, dtypes=dtypes, host="cpu")

    pg.register_backend(Backend("abacus", open=open_backend, priority=-1))
    with pg.use_backend("abacus"):
        yield plain
    pg.remove_backend("abacus")


OPS = {
    "a comparison": (lambda s: s == pg.asarray(["a", "c"]), [True, False]),
    "indices are numbers": (lambda s: pg.take(s, pg.asarray([1, 0])), [b"b", b"a"]),
    "a variadic input": (lambda s: pg.concat([s, s]), [b"a", b"b", b"a", b"b"]),
    "no input": (lambda s: pg.full((2,), "x"), [b"x", b"x"]),
    "numbers": (lambda s: pg.concat([pg.asarray([1.0])] * 2), [1.0, 1.0]),
}


@pytest.mark.parametrize("row", OPS)
def test_the_host_runs_kernels_on_strings(row, kernels):
    function, wanted = OPS[row]
    y = function(pg.asarray(["a", "b"]))
    assert (y.backend, y.tolist()) == ("abacus", wanted)


def test_kernels_only_for_numbers_are_not_wrapped(kernels):
    table = runtime("abacus").kernels
    assert [n for n in NAMES if table[n] is kernels[n]] == ["Add", "Softmax"]
