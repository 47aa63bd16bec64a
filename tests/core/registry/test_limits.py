"""A backend that declares a maximum size of arrays never gets a larger array."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Runtime, runtime
from plugrad_conformance.toy import toy

LIMIT = 1000
X = np.ones(200, np.float32)  # 800 bytes
ABOVE_LIMIT = {
    "full": lambda x: pg.ones(251),
    "asarray": lambda x: pg.asarray(np.ones(251, np.float32)),
    "broadcast_to": lambda x: pg.broadcast_to(x, (2, 200)),
    "matmul": lambda x: pg.matmul(x[:16, None], x[None, :16]),
    "concat": lambda x: pg.concat([x, x]),
    "multiply": lambda x: x[:, None] * x,
    "tile": lambda x: pg.tile(x, (2,)),
    "one_hot": lambda x: pg.one_hot(pg.zeros(16, dtype="int32"), 16),
    "astype": lambda x: pg.astype(x, "complex64"),
}


@pytest.fixture(params=["kernels", "decompositions"])
def result_sizes(request):
    """Activate a backend with a limit; yield the sizes of its kernels' results."""
    found = []

    def wrap_and_note_sizes(function):
        def kernel(*xs, **attrs):
            y = wrap(function)(*xs, **attrs)
            found.extend(z.nbytes for z in (y if isinstance(y, tuple) else [y]))
            return y

        return kernel

    wrap = runtime("cpu").wrap
    without = ("Tile", "OneHot", "Relu") if request.param == "decompositions" else ()
    dtypes = runtime("cpu").dtypes
    options = {"dtypes": dtypes, "wrap": wrap_and_note_sizes, "max_nbytes": LIMIT}
    with toy(without=without, **options), pg.use_backend("toy"):
        yield found


@pytest.mark.parametrize("op", ABOVE_LIMIT)
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_a_larger_array_is_refused_before_it_is_allocated(op, jitted, result_sizes):
    x = pg.asarray(X)
    f = pg.jit(ABOVE_LIMIT[op]) if jitted else ABOVE_LIMIT[op]
    message = r"bytes, and backend 'toy' holds at most 1,000 in one array; use smaller"
    for _ in range(2):
        with pytest.raises(MemoryError, match=message) as caught:
            f(x)
        assert "an array of shape (" in str(caught.value)
    assert max(result_sizes, default=0) <= LIMIT


def test_arrays_up_to_the_limit_are_accepted(result_sizes):
    x = pg.asarray(np.ones(250, np.float32))
    assert pg.relu(x + x)[0].item() == 2
    assert pg.grad(lambda x: pg.sum(x * x))(x)[0].item() == 2
    assert pg.asarray(["a"] * 1000).shape == (1000,)
    assert max(result_sizes) == LIMIT


def test_kernels_of_users_are_limited_too(result_sizes):
    pg.register_kernel("Tanh", "toy", lambda x: np.tanh(x))
    try:
        with pytest.raises(MemoryError, match="broadcast_to: an array"):
            pg.broadcast_to(pg.tanh(pg.asarray(X)), (2, 200))
        pg.register_kernel("Concat", "toy", lambda *xs, axis: np.concatenate(xs, axis))
        with pytest.raises(MemoryError, match="concat: an array"):
            pg.concat([X, X])
    finally:
        pg.unregister_kernel("Tanh", "toy")
        pg.unregister_kernel("Concat", "toy")


@pytest.mark.parametrize(
    ("limit", "error"),
    [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)],
)
def test_an_invalid_limit_is_refused(limit, error):
    arrays = runtime("cpu").arrays
    with pytest.raises(error, match=r"^Runtime: max_nbytes must be .*got "):
        Runtime(arrays=arrays, kernels={}, max_nbytes=limit)
