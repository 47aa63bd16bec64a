"""Train a model with plugrad-mpi, on the ranks that ``mpiexec`` starts.

Prints the weights as JSON, on rank 0.
"""

import json

import keras
import numpy as np
import plugrad_mpi as mpi

ROWS, BATCH, EPOCHS = 64, 16, 3


class Parallel(keras.Model):
    """A model whose gradients are averaged over all ranks."""

    def value_and_grad(self, f, **options):
        """Return the mean over all ranks of loss and gradients."""
        return mpi.data_parallel(super().value_and_grad(f, **options))


def main():
    """Train, and print the weights."""
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, 4)).astype(np.float32)
    y = (x[:, :1] * x[:, 1:2]).astype(np.float32)
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(8, activation="tanh")(inputs)
    model = Parallel(inputs, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    batches = np.split(np.arange(ROWS), ROWS // BATCH) * EPOCHS
    for rows in batches:
        model.train_on_batch(*mpi.shard((x[rows], y[rows])))
    if mpi.rank() == 0:
        print(json.dumps([w.tolist() for w in model.get_weights()]))


if __name__ == "__main__":
    main()
