"""Batches of arrays and iterables, in an order that can be saved and resumed.

Each iteration over a batches object yields one epoch. ``state`` is its position;
assigning a saved ``state`` continues there, with the same batches.

Contents: ``Batches``; ``IterableBatches``; padding; ``Prefetch``.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
import plugrad as pg
from plugrad.plugin import hinted

from ._arguments import check_source
from ._trees import Tree, check_choice, check_integer, check_shuffle

Array = np.ndarray[Any, np.dtype[Any]]
LAST = ("drop", "pad", "keep")


class Source(Protocol):
    """Batches whose position can be saved, as ``fit`` and ``Prefetch`` require."""

    state: dict[str, int]

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of the rest of this epoch."""


class Padded(NamedTuple):
    """A batch of a fixed size; with ``last="pad"``, all batches are ``Padded``.

    Attributes:
        data: A tree of arrays, padded with zeros after the examples.
        mask: True for the rows that are examples.

    """

    data: Tree
    mask: Array


class Batches:
    """Batches of arrays in memory, or of memory-mapped files.

    Args:
        data: A tree of arrays with the same number of rows, such as ``(images,
            labels)``. Rows of memory-mapped arrays (``numpy.load(path,
            mmap_mode="r")``) are read when their batch is yielded.
        size: The number of rows of a batch.
        shuffle: Seed of the shuffle. Each epoch has its own order, derived from the
            seed and the epoch number. None: no shuffling.
        last: What happens to the last rows if they do not fill a batch. ``"drop"``
            omits them, ``"pad"`` fills the batch with zeros and yields all batches as
            ``Padded(data, mask)``, and ``"keep"`` yields a smaller batch, for which
            ``pg.jit`` records the step again.

    Attributes:
        state: The epoch and the number of batches taken from it, as a dict.

    Example:
        >>> batches = pt.Batches(np.arange(5), 2, shuffle=0)
        >>> [x.tolist() for x in batches], [x.tolist() for x in batches]
        ([[0, 2], [4, 3]], [[3, 1], [4, 0]])
        >>> [batch.mask.tolist() for batch in pt.Batches(np.arange(3), 2, last="pad")]
        [[True, True], [True, False]]

    """

    @hinted
    def __init__(
        self, data: Tree, size: int, *, shuffle: int | None = None, last: str = "drop"
    ) -> None:
        arrays = pg.tree.leaves(data)
        rows = {len(x) for x in arrays if np.ndim(x)}
        if not all(map(np.ndim, arrays)):
            raise ValueError(
                "Batches: an array has no row axis; pass arrays with at least one axis"
            )
        if len(rows) != 1:
            raise ValueError(
                f"Batches: arrays must have the same number of rows, got {sorted(rows)}"
            )
        (self.rows,) = rows
        check_shuffle("Batches", shuffle)
        self.data, self.shuffle = data, shuffle
        self.last = check_choice("Batches", "last", last, LAST)
        self.size = check_integer("Batches", "size", size)
        if len(self) == 0:
            raise ValueError(
                f"Batches: {self.rows} rows do not fill a batch of {size}; use a "
                'smaller size, or last="pad"'
            )
        self.state = {"epoch": 0, "batch": 0}

    def __repr__(self) -> str:
        """Return the settings and the state."""
        settings = f"rows={self.rows}, size={self.size}, shuffle={self.shuffle}"
        return f"Batches({settings}, last={self.last!r}, state={self.state})"

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        full, remaining = divmod(self.rows, self.size)
        return full + (remaining > 0 and self.last != "drop")

    def order(self, epoch: int) -> Array | None:
        """Return the order of the rows in an epoch; None without shuffling."""
        if self.shuffle is None:
            return None
        key = pg.random.fold_in(pg.random.key(self.shuffle), epoch)
        return pg.random.permutation(self.rows, seed=key).numpy()

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of the rest of this epoch."""
        epoch = self.state["epoch"]
        order = self.order(epoch)
        for batch in range(self.state["batch"], len(self)):
            rows: Any = slice(batch * self.size, (batch + 1) * self.size)
            if order is not None:
                rows = order[rows]
            data = pg.tree.map(
                lambda x, rows=rows: np.ascontiguousarray(x[rows]), self.data
            )
            last = batch + 1 == len(self)
            self.state = {"epoch": epoch + last, "batch": 0 if last else batch + 1}
            yield padded(data, self.size) if self.last == "pad" else data


class IterableBatches:
    """Batches of an iterable of examples, such as the lines of a file.

    Args:
        examples: A function that returns an iterator over the examples of an epoch.
            Examples are trees of arrays or numbers, all with the same shapes.
        size: The number of examples of a batch.
        shuffle: Seed of the shuffle. None: the order of the iterator.
        buffer: The number of upcoming examples from which each is drawn when shuffling.
        last: What happens to examples that do not fill a batch: see ``Batches``.

    Attributes:
        state: The epoch and the number of batches taken from it, as a dict. Resuming
            reads the earlier examples and discards them.

    Example:
        >>> batches = pt.IterableBatches(lambda: iter(range(5)), 2, last="keep")
        >>> [x.tolist() for x in batches]
        [[0, 1], [2, 3], [4]]

    """

    def __init__(
        self,
        examples: Callable[[], Iterable[Any]],
        size: int,
        *,
        shuffle: int | None = None,
        buffer: int = 1024,
        last: str = "drop",
    ) -> None:
        if not callable(examples):
            raise TypeError(
                "IterableBatches: examples must be a function that returns an "
                f"iterator, one for each epoch, got {type(examples).__name__}"
            )
        check_shuffle("IterableBatches", shuffle)
        self.examples, self.shuffle = examples, shuffle
        self.size = check_integer("IterableBatches", "size", size)
        self.buffer = check_integer("IterableBatches", "buffer", buffer)
        self.last = check_choice("IterableBatches", "last", last, LAST)
        self.state = {"epoch": 0, "batch": 0}

    def __repr__(self) -> str:
        """Return the settings and the state."""
        settings = f"size={self.size}, shuffle={self.shuffle}, last={self.last!r}"
        return f"IterableBatches({settings}, state={self.state})"

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of the rest of this epoch."""
        epoch, taken = self.state["epoch"], self.state["batch"]
        examples = iter(self._shuffled(epoch))
        for number, rows in enumerate(iter(lambda: [*islice(examples, self.size)], [])):
            if number < taken or (len(rows) < self.size and self.last == "drop"):
                continue
            batch = pg.tree.map(lambda *xs: np.stack(xs), *rows)
            self.state = {"epoch": epoch, "batch": number + 1}
            yield padded(batch, self.size) if self.last == "pad" else batch
        self.state = {"epoch": epoch + 1, "batch": 0}

    def _shuffled(self, epoch: int) -> Iterable[Any]:
        if self.shuffle is None:
            yield from self.examples()
            return
        rng = np.random.default_rng((self.shuffle, epoch))
        buffered = list[Any]()
        for example in self.examples():
            buffered.append(example)
            if len(buffered) == self.buffer:
                i = int(rng.integers(self.buffer))
                buffered[i], buffered[-1] = buffered[-1], buffered[i]
                yield buffered.pop()
        for i in rng.permutation(len(buffered)):
            yield buffered[i]


def padded(batch: Tree, size: int, /) -> Padded:
    """Return a batch padded with zeros to ``size`` rows.

    Example:
        >>> pt.padded(np.asarray([1.0, 2.0]), 3)
        Padded(data=array([1., 2., 0.]), mask=array([ True,  True, False]))

    """
    rows = len(pg.tree.leaves(batch)[0])

    def filled(x: Array) -> Array:
        return np.concatenate([x, np.zeros((size - rows, *x.shape[1:]), x.dtype)])

    data = batch if rows == size else pg.tree.map(filled, batch)
    return Padded(data, np.arange(size) < rows)


# --- prefetching -----------------------------------------------------------------


class Prefetch:
    """Batches that a thread prepares while the previous step runs.

    Args:
        source: ``Batches``, or another iterable with a ``state``.
        count: The number of batches that are prepared ahead.

    Attributes:
        state: The position after the last batch taken; batches that are prepared but
            not taken do not count.

    Example:
        >>> batches = pt.Prefetch(pt.Batches(np.arange(4), 2))
        >>> [x.tolist() for x in batches], batches.state
        ([[0, 1], [2, 3]], {'epoch': 1, 'batch': 0})

    """

    def __init__(self, source: Source, count: int = 2) -> None:
        check_source("Prefetch", source)
        self.source = source
        self.count = check_integer("Prefetch", "count", count)
        self.state = source.state

    def __repr__(self) -> str:
        """Return the source and the number of prepared batches."""
        return f"Prefetch({self.source!r}, count={self.count})"

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of the rest of this epoch."""
        self.source.state = self.state
        ready: queue.Queue[tuple[Any, Any]] = queue.Queue(self.count)
        stop = threading.Event()
        work = contextvars.copy_context().run  # runs in the scopes of the caller
        thread = threading.Thread(
            target=work, args=(self._fill, ready, stop), name="prefetch", daemon=True
        )
        thread.start()
        try:
            while True:
                batch, state = ready.get()
                if isinstance(batch, BaseException):
                    raise batch
                self.state = state
                if batch is _END:
                    return
                yield batch
        finally:
            stop.set()
            thread.join()

    def _fill(self, ready: queue.Queue[tuple[Any, Any]], stop: threading.Event) -> None:
        def put(item: tuple[Any, Any]) -> bool:
            while not stop.is_set():
                try:
                    ready.put(item, timeout=0.05)
                except queue.Full:
                    continue
                return True
            return False

        try:
            for batch in self.source:
                if not put((batch, self.source.state)):
                    return
            put((_END, self.source.state))
        except BaseException as error:  # raised again where the batches are consumed
            put((error, None))


_END = object()
