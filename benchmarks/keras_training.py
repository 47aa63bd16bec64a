"""Compare the steps of training of Keras on plugrad with those of Keras on JAX.

Each backend trains in a process of its own, several times in turn, on one core. The
table shows steps per second in the best epoch, and plugrad's divided by the peer's. The
batches have 64 images of 28 x 28 pixels. With ``mobilenet``, a step is a prediction of
MobileNetV2 for 4 images of 224 x 224 pixels::

    python -m benchmarks.keras_training [--models mlp lstm] [--rounds 3]
    python -m benchmarks.keras_training --models mobilenet --peer torch

In addition to keras-plugrad, it needs ``pip install jax``, or the other peer.
"""

import argparse
import json
import os
import subprocess
import sys
import time

BATCH = 64
STEPS = 16  # per epoch
IMAGES = 4  # of MobileNetV2, in a batch
BATCHES = 4  # of such images, in a prediction
EPOCHS = 6  # of which the first compiles
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


def layers_of(name):
    """Return the layers of a model."""
    from keras import layers

    if name == "mlp":
        return [layers.Flatten(), layers.Dense(128, "relu"), layers.Dense(10)]
    if name == "cnn":
        convolutions = [
            layers.Reshape((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
        ]
        return [*convolutions, layers.Flatten(), layers.Dense(10)]
    return [layers.LSTM(32), layers.Dense(10)]


def transformer():
    """Return a model of two blocks of attention."""
    import keras
    from keras import layers

    inputs = keras.Input((28, 28))
    x = layers.Dense(64)(inputs)
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, 16)(y, y)
        y = layers.LayerNormalization()(x)
        x = x + layers.Dense(64)(layers.Dense(256, "gelu")(y))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


def predictions_per_second():
    """Return the batches per second of the best prediction of MobileNetV2."""
    import keras
    import numpy as np

    model = keras.applications.MobileNetV2(weights=None)
    images = np.random.default_rng(0).uniform(size=(IMAGES * BATCHES, 224, 224, 3))
    best = 0.0
    for repeat in range(EPOCHS):
        start = time.perf_counter()
        model.predict(images.astype(np.float32), batch_size=IMAGES, verbose=0)
        if repeat:
            best = max(best, BATCHES / (time.perf_counter() - start))
    return best


def steps_per_second(name):
    """Return the steps per second of the best epoch."""
    import keras
    import numpy as np

    if name == "mobilenet":
        return predictions_per_second()
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, 28, 28)).astype(np.float32)
    y = random.integers(0, 10, BATCH * STEPS)
    if name == "transformer":
        model = transformer()
    else:
        model = keras.Sequential([keras.Input((28, 28)), *layers_of(name)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    best = 0.0
    for epoch in range(EPOCHS):
        start = time.perf_counter()
        model.fit(x, y, batch_size=BATCH, verbose=0)
        if epoch:
            best = max(best, STEPS / (time.perf_counter() - start))
    return best


MODELS = ("mlp", "cnn", "transformer", "lstm")


def measured(backend, names):
    """Return the steps per second of models on a backend, from a new process."""
    command = [sys.executable, "-m", "benchmarks.keras_training", "--run", *names]
    if hasattr(os, "sched_getaffinity"):
        core = min(os.sched_getaffinity(0))
        command = ["taskset", "-c", str(core), *command]
    environment = os.environ | ONE_THREAD | {"KERAS_BACKEND": backend}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Print the table, or measure in this process with ``--run``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--peer", default="jax", help="another backend of Keras")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps({name: steps_per_second(name) for name in options.run}))
        return
    best = {"plugrad": {}, options.peer: {}}
    for _ in range(options.rounds):
        for backend, found in best.items():
            for name, value in measured(backend, options.models).items():
                found[name] = max(found.get(name, 0.0), value)
    print(f"model        plugrad{options.peer:>8}   ratio")
    for name in options.models:
        ours, theirs = best["plugrad"][name], best[options.peer][name]
        print(f"{name:12}{ours:8.1f}{theirs:8.1f}{ours / theirs:8.2f}")


if __name__ == "__main__":
    main()
