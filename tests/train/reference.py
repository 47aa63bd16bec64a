"""Write ``reference.json``: the results of PyTorch and optax in float64.

Run ``python -m tests.train.reference`` in an environment with torch, jax and optax.
"""

import json
from pathlib import Path

import jax
import optax
import torch

from tests.train.trajectories import RECORDED, ROWS, STEPS, pull, slopes, start

jax.config.update("jax_enable_x64", True)


def run_torch(row):
    name, options = ROWS[row][2]
    params = {n: torch.tensor(x, requires_grad=True) for n, x in start().items()}
    optimizer = getattr(torch.optim, name)(params.values(), **options)
    for step in range(STEPS):
        for n, slope in slopes(step).items():
            p = params[n]
            p.grad = torch.tensor(slope) + pull(row) * p.detach()
        optimizer.step()
        if step + 1 in RECORDED:
            yield {n: p.detach().tolist() for n, p in params.items()}


def run_optax(row):
    name, options, _ = ROWS[row]
    optimizer = getattr(optax, name)(**options)
    params = {n: jax.numpy.asarray(x) for n, x in start().items()}
    state = optimizer.init(params)
    for step in range(STEPS):
        found = slopes(step)
        grads = {n: found[n] + pull(row) * p for n, p in params.items()}
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        if step + 1 in RECORDED:
            yield {n: p.tolist() for n, p in params.items()}


def main():
    found = {"versions": {"torch": torch.__version__, "optax": optax.__version__}}
    found["optax"] = {row: [*run_optax(row)] for row in ROWS}
    found["torch"] = {row: [*run_torch(row)] for row in ROWS if ROWS[row][2]}
    path = Path(__file__).with_name("reference.json")
    path.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
