"""``plugin.prepared``, used as in a third-party backend."""

import gc
import threading
import weakref

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import prepared
from plugrad_conformance.toy import toy

W = np.arange(12.0, dtype=np.float32).reshape(3, 4)
A = np.ones((2, 3), np.float32)
transpositions = []


class Form(np.ndarray):
    """A prepared form of an array; unlike NumPy arrays, it may be weakly referenced."""


def transposed(b):
    transpositions.append(1)
    return np.ascontiguousarray(b.T).view(Form)


def product(a, b, *, transpose_a, transpose_b):
    """Multiply matrices; the kernel needs its second operand transposed."""
    a = a.T if transpose_a else a
    return a @ (b if transpose_b is True else prepared(b, transposed).T).view(
        np.ndarray
    )


@pytest.fixture
def other():
    transpositions.clear()
    with toy("other", extra={"BatchMatMul": product}), pg.use_backend("other"):
        yield
    gc.collect()


def count_forms():
    gc.collect()
    return pg.memory().backends["other"].cached_copies


@pytest.mark.usefixtures("other")
def test_a_form_is_kept_from_the_second_call_on():
    w = pg.asarray(W)
    counts, form_counts = [], []
    for _ in range(4):
        assert (pg.matmul(A, w).numpy() == A @ W).all()
        counts.append(len(transpositions))
        form_counts.append(count_forms())
    assert counts == [1, 2, 2, 2]
    assert form_counts == [0, 1, 1, 1]


@pytest.mark.usefixtures("other")
def test_the_form_of_a_temporary_result_is_not_kept():
    w = pg.asarray(W)
    for number in range(5):
        y = pg.matmul(A, w + float(number))
        assert (y.numpy() == A @ (W + number)).all()
        assert count_forms() == 0
    assert len(transpositions) == 5


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("removal", ["del", "dispose", "tidy", "assign"])
def test_a_form_goes_with_its_array(removal):
    before = pg.memory().backends["other"].bytes
    with pg.tidy():
        w = pg.asarray(W)
        for _ in range(3):
            pg.matmul(A, w)
        form = weakref.ref(prepared(w._data, transposed))
        assert count_forms() == 1
        if removal == "del":
            del w
        elif removal == "dispose":
            w.dispose()
        elif removal == "assign":
            w[0] = 5.0
            assert (pg.matmul(A, w).numpy() == A @ w.numpy()).all()
    gc.collect()
    assert form() is None
    assert count_forms() == 0
    assert pg.memory().backends["other"].bytes <= before + A.nbytes


@pytest.mark.usefixtures("other")
def test_handles_share_a_form_and_memory_counts_it_once():
    w = pg.asarray(W)
    before = pg.memory().backends["other"]
    handles = [w, pg.stop_gradient(w), pg.stop_gradient(w)]
    for handle in handles:
        pg.matmul(A, handle)
    assert len(transpositions) == 2
    after = pg.memory().backends["other"]
    assert after.cached_copies - before.cached_copies == 1
    assert after.bytes - before.bytes == W.nbytes


@pytest.mark.usefixtures("other")
def test_a_cached_copy_of_another_backend_has_a_form():
    with pg.use_backend("cpu"):
        w = pg.asarray(W)
    for _ in range(4):
        assert (pg.matmul(A, w).numpy() == A @ W).all()
    assert len(transpositions) == 2
    assert count_forms() == 2  # the copy and its form


@pytest.mark.usefixtures("other")
def test_a_replay_uses_the_form_of_its_argument():
    one = pg.asarray(W)
    two = pg.asarray(W + 1.0)
    f = pg.jit(lambda a, w: pg.matmul(a, w))
    for _ in range(4):
        assert (f(A, one).numpy() == A @ W).all()
        assert (f(A, two).numpy() == A @ (W + 1)).all()
    assert len(transpositions) == 4


def test_shared_memory_has_no_form():
    values = W.copy()
    with pg.use_backend("cpu"):
        w = pg.asarray(values, copy=False)
    for number in range(4):
        values[0] = number
        assert (values == prepared(w._data, transposed).T).all()


def test_memory_that_is_exported_later_loses_its_form():
    with pg.use_backend("cpu"):
        w = pg.asarray(W)
    for _ in range(3):
        prepared(w._data, transposed)
    w.__dlpack__()
    for number in range(4):
        w._data[0] = number
        assert (w.numpy() == prepared(w._data, transposed).T).all()


def test_a_form_that_is_declared_as_reused_is_kept_at_once():
    transpositions.clear()
    w = W.copy()
    first = prepared(w, transposed, reused=True)
    assert prepared(w, transposed) is first
    assert len(transpositions) == 1


def test_forms_differ_by_function():
    w = W.copy()
    sums = lambda b: (b.sum(0), b.sum(1))
    for _ in range(2):
        assert prepared(w, transposed).shape == (4, 3)
        assert [x.shape for x in prepared(w, sums)] == [(4,), (3,)]


def test_a_view_is_not_kept_because_it_would_keep_its_array_alive():
    w = W.copy()
    reference = weakref.ref(w)
    for _ in range(3):
        assert prepared(w, np.transpose).base is w
    del w
    gc.collect()
    assert reference() is None


def test_the_form_of_an_object_without_weak_references_is_not_kept():
    transpositions.clear()
    number = np.float32(2.0)
    for _ in range(3):
        prepared(number, lambda x: transpositions.append(1) or x + 1)
    assert len(transpositions) == 3


def test_an_error_keeps_nothing():
    w = W.copy()

    def fails(b):
        raise ValueError("no memory")

    for _ in range(3):
        with pytest.raises(ValueError, match="no memory"):
            prepared(w, fails)
    assert prepared(w, transposed).shape == (4, 3)


def test_threads_get_the_form_of_their_array():
    """Temporary arrays reuse the ids of earlier ones."""
    wrong = []
    started = threading.Barrier(4)
    shared = [np.full((3, 4), n, np.float32) for n in range(8)]

    def work(seed):
        started.wait()
        for number in range(300):
            value = (seed * 1000 + number) % 997
            temporary = np.full((3, 4), value, np.float32)
            for w, wanted in ((temporary, value), (shared[number % 8], number % 8)) * 3:
                if (prepared(w, transposed) != wanted).any():
                    wrong.append((seed, number))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len({id(prepared(w, transposed)) for w in shared for _ in range(3)}) == 8
