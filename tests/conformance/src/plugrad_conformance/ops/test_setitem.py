"""Assignment with ``x[key] = value``: values as in NumPy, gradients, errors."""

import copy
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import plugrad as pg
import pytest

from ..check import require_dtypes

A = np.arange(12, dtype=np.float32).reshape(3, 4) - 5.0
MASK = np.array([True, False, True])
KEYS = [
    0,
    -1,
    slice(None),
    slice(1, None, 2),
    slice(None, None, -1),
    slice(5, 2),
    (0, 1),
    (slice(None), 2),
    (..., 0),
    ...,
    (),
    None,
    (None, 1),
    (slice(None), None, slice(0, 2)),
    [0, 2, 0],
    np.array([[0, 1], [2, 0]]),
    ([0, 1], [1, 2]),
    (slice(None), [2, 0]),
    ([0, 0], slice(None), None),
    MASK,
    (slice(None), np.array([True, False, True, True])),
    A > 0,
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_values_are_those_of_numpy(key, backend):
    full = np.linspace(1, 2, A[key].size, dtype=np.float32).reshape(A[key].shape)
    for value in (2.5, full, full[..., :1] if full.ndim else full):
        expected = A.copy()
        x = pg.asarray(A)
        expected[key] = value
        x[key] = pg.asarray(value) if isinstance(value, np.ndarray) else value
        np.testing.assert_array_equal(x.numpy(), expected)
        assert x.backend == backend


def test_index_tensors(backend):
    x = pg.zeros(4)
    i = pg.asarray([3, 1, 3])
    x[i] = pg.asarray([1.0, 2.0, 3.0])  # the last of several values counts
    assert x.tolist() == [0.0, 2.0, 0.0, 3.0]
    x[x > 2.0] = -1.0
    assert x.tolist() == [0.0, 2.0, 0.0, -1.0]
    x[i] += 1.0
    assert x.tolist() == [0.0, 3.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_values_are_converted(dtype, backend):
    expected = np.zeros(3, dtype)
    x = pg.zeros(3, dtype=dtype)
    expected[1:] = np.float32(1.5)
    x[1:] = pg.asarray(np.float32(1.5))
    assert x.dtype == dtype
    np.testing.assert_array_equal(x.numpy(), expected)


def test_other_tensors_keep_the_old_values(backend):
    x = pg.asarray(A)
    others = [pg.stop_gradient(x), x[0], x * 1.0, pg.reshape(x, (12,)), pg.identity(x)]
    others += [pg.astype(x, "float32"), pg.conj(x), pg.real(x), pg.dropout(x, rate=0.0)]
    before = [y.numpy().copy() for y in others]
    x[...] = 7.0
    for y, old in zip(others, before, strict=True):
        np.testing.assert_array_equal(y.numpy(), old)
    assert pg.asarray(x) is x  # as in NumPy


# name: an object that refers to the memory of a tensor or has its values
REFERENCES = {
    "a handle": copy.copy,
    "a view": lambda x: pg.permute_dims(x, (1, 0)),
    "a reshape": lambda x: pg.reshape(x, (12,)),
    "a part": lambda x: x[1:],
    "an array of NumPy": lambda x: x.numpy(),
    "a view of it": lambda x: x.numpy()[1:].T,
    "DLPack": np.from_dlpack,
    "a Variable": pg.Variable,
    "a tape": lambda x: pg.vjp(pg.sin, x)[1],
    "a constant of jit": lambda x: pg.jit(lambda y: x * y),
}


def read(found):
    """Return the values of an object that refers to a tensor."""
    if isinstance(found, np.ndarray | pg.Tensor | pg.Variable):
        return np.array(found)
    results = [found(pg.ones((3, 4))) for _ in range(3)]
    (last,) = pg.tree.leaves(results[-1])
    return last.numpy()


@pytest.mark.parametrize("name", REFERENCES)
def test_what_refers_to_the_memory_keeps_its_values(name, backend):
    """A backend may write into the memory of ``x`` only if nothing else can see it."""
    x = pg.asarray(A)
    x[0] = 1.0  # from now on, x has its own memory
    for n in range(3):
        other = REFERENCES[name](x)
        before = read(other).copy()
        x[n % 2] = float(n)
        x[:, pg.asarray(n)] = pg.ones(3)
        if name == "a constant of jit":
            np.testing.assert_array_equal(read(other), x.numpy())
        else:
            np.testing.assert_array_equal(read(other), before)


def test_many_assignments_in_a_row(backend):
    """Assign rows by an index tensor, like the caches of language models."""
    expected = np.zeros((2, 6, 3), np.float32)
    x = pg.zeros((2, 6, 3))
    for n in range(6):
        row = np.full((2, 3), n + 1, np.float32)
        x[:, pg.asarray(n)] = pg.asarray(row)
        expected[:, n] = row
        np.testing.assert_array_equal(x.numpy(), expected)

    def assign_outside():
        x[:, pg.asarray(6)] = pg.ones((2, 3))
        x.numpy()  # an asynchronous backend raises it here

    with pytest.raises(IndexError, match="out of range"):
        assign_outside()


@pytest.mark.parametrize("count", [3, 40, 200])
def test_the_last_of_several_updates_counts(count, backend):
    random = np.random.default_rng(count)
    places = random.integers(0, 5, (count, 2)).astype(np.int32)
    values = random.normal(size=(count, 3)).astype(np.float32)
    x = pg.zeros((5, 5, 3))
    x[0, 0] = 0.0
    expected = np.zeros((5, 5, 3), np.float32)
    for (i, j), value in zip(places, values, strict=True):
        expected[i, j] = value
    i, j = pg.unstack(pg.asarray(places), axis=1)
    x[i, j] = pg.asarray(values)
    np.testing.assert_array_equal(x.numpy(), expected)


def test_random_assignments_to_aliases(backend):
    """Whichever tensors share memory, each one equals its own NumPy array."""
    random = np.random.default_rng(0)
    make = [
        (copy.copy, np.copy),
        (lambda x: x.T, lambda a: a.T.copy()),
        (lambda x: x * 1.0, np.copy),
        (pg.stop_gradient, np.copy),
        (lambda x: x[::-1], lambda a: a[::-1].copy()),
        (lambda x: pg.reshape(x, (4, 4)), np.copy),
        (lambda x: pg.broadcast_to(x[0], (4, 4)), lambda a: np.tile(a[0], (4, 1))),
    ]
    keys = [0, (slice(None), 1), (slice(1, 3), 2), ..., slice(None, None, 2), [1, 1, 3]]
    keys += [(pg.asarray(2), slice(None)), (slice(None), pg.asarray(3))]
    tensors = [pg.asarray(np.ones((4, 4), np.float32))]
    arrays = [np.ones((4, 4), np.float32)]
    for step in range(150):
        n = int(random.integers(len(tensors)))
        if random.random() < 0.4:
            of_tensor, of_array = make[random.integers(len(make))]
            tensors.append(of_tensor(tensors[n]))
            arrays.append(of_array(arrays[n]))
        else:
            key = keys[random.integers(len(keys))]
            tensors[n][key] = float(step)
            parts = key if isinstance(key, tuple) else (key,)
            host = [int(p) if isinstance(p, pg.Tensor) else p for p in parts]
            arrays[n][tuple(host)] = float(step)
        if len(tensors) > 6:
            out = int(random.integers(len(tensors)))
            del tensors[out], arrays[out]
        for x, expected in zip(tensors, arrays, strict=True):
            np.testing.assert_array_equal(x.numpy(), expected)


def test_copies_on_other_backends_are_invalidated(backend):
    x = pg.asarray(A)
    with pg.use_backend("cpu"):
        assert (x + 0.0).tolist() == A.tolist()
    x[0] = 1.0
    with pg.use_backend("cpu"):
        assert (x + 0.0)[0].tolist() == [1.0] * 4
    assert x.backend == backend


def read_and_overwrite(x, v):
    """Read ``x`` before and after some of its elements are replaced."""
    before = pg.sum(x * x * x)
    x[1] = v * v
    x[2:] *= 3.0
    return before + pg.sum(x * x)


def test_gradients_of_every_order(backend):
    x = pg.asarray([1.0, 2.0, 3.0])
    v = pg.asarray(2.0)
    # x0^3 + x1^3 + x2^3 + x0^2 + v^4 + 9 x2^2
    dx, dv = pg.grads(read_and_overwrite)(x, v)
    assert dx.tolist() == [5.0, 12.0, 27.0 + 54.0]
    assert dv.item() == 4 * 2.0**3
    second = pg.grad(lambda v: pg.grads(read_and_overwrite)(x, v)[1])(v)
    assert second.item() == 12 * 2.0**2
    second = pg.grad(lambda x: pg.sum(pg.grads(read_and_overwrite)(x, v)[0]))(x)
    assert second.tolist() == [6.0 + 2.0, 12.0, 18.0 + 18.0]
    assert x.tolist() == [1.0, 2.0, 3.0]  # grad leaves its argument unchanged


def test_residuals_of_a_tape_survive_an_assignment(backend):
    def f(x):
        y = pg.exp(x)  # its gradient reads y
        z = pg.sum(y)
        y[...] = 0.0
        return z + pg.sum(y)

    x = pg.asarray([0.0, 1.0])
    np.testing.assert_allclose(pg.grad(f)(x).numpy(), np.exp([0.0, 1.0]), rtol=1e-6)


def test_variables_can_be_assigned_to(backend):
    v = pg.Variable([1.0, 2.0])
    t = v.value
    t[0] = 9.0
    assert v.numpy().tolist() == [1.0, 2.0]  # v.value is another tensor
    v[0] = 5.0
    assert v.numpy().tolist() == [5.0, 2.0]
    loss = lambda: pg.sum(v * v)
    assert pg.variable_grads(loss)[1][v].tolist() == [10.0, 4.0]


@pytest.mark.parametrize("make", [pg.asarray, pg.Variable])
def test_no_assignment_from_several_threads_is_lost(make, backend):
    x = make(pg.zeros((4, 32)))
    interval = sys.getswitchinterval()

    def assign(row):
        with pg.use_backend(backend):
            for column in range(32):
                x[row, column] = column + 1.0

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(assign, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert x.tolist() == [[float(n) for n in range(1, 33)]] * 4


@pytest.mark.parametrize("shape", [(1, 2), (3, 2), (0, 2)])
def test_an_empty_mask_assigns_nothing(shape, backend):
    x = pg.ones(shape)
    x[pg.zeros(0, dtype=pg.bool)] = 5.0
    assert x.shape == x.numpy().shape == shape
    np.testing.assert_array_equal(x.numpy(), np.ones(shape))


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        (3, 1.0, IndexError, "index 3"),
        ((0, 0, 0), 1.0, IndexError, "too many"),
        (0, np.ones(3, np.float32), ValueError, r"setitem: .*broadcast"),
        (0, np.ones((2, 4), np.float32), ValueError, r"setitem: .*broadcast"),
        (0, "text", TypeError, "cannot hold string"),
        (0, 1j, TypeError, "complex"),
        ("a", 1.0, TypeError, "setitem: an index must be"),
        (np.array([True]), 1.0, IndexError, "a mask of shape"),
    ],
    ids=str,
)
def test_a_refused_assignment_changes_nothing(key, value, error, message, backend):
    x = pg.asarray(A)
    with pytest.raises(error, match=message):
        x[key] = value
    np.testing.assert_array_equal(x.numpy(), A)


EXACT_VALUES = [
    ("float64", 1 / 3),
    ("float64", [1 / 3, 1e300]),
    ("float64", (1, 1 / 3)),
    ("int64", [2**40, -1]),
    ("complex128", 1 / 3 + 1e300j),
    ("complex128", [1j / 3, 1e300]),
]


@pytest.mark.parametrize(("dtype", "value"), EXACT_VALUES, ids=str)
def test_numbers_take_the_dtype_of_the_tensor(dtype, value, backend):
    require_dtypes(backend, dtype)
    expected = np.zeros(2, dtype)
    x = pg.zeros(2, dtype=dtype)
    expected[:] = x[:] = value
    assert x.tolist() == expected.tolist()


def test_lists_with_tensors_are_assigned_with_their_gradients(backend):
    def f(y):
        x = pg.zeros(2)
        x[:] = [y * y, 1.0]
        return pg.sum(x)

    assert pg.grad(f)(3.0).item() == 6.0


def test_numbers_out_of_the_range_of_the_dtype(backend):
    x = pg.zeros(2, dtype="int32")
    with pytest.raises(OverflowError):
        x[0] = 2**40
    with pytest.raises(OverflowError):
        x[:] = [2**40, 1]
    assert x.tolist() == [0, 0]
