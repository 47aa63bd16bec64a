"""Parameters out of range are refused with a message that names the value."""

import functools
import math

import numpy as np
import plugrad as pg
import pytest

INF, NAN = math.inf, math.nan
X = np.asarray([[1, 2, 3, 4], [2, 3, 5, 7]], np.float32)
IMAGE = np.ones((4, 4, 3), np.float32)
ONES = np.ones(4, np.float32)
losses, linalg = pg.losses, pg.linalg

moving_average = functools.partial(pg.moving_average, X, X)
local_response = functools.partial(pg.local_response_normalization, IMAGE)
NOT_NEGATIVE = "must be 0 or more, and finite"
POSITIVE = "must be positive and finite"
FINITE = "must be finite"
FROM_0_TO_1 = "must be from 0 to 1"
NEGATIVE_OR_NOT_FINITE = [-1e-6, -1.0, -INF, INF, NAN]
NOT_FINITE = [INF, -INF, NAN]

# A call as a function of a value, the name of the parameter, the rule, values out of
# range, and valid values.
ROWS = [
    (
        lambda v: losses.huber_loss(X, X + 1, delta=v),
        "huber_loss: delta",
        POSITIVE,
        [*NEGATIVE_OR_NOT_FINITE, 0.0],
        [1e-3, 5, np.float32(2)],
    ),
    (
        lambda v: losses.log_loss(X * 0, X * 0 + 0.5, epsilon=v),
        "log_loss: epsilon",
        NOT_NEGATIVE,
        NEGATIVE_OR_NOT_FINITE,
        [0, 1e-3],
    ),
    (
        lambda v: pg.layer_norm(X, epsilon=v),
        "layer_norm: epsilon",
        NOT_NEGATIVE,
        NEGATIVE_OR_NOT_FINITE,
        [0, 1e-3],
    ),
    (
        lambda v: pg.group_norm(X, groups=2, epsilon=v),
        "group_norm: epsilon",
        NOT_NEGATIVE,
        NEGATIVE_OR_NOT_FINITE,
        [0, 1e-3],
    ),
    (
        lambda v: pg.batch_norm(X, ONES, ONES, epsilon=v),
        "batch_norm: epsilon",
        NOT_NEGATIVE,
        NEGATIVE_OR_NOT_FINITE,
        [0, 1e-3],
    ),
    *[
        (
            lambda v, name=name: local_response(**{name: v}),
            f"local_response_normalization: {name}",
            NOT_NEGATIVE,
            NEGATIVE_OR_NOT_FINITE,
            [0, 0.5],
        )
        for name in ("bias", "alpha", "beta")
    ],
    (
        lambda v: losses.softmax_cross_entropy(X, X, label_smoothing=v),
        "softmax_cross_entropy: label_smoothing",
        FROM_0_TO_1,
        [*NEGATIVE_OR_NOT_FINITE, 1.5],
        [0, 1, 0.1],
    ),
    (
        lambda v: losses.sigmoid_cross_entropy(X, X, label_smoothing=v),
        "sigmoid_cross_entropy: label_smoothing",
        FROM_0_TO_1,
        [*NEGATIVE_OR_NOT_FINITE, 1.5],
        [0, 1, 0.1],
    ),
    (
        lambda v: moving_average(v, zero_debias=False),
        "moving_average: decay",
        FROM_0_TO_1,
        [*NEGATIVE_OR_NOT_FINITE, 1.5],
        [0, 1, 0.9, np.float32(0.9)],
    ),
    (
        lambda v: moving_average(0.5, step=v),
        "moving_average: step",
        "must be 1 or more",
        [0, *NEGATIVE_OR_NOT_FINITE],
        [1, 2.0],
    ),
    (
        lambda v: pg.image.threshold(IMAGE, thresh_value=v),
        "image.threshold: thresh_value",
        FROM_0_TO_1,
        [*NEGATIVE_OR_NOT_FINITE, 1.5],
        [0, 1, 0.5],
    ),
    *[
        (
            lambda v, op=op, name=name: op(X, X, **{name: v}),
            f"isclose: {name}",
            NOT_NEGATIVE,
            NEGATIVE_OR_NOT_FINITE,
            [0, 0.5],
        )
        for op in (pg.isclose, pg.allclose)
        for name in ("rtol", "atol")
    ],
    *[
        (
            lambda v, op=op: op(X, rtol=v),
            f"{name}: rtol",
            NOT_NEGATIVE,
            NEGATIVE_OR_NOT_FINITE,
            [0, 0.5],
        )
        for name, op in (("pinv", linalg.pinv), ("matrix_rank", linalg.matrix_rank))
    ],
    (
        lambda v: linalg.lstsq(X, X, rtol=v),
        "lstsq: rtol",
        NOT_NEGATIVE,
        NEGATIVE_OR_NOT_FINITE,
        [0, 0.5],
    ),
    (lambda v: pg.elu(X, alpha=v), "elu: alpha", FINITE, NOT_FINITE, [-1, 0, 2]),
    *[
        (
            lambda v, name=name: pg.hard_sigmoid(X, **{name: v}),
            f"hard_sigmoid: {name}",
            FINITE,
            NOT_FINITE,
            [-1, 0, 2],
        )
        for name in ("alpha", "beta")
    ],
    *[
        (
            lambda v, op=op: op(X, correction=v),
            f"{op.__name__}: correction",
            FINITE,
            NOT_FINITE,
            [-1, 0, 2],
        )
        for op in (pg.var, pg.std)
    ],
    (
        lambda v: pg.image.resize_bicubic(IMAGE[None], (2, 2), coefficient=v),
        "image.resize_bicubic: coefficient",
        FINITE,
        NOT_FINITE,
        [-1, 0],
    ),
    *[
        (lambda v, op=op: op(4, d=v), f"{op.__name__}: d", FINITE, NOT_FINITE, [-1, 2])
        for op in (pg.fft.fftfreq, pg.fft.rfftfreq)
    ],
    (
        lambda v: pg.signal.cosine_window(4, a=v, b=v),
        "cosine_window: a",
        FINITE,
        NOT_FINITE,
        [-1, 0],
    ),
    (
        lambda v: pg.scaled_dot_product_attention(X, X, X, scale=v),
        "scaled_dot_product_attention: scale",
        FINITE,
        NOT_FINITE,
        [-1, 0, pg.asarray(2.0)],
    ),
    (
        lambda v: pg.dropout(X, v, seed=1),
        "dropout: rate",
        "must be ",
        [*NEGATIVE_OR_NOT_FINITE, 1.0],
        [0, 0.5],
    ),
]


@pytest.mark.parametrize(
    ("call", "name", "rule", "invalid", "valid"), ROWS, ids=[row[1] for row in ROWS]
)
def test_values_out_of_range_are_refused(call, name, rule, invalid, valid, backend):
    for value in invalid:
        with pytest.raises(ValueError, match=f"^{name} {rule}.*, got {float(value)}$"):
            call(value)
    for value in valid:
        call(value)


def test_a_decay_of_1_allows_no_bias_correction(backend):
    with pytest.raises(ValueError, match="decay must be below 1 with zero_debias"):
        moving_average(1.0, step=1)
    assert moving_average(1.0, zero_debias=False).tolist() == X.tolist()


@pytest.mark.parametrize("delta", [1e-3, 1.0, 5.0])
def test_the_derivative_of_huber_loss_is_continuous(delta, backend):
    error = np.asarray([-2 * delta, -delta, 0, delta, 2 * delta], np.float32)
    loss = lambda x: losses.huber_loss(x, pg.zeros(5), delta=delta, reduction="sum")
    dx = pg.grad(loss)(pg.asarray(error))
    np.testing.assert_allclose(dx.numpy(), np.clip(error, -delta, delta), rtol=1e-6)
