"""Gathering and scattering: values, gradients, decompositions, errors."""

import contextlib

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..check import check_gradients
from ..toy import toy
from .moves import DTYPES, decomposed, sample

# The shape of a tensor, and indices into it; the last rows contain duplicates.
CASES = [
    ((5,), [[0], [4], [2]]),
    ((3, 4), [[2, 1], [0, 3]]),
    ((3, 4), [[2], [0]]),
    ((2, 3, 2), [[[0, 2], [1, 0]]]),
    ((2, 3), np.zeros((2, 0), np.int32)),
    ((3, 2), np.zeros((0, 1), np.int32)),
    ((2, 0), [[1], [0]]),
    ((4, 2), [[3], [1], [3], [0], [3], [1]]),
    ((2, 2), [[1, 1], [0, 1], [1, 1], [1, 1]]),
    ((3,), [[1]] * 9 + [[0]]),
]
every_case = pytest.mark.parametrize(("shape", "places"), CASES, ids=str)


def as_array_with_update_shape(shape, places):
    """Return the indices as an array, and the shape of the updates."""
    places = np.asarray(places)
    return places, places.shape[:-1] + shape[places.shape[-1] :]


def scattered(start, places, updates, combine=lambda old, new: new):
    y = start.copy()
    for at in np.ndindex(places.shape[:-1]):
        index = tuple(places[at])
        with np.errstate(over="ignore"):
            y[index] = combine(y[index], updates[at])
    return y


def check_values(shape, places, dtype):
    """Compare all three ops with loops."""
    places, slices = as_array_with_update_shape(shape, places)
    x = sample(shape, dtype)
    updates = sample(slices, dtype)
    expected = np.empty(slices, dtype)
    for at in np.ndindex(places.shape[:-1]):
        expected[at] = x[tuple(places[at])]
    for id_type in ("int32", "int64"):
        at = places.astype(id_type)
        y = pg.gather_nd(x, at)
        np.testing.assert_array_equal(y.numpy(), expected, strict=True)
        y = pg.scatter_nd(at, updates, shape)
        added = scattered(np.zeros(shape, dtype), places, updates, np.add)
        np.testing.assert_array_equal(y.numpy(), added, strict=True)
        y = pg.tensor_scatter_update(x, at, updates)
        written = scattered(x, places, updates)
        np.testing.assert_array_equal(y.numpy(), written, strict=True)


@every_case
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(shape, places, dtype, backend):
    with pg.debug(finite=False):
        check_values(shape, places, dtype)


@every_case
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "complex64"])
def test_the_decompositions_give_the_same_values(shape, places, dtype):
    with decomposed("GatherNd", "ScatterNd", "TensorScatterUpdate"):
        check_values(shape, places, dtype)


def test_the_last_of_many_duplicates_stays():
    rng = np.random.default_rng(0)
    places = rng.integers(0, 40, (1000, 1))
    updates = rng.normal(size=(1000, 3))
    x = np.zeros((50, 3))
    expected = scattered(x, places, updates)
    with decomposed("TensorScatterUpdate"):
        y = pg.tensor_scatter_update(x, places, updates)
        np.testing.assert_array_equal(y.numpy(), expected)
    with pg.use_backend("cpu"):
        y = pg.tensor_scatter_update(x, places, updates)
        np.testing.assert_array_equal(y.numpy(), expected)


def test_a_decomposition_keeps_the_bits_of_the_updates():
    x = np.full(3, np.nan)
    updates = np.array([-0.0, np.inf])
    with decomposed("TensorScatterUpdate"):
        y = pg.tensor_scatter_update(x, [[0], [2]], updates).numpy()
    np.testing.assert_array_equal(y, [-0.0, np.nan, np.inf])
    assert np.signbit(y[0])


@every_case
@pytest.mark.parametrize("on_host", [True, False])
def test_negative_indices_count_from_the_end(shape, places, on_host, backend):
    places, slices = as_array_with_update_shape(shape, places)
    x = sample(shape, "float32")
    updates = sample(slices, "float32")
    given = places - np.array(shape[: places.shape[-1]], places.dtype)
    given = given if on_host else pg.asarray(given)
    for op in (
        lambda at: pg.gather_nd(x, at),
        lambda at: pg.scatter_nd(at, updates, shape),
        lambda at: pg.tensor_scatter_update(x, at, updates),
    ):
        np.testing.assert_array_equal(op(given).numpy(), op(places).numpy())


REDUCTIONS = {"add": np.add, "multiply": np.multiply}
REDUCTIONS |= {"max": np.maximum, "min": np.minimum}


def check_reduction(reduction, shape, places, dtype):
    places, slices = as_array_with_update_shape(shape, places)
    x = sample(shape, dtype)
    updates = sample(slices, dtype)[..., ::-1]
    expected = scattered(x, places, updates, REDUCTIONS[reduction])
    y = pg.tensor_scatter_update(x, places, updates, reduction=reduction)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


@every_case
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64"])
def test_reductions(reduction, shape, places, dtype, backend):
    check_reduction(reduction, shape, places, dtype)


@every_case
@pytest.mark.parametrize("reduction", ["max", "min"])
def test_the_decomposition_of_extrema(reduction, shape, places):
    with decomposed("TensorScatterExtremum"):
        check_reduction(reduction, shape, places, "float32")


def test_extrema_with_nan_and_infinities(backend):
    nan, inf = np.nan, np.inf
    y = pg.tensor_scatter_update(
        [1.0, nan, 3.0, -inf],
        [0, 0, 1, 3, 2],
        [nan, 2.0, 5.0, 4.0, inf],
        reduction="max",
    )
    np.testing.assert_array_equal(y.numpy(), [nan, nan, inf, 4])


@every_case
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradients_of_reductions(reduction, shape, places, backend):
    places, slices = as_array_with_update_shape(shape, places)
    rng = np.random.default_rng(3)
    x = rng.uniform(0.5, 2, shape)
    updates = rng.uniform(0.5, 2, slices)
    check_gradients(
        lambda x, u: pg.square(
            pg.tensor_scatter_update(x, places, u, reduction=reduction)
        ),
        x,
        updates,
    )


# x, updates at the indices 0, 0, 2 and 1, the reduction, and the gradients of the sum
# of the result in x and in the updates.
TIES = [
    ([1, 2, 3], [1, 1, 3, 9], "max", [1 / 3, 0, 0.5], [1 / 3, 1 / 3, 0.5, 1]),
    ([1, 2, 3], [0, 0, 3, 9], "min", [0, 1, 0.5], [0.5, 0.5, 0.5, 0]),
    ([0, 2, np.inf], [3, 4, 1, 0], "multiply", [12, 0, 1], [0, 0, np.inf, 2]),
    ([5, 2, 3], [0, 4, np.inf, 1], "multiply", [0, 1, np.inf], [20, 0, 3, 2]),
]


@pytest.mark.parametrize(("x", "updates", "reduction", "dx", "du"), TIES)
def test_equal_elements_share_a_gradient(x, updates, reduction, dx, du, backend):
    f = lambda x, u: pg.sum(
        pg.tensor_scatter_update(x, [0, 0, 2, 1], u, reduction=reduction)
    )
    x = pg.asarray(x, dtype="float32")
    updates = pg.asarray(updates, dtype="float32")
    found = pg.grads(f)(x, updates)
    for dy, expected in zip(found, (dx, du), strict=True):
        np.testing.assert_allclose(dy.numpy(), expected, rtol=1e-6)


@every_case
def test_gradients(shape, places, backend):
    places, slices = as_array_with_update_shape(shape, places)
    x = np.cos(sample(shape))
    updates = np.sin(sample(slices))
    check_gradients(lambda x: pg.square(pg.gather_nd(x, places)), x)
    check_gradients(lambda u: pg.square(pg.scatter_nd(places, u, shape)), updates)
    check_gradients(
        lambda x, u: pg.square(pg.tensor_scatter_update(x, places, u)), x, updates
    )


def test_only_the_update_that_stays_has_a_gradient(backend):
    x = pg.asarray([1.0, 2.0])
    updates = pg.asarray([3.0, 4.0, 5.0])
    f = lambda x, u: pg.tensor_scatter_update(x, [[1], [1], [1]], u)
    dx, du = pg.grads(f)(x, updates, dy=pg.asarray([7.0, 9.0]))
    assert (dx.tolist(), du.tolist()) == ([7.0, 0.0], [0.0, 0.0, 9.0])


def test_a_list_of_numbers_is_accepted_as_indices_into_one_axis(backend):
    assert pg.scatter_nd([2, 0, 2], [1, 2, 3], (4,)).tolist() == [2, 0, 4, 0]
    x = pg.tensor_scatter_update([1, 2, 3], [2, 0], [7, 8])
    assert x.tolist() == [8, 2, 7]


def test_an_update_promotes(backend):
    y = pg.tensor_scatter_update([1, 2, 3], [[0]], [0.5])
    assert (y.dtype, y.tolist()) == (np.float32, [0.5, 2, 3])


def test_tensors_that_are_not_contiguous(backend):
    x = pg.permute_dims(sample((3, 4, 2)), (1, 0, 2))
    y = pg.gather_nd(x, [[3, 1], [0, 2]])
    np.testing.assert_array_equal(y.numpy(), x.numpy()[[3, 0], [1, 2]])
    y = pg.tensor_scatter_update(x, [[3, 1]], [[5.0, 6.0]])
    assert y[3, 1].tolist() == [5.0, 6.0]
    assert x[3, 1].tolist() != [5.0, 6.0]


X = sample((2, 3))
ERRORS = [
    (lambda: pg.gather_nd(X, [[0, 0, 0]]), ValueError, "gather_nd: indices must be"),
    (lambda: pg.gather_nd(1.0, [[0]]), ValueError, "gather_nd: indices must be"),
    (lambda: pg.gather_nd(X, 0), ValueError, "gather_nd: indices must be"),
    (lambda: pg.gather_nd(X, [[0.5]]), TypeError, "indices must be integers"),
    (
        lambda: pg.scatter_nd([[0]], X, (3, 3)),
        ValueError,
        r"scatter_nd: indices .* \(1, 1\) and \(2, 3\) and \(3, 3",
    ),
    (lambda: pg.scatter_nd(0, X, (3, 3)), ValueError, "indices must be"),
    (lambda: pg.scatter_nd([[0, 1, 2]], [1.0], (3, 3)), ValueError, "indices must be"),
    (lambda: pg.scatter_nd([[0]], [1.0], (-3,)), ValueError, "must not be negative"),
    (lambda: pg.scatter_nd([[0]], [1.0], (3.5,)), TypeError, "shape must be integers"),
    (
        lambda: pg.tensor_scatter_update(X, [[0]], X),
        ValueError,
        "tensor_scatter_update",
    ),
    (
        lambda: pg.tensor_scatter_update(X, [[0, 0]], [1.0], reduction="mean"),
        ValueError,
        "tensor_scatter_update: reduction .*mean",
    ),
    (
        lambda: pg.tensor_scatter_update([True], [0], [True], reduction="add"),
        TypeError,
        "tensor_scatter_update: reduction 'add' is not defined for bool; cast x",
    ),
    (
        lambda: pg.tensor_scatter_update([1j], [0], [1j], reduction="max"),
        TypeError,
        "reduction 'max' is not defined for complex64",
    ),
    (lambda: pg.gather_nd(X, [[0, -4]]), IndexError, "index -4 .* axis 1 with size 3"),
    (lambda: pg.scatter_nd([[-3]], [1.0], (2,)), IndexError, "index -3 .* axis 0"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()


NINE = np.arange(1.0, 10, dtype="float32").reshape(3, 3)
int32 = lambda *indices: pg.asarray([*indices], dtype="int32")
OUT_OF_RANGE = {
    "gather_nd": [
        (NINE, [[0, 3]], "index 3 .* axis 1 with size 3"),
        (NINE, [[-4, 5]], "index -1 .* axis 0"),
        (NINE, [[0, 0], [3, -3]], "index 3 .* axis 0"),
        (NINE, [[[1]], [[3]]], "index 3 .* axis 0"),
        (NINE.reshape(1, 3, 3), [[0, -4, 4]], "index -1 .* axis 1"),
        (NINE[:0], [[0, 2]], "index 0 .* axis 0 with size 0"),
        (NINE[:, :0], [[2, 0]], "index 0 .* axis 1 with size 0"),
        (NINE[:, :0], [[3]], "index 3 .* axis 0"),
    ],
    "scatter_nd": [
        ((3, 3), [[0, 7]], [1.0], "index 7 .* axis 1"),
        ((3, 3), [[1, 1], [2, -4]], [1.0, 1.0], "index -1 .* axis 1"),
        ((3,), [[5]], [1.0], "index 5 .* axis 0 with size 3"),
        ((3,), [[-4]], [1.0], "index -1 .* axis 0"),
        ((3, 2), [[3]], [[1.0, 2.0]], "index 3 .* axis 0"),
        ((3, 3), [[0, 7]], [True], "index 7 .* axis 1"),
        ((0, 5), [[0, 4]], [1.0], "index 0 .* axis 0 with size 0"),
        ((3, 0), [[3]], np.zeros((1, 0)), "index 3 .* axis 0"),
    ],
    "tensor_scatter_update": [
        (NINE, [[0, 5]], [1.0], "index 5 .* axis 1"),
        (NINE, [[0, 0], [-4, 3]], [1.0, 1.0], "index -1 .* axis 0"),
        (NINE, [[3]], [[1.0, 2.0, 3.0]], "index 3 .* axis 0"),
        (NINE[:, :0], [[3]], np.zeros((1, 0)), "index 3 .* axis 0"),
    ],
}
CALLS = {
    "gather_nd": lambda x, at: pg.gather_nd(x, at),
    "scatter_nd": lambda shape, at, u: pg.scatter_nd(at, u, shape),
    "tensor_scatter_update": lambda x, at, u: pg.tensor_scatter_update(x, at, u),
}
OUT_OF_RANGE_ROWS = [(op, *row) for op, rows in OUT_OF_RANGE.items() for row in rows]


def is_empty(op, first, places):
    """Return whether the result of a call has no elements."""
    if op != "gather_nd":
        return 0 in (first if op == "scatter_nd" else first.shape)
    *batch, depth = np.shape(places)
    return 0 in (*batch, *first.shape[depth:])


@pytest.mark.parametrize("row", OUT_OF_RANGE_ROWS, ids=lambda row: f"{row[0]}-{row[2]}")
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_an_index_out_of_range_never_reaches_another_row(row, dtype, backend):
    """Asynchronous backends raise when the result is read, or at once in debug mode.

    If the result is empty, nothing is read, and a backend may accept the index.
    """
    op, first, places, *rest, _ = row
    at = pg.asarray(places, dtype=dtype)
    call = lambda: CALLS[op](first, at, *rest)
    if is_empty(op, first, places):
        with contextlib.suppress(IndexError):
            assert 0 in call().numpy().shape
        return
    with pytest.raises(IndexError):
        call().numpy()
    with pg.debug(), pytest.raises(IndexError):
        call()


@pytest.mark.parametrize("count", [1, 60])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_an_assignment_that_fails_changes_nothing(count, dtype, backend):
    x = pg.zeros((64, 3))
    places = pg.asarray([*range(count), 64], dtype=dtype)
    try:
        x[places] = 1.0
    except IndexError:
        assert not x.numpy().any()
    else:  # an asynchronous backend reports it when the result is read
        with pytest.raises(IndexError):
            x.numpy()


@pytest.mark.parametrize("row", OUT_OF_RANGE_ROWS, ids=lambda row: f"{row[0]}-{row[2]}")
@pytest.mark.parametrize("decompose", [False, True], ids=["kernel", "decomposition"])
def test_the_error_names_the_index_out_of_range(row, decompose):
    op, first, places, *rest, message = row
    without = ("GatherNd", "ScatterNd", "TensorScatterUpdate") if decompose else ()
    with toy(without=without, dtypes=runtime("cpu").dtypes), pg.use_backend("toy"):
        at = pg.asarray(places, dtype="int32")
        with pytest.raises(IndexError, match=f"^{op}: {message}") as caught:
            CALLS[op](first, at, *rest)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


COMPOSED_CALLS = {
    "getitem": lambda: pg.asarray(NINE)[int32(0), int32(5)],
    "getitem, from the end": lambda: pg.asarray(NINE)[int32(0), int32(-4)],
    "the gradient of gather_nd": lambda: pg.grad(
        lambda x: pg.sum(pg.gather_nd(x, int32([0, 7])))
    )(pg.asarray(NINE)),
    "the gradient of scatter_nd": lambda: pg.grad(
        lambda u: pg.sum(pg.scatter_nd(int32([0, 7]), u, (3, 3)))
    )(pg.asarray([1.0])),
    "the kernel of the gradient of gather_nd": lambda: pg.run_kernel(
        "ScatterNd", [int32([0, 7]), pg.asarray([1.0])], {"shape": (3, 3)}
    ),
}


@pytest.mark.parametrize("call", COMPOSED_CALLS.values(), ids=COMPOSED_CALLS)
def test_an_index_out_of_range_in_composed_ops(call, backend):
    with pytest.raises(IndexError):
        call().numpy()


@pytest.mark.parametrize("call", COMPOSED_CALLS.values(), ids=COMPOSED_CALLS)
def test_an_index_out_of_range_in_a_decomposition(call):
    with decomposed("GatherNd", "ScatterNd"), pytest.raises(IndexError, match="_nd: "):
        call()


def test_row_numbers_beyond_int32():
    """A dense tensor of this shape would not fit into memory."""
    at = np.array([[70_000, 70_000]])
    sizes = [100_000, 100_000]
    with decomposed("SparseReshape"):
        found, _ = pg.sparse.reshape(at, sizes, np.array([10_000_000_000]))
        assert found.tolist() == [[70_000 * 100_000 + 70_000]]
