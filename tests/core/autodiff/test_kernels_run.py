"""Which kernels ops and their gradients run: no copies, and no reshapes in vain."""

import numpy as np
import plugrad as pg
import pytest

X = np.ones((1, 4, 4, 2), np.float32)
FILTER = np.ones((3, 3, 2, 3), np.float32)
LOGITS = np.ones((2, 3, 4), np.float32)
BATCH = np.array([[0, 3, 1], [2, 2, 0]], np.int32)
LOSS = ["LogSoftmax", "GatherV2", "Neg", "Mean"]


def ran(f):
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
def test_which_kernels_a_gradient_runs(op, arrays, kernels):
    y, pull_back = pg.vjp(op, *map(pg.asarray, arrays))
    dy = pg.ones_like(y)
    assert ran(lambda: pull_back(dy)) == kernels.split()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_which_kernels_the_loss_of_classes_runs(rank):
    first = (0,) * (3 - rank)
    classes = pg.asarray(BATCH[first])
    logits = pg.asarray(LOGITS[first])
    loss = pg.losses.sparse_softmax_cross_entropy
    assert ran(lambda: loss(classes, logits)) == LOSS
