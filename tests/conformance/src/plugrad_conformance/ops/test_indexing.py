"""Indexing with ``x[...]`` gives NumPy's results; gradients, iteration, ``in``."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients
from .moves import DTYPES, sample

MASK = np.array([[True, False, True], [False, False, True]])
A = np.array([1, 0, -1])
B = np.array([[0], [-2]])
KEYS = [  # for a tensor of shape (2, 3, 4)
    1,
    -2,
    np.int64(1),
    (),
    ...,
    None,
    slice(None),
    slice(5, None),
    slice(None, None, -1),
    slice(-1, -9, -2),
    (1, 2, -1),
    (1, ..., 0),
    (..., None, -1),
    (None, 1, None, slice(1, 3)),
    (slice(None), slice(2, 0, -1), slice(1, None, 2)),
    (slice(1, 1), 2),
    A,
    B,
    [1, 0, 0],
    [],
    [[1, 0], [0, 0]],
    ((1, 0), (0, 2)),
    (slice(None), A),
    (..., A),
    (0, A),
    (A, A),
    (A, B),
    (A, slice(None), B),
    (slice(None), A, B),
    (slice(None), A, 2),
    (slice(None), 2, B),
    (0, slice(None), A),
    (A, ..., 0),
    (A, None, A),
    (None, A, A),
    (A, A, B),
    (1, B, slice(None, None, -2)),
    (slice(None, None, -1), A, slice(1, 3)),
    (A, A, ..., 0),
    np.array(1),
    MASK,
    ~MASK & MASK,
    (MASK, 1),
    (MASK, slice(1, None, 2)),
    (MASK, [0, 1, 2]),
    ([True, False],),
    (slice(None), [True, False, True], slice(None)),
    (slice(None), slice(None), np.arange(4) > 1),
    (np.array([True, False]), slice(None), A),
    (slice(None), np.ones((3, 4), bool)),
    np.arange(24).reshape(2, 3, 4) % 5 == 0,
    True,
    False,
    (0, None, True, A),
]


def with_tensors(key):
    """Return a key with its arrays replaced by tensors."""
    if isinstance(key, tuple):
        return tuple(with_tensors(part) for part in key)
    return pg.asarray(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_results_are_those_of_numpy(key, backend):
    x = sample((2, 3, 4), "float32")
    for given in (key, with_tensors(key)):
        y = pg.asarray(x)[given]
        np.testing.assert_array_equal(y.numpy(), x[key], strict=True)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_gradients(key, backend):
    check_gradients(lambda x: pg.square(x[with_tensors(key)]), sample((2, 3, 4)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, backend):
    x = sample((3, 4), dtype)
    t = pg.asarray(x)
    for key in (1, (slice(None), 2), A, (A, A), x == x[1, 1]):
        np.testing.assert_array_equal(t[key].numpy(), x[key])
        assert t[key].dtype == x.dtype


def test_a_tensor_without_axes(backend):
    x = pg.asarray(3.0)
    assert x[()].item() == x[...].item() == 3.0
    assert x[None].tolist() == x[x > 2].tolist() == [3.0]
    assert x[x > 4].shape == (0,)


def test_scalar_tensors_are_indices(backend):
    x = pg.asarray(sample((3, 4)))
    for i in (pg.asarray(-1), pg.argmax(pg.asarray([0.0, 1.0]))):
        np.testing.assert_array_equal(x[i].numpy(), x.numpy()[int(i)])
        assert x[i, 1:].shape == (3,)
        assert x[0 : i + 2 if int(i) == 1 else 3].shape == (3, 4)


def test_variables_can_be_indexed_and_used_as_indices(backend):
    v = pg.Variable([1.0, 2.0, 3.0])
    i = pg.Variable([2, 0], trainable=False)
    assert v[1].item() == 2.0
    assert v[i].tolist() == [3.0, 1.0]
    _, grads = pg.variable_grads(lambda: pg.sum(v[i] * v[1]))
    assert grads[v].tolist() == [2.0, 4.0, 2.0]
    assert [row.item() for row in v] == [1.0, 2.0, 3.0]
    assert 2.0 in v


def test_contributions_of_repeated_indices_add_up(backend):
    x = pg.asarray([1.0, 2.0])
    assert pg.grad(lambda x: pg.sum(x[[0, 0, 1]]))(x).tolist() == [2.0, 1.0]
    pairs = lambda x: pg.sum(pg.stack([x, x])[[0, 0], [1, 1]])
    assert pg.grad(pairs)(x).tolist() == [0.0, 2.0]


def test_masks_depend_on_values_and_have_no_gradient(backend):
    x = pg.asarray([-1.0, 2.0, 3.0])
    assert pg.grad(lambda x: pg.sum(x[x > 0] * x[x > 0]))(x).tolist() == [0.0, 4.0, 6.0]


def test_random_keys(backend):
    rng = np.random.default_rng(0)
    for _ in range(300):
        shape = tuple(rng.integers(1, 5, rng.integers(1, 5)))
        x = sample(shape)
        key = tuple(_random_entry(rng, n) for n in shape[: rng.integers(0, 5)])
        extra_entries = [None] * rng.integers(0, 3)
        extra_entries += [...] * (len(key) == len(shape) and rng.random() < 0.5)
        for entry in extra_entries:
            at = rng.integers(0, len(key) + 1)
            key = (*key[:at], entry, *key[at:])
        y = pg.asarray(x)[with_tensors(key) if rng.random() < 0.5 else key]
        np.testing.assert_array_equal(y.numpy(), x[key], strict=True, err_msg=str(key))


def _random_entry(rng, n):
    start_and_stop = [
        None if rng.random() < 0.3 else int(e) for e in rng.integers(-6, 7, 2)
    ]
    kind = rng.integers(0, 6)
    if kind == 0:
        return int(rng.integers(-n, n))
    if kind == 1:
        return rng.integers(-n, n, [(2,), (3, 1), (3, 2), (1,)][rng.integers(0, 4)])
    return slice(*start_and_stop, int(rng.choice([-3, -2, -1, 1, 2, 3])))


def test_iteration(backend):
    x = pg.asarray(sample((3, 2)))
    assert [row.tolist() for row in x] == x.tolist()
    a, b = x[0]
    assert (a.item(), b.item()) == (-3.0, -2.0)
    assert [row.tolist() for row in reversed(x)] == x.tolist()[::-1]
    assert list(pg.asarray(np.zeros((0, 2)))) == []
    with pytest.raises(TypeError, match="iter: cannot iterate"):
        iter(pg.asarray(1.0))
    dx = pg.grad(lambda x: sum(pg.sum(row * i) for i, row in enumerate(x)))(x)
    assert dx.tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]


def test_containment(backend):
    x = pg.asarray([[1, 2], [3, 4]])
    assert 3 in x
    assert 5 not in x
    assert [3, 4] in x
    assert np.nan not in pg.asarray([np.nan])


X = pg.asarray(sample((2, 3)))
ERRORS = [
    (2, IndexError, "getitem: index 2 is out of range for axis 0 with size 2"),
    ((0, -4), IndexError, "index -4 is out of range for axis 1 with size 3"),
    (
        (0, 0, 0),
        IndexError,
        r"too many indices, got 3 for 2 axes of shape \(2, 3\)",
    ),
    ((..., ...), IndexError, "at most one ellipsis"),
    ([0, 2], IndexError, "index 2 is out of range for axis 0 with size 2"),
    (
        (slice(None), np.array([[0], [-4]])),
        IndexError,
        "index -4 .* axis 1 with size 3",
    ),
    (
        [True, False, True],
        IndexError,
        r"a mask of shape \(3,\) does not fit axes of sh",
    ),
    (np.ones((2, 2), bool), IndexError, r"does not fit axes of shape"),
    (np.ones((2, 3, 1), bool), IndexError, "too many indices, got 3"),
    (([0, 1], [0, 1, 2]), ValueError, "getitem: shapes .* do not broadcast"),
    (slice(None, None, 0), ValueError, "the step of a slice must not be 0"),
    (slice(0.5), TypeError, "the ends of a slice must be integers or None"),
    (1.0, TypeError, "an index must be an integer, a slice, .* got float"),
    ("a", TypeError, "got str"),
    ([0.5], TypeError, "an index must contain integers or bool, not float32"),
    (np.ones(2), TypeError, "not float64; cast it"),
]


@pytest.mark.parametrize(("key", "error", "message"), ERRORS, ids=str)
def test_errors(key, error, message, backend):
    with pytest.raises(error, match=message):
        X[key]


def test_index_tensors_out_of_range():
    with pg.use_backend("cpu"):
        for i in (2, -3):
            with pytest.raises(IndexError, match="is out of range for axis 0"):
                X[pg.asarray([i])]
            with pytest.raises(IndexError, match="is out of range for axis 0"):
                X[pg.asarray([i]), pg.asarray([0])]


def test_a_slice_runs_one_kernel_and_an_integer_index_two(backend):
    with pg.profile() as seen:
        X[1:, ::-1]
        X[0]
        X[[1, 0]]
    kernels = [run.kernel for run in seen.records if run.depth == 0]
    assert kernels == ["StridedSlice", "StridedSlice", "Reshape", "GatherV2"]
