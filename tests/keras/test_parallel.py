"""Ranks of plugrad-mpi train a model of Keras to the weights of one process."""

import json

import numpy as np

from tests.mpi.launch import launch, needs_mpi


def weights(ranks):
    """Return the weights after training on a number of ranks."""
    done = launch(ranks, "-m", "tests.keras.parallel", KERAS_BACKEND="plugrad")
    assert done.returncode == 0, done.stderr
    return [np.asarray(w) for w in json.loads(done.stdout)]


@needs_mpi
def test_ranks_train_to_the_weights_of_one_process():
    for one, two in zip(weights(1), weights(2), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-5)
