"""Optimizers take the same 200 steps as PyTorch's and optax's, also under jit."""

import json
from pathlib import Path

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest

from tests.train.trajectories import RECORDED, ROWS, STEPS, pull, slopes, start

REFERENCE = json.loads(Path(__file__).with_name("reference.json").read_text())
CASES = [(library, row) for library in ("torch", "optax") for row in REFERENCE[library]]


def trajectory(row, *, jit):
    """Return the parameters after the recorded steps, and an ``explain`` function."""
    name, options, _ = ROWS[row]
    optimizer = getattr(pt, name)(**options)

    def step(params, state, slope):
        grads = pg.tree.map(lambda g, p: g + pull(row) * p, slope, params)
        return optimizer.update(grads, state, params)

    replayed = pg.jit(step, strict=True) if jit else step
    found = []
    tensors = lambda tree: pg.tree.map(lambda x: pg.asarray(x, dtype=pg.float32), tree)
    params = tensors(start())
    state = optimizer.init(params)
    for number in range(STEPS):
        slope = tensors(slopes(number))
        params, state = replayed(params, state, slope)
        if number + 1 in RECORDED:
            found.append(pg.tree.map(lambda x: x.numpy(), params))
    return found, lambda: replayed.explain(params, state, slope)


@pytest.mark.parametrize(("library", "row"), CASES)
def test_200_steps_are_those_of_pytorch_and_optax(library, row, backend):
    found, explain = trajectory(row, jit=True)
    for ours, theirs in zip(found, REFERENCE[library][row], strict=True):
        for name in ("w", "b"):
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-5)
    assert explain().retraces == []  # neither the step nor the rate is a constant


@pytest.mark.parametrize("row", ["adam", "lion", "nesterov"])
def test_jit_changes_no_bit(row, backend):
    eager, replayed = (trajectory(row, jit=jit)[0] for jit in (False, True))
    for a, b in zip(eager, replayed, strict=True):
        for name in ("w", "b"):
            np.testing.assert_array_equal(a[name], b[name])
