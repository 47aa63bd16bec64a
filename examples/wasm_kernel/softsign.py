"""A kernel in C for the backend "wasm", in a sandbox, and its gradient.

It needs ``pip install ziglang``, a clang that compiles to WebAssembly on any platform.
Users of the compiled module need no compiler.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import plugrad as pg
from plugrad import BackendError
from plugrad.plugin import Kernel, decomposition, gradients, run, same
from plugrad_wasm import get_include, load_kernel

# --- the contract, its op, its decomposition, and its gradient -------------------

SOFTSIGN = Kernel("mylib.Softsign(x; scale)", out=same)


def softsign(x: pg.TensorLike, /, *, scale: float = 1.0) -> pg.Tensor:
    """Return x / (scale + |x|)."""
    return run(SOFTSIGN, pg.asarray(x), scale=scale)


@decomposition(SOFTSIGN)
def _(x: pg.Tensor, *, scale: float) -> pg.Tensor:
    return x / (scale + pg.abs(x))


# The gradient is composed of ops, so plugrad can differentiate it again.
gradients(
    SOFTSIGN,
    x=lambda dy, x, scale: dy * scale / pg.square(scale + pg.abs(x)),
)

# --- the kernel function ---------------------------------------------------------

ZIG = [sys.executable, "-m", "ziglang", "cc"]
FLAGS = "-target wasm32-freestanding -O3 -msimd128 -nostdlib -s -Wl,--no-entry"


def compiled(source: Path) -> bytes:
    """Compile a file in C with clang; return the module."""
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, source.stem + ".wasm")
        subprocess.run(
            [*ZIG, *FLAGS.split(), "-I", get_include(), source, "-o", module],
            check=True,
        )
        return module.read_bytes()


module = compiled(Path(__file__).with_name("softsign.c"))
print(len(module) < 2000)  # True
pg.register_kernel(
    SOFTSIGN,
    "wasm",
    load_kernel(module, SOFTSIGN, memory=16 << 20, time_limit=1.0),
)

# --- how to use it ---------------------------------------------------------------

with pg.use_backend("wasm"):
    x = pg.asarray([-3.0, 1.0, 3.0])
    print(softsign(x).tolist())  # [-0.75, 0.5, 0.75]
    slope = pg.grad(lambda x: pg.sum(softsign(x)))
    print(slope(x).tolist())  # [0.0625, 0.25, 0.0625]
    print(pg.grad(lambda x: pg.sum(slope(x)))(x).tolist())  # [0.03125, -0.25, -0.03125]

    try:
        softsign(x, scale=-1.0)
    except BackendError as error:
        print(str(error).rpartition(": ")[2])  # scale must be positive

    doubles = pg.asarray(x, dtype="float64")  # declined, so the decomposition runs
    print(softsign(doubles).tolist())  # [-0.75, 0.5, 0.75]
    pg.unregister_kernel("mylib.Softsign", "wasm")
    print(softsign(x).tolist())  # [-0.75, 0.5, 0.75]
