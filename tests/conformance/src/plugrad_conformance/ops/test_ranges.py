"""Parameters out of range are refused, in one sentence that names the value."""

import functools
import math

import numpy as np
import plugrad as pg
import pytest

INF, NAN = math.inf, math.nan
X = np.asarray([[1, 2, 3, 4], [2, 3, 5, 7]], np.float32)
IMAGE = np.ones((4, 4, 3), np.float32)
FOUR = np.ones(4, np.float32)
losses, linalg = pg.losses, pg.linalg

average = functools.partial(pg.moving_average, X, X)
response = functools.partial(pg.local_response_normalization, IMAGE)
NOT_NEGATIVE = "must be 0 or more, and finite"
POSITIVE = "must be positive and finite"
FINITE = "must be finite"
SHARE = "must be from 0 to 1"
BELOW = [-1e-6, -1.0, -INF, INF, NAN]
ENDLESS = [INF, -INF, NAN]

# The function of a value, its name, the rule, values out of range and some within.
ROWS = [
    (
        lambda v: losses.huber_loss(X, X + 1, delta=v),
        "huber_loss: delta",
        POSITIVE,
        [*BELOW, 0.0],
        [1e-3, 5, np.float32(2)],
    ),
    (
        lambda v: losses.log_loss(X * 0, X * 0 + 0.5, epsilon=v),
        "log_loss: epsilon",
        NOT_NEGATIVE,
        BELOW,
        [0, 1e-3],
    ),
    (
        lambda v: pg.layer_norm(X, epsilon=v),
        "layer_norm: epsilon",
        NOT_NEGATIVE,
        BELOW,
        [0, 1e-3],
    ),
    (
        lambda v: pg.group_norm(X, groups=2, epsilon=v),
        "group_norm: epsilon",
        NOT_NEGATIVE,
        BELOW,
        [0, 1e-3],
    ),
    (
        lambda v: pg.batch_norm(X, FOUR, FOUR, epsilon=v),
        "batch_norm: epsilon",
        NOT_NEGATIVE,
        BELOW,
        [0, 1e-3],
    ),
    *[
        (
            lambda v, name=name: response(**{name: v}),
            f"local_response_normalization: {name}",
            NOT_NEGATIVE,
            BELOW,
            [0, 0.5],
        )
        for name in ("bias", "alpha", "beta")
    ],
    (
        lambda v: losses.softmax_cross_entropy(X, X, label_smoothing=v),
        "softmax_cross_entropy: label_smoothing",
        SHARE,
        [*BELOW, 1.5],
        [0, 1, 0.1],
    ),
    (
        lambda v: losses.sigmoid_cross_entropy(X, X, label_smoothing=v),
        "sigmoid_cross_entropy: label_smoothing",
        SHARE,
        [*BELOW, 1.5],
        [0, 1, 0.1],
    ),
    (
        lambda v: average(v, zero_debias=False),
        "moving_average: decay",
        SHARE,
        [*BELOW, 1.5],
        [0, 1, 0.9, np.float32(0.9)],
    ),
    (
        lambda v: average(0.5, step=v),
        "moving_average: step",
        "must be 1 or more",
        [0, *BELOW],
        [1, 2.0],
    ),
    (
        lambda v: pg.image.threshold(IMAGE, thresh_value=v),
        "image.threshold: thresh_value",
        SHARE,
        [*BELOW, 1.5],
        [0, 1, 0.5],
    ),
    *[
        (
            lambda v, op=op, name=name: op(X, X, **{name: v}),
            f"isclose: {name}",
            NOT_NEGATIVE,
            BELOW,
            [0, 0.5],
        )
        for op in (pg.isclose, pg.allclose)
        for name in ("rtol", "atol")
    ],
    *[
        (lambda v, op=op: op(X, rtol=v), f"{name}: rtol", NOT_NEGATIVE, BELOW, [0, 0.5])
        for name, op in (("pinv", linalg.pinv), ("matrix_rank", linalg.matrix_rank))
    ],
    (
        lambda v: linalg.lstsq(X, X, rtol=v),
        "lstsq: rtol",
        NOT_NEGATIVE,
        BELOW,
        [0, 0.5],
    ),
    (lambda v: pg.elu(X, alpha=v), "elu: alpha", FINITE, ENDLESS, [-1, 0, 2]),
    *[
        (
            lambda v, name=name: pg.hard_sigmoid(X, **{name: v}),
            f"hard_sigmoid: {name}",
            FINITE,
            ENDLESS,
            [-1, 0, 2],
        )
        for name in ("alpha", "beta")
    ],
    *[
        (
            lambda v, op=op: op(X, correction=v),
            f"{op.__name__}: correction",
            FINITE,
            ENDLESS,
            [-1, 0, 2],
        )
        for op in (pg.var, pg.std)
    ],
    (
        lambda v: pg.image.resize_bicubic(IMAGE[None], (2, 2), coefficient=v),
        "image.resize_bicubic: coefficient",
        FINITE,
        ENDLESS,
        [-1, 0],
    ),
    *[
        (lambda v, op=op: op(4, d=v), f"{op.__name__}: d", FINITE, ENDLESS, [-1, 2])
        for op in (pg.fft.fftfreq, pg.fft.rfftfreq)
    ],
    (
        lambda v: pg.signal.cosine_window(4, a=v, b=v),
        "cosine_window: a",
        FINITE,
        ENDLESS,
        [-1, 0],
    ),
    (
        lambda v: pg.scaled_dot_product_attention(X, X, X, scale=v),
        "scaled_dot_product_attention: scale",
        FINITE,
        ENDLESS,
        [-1, 0, pg.asarray(2.0)],
    ),
    (
        lambda v: pg.dropout(X, v, seed=1),
        "dropout: rate",
        "must be ",
        [*BELOW, 1.0],
        [0, 0.5],
    ),
]


@pytest.mark.parametrize(
    ("call", "name", "rule", "out", "within"), ROWS, ids=[row[1] for row in ROWS]
)
def test_values_out_of_range_are_refused(call, name, rule, out, within, backend):
    for value in out:
        with pytest.raises(ValueError, match=f"^{name} {rule}.*, got {float(value)}$"):
            call(value)
    for value in within:
        call(value)


def test_a_decay_of_1_has_no_bias_to_correct(backend):
    with pytest.raises(ValueError, match="decay must be below 1 with zero_debias"):
        average(1.0, step=1)
    assert average(1.0, zero_debias=False).tolist() == X.tolist()


@pytest.mark.parametrize("delta", [1e-3, 1.0, 5.0])
def test_huber_loss_and_its_derivative_meet(delta, backend):
    error = np.asarray([-2 * delta, -delta, 0, delta, 2 * delta], np.float32)
    loss = lambda x: losses.huber_loss(x, pg.zeros(5), delta=delta, reduction="sum")
    dx = pg.grad(loss)(pg.asarray(error))
    np.testing.assert_allclose(dx.numpy(), np.clip(error, -delta, delta), rtol=1e-6)
