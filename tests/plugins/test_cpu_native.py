"""plugrad-cpu's C kernels give NumPy's results on any number of threads."""

import os
import textwrap

import numpy as np
import plugrad as pg
import pytest

from tests.processes import output

native = pytest.importorskip("plugrad_cpu.native", reason="needs plugrad-cpu")
if not native.LOADED:
    pytest.skip(f"no kernels in C: {native.LIBRARY}", allow_module_level=True)

RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def on_cpu():
    with pg.use_backend("cpu"):
        yield


def draw(*shape, dtype="float32"):
    return pg.asarray(RNG.normal(size=shape).astype(dtype))


def run_in_c_and_on_numpy(monkeypatch, call):
    """Return the results of a call with C kernels, and of a call without them."""
    fast = call()
    from plugrad_cpu.kernels import depthwise, norm, pool

    for module in (depthwise, norm, pool):
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, dict):
                monkeypatch.setattr(module, name, {})
    slow = call()
    monkeypatch.undo()
    return [[y.numpy() for y in pg.tree.leaves(found)] for found in (fast, slow)]


DTYPES = ("float32", "float64")
SHAPES = [(1,), (7,), (3, 5), (2, 3, 129), (4, 0), (0, 4), (1, 1, 1), (33, 1)]
DEPTHWISE = [  # channels, multiplier, window, and options
    (8, 1, (3, 3), {"pad": "same"}),
    (4, 1, (5, 5), {"pad": "same", "strides": 2}),
    (5, 1, (3, 2), {"pad": "valid", "dilations": 2}),
    (3, 1, (3, 3), {"pad": 1}),
    (4, 3, (3, 3), {"pad": "same", "strides": (2, 1)}),
    (6, 1, (33, 1), {"pad": "same"}),
    (9, 1, (3, 3), {"pad": "same"}),  # a vector of 8 and a remainder
    (16, 1, (3, 3), {"pad": "same"}),
    (17, 1, (3, 3), {"pad": "same", "strides": 2}),
    (33, 1, (2, 3), {"pad": "valid", "dilations": 2}),
]
POOLING = [
    (2, {}),
    (3, {"strides": 2, "pad": "same"}),
    (3, {"strides": 1, "pad": 1}),
    ((1, 4), {"strides": (3, 2), "pad": "same"}),
]


def row_calls(dtype):
    """Yield calls of softmax and layer_norm, on contiguous arrays and on views."""
    for shape in SHAPES:
        x = draw(*shape, dtype=dtype)
        n = shape[-1]
        for axis in (i for i, size in enumerate(shape) if size):
            yield f"softmax {shape} {axis}", lambda x=x, a=axis: pg.softmax(x, a)
            yield f"log_softmax {shape}", lambda x=x, a=axis: pg.log_softmax(x, a)
        s = draw(n, dtype=dtype)
        o = draw(n, dtype=dtype)
        for pair in [(None, None), (s, None), (None, o), (s, o)] if n else ():
            yield f"layer_norm {shape}", lambda x=x, p=pair: pg.layer_norm(x, *p)
    x = draw(6, 8, dtype=dtype)
    for view in (x.T, x[::-1, ::-2], pg.broadcast_to(x[:1], (5, 8)), x[:, 3:5]):
        yield "softmax of a view", lambda v=view: pg.softmax(v, -1)
        yield "layer_norm of a view", lambda v=view: pg.layer_norm(v)


def depthwise_calls(dtype):
    """Yield depthwise convolutions and their gradients."""
    for c, m, window, options in DEPTHWISE:
        x = draw(2, 9, 8, c, dtype=dtype)
        w = draw(*window, c, m, dtype=dtype)
        f = lambda x, w, options=options: pg.depthwise_conv2d(x, w, **options)
        yield f"depthwise {c} {m} {window} {options}", lambda f=f, x=x, w=w: f(x, w)
        g = pg.grads(lambda x, w, f=f: pg.sum(pg.sin(f(x, w))))
        yield f"its gradient {c} {m} {options}", lambda g=g, x=x, w=w: g(x, w)


def pooling_calls(dtype):
    """Yield pooling and its gradients, with ties."""
    x = pg.round(draw(2, 7, 8, 5, dtype=dtype) * 2.0)
    for window, options in POOLING:
        for op in (pg.max_pool, pg.avg_pool):
            f = lambda x, op=op, w=window, options=options: op(x, w, **options)
            g = pg.grad(lambda x, f=f: pg.sum(pg.sin(f(x)) * 3.0))
            yield f"gradient of {op.__name__} {window}", lambda g=g: g(x)
        for by_batch in (False, True):
            all_options = options | {"include_batch_in_index": by_batch}
            f = lambda w=window, all_options=all_options: pg.max_pool_with_argmax(
                x, w, **all_options
            )
            yield f"argmax {window} {by_batch}", f


def rows():
    """Yield all calls, by name."""
    for dtype in DTYPES:
        for family in (row_calls, depthwise_calls, pooling_calls):
            yield from family(dtype)


ROWS = list(rows())


@pytest.mark.parametrize("name", sorted({name for name, _ in ROWS}))
def test_results_are_those_of_numpy(name, monkeypatch):
    for call in (call for row_name, call in ROWS if row_name == name):
        fast, slow = run_in_c_and_on_numpy(monkeypatch, call)
        for a, b in zip(fast, slow, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            tolerance = 2e-5 if a.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 47, 63, 80])
def test_softmax_of_a_large_number_at_each_position(n):
    x = pg.asarray(np.eye(n, dtype="f4") * 200)
    for axis in (0, 1):
        np.testing.assert_array_equal(pg.softmax(x, axis).numpy(), np.eye(n))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities(value, monkeypatch):
    x = np.ones((3, 6, 6, 4), np.float32)
    x[1, 2, 3, 0] = value
    x = pg.asarray(x)
    for call in (
        lambda: pg.softmax(x, -1),
        lambda: pg.layer_norm(x),
        lambda: pg.max_pool(x, 2),
        lambda: pg.avg_pool(x, 2),
        lambda: pg.grad(lambda x: pg.sum(pg.max_pool(x, 2)))(x),
    ):
        fast, slow = run_in_c_and_on_numpy(monkeypatch, call)
        for a, b in zip(fast, slow, strict=True):
            np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
            np.testing.assert_array_equal(np.isinf(a), np.isinf(b))


PROGRAM = """
    import hashlib, os, sys, threading, warnings, numpy as np, plugrad as pg
    warnings.simplefilter("ignore", DeprecationWarning)  # fork while threads run
    x = pg.asarray(np.random.default_rng(0).normal(size=(8, 64, 64, 16)).astype("f4"))
    w = pg.asarray(np.random.default_rng(1).normal(size=(3, 3, 16, 1)).astype("f4"))
    f = lambda x, w: pg.sum(pg.max_pool(pg.depthwise_conv2d(x, w, pad="same"), 2) ** 2)
    def digest():
        found = [pg.softmax(x, -1), pg.softmax(x, 1), pg.layer_norm(x)]
        found += [pg.log_softmax(x, 1), pg.relu(x), x + x, x * w[0, 0, :, 0]]
        found += [pg.exp(x), pg.tanh(x), pg.where(x > 0, x, w[0, 0, :, 0])]
        data = b"".join(y.numpy().tobytes() for y in [*found, *pg.grads(f)(x, w)])
        return hashlib.sha256(data).hexdigest()
    print(digest())
"""


# Batch sizes and matrix sizes. Threads divide batches, columns or rows, or one thread
# computes everything. A transposed A is read in place or packed.
PRODUCTS = """
    import hashlib, numpy as np, plugrad as pg
    rng, data = np.random.default_rng(0), hashlib.sha256()
    for batches, m, n, k in [
        (1, 300, 520, 520), (1, 128, 256, 784), (1, 200, 130, 700), (1, 65, 33, 100),
        (1, 3000, 64, 64), (1, 130, 128, 64), (1, 1030, 70, 130), (1, 47, 200, 600),
        (3, 100, 96, 50), (24, 64, 70, 40), (150, 16, 64, 64),
    ]:
        for turned in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            a = rng.normal(size=(batches, m, k)).astype("f4")
            b = rng.normal(size=(batches, k, n)).astype("f4")
            given = [np.ascontiguousarray(x.swapaxes(1, 2)) if t else x
                     for x, t in zip((a, b), turned)]
            y = pg.matmul(*given, transpose_a=bool(turned[0]),
                          transpose_b=bool(turned[1])).numpy()
            np.testing.assert_allclose(y, a.astype("f8") @ b, atol=1e-5 * k)
            backwards = pg.matmul(pg.asarray(a[:, ::-1], copy=False), b).numpy()
            np.testing.assert_allclose(backwards, y[:, ::-1], atol=1e-5 * k)
            data.update(y.tobytes())
    print(data.hexdigest())
"""


# Sizes of convolutions that are computed by tiles, which are divided among threads. Two
# Python threads run them at the same time.
TILES = """
    import hashlib, numpy as np, plugrad as pg
    from concurrent.futures import ThreadPoolExecutor
    rng, cases = np.random.default_rng(0), []
    for n, rows, c, k in [(1, 56, 64, 64), (2, 17, 32, 48), (1, 28, 96, 32),
                          (1, 24, 256, 256), (3, 64, 32, 32)]:
        x = rng.normal(size=(n, rows, rows, c)).astype("f4")
        w = rng.normal(size=(3, 3, c, k)).astype("f4")
        seen = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        y = sum(seen[:, i:i + rows, j:j + rows] @ w[i, j].astype("f8")
                for i in range(3) for j in range(3))
        cases.append((pg.asarray(x), pg.asarray(w), y))
    def digest(_):
        data = hashlib.sha256()
        for x, w, expected in cases:
            y = pg.conv2d(x, w, pad="same").numpy()
            np.testing.assert_allclose(y, expected, atol=1e-4 * np.abs(expected).max())
            dx = pg.grad(lambda x: pg.sum(pg.conv2d(x, w, pad="same") ** 2))(x)
            data.update(y.tobytes() + dx.numpy().tobytes())
        return data.hexdigest()
    with ThreadPoolExecutor(2) as programs:
        [found] = {*programs.map(digest, range(4))}
    print(found)
"""


def run(program, **env):
    """Run a program in a separate process, and return the words that it prints."""
    env = {"PLUGRAD_PLUGINS": "cpu", "OMP_NUM_THREADS": "1"} | env
    return output(textwrap.dedent(program), **env).split()


@pytest.mark.parametrize("program", [PROGRAM, PRODUCTS, TILES])
def test_bits_do_not_depend_on_the_number_of_threads(program):
    found = [run(program, PLUGRAD_CPU_THREADS=n) for n in ("1", "2", "3", "8")]
    assert found[1:] == 3 * found[:1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forks_and_python_threads():
    program = (
        PROGRAM
        + """
    first = digest()
    wrong = []
    def work():
        for _ in range(3):
            if digest() != first:
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        child = os.fork()
        if not child:
            os._exit(int(digest() != first))
        if os.waitpid(child, 0)[1]:
            wrong.append(1)
    for thread in threads:
        thread.join()
    print(len(wrong))
    """
    )
    assert run(program, PLUGRAD_CPU_THREADS="4")[1:] == ["0"]


def test_c_kernels_can_be_turned_off():
    program = """
    import plugrad as pg
    from plugrad import plugin
    from plugrad_cpu import native
    print(pg.softmax([0.0, 0.0]).tolist(), native.LOADED)
    print(plugin.runtime("cpu").self_test())
    """
    found = " ".join(run(program, PLUGRAD_CPU_NATIVE="0"))
    assert found.startswith("[0.5, 0.5] False")
    assert "not in use (PLUGRAD_CPU_NATIVE=0)" in found


@pytest.mark.parametrize("turned_on", ["0", "1"])
def test_the_backend_has_gradient_kernels_only_in_c(turned_on):
    program = """
    import plugrad as pg
    with pg.profile() as profile:
        gelu_tanh = lambda x: pg.gelu(x, approximate=True)
        ops = (pg.relu, pg.sigmoid, pg.tanh, pg.erf, pg.gelu, gelu_tanh, pg.softmax)
        for f in (*ops, pg.log_softmax):
            pg.grad(f)(pg.asarray([-1.0, 2.0]), dy=pg.asarray([1.0, 3.0]))
    owned = pg.get_kernels_for_backend("cpu")
    ran = [record.kernel for record in profile.records]
    for names in (ran, owned):
        print(len([name for name in names if name.startswith("plugrad_cpu.")]))
    """
    count = "8" if turned_on == "1" else "0"
    assert run(program, PLUGRAD_CPU_NATIVE=turned_on) == [count, count]


def test_windows_with_offsets_beyond_64_bits_are_refused():
    """The padded input would have 2**66 elements."""
    program = """
    import plugrad as pg
    far, x, w = 2**22 - 1, pg.ones((1, 2, 2, 2, 1)), pg.ones((2, 2, 2, 1, 1))
    try:
        pg.conv3d(x, w, dilations=far, pad=[(far - 1, 0)] * 3)
    except ValueError:
        print("refused")
    """
    assert run(program) == ["refused"]


def test_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("PLUGRAD_CPU_THREADS", "3")
    assert native.threads() == 3
    for wrong in ("0x", "many", "-1"):
        monkeypatch.setenv("PLUGRAD_CPU_THREADS", wrong)
        with pytest.raises(ValueError, match=r"PLUGRAD_CPU_THREADS=.*: use a number"):
            native.threads()
    monkeypatch.delenv("PLUGRAD_CPU_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert native.threads() == 5


def test_wrong_arguments_of_a_c_kernel():
    softmax = native.native.get("softmax_f32")
    x = np.ones((4, 4), np.float32)
    with pytest.raises(ValueError, match="softmax_f32: an array is not contiguous"):
        softmax(x[:, ::2], x, 1, 1, 1, 0)
    with pytest.raises(KeyError, match="no kernel 'nonsense'"):
        native.native.get("nonsense")
    with pytest.raises(OSError, match="missing"):
        native.native.load("/missing.so")
    assert native.native.get("softmax_f32")  # the library stays open


X = np.ones((4, 4), np.float32)
WRONG_ARGUMENTS = {  # arguments of softmax_f32, the error, and its message
    "few": ((X, X, 4, 4, 1), TypeError, r"takes 6 arguments, got 5"),
    "many": ((X, X, 4, 4, 1, 0, 0), TypeError, r"takes 6 arguments, got 7"),
    "number": ((1, X, 4, 4, 1, 0), TypeError, r"1 must be an array or None, got int"),
    "float": ((X, X, 4.0, 4, 1, 0), TypeError, r"3 must be an integer, got float"),
    "array": (
        (X, X, 4, X, 1, 0),
        TypeError,
        r"4 must be an integer, got numpy.ndarray",
    ),
    "string": ((X, "x", 4, 4, 1, 0), TypeError, r"2 must be an array or None, got str"),
    "negative": ((X, X, -1, 4, 1, 0), OverflowError, r"3 must be in 0 to 2\*\*32 - 1"),
    "large": ((X, X, 4, 1 << 32, 1, 0), OverflowError, r"4 must be in 0 to 2\*\*32"),
    "huge": ((X, X, 4, 1 << 70, 1, 0), OverflowError, r"4 must be in 0 to 2\*\*32"),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
@pytest.mark.parametrize("caller", ["get", "bound"])
def test_arguments_are_checked_against_the_prototype(name, caller):
    arguments, error, message = WRONG_ARGUMENTS[name]
    call = {
        "get": native.native.get("softmax_f32"),
        "bound": lambda *xs: native.native.bound("softmax_f32", xs, [], [], 0),
    }[caller]
    with pytest.raises(error, match=rf"^softmax_f32\(const f32 \*x, .*{message}"):
        call(*arguments)


def test_kernels_distinguish_integers_and_floats():
    clip = native.native.get("clip_f32")
    y = np.empty_like(X)
    with pytest.raises(TypeError, match="argument 5 must be a float, got int"):
        clip(X, y, X.size, 0.0, 1)
    with pytest.raises(TypeError, match="takes no keyword arguments"):
        clip(X, y, X.size, 0.0, q=1.0)
    clip(X * 3, y, np.int64(X.size), 0.0, np.float64(2.0))
    assert (y == 2).all()


def test_a_kernel_shows_its_prototype():
    kernel = native.native.get("clip_f32")
    assert kernel.kinds == "ppudd"
    assert kernel.prototype == "clip_f32(const f32 *x, f32 *y, u32 n, f64 p, f64 q)"
    with pytest.raises(
        TypeError, match=r"sum_f32\(.*\) is not a kernel for types f->f"
    ):
        native.native.elementwise("sum_f32", "f->f", np.negative)
    with pytest.raises(TypeError, match=r"product cannot call clip_f32\("):
        native.native.product(kernel, X, X, False, False, 1, 1, 1)
    with pytest.raises(KeyError, match="no function 'nonsense'"):
        native.native.address("nonsense")
