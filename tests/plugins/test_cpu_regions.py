"""plugrad-cpu's regions run kernels in one pass, with the same bits as eager mode."""

import ctypes
import doctest
import weakref
from math import prod

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Spec

from tests.core.jit.helpers import bits
from tests.processes import output

native = pytest.importorskip("plugrad_cpu.native", reason="needs plugrad-cpu")
if not native.LOADED:
    pytest.skip(f"no kernels in C: {native.LIBRARY}", allow_module_level=True)

from plugrad_cpu import regions  # noqa: E402  # after the skip
from plugrad_cpu.compiler import compile as compiler  # noqa: E402  # after the skip

LOOPS = compiler.LOOPS

RNG = np.random.default_rng(3)
SPECIAL = [0, -0.0, 1, -1, 0.5, 1e-40, 3e38, -3e38, 88.7, -104, np.nan, np.inf, -np.inf]
SIZES = [*range(1, 34), 63, 64, 65, 1023, 1024, 1025, 5000]
UNARY = [kernel for kernel, types in LOOPS if types == "f" and kernel != "BroadcastTo"]
BINARY = [kernel for kernel, types in LOOPS if types == "ff"]
NUMBERS = {
    "ClipByValue": {"min": -0.5, "max": 0.75},
    "LeakyRelu": {"alpha": 0.2},
    "Step": {"alpha": 0.5},
}


@pytest.fixture(autouse=True)
def on_cpu(own_compilers):
    """Run on cpu."""
    with pg.use_backend("cpu"):
        yield


def floats(*shape):
    """Return an array of ordinary and special numbers."""
    x = np.array(RNG.normal(size=shape) * 3, "float32")
    special = np.array(RNG.random(shape) < 0.1)
    x[special] = RNG.choice(np.float32(SPECIAL), int(special.sum()))
    return pg.asarray(x)


def run(kernel, *xs):
    return pg.run_kernel(kernel, xs, NUMBERS.get(kernel, {}))


def check(f, *xs, regions=1):
    """Check that ``jit(f)`` gives the same bits as ``f``; return its explanation."""
    jitted = pg.jit(f)
    expected = pg.tree.leaves(f(*xs))
    for _ in range(4):
        for found, y in zip(pg.tree.leaves(jitted(*xs)), expected, strict=True):
            assert (found.shape, found.dtype) == (y.shape, y.dtype)
            assert bits(found) == bits(y)
    explained = jitted.explain(*xs)
    assert len(explained.regions) == regions
    return explained


def test_the_table_covers_the_c_kernels():
    assert len(UNARY) > 25
    assert len(BINARY) > 15


@pytest.mark.parametrize("kernel", UNARY)
def test_unary(kernel):
    for n in SIZES:
        check(lambda x: run(kernel, x + 0.5), floats(n))


@pytest.mark.parametrize("kernel", BINARY)
def test_binary(kernel):
    for n in SIZES:
        check(lambda x, y: run(kernel, x + y, y), floats(n), floats(n))
        check(lambda x, y: run(kernel, y, x + y), floats(n), floats(n))


ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "rsub": lambda a, b: b - a,
    "mul": lambda a, b: a * b,
}


@pytest.fixture
def names(monkeypatch):
    """Return a list to which regions add the names of the C functions they run."""
    original, found = compiler.program, []

    def program(graph, loop_of):
        slots, runs = original(graph, loop_of)
        found.extend(run.name for run in runs)
        return slots, runs

    monkeypatch.setattr(compiler, "program", program)
    return found


@pytest.mark.parametrize("second", ARITHMETIC)
@pytest.mark.parametrize("first", ["add", "sub", "mul"])
def test_two_steps_of_arithmetic_are_one_run(first, second, names):
    def f(a, b, c):
        return ARITHMETIC[second](ARITHMETIC[first](a, b), c)

    for n in SIZES:
        check(f, floats(n), floats(n), floats(n))
    whole = floats(3, 50)
    row = floats(50)
    column = floats(3, 1)
    one = floats()
    for operands in [(whole, row, column), (row, whole, one), (one, whole, row)]:
        check(f, *operands)
        check(f, *operands[::-1])
    assert {*names} == {f"{first}_{second}_f32_row"}


def test_a_result_reuses_the_tile_of_an_operand(names):
    def f(x):
        a = pg.tanh(x)
        b = a * a  # the last use of ``a``, so its tile is reused
        return pg.exp(x - b) - pg.sin(b - (a + x))

    def g(x, y):
        a = pg.tanh(x)
        return pg.sin(a * y + x) + pg.cos(y)

    check(f, floats(5000))
    names.clear()
    check(g, floats(5000), floats(5000))
    assert names[:3] == ["tanh_f32_piece", "mul_add_f32_row", "sin_f32_piece"]


def test_a_value_with_several_uses_is_a_separate_run(names):
    def twice(x, y):
        a = x + y
        return a * a

    def returned(x, y):
        a = x + y
        return a, a * y

    def read_later(x, y):
        a = x + y
        return pg.sin(a * y) + a

    for f in (twice, returned):
        check(f, floats(100), floats(100))
    assert names == ["add_f32_row", "mul_f32_row"] * 2
    names.clear()
    check(read_later, floats(100), floats(100))
    assert names == ["add_f32_row", "mul_f32_row", "sin_f32_piece", "add_f32_row"]


@pytest.mark.parametrize("shape", [(4_300_003,), (43_007, 100)])
def test_arrays_larger_than_the_caches(shape):
    """Large outputs bypass the caches, even rows that start within a cache line."""
    x = floats(*shape)
    y = floats(*shape)
    row = floats(shape[-1] if shape[1:] else 1)

    def f(x, y):
        z = x * y + row
        return z, pg.sqrt(z) - x, z < y

    check(f, x, y)


OTHERS = {
    "scalar": lambda shape: (),
    "row": lambda shape: shape[-1:],
    "column": lambda shape: (*shape[:-1], 1),
    "one in front": lambda shape: (1, *shape[1:]),
}


@pytest.mark.parametrize("shape", [(3, 5), (7, 300), (40, 33, 6), (2, 1, 1025), (4, 1)])
@pytest.mark.parametrize("other", OTHERS)
def test_broadcasting(shape, other):
    x = floats(*shape)
    y = floats(*OTHERS[other](shape))
    check(lambda x, y: (x - y) * pg.exp(y - x) / (y + x * 2.0), x, y)
    check(lambda x, y: pg.where(x > y, y * x, x), x, y)
    check(lambda x, y: -pg.broadcast_to(y, x.shape) * x, x, y)
    if x.shape != y.shape:  # the view and its readers are not in a region
        check(
            lambda x, y: (z := pg.broadcast_to(y, x.shape), z * x - z), x, y, regions=0
        )


def test_axes_in_the_middle():
    x = floats(3, 40, 5, 9)
    y = floats(40, 1, 9)
    z = floats(3, 1, 5, 1)
    check(lambda x, y, z: pg.tanh(x * y + z) - y, x, y, z)
    check(lambda y, z: pg.exp(y + z) * y, y, z)  # both are broadcast


def test_conditions():
    x = floats(700)
    y = floats(700)
    check(lambda x, y: pg.logical_not(x > y) | (x == y) & (x != 1.0), x, y)
    check(lambda x, y: (pg.logical_xor(x >= y, x < 0.0), x <= y), x, y, regions=2)
    check(lambda x, y: pg.astype(x > y, "float32") * x, x, y)


def test_many_outputs_and_many_values():
    def adam(x, m, v, g):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return x - 0.01 * m / (pg.sqrt(v) + 1e-8), m, v

    check(adam, floats(3000), floats(3000), floats(3000), floats(3000))

    def wide(x):  # more tiles are live than there are slots for large tiles
        parts = [pg.exp(x * (k / 20)) for k in range(28)]
        while len(parts) > 1:
            parts = [parts[0] + parts[-1], *parts[1:-1]]
        return parts

    assert check(wide, floats(5000), regions=2)


def test_scalars():
    check(lambda x, y: pg.exp(x * y) + x, floats(), floats())
    check(lambda x: pg.exp(x[0] * x[1]) + x[2], floats(3))  # NumPy scalars


def test_other_dtypes_and_layouts_run_without_regions():
    doubled = lambda x: pg.exp(x * x) + x
    check(doubled, pg.asarray(floats(5, 7).numpy().astype("float64")), regions=0)
    check(lambda x: x * x + x, pg.arange(9), regions=0)
    f = pg.jit(doubled)
    x = floats(6, 7)
    for y in (x, x, x, x.T.T, pg.asarray(np.asfortranarray(x.numpy())), x[::-1][::-1]):
        assert f(y).numpy().tobytes() == doubled(y).numpy().tobytes()
    assert len(f.explain(x).regions) == 1
    # The sum reads an array of the same layout as in eager execution.
    check(lambda x: pg.sum(doubled(x.T), axis=0), x)


PRODUCTS = {
    "matrices": ((9, 40), (40, 33), False, False),
    "transposed": ((40, 9), (33, 40), True, True),
    "one transposed": ((40, 9), (40, 33), True, False),
    "a batch": ((3, 2, 17, 20), (3, 2, 20, 31), False, False),
    "a broadcast batch": ((3, 1, 17, 20), (2, 31, 20), False, True),
    "one matrix for a batch": ((5, 17, 20), (20, 31), False, False),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    a, b, transpose_a, transpose_b = PRODUCTS[name]
    a = floats(*a)
    b = floats(*b)
    f = lambda a, b: pg.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    check(f, a, b)
    check(lambda a, b: f(a, b) + f(a, b * 2.0), a, b, regions=4)
    swapped = lambda a: pg.asarray(np.asfortranarray(a.numpy()))
    jitted = pg.jit(f)
    for x, y in (
        (a, b),
        (a, b),
        (a, b),
        (swapped(a), b),
        (a, swapped(b)),
    ):  # layouts that regions do not read
        assert jitted(x, y).numpy().tobytes() == f(x, y).numpy().tobytes()


def test_small_products_run_in_blas():
    check(lambda a, b: pg.matmul(a, b), floats(3, 5), floats(5, 2), regions=0)
    check(lambda a: pg.matmul(a, a), floats(30, 30))  # one array twice


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", [pg.softmax, pg.log_softmax])
def test_softmax(op, axis):
    x = floats(7, 30, 11)
    check(lambda x: op(x, axis=axis), x)
    loss = lambda x: pg.sum(op(x, axis=axis) * pg.cos(x))
    jitted = pg.jit(pg.grad(loss))
    for y in (x, x, x, x * 0.5, x * 0.25):
        assert jitted(y).numpy().tobytes() == pg.grad(loss)(y).numpy().tobytes()
    executors = [step["by"] for step in jitted.explain(x).to_dict()["graph"]]
    assert sum(executor.startswith("region") for executor in executors) > 4


THREADS = """
import numpy as np, plugrad as pg
pg.set_backend("cpu")
x = pg.asarray(np.sin(np.arange(300_001, dtype="float32")))
f = pg.jit(lambda x: pg.tanh(x * x[-1]) * pg.exp(-x) + 1.0)
f(x), f(x), f(x)
import hashlib
print(hashlib.sha256(f(x).numpy().tobytes()).hexdigest(), len(f.explain(x).regions))
"""


def test_bits_do_not_depend_on_the_number_of_threads():
    plugins = {"PLUGRAD_PLUGINS": "cpu"}
    found = {output(THREADS, PLUGRAD_CPU_THREADS=n, **plugins) for n in "128"}
    assert len(found) == 1
    assert found.pop().endswith(" 1\n")


def test_the_public_module_has_these_names_and_examples():
    """Other plugins use these names: the changelog must list additions and removals."""
    assert doctest.testmod(regions) == (0, 12)
    assert [*regions.__all__] == [
        *("MAX_SLOTS", "SHORT_TILE", "SLOT", "Loop", "Run", "Share", "Slots", "Tables"),
        *("machine_code", "program", "step_dtype", "tables"),
    ]
    assert all(hasattr(regions, name) for name in regions.__all__)


# --- machine code ----------------------------------------------------------------

CODE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def spec(*shape, dtype="float32"):
    return Spec(shape, np.dtype(dtype))


def added(share, inputs, constants, outputs, ran):
    """Return a function that adds float32 arrays, and records the calls of its code.

    The code is a Python function, which C calls with addresses.
    """
    count = len(inputs) + len(constants) + len(outputs)
    sizes = [prod(x.shape) for x in (*inputs, *constants, *outputs)]

    @CODE
    def code(arrays, begin, end):
        addresses = (ctypes.c_void_p * count).from_address(arrays)
        floats = [
            np.ctypeslib.as_array((ctypes.c_float * n).from_address(address))
            for address, n in zip(addresses, sizes, strict=True)
        ]
        given, made = floats[: -len(outputs)], floats[-len(outputs) :]
        for k, y in enumerate(made, 1):
            parts = [x if len(x) == 1 else x[begin:end] for x in given]
            y[begin:end] = k * sum(parts)
        ran.append((begin, end))

    address = ctypes.cast(code, ctypes.c_void_p).value
    return regions.machine_code(address, share, inputs, constants, outputs, code)


def test_machine_code_runs():
    ran = []
    constant = np.full(4, 10, "float32")
    f = added(regions.Share(4), [spec(4), spec()], [constant], [spec(4)], ran)
    x = np.arange(4, dtype="float32")
    assert f(x, np.float32(0.5)).tolist() == [10.5, 11.5, 12.5, 13.5]
    assert f(x, np.array(0.5, "float32")).tolist() == [10.5, 11.5, 12.5, 13.5]
    assert ran == [(0, 4)] * 2


def test_machine_code_with_several_outputs():
    f = added(regions.Share(6), [spec(2, 3)], [], [spec(2, 3), spec(6)], [])
    one, two = f(np.ones((2, 3), "float32"))
    assert one.tolist() == [[1.0] * 3] * 2
    assert two.tolist() == [2.0] * 6


@pytest.mark.parametrize(
    "x",
    [
        np.ones((4, 2), "float32")[:, 0],
        np.ones(4, "float64"),
        np.ones(5, "float32"),
        [1.0] * 4,
        np.ones(4, ">f4"),
    ],
    ids=["strided", "dtype", "size", "list", "byte order"],
)
def test_machine_code_declines_other_inputs(x):
    ran = []
    f = added(regions.Share(4), [spec(4)], [], [spec(4)], ran)
    assert f(x) is NotImplemented
    assert ran == []
    with pytest.raises(TypeError, match=r"a region takes 1 array$"):
        f()


@pytest.mark.parametrize("grain", [1, 3, 100])
def test_threads_share_the_items_of_machine_code(grain):
    n = 100_003  # so large that the GIL is released, which the code here needs
    ran = []
    share = regions.Share(n, 1000, n // 1000, grain)
    f = added(share, [spec(n)], [], [spec(n)], ran)
    x = np.arange(n, dtype="float32")
    assert f(x).tolist() == x.tolist()
    assert sorted(ran)[0][0] == 0
    assert sorted(ran)[-1][1] == n
    ends = [end for _, end in sorted(ran)]
    assert [begin for begin, _ in sorted(ran)][1:] == ends[:-1]
    assert all(begin % 1000 == 0 for begin, _ in ran)


def test_machine_code_outlives_the_names_of_its_owner():
    class Owner:
        pass

    owner = Owner()
    known = weakref.ref(owner)
    f = regions.machine_code(1, regions.Share(1), [spec(1)], [], [spec(1)], owner)
    del owner
    assert known() is not None
    del f
    assert known() is None


def test_machine_code_of_too_many_arrays():
    many = [spec(1)] * (regions.MAX_SLOTS + 1)
    with pytest.raises(ValueError, match="a region is too large"):
        regions.machine_code(1, regions.Share(1), many, [], [spec(1)], None)


def test_machine_code_needs_the_extension(monkeypatch):
    monkeypatch.setattr(regions, "native", None)
    nothing = regions.machine_code(1, regions.Share(1), [], [], [spec(1)], None)
    assert nothing is None
