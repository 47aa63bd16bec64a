"""``tidy``, ``keep``, ``dispose`` and ``memory``."""

import gc
import threading
import weakref

import numpy as np
import plugrad as pg
import pytest
from plugrad_conformance.toy import toy

X = np.arange(1.0, 5.0, dtype=np.float32)


@pytest.fixture(autouse=True, scope="module")
def freeze_other_objects():
    """Freeze the objects of other tests, because each count collects garbage."""
    gc.collect()
    gc.freeze()


def is_disposed(x):
    return repr(x).startswith("<disposed")


def memory_counts(backend=None):
    """Return the numbers of tensors, cached copies, buffers and bytes."""
    gc.collect()
    m = pg.memory() if backend is None else pg.memory().backends[backend]
    return np.array([m.tensors, m.cached_copies, m.buffers, m.bytes])


# --- tidy ------------------------------------------------------------------------

# Ops with implementations, decompositions, several outputs, views and gradients.
MAKERS = [
    lambda x: [x + x],
    lambda x: [pg.exp(x), pg.tanh(x * 2.0)],
    lambda x: [pg.softmax(x), pg.gelu(x), pg.std(x)],
    lambda x: [*pg.split(x, 2), *pg.top_k(x, k=2)],
    lambda x: [pg.unique_values(x)],
    lambda x: [x[1:], pg.reshape(x, (2, 2)), pg.zeros((3,))],
    lambda x: list(pg.value_and_grad(lambda x: pg.sum(pg.softmax(x) * x))(x)),
]


@pytest.mark.parametrize("make", MAKERS)
def test_results_of_ops_in_a_block_are_disposed(make, backend):
    x = pg.asarray(X)
    with pg.tidy():
        results = make(x)
        values = [y.numpy().copy() for y in results]
    assert all(map(is_disposed, results))
    kept = pg.tidy(lambda: make(x))
    for y, value in zip(kept, values, strict=True):
        np.testing.assert_array_equal(y.numpy(), value)
    assert x.tolist() == X.tolist()


def test_uploads_in_a_block_are_disposed(backend):
    with pg.tidy():
        uploads = [pg.asarray(X), pg.asarray(1.0), pg.asarray(X, copy=False)]
        uploads += [pg.from_dlpack(X), pg.zeros_like(X)]
        v = pg.Variable(X)
        kept = pg.keep(pg.asarray(X))
        assert (uploads[0] * 2.0).tolist() == (
            2 * X
        ).tolist()  # the constant 2 is cached
    assert all(map(is_disposed, uploads))
    assert v.numpy().tolist() == kept.tolist() == X.tolist()
    assert (kept * 2.0).tolist() == (2 * X).tolist()
    assert pg.tidy(lambda: [pg.asarray(X)])[0].tolist() == X.tolist()


def test_returned_tensors_in_containers_stay(backend):
    x = pg.asarray(X)
    seen = []

    def f():
        seen.append(x * 2.0)
        y = seen[0] + 1.0
        return {"a": y, "b": [x - 1.0, (x, None, "text", 3)]}

    result = pg.tidy(f)
    assert is_disposed(seen[0])
    assert result["a"].tolist() == (X * 2 + 1).tolist()
    assert result["b"][0].tolist() == (X - 1).tolist()
    assert result["b"][1][0] is x
    assert result["b"][1][1:] == (None, "text", 3)
    assert pg.tidy(lambda: "nothing") == "nothing"


def test_kept_tensors_outlive_all_blocks(backend):
    x = pg.asarray(X)
    with pg.tidy():
        with pg.tidy():
            y, z = pg.keep((x + 1.0, [x + 2.0]))
            lost = x + 3.0
        assert is_disposed(lost)
    assert (y + z[0]).tolist() == (2 * X + 3).tolist()
    assert pg.keep(x) is x  # outside of all blocks it has no effect


def test_a_tensor_returned_by_an_inner_block_belongs_to_the_outer_block(backend):
    x = pg.asarray(X)
    with pg.tidy():
        y = pg.tidy(lambda: x + 1.0)
        assert not is_disposed(y)
    assert is_disposed(y)


def test_values_of_variables_stay(backend):
    v = pg.Variable(X)
    with pg.tidy():
        first = v.value * 2.0
        v.assign(first)
        w = pg.Variable(v.value + 1.0)
        v.assign(w.value * 10.0)
        u = {"w": pg.Variable(first - 1.0)}
    assert v.numpy().tolist() == ((2 * X + 1) * 10).tolist()
    assert w.numpy().tolist() == (2 * X + 1).tolist()
    assert u["w"].numpy().tolist() == (2 * X - 1).tolist()


def test_an_error_disposes_the_tensors_of_the_block(backend):
    x = pg.asarray(X)
    results = []

    def fail():
        results.append(x + x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pg.tidy(fail)
    assert is_disposed(results[0])
    assert (x + x).tolist() == (2 * X).tolist()  # and no block is active


def test_tensors_that_a_tape_saved_stay_valid(backend):
    def f(x):
        with pg.tidy():
            y = pg.tanh(x)
            z = pg.keep(y * y)
        assert is_disposed(y)
        return pg.sum(z)

    plain = lambda x: pg.sum(pg.tanh(x) * pg.tanh(x))
    for order in range(3):
        np.testing.assert_allclose(
            f(pg.asarray(X / 4)).numpy(), plain(pg.asarray(X / 4)).numpy(), rtol=1e-5
        )
        if order < 2:
            f, plain = (pg.grad(lambda x, g=g: pg.sum(g(x))) for g in (f, plain))


def test_a_pullback_outlives_the_block(backend):
    x = pg.asarray(X)
    value, pull_back = pg.tidy(lambda: pg.vjp(lambda x: pg.exp(x) * x, x))
    (dx,) = pull_back(pg.ones((4,)))
    np.testing.assert_allclose(dx.numpy(), np.exp(X) * (X + 1), rtol=1e-5)
    pg.dispose(value)
    assert pull_back(pg.ones((4,)))[0].tolist() == dx.tolist()


def test_tensors_from_outside_the_block_stay(backend):
    x = pg.asarray(X)
    y = x + 1.0
    with pg.tidy():
        same = pg.asarray(x), pg.asarray(y), pg.stop_gradient(y)
        moved = y.to(pg.get_backend())
    for t in (x, y, *same, moved):
        assert not is_disposed(t)


def test_views_of_disposed_tensors_stay_valid(backend):
    x = pg.asarray(X)
    y = x + 1.0
    view = pg.reshape(y, (2, 2))
    pg.dispose(y)
    assert view.tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_a_moved_tensor_is_disposed_and_its_source_is_not(backend):
    with toy():
        x = pg.asarray(X)
        with pg.tidy():
            moved = x.to("toy")
        assert is_disposed(moved)
        assert x.tolist() == X.tolist()


def test_tensors_of_other_threads_stay(backend):
    x = pg.asarray(X)
    results = []
    with pg.tidy():
        thread = threading.Thread(target=lambda: results.append(x + 1.0))
        thread.start()
        thread.join()
    assert results[0].tolist() == (X + 1).tolist()


def test_a_block_keeps_no_tensor_alive(backend):
    x = pg.asarray(X)
    with pg.tidy():
        y = x + 1.0
        reference = weakref.ref(y)
        del y
        assert reference() is None
        x = pg.keep(x * 0.5)  # from now on, the constant is cached
        before = memory_counts()
        for _ in range(1000):
            x = pg.keep(x * 0.5)
        np.testing.assert_array_equal(memory_counts(), before)


async def coroutine():
    return 1


@pytest.mark.parametrize("f", [lambda: (x for x in [1]), coroutine])
def test_functions_that_would_run_later_are_refused(f):
    with pytest.raises(TypeError, match=r"tidy: f returned a .*; use `with tidy\(\):`"):
        pg.tidy(f)


# --- dispose ---------------------------------------------------------------------


def test_dispose_empties_a_tree(backend):
    x, y, z = (pg.asarray(X) + i for i in range(3))
    other = pg.stop_gradient(x)
    v = pg.Variable(X)
    pg.dispose({"x": x, "rest": [y, (z, None, 1.5, "text")], "v": v})
    pg.dispose(x)
    assert all(map(is_disposed, (x, y, z)))
    with pytest.raises(ValueError, match="has been disposed"):
        v.numpy()
    with pytest.raises(ValueError, match=r"tensor of shape \(4,\).*been disposed"):
        x + 1.0
    assert other.tolist() == X.tolist()


# --- memory ----------------------------------------------------------------------


def test_tensors_buffers_and_bytes(backend):
    before = memory_counts()
    before_here = memory_counts(backend)
    x = pg.asarray(np.ones((8, 4), np.float32))
    y = x + x
    np.testing.assert_array_equal(memory_counts() - before, [2, 0, 2, 256])
    np.testing.assert_array_equal(memory_counts(backend) - before_here, [2, 0, 2, 256])
    other = pg.stop_gradient(y)
    np.testing.assert_array_equal(memory_counts() - before, [3, 0, 2, 256])
    pg.dispose(y)
    np.testing.assert_array_equal(memory_counts() - before, [2, 0, 2, 256])
    del other, x
    np.testing.assert_array_equal(memory_counts() - before, [0, 0, 0, 0])
    np.testing.assert_array_equal(memory_counts(backend), before_here)


def test_views_share_a_buffer_on_cpu():
    with pg.use_backend("cpu"):
        before = memory_counts()
        x = pg.asarray(np.ones((8, 4), np.float32)) + 1.0
        views = [pg.reshape(x, (32,)), pg.broadcast_to(x, (256, 8, 4)), x[1:3]]
        np.testing.assert_array_equal(memory_counts() - before, [4, 0, 1, 128])
        del x
        np.testing.assert_array_equal(memory_counts() - before, [3, 0, 1, 128])
        views.clear()
        np.testing.assert_array_equal(memory_counts() - before, [0, 0, 0, 0])


def test_cached_copies_are_counted():
    with toy(), pg.use_backend("cpu"):
        before = pg.memory().backends
        x = pg.asarray(X)
        with pg.use_backend("toy"):
            y = pg.stop_gradient(x) + x  # handles share a cached copy
        m = pg.memory()
        assert m.backends["toy"] == type(m.backends["toy"])(1, 1, 2, 32, None, None)
        assert m.backends["cpu"].tensors - before["cpu"].tensors == 1
        assert m.cached_copies >= 1
        text = str(m).splitlines()
        assert " ".join(text[0].split()) == (
            "backend tensors copies buffers bytes peak kept"
        )
        assert ["toy", "1", "1", "2", "32"] in [line.split() for line in text]
        pg.dispose([x, y])
        assert pg.memory().backends["toy"].bytes == 0


def test_a_backend_may_report_its_peak():
    with toy() as arrays, pg.use_backend("toy"):
        assert pg.memory().backends["toy"].peak is None
        arrays.peak = lambda: 4096
        assert pg.memory().backends["toy"].peak == 4096
        assert "4,096" in str(pg.memory())


def test_memory_while_other_threads_compute(backend):
    pg.asarray(X) + 1.0  # so that 1.0 is on the backend
    before = memory_counts(backend)
    done = threading.Event()
    started = threading.Barrier(3)

    def compute():
        with pg.use_backend(backend):
            x = pg.asarray(X)
            started.wait()
            while not done.is_set():
                x = pg.tanh(x + 1.0)

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    tensors = [pg.asarray(X) for _ in range(9)]
    started.wait()
    for _ in range(5):  # each thread holds a tensor, and one or two that it makes
        found = pg.memory().backends[backend].tensors - before[0]
        assert len(tensors) + 2 <= found <= len(tensors) + 2 * 4
    done.set()
    for thread in threads:
        thread.join()
    del tensors
    np.testing.assert_array_equal(memory_counts(backend), before)


def test_memory_does_not_disturb_other_threads():
    """A reference to an unfinished tuple would cause a SystemError in its thread."""
    done = threading.Event()
    failures = []

    def build():
        try:
            while not done.is_set():
                assert len(tuple(i for i in range(40))) == 40
        except SystemError as error:
            failures.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    x = pg.ones((3,))
    for _ in range(50):
        assert pg.memory().tensors >= 1
    done.set()
    thread.join()
    assert not failures
    assert x.shape == (3,)


def test_a_training_loop_does_not_grow_memory(backend):
    v = pg.Variable(np.ones((4,), np.float32))
    x = pg.asarray(X)
    loss = lambda: pg.mean(pg.squared_difference(pg.tanh(v.value * x), 0.5))

    def step():
        value, found = pg.variable_grads(loss)
        v.assign(v.value - 0.1 * found[v])
        return value

    gc.collect()
    gc.disable()  # so that reference cycles are noticed
    try:
        pg.dispose([pg.tidy(step), step()])
        before = pg.memory()
        for i in range(200):
            last = pg.tidy(step) if i % 2 else step()
        pg.dispose(last)
        assert pg.memory().bytes == before.bytes
    finally:
        gc.enable()


def test_results_of_custom_grad_are_disposed(backend):
    square = pg.custom_grad(lambda x: (x * x, lambda dy: dy * 2 * x))
    x = pg.asarray(X)
    with pg.tidy():
        y = square(x)
        dx = pg.grad(lambda x: pg.sum(square(x)))(x)
        kept = pg.keep(square(x))
    assert is_disposed(y)
    assert is_disposed(dx)
    assert kept.tolist() == (X * X).tolist()
    assert pg.tidy(lambda: square(x)).tolist() == (X * X).tolist()
