"""Tricks that rely on private memory layouts have plain fallbacks with equal results.

``PLUGRAD_<PLUGIN>_PLAIN=1`` chooses the fallback; the modules say what the tricks are.
"""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

WORK = """
import numpy as np
import plugrad as pg

x = np.linspace(-3, 3, 30_000, dtype=np.float32).reshape(100, 300)
def f(x):
    y = pg.exp(x) * pg.tanh(x) + 1 / (1 + x * x)
    return pg.sum(pg.matmul(y, y.mT), axis=1)
fast = pg.jit(f)
with pg.use_backend(backend):
    a = pg.asarray(x)
    for _ in range(4):
        found = fast(a).numpy()
    pg.grad(lambda x: pg.sum(f(x)))(a)
    pg.max(pg.conv2d(pg.ones((1, 8, 8, 3)), pg.ones((3, 3, 3, 4))))
wide = x.astype(np.float64)
y = np.exp(wide) * np.tanh(wide) + 1 / (1 + wide * wide)
np.testing.assert_allclose(found, (y @ y.T).sum(1), rtol=1e-3)
"""


def run(code, **variables):
    """Run code in a separate process, and return the words that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


def needs(*packages):
    """Skip a test unless packages are installed."""
    lacking = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(lacking), reason=f"{lacking} not installed")


@needs("plugrad_wasm")
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("plain", ["0", "1"])
def test_wasm_calls(plain, threads):
    code = """
    from plugrad.plugin import runtime
    from plugrad_wasm import instance
    ran, plain = [], instance._call_plainly
    instance._call_plainly = lambda *xs: ran.append(1) or plain(*xs)
    backend = "wasm"
    """
    errors = """
    try:
        with pg.use_backend("wasm"):
            pg.gather(pg.ones(3), pg.asarray([7]))
    except IndexError:
        print("refused")
    print(bool(ran))
    """
    code = textwrap.dedent(code) + WORK + textwrap.dedent(errors)
    found = run(code, PLUGRAD_WASM_THREADS=threads, PLUGRAD_WASM_PLAIN=plain)
    assert found == ["refused", str(plain == "1")]


@needs("pyopencl")
@pytest.mark.parametrize("plain", ["0", "1"])
def test_the_processor_of_pocl(plain, tmp_path):
    code = """
    from plugrad_opencl import _pocl
    named, name = [], _pocl._name
    _pocl._name = lambda: named.append(1) or name()
    backend = "opencl"
    """
    shows = "\nprint('named' if named else 'asked')\n"
    variables = {
        "XDG_CACHE_HOME": str(tmp_path),  # the default cache may have compiled programs
        "PLUGRAD_OPENCL_PLAIN": plain,
    }
    (found,) = run(textwrap.dedent(code) + WORK + shows, **variables)
    # "asked": other versions of PoCL ask LLVM even with the trick.
    assert found in (["asked"] if plain == "1" else ["named", "asked"])


@needs("pyopencl")
def test_packed_weights_on_a_processor_that_pocl_does_not_know(tmp_path):
    """Vectors of 16 elements gave wrong numbers there."""
    code = """
    import numpy as np
    import plugrad as pg

    codes = np.arange(-96, 96, dtype=np.int8).reshape(3, 64)
    scale = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    x = np.ones((2, 64), np.float32)
    with pg.use_backend("opencl"):
        y = pg.quantized.block_matmul(*map(pg.asarray, (x, codes, scale)), bits=8)
    weights = codes * np.repeat(scale, 32, axis=1)
    print(np.array_equal(y.numpy(), x @ weights.T))
    """
    variables = {"XDG_CACHE_HOME": str(tmp_path), "PLUGRAD_OPENCL_PLAIN": "1"}
    assert run(textwrap.dedent(code), **variables) == ["True"]
