"""Regions with softmax, layer norm and gradients give the same bits as eager mode."""

import numpy as np
import plugrad as pg
import pytest

from .helpers import check, values

LENGTHS = [*range(1, 36), 63, 64, 65, 127, 255, 256, 257, 300, 511, 512, 513, 640]
LENGTHS += [768, 1000, 1023, 1100]


def rows(*shape, seed=0):
    """Return rows without NaN and infinities."""
    x = np.random.default_rng(seed).standard_normal(shape)
    return (3.0 * x).astype("float32")


def normalized(x, scale, offset):
    return pg.layer_norm(x * 0.5, scale, offset) + x


def several(x):
    y = pg.softmax(x * 2.0)
    return pg.log_softmax(y + x) * y, y


def read_output(x):
    y = x * x
    return pg.softmax(x) + y, y


def scaled(x, y):
    return -pg.softmax(x * y, axis=-1)


# name: (function, shapes of inputs after (3, n), kernels in the largest region)
PROGRAMS = {
    "softmax": (lambda x: -pg.softmax(x + 1.0), [], 3),
    "log softmax": (lambda x: pg.exp(pg.log_softmax(-x)), [], 3),
    "layer norm": (normalized, [("n",), ("n",)], 3),
    "layer norm alone": (lambda x: pg.layer_norm(x * 0.5) + x, [], 3),
    "several": (several, [], 5),
    "an output that is read": (read_output, [], 3),
    "gradient of softmax": (
        pg.grad(lambda x, w: pg.sum(pg.softmax(x) * w)),
        [(3, "n")],
        3,
    ),
    "gradient of log softmax": (
        pg.grad(lambda x, w: pg.sum(pg.log_softmax(x) * w)),
        [(3, "n")],
        3,
    ),
    "outer axes broadcast": (scaled, [(2, 1, "n")], 3),
    "a column": (scaled, [(3, 1)], 3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows(name):
    f, shapes, count = PROGRAMS[name]
    for n in LENGTHS if len(shapes) < 2 else LENGTHS[::3]:
        given = [[n if size == "n" else size for size in shape] for shape in shapes]
        calls = [
            [rows(*shape, seed=seed + k) for k, shape in enumerate([(3, n), *given])]
            for seed in (1, 5)
        ]
        assert max(map(len, check(f, *calls))) == count, n


@pytest.mark.parametrize("name", ["softmax", "log softmax", "layer norm alone"])
def test_special_numbers(name):
    f, _, _ = PROGRAMS[name]
    for n in (3, 16, 40, 300):
        x = np.stack([values(n, seed) for seed in range(40)])
        x[20:] = np.where(np.isnan(x[20:]), np.float32(2.0), x[20:])
        x[30:] = np.where(np.isinf(x[30:]), np.float32(-3.0), x[30:])
        assert check(f, [x], [-x])


def test_other_axes_and_dtypes_are_left_to_kernels():
    for f, x in (
        (lambda x: -pg.softmax(x + 1.0, axis=0), rows(3, 4)),
        (lambda x: -pg.softmax(x + 1.0), rows(3, 4).astype("float64")),
        (lambda x: pg.layer_norm(x + 1.0, axis=(0, 1)), rows(3, 4)),
    ):
        compiled = {name for part in check(f, [x]) for name in part}
        assert not compiled & {"Softmax", "LayerNorm"}


def test_buffers_fit_on_the_stack_of_a_thread():
    """Long rows and regions with many buffers are left to kernels."""
    f = lambda x: pg.exp(pg.softmax(pg.tanh(x) * 2.0))
    assert check(f, [rows(2, 1 << 14)]) == [["Tanh", "Multiply", "Softmax", "Exp"]]
    assert check(f, [rows(2, 1 + (1 << 14))]) == [["Tanh", "Multiply"]]

    def five_softmaxes(x):
        parts = [pg.softmax(x * float(k)) for k in range(1, 6)]
        return sum(parts)

    assert check(five_softmaxes, [rows(2, 1 << 10)])
    assert check(five_softmaxes, [rows(2, 1 << 14)]) == []
