"""Batches: their contents, their order, and how the order is resumed."""

import threading
import time

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest

ROWS = np.arange(10, dtype=np.int32)


def iterable(shuffle, last, size=4):
    return pt.IterableBatches(
        lambda: iter(ROWS), size, shuffle=shuffle, last=last, buffer=3
    )


def arrays(shuffle, last, size=4):
    return pt.Batches(ROWS, size, shuffle=shuffle, last=last)


def prefetched(shuffle, last, size=4):
    return pt.Prefetch(arrays(shuffle, last, size))


SOURCES = {"arrays": arrays, "iterable": iterable, "prefetched": prefetched}


def lists(batches):
    """Return batches as lists, padded ones with their masks."""
    return [pg.tree.map(np.ndarray.tolist, batch) for batch in batches]


LAST = {
    "drop": [[0, 1, 2, 3], [4, 5, 6, 7]],
    "keep": [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]],
    "pad": [
        ([0, 1, 2, 3], [True] * 4),
        ([4, 5, 6, 7], [True] * 4),
        ([8, 9, 0, 0], [True, True, False, False]),
    ],
}


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("source", SOURCES)
def test_the_last_batch_is_dropped_kept_or_padded(source, last):
    batches = SOURCES[source](None, last)
    for epoch in range(2):
        assert batches.state["epoch"] == epoch
        assert lists(batches) == LAST[last]
    assert batches.state == {"epoch": 2, "batch": 0}


@pytest.mark.parametrize("source", SOURCES)
def test_each_epoch_has_its_own_order_which_follows_from_the_seed(source):
    batches = SOURCES[source](1, "keep")
    epochs = [lists(batches) for _ in range(3)]
    flat = [[x for batch in epoch for x in batch] for epoch in epochs]
    assert all(sorted(rows) == ROWS.tolist() for rows in flat)
    assert len({*map(tuple, flat), tuple(ROWS)}) == 4
    same_seed = SOURCES[source](1, "keep")
    assert [lists(same_seed) for _ in range(3)] == epochs
    assert lists(SOURCES[source](2, "keep")) != epochs[0]


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("source", SOURCES)
def test_the_order_is_resumed_after_every_batch(source, last):
    """The state after a batch continues with the next batch, in both epochs."""
    batches = SOURCES[source](1, last)
    states = []
    found = []
    for _ in range(2):
        for batch in batches:
            states.append(dict(batches.state))
            found += lists([batch])
    for number, state in enumerate(states):
        resumed = SOURCES[source](1, last)
        resumed.state = state
        rest = []
        while resumed.state["epoch"] < 2:
            rest += lists(resumed)
        assert rest == found[number + 1 :]


def test_the_order_does_not_depend_on_the_backend(backend):
    assert arrays(7, "drop").order(3).tolist() == [3, 8, 6, 2, 4, 5, 7, 9, 0, 1]


def test_batches_of_memory_mapped_files(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(40).reshape(10, 4))
    data = {"x": np.load(path, mmap_mode="r"), "y": ROWS}
    for batch in pt.Batches(data, 3, shuffle=0):
        assert type(batch["x"]) is np.ndarray
        np.testing.assert_array_equal(batch["x"][:, 0], 4 * batch["y"])


def test_examples_may_be_trees():
    examples = lambda: ({"x": np.full(2, i), "y": i} for i in range(4))
    first, second = pt.IterableBatches(examples, 2)
    assert (first["x"].tolist(), second["y"].tolist()) == ([[0, 0], [1, 1]], [2, 3])


def test_a_thread_prepares_the_next_batches():
    taken = []

    def examples():
        for i in range(8):
            taken.append((i, threading.current_thread().name))
            yield i

    batches = iter(pt.Prefetch(pt.IterableBatches(examples, 1), 2))
    assert next(batches).tolist() == [0]
    deadline = time.monotonic() + 10
    while len(taken) < 4:  # the queue holds two, and the thread one more
        assert time.monotonic() < deadline
        time.sleep(0.001)
    time.sleep(0.05)
    assert taken == [(i, "prefetch") for i in range(4)]
    batches.close()
    assert "prefetch" not in [thread.name for thread in threading.enumerate()]


def test_an_error_in_the_thread_is_raised_by_next():
    def examples():
        yield 1
        raise OSError("the file is gone")

    batches = iter(pt.Prefetch(pt.IterableBatches(examples, 1)))
    assert next(batches).tolist() == [1]
    with pytest.raises(OSError, match="the file is gone"):
        next(batches)
    assert "prefetch" not in [thread.name for thread in threading.enumerate()]


WRONG = {
    "rows": (
        ValueError,
        lambda: pt.Batches((ROWS, ROWS[1:]), 2),
        r"number of rows, got \[9, 10\]",
    ),
    "size": (ValueError, lambda: pt.Batches(ROWS, 0), "size must be from 1"),
    "large": (ValueError, lambda: pt.Batches(ROWS, 11), "10 rows do not fill a batch"),
    "last": (
        ValueError,
        lambda: pt.Batches(ROWS, 2, last="x"),
        "'drop', 'pad', 'keep'",
    ),
    "iterator": (TypeError, lambda: pt.IterableBatches(iter(ROWS), 2), "a function"),
    "count": (ValueError, lambda: pt.Prefetch(arrays(0, "drop"), 0), "count must be"),
}


@pytest.mark.parametrize("row", WRONG)
def test_invalid_arguments_are_refused(row):
    error, call, message = WRONG[row]
    with pytest.raises(error, match=message):
        call()


def test_repr_of_batches():
    batches = pt.Batches(np.arange(5), 2, shuffle=1)
    next(iter(batches))
    shown = "Batches(rows=5, size=2, shuffle=1, last='drop', "
    shown += "state={'epoch': 0, 'batch': 1})"
    assert repr(batches) == shown
    assert repr(pt.Prefetch(batches, 3)) == f"Prefetch({shown}, count=3)"
    assert repr(pt.IterableBatches(lambda: [], 2, last="pad")) == (
        "IterableBatches(size=2, shuffle=None, last='pad', "
        "state={'epoch': 0, 'batch': 0})"
    )
