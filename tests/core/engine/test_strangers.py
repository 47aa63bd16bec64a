"""Dtypes, devices and arrays of other libraries, and names that do not exist."""

import sys

import numpy as np
import plugrad as pg
import pytest
from plugrad_conformance.check import require_dtypes


class ForeignDtype:
    """A dtype of another library, like torch.float32: neither a str nor a type."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


FLOAT32 = ForeignDtype("torch.float32")
QINT8 = ForeignDtype("torch.qint8")
TAKES_A_DTYPE = {
    "zeros": lambda dtype: pg.zeros(2, dtype=dtype),
    "asarray": lambda dtype: pg.asarray([1.0], dtype=dtype),
    "astype": lambda dtype: pg.astype(pg.ones(2), dtype),
    "a method": lambda dtype: pg.ones(2).astype(dtype),
    "a reduction": lambda dtype: pg.sum(pg.ones(2), dtype=dtype),
    "random": lambda dtype: pg.random.normal((2,), dtype=dtype),
    "isdtype": lambda dtype: pg.isdtype(dtype, "numeric"),
    "finfo": lambda dtype: pg.finfo(dtype),
    "can_cast": lambda dtype: pg.can_cast(dtype, "float32"),
    "result_type": lambda dtype: pg.result_type(pg.ones(2), dtype),
}


@pytest.mark.parametrize("name", TAKES_A_DTYPE)
def test_dtypes_of_another_library_are_refused(name, backend):
    with pytest.raises(TypeError, match=r"torch.float32 .*; write plugrad.float32$"):
        TAKES_A_DTYPE[name](FLOAT32)
    with pytest.raises(TypeError, match=r"dtype torch.qint8 is .*; use one of bool"):
        TAKES_A_DTYPE[name](QINT8)


def test_dtypes_that_numpy_can_convert_are_accepted(backend):
    class Named:  # like jax.numpy.float32 and Keras dtypes
        dtype = np.dtype("float32")

    assert pg.zeros(2, dtype=Named).dtype == pg.float32
    assert pg.zeros(2, dtype=np.dtype(">f4")).dtype == pg.float32


TAKES_A_DEVICE = {
    "zeros": lambda device: pg.zeros(2, device=device),
    "asarray": lambda device: pg.asarray([1.0], device=device),
    "arange": lambda device: pg.arange(3, device=device),
    "ones_like": lambda device: pg.ones_like(pg.ones(2), device=device),
    "to": lambda device: pg.ones(2).to(device),
    "to_device": lambda device: pg.ones(2).to_device(device),
    "use_backend": lambda device: pg.use_backend(device),
    "device": lambda device: pg.__array_namespace_info__().dtypes(device=device),
}


@pytest.mark.parametrize("name", TAKES_A_DEVICE)
@pytest.mark.parametrize("device", ["cuda", "cpu:7", 3, FLOAT32])
def test_devices_that_do_not_exist_are_refused(name, device, backend):
    op = name.removesuffix("_device")
    message = f"{op}: .*unknown backend {device!r}.*; installed: .*{backend}"
    with pytest.raises(pg.BackendUnavailable, match=message):
        TAKES_A_DEVICE[name](device)


@pytest.mark.parametrize("version", ["1999.12", "2030.12", 2024.12, 3])
def test_versions_of_the_standard_that_do_not_exist_are_refused(version, backend):
    message = f"unknown api_version {version!r}; plugrad follows 2021.12"
    with pytest.raises(ValueError, match=message):
        pg.ones(2).__array_namespace__(api_version=version)


class Foreign:
    """An array of another namespace that NumPy cannot convert."""

    shape = (2,)
    dtype = np.dtype("float32")

    def __array_namespace__(self, api_version=None):
        return sys

    def __dlpack__(self, **options):
        raise BufferError


MIXED = {
    "add": lambda x, y: pg.add(x, y),
    "+": lambda x, y: x + y,
    "concat": lambda x, y: pg.concat([x, y]),
    "stack": lambda x, y: pg.stack([y, x]),
    "where": lambda x, y: pg.where(x > 0, x, y),
    "matmul": lambda x, y: pg.matmul(x, y),
    "index": lambda x, y: x.take(y),
    "assign": lambda x, y: x.__setitem__(0, y),
    "asarray": lambda x, y: pg.asarray(y),
}


@pytest.mark.parametrize("name", MIXED)
def test_arrays_of_two_namespaces_cannot_be_mixed(name, backend):
    message = "tensor of Foreign, an array of .*; convert it with plugrad.from_dlpack"
    with pytest.raises(TypeError, match=message):
        MIXED[name](pg.ones(2), Foreign())


def test_numpy_arrays_are_accepted(backend):
    for name in ("add", "+", "concat", "stack", "where", "matmul"):
        assert isinstance(MIXED[name](pg.ones(2), np.ones(2, "f4")), pg.Tensor)


# --- classes with operators of their own -------------------------------------------


class Symbol:
    """An operand that has no values, such as a KerasTensor."""

    def __init__(self, text):
        self.text = text

    def __array__(self, dtype=None, copy=None):
        raise ValueError("a symbol has no values")

    def __radd__(self, other):
        return Symbol(f"{other.tolist()} + {self.text}")

    def __rmatmul__(self, other):
        return Symbol(f"{other.tolist()} @ {self.text}")

    def __gt__(self, other):
        return Symbol(f"{self.text} > {other.tolist()}")


def test_another_class_may_have_the_reflected_operator(backend):
    x, s = pg.asarray([1.0]), Symbol("s")
    assert (x + s).text == "[1.0] + s"
    assert (x @ s).text == "[1.0] @ s"
    assert (x < s).text == "s > [1.0]"
    with pytest.raises(ValueError, match="a symbol has no values"):
        x - s
    with pytest.raises(ValueError, match="a symbol has no values"):
        pg.add(x, s)
    with pytest.raises(TypeError, match="asarray: cannot make a tensor of object"):
        x < object()  # noqa: B015


class Holder:
    """A holder of a tensor that is not a plugrad.Variable."""

    def __init__(self, value):
        self.value = value

    def __plugrad_tensor__(self):
        return self.value


def test_objects_may_give_the_tensor_that_they_hold(backend):
    def f(x):
        held = Holder(x)
        return pg.sum(held.value * held + pg.stack([held, 1.0]) + pg.asarray([held, 2]))

    assert pg.grad(f)(pg.asarray(3.0)).item() == 14.0
    half = pg.asarray(Holder(pg.asarray([1.5])), dtype="int32")
    assert (half.dtype, half.tolist()) == (pg.int32, [1])


OPERATORS = {
    "+": (pg.add, lambda a, b: a + b),
    "-": (pg.subtract, lambda a, b: a - b),
    "*": (pg.multiply, lambda a, b: a * b),
    "<": (pg.less, lambda a, b: a < b),
    ">": (pg.greater, lambda a, b: a > b),
}


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32", "string"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_accept_what_their_ops_accept(name, dtype, backend):
    require_dtypes(backend, dtype)
    x = pg.asarray(["a", "b"] if dtype == "string" else [0, 1], dtype=dtype)
    op, operator = OPERATORS[name]
    for y in (x, x[:1], 2.5, True, None, "c", np.float32(2)):
        assert outcome(operator, x, y) == outcome(op, x, y)


def outcome(f, *xs):
    """Return the dtype and the values, or the class and the message of the error."""
    try:
        y = f(*xs)
    except Exception as error:
        return type(error), str(error)
    return y.dtype, y.tolist()
