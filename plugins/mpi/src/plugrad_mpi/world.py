"""The ranks of this job, and the watchdog that ends it when one of them fails.

MPI starts when a function first needs it, not with ``import plugrad_mpi``, because
plugrad imports this package when it opens a backend. From then on, a watchdog thread
runs: if a collective takes longer than ``PLUGRAD_MPI_TIMEOUT`` seconds, the watchdog
makes all ranks report where they are, and ends the job. An uncaught exception ends the
job as well.

Contents: ``rank``, ``size``, ``barrier``; ``World``; the watchdog; the location of a
rank.
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

DEFAULT_TIMEOUT_S = 600.0  # the default of NCCL in PyTorch
POLL_INTERVAL_S = 1e-3  # between calls that make MPI advance pending messages
MAX_ALARM_S = 1e9  # about 30 years; the C library does not accept a longer alarm
ANSWER_TIMEOUT_S = 3.0  # how long to wait until the other ranks report where they are
ASK, ANSWER = 1, 2  # tags of empty messages
EMPTY_MESSAGE = np.empty(0, np.uint8)


def _timeout_s() -> float:
    """Return the time limit of a collective in seconds; infinity means no limit."""
    text = os.environ.get("PLUGRAD_MPI_TIMEOUT", str(DEFAULT_TIMEOUT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(
            f"plugrad_mpi: PLUGRAD_MPI_TIMEOUT={text}: use a number of seconds above "
            "0, or inf for no limit"
        )
    return seconds


def _wait_for_all_ranks_to_start() -> Any:
    """Import mpi4py, which starts MPI and waits in MPI_Init for all ranks.

    The import holds Python's global interpreter lock, so no Python thread could end it.
    If another rank has already ended, the import never returns; then ``faulthandler``
    ends this process with a traceback that names this function.
    """
    limit = _timeout_s()
    if limit < MAX_ALARM_S:
        faulthandler.dump_traceback_later(
            max(limit, POLL_INTERVAL_S), exit=True, file=2
        )
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"plugrad_mpi: mpi4py cannot load an MPI library ({error}); run pip "
            "install mpich, or use the library of the cluster"
        ) from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    return MPI


class DivergenceError(RuntimeError):
    """The ranks do not run the same collective; raised only in debug mode.

    ``PLUGRAD_MPI_DEBUG=1`` turns debug mode on.
    """


def rank() -> int:
    """Return the rank of this process: 0 to ``size() - 1``.

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
    """Wait until all ranks have called ``barrier``; ``jit`` does not record the call.

    Example:
        >>> mpi.barrier()

    """
    with world().during("barrier") as comm:
        comm.Barrier()


class World:
    """All ranks of the job.

    Attributes:
        rank: The rank of this process.
        size: The number of processes.
        mpi: The module ``mpi4py.MPI``.
        comm: The communicator of the collectives; ``MPI.COMM_WORLD`` is left to the
            program.
        count: The number of collectives that this rank has begun.
        busy: The running collective and its start time; None outside a collective.
        under_way: Set while there are pending messages for which no call waits.
        witness: The process that reports which rank was killed, if there is one.

    """

    def __init__(self) -> None:
        self.mpi = _wait_for_all_ranks_to_start()
        self.count = 0
        self.comm = self.mpi.COMM_WORLD.Dup()
        self.rank, self.size = self.comm.rank, self.comm.size
        self.timeout = _timeout_s()
        self.debug = os.environ.get("PLUGRAD_MPI_DEBUG", "0") == "1"
        self.busy: tuple[tuple[Any, ...], float] | None = None
        self.under_way = threading.Event()
        self._last: tuple[Any, ...] = ("nothing", None, {})
        self._thread = threading.main_thread().ident or 0  # runs collectives
        self.witness: Witness | None = None
        if self.size > 1:
            self.witness = start(self.comm, self.mpi.COMM_TYPE_SHARED)

    def __jit_state__(self) -> tuple[int, int]:
        """Return the state on which results depend; counters are not part of it."""
        return self.rank, self.size

    def during(
        self, name: str, x: Any = None, together: bool = True, **attrs: Any
    ) -> World:
        """Record a collective; ``with`` returns the communicator and ends the record.

        Args:
            name: The name of the kernel.
            x: The input array.
            together: Whether all ranks take part; only then debug mode compares them.
            attrs: The attributes of the kernel.

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
        """Raise on all ranks if the ranks do not run the same collective."""
        collective = format_collective(self._last)
        reports = self.comm.allgather((collective, _program_location(self._thread)))
        if len({x for x, _ in reports}) > 1:
            self.busy = None
            lines = [
                f"  rank {n}: {x} at {place}" for n, (x, place) in enumerate(reports)
            ]
            raise DivergenceError(
                f"plugrad_mpi: the ranks differ in collective {self.count}; all must "
                "run the same collectives in the same order:\n" + "\n".join(lines)
            )

    def where(self) -> str:
        """Describe what this rank is doing, for messages."""
        place = _program_location(self._thread)
        if (busy := self.busy) is not None:
            collective = format_collective(busy[0])
            waited = monotonic() - busy[1]
            return f"waits in {collective} for {waited:.1f} s, at {place}"
        last = format_collective(self._last)
        return f"is in no collective, at {place}; its last was {last}"


@functools.cache
def world() -> World:
    """Return the world of all ranks; the first call starts the watchdog."""
    the_world = World()
    if the_world.size > 1:
        if the_world.debug:
            where = f"process {os.getpid()} on {platform.node()}"
            _write_message(
                f"plugrad-mpi: rank {the_world.rank} of {the_world.size} is {where}"
            )
        sys.excepthook = functools.partial(_end_job, the_world, sys.excepthook)
        watchdog = Watchdog(the_world)
        watchdog.start()
        atexit.register(watchdog.stop)
    return the_world


def format_collective(run: tuple[Any, ...]) -> str:
    """Format a collective for messages."""
    name, spec, attrs = run
    words = [f"{key}={value!r}" for key, value in attrs.items()]
    if spec is not None:
        words.insert(0, f"{spec[0]} {spec[1]}")
    return f"{name}({', '.join(words)})" if words else name


def _end_job(
    here: World,
    show_exception: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Show an uncaught exception and end the job on all ranks."""
    import traceback  # here, because it would delay opening any backend by 2 ms

    show_exception(kind, error, trace)
    reason = "".join(traceback.format_exception_only(error)).strip()
    _write_message(
        f"plugrad-mpi: rank {here.rank} of {here.size} ends the job: {reason}"
    )
    here.abort()


def _write_message(text: str) -> None:
    """Write a message to stderr in a single unbuffered write."""
    sys.stdout.flush()
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{text}\n".encode())


# --- the watchdog ------------------------------------------------------------------


class Watchdog(threading.Thread):
    """Ends the job if a collective takes too long; each rank reports where it is.

    Most MPI libraries advance messages only inside calls. While messages are pending,
    the watchdog polls for questions from other ranks every ``POLL_INTERVAL_S`` seconds;
    these calls advance the messages.

    The watchdog uses its own communicator. If MPI does not allow calls from several
    threads, only this rank reports where it is.
    """

    def __init__(self, here: World) -> None:
        super().__init__(name="plugrad-mpi watchdog", daemon=True)
        self.here, self.ended = here, threading.Event()
        threads = here.mpi.Query_thread() == here.mpi.THREAD_MULTIPLE
        self.comm: Any = here.comm.Dup() if threads else None
        self.sent: list[Any] = []  # requests of messages that may be pending

    def stop(self) -> None:
        """End the thread before MPI ends."""
        self.ended.set()
        self.here.under_way.set()
        self.join()
        if self.here.witness is not None and self.here.witness.process is not None:
            self.here.witness.dismiss()

    def run(self) -> None:
        """Watch this rank and listen to the others until the process ends."""
        step = min(0.5, max(POLL_INTERVAL_S, self.here.timeout / 4))
        while not self.ended.is_set():
            if self.here.under_way.wait(step):
                sleep(POLL_INTERVAL_S)
            if self.here.witness is not None and self.here.witness.has_exited():
                self.here.comm.Abort(1)  # in case mpiexec does not end the other ranks
            busy = self.here.busy
            if busy is not None and monotonic() - busy[1] > self.here.timeout:
                self.alarm()
            asking = self.messages(ASK)
            if asking:
                self.report("")
            self.sent += [
                self.comm.Isend(EMPTY_MESSAGE, other, ANSWER) for other in asking
            ]

    def report(self, suffix: str) -> None:
        """Report where this rank is."""
        here = self.here
        _write_message(
            f"plugrad-mpi: rank {here.rank} of {here.size} {here.where()}{suffix}"
        )

    def messages(self, tag: int) -> list[int]:
        """Receive the messages with a tag; return the ranks that sent them."""
        senders = []
        status = self.here.mpi.Status()
        while self.comm is not None and self.comm.Iprobe(tag=tag, status=status):
            senders.append(status.source)
            self.comm.Recv(np.empty(0, np.uint8), status.source, tag)
        return senders

    def alarm(self) -> None:
        """Ask all ranks where they are and end the job."""
        limit = f"{self.here.timeout:g} s (PLUGRAD_MPI_TIMEOUT)"
        self.report(f"; it has waited for {limit}, so the job ends")
        if self.comm is None:
            if self.here.witness is not None:
                self.here.witness.dismiss()
            os._exit(1)  # mpiexec ends the other ranks
        silent = {*range(self.here.size)} - {self.here.rank}
        self.sent += [self.comm.Isend(EMPTY_MESSAGE, other, ASK) for other in silent]
        deadline = monotonic() + ANSWER_TIMEOUT_S
        while silent and monotonic() < deadline:
            sleep(0.05)
            for other in self.messages(ASK):
                self.comm.Send(EMPTY_MESSAGE, other, ANSWER)
            silent -= {*self.messages(ANSWER)}
        if silent:
            ranks = ", ".join(map(str, sorted(silent)))
            _write_message(
                f"plugrad-mpi: no answer from rank {ranks}: it has ended or is stopped"
            )
        self.here.abort()


# --- the location of a rank --------------------------------------------------------


def _program_location(thread: int) -> str:
    """Return the file and line of the program that a thread is executing.

    If the thread has ended, return the location of the main thread instead.
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
