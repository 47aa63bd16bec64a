"""Recurrent cells: values against NumPy, gradients, errors, golden cases."""

import functools
import math

import numpy as np
import plugrad as pg
import pytest
from plugrad_conformance.check import check_gradients, require_dtypes
from plugrad_conformance.golden.cases import handles
from plugrad_conformance.golden.judge import judge
from plugrad_tfjs import basic_lstm_cell, multi_rnn_cell

RNG = np.random.default_rng(0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(forget_bias, kernel, bias, data, c, h):
    i, j, f, o = np.split(np.concatenate([data, h], 1) @ kernel + bias, 4, 1)
    c = sigmoid(i) * np.tanh(j) + sigmoid(f + forget_bias) * c
    return c, sigmoid(o) * np.tanh(c)


def cell_arguments(batch, inputs, units):
    """Return random arguments of a cell."""
    sizes = [(), (inputs + units, 4 * units), (4 * units,)]
    sizes += [(batch, inputs), (batch, units), (batch, units)]
    return [np.asarray(RNG.normal(size=s)) for s in sizes]


@pytest.mark.parametrize("sizes", [(2, 3, 4), (1, 1, 1), (3, 2, 0), (0, 2, 3)], ids=str)
def test_basic_lstm_cell(sizes, backend):
    given = [x.astype(np.float32) for x in cell_arguments(*sizes)]
    for y, expected in zip(basic_lstm_cell(*given), lstm(*given), strict=True):
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)
        assert y.dtype == np.float32


@pytest.mark.parametrize("which", [0, 1])
def test_gradients_of_basic_lstm_cell(which, backend):
    require_dtypes(backend, "float64")
    check_gradients(lambda *xs: basic_lstm_cell(*xs)[which], *cell_arguments(2, 3, 2))


def test_dtypes_of_basic_lstm_cell(backend):
    _, kernel, *rest = cell_arguments(2, 1, 1)
    kernel, *rest = (x.astype(np.float32) for x in (kernel, *rest))
    c, h = basic_lstm_cell(1.0, kernel, *rest)
    assert c.dtype == h.dtype == np.float32
    ones = [np.ones(s, np.int32) for s in ((2, 4), (4,), (1, 1), (1, 1), (1, 1))]
    c, h = basic_lstm_cell(1, *ones)
    expected = sigmoid(3) * math.tanh(3) + sigmoid(4)
    assert (c.dtype, c.item()) == (np.float32, pytest.approx(expected))


def test_a_cell_does_not_overflow(backend):
    given = [np.full_like(x, 1e30, np.float32) for x in cell_arguments(1, 1, 1)]
    grads = pg.grads(lambda *xs: pg.sum(basic_lstm_cell(*xs)[1]))(*given)
    assert all(np.isfinite(dx.numpy()).all() for dx in grads)


def test_multi_rnn_cell(backend):
    first = cell_arguments(2, 3, 4)
    second = cell_arguments(2, 4, 2)
    first, second = ([x.astype(np.float32) for x in xs] for xs in (first, second))
    cells = [functools.partial(basic_lstm_cell, *xs[:3]) for xs in (first, second)]
    c, h = multi_rnn_cell(cells, first[3], [first[4], second[4]], [first[5], second[5]])
    c0, h0 = lstm(*first)
    c1, h1 = lstm(*second[:3], h0, *second[4:])
    for y, expected in zip([*c, *h], [c0, c1, h0, h1], strict=True):
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert multi_rnn_cell([], first[3], [], []) == ([], [])


def test_gradients_of_multi_rnn_cell(backend):
    require_dtypes(backend, "float64")
    first = cell_arguments(2, 2, 2)
    second = cell_arguments(2, 2, 1)

    def last(kernel, data, c):
        cells = [
            lambda *xs: basic_lstm_cell(first[0], kernel, first[2], *xs),
            lambda *xs: basic_lstm_cell(*second[:3], *xs),
        ]
        c, h = multi_rnn_cell(cells, data, [c, second[4]], [first[5], second[5]])
        return h[1] + pg.sum(c[0])

    check_gradients(last, first[1], first[3], first[4])


def test_a_cell_under_vmap_and_jit(backend):
    given = [x.astype(np.float32) for x in cell_arguments(3, 2, 2)]
    state, output = pg.jit(basic_lstm_cell)(*given)
    rows = pg.vmap(lambda *xs: basic_lstm_cell(*given[:3], *xs))
    pairs = zip(rows(*(x[:, None] for x in given[3:])), (state, output), strict=True)
    for found, expected in pairs:
        np.testing.assert_allclose(found.numpy()[:, 0], expected.numpy(), rtol=1e-5)


# --- errors ----------------------------------------------------------------------

X = np.float32([[1.0, -2.0]])
ONES = [np.ones(s, np.float32) for s in ((3, 4), (4,), (2, 2), (2, 1), (2, 1))]
ERRORS = [
    (
        lambda: basic_lstm_cell(1.0, *ONES[:2], ONES[2][0], *ONES[3:]),
        ValueError,
        r"basic_lstm_cell: data must be \[batch, inputs\], .* \(2,\) and \(2, 1\)",
    ),
    (
        lambda: basic_lstm_cell(1.0, np.ones((4, 4), np.float32), *ONES[1:]),
        ValueError,
        r"basic_lstm_cell: lstm_kernel must have shape \(3, 4\) to fit data and c; got "
        r"shapes \(4, 4\) and \(2, 2\) and \(2, 1\)",
    ),
    (
        lambda: basic_lstm_cell([1.0], *ONES),
        ValueError,
        r"forget_bias must have shape \(\) .* got shapes \(1,\) and",
    ),
    (
        lambda: basic_lstm_cell(1.0, *ONES[:4], np.ones((1, 1), np.float32)),
        ValueError,
        r" h must have shape \(2, 1\) .* got shapes \(1, 1\) and",
    ),
    (lambda: basic_lstm_cell(1j, *ONES), TypeError, "basic_lstm_cell: complex numbers"),
    (
        lambda: multi_rnn_cell([basic_lstm_cell], ONES[2], [ONES[3]], []),
        ValueError,
        "multi_rnn_cell: c and h need an entry for each of 1 cells, got 1 and 0",
    ),
    (
        lambda: basic_lstm_cell(1.0, np.ones((3, 4), complex), *ONES[1:]),
        TypeError,
        r"^basic_lstm_cell: complex numbers",
    ),
    (
        lambda: basic_lstm_cell(1.0, ["a"], *ONES[1:]),
        TypeError,
        "^basic_lstm_cell: strings are not supported",
    ),
    (
        lambda: multi_rnn_cell([3], ONES[2], [ONES[3]], [ONES[4]]),
        ValueError,
        "each cell must be a function",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS)
def test_errors(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize(
    "given", [3, 1.5, None, "ab", b"ab", {"a": X}, {1}, len, X[0, 0]]
)
@pytest.mark.parametrize("name", ["lstm_cells", "c", "h"])
def test_cells_and_states_must_be_sequences(name, given):
    rows = {"lstm_cells": [len], "data": X, "c": [X], "h": [X]} | {name: given}
    with pytest.raises(
        TypeError, match=f"^multi_rnn_cell: {name} must be a sequence, "
    ):
        multi_rnn_cell(*rows.values())


GOLDEN = handles("errors", "basicLSTMCell")


def test_there_are_golden_cases():
    assert len(GOLDEN) == 4


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_calls_that_tensorflow_js_refuses(case, backend):
    judge(case.load(), basic_lstm_cell, None)
