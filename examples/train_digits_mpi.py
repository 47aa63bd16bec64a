"""Train the network of the demo on several processes, with plugrad-mpi.

Each process, called a rank, gets a part of each batch. For any number of ranks, the
batches and the shifts are those of a single process, and so are the gradients, except
for rounding::

    mpiexec -n 4 python -m examples.train_digits_mpi --out out/train_digits_mpi

If a rank is killed, all ranks end. Continue with ``--resume``, even with a different
number of ranks. Without ``mpiexec``, there is one rank. ``--zero`` divides the state of
the optimizer among the ranks.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg
import plugrad_mpi as mpi
import plugrad_train as pt

from examples import digits, train_digits

BATCH = 32


class Training:
    """The parameters, the optimizer and the training step."""

    def __init__(self, data: digits.Split, epochs: int, seed: int, zero: bool) -> None:
        self.data, self.key = data, pg.random.key(seed)
        self.batches = pt.Batches((data.images, data.labels), BATCH, shuffle=seed)
        adam = pt.adam(pt.schedules.linear(3e-3, 0.0, epochs * len(self.batches)))
        self.optimizer: Any = mpi.sharded(adam) if zero else adam
        params = train_digits.new_params(seed)
        self.params = mpi.broadcast_parameters(params)
        self.state = self.optimizer.init(self.params)
        gradients = pg.value_and_grad(digits.loss_of)
        if not zero:  # with zero, the optimizer averages them
            gradients = mpi.data_parallel(gradients)
        update = self.optimizer.update

        @pg.jit
        def step(params: Any, state: Any, images: Any, labels: Any, key: Any) -> Any:
            augmented = train_digits.shifted(images, key)
            images, labels = mpi.shard((augmented, labels))
            loss, grads = gradients(params, images, labels)
            params, state = update(grads, state, params)
            return params, state, loss

        self.step = step

    def epoch(self) -> float:
        """Train for an epoch; return the last loss."""
        for images, labels in self.batches:
            self.key, key = pg.random.split(self.key)
            self.params, self.state, loss = self.step(
                self.params, self.state, pg.asarray(images), pg.asarray(labels), key
            )
        return float(mpi.average(loss).item())

    def save(self, checkpoints: mpi.Checkpoints) -> None:
        """Save after an epoch; with zero, gather the state from all ranks."""
        state = self.state
        if isinstance(self.optimizer, mpi.Sharded):
            state = self.optimizer.gather(state, self.params)
        tree = {"params": self.params, "state": state, "key": self.key}
        rest = {"batches": self.batches.state}
        checkpoints.save(self.batches.state["epoch"], tree, rest)

    def restore(self, checkpoints: mpi.Checkpoints) -> None:
        """Continue after the newest checkpoint, if there is one."""
        if not checkpoints.steps():
            return
        state = self.state
        if isinstance(self.optimizer, mpi.Sharded):
            state = self.optimizer.gather(state, self.params)
        tree = {"params": self.params, "state": state, "key": self.key}
        found = checkpoints.restore(tree)
        self.params, self.key = found.tree["params"], found.tree["key"]
        self.state, self.batches.state = found.tree["state"], found.rest["batches"]
        if isinstance(self.optimizer, mpi.Sharded):
            self.state = self.optimizer.scatter(self.state, self.params)


def train(
    data: digits.Split,
    epochs: int,
    out: Path,
    *,
    seed: int = 0,
    resume: bool = False,
    zero: bool = False,
) -> dict[str, pg.Tensor]:
    """Train, with a checkpoint after each epoch; return the parameters."""
    checkpoints = mpi.Checkpoints(pt.Checkpoints(out))
    training = Training(data, epochs, seed, zero)
    if resume:
        training.restore(checkpoints)
    while training.batches.state["epoch"] < epochs:
        loss = training.epoch()
        training.save(checkpoints)
        score = digits.accuracy(training.params, data.test_images, data.test_labels)
        epoch = training.batches.state["epoch"]
        mpi.log(f"epoch {epoch} of {epochs}: loss {loss:.3f}, accuracy {score:.2%}")
    return training.params


def main(arguments: list[str] | None = None) -> float:
    """Read the options and train; return the accuracy."""
    parser = argparse.ArgumentParser(description="Learn to read digits, on all ranks.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--backend", choices=pg.backends())
    parser.add_argument("--out", type=Path, default=Path("out/train_digits_mpi"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--zero", action="store_true")
    options = vars(parser.parse_args(arguments))
    data = digits.load(options["seed"])
    out = options.pop("out")
    with pg.use_backend(options.pop("backend") or pg.get_backend()):
        mpi.log(f"{mpi.size()} ranks, on backend {pg.get_backend()!r}")
        params = train(data, options.pop("epochs"), out, **options)
        score = digits.accuracy(params, data.test_images, data.test_labels)
    weights = {name: x.numpy() for name, x in params.items()}
    if mpi.rank() == 0:
        np.savez(out / "weights.npz", **weights)
    return score


if __name__ == "__main__":
    main()
