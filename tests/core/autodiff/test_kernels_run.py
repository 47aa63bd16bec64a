"""Which kernels ops and their gradients run, without copies or needless reshapes."""

import numpy as np
import plugrad as pg
import pytest

X = np.ones((1, 4, 4, 2), np.float32)
FILTER = np.ones((3, 3, 2, 3), np.float32)
LOGITS = np.ones((2, 3, 4), np.float32)
BATCH = np.array([[0, 3, 1], [2, 2, 0]], np.int32)
LOSS_KERNELS = ["LogSoftmax", "GatherV2", "Neg", "Mean"]


def kernels_run_by(f):
    with pg.profile() as profile:
        f()
    return [record.kernel for record in profile.records]


@pytest.mark.parametrize(
    ("op", "arrays", "kernels"),
    [
        (pg.conv2d, [X, FILTER], "Conv2DBackpropInput Conv2DBackpropFilter"),
        (
            lambda x: pg.gather(x, BATCH[0], axis=1),
            [LOGITS[0]],
            "Transpose UnsortedSegmentSum Transpose",
        ),
        (
            lambda x: pg.gather(x, BATCH, axis=2, batch_dims=2),
            [LOGITS],
            "Range Reshape Add Reshape UnsortedSegmentSum Reshape",
        ),
        (
            lambda x: pg.gather(x, BATCH[:, 0], axis=1, batch_dims=1),
            [LOGITS[0, :2]],
            "Range Add UnsortedSegmentSum Reshape",
        ),
        (
            lambda x: pg.gather(x, BATCH, axis=1, batch_dims=1),
            [LOGITS[0, :2]],
            "Range Reshape Add Reshape Reshape UnsortedSegmentSum Reshape",
        ),
    ],
)
def test_kernels_that_a_gradient_runs(op, arrays, kernels):
    y, pull_back = pg.vjp(op, *map(pg.asarray, arrays))
    dy = pg.ones_like(y)
    assert kernels_run_by(lambda: pull_back(dy)) == kernels.split()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_kernels_that_the_sparse_cross_entropy_runs(rank):
    first = (0,) * (3 - rank)
    classes = pg.asarray(BATCH[first])
    logits = pg.asarray(LOGITS[first])
    loss = pg.losses.sparse_softmax_cross_entropy
    assert kernels_run_by(lambda: loss(classes, logits)) == LOSS_KERNELS
