"""Helpers for the plugrad-llvm tests."""

import numpy as np
import plugrad as pg

OWNER = "plugrad-llvm"
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 1e-38]
SPECIAL += [0.5, -0.5, 1.5, -2.5, 3.4e38, -3.4e38, 87.0, 88.5, 89.0, -87.5, -103.5]
SPECIAL += [-120.0, 10.0, -10.5, 1e-8, 0.9, 4.1, 6.0, 6.5, 7999.0, -9000.0, 1e30]


def values(count, seed=0, dtype="float32"):
    """Return special numbers and random ones of several sizes."""
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.integers(-3, 3, count)
    x = rng.standard_normal(count) * scales
    x[: len(SPECIAL)] = rng.permutation(SPECIAL)[:count]
    return rng.permutation(x).astype(dtype)


def bits(tree):
    """Return the bits of all values, with the same bits for all NaNs."""
    found = []
    for x in pg.tree.leaves(tree):
        y = x.numpy()
        nan = np.isnan(y) if y.dtype.kind == "f" else np.zeros(y.shape, bool)
        plain = np.where(nan, np.zeros_like(y), y)
        found.append((x.dtype, x.shape, nan.tobytes(), plain.tobytes()))
    return found


def compiled_regions(jitted, *args):
    """Return the kernels of each region that the pack has compiled."""
    return [
        [step.kernel.name for step in region.steps]
        for region in jitted.explain(*args).regions
        if region.by.startswith(OWNER)
    ]


def check(f, *calls):
    """Compare ``f`` with ``jit(f)``; return the kernels of each compiled region."""
    jitted = pg.jit(f)
    for xs in (calls[0], calls[0], calls[0], *calls):
        xs = [pg.asarray(x) for x in xs]
        assert bits(jitted(*xs)) == bits(f(*xs))
    return compiled_regions(jitted, *map(pg.asarray, calls[0]))
