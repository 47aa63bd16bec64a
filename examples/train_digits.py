"""Train the network of the demo with plugrad-train: checkpoints, metrics, curves.

After Ctrl-C, or if the process is killed, continue with ``--resume``::

    python -m examples.train_digits --epochs 30 --out out/train_digits

The data and the network are those of ``digits.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg
import plugrad_train as pt

from examples import digits

BATCH = 32


def new_params(seed: int) -> dict[str, pg.Tensor]:
    """Return random weights of the network, without Variables."""
    weights = digits.new_weights(np.random.default_rng(seed))
    return {name: weight.value for name, weight in weights.items()}


def shifted(images: pg.Tensor, key: pg.Tensor) -> pg.Tensor:
    """Return the images, each shifted by up to one pixel."""
    shifts = pg.random.uniform_int((images.shape[0], 2), -1, 2, seed=key)
    to_rows = np.eye(8, dtype=np.float32)  # (1, 0, right, 0, 1, down, 0, 0)
    rows = pg.astype(shifts, pg.float32) @ to_rows[[2, 5]] + (to_rows[0] + to_rows[4])
    return pg.image.transform(images, rows)


def loss(params: Any, batch: Any, key: pg.Tensor) -> pg.Tensor:
    """Return the mean cross-entropy of images that are shifted at random."""
    images, labels = batch
    return digits.loss_of(params, shifted(images, key), labels)


def fit(data: digits.Split, epochs: int, seed: int = 0, **options: Any) -> pt.Fitted:
    """Train; ``options`` are those of ``plugrad_train.fit``."""
    batches = pt.Batches((data.images, data.labels), BATCH, shuffle=seed)
    test = pt.Batches((data.test_images, data.test_labels), 200, last="pad")

    def metrics(params: Any, batch: Any) -> dict[str, pg.Tensor]:
        (images, labels), mask = batch
        logits = digits.classify(params, images)
        return {"accuracy": pt.metrics.accuracy(labels, logits, weights=mask)}

    return pt.fit(
        loss,
        new_params(seed),
        pt.adam(pt.schedules.linear(3e-3, 0.0, epochs * len(batches))),
        pt.Prefetch(batches),
        epochs=epochs,
        key=pg.random.key(seed),
        validate=lambda params: pt.metrics.evaluate(metrics, params, test),
        **options,
    )


def main(arguments: list[str] | None = None) -> float:
    """Read the options and train; return the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--backend", choices=pg.backends())
    parser.add_argument("--out", type=Path, default=Path("out/train_digits"))
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args(arguments)
    with pg.use_backend(given.backend or pg.get_backend()):
        fitted = fit(
            digits.load(given.seed),
            given.epochs,
            given.seed,
            checkpoints=pt.Checkpoints(given.out, best="accuracy", mode="max"),
            resume=given.resume,
            log=given.out / "log.jsonl",
            curves=given.out / "curves.png",
            progress=True,
        )
    accuracy = fitted.history[-1]["accuracy"]
    print(f"test accuracy {accuracy:.2%}; checkpoints, log and curves: {given.out}")
    return accuracy


if __name__ == "__main__":
    main()
