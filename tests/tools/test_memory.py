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
def others_are_frozen():
    """Hide from the collector what other tests have left: it runs for each count."""
    gc.collect()
    gc.freeze()


def is_gone(x):
    return repr(x).startswith("<disposed")


def held(backend=None):
    """Return tensors, cached copies, buffers and bytes of a backend, or of all."""
    gc.collect()
    m = pg.memory() if backend is None else pg.memory().backends[backend]
    return np.array([m.tensors, m.cached_copies, m.buffers, m.bytes])


# --- tidy ------------------------------------------------------------------------

# What ops make, by the kind of way: implementations, decompositions, several outputs.
MAKE = [
    lambda x: [x + x],
    lambda x: [pg.exp(x), pg.tanh(x * 2.0)],
    lambda x: [pg.softmax(x), pg.gelu(x), pg.std(x)],
    lambda x: [*pg.split(x, 2), *pg.top_k(x, k=2)],
    lambda x: [pg.unique_values(x)],
    lambda x: [x[1:], pg.reshape(x, (2, 2)), pg.zeros((3,))],
    lambda x: list(pg.value_and_grad(lambda x: pg.sum(pg.softmax(x) * x))(x)),
]


@pytest.mark.parametrize("make", MAKE)
def test_what_ops_make_inside_is_disposed(make, backend):
    x = pg.asarray(X)
    with pg.tidy():
        made = make(x)
        values = [y.numpy().copy() for y in made]
    assert all(map(is_gone, made))
    kept = pg.tidy(lambda: make(x))
    for y, value in zip(kept, values, strict=True):
        np.testing.assert_array_equal(y.numpy(), value)
    assert x.tolist() == X.tolist()


def test_what_is_uploaded_inside_is_disposed(backend):
    with pg.tidy():
        made = [pg.asarray(X), pg.asarray(1.0), pg.asarray(X, copy=False)]
        made += [pg.from_dlpack(X), pg.zeros_like(X)]
        v = pg.Variable(X)
        kept = pg.keep(pg.asarray(X))
        assert (made[0] * 2.0).tolist() == (2 * X).tolist()  # 2 is kept for later
    assert all(map(is_gone, made))
    assert v.numpy().tolist() == kept.tolist() == X.tolist()
    assert (kept * 2.0).tolist() == (2 * X).tolist()
    assert pg.tidy(lambda: [pg.asarray(X)])[0].tolist() == X.tolist()


def test_what_is_returned_in_any_nesting_stays(backend):
    x = pg.asarray(X)
    seen = []

    def f():
        seen.append(x * 2.0)
        y = seen[0] + 1.0
        return {"a": y, "b": [x - 1.0, (x, None, "text", 3)]}

    result = pg.tidy(f)
    assert is_gone(seen[0])
    assert result["a"].tolist() == (X * 2 + 1).tolist()
    assert result["b"][0].tolist() == (X - 1).tolist()
    assert result["b"][1][0] is x
    assert result["b"][1][1:] == (None, "text", 3)
    assert pg.tidy(lambda: "nothing") == "nothing"


def test_what_is_kept_stays_in_all_blocks(backend):
    x = pg.asarray(X)
    with pg.tidy():
        with pg.tidy():
            y, z = pg.keep((x + 1.0, [x + 2.0]))
            lost = x + 3.0
        assert is_gone(lost)
    assert (y + z[0]).tolist() == (2 * X + 3).tolist()
    assert pg.keep(x) is x  # outside of all blocks it has no effect


def test_what_an_inner_block_returns_belongs_to_the_outer_one(backend):
    x = pg.asarray(X)
    with pg.tidy():
        y = pg.tidy(lambda: x + 1.0)
        assert not is_gone(y)
    assert is_gone(y)


def test_what_a_variable_was_given_stays(backend):
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


def test_an_error_disposes_too(backend):
    x = pg.asarray(X)
    made = []

    def fail():
        made.append(x + x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pg.tidy(fail)
    assert is_gone(made[0])
    assert (x + x).tolist() == (2 * X).tolist()  # and nothing watches any more


def test_what_a_tape_saved_stays_valid(backend):
    def f(x):
        with pg.tidy():
            y = pg.tanh(x)
            z = pg.keep(y * y)
        assert is_gone(y)
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


def test_what_was_made_outside_is_left_alone(backend):
    x = pg.asarray(X)
    y = x + 1.0
    with pg.tidy():
        same = pg.asarray(x), pg.asarray(y), pg.stop_gradient(y)
        there = y.to(pg.get_backend())
    for t in (x, y, *same, there):
        assert not is_gone(t)


def test_views_of_what_is_disposed_stay_valid(backend):
    x = pg.asarray(X)
    y = x + 1.0
    view = pg.reshape(y, (2, 2))
    pg.dispose(y)
    assert view.tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_a_move_inside_is_disposed_and_its_source_is_not(backend):
    with toy():
        x = pg.asarray(X)
        with pg.tidy():
            moved = x.to("toy")
        assert is_gone(moved)
        assert x.tolist() == X.tolist()


def test_other_threads_are_left_alone(backend):
    x = pg.asarray(X)
    made = []
    with pg.tidy():
        thread = threading.Thread(target=lambda: made.append(x + 1.0))
        thread.start()
        thread.join()
    assert made[0].tolist() == (X + 1).tolist()


def test_a_block_holds_nothing_by_itself(backend):
    x = pg.asarray(X)
    with pg.tidy():
        y = x + 1.0
        there = weakref.ref(y)
        del y
        assert there() is None
        x = pg.keep(x * 0.5)  # the constant is there from now on
        before = held()
        for _ in range(1000):
            x = pg.keep(x * 0.5)
        np.testing.assert_array_equal(held(), before)


async def coroutine():
    return 1


@pytest.mark.parametrize("f", [lambda: (x for x in [1]), coroutine])
def test_what_would_run_later_is_refused(f):
    with pytest.raises(TypeError, match=r"tidy: f returned a .*; use `with tidy\(\):`"):
        pg.tidy(f)


# --- dispose ---------------------------------------------------------------------


def test_dispose_empties_a_tree(backend):
    x, y, z = (pg.asarray(X) + i for i in range(3))
    other = pg.stop_gradient(x)
    v = pg.Variable(X)
    pg.dispose({"x": x, "rest": [y, (z, None, 1.5, "text")], "v": v})
    pg.dispose(x)
    assert all(map(is_gone, (x, y, z)))
    with pytest.raises(ValueError, match="has been disposed"):
        v.numpy()
    with pytest.raises(ValueError, match=r"tensor of shape \(4,\).*been disposed"):
        x + 1.0
    assert other.tolist() == X.tolist()


# --- memory ----------------------------------------------------------------------


def test_tensors_buffers_and_bytes(backend):
    before = held()
    here = held(backend)
    x = pg.asarray(np.ones((8, 4), np.float32))
    y = x + x
    np.testing.assert_array_equal(held() - before, [2, 0, 2, 256])
    np.testing.assert_array_equal(held(backend) - here, [2, 0, 2, 256])
    other = pg.stop_gradient(y)
    np.testing.assert_array_equal(held() - before, [3, 0, 2, 256])
    pg.dispose(y)
    np.testing.assert_array_equal(held() - before, [2, 0, 2, 256])
    del other, x
    np.testing.assert_array_equal(held() - before, [0, 0, 0, 0])
    np.testing.assert_array_equal(held(backend), here)


def test_views_share_a_buffer_on_cpu():
    with pg.use_backend("cpu"):
        before = held()
        x = pg.asarray(np.ones((8, 4), np.float32)) + 1.0
        views = [pg.reshape(x, (32,)), pg.broadcast_to(x, (256, 8, 4)), x[1:3]]
        np.testing.assert_array_equal(held() - before, [4, 0, 1, 128])
        del x
        np.testing.assert_array_equal(held() - before, [3, 0, 1, 128])
        views.clear()
        np.testing.assert_array_equal(held() - before, [0, 0, 0, 0])


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


def test_a_backend_may_tell_its_peak():
    with toy() as arrays, pg.use_backend("toy"):
        assert pg.memory().backends["toy"].peak is None
        arrays.peak = lambda: 4096
        assert pg.memory().backends["toy"].peak == 4096
        assert "4,096" in str(pg.memory())


def test_a_report_while_others_compute(backend):
    pg.asarray(X) + 1.0  # so that 1.0 is on the backend
    before = held(backend)
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
    mine = [pg.asarray(X) for _ in range(9)]
    started.wait()
    for _ in range(5):  # each thread holds a tensor, and one or two that it makes
        found = pg.memory().backends[backend].tensors - before[0]
        assert len(mine) + 2 <= found <= len(mine) + 2 * 4
    done.set()
    for thread in threads:
        thread.join()
    del mine
    np.testing.assert_array_equal(held(backend), before)


def test_a_report_disturbs_no_other_thread():
    """A tuple that is not finished must not be held: its maker gets a SystemError."""
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


def test_a_training_loop_holds_memory_flat(backend):
    v = pg.Variable(np.ones((4,), np.float32))
    x = pg.asarray(X)
    loss = lambda: pg.mean(pg.squared_difference(pg.tanh(v.value * x), 0.5))

    def step():
        value, found = pg.variable_grads(loss)
        v.assign(v.value - 0.1 * found[v])
        return value

    gc.collect()
    gc.disable()  # so that a cycle would show
    try:
        pg.dispose([pg.tidy(step), step()])
        before = pg.memory()
        for i in range(200):
            last = pg.tidy(step) if i % 2 else step()
        pg.dispose(last)
        assert pg.memory().bytes == before.bytes
    finally:
        gc.enable()


def test_what_custom_grad_returns_is_disposed(backend):
    square = pg.custom_grad(lambda x: (x * x, lambda dy: dy * 2 * x))
    x = pg.asarray(X)
    with pg.tidy():
        y = square(x)
        dx = pg.grad(lambda x: pg.sum(square(x)))(x)
        kept = pg.keep(square(x))
    assert is_gone(y)
    assert is_gone(dx)
    assert kept.tolist() == (X * X).tolist()
    assert pg.tidy(lambda: square(x)).tolist() == (X * X).tolist()
