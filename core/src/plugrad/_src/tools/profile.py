"""Time and memory of a block: the table and the trace of ``profile``.

Contents: ``Record``, one run; ``Profile``, which observes them; ``Alive`` for the peak;
the table; the trace.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import Any, NamedTuple

from plugrad._src.engine import context
from plugrad._src.engine.context import Move, Run, running
from plugrad._src.engine.tape import Outputs, specs
from plugrad._src.registry import backend as backends
from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.contract import Kernel, Spec
from plugrad._src.registry.registry import registry
from plugrad._src.tensor import arguments
from plugrad._src.tensor.tensor import Home, Native

from .device import Clock, synchronize, wait
from .memory import Inputs, brief, owner

ROW = "{:22} {:10} {:14} {:>7} {:>9} {:>9} {:>9} {:>5} {:>11} {:>11}  {}"
TITLES = ["kernel", "backend", "how", "calls", "self ms", "total ms", "device ms", "%"]
TITLES += ["bytes", "moved", "inputs of the longest"]
TEXT_TITLES = {"kernel", "backend", "how", "inputs of the longest"}
SHARE = TITLES.index("%")
MAX_SCOPES = 10  # scopes below the table


@dataclass(frozen=True, slots=True)
class Record:
    """One run of a kernel.

    Attributes:
        kernel: Its name; ``plugrad.To`` for ``x.to(backend)``.
        op: The public function that runs it.
        backend: The backend that did the work; the host, if the host runs the kernel.
        how: "implementation", "decomposition", "host" or "fallback"; or "region" for
            kernels that ``jit`` runs as one function. The ``attrs`` of a region name
            and count its ``kernels``; ``saved`` is the size in bytes of the results
            that are not written to memory.
        depth: The number of decompositions around it.
        start: Seconds since the block began.
        seconds: The duration, including nested runs.
        own: The duration without nested runs.
        device: The seconds for which its kernels ran on the device, without nested runs
            and transfers; None if the backend does not measure them.
        inputs: Shapes and dtypes; None for an optional input that is not given.
        attrs: The attributes.
        outputs: Shapes and dtypes.
        bytes: The size of the outputs.
        alive: The bytes that all results of the block held after the run.
        moves: The values that were moved between backends for the run.
        scope: The names of the ``name_scope`` blocks around it, joined by ``/``. The
            runs of a gradient have the scope of the run that is differentiated.

    """

    kernel: str
    op: str
    backend: str
    how: str
    depth: int
    start: float
    seconds: float
    own: float
    device: float | None
    inputs: tuple[Spec | None, ...]
    attrs: dict[str, Any]
    outputs: tuple[Spec | None, ...]
    bytes: int
    alive: int
    moves: tuple[Move, ...]
    scope: str

    @property
    def title(self) -> str:
        """The name of the kernel, or of the region."""
        return str(self.attrs["region"]) if self.how == "region" else self.kernel


class Transfer(NamedTuple):
    """Values that were moved from the host to a backend, or back.

    Attributes:
        what: "upload" or "download".
        backend: The name of the backend.
        values: The shape and dtype of the values.
        bytes: The size of the values on the backend.
        start: Seconds since the block began.
        seconds: The duration.

    """

    what: str
    backend: str
    values: Spec
    bytes: int
    start: float
    seconds: float


class Alive:
    """The size of all results that are in use, in bytes: now, and at its peak."""

    now: int
    peak: int

    def __init__(self) -> None:
        self.now = self.peak = 0
        self._known: dict[int, weakref.ref[Any]] = {}
        self._lock = threading.RLock()  # any thread may drop the last handle

    def add(self, native: Native, home: Home) -> None:
        """Count the memory of ``native`` until it is freed."""
        held = owner(native)
        with self._lock:
            if id(held) in self._known:
                return
            size = home.runtime.arrays.nbytes(held)
            gone = partial(self._gone, id(held), size)
            with suppress(TypeError):  # NumPy's scalars have no weak references
                self._known[id(held)] = weakref.ref(held, gone)
                self.now += size
                self.peak = max(self.peak, self.now)

    def _gone(self, key: int, size: int, _: object) -> None:
        with self._lock:
            if self._known.pop(key, None) is not None:
                self.now -= size


class Profile:
    """The runs in a block of this thread; ``print`` shows a table sorted by cost.

    All work of a device between the ends of two runs is attributed to the later run,
    even if there is an error in between. This includes work for other threads, unless
    the backend distinguishes threads. For a backend that is opened in the block, device
    time is measured from the end of its first upload or run onward.

    Attributes:
        records: The runs, in the order in which they ended.
        transfers: Uploads and downloads, without those of moves between backends.
        seconds: The duration of the block, including the observers.

    """

    sees_regions = True  # jit replays, and reports kernels and regions

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.transfers: list[Transfer] = []
        self.seconds: float = 0.0
        self._alive = Alive()
        self._clocks: dict[OpenBackend, Clock] = {}
        self._thread = threading.current_thread()
        self._since = 0.0

    @property
    def kernel_seconds(self) -> float:
        """The seconds spent in kernels, decompositions and moves."""
        return _own(self.records)

    @property
    def device_seconds(self) -> float | None:
        """The seconds that kernels ran on devices; None if no backend measures them."""
        return _on_devices(self.records)

    @property
    def peak(self) -> int:
        """The peak size in bytes of the results of the block, with views of them.

        Memory that kernels need internally is not counted, nor are NumPy scalars.
        """
        return self._alive.peak

    @property
    def moved(self) -> int:
        """The bytes that were moved between backends."""
        return _moved(self.records)

    def __enter__(self) -> Profile:
        if self._since:
            raise RuntimeError(
                "profile: this block has been entered already; call profile() again "
                "for a new one"
            )
        with ExitStack() as self._stack:
            self._stack.enter_context(context.Scope(observer=self))
            synchronize()
            backends.watch(self._transferred)
            self._stack.callback(backends.unwatch, self._transferred)
            for backend in registry.opened.values():
                self._time(backend)
            self._stack = self._stack.pop_all()
        self._since = perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            synchronize()
            self.seconds = perf_counter() - self._since

    def __call__(
        self, kernel: Kernel, inputs: Inputs, attrs: dict[str, Any], outputs: Outputs
    ) -> None:
        """Record a run that has just ended."""
        run = running()
        assert run is not None  # the engine calls observers in a run
        waited, device = self._finish(run.where)
        for y in outputs:
            self._alive.add(y._data, y._home)
        what = kernel.name, kernel.op, run.where.name, run.how, _depth(run)
        seconds = run.seconds + waited
        times = run.start - self._since, seconds, seconds - run.inner, device
        values = specs(inputs), attrs, specs(outputs)
        size = sum(y._home.runtime.arrays.nbytes(y._data) for y in outputs)
        memory = size, self._alive.now, tuple(run.moves)
        scope = context.current().scope
        self.records.append(Record(*what, *times, *values, *memory, scope))

    def _finish(self, backend: OpenBackend) -> tuple[float, float | None]:
        """Wait for a run; return the time waited, and its time on the device."""
        clock = self._clocks.get(backend)
        start = perf_counter()
        try:
            wait(backend)
        finally:  # also after a run that failed
            waited = perf_counter() - start
            worked = clock.lap() if clock else None
        self._time(backend)
        return waited, worked

    def _time(self, backend: OpenBackend) -> None:
        """Measure the work of a device from now on, if its backend can."""
        arrays = backend.runtime.arrays
        if backend not in self._clocks and hasattr(arrays, "time_device"):
            clock = self._stack.enter_context(Clock(backend))
            clock.lap()
            self._clocks[backend] = clock

    def _transferred(
        self, what: str, backend: OpenBackend, native: Native, start: float
    ) -> None:
        """Record an upload or a download of this thread.

        Transfers that belong to a move are not recorded here: the run reports the move.
        """
        if backends.transferring.moves and running() is not None:
            return
        if what != "lend" and threading.current_thread() is self._thread:
            times = start - self._since, perf_counter() - start
            self._time(backend)  # it may have opened in the block
            size = backend.runtime.arrays.nbytes(native)
            values = Spec(native.shape, native.dtype)
            self.transfers.append(Transfer(what, backend.name, values, size, *times))

    # --- the table ---------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the table, with a bar for each time."""
        from plugrad._src.tensor.html import Bar, table  # only where it is needed

        rows = [*self._rows()]
        largest = max((float(row[SHARE]) for row in rows), default=0) or 1
        bars = [[*r[:1], Bar(float(r[SHARE]) / largest), *r[1:]] for r in rows]
        titles = [TITLES[0], "self time", *TITLES[1:]]
        text = {"self time", *TEXT_TITLES}
        return table("Profile", titles, bars, text_columns=text, notes=self._notes())

    def _lines(self) -> Iterator[str]:
        yield ROW.format(*TITLES)
        yield from (ROW.format(*row) for row in self._rows())
        yield from self._notes()

    def _rows(self) -> Iterator[list[str]]:
        """Yield the rows of the table: one for each kernel, backend and way to run."""
        groups: defaultdict[tuple[str, ...], list[Record]] = defaultdict(list)
        for r in self.records:
            groups[r.title, r.backend, r.how].append(r)
        total = self.kernel_seconds
        for key, found in sorted(groups.items(), key=lambda group: -_own(group[1])):
            own = _own(found)
            longest = max(found, key=attrgetter("own"))
            times = own, sum(r.seconds for r in found), _on_devices(found)
            yield [
                *key,
                str(len(found)),
                *map(_ms, times),
                f"{100 * own / total if total else 0:.1f}",
                f"{sum(r.bytes for r in found):,}",
                f"{_moved(found):,}",
                " ".join(map(brief, longest.inputs)) or "none",
            ]

    def _notes(self) -> Iterator[str]:
        """Yield the sums, the regions, the transfers and the slowest scopes."""
        total, busy = self.kernel_seconds, self.device_seconds
        device = "device time unknown" if busy is None else f"{_ms(busy)} ms on devices"
        yield (
            f"{len(self.records):,} runs: {_ms(total)} ms in kernels of "
            f"{_ms(self.seconds)} ms, {device}; at most {self.peak:,} bytes at once, "
            f"{self.moved:,} moved"
        )
        for r in {r.title: r for r in self.records if r.how == "region"}.values():
            yield (
                f"{r.title}, by {r.attrs['by']}: {r.attrs['kernels']}; "
                f"{r.attrs['saved']:,} bytes of intermediate results are not written"
            )
        for what in ("upload", "download"):
            if some := [t for t in self.transfers if t.what == what]:
                size = sum(t.bytes for t in some)
                spent = sum(t.seconds for t in some)
                yield f"{len(some):,} {what}s: {size:,} bytes in {_ms(spent)} ms"
        yield from self._scopes()

    def _scopes(self) -> Iterator[str]:
        """Yield a line for each of the scopes in which kernels took longest."""
        groups: defaultdict[str, list[Record]] = defaultdict(list)
        for r in self.records:
            if r.scope:
                groups[r.scope].append(r)
        slowest_first = sorted(groups.items(), key=lambda group: -_own(group[1]))
        total = self.kernel_seconds
        for scope, found in slowest_first[:MAX_SCOPES]:
            share = 100 * _own(found) / total if total else 0
            yield f"in {scope}: {_ms(_own(found))} ms, {share:.1f} %"
        if (rest := len(slowest_first) - MAX_SCOPES) > 0:
            yield f"and {rest:,} faster scopes; `records` contains all runs"

    # --- the trace ---------------------------------------------------------------

    def to_chrome_trace(self, path: str | os.PathLike[str], /) -> None:
        """Write the runs as a trace that ui.perfetto.dev and chrome://tracing open.

        Runs inside decompositions, moves, uploads and downloads are nested under their
        run; a counter shows the bytes that results held.
        """
        where = {"pid": os.getpid(), "tid": self._thread.native_id or 0}
        events = [where | event for event in self._events()]
        place = arguments.path("to_chrome_trace", path)
        with open(place, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)

    def _events(self) -> Iterator[dict[str, Any]]:
        yield {"ph": "M", "name": "process_name", "args": {"name": "plugrad"}}
        yield {"ph": "M", "name": "thread_name", "args": {"name": self._thread.name}}
        for r in sorted(self.records, key=attrgetter("start", "depth")):
            args = {
                "op": r.op,
                "backend": r.backend,
                "inputs": " ".join(map(brief, r.inputs)),
                "outputs": " ".join(map(brief, r.outputs)),
                **{name: repr(value) for name, value in r.attrs.items()},
                "device ms": r.device and r.device * 1e3,
                "bytes": r.bytes,
                "scope": r.scope,
            }
            yield _span(r.title, r.how, r.start, r.seconds, args)
            for m in r.moves:
                name = f"{m.source} to {m.target}"
                start = m.start - self._since
                yield _span(name, "move", start, m.seconds, {"bytes": m.bytes})
        for t in self.transfers:
            args = {"values": brief(t.values), "bytes": t.bytes}
            yield _span(f"{t.what} {t.backend}", t.what, t.start, t.seconds, args)
        for r in self.records:
            count = {"ts": (r.start + r.seconds) * 1e6, "args": {"bytes": r.alive}}
            yield {"ph": "C", "name": "bytes of results", **count}


def _span(
    name: str, kind: str, start: float, seconds: float, args: dict[str, Any]
) -> dict[str, Any]:
    spent = {"ts": start * 1e6, "dur": seconds * 1e6, "args": args}
    return {"ph": "X", "name": name, "cat": kind, **spent}


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3f}"


def _own(records: Iterable[Record]) -> float:
    return sum(r.own for r in records)


def _moved(records: Iterable[Record]) -> int:
    return sum(move.bytes for r in records for move in r.moves)


def _on_devices(records: Iterable[Record]) -> float | None:
    known = [r.device for r in records if r.device is not None]
    return sum(known) if known else None


def _depth(run: Run) -> int:
    return 0 if run.parent is None else 1 + _depth(run.parent)


def profile() -> Profile:
    """Return a context manager that records every run in its block.

    For each run of this thread, the block records the kernel, the backend, how it ran
    (implementation, decomposition, host, fallback), shapes, dtypes, times, bytes and
    moves. For the whole block, it records the peak memory of results. Runs inside a
    decomposition have a ``depth`` above 0. If the arrays of a backend have
    ``synchronize()``, the block waits for the end of each run. Updates that otherwise
    write in place copy their array, because the block looks at it.

    ``print(p)`` shows a table, the most expensive kernels first;
    ``p.to_chrome_trace(path)`` writes a file for https://ui.perfetto.dev; ``p.records``
    contains all data. ``p.transfers`` are uploads (``asarray``, constants of ops) and
    downloads (``numpy()``, ``item()``), which are not runs. ``p.device_seconds``, and
    ``device`` of each record, are the seconds for which kernels ran on the device; they
    are None for backends that do not measure them, such as cpu and wasm.

    Returns:
        A ``Profile``, which is a context manager.

    Example:
        >>> with pg.profile() as p:
        ...     y = pg.exp([1.0, 2.0])
        >>> [record.kernel for record in p.records]
        ['Exp']

    """
    return Profile()
