"""The compilers of our backends: a compiled region gives the same bits as kernels.

Each program is one region. Some of its inputs are NaN, infinite, denormal or -0, and
some of its shapes do not fill the last vector.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import plugrad as pg
import pytest

from tests.core.jit.helpers import bits

COMPILERS = [name for name in ("wasm", "opencl") if name in pg.backends()]
SPECIAL_VALUES = [
    np.nan,
    np.inf,
    -np.inf,
    -0.0,
    0.0,
    1e-42,
    -1e-42,
    3e38,
    -3e38,
    88.0,
    -104.0,
]
SHAPES = [(), (1,), (3,), (4, 5), (2, 3, 7), (1025,), (257, 129)]


def gelu(x, y):
    return 0.5 * x * (1 + pg.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def adam(p, g):
    m = p * 0.9 + g * 0.1
    v = p * p * 0.999 + g * g * 0.001
    return p - 0.01 * m / (pg.sqrt(v) + 1e-8), m, v


def gradient(f):
    return pg.grads(lambda x, y: pg.sum(f(x, y) * pg.exp(-pg.abs(x))))


def sums_of_products(x, y):
    """Return sums of products that differ if a compiler rounds them only once."""
    return x * y + y * 3.0 - x, (x - y) * (x - y) + x * x


def selected(x, y):
    mask = pg.logical_and(x > y, pg.logical_or(x < 1.0, pg.isnan(y)))
    return pg.where(mask, x, -y), pg.logical_not(mask), pg.where(x == y, 1.0, y)


def compared(x, y):
    found = [x != y, x >= y, x <= y, x > 0.5]
    both = pg.logical_xor(found[0], pg.logical_and(found[1], found[2]))
    return both, pg.astype(pg.logical_or(both, found[3]), "float32") * x


def casts(x, y):
    return pg.astype(x > y, "float32") + pg.astype(pg.logical_not(x > y), "float32") * 2


def elementary(x, y):
    a = pg.exp(x) + pg.expm1(y) + pg.log(pg.abs(x)) - pg.log1p(pg.abs(y))
    return a, pg.sigmoid(a) * pg.softplus(x) + pg.erf(y), pg.pow(pg.abs(x), y)


def limited(x, y):
    a = pg.clip(x, -0.5, 0.75) + pg.leaky_relu(y, alpha=0.3) + pg.relu(-x) + pg.relu6(y)
    return a, pg.maximum(x, y) - pg.minimum(x, y), pg.elu(x) * pg.selu(y)


def rounded(x, y):
    a = pg.floor(x) + pg.ceil(y) + pg.round(x) + pg.sign(y)
    return a, 1.0 / y, pg.square(x) * pg.rsqrt(pg.abs(y)), pg.reciprocal(x) - a


def repeated(x, y):
    return x + x, -((x + x) * 2.0), x + x


FUNCTIONS = [
    gelu,
    adam,
    sums_of_products,
    selected,
    compared,
    casts,
    elementary,
    limited,
]
FUNCTIONS += [rounded, repeated]
FUNCTIONS = {f.__name__: f for f in FUNCTIONS}
FUNCTIONS["gradient of tanh"] = gradient(lambda x, y: pg.tanh(x * y) * pg.sigmoid(y))
FUNCTIONS["gradient of relu"] = gradient(lambda x, y: pg.relu(x) * pg.elu(y))
FUNCTIONS["gradient of erf"] = gradient(lambda x, y: pg.erf(x) * pg.maximum(x, y))


@pytest.fixture(autouse=True)
def accelerators():
    """Run each test once, because compilers do not use the accelerators."""


@pytest.fixture(params=COMPILERS)
def on(request):
    """Run on a backend with a compiler; yield its name."""
    with pg.use_backend(request.param):
        yield request.param


def numbers(*shape, seed=0):
    rng = np.random.default_rng([seed, *shape])
    x = rng.normal(size=shape, scale=2.0).astype("float32")
    is_special = rng.random(size=shape) < 0.1
    return np.where(is_special, rng.choice(SPECIAL_VALUES, size=shape), x).astype(
        "float32"
    )


def check(f, *calls):
    """Compare ``jit`` with eager mode; return the regions of the graph."""
    jitted = pg.jit(f)
    for xs in (calls[0], *calls):
        xs = [pg.asarray(x) for x in xs]
        assert bits(jitted(*xs)) == bits(f(*xs))
    graph = jitted.explain(*xs)
    assert graph.graph is not None
    return graph.regions


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_bits_of_kernels(on, name, shape):
    calls = [(numbers(*shape, seed=s), numbers(*shape, seed=s + 9)) for s in range(2)]
    assert check(FUNCTIONS[name], *calls)


@pytest.mark.parametrize(
    "shapes",
    [
        [(5, 7), (7,)],
        [(5, 7), (5, 1)],
        [(5, 1), (1, 7)],
        [(4, 3, 5), (3, 1)],
        [(4, 3, 5), (4, 1, 5)],
        [(2, 3, 4, 5), (3, 1, 5)],
        [(100, 1000), (1000,)],
        [(1000, 3), (3,)],
        [(30_000, 3), (3,)],
        [(9, 40, 5), (40, 5)],
        [(9, 40, 5), (40, 1)],
        [(3, 4), ()],
        [(1, 3), (3,)],
    ],
    ids=str,
)
def test_inputs_broadcast(on, shapes):
    def f(x, y):
        a = x * y + 1.0
        return a, pg.tanh(a) - x, pg.where(a > y, y, a)

    calls = [[numbers(*shape, seed=s) for shape in shapes] for s in range(2)]
    (region,) = check(f, *calls)
    assert region.saved > 0
    # the region reads a broadcast input without a copy
    wide = max([np.empty(s) for s in shapes], key=np.size).shape
    moved = lambda x, y: pg.exp(pg.broadcast_to(y, wide)) * 2.0 + x
    if np.prod(shapes[0]) == np.prod(wide):
        assert len(check(moved, *calls)) == 1


def test_views_are_read_without_a_copy(on):
    def f(x):
        return pg.exp(x.T) * 2.0 + x.T, pg.tanh(x[1:, ::2] * 3.0)

    assert check(f, [numbers(6, 9)], [numbers(6, 9, seed=1)])


@pytest.mark.parametrize("count", [2, 63, 200])
def test_long_chains(on, count):
    def f(x, y):
        values = [x]
        for i in range(count):
            values.append(values[-1] * y + values[i // 2])
        return values[-1], values[::17]

    regions = check(f, [numbers(1000), numbers(1000, seed=1) * 0.1])
    assert sum(len(region.steps) for region in regions) == 2 * count


FLOATING = "Abs Ceil Cos Elu Erf Erfc Exp Exp2 Expm1 Floor Log Log1p Neg Reciprocal "
FLOATING += "Relu Gelu GeluTanh Round Rsqrt Selu Sigmoid Sign Sin Softplus Sqrt Square "
FLOATING += "Tanh IsFinite IsInf IsNan Relu6 SignBit Trunc"
PAIRS = "Add Sub Multiply RealDiv Maximum Minimum Pow Prelu SquaredDifference EluGrad "
PAIRS += "CopySign Hypot SigmoidGrad TanhGrad"
COMPARISONS = "Equal NotEqual Less LessEqual Greater GreaterEqual"
NUMBERS = {"ClipByValue": {"min": -0.5, "max": 0.75}, "LeakyRelu": {"alpha": 0.2}}
NUMBERS |= {"Step": {"alpha": 0.5}}
GRADIENT_KERNELS = [
    f"{name}Grad" for name in ("Relu", "Tanh", "Sigmoid", "Erf", "Gelu", "GeluTanh")
]
# dtype: kernels of one input, kernels of two inputs, the kernel of the first step
KERNELS = {
    "float32": ([*FLOATING.split(), *NUMBERS], f"{PAIRS} {COMPARISONS}".split(), "Neg"),
    "int32": (["Neg", "Square"], f"Add Sub Multiply {COMPARISONS}".split(), "Neg"),
    "bool": (["LogicalNot"], ["LogicalAnd", "LogicalOr", "LogicalXor"], "LogicalNot"),
}
CASTS = {"float32": ["bool"], "int32": ["float32", "bool"]}
CASTS["bool"] = ["float32", "int32"]


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("dtype", KERNELS)
def test_each_kernel(on, dtype, inputs):
    """All kernels are in one region, because they read the result of its first step."""
    unary, binary, first = KERNELS[dtype]
    binary = binary + [
        f"plugrad_{on}.{name}" for name in GRADIENT_KERNELS if dtype == "float32"
    ]

    def f(x, y, condition):
        x = pg.run_kernel(first, [x], {})
        if inputs == 1:
            ys = [pg.run_kernel(name, [x], NUMBERS.get(name, {})) for name in unary]
            return ys + [pg.astype(x, to) for to in CASTS[dtype]]
        ys = [pg.run_kernel(name, [x, y], {}) for name in binary]
        return [*ys, pg.where(condition, x, y), pg.where(condition, y, x)]

    xs = [numbers(2050, seed=s) for s in range(3)]
    xs[2] = xs[2] > 0
    for i in range(2):
        finite = np.nan_to_num(xs[i], posinf=9, neginf=-9).clip(-9, 9)
        xs[i] = xs[i] if dtype == "float32" else finite.astype(dtype)
    regions = check(f, xs)
    assert sum(len(r.steps) for r in regions) == len(regions[0].graph.outputs) + 1


def test_regions_of_scalars(on):
    def f(t):
        return 1.0 - pg.pow(0.9, t), 1.0 - pg.pow(0.999, t)

    assert check(f, [np.float32(3)], [np.float32(4)])


def test_one_function_in_several_threads(on):
    f = lambda x, y: (pg.tanh(x * y) + x, x - y * 2.0)
    jitted = pg.jit(f)
    xs = [pg.asarray(numbers(100_000, seed=s)) for s in range(5)]
    expected = [bits(f(x, xs[0])) for x in xs]
    jitted(xs[0], xs[0])

    def calls(n):
        with pg.use_backend(on):
            return [bits(jitted(xs[n], xs[0])) for _ in range(3)]

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(calls, range(5))] == [[one] * 3 for one in expected]
