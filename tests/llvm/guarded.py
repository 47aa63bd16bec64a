"""Run regions on arrays that are followed by inaccessible memory.

``python -m tests.llvm.guarded`` prints how many regions have run. An access past the
end of an array ends the process.
"""

import ctypes
import mmap

import numpy as np
import plugrad as pg
from plugrad_llvm import worth

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


def run(f, shape, guarded):
    """Run the regions of a function on guarded inputs and outputs."""
    x = np.random.default_rng(0).standard_normal(shape)
    xs = [pg.asarray(y) for y in (x.astype("float32"), x > 0, x)]
    jitted = pg.jit(f)
    jitted(*xs)
    regions = [r for r in jitted.explain(*xs).regions if r.by.startswith(OWNER)]
    for region in regions:
        names = region.function.__globals__
        names |= dict.fromkeys([n for n in names if n.startswith("make")], guarded)
        specs = [region.graph.specs[v] for v in region.inputs]
        given = [guarded(spec.shape, spec.dtype) for spec in specs]
        assert region.function(*given) is not NotImplemented
    return len(regions)


if __name__ == "__main__":
    pg.set_backend("cpu")
    worth.MIN_WORK = 0  # also compile for small arrays
    guarded = Guarded()
    total = 0
    for n in LENGTHS:
        total += sum(run(f, (n,), guarded) for f in FLAT)
        total += sum(run(f, (2, n), guarded) for f in ROWS)
        guarded.maps.clear()
    print(total)
