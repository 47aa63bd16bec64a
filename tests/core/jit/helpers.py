"""Functions that the tests of ``jit`` share."""

import itertools

import numpy as np
import plugrad as pg

RUNS = itertools.count()  # jit does not guard it


def runs():
    """Return the number of earlier calls; a jitted function counts its runs with it."""
    return next(RUNS)


def floats(*shape, scale=1.0):
    """Return a tensor of distinct numbers."""
    count = int(np.prod(shape))
    values = np.sin(np.arange(count, dtype=np.float32) + 1.0) * np.float32(scale)
    return pg.asarray(values.reshape(shape))


def look(tree):
    """Return a comparable form: structure, dtypes, backends, shapes and values."""
    leaves = [
        (x.dtype, x.backend, x.shape, repr(x.tolist()))
        if isinstance(x, pg.Tensor)
        else x
        for x in pg.tree.leaves(tree)
    ]
    return repr(pg.tree.structure(tree)), leaves


def bits(tree):
    """Return the bits of tensors, with one sign and payload for all NaNs."""
    found = []
    for y in pg.tree.leaves(tree):
        values = y.numpy()
        if values.dtype.kind == "f":
            values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        found.append((y.backend, y.dtype, y.shape, values.tobytes()))
    return found


def reason(jitted, *args, **kwargs):
    """Return why calls with these arguments are not replayed; empty if they are."""
    found = jitted.explain(*args, **kwargs)
    assert bool(found.reason) == (found.graph is None)
    return found.reason


def kernels(jitted, *args):
    """Return the names of the kernels that a call runs."""
    return [step.kernel.name for step in jitted.explain(*args).graph.steps]
