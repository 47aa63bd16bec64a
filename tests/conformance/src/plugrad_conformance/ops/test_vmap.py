"""``vmap`` of every kernel equals the kernel run on each example separately."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts

from ..misuse import right_calls

EXAMPLES = 3
VALID_CALLS = right_calls()


def run(name, inputs):
    """Return the outputs of a kernel as a tuple."""
    found = pg.run_kernel(name, inputs, VALID_CALLS[name].attrs)
    return found if isinstance(found, tuple) else (found,)


def examples(name):
    """Return inputs of several examples: all valid, and different if possible."""
    inputs, found = VALID_CALLS[name].inputs, []
    for i in range(EXAMPLES):
        varied_inputs = [vary(x, i) for x in inputs]
        try:
            _ = [y.numpy() for y in run(name, varied_inputs)]  # a device may raise late
        except (ValueError, IndexError):  # the varied integers do not match
            varied_inputs = inputs
        found.append(varied_inputs)
    return found


def vary(x, i):
    """Return a different input of the same shape, with larger or rotated values."""
    if x is None or x.dtype.kind in "fc":
        return x if x is None else (x * (1 + 0.25 * i)).astype(x.dtype)
    return np.roll(x, i, axis=-1) if x.ndim else x


def batched_choices(inputs):
    """Yield the indices of the inputs to batch: each alone, then all together."""
    present = [i for i, x in enumerate(inputs) if x is not None]
    yield from ((i,) for i in present)
    if len(present) > 1:
        yield tuple(present)


def mix_inputs(example, first, batched):
    """Return the batched inputs of an example, and the other inputs of the first."""
    return [x if i in batched else first[i] for i, x in enumerate(example)]


@pytest.mark.parametrize("name", sorted(set(VALID_CALLS) & set(contracts())))
def test_each_kernel(name, backend):
    given = examples(name)
    compared = 0
    for batched in batched_choices(given[0]):
        try:
            loop = [
                run(name, mix_inputs(example, given[0], batched)) for example in given
            ]
            _ = [y.numpy() for ys in loop for y in ys]
        except (ValueError, IndexError):
            continue  # integers that depend on each other change only together
        compared += 1
        f = lambda *xs, batched=batched: run(
            name, replace_batched(given[0], batched, xs)
        )
        batches = [np.stack([example[i] for example in given]) for i in batched]
        if len({tuple(y.shape for y in ys) for ys in loop}) > 1:
            with pytest.raises(ValueError, match=r"vmap: .* depend on the values"):
                pg.vmap(f)(*batches)
            continue
        for y, parts in zip(pg.vmap(f)(*batches), zip(*loop, strict=True), strict=True):
            check(y, np.stack([part.numpy() for part in parts]), backend)
    assert compared or not given[0]


def replace_batched(first, batched, xs):
    """Return the inputs of the first example, with ``xs`` as the batched inputs."""
    found = list(first)
    for i, x in zip(batched, xs, strict=True):
        found[i] = x
    return found


def check(y, expected, backend):
    assert (y.shape, y.dtype, y.backend) == (expected.shape, expected.dtype, backend)
    if expected.dtype.kind in "fc":
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(y.numpy(), expected)
