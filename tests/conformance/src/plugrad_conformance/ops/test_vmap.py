"""``vmap`` of every kernel equals the kernel run on each example separately."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts

from ..misuse import right_calls

EXAMPLES = 3
RIGHT = right_calls()


def run(name, inputs):
    """Return the outputs of a kernel as a tuple."""
    found = pg.run_kernel(name, inputs, RIGHT[name].attrs)
    return found if isinstance(found, tuple) else (found,)


def examples(name):
    """Return the inputs of each example: all valid, and different if possible."""
    inputs, found = RIGHT[name].inputs, []
    for i in range(EXAMPLES):
        other = [varied(x, i) for x in inputs]
        try:
            _ = [y.numpy() for y in run(name, other)]  # a device may raise late
        except (ValueError, IndexError):  # integers that have to fit each other
            other = inputs
        found.append(other)
    return found


def varied(x, i):
    """Return a different input of the same shape: larger or rotated values."""
    if x is None or x.dtype.kind in "fc":
        return x if x is None else (x * (1 + 0.25 * i)).astype(x.dtype)
    return np.roll(x, i, axis=-1) if x.ndim else x


def choices(inputs):
    """Yield which inputs are batched: each alone, and all."""
    there = [i for i, x in enumerate(inputs) if x is not None]
    yield from ((i,) for i in there)
    if len(there) > 1:
        yield tuple(there)


def mixed(one, first, chosen):
    """Return inputs of one example where they are batched, of the first elsewhere."""
    return [x if i in chosen else first[i] for i, x in enumerate(one)]


@pytest.mark.parametrize("name", sorted(set(RIGHT) & set(contracts())))
def test_each_kernel(name, backend):
    given = examples(name)
    tried = 0
    for chosen in choices(given[0]):
        try:
            loop = [run(name, mixed(one, given[0], chosen)) for one in given]
            _ = [y.numpy() for ys in loop for y in ys]
        except (ValueError, IndexError):
            continue  # of integers that fit each other: all have to change
        tried += 1
        f = lambda *xs, chosen=chosen: run(name, filled(given[0], chosen, xs))
        batches = [np.stack([one[i] for one in given]) for i in chosen]
        if len({tuple(y.shape for y in ys) for ys in loop}) > 1:
            with pytest.raises(ValueError, match=r"vmap: .* depend on the values"):
                pg.vmap(f)(*batches)
            continue
        for y, parts in zip(pg.vmap(f)(*batches), zip(*loop, strict=True), strict=True):
            check(y, np.stack([part.numpy() for part in parts]), backend)
    assert tried or not given[0]


def filled(first, chosen, xs):
    """Return the inputs of an example inside of ``vmap``."""
    found = list(first)
    for i, x in zip(chosen, xs, strict=True):
        found[i] = x
    return found


def check(y, expected, backend):
    assert (y.shape, y.dtype, y.backend) == (expected.shape, expected.dtype, backend)
    if expected.dtype.kind in "fc":
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(y.numpy(), expected)
