"""plugrad-cpu's element-wise C kernels give the results of their NumPy versions."""

import math
import re
import sys

import numpy as np
import pytest

native = pytest.importorskip("plugrad_cpu.native", reason="needs plugrad-cpu")
if not native.LOADED:
    pytest.skip(f"no kernels in C: {native.LIBRARY}", allow_module_level=True)

from plugrad_cpu.kernels import KERNELS, activation  # noqa: E402  # after the skip

RNG = np.random.default_rng(7)
NUMBERS = {  # functions with numeric parameters, and values of these
    activation._limited: [(-0.5, 1), (0.25, np.inf), (np.nan, 1.0), (2, -2)],
    activation.leaky_relu: [(0.2,), (0,), (3.0,), (-1,)],
    activation.step: [(0.0,), (0.5,), (np.nan,), (np.inf,)],
}
IN_C = {
    name: (function, [()])
    for name, function in KERNELS.items()
    if type(function) is type(activation.step) and not re.search(r"\.|Gelu", name)
} | {function.__wrapped__.__name__: (function, n) for function, n in NUMBERS.items()}
# Kernels that may return 0 or -0.
EITHER_ZERO = ["Maximum", "Minimum", "Elu", "Selu", "Prelu", "leaky_relu"]
# Kernels that use other polynomials than NumPy; all others give the same bits.
APPROXIMATE = ["Exp", "Exp2", "Expm1", "Log", "Log1p", "Tanh", "Sin", "Cos", "Erf"]
APPROXIMATE += ["SigmoidGrad", "TanhGrad", "Erfc", "Sigmoid", "Softplus", "Elu", "Selu"]
UNARY = [name for name, (function, _) in IN_C.items() if function.nin == 1]
BINARY = [name for name, (function, _) in IN_C.items() if function.nin == 2]

SPECIAL = [0, -0.0, 1, -1, 6, 7, 0.5, 1e-40, -1e-40, 3e38, -3e38, 88.7, 89, -87.4, -104]
SPECIAL = np.float32([*SPECIAL, np.nan, np.inf, -np.inf])
DRAWN = (RNG.normal(size=(6, 34, 20)) * 3).astype("float32")
LAYOUTS = {
    "contiguous": DRAWN,
    "Fortran's order": np.asfortranarray(DRAWN),
    "transposed": DRAWN.transpose(1, 0, 2),
    "reversed": DRAWN[::-1, :, ::-1],
    "with gaps": DRAWN[:, ::3, 1:-1],
    "broadcast": np.broadcast_to(DRAWN[:, :1], (6, 5, 20)),
    "empty": DRAWN[:, :0],
    "no axes": np.array(2.5, "float32"),
    "a scalar of NumPy": np.float32(-1.5),
    "special": SPECIAL,
    "read-only": np.frombuffer(DRAWN.tobytes(), "float32"),
    "not aligned": np.frombuffer(b"x" + DRAWN[0].tobytes(), "float32", offset=1),
    "swapped": DRAWN[0].astype(">f4"),
}


def check(name, *xs):
    """Compare the C kernel with its NumPy version, for each row of numbers."""
    function, rows = IN_C[name]
    for numbers in rows:
        with np.errstate(all="ignore"):
            found = function(*xs, *numbers)
            expected = np.asarray(function.__wrapped__(*xs, *numbers))
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        if name in APPROXIMATE:
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-44)
        else:
            np.testing.assert_array_equal(found, expected)
        if name not in EITHER_ZERO:
            signs = [np.signbit(y)[~np.isnan(y)] for y in (found, expected)]
            np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", UNARY)
def test_layouts(name, layout):
    check(name, LAYOUTS[layout])


@pytest.mark.parametrize("name", UNARY)
def test_lengths(name):
    for n in range(1, 34):
        check(name, DRAWN.reshape(-1)[:n])


BROADCAST = {
    "a row": (DRAWN, DRAWN[0, 0]),
    "a column": (DRAWN, DRAWN[0, :, :1]),
    "a plane": (DRAWN, DRAWN[:1]),
    "one of each": (DRAWN[:, :1], DRAWN[0, :, :1]),
    "outer": (DRAWN[0, 0], DRAWN[0, 0][:, None]),
    "a scalar": (DRAWN, np.float32(0.25)),
    "no axes": (np.array(3, "float32"), DRAWN),
    "two scalars": (np.float32(3), np.array(-2, "float32")),
    "short rows": (DRAWN[:, :, :3], DRAWN[0, 0, :3]),
    "rows of 16": (DRAWN[:, :, :16], DRAWN[0, 0, :16]),
    "two orders": (DRAWN[0, :20], DRAWN[0, :20].T),
    "Fortran's order": (DRAWN[0].T, DRAWN[1].T),
    "of different shapes": (DRAWN[0, :20].T, DRAWN[:1, :20].T),
    "reversed": (DRAWN[::-1], DRAWN[:, ::-1]),
    "reversed rows": (DRAWN[:, :, ::-1], DRAWN),
    "both broadcast": (np.broadcast_to(DRAWN[:, :, :1], (6, 34, 20)),) * 2,
    "empty": (DRAWN[:0], DRAWN[0, 0]),
    "special": (SPECIAL, SPECIAL[:, None]),
    "not aligned": (LAYOUTS["not aligned"], DRAWN[0, 0, 0]),
}


@pytest.mark.parametrize("operands", BROADCAST)
@pytest.mark.parametrize("name", BINARY)
def test_broadcasting(name, operands):
    a, b = BROADCAST[operands]
    check(name, a, b)
    check(name, b, a)


@pytest.mark.parametrize("name", BINARY)
def test_lengths_of_binary_kernels(name):
    for n in range(1, 34):
        x = DRAWN.reshape(-1)[:n]
        check(name, x, x[::-1].copy())
        check(name, DRAWN[:, 0, :1], x)


ROWS = [(2, 1), (2, 2), (3, 3), (1000, 3), (341, 3), (700, 7), (102, 10), (1025, 16)]
ROWS += [(90, 100), (33, 255), (33, 256), (33, 257)]  # 4096 bytes are 1024 elements


@pytest.mark.parametrize(("rows", "width"), ROWS)
@pytest.mark.parametrize("name", ["Sub", "RealDiv", "Prelu"])
def test_rows_with_a_broadcast_row(name, rows, width):
    x = np.resize(DRAWN, (rows, width))
    row = DRAWN[1].ravel()[:width]
    check(name, x, row)
    check(name, row, x)
    check("Select", np.greater(x, 0), x, row)
    check("Select", np.greater(row, 0), x, np.float32(2))
    check("Select", np.greater(row, 0), row, x)


@pytest.mark.parametrize("shape", [(128, 10), (3, 2)])
def test_short_rows_with_a_broadcast_row_run_in_c(shape):
    subtract = native.elementwise("sub_f32", "ff->f")(lambda a, b: pytest.fail("NumPy"))
    x = np.resize(DRAWN, shape)
    np.testing.assert_array_equal(subtract(x, x[0]), x - x[0])


@pytest.mark.parametrize("operands", BROADCAST)
def test_select(operands):
    a, b = BROADCAST[operands]
    check("Select", np.greater(a, b), a, b)
    check("Select", np.greater(b, 0), a, b)
    check("Select", np.greater(a, 0), a, b)


@pytest.mark.parametrize(
    "dtype", ["float32", "int32", "float64", "int64", "bool", "int8", "uint8"]
)
def test_select_of_dtypes_in_c(dtype):
    function = KERNELS["Select"]
    with np.errstate(invalid="ignore"):
        a = (DRAWN * 20).astype(dtype)
        b = DRAWN[::-1].astype(dtype)
    chain = [function]
    while hasattr(chain[-1], "__wrapped__"):
        chain.append(chain[-1].__wrapped__)
    of_dtype = [f for f in chain[:-1] if f.symbol == f"select_{a.itemsize}"]
    assert of_dtype
    on_numpy = chain[-1]
    transposed = np.asfortranarray(a)
    for x, y in [
        (a, b),
        (a, b[0]),
        (a[:, :1], b),
        (a[:, ::2], b[:, ::2]),
        (transposed, b),
    ]:
        for condition in (DRAWN[:, : x.shape[1]] > 0, DRAWN[0, : x.shape[1]] > 0):
            found = function(condition, x, y)
            assert found.dtype == a.dtype
            np.testing.assert_array_equal(found, on_numpy(condition, x, y))
    assert function(np.array(True), a[0, 0, 0], b[0, 0, 0]) == a[0, 0, 0]


@pytest.mark.parametrize("dtype", ["uint64", "int16", "float16", "complex64"])
def test_select_of_dtypes_on_numpy(dtype):
    a = DRAWN.astype("int8").astype(dtype)
    b = np.ones_like(DRAWN, dtype)
    condition = DRAWN > 0
    found = KERNELS["Select"](condition, a, b)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.where(condition, a, b))


def wide(formula):
    """Return a function that computes a formula in float64 and rounds once."""
    return lambda *xs: formula(*[x.astype(float) for x in xs]).astype("float32")


ELEMENT_GRADIENTS = {
    "ReluGrad": lambda dy, y: np.where(y > 0, dy, y),
    "TanhGrad": wide(lambda dy, x: dy * np.cosh(x) ** -2),
    "SigmoidGrad": wide(lambda dy, x: dy * (0.5 / np.cosh(x / 2)) ** 2),
    "ErfGrad": wide(lambda dy, x: dy * (np.exp(-x * x) * (2 / math.sqrt(math.pi)))),
}
ROW_GRADIENTS = {
    "SoftmaxGrad": lambda dy, y: dy * y - y * (dy * y).sum(-1, keepdims=True),
    "LogSoftmaxGrad": lambda dy, y: dy - np.exp(y) * dy.sum(-1, keepdims=True),
}


@pytest.mark.parametrize("name", ELEMENT_GRADIENTS)
def test_gradients_in_one_kernel(name):
    kernel = KERNELS[f"plugrad_cpu.{name}"]
    formula = ELEMENT_GRADIENTS[name]
    rows = [(DRAWN[0, 0, :n], DRAWN[1, 0, :n]) for n in range(1, 20)]
    rows += [(DRAWN, DRAWN * 0.25), (DRAWN[:0], DRAWN[:0]), (DRAWN[0].T, DRAWN[1].T)]
    for dy, x in rows:
        np.testing.assert_allclose(kernel(dy, x), formula(dy, x), rtol=1e-6)
    with np.errstate(all="ignore"):
        found, expected = (f(SPECIAL, SPECIAL) for f in (kernel, formula))
    # A denormal slope is rounded before it is multiplied.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-42)
    # Other dtypes and other strides are refused.
    assert kernel(DRAWN.astype("float64"), DRAWN.astype("float64")) is NotImplemented
    assert kernel(DRAWN[::-1, :, ::-1], DRAWN) is NotImplemented


@pytest.mark.parametrize("name", ROW_GRADIENTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("spread", [0.1, 3, 30])
def test_gradients_of_rows_in_one_kernel(name, dtype, spread):
    """With a wide spread, one probability in most rows is almost 1."""
    kernel = KERNELS[f"plugrad_cpu.{name}"]
    formula = ROW_GRADIENTS[name]
    shapes = [(n,) for n in range(1, 20)] + [(6, 34, 20), (0, 3), (3, 700)]
    for shape in shapes:
        dy = RNG.normal(size=shape)
        x = RNG.normal(size=shape) * spread
        y = x - np.log(np.exp(x).sum(-1, keepdims=True))
        y = y if name[:3] == "Log" else np.exp(y)
        found = kernel(dy.astype(dtype), y.astype(dtype))
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(found, formula(dy, y), rtol=0, atol=tolerance * 3)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int64", "bool"])
def test_other_dtypes_run_on_numpy(dtype):
    x = (DRAWN[0] * 3).astype(dtype)
    pairs = {"Add": np.add, "Maximum": np.maximum}
    for name, ufunc in pairs.items():
        np.testing.assert_array_equal(KERNELS[name](x, x[:1]), ufunc(x, x[:1]))
    if x.dtype.kind == "f":
        np.testing.assert_array_equal(KERNELS["Sin"](x), np.sin(x))
        np.testing.assert_array_equal(KERNELS["Neg"](x), -x)


def test_clipping_integers_that_float64_cannot_represent():
    x = np.array([2**60, 2**60 + 1, 2**60 + 2])
    clip = KERNELS["ClipByValue"]
    assert clip(x, min=2**60 + 1, max=2**61).tolist() == [2**60 + 1] * 2 + [2**60 + 2]


def test_results_have_the_memory_order_of_their_operands():
    add = KERNELS["Add"]
    exp = KERNELS["Exp"]
    x = DRAWN[0].T
    assert exp(x).flags.f_contiguous
    assert add(x, x).flags.f_contiguous
    assert exp(DRAWN[:, ::2]).flags.c_contiguous


def test_wrong_calls_are_refused():
    add, make = KERNELS["Add"], native.native.elementwise
    with pytest.raises(ValueError, match="broadcast"):
        add(DRAWN[0], DRAWN[0, :, :3])
    with pytest.raises(TypeError):
        add(DRAWN)
    with pytest.raises(TypeError):
        add(DRAWN, "x")
    with pytest.raises(KeyError, match="no kernel 'nonsense'"):
        make("nonsense", "f->f", np.exp)
    for types in ("f", "->f", "ffff->f", "x->f", "f->", "f->ff"):
        with pytest.raises(ValueError, match=r"use types such as ff->\?"):
            make("exp_f32", types, np.exp)


def test_calls_keep_no_references():
    x = DRAWN[:, ::2]
    y = DRAWN[0, 0]
    calls = [
        (KERNELS["Exp"], (x,)),
        (KERNELS["Add"], (x, y)),
        (KERNELS["Add"], (x.T, y[0])),
        (KERNELS["Add"], (x, np.float32(1))),
    ]
    before = sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(x.dtype)
    for function, xs in calls * 50:
        function(*xs)
    assert (sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(x.dtype)) == before
