"""Run regions on arrays that are followed by inaccessible memory.

``python -m tests.llvm.guarded`` prints how many regions have run. An access past the
end of an array ends the process.
"""

import ctypes
import functools
import mmap

import numpy as np
import plugrad as pg
from plugrad_llvm import regions, worth

from .helpers import OWNER

PAGE = mmap.PAGESIZE
LENGTHS = [*range(1, 70), 127, 255, 256, 257, 511, 512, 513, 600, 1100]
FLAT = [
    lambda x, m, d: pg.where(m, pg.tanh(x) * x, x),
    lambda x, m, d: pg.astype(d * d + 1.0, "float32") * x,
    lambda x, m, d: (pg.exp(-x) > 0.5, pg.sin(x)),
]
ROWS = [
    lambda x, m, d: pg.softmax(x * 2.0) + pg.log_softmax(x),
    lambda x, m, d: pg.layer_norm(x + x),
    pg.grad(lambda x, m, d: pg.sum(pg.softmax(x) * pg.tanh(x))),
]


class Guarded:
    """Makes arrays that end where an inaccessible page begins."""

    def __init__(self):
        self.maps = []
        self.protect = ctypes.CDLL(None).mprotect

    def __call__(self, shape, dtype, value=1):
        """Return an array filled with ``value``."""
        count = int(np.prod(shape))
        size = count * np.dtype(dtype).itemsize
        mapped = -(-size // PAGE) * PAGE
        memory = mmap.mmap(-1, mapped + PAGE)
        self.maps.append(memory)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert not self.protect(ctypes.c_void_p(begin + mapped), PAGE, 0)
        y = np.frombuffer(memory, dtype, count, mapped - size).reshape(shape)
        y[...] = value
        return y


CODE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def machine_code(guarded, address, share, inputs, constants, outputs, owner):
    """Return a function that runs machine code on guarded inputs and outputs."""
    given = [guarded(spec.shape, spec.dtype) for spec in inputs]
    made = [guarded(spec.shape, spec.dtype) for spec in outputs]
    arrays = [*given, *constants, *made]
    addresses = (ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays])

    def region(*xs):
        for x, y in zip(xs, given, strict=True):
            y[...] = x
        CODE(address)(addresses, 0, share.items)
        assert owner is not None
        return tuple(made) if len(made) > 1 else made[0]

    return region


def run(f, shape):
    """Run a function whose regions are on guarded memory; return their number."""
    x = np.random.default_rng(0).standard_normal(shape)
    xs = [pg.asarray(y) for y in (x.astype("float32"), x > 0, x)]
    jitted = pg.jit(f)
    for _ in range(3):
        jitted(*xs)
    return sum(r.by.startswith(OWNER) for r in jitted.explain(*xs).regions)


if __name__ == "__main__":
    pg.set_backend("cpu")
    worth.MIN_WORK = 0  # also compile for small arrays
    guarded = Guarded()
    regions.machine_code = functools.partial(machine_code, guarded)
    total = 0
    for n in LENGTHS:
        total += sum(run(f, (n,)) for f in FLAT)
        total += sum(run(f, (2, n)) for f in ROWS)
        guarded.maps.clear()
    print(total)
