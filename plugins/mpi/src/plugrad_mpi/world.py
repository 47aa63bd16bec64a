"""The ranks of this job, and what ends it when one of them fails.

MPI starts when a function first needs it, and not with ``import plugrad_mpi``, which is
part of opening a backend. Then the process has a watchdog, a thread: if a collective
takes longer than ``PLUGRAD_MPI_TIMEOUT`` seconds, it asks all ranks to say where they
are, and ends the job. An exception that nothing catches ends the job, too.

Map: ``rank``, ``size``, ``barrier``; ``World``; the watchdog; where a rank is.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import os
import platform
import sys
import threading
from time import monotonic, sleep
from types import TracebackType
from typing import Any

import numpy as np

from .witness import Witness, start

PATIENCE = 600.0  # seconds, as of NCCL in PyTorch
STEP = 1e-3  # seconds between calls that have MPI advance what is under way
MAX_ALARM_S = 1e9  # seconds above which the C library takes no alarm; 30 years
GRACE = 3.0  # seconds that the ranks have to say where they are
ASK, ANSWER = 1, 2  # tags of messages without content
NOTHING = np.empty(0, np.uint8)


def _seconds() -> float:
    """Return the limit of a collective in seconds; infinity is none."""
    text = os.environ.get("PLUGRAD_MPI_TIMEOUT", str(PATIENCE))
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not found > 0:
        raise ValueError(
            f"plugrad_mpi: PLUGRAD_MPI_TIMEOUT={text}: use a number of seconds above "
            "0, or inf for no limit"
        )
    return found


def _wait_for_all_ranks_to_start() -> Any:
    """Import mpi4py, which starts MPI and waits there for all ranks.

    It holds Python's lock, so no thread of Python could end it. If another rank has
    ended before, ``faulthandler`` does, with a traceback that names this function.
    """
    limit = _seconds()
    if limit < MAX_ALARM_S:
        faulthandler.dump_traceback_later(max(limit, STEP), exit=True, file=2)
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"plugrad_mpi: mpi4py cannot load MPI ({error}); install one: pip install "
            "mpich, or use that of the cluster"
        ) from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    return MPI


class DivergenceError(RuntimeError):
    """With ``PLUGRAD_MPI_DEBUG=1``: the ranks do not run the same collective."""


def rank() -> int:
    """Return the number of this process: 0 to ``size() - 1``.

    Example:
        >>> mpi.rank()
        0

    """
    return world().rank


def size() -> int:
    """Return the number of processes; 1 without ``mpiexec``.

    Example:
        >>> mpi.size()
        1

    """
    return world().size


def barrier() -> None:
    """Wait until all ranks are here; ``jit`` does not record it.

    Example:
        >>> mpi.barrier()

    """
    with world().during("barrier") as comm:
        comm.Barrier()


class World:
    """All ranks of the job.

    Attributes:
        rank: The number of this process.
        size: The number of processes.
        mpi: The module ``mpi4py.MPI``.
        comm: The communicator of the collectives; ``MPI.COMM_WORLD`` is the user's.
        count: How many collectives this rank has begun.
        busy: The text of the collective that runs, and since when; None outside.
        under_way: Set while messages are under way that the rank does not wait for.
        witness: The process that says which rank was killed, if there is one.

    """

    def __init__(self) -> None:
        self.mpi, self.count = _wait_for_all_ranks_to_start(), 0
        self.comm = self.mpi.COMM_WORLD.Dup()
        self.rank, self.size = self.comm.rank, self.comm.size
        self.timeout = _seconds()
        self.debug = os.environ.get("PLUGRAD_MPI_DEBUG", "0") == "1"
        self.busy: tuple[tuple[Any, ...], float] | None = None
        self.under_way = threading.Event()
        self._last: tuple[Any, ...] = ("nothing", None, {})
        self._thread = threading.main_thread().ident or 0  # of the last collective
        self.witness: Witness | None = None
        if self.size > 1:
            self.witness = start(self.comm, self.mpi.COMM_TYPE_SHARED)

    def __jit_state__(self) -> tuple[int, int]:
        """Return what results depend on: ``jit`` need not compare the counters."""
        return self.rank, self.size

    def during(
        self, name: str, x: Any = None, together: bool = True, **attrs: Any
    ) -> World:
        """Note a collective for the block, which gets the communicator.

        Args:
            name: The kernel.
            x: The array that it takes.
            together: Whether all ranks take part, so that debug mode compares it.
            attrs: The attributes.

        """
        self._last = (name, x if x is None else (x.dtype, x.shape), attrs)
        self._thread = threading.get_ident()
        self.count += together
        self.busy = (self._last, monotonic())
        if self.debug and together and self.size > 1:
            self._compare()
        return self

    def __enter__(self) -> Any:
        return self.comm

    def __exit__(self, *_: object) -> None:
        self.busy = None

    def abort(self) -> None:
        """End the job on all ranks."""
        if self.witness is not None:
            self.witness.dismiss()
        self.comm.Abort(1)

    def _compare(self) -> None:
        """Raise on all ranks unless all run the same collective."""
        mine = described(self._last)
        found = self.comm.allgather((mine, _place(self._thread)))
        if len({what for what, _ in found}) > 1:
            self.busy = None
            lines = [f"  rank {n}: {x} at {at}" for n, (x, at) in enumerate(found)]
            raise DivergenceError(
                f"plugrad_mpi: the ranks differ in collective {self.count}; all must "
                "run the same ones in the same order:\n" + "\n".join(lines)
            )

    def where(self) -> str:
        """Return what this rank does, for messages."""
        if (busy := self.busy) is not None:
            what, since = described(busy[0]), monotonic() - busy[1]
            return f"waits in {what} for {since:.1f} s, at {_place(self._thread)}"
        last = described(self._last)
        return f"is in no collective, at {_place(self._thread)}; its last was {last}"


@functools.cache
def world() -> World:
    """Return all ranks; the first call begins to watch them."""
    found = World()
    if found.size > 1:
        if found.debug:
            where = f"process {os.getpid()} on {platform.node()}"
            _say(f"plugrad-mpi: rank {found.rank} of {found.size} is {where}")
        sys.excepthook = functools.partial(_end, found, sys.excepthook)
        watchdog = Watchdog(found)
        watchdog.start()
        atexit.register(watchdog.stop)
    return found


def described(run: tuple[Any, ...]) -> str:
    """Return a collective as messages name it."""
    name, spec, attrs = run
    words = [f"{key}={value!r}" for key, value in attrs.items()]
    if spec is not None:
        words.insert(0, f"{spec[0]} {spec[1]}")
    return f"{name}({', '.join(words)})" if words else name


def _end(
    here: World,
    shown: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Show an exception that nothing has caught, and end the job on all ranks."""
    import traceback  # 2 ms of every import of plugrad's backends

    shown(kind, error, trace)
    why = "".join(traceback.format_exception_only(error)).strip()
    _say(f"plugrad-mpi: rank {here.rank} of {here.size} ends the job: {why}")
    here.abort()


def _say(text: str) -> None:
    """Write a message at once, in one piece."""
    sys.stdout.flush()
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{text}\n".encode())


# --- the watchdog ------------------------------------------------------------------


class Watchdog(threading.Thread):
    """Ends the job if a collective takes too long; each rank says where it is.

    Most MPIs advance a message only inside of calls. While some are under way, it looks
    for questions of other ranks every ``STEP`` seconds, and these calls advance them.

    It uses a communicator of its own. If MPI does not allow calls of several threads,
    only this rank says where it is.
    """

    def __init__(self, here: World) -> None:
        super().__init__(name="plugrad-mpi watchdog", daemon=True)
        self.here, self.ended = here, threading.Event()
        threads = here.mpi.Query_thread() == here.mpi.THREAD_MULTIPLE
        self.comm: Any = here.comm.Dup() if threads else None
        self.sent: list[Any] = []  # messages that may be under way

    def stop(self) -> None:
        """End the thread, before MPI ends."""
        self.ended.set()
        self.here.under_way.set()
        self.join()
        if self.here.witness is not None and self.here.witness.process is not None:
            self.here.witness.dismiss()

    def run(self) -> None:
        """Look at this rank, and listen to the others, until the process ends."""
        step = min(0.5, max(STEP, self.here.timeout / 4))
        while not self.ended.is_set():
            if self.here.under_way.wait(step):
                sleep(STEP)
            if self.here.witness is not None and self.here.witness.saw():
                self.here.comm.Abort(1)  # where mpiexec leaves the others alone
            busy = self.here.busy
            if busy is not None and monotonic() - busy[1] > self.here.timeout:
                self.alarm()
            asking = self.messages(ASK)
            if asking:
                self.say("")
            self.sent += [self.comm.Isend(NOTHING, other, ANSWER) for other in asking]

    def say(self, why: str) -> None:
        """Write where this rank is."""
        here = self.here
        _say(f"plugrad-mpi: rank {here.rank} of {here.size} {here.where()}{why}")

    def messages(self, tag: int) -> list[int]:
        """Return the ranks that have sent a message."""
        found, status = [], self.here.mpi.Status()
        while self.comm is not None and self.comm.Iprobe(tag=tag, status=status):
            found.append(status.source)
            self.comm.Recv(np.empty(0, np.uint8), status.source, tag)
        return found

    def alarm(self) -> None:
        """Ask all ranks where they are, and end the job."""
        limit = f"{self.here.timeout:g} s (PLUGRAD_MPI_TIMEOUT)"
        self.say(f"; it has waited for {limit}, so the job ends")
        if self.comm is None:
            if self.here.witness is not None:
                self.here.witness.dismiss()
            os._exit(1)  # mpiexec ends the others
        silent = {*range(self.here.size)} - {self.here.rank}
        self.sent += [self.comm.Isend(NOTHING, other, ASK) for other in silent]
        deadline = monotonic() + GRACE
        while silent and monotonic() < deadline:
            sleep(0.05)
            for other in self.messages(ASK):
                self.comm.Send(NOTHING, other, ANSWER)
            silent -= {*self.messages(ANSWER)}
        if silent:
            ranks = ", ".join(map(str, sorted(silent)))
            _say(f"plugrad-mpi: no answer of rank {ranks}: it has ended or is stopped")
        self.here.abort()


# --- where a rank is ---------------------------------------------------------------


def _place(thread: int) -> str:
    """Return the file and line of the program that a thread is at.

    If it has ended, it is the main thread that is waited for.
    """
    frames = sys._current_frames()
    frame = frames.get(thread) or frames.get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith("plugrad"):
            break
        frame = frame.f_back
    if frame is None:
        return "an unknown place"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
