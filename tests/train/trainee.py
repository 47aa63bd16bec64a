"""A short training that tests kill: ``python -m tests.train.trainee FOLDER STEPS``."""

import sys

import numpy as np
import plugrad as pg
import plugrad_train as pt


def loss(params, batch, key):
    """Return a loss with dropout, which uses the step's random key."""
    x, y = batch
    hidden = pg.dropout(pg.tanh(x @ params["w"] + params["b"]), 0.25, seed=key)
    return pg.mean(pg.square(hidden @ params["v"] - y))


def train(folder, steps, *, save_every=1, **options):
    """Train until step ``steps``; with a folder, resume from its newest checkpoint."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4)).astype(np.float32)
    batches = pt.Batches((x, x[:, :2] ** 2), 8, shuffle=3)
    params = {
        "w": pt.initializers.glorot_normal((4, 6), seed=1),
        "b": pg.zeros(6),
        "v": pt.initializers.he_normal((6, 2), seed=2),
    }
    optimizer = pt.average_params(pt.adamw(pt.schedules.cosine(0.05, 2000)), 0.9)
    return pt.fit(
        loss,
        params,
        optimizer,
        batches,
        steps=steps,
        key=pg.random.key(5),
        checkpoints=None if folder is None else pt.Checkpoints(folder),
        save_every=save_every,
        resume=folder is not None,
        **options,
    )


if __name__ == "__main__":
    print("ready", flush=True)
    train(sys.argv[1], int(sys.argv[2]))
